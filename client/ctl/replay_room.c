/* SPDX-License-Identifier: Apache-2.0 */
/* Replay of R20 to R24a: lines that tell the arbiter something, and those that it answers. */
#include <string.h>

#include "client/ctl/replay_engine.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

/* What daemon/config.def has, for traces without a config line; a test keeps them alike. */
static const struct arbiter_limits default_limits = {
    .oom_wait_ns = 5 * ARBITER_S,
    .busy_wait_ns = ARBITER_S / 5,
    .dead_wait_ns = 20 * ARBITER_S,
    .sample_timeout_ns = ARBITER_S / 10,
    .quiet_reserve = UINT64_C(512) << 20,
};

void engine_room_init(struct engine *e)
{
    arbiter_init(&e->arbiter, &e->settings, &default_limits);
    arbiter_add(&e->arbiter, &e->operator, NULL, 0);
}

static void take_time(const struct trace_line *line, const char *key, uint64_t *ret_ns)
{
    struct opt_u64 ns = trace_get_time(line, key);

    if (ns.has)
        *ret_ns = ns.v;
}

void engine_room_config(struct engine *e, const struct trace_line *line)
{
    take_time(line, "oom_wait", &e->arbiter.limits.oom_wait_ns);
    take_time(line, "dead_wait", &e->arbiter.limits.dead_wait_ns);
    take_time(line, "busy_wait", &e->arbiter.limits.busy_wait_ns);
    take_time(line, "sample_timeout", &e->arbiter.limits.sample_timeout_ns);
    if (trace_has(line, "quiet_reserve"))
        e->arbiter.limits.quiet_reserve = trace_get_u64(line, "quiet_reserve").v;
}

void engine_room_open(struct engine *e, struct played *p, const struct trace_line *line)
{
    struct tenant *t = &p->tenant;

    t->is_idle = trace_get_u64(line, "idle").v != 0;
    t->is_background = trace_get_u64(line, "background").v != 0;
    t->releasable = trace_get_u64(line, "releasable");
    t->unreleasable = trace_get_u64(line, "unreleasable");
    t->charge = trace_get_u64(line, "charge").v;
    t->slowest_ns = trace_get_time(line, "slowest").v;
    t->was_busy = trace_get(line, "busy_at") != NULL;
    t->last_busy_ns = trace_get_time(line, "busy_at").v;
    t->late_until_ns = trace_get_time(line, "late_until").v;
    t->pid = trace_get_u64(line, "pid").v;
    t->hold = (struct hold){
        .bytes = trace_get_u64(line, "hold").v,
        .before_bytes = trace_get_u64(line, "hold_before").v,
        .ends_ns = trace_get_time(line, "hold_ends").v,
        .quiet_ends_ns = trace_get_time(line, "hold_quiet").v,
    };
    if (trace_get(line, "lease"))
        t->lease = (enum lease)term_value(lease_terms, trace_get(line, "lease"));
    t->lease_ends_ns = trace_get_time(line, "lease_ends").v;
    t->told_ns = trace_get_time(line, "told_at").v;
    if (trace_get(line, "most")) {
        t->reports = (struct reports){.reserved = {trace_get_u64(line, "most").v},
                                      .count = 1,
                                      .next = 1,
                                      .last_ns = trace_get_time(line, "reported_at").v};
    }
    if (trace_get(line, "granted_at")) {
        e->arbiter.granted = t;
        e->arbiter.granted_ns = trace_get_time(line, "granted_at").v;
    }
}

static void take_ghost(struct engine *e, const struct trace_line *line)
{
    for (size_t i = 0; i < ARBITER_GHOSTS; i++) {
        struct ghost *g = &e->arbiter.ghosts[i];

        if (g->bytes != 0)
            continue;
        g->bytes = trace_get_u64(line, "bytes").v;
        g->free_bytes = trace_get_u64(line, "free").v;
        g->died_ns = trace_get_time(line, "died").v;
        return;
    }
}

void engine_room_clock(struct engine *e)
{
    struct arbiter *a = &e->arbiter;

    a->last_event = 0;
    a->resumes_ns = 0;
    a->settling = (struct settling){0};
    a->newest = (struct sample){0};
    memset(a->ghosts, 0, sizeof(a->ghosts));
    e->foreign_calls = 0;
}

void engine_room_note(struct engine *e, const struct trace_line *line)
{
    struct arbiter *a = &e->arbiter;

    if (strcmp(trace_get(line, "text"), "ghost") == 0 && trace_get(line, "died"))
        take_ghost(e, line);
    if (strcmp(trace_get(line, "text"), "room") != 0 || !trace_get(line, "events"))
        return;
    a->last_event = trace_get_u64(line, "events").v;
    a->resumes_ns = trace_get_time(line, "resumes").v;
    a->settling = (struct settling){.rests_until_ns = trace_get_time(line, "rests").v};
    if (a->waiting == 0) /* else this trace has their begin */
        e->foreign_calls = trace_get_u64(line, "calls").v;
    if (trace_get(line, "newest")) {
        a->newest.free = trace_get_u64(line, "newest");
        a->newest_ns = trace_get_time(line, "taken").v;
    }
}

bool engine_is_torn(const struct engine *e)
{
    return e->foreign_calls > 0 || e->is_partial;
}

static enum phase phase_of(const struct trace_line *line)
{
    return (enum phase)term_value(phase_terms, trace_get(line, "phase"));
}

static struct opt_u64 known(const struct trace_line *line, const char *key)
{
    return trace_get(line, key) ? trace_get_u64(line, key) : opt_none();
}

/* In a torn piece a request may stand that is not in it: then what was recorded holds. */
static void take_recorded_reason(const struct engine *e, const struct trace_line *line,
                                 struct others *others)
{
    const char *reason = trace_get_answer(line, "reason");

    if (!engine_is_torn(e) || !reason)
        return;
    others->quiet = strcmp(reason, reason_word(REASON_QUIET)) == 0;
    others->reclaims = strcmp(reason, reason_word(REASON_RECLAIM)) == 0;
    others->neighbour_need = strcmp(reason, reason_word(REASON_NEIGHBOUR_NEED)) == 0;
}

void engine_room_boundary(struct engine *e, struct played *p, const struct trace_line *line,
                          const struct boundary *b, struct others *ret)
{
    *ret = (struct others){0};
    if (policy_is_forced(&p->policy, b))
        return;
    arbiter_boundary(&e->arbiter, &p->tenant, b, engine_now_ns(e), ret);
    take_recorded_reason(e, line, ret);
}

int engine_on_busy(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                   char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    struct opt_u64 need = known(line, "need"), wait_ns = trace_get_time(line, "wait");
    struct others others;
    int r;

    if (!p)
        return -1;
    r = policy_busy(&p->policy, phase_of(line));
    engine_answer_code(ret, r);
    if (r < 0)
        return 0;
    policy_report(&p->policy, known(line, "reserved"), known(line, "allocated"));
    if (phase_of(line) == PHASE_BEGIN) {
        (void)!arbiter_busy_begin(&e->arbiter, &p->tenant, need,
                                  wait_ns.has ? wait_ns.v : UINT64_MAX,
                                  trace_get_u64(line, "call").v, engine_now_ns(e));
        return 0;
    }
    arbiter_busy_end(&e->arbiter, &p->tenant, need, engine_now_ns(e), &others);
    take_recorded_reason(e, line, &others);
    ret->reason = policy_bracket_end(&p->policy, &others);
    if (ret->reason != REASON_NONE) {
        ret->kind = REPLAY_VACATED;
        arbiter_told(&e->arbiter, &p->tenant, engine_now_ns(e));
    }
    return 0;
}

int engine_on_idle(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                   char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);

    if (!p)
        return -1;
    engine_answer_code(ret,
                       arbiter_idle(&e->arbiter, &p->tenant, phase_of(line),
                                    trace_get_u64(line, "background").v != 0, engine_now_ns(e)));
    return 0;
}

int engine_on_oom(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p;

    if (trace_get_u64(line, "s").v == 0) {
        engine_answer_code(ret, arbiter_operator(&e->arbiter, &e->operator,
                                                 trace_get_u64(line, "need").v,
                                                 trace_get_u64(line, "target").v,
                                                 trace_get_u64(line, "only_ready").v != 0,
                                                 trace_get_u64(line, "call").v, engine_now_ns(e)));
        return 0;
    }
    p = engine_session(e, line, ret_error);
    if (!p)
        return -1;
    policy_report(&p->policy, known(line, "reserved"), known(line, "allocated"));
    engine_answer_code(ret, arbiter_oom(&e->arbiter, &p->tenant, trace_get_u64(line, "need").v,
                                        trace_get_u64(line, "call").v, engine_now_ns(e)));
    return 0;
}

/* What the trace leaves out is what R25 says. */
int engine_on_lease(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                    char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    struct lease_wish wish = {
        .kind = (enum lease)term_value(lease_terms, trace_get(line, "kind")),
        .bytes = trace_get_u64(line, "bytes").v,
        .quiet_ns = trace_get_time(line, "quiet").v,
        .wait_ns = 2 * ARBITER_S,
        .term_ns = 120 * ARBITER_S,
    };

    if (!p)
        return -1;
    take_time(line, "wait", &wish.wait_ns);
    take_time(line, "term", &wish.term_ns);
    engine_answer_code(ret, arbiter_lease(&e->arbiter, &p->tenant, &wish,
                                          trace_get_u64(line, "call").v, engine_now_ns(e)));
    return 0;
}

int engine_on_unlease(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                      char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    const char *kind = trace_get(line, "kind");

    if (!p)
        return -1;
    engine_answer_code(
        ret, arbiter_unlease(&e->arbiter, &p->tenant,
                             kind ? (enum lease)term_value(lease_terms, kind) : LEASE_BYTES,
                             engine_now_ns(e)));
    return 0;
}

void engine_forget_operator(struct engine *e)
{
    arbiter_remove(&e->arbiter, &e->operator, engine_now_ns(e));
    arbiter_add(&e->arbiter, &e->operator, NULL, 0);
}

/* R31 */
int engine_on_set(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE])
{
    struct played *p = engine_session(e, line, ret_error);
    const char *priority = trace_get(line, "priority");
    int64_t wanted = 0;
    struct operator_change change = {
        .revision = trace_get_u64(line, "rev").v,
        .has_cap = trace_has(line, "cap"),
        .has_pin = trace_has(line, "pin"),
        .has_priority = priority && parse_i64(priority, &wanted) == 0,
        .cap_bytes = trace_get_u64(line, "cap"),
        .pin_bytes = trace_get_u64(line, "pin"),
    };

    if (!p)
        return -1;
    if (wanted < -PRIORITY_MAX || wanted > PRIORITY_MAX) {
        snprintf(ret_error, TRACE_ERROR_SIZE, "set: priority: not from -%d to %d: %s", PRIORITY_MAX,
                 PRIORITY_MAX, priority);
        return -1;
    }
    change.priority = (int32_t)wanted;
    ret->kind = REPLAY_SET;
    ret->code = policy_set(&p->policy, &change);
    ret->revision = p->policy.state.operator.revision;
    return 0;
}

/* ---- what the arbiter does ---- */

static struct played *told(struct engine *e, uint64_t call)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        list_for_each(pos, tmp, &e->buckets[i])
        {
            struct played *p = list_entry(pos, struct played, link);

            if (p->told_call == call)
                return p;
        }
    }
    return NULL;
}

/* Has that call begun in this trace? */
static bool waits(const struct engine *e, uint64_t call)
{
    list_for_each(pos, tmp, &e->arbiter.tenants)
    {
        const struct wait *w = &list_entry(pos, struct tenant, link)->wait;

        if (w->kind != WAIT_NONE && w->call == call)
            return true;
    }
    return false;
}

/* A worker's answer to a reclaim; the others are the arbiter's own (engine_is_output). */
int engine_on_end(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE])
{
    uint64_t call = trace_get_u64(line, "call").v;
    struct played *p = trace_get(line, "s") ? engine_session(e, line, ret_error) : told(e, call);
    const char *reserved = trace_get_answer(line, "reserved"),
               *allocated = trace_get_answer(line, "allocated"), *us = trace_get_answer(line, "us");
    uint64_t reserved_bytes, allocated_bytes, took_us = 0;
    bool did = line->outcome == TRACE_DONE;

    ret->kind = REPLAY_TAKEN;
    if (!p)
        return -1; /* engine_is_output has seen that somebody was asked by that number */
    if (did && (!reserved || !allocated || parse_u64(reserved, &reserved_bytes) < 0 ||
                parse_u64(allocated, &allocated_bytes) < 0)) {
        snprintf(ret_error, TRACE_ERROR_SIZE, "end: reserved and allocated: missing");
        return -1;
    }
    if (us && parse_u64(us, &took_us) < 0)
        took_us = 0;
    if (did)
        policy_released(&p->policy, reserved_bytes, allocated_bytes);
    if (arbiter_reclaimed(&e->arbiter, &p->tenant,
                          p->told_call == call ? p->tenant.reclaim.call : 0, did, took_us,
                          engine_now_ns(e)) < 0 &&
        did)
        arbiter_reported(&e->arbiter, &p->tenant, true, took_us, engine_now_ns(e));
    if (p->told_call == call)
        p->told_call = 0;
    return 0;
}

bool engine_is_output(struct engine *e, const struct trace_line *line)
{
    uint64_t call;

    if (line->verb == TRACE_RECLAIM) {
        struct played *p = engine_find(e, trace_get_u64(line, "s").v);

        if (p)
            p->told_call = trace_get_u64(line, "call").v;
        return true;
    }
    call = trace_get_u64(line, "call").v;
    if (line->verb != TRACE_END || trace_get(line, "s") || (call != 0 && told(e, call)))
        return false;
    if (e->foreign_calls > 0 && !waits(e, call))
        e->foreign_calls--; /* of a call that was there before */
    return true;
}

void engine_let_pass(struct engine *e, const struct trace_line *line)
{
    struct opt_u64 now_ns = trace_get_time(line, "t");

    if (now_ns.has)
        e->last_time_ns = now_ns;
    arbiter_tick(&e->arbiter, engine_now_ns(e));
}

static void write_action(const struct engine *e, const struct action *a, struct trace_writer *w)
{
    if (a->kind == ACTION_RECLAIM) {
        trace_put_u64(w, "s", a->tenant->number);
        trace_put_u64(w, "event", a->event);
        trace_put_u64(w, "call", a->call);
        trace_put_u64(w, "bytes", a->bytes);
        trace_put_time(w, "deadline", a->timeout_ns);
    } else {
        trace_put_u64(w, "call", a->call);
    }
    if (e->last_time_ns.has)
        trace_put_time(w, "t", e->last_time_ns.v);
    if (a->kind == ACTION_END)
        trace_put_wait_end(w, a->end, a->freed, a->free);
}

bool engine_next_output(struct engine *e, struct trace_line *ret)
{
    char text[TRACE_LINE_MAX + 1], error[TRACE_ERROR_SIZE];
    struct trace_writer w;
    struct action action;

    do {
        if (!arbiter_next(&e->arbiter, &action))
            return false;
    } while (action.kind == ACTION_HELD); /* a notice, and no line of its own */
    trace_begin(&w, text, sizeof(text), action.kind == ACTION_RECLAIM ? TRACE_RECLAIM : TRACE_END);
    write_action(e, &action, &w);
    return trace_parse(text, trace_finish(&w), ret, error) == 0;
}
