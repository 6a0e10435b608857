/* SPDX-License-Identifier: Apache-2.0 */
/* The offline player: the policy of daemon/policy over the sessions of a trace. */
#include "client/ctl/replay_engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/base/parse.h"

void engine_default_settings(struct policy_settings *ret)
{
    policy_default_settings(ret);
    ret->allow_never = true; /* a trace is no production device */
}

static void apply_options(const struct replay_options *o, struct policy_settings *s)
{
    if (o->has_margin)
        s->margin = o->margin;
    if (o->has_cap_fraction)
        s->cap_fraction = o->cap_fraction;
    if (o->has_min_free)
        s->min_free = o->min_free;
    if (o->policy != POLICY_NONE)
        s->policy = o->policy;
    if (o->policy == POLICY_NEVER)
        s->allow_never = true;
}

const char *engine_check_options(const struct replay_options *o)
{
    struct policy_settings s;
    const char *key;

    engine_default_settings(&s);
    apply_options(o, &s);
    return policy_check_settings(&s, &key) < 0 ? key : NULL;
}

struct engine *engine_new(const struct replay_options *o)
{
    struct engine *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    e->options = o;
    engine_default_settings(&e->settings);
    apply_options(o, &e->settings);
    e->max_stagers_session = QUOTA_STAGERS_SESSION;
    engine_room_init(e);
    for (size_t i = 0; i < BUCKETS; i++)
        list_init(&e->buckets[i]);
    return e;
}

static void drop_stagers(struct played *p)
{
    struct stager *node;

    while ((node = ledger_pop(&p->policy.ledger)) != NULL)
        free(node);
}

static void forget(struct played *p)
{
    drop_stagers(p);
    list_remove(&p->link);
    free(p);
}

uint64_t engine_now_ns(const struct engine *e)
{
    return e->last_time_ns.v;
}

void engine_free(struct engine *e)
{
    if (!e)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        list_for_each(pos, tmp, &e->buckets[i]) forget(list_entry(pos, struct played, link));
    free(e);
}

struct played *engine_find(struct engine *e, uint64_t number)
{
    list_for_each(pos, tmp, &e->buckets[number % BUCKETS])
    {
        struct played *p = list_entry(pos, struct played, link);

        if (p->policy.number == number)
            return p;
    }
    return NULL;
}

/* The session of the line, NULL with the error written. */
struct played *engine_session(struct engine *e, const struct trace_line *line,
                              char ret_error[TRACE_ERROR_SIZE])
{
    uint64_t number = trace_get_u64(line, "s").v;
    struct played *p = engine_find(e, number);

    if (!p)
        replay_no_session(line, number, ret_error);
    return p;
}

void engine_answer_code(struct replay_result *ret, int code)
{
    ret->kind = code < 0 ? REPLAY_ERROR : REPLAY_OK;
    ret->code = code < 0 ? code : 0;
}

/* Reads a value that trace_parse has checked. */
static void take_double(const struct trace_line *line, const char *key, double *ret)
{
    const char *text = trace_get(line, key);

    if (text && parse_double(text, ret) < 0)
        *ret = -1.0; /* out of memory; no setting accepts it */
}

static int on_config(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                     char ret_error[TRACE_ERROR_SIZE])
{
    struct policy_settings s = e->settings;
    const char *policy = trace_get(line, "policy"), *mode = trace_get(line, "mode");
    const char *allow_never = trace_get(line, "allow_never");
    const char *limit = trace_get(line, "max_stagers_session"), *key;

    (void)ret;
    take_double(line, "margin", &s.margin);
    take_double(line, "cap_fraction", &s.cap_fraction);
    take_double(line, "min_free", &s.min_free);
    if (policy)
        s.policy = (enum policy)term_value(policy_terms, policy);
    if (mode)
        s.mode = (enum mode)term_value(mode_terms, mode);
    if (allow_never && parse_bool(allow_never, &s.allow_never) < 0)
        s.allow_never = false; /* cannot be: trace_parse has checked it */
    apply_options(e->options, &s);
    if (policy_check_settings(&s, &key) < 0) {
        const char *value = trace_get(line, key);

        snprintf(ret_error, TRACE_ERROR_SIZE, "config: %s: not allowed: %.80s", key,
                 value ? value : "-");
        return -1;
    }
    e->settings = s;
    engine_room_config(e, line);
    if (limit) {
        e->has_quota = parse_u64(limit, &e->max_stagers_session) == 0;
        if (!e->has_quota)
            e->max_stagers_session = QUOTA_STAGERS_SESSION;
    }
    return 0;
}

static void read_choice(const struct engine *e, const struct trace_line *line,
                        struct policy_choice *ret)
{
    const char *policy = trace_get(line, "policy"), *stage_end = trace_get(line, "stage_end");
    const char *features = trace_get(line, "features"), *mode = trace_get(line, "mode");

    *ret = (struct policy_choice){0};
    if (policy && e->options->policy == POLICY_NONE)
        ret->policy = (enum policy)term_value(policy_terms, policy);
    if (trace_get(line, "min_free") && !e->options->has_min_free) {
        ret->has_min_free = true;
        take_double(line, "min_free", &ret->min_free);
    }
    if (stage_end)
        ret->stage_end = (enum stage_end)term_value(stage_end_terms, stage_end);
    if (mode)
        ret->mode = (enum mode)term_value(mode_terms, mode);
    if (features) {
        ret->brackets = (replay_features(features) & FEATURE_BRACKETS) != 0;
        ret->partial = (replay_features(features) & FEATURE_PARTIAL) != 0;
    }
}

static int on_open(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                   char ret_error[TRACE_ERROR_SIZE])
{
    uint64_t number = trace_get_u64(line, "s").v;
    struct played *p = engine_find(e, number);
    struct policy_settings settings = e->settings;
    struct policy_choice choice;
    struct resume state;

    read_choice(e, line, &choice);
    if (trace_get_u64(line, "accepted").v)
        settings.allow_never = true;
    engine_answer_code(ret, policy_check_choice(&settings, &choice));
    if (ret->code < 0)
        return 0;
    if (p) { /* the head of a journal says again who is there; what it says is all of it */
        drop_stagers(p);
    } else {
        p = calloc(1, sizeof(*p));
        if (!p) {
            snprintf(ret_error, TRACE_ERROR_SIZE, "open: out of memory");
            return -1;
        }
        list_append(&e->buckets[number % BUCKETS], &p->link);
        arbiter_add(&e->arbiter, &p->tenant, &p->policy, number);
    }
    p->is_stale = p->is_partial = p->has_released = false;
    trace_get_resume(line, &state);
    if (!choice.brackets) /* R21; as the daemon does */
        state.busy = false;
    policy_session_init(&p->policy, number, &choice, &state);
    engine_room_open(e, p, line);
    return 0;
}

static int on_close(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                    char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p;

    ret->kind = REPLAY_OK;
    if (trace_get_u64(line, "s").v == 0) {
        engine_forget_operator(e);
        return 0;
    }
    p = engine_session(e, line, ret_error);
    if (!p)
        return -1;
    arbiter_remove(&e->arbiter, &p->tenant, engine_now_ns(e));
    forget(p);
    ret->kind = REPLAY_OK;
    return 0;
}

static void show_ledger(const struct played *p, enum replay_kind kind, struct replay_result *ret)
{
    ret->kind = kind;
    ret->staged_bytes = p->policy.ledger.staged_bytes;
    ret->stager_count = p->policy.ledger.count;
    ret->peak = p->policy.state.peak;
}

/* Brings the ledger of a session that is known in part to what the line says about it. */
static void take_recorded_ledger(struct played *p, const struct trace_line *line)
{
    const char *staged = trace_get_answer(line, "staged"),
               *count = trace_get_answer(line, "stagers");
    uint64_t staged_bytes, stager_count;

    if (staged && parse_u64(staged, &staged_bytes) == 0)
        p->policy.ledger.staged_bytes = staged_bytes;
    if (count && parse_u64(count, &stager_count) == 0 && stager_count <= UINT32_MAX)
        p->policy.ledger.count = (uint32_t)stager_count;
}

/* A daemon's quotas are not in its journal, so a refusal that it records is taken as it is; unless
 * the trace names the session's quota. */
static bool is_over_quota(const struct engine *e, const struct played *p,
                          const struct trace_line *line)
{
    const char *reason = trace_get_answer(line, "reason");

    if (ledger_find(&p->policy.ledger, trace_get(line, "id")))
        return false;
    if (e->has_quota)
        return p->policy.ledger.count >= e->max_stagers_session;
    return line->outcome == TRACE_ERROR && reason && strcmp(reason, error_word(ERR_LIMIT)) == 0 &&
           trace_get_u64(line, "bytes").v <= UINT64_MAX - p->policy.ledger.staged_bytes;
}

static int on_attach(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                     char ret_error[TRACE_ERROR_SIZE])
{
    const char *id = trace_get(line, "id");
    struct played *p = engine_session(e, line, ret_error);
    struct stager *node;
    int r;

    if (!p)
        return -1;
    if (is_over_quota(e, p, line)) {
        engine_answer_code(ret, ERR_LIMIT);
        return 0;
    }
    node = calloc(1, sizeof(*node));
    if (!node) {
        snprintf(ret_error, TRACE_ERROR_SIZE, "attach: out of memory");
        return -1;
    }
    node->staged_bytes = trace_get_u64(line, "bytes").v;
    snprintf(node->id, sizeof(node->id), "%s", id);
    r = policy_attach(&p->policy, node);
    if (r != 1)
        free(node);
    if (p->is_partial)
        take_recorded_ledger(p, line);
    if (r < 0)
        engine_answer_code(ret, r);
    else
        show_ledger(p, REPLAY_ATTACHED, ret);
    return 0;
}

static int on_detach(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                     char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    struct stager *node;

    if (!p)
        return -1;
    node = policy_detach(&p->policy, trace_get(line, "id"));
    if (p->is_partial)
        take_recorded_ledger(p, line);
    if (node || (p->is_partial && line->outcome == TRACE_OK)) {
        if (p->policy.ledger.staged_bytes == 0)
            policy_set_peak(&p->policy, 0); /* R3, of stagers that were not all listed */
        show_ledger(p, REPLAY_DETACHED, ret);
    } else {
        engine_answer_code(ret, ERR_UNKNOWN_STAGER);
    }
    free(node);
    return 0;
}

/* R11c */
static int on_set_peak(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                       char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    uint64_t peak = trace_get_u64(line, "peak").v;
    struct opt_u64 total =
        trace_get(line, "total") ? trace_get_u64(line, "total") : e->device_total;

    if (!p)
        return -1;
    if (total.has)
        peak = bytes_min(peak, total.v);
    policy_set_peak(&p->policy, peak);
    show_ledger(p, REPLAY_PEAK, ret);
    return 0;
}

static enum phase phase_of(const struct trace_line *line)
{
    return (enum phase)term_value(phase_terms, trace_get(line, "phase"));
}

static int on_warmup(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                     char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);

    if (!p)
        return -1;
    engine_answer_code(ret, policy_warmup(&p->policy, phase_of(line)));
    return 0;
}

static int on_sample(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                     char ret_error[TRACE_ERROR_SIZE])
{
    struct opt_u64 age_ns = trace_get_time(line, "age");
    const char *source = trace_get(line, "source");

    (void)ret;
    (void)ret_error;
    e->newest = (struct sample){
        .free = trace_get_u64(line, "free"),
        .total = trace_get_u64(line, "total"),
        .age_ns = age_ns.v,
        .source = source ? (enum source)term_value(source_terms, source) : SOURCE_NONE,
    };
    e->have_newest = e->newest.free.has || e->newest.total.has;
    e->have_age = age_ns.has;
    e->sample_time_ns = trace_get_time(line, "t");
    if (e->newest.total.has)
        e->device_total = e->newest.total;
    arbiter_sample(&e->arbiter, e->newest.free.has ? &e->newest : NULL, engine_now_ns(e));
    return 0;
}

/* R20: as reported, else cached minus residue */
static void fill_claim(const struct played *p, const struct boundary *b, struct replay_result *ret)
{
    if (!b->reserved.has || !b->allocated.has)
        return;
    ret->held_bytes = opt_u64(bytes_sub_sat(b->reserved.v, b->allocated.v));
    if (b->releasable.has)
        ret->claim_bytes = opt_u64(b->releasable.v);
    else
        ret->claim_bytes = opt_u64(bytes_sub_sat(ret->held_bytes.v, p->policy.state.residue.v));
    if (b->releasable.has)
        ret->held_bytes.v = bytes_min(ret->held_bytes.v, b->releasable.v);
}

/* How old the current sample is for a line; a trace that does not say leaves it open. */
static struct opt_u64 sample_age(const struct engine *e, const struct trace_line *line)
{
    struct opt_u64 now_ns = trace_get_time(line, "t");

    if (now_ns.has && e->sample_time_ns.has)
        return opt_u64(
            bytes_add_sat(bytes_sub_sat(now_ns.v, e->sample_time_ns.v), e->newest.age_ns));
    return e->have_age ? opt_u64(e->newest.age_ns) : opt_none();
}

static int on_ask(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    struct opt_u64 from_empty = trace_get_u64(line, "from_empty"), age_ns;
    struct policy_notice notice;
    struct others others;
    struct boundary b;
    struct sample newest = e->newest;
    uint64_t uncovered;

    if (!p)
        return -1;
    trace_get_boundary(line, &b);
    if (e->options->close_loop && p->has_released && from_empty.has && b.reserved.has)
        b.reserved = from_empty;
    age_ns = sample_age(e, line);
    newest.age_ns = age_ns.v;
    uncovered = p->policy.state.counts.uncovered;
    engine_room_boundary(e, p, line, &b, &others);
    policy_decide(&e->settings, &p->policy, &b, e->have_newest ? &newest : NULL, &others,
                  &ret->answer, &notice);
    if (ret->answer.decision == DECISION_RELEASE && !policy_is_forced(&p->policy, &b))
        arbiter_told(&e->arbiter, &p->tenant, engine_now_ns(e));
    if (ret->answer.age_ns.has && !(b.free.has && b.total.has))
        ret->answer.age_ns = age_ns;
    ret->kind = REPLAY_DECISION;
    ret->uncovered = p->policy.state.counts.uncovered > uncovered;
    if (ret->answer.total.has)
        ret->next_budget = opt_u64(policy_budget(&e->settings, &p->policy, ret->answer.total.v));
    fill_claim(p, &b, ret);
    p->has_released = ret->answer.would == DECISION_RELEASE;
    return 0;
}

static int on_released(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                       char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);

    if (!p)
        return -1;
    policy_released(&p->policy, trace_get_u64(line, "reserved").v,
                    trace_get_u64(line, "allocated").v);
    arbiter_reported(&e->arbiter, &p->tenant, true, trace_get_u64(line, "us").v, engine_now_ns(e));
    ret->kind = REPLAY_OK;
    return 0;
}

/* A ring too small for the state of its daemon begins with a part of it and says so. What then
 * cannot be known is taken as it is recorded. */
static int on_note(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                   char ret_error[TRACE_ERROR_SIZE])
{
    (void)ret;
    (void)ret_error;
    engine_room_note(e, line);
    if (!trace_get_u64(line, "cut").v)
        return 0;
    e->is_partial = true;
    for (size_t i = 0; i < BUCKETS; i++)
        list_for_each(pos, tmp, &e->buckets[i]) list_entry(pos, struct played, link)->is_partial =
            true;
    return 0;
}

/* A run of a daemon begins, or a piece of its journal: what an earlier one knew of the device is
 * over, and a sample that is current follows. */
static int on_clock(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                    char ret_error[TRACE_ERROR_SIZE])
{
    (void)line;
    (void)ret;
    (void)ret_error;
    e->device_total = opt_none();
    engine_room_clock(e);
    e->has_stale = true;
    for (size_t i = 0; i < BUCKETS; i++)
        list_for_each(pos, tmp, &e->buckets[i]) list_entry(pos, struct played, link)->is_stale =
            true;
    return 0;
}

static const handler_fn handlers[TRACE_VERB_MAX] = {
    [TRACE_CONFIG] = on_config,
    [TRACE_CLOCK] = on_clock,
    [TRACE_NOTE] = on_note,
    [TRACE_OPEN] = on_open,
    [TRACE_CLOSE] = on_close,
    [TRACE_ATTACH] = on_attach,
    [TRACE_DETACH] = on_detach,
    [TRACE_SET_PEAK] = on_set_peak,
    [TRACE_WARMUP] = on_warmup,
    [TRACE_BUSY] = engine_on_busy,
    [TRACE_SAMPLE] = on_sample,
    [TRACE_ASK] = on_ask,
    [TRACE_RELEASED] = on_released,
    [TRACE_IDLE] = engine_on_idle,
    [TRACE_OOM] = engine_on_oom,
    [TRACE_END] = engine_on_end,
    [TRACE_SET] = engine_on_set,
    [TRACE_LEASE] = engine_on_lease,
    [TRACE_UNLEASE] = engine_on_unlease,
};

/* Sessions of an earlier run that this one has not opened are gone, without a death. */
static void drop_stale(struct engine *e)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        list_for_each(pos, tmp, &e->buckets[i])
        {
            struct played *p = list_entry(pos, struct played, link);

            if (!p->is_stale)
                continue;
            p->policy.state.reserved = opt_none();
            arbiter_remove(&e->arbiter, &p->tenant, engine_now_ns(e));
            forget(p);
        }
    }
    e->has_stale = false;
}

static bool is_preamble(const struct trace_line *line)
{
    return line->verb == TRACE_OPEN || line->verb == TRACE_ATTACH || line->verb == TRACE_SAMPLE ||
           line->verb == TRACE_NOTE || line->verb == TRACE_CLOCK || line->verb == TRACE_CONFIG;
}

int engine_step(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                char ret_error[TRACE_ERROR_SIZE])
{
    struct opt_u64 now_ns = trace_get_time(line, "t");

    *ret = (struct replay_result){.kind = REPLAY_NOTHING};
    if (now_ns.has && e->last_time_ns.has && now_ns.v < e->last_time_ns.v) {
        snprintf(ret_error, TRACE_ERROR_SIZE, "%s: t: runs backwards: %.40s",
                 trace_verb_word(line->verb), trace_get(line, "t"));
        return -1;
    }
    if (now_ns.has)
        e->last_time_ns = now_ns;
    if (e->has_stale && !is_preamble(line))
        drop_stale(e);
    if (e->is_partial && line->verb != TRACE_OPEN && trace_get(line, "s")) {
        struct played *p = engine_find(e, trace_get_u64(line, "s").v);

        if (!p) {
            ret->kind = REPLAY_UNKNOWN;
            return 0;
        }
        if (p->is_partial && line->verb == TRACE_ASK)
            take_recorded_ledger(p, line);
    }
    if (!handlers[line->verb]) {
        ret->kind = REPLAY_PLANNED;
        return 0;
    }
    return handlers[line->verb](e, line, ret, ret_error);
}
