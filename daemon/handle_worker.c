/* SPDX-License-Identifier: Apache-2.0 */
/* What workers send: R1 to R4, R9, R11b, R11c, R12, R21, R26, R29. */
#include <stdio.h>
#include <string.h>

#include "daemon/dispatch.h"
#include "daemon/log.h"
#include "daemon/room.h"
#include "proto/base/error.h"
#include "proto/trace/trace.h"

static void fill_welcome(const struct session *s, enum mode wanted, struct wire_reply *reply)
{
    const struct service *v = s->service;
    struct wire_welcome *w = &reply->u.welcome;

    *w = (struct wire_welcome){
        .version = s->version,
        .features = FEATURE_BRACKETS | FEATURE_RECLAIM,
        .session = s->policy.number,
        .mode = wanted != MODE_NONE && wanted < v->settings.mode ? wanted : v->settings.mode,
        .margin = v->settings.margin,
        .cap_fraction = v->settings.cap_fraction,
        .min_free = v->settings.min_free,
        .policy = v->settings.policy,
        .allow_never = v->settings.allow_never,
        .oom_wait_ns = v->arbiter.limits.oom_wait_ns,
        .operator= s->policy.state.operator, };
    snprintf(w->daemon, sizeof(w->daemon), "%s", DLO_VERSION);
    if (v->sampler && sampler_device(v->sampler)->known)
        snprintf(w->uuid, sizeof(w->uuid), "%s", sampler_device(v->sampler)->uuid);
    reply->body = WIRE_WELCOME;
}

void session_welcome_again(struct session *s)
{
    fill_welcome(s, s->policy.choice.mode, &s->service->reply);
    session_reply(s, 0);
}

/* R11c: what a peer says of its peak is believed up to what the device has. */
static uint64_t clamp_peak(const struct service *v, uint64_t peak)
{
    struct opt_u64 total = service_device_total(v);

    return total.has ? bytes_min(peak, total.v) : peak;
}

static void take_identity(struct session *s, const struct wire_hello *hello)
{
    snprintf(s->name, sizeof(s->name), "%s",
             hello->name[0]    ? hello->name
             : hello->observer ? "observer"
                               : "worker");
    snprintf(s->group, sizeof(s->group), "%s", hello->group);
    s->rank = hello->rank;
    s->world = hello->world;
    s->features = hello->features;
}

/* R11a: the session is numbered and shown in the journal, but not opened. */
static void journal_refused_open(const struct session *s, int r)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    session_line_begin(s, &w, line, TRACE_OPEN);
    trace_put_text(&w, "name", s->name);
    if (s->policy.choice.policy != POLICY_NONE)
        trace_put_text(&w, "policy", policy_word((int)s->policy.choice.policy));
    session_line_answer(s, &w, r);
    session_line_end(s, &w);
}

int handle_hello(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    const struct wire_hello *hello = &request->u.hello;
    struct service *v = s->service;
    struct resume state = hello->state;
    struct policy_choice choice = {
        .policy = hello->policy,
        .has_min_free = hello->has_min_free,
        .min_free = hello->min_free,
        .stage_end = hello->stage_end,
        .brackets = hello->features & FEATURE_BRACKETS,
        .partial = hello->features & FEATURE_PARTIAL,
        .mode = hello->mode,
    };
    int r;

    if (hello->min_version > WIRE_VERSION_MAX || hello->max_version < WIRE_VERSION_MIN)
        return ERR_VERSION;
    s->version = hello->max_version < WIRE_VERSION_MAX ? hello->max_version : WIRE_VERSION_MAX;
    take_identity(s, hello);
    if (hello->observer || v->settings.mode == MODE_OFF) { /* R30: off, nobody is registered */
        s->state = SESSION_OBSERVER;
        fill_welcome(s, hello->mode, reply);
        return 0;
    }
    state.peak = clamp_peak(v, state.peak);
    if (!choice.brackets)
        state.busy = false;
    policy_session_init(&s->policy, ++v->last_number, &choice, hello->has_state ? &state : NULL);
    r = policy_check_choice(&v->settings, &choice);
    if (r < 0) {
        journal_refused_open(s, r);
        return r;
    }
    session_register(s);
    fill_welcome(s, hello->mode, reply);
    return 0;
}

static void fill_ledger(const struct session *s, struct wire_reply *reply)
{
    reply->body = WIRE_LEDGER;
    reply->u.ledger.staged_bytes = s->policy.ledger.staged_bytes;
    reply->u.ledger.stager_count = s->policy.ledger.count;
    reply->u.ledger.peak = s->policy.state.peak;
}

/* R1: counted against the quotas of session, user and daemon before it is stored. */
static int attach(struct session *s, const char *id, uint64_t staged_bytes)
{
    struct stager *node;
    int r;

    if (ledger_find(&s->policy.ledger, id))
        return 0;
    r = service_add_stager(s->service, s);
    if (r < 0)
        return r;
    node = calloc(1, sizeof(*node));
    if (node) {
        snprintf(node->id, sizeof(node->id), "%s", id);
        node->staged_bytes = staged_bytes;
        r = policy_attach(&s->policy, node);
    } else {
        r = ERR_NO_MEMORY;
    }
    if (r < 0) {
        free(node);
        service_drop_stager(s->service, s);
    }
    return r;
}

int handle_attach(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    int r = attach(s, request->u.attach.id, request->u.attach.staged_bytes);
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    session_line_begin(s, &w, line, TRACE_ATTACH);
    trace_put_text(&w, "id", request->u.attach.id);
    trace_put_u64(&w, "bytes", request->u.attach.staged_bytes);
    session_line_answer(s, &w, r);
    if (r >= 0) {
        trace_put_u64(&w, "staged", s->policy.ledger.staged_bytes);
        trace_put_u64(&w, "stagers", s->policy.ledger.count);
    }
    session_line_end(s, &w);
    fill_ledger(s, reply);
    return r < 0 ? r : 0;
}

int handle_detach(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct stager *node = policy_detach(&s->policy, request->u.detach.id);
    int r = node ? 0 : ERR_UNKNOWN_STAGER;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    if (node) {
        service_drop_stager(s->service, s);
        free(node);
    }
    session_line_begin(s, &w, line, TRACE_DETACH);
    trace_put_text(&w, "id", request->u.detach.id);
    session_line_answer(s, &w, r);
    if (r == 0) {
        trace_put_u64(&w, "staged", s->policy.ledger.staged_bytes);
        trace_put_u64(&w, "stagers", s->policy.ledger.count);
        trace_put_u64(&w, "peak", s->policy.state.peak);
    }
    session_line_end(s, &w);
    fill_ledger(s, reply);
    return r;
}

int handle_set_peak(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    uint64_t peak = clamp_peak(s->service, request->u.set_peak.peak);
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    policy_set_peak(&s->policy, peak);
    session_line_begin(s, &w, line, TRACE_SET_PEAK);
    trace_put_u64(&w, "peak", peak);
    trace_put_opt(&w, "total",
                  service_device_total(s->service)); /* what it was clamped to (R11c) */
    session_line_answer(s, &w, 0);
    trace_put_u64(&w, "peak", peak);
    session_line_end(s, &w);
    fill_ledger(s, reply);
    return 0;
}

static void journal_phase(const struct session *s, enum trace_verb verb, enum phase phase, int r)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    session_line_begin(s, &w, line, verb);
    trace_put_text(&w, "phase", phase_word((int)phase));
    session_line_answer(s, &w, r);
    session_line_end(s, &w);
}

int handle_warmup(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    int r = policy_warmup(&s->policy, request->u.warmup.phase);

    journal_phase(s, TRACE_WARMUP, request->u.warmup.phase, r);
    reply->body = WIRE_DONE;
    return r;
}

/* R9: the sample came, or its time is over. */
static void on_sample(struct sample_wait *wait, const struct sample *sample)
{
    struct session *s = list_entry(wait, struct session, wait);
    struct sample fresh;

    s->state = SESSION_WORKER;
    /* aged to the time of this turn, as the journal says it */
    if (sample && sampler_newest(s->service->sampler, s->service->now_ns, &fresh))
        sample = &fresh;
    session_decide(s, s->pending_seq, &s->pending, sample);
    if (s->state == SESSION_WORKER)
        s->io->pause(s->io_arg, false);
    room_act(s->service);
}

/* Can the answer be other than it is without a sample? */
static bool needs_sample(const struct session *s, const struct boundary *b)
{
    bool advised = b->force == FORCE_STAGE_END && s->policy.choice.stage_end == STAGE_END_ADVISE;

    if (b->force != FORCE_NONE && !advised)
        return false; /* R4 */
    if (b->free.has && b->total.has)
        return false;                           /* R11b */
    return b->reserved.has && b->allocated.has; /* else R6 */
}

int handle_ask(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    const struct boundary *b = &request->u.ask;
    struct service *v = s->service;
    struct sample sample;

    (void)reply;
    if (!needs_sample(s, b) || !v->sampler || v->config->telemetry == BACKEND_WORKER) {
        session_decide(s, request->seq, b, NULL);
        return HANDLED_LATER;
    }
    if (sampler_newest(v->sampler, v->now_ns, &sample) &&
        sample.age_ns <= v->config->sample_max_age) {
        session_decide(s, request->seq, b, &sample);
        return HANDLED_LATER;
    }
    s->pending = *b;
    s->pending_seq = request->seq;
    s->state = SESSION_WAITING;
    s->wait.done = on_sample;
    s->io->pause(s->io_arg, true);
    sampler_wait(v->sampler, &s->wait, v->now_ns);
    return HANDLED_LATER;
}

/* R26 */
int handle_released(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    uint64_t reserved = request->u.released.reserved, allocated = request->u.released.allocated;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    policy_released(&s->policy, reserved, allocated);
    arbiter_reported(&s->service->arbiter, &s->tenant, true, request->u.released.us,
                     s->service->now_ns);
    if (proof_reported(&s->proof, reserved, allocated, request->u.released.us, s->service->now_ns))
        session_log(s, LOG_LEVEL_DEBUG, "a release gave nothing back (R26, component %s)",
                    s->component[0] ? s->component : "-");
    session_line_begin(s, &w, line, TRACE_RELEASED);
    trace_put_u64(&w, "reserved", reserved);
    trace_put_u64(&w, "allocated", allocated);
    trace_put_u64(&w, "us", request->u.released.us);
    session_line_answer(s, &w, 0);
    session_line_end(s, &w);
    reply->body = WIRE_DONE;
    return 0;
}

/* R29: absolute, so it can be said again. */
int handle_resume(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    s->policy.state = request->u.resume.state;
    s->policy.state.peak = clamp_peak(s->service, s->policy.state.peak);
    if (!s->policy.choice.brackets)
        s->policy.state.busy = false;
    session_journal_state(s, s->service->journal);
    reply->body = WIRE_DONE;
    return 0;
}
