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
    };
}

void room_init(struct service *v)
{
    const struct arbiter_limits limits = room_limits(v->config);

    arbiter_init(&v->arbiter, &v->settings, &limits);
    list_init(&v->room_sample.link);
}

void room_sampled(struct service *v, const struct sample *sample)
{
    arbiter_sample(&v->arbiter, sample->free.has ? sample : NULL, v->now_ns);
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

static enum trace_outcome outcome_of(enum wait_end end)
{
    switch (end) {
    case WAIT_END_COVERED:
        return TRACE_GRANTED;
    case WAIT_END_DEADLINE:
        return TRACE_TIMEOUT;
    default:
        return TRACE_DONE;
    }
}

static void tell_end(struct session *s, const struct action *a)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, line, sizeof(line), TRACE_END);
    trace_put_u64(&w, "call", a->call);
    trace_put_time(&w, "t", s->service->now_ns);
    trace_put_answer(&w, outcome_of(a->end));
    trace_put_text(&w, "reason", wait_end_word((int)a->end));
    trace_put_u64(&w, "freed", a->freed);
    trace_put_opt(&w, "free", a->free);
    session_line_end(s, &w);
    s->service->reply.body = WIRE_WAIT_END;
    s->service->reply.u.wait_end = (struct wire_wait_end){a->end, a->freed, a->free};
    session_reply(s, s->call_seq);
}

static void carry_out(struct service *v, const struct action *a)
{
    struct session *s = container_of(a->tenant, struct session, tenant);

    journal_reserve(v->journal);
    if (a->kind == ACTION_RECLAIM)
        tell_reclaim(s, a);
    else if (a->kind == ACTION_HELD)
        tell_held(s, a);
    else
        tell_end(s, a);
}

void room_act(struct service *v)
{
    struct action action;

    if (arbiter_due(&v->arbiter) <= v->now_ns)
        arbiter_tick(&v->arbiter, v->now_ns);
    for (;;) {
        while (arbiter_next(&v->arbiter, &action))
            carry_out(v, &action); /* which may end a session, and that is an event too */
        if (!arbiter_wants_sample(&v->arbiter) || v->is_room_sample_due)
            return; /* one that is due comes, or does not, in a later turn */
        want_sample(v);
    }
}

uint64_t room_due(const struct service *v)
{
    return arbiter_due(&v->arbiter);
}
