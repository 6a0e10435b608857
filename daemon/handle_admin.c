/* SPDX-License-Identifier: Apache-2.0 */
/* What operators send about sessions of others (R22, R31). */
#include "daemon/dispatch.h"
#include "proto/base/error.h"

static struct session *find(struct service *v, uint64_t number)
{
    list_for_each(pos, tmp, &v->sessions)
    {
        struct session *s = list_entry(pos, struct session, link);

        if (s->policy.number == number)
            return s;
    }
    return NULL;
}

static void journal_set(const struct session *s, const struct operator_change *c, int r)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    session_line_begin(s, &w, line, TRACE_SET);
    trace_put_u64(&w, "rev", c->revision);
    if (c->has_cap)
        trace_put_opt(&w, "cap", c->cap_bytes);
    if (c->has_pin)
        trace_put_opt(&w, "pin", c->pin_bytes);
    if (c->has_priority)
        trace_put_i64(&w, "priority", c->priority);
    trace_put_time(&w, "t", s->service->now_ns);
    trace_put_answer(&w, r < 0 ? TRACE_REFUSED : TRACE_OK);
    if (r < 0)
        trace_put_text(&w, "reason", error_word(r));
    else
        trace_put_u64(&w, "rev", s->policy.state.operator.revision);
    session_line_end(s, &w);
}

int handle_set(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct session *target = find(s->service, request->u.set.session);
    const struct operator_change change = request->u.set.change;
    int r;

    if (!target)
        return ERR_UNKNOWN_SESSION;
    r = policy_set(&target->policy, &change);
    journal_set(target, &change, r);
    if (r < 0)
        return r;
    session_log(target, LOG_LEVEL_NOTICE, "set by pid %d uid %u: revision %llu (R31)",
                (int)s->peer.pid, s->peer.uid,
                (unsigned long long)target->policy.state.operator.revision);
    session_welcome_again(target); /* it brings them back after a restart (R29) */
    reply->body = WIRE_REVISION;
    reply->u.revision.revision = target->policy.state.operator.revision;
    return 0;
}

int handle_vacate(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;
    uint64_t call = arbiter_new_call(&v->arbiter);
    uint64_t target = request->u.vacate.session;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;
    int r;

    (void)reply;
    if (v->operated_by)
        return ERR_LIMIT; /* one operator at a time */
    r = arbiter_operator(&v->arbiter, &v->operator, request->u.vacate.bytes, target,
                         request->u.vacate.only_ready, call, v->now_ns);
    if (r < 0)
        return r;
    v->operated_by = s;
    s->call_seq = request->seq;
    trace_begin(&w, line, sizeof(line), TRACE_OOM); /* of session 0, which is no worker */
    trace_put_u64(&w, "s", 0);
    trace_put_u64(&w, "need", request->u.vacate.bytes);
    trace_put_u64(&w, "call", call);
    if (target != 0)
        trace_put_u64(&w, "target", target);
    if (request->u.vacate.only_ready)
        trace_put_u64(&w, "only_ready", 1);
    session_line_answer(s, &w, 0);
    session_line_end(s, &w);
    session_log(s, LOG_LEVEL_NOTICE, "pid %d uid %u has caches released", (int)s->peer.pid,
                s->peer.uid);
    return HANDLED_LATER;
}
