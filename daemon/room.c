/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/room.h"

#include <inttypes.h>

#include "daemon/log.h"
#include "daemon/session.h"

struct arbiter_limits room_limits(const struct config *c)
{
    return (struct arbiter_limits){
        .oom_wait_ns = c->oom_wait,
        .busy_wait_ns = c->busy_wait,
        .dead_wait_ns = c->dead_wait,
        .sample_timeout_ns = c->sample_timeout,
        .quiet_reserve = c->quiet_reserve,
    };
}

void room_init(struct service *v)
{
    const struct arbiter_limits limits = room_limits(v->config);

    arbiter_init(&v->arbiter, &v->settings, &limits);
    arbiter_add(&v->arbiter, &v->operator, NULL, 0);
    v->arbiter.resumes_ns = v->started_ns + v->config->resume_window; /* R29 */
    list_init(&v->room_sample.link);
}

void room_sampled(struct service *v, const struct sample *sample)
{
    arbiter_sample(&v->arbiter, sample->free.has ? sample : NULL, v->now_ns);
    room_act(v);
}

/* The reading itself goes to room_sampled, as each one does. */
static void on_room_sample(struct sample_wait *wait, const struct sample *sample)
{
    (void)sample;
    container_of(wait, struct service, room_sample)->is_room_sample_due = false;
}

static void want_sample(struct service *v)
{
    static const struct sample none = {0};

    if (v->sampler && v->config->telemetry != BACKEND_WORKER) {
        v->room_sample.done = on_room_sample;
        v->is_room_sample_due = true;
        sampler_wait(v->sampler, &v->room_sample, v->now_ns);
        return;
    }
    journal_reserve(v->journal);
    service_journal_sample(v, &none, v->journal);
    room_sampled(v, &none);
}

static void tell_reclaim(struct session *s, const struct action *a)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    session_line_begin(s, &w, line, TRACE_RECLAIM);
    trace_put_u64(&w, "event", a->event);
    trace_put_u64(&w, "call", a->call);
    trace_put_u64(&w, "bytes", a->bytes);
    trace_put_time(&w, "deadline", a->timeout_ns);
    trace_put_time(&w, "t", s->service->now_ns);
    session_line_end(s, &w);
    s->service->reply.body = WIRE_RECLAIM;
    s->service->reply.u.reclaim = (struct wire_reclaim){
        .event = a->event,
        .call = a->call,
        .bytes = a->bytes,
        .timeout_ns = a->timeout_ns,
    };
    session_reply(s, 0);
}

static void tell_held(struct session *s, const struct action *a)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, line, sizeof(line), TRACE_NOTE);
    trace_put_text(&w, "text", "held: its call may take longer");
    trace_put_u64(&w, "s", s->policy.number);
    trace_put_time(&w, "t", s->service->now_ns);
    session_line_end(s, &w);
    s->service->reply.body = WIRE_HELD;
    s->service->reply.u.held.timeout_ns = a->timeout_ns;
    session_reply(s, 0);
}

static void tell_end(struct session *s, const struct action *a)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, line, sizeof(line), TRACE_END);
    trace_put_u64(&w, "call", a->call);
    trace_put_time(&w, "t", s->service->now_ns);
    trace_put_wait_end(&w, a->end, a->freed, a->free);
    session_line_end(s, &w);
    s->service->reply.body = WIRE_WAIT_END;
    s->service->reply.u.wait_end = (struct wire_wait_end){a->end, a->freed, a->free};
    session_reply(s, s->call_seq);
}

static void carry_out(struct service *v, const struct action *a)
{
    struct session *s =
        a->tenant == &v->operator? v->operated_by : container_of(a->tenant, struct session, tenant);

    if (a->tenant == &v->operator)
        v->operated_by = NULL;
    journal_reserve(v->journal);
    if (a->kind == ACTION_RECLAIM)
        tell_reclaim(s, a);
    else if (a->kind == ACTION_HELD)
        tell_held(s, a);
    else
        tell_end(s, a);
}

void room_journal(const struct service *v, struct journal *j)
{
    const struct arbiter *a = &v->arbiter;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    if (a->last_event == 0 && !a->newest.free.has && v->now_ns >= a->resumes_ns)
        return;
    trace_begin(&w, line, sizeof(line), TRACE_NOTE);
    trace_put_text(&w, "text", "room");
    trace_put_u64(&w, "events", a->last_event);
    trace_put_u64(&w, "calls", a->waiting); /* whose begin is not in this piece */
    if (a->newest.free.has) {
        trace_put_u64(&w, "newest", a->newest.free.v);
        trace_put_time(&w, "taken", a->newest_ns);
    }
    if (v->now_ns < a->resumes_ns)
        trace_put_time(&w, "resumes", a->resumes_ns);
    if (v->now_ns < a->settling.rests_until_ns)
        trace_put_time(&w, "rests", a->settling.rests_until_ns);
    trace_put_time(&w, "t", v->now_ns);
    journal_append(j, line, trace_finish(&w));
    for (size_t i = 0; i < ARBITER_GHOSTS; i++) {
        const struct ghost *g = &a->ghosts[i];

        if (g->bytes == 0)
            continue;
        trace_begin(&w, line, sizeof(line), TRACE_NOTE);
        trace_put_text(&w, "text", "ghost");
        trace_put_u64(&w, "bytes", g->bytes);
        trace_put_u64(&w, "free", g->free_bytes);
        trace_put_time(&w, "died", g->died_ns);
        journal_append(j, line, trace_finish(&w));
    }
}

void room_put_tenant(const struct session *s, struct trace_writer *w)
{
    const struct tenant *t = &s->tenant;

    if (t->is_idle)
        trace_put_u64(w, "idle", 1);
    if (t->is_background)
        trace_put_u64(w, "background", 1);
    if (t->releasable.has)
        trace_put_u64(w, "releasable", t->releasable.v);
    if (t->unreleasable.has)
        trace_put_u64(w, "unreleasable", t->unreleasable.v);
    if (t->charge)
        trace_put_u64(w, "charge", t->charge);
    if (t->slowest_ns)
        trace_put_time(w, "slowest", t->slowest_ns);
    if (t->was_busy)
        trace_put_time(w, "busy_at", t->last_busy_ns);
    if (t->late_until_ns > s->service->now_ns)
        trace_put_time(w, "late_until", t->late_until_ns);
    if (t->hold.bytes && s->service->now_ns < t->hold.ends_ns) {
        trace_put_u64(w, "hold", t->hold.bytes);
        trace_put_u64(w, "hold_before", t->hold.before_bytes);
        trace_put_time(w, "hold_ends", t->hold.ends_ns);
        if (t->hold.quiet_ends_ns)
            trace_put_time(w, "hold_quiet", t->hold.quiet_ends_ns);
    }
    if (arbiter_leased(&s->service->arbiter, t) != LEASE_NONE) {
        trace_put_text(w, "lease", lease_word((int)t->lease));
        trace_put_time(w, "lease_ends", t->lease_ends_ns);
    }
    if (t->reports.count) {
        trace_put_u64(w, "most", reports_most(&t->reports));
        trace_put_time(w, "reported_at", t->reports.last_ns);
    }
    if (t->told_ns)
        trace_put_time(w, "told_at", t->told_ns);
    if (s->service->arbiter.granted == t)
        trace_put_time(w, "granted_at", s->service->arbiter.granted_ns);
}

void room_act(struct service *v)
{
    struct action action;

    if (v->is_acting)
        return; /* an action ended a session, which is an event too: the loop below goes on */
    v->is_acting = true;
    arbiter_tick(&v->arbiter, v->now_ns);
    for (;;) {
        while (arbiter_next(&v->arbiter, &action))
            carry_out(v, &action);
        if (!arbiter_wants_sample(&v->arbiter) || v->is_room_sample_due)
            break; /* one that is due comes, or does not, in a later turn */
        want_sample(v);
    }
    v->is_acting = false;
}

static uint64_t quiet_left(const struct arbiter *a, const struct tenant *t, uint64_t now_ns)
{
    uint64_t ends_ns = t->hold.bytes ? t->hold.quiet_ends_ns : 0;

    if (arbiter_leased(a, t) == LEASE_EXCLUSIVE)
        ends_ns = bytes_max(ends_ns, t->lease_ends_ns);
    return bytes_sub_sat(ends_ns, now_ns);
}

struct room room_of(const struct session *s)
{
    const struct arbiter *a = &s->service->arbiter;
    const struct tenant *t = &s->tenant;

    return (struct room){
        .readiness = tenant_readiness(a, t),
        .claim_bytes = tenant_claim(t),
        .asked_event = t->reclaim.event,
        .is_late = s->service->now_ns < t->late_until_ns,
        .need_bytes = tenant_unmet_need(t),
        .waits_bytes = t->wait.kind == WAIT_NONE ? 0 : t->wait.bytes,
        .held_bytes = arbiter_held(a, t),
        .term_ns = bytes_sub_sat(t->hold.ends_ns, s->service->now_ns),
        .lease = arbiter_leased(a, t),
        .lease_term_ns = bytes_sub_sat(t->lease_ends_ns, s->service->now_ns),
        .quiet_ns = quiet_left(a, t, s->service->now_ns),
        .waits_for = t->wait.lease,
        .wait_ns =
            t->wait.kind == WAIT_NONE ? 0 : bytes_sub_sat(t->wait.deadline_ns, s->service->now_ns),
    };
}

void room_forget_operator(struct service *v)
{
    static const char line[] = "close s=0";

    journal_reserve(v->journal);
    journal_append(v->journal, line, sizeof(line) - 1);
    v->operated_by = NULL;
    arbiter_remove(&v->arbiter, &v->operator, v->now_ns);
    arbiter_add(&v->arbiter, &v->operator, NULL, 0);
    room_act(v);
}

uint64_t room_due(const struct service *v)
{
    return arbiter_due(&v->arbiter);
}
