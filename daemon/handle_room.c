/* SPDX-License-Identifier: Apache-2.0 */
/* What workers send about room on the device: R21, R23 to R25. */
#include "daemon/dispatch.h"
#include "proto/base/error.h"

static void journal_busy(const struct session *s, const struct wire_request *request, uint64_t call,
                         int r, enum reason reason)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    session_line_begin(s, &w, line, TRACE_BUSY);
    trace_put_text(&w, "phase", phase_word((int)request->u.busy.phase));
    if (request->u.busy.need.has)
        trace_put_u64(&w, "need", request->u.busy.need.v);
    if (request->u.busy.wait_ns.has)
        trace_put_time(&w, "wait", request->u.busy.wait_ns.v);
    if (request->u.busy.reserved.has && request->u.busy.allocated.has) {
        trace_put_u64(&w, "reserved", request->u.busy.reserved.v);
        trace_put_u64(&w, "allocated", request->u.busy.allocated.v);
    }
    if (call != 0)
        trace_put_u64(&w, "call", call);
    if (reason == REASON_NONE) {
        session_line_answer(s, &w, r);
    } else {
        trace_put_time(&w, "t", s->service->now_ns);
        trace_put_answer(&w, TRACE_RELEASE);
        trace_put_text(&w, "reason", reason_word((int)reason));
    }
    session_line_end(s, &w);
}

/* R24a: true where the begin waits for room; it is answered by its end then. */
static bool busy_begin(struct session *s, const struct wire_request *request, uint64_t *ret_call)
{
    struct service *v = s->service;
    uint64_t wait_ns = request->u.busy.wait_ns.has ? request->u.busy.wait_ns.v : UINT64_MAX;

    *ret_call = request->u.busy.need.v > 0 ? arbiter_new_call(&v->arbiter) : 0;
    if (!arbiter_busy_begin(&v->arbiter, &s->tenant, request->u.busy.need, wait_ns, *ret_call,
                            v->now_ns))
        return false;
    s->call_seq = request->seq;
    return true;
}

int handle_busy(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;
    bool begins = request->u.busy.phase == PHASE_BEGIN, waits = false;
    enum reason reason = REASON_NONE;
    uint64_t call = 0;
    struct others others;
    int r = policy_busy(&s->policy, request->u.busy.phase);

    if (r == 0) {
        policy_report(&s->policy, request->u.busy.reserved, request->u.busy.allocated);
        if (begins) {
            waits = busy_begin(s, request, &call);
        } else {
            arbiter_busy_end(&v->arbiter, &s->tenant, request->u.busy.need, v->now_ns, &others);
            reason = policy_bracket_end(&s->policy, &others);
            if (reason != REASON_NONE)
                arbiter_told(&v->arbiter, &s->tenant, v->now_ns);
        }
    }
    journal_busy(s, request, call, r, reason);
    session_tell_habit(s);
    reply->body = WIRE_DONE;
    reply->u.done.reason = reason;
    return waits ? HANDLED_LATER : r;
}

int handle_idle(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;
    int r = arbiter_idle(&v->arbiter, &s->tenant, request->u.idle.phase, request->u.idle.background,
                         v->now_ns);

    session_line_begin(s, &w, line, TRACE_IDLE);
    trace_put_text(&w, "phase", phase_word((int)request->u.idle.phase));
    if (request->u.idle.background)
        trace_put_u64(&w, "background", 1);
    session_line_answer(s, &w, r);
    session_line_end(s, &w);
    reply->body = WIRE_DONE;
    reply->u.done.reason = REASON_NONE;
    return r;
}

int handle_oom(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;
    uint64_t call = arbiter_new_call(&v->arbiter);
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;
    int r;

    (void)reply;
    policy_report(&s->policy, request->u.oom.reserved, request->u.oom.allocated);
    r = arbiter_oom(&v->arbiter, &s->tenant, request->u.oom.need, call, v->now_ns);
    session_line_begin(s, &w, line, TRACE_OOM);
    trace_put_u64(&w, "need", request->u.oom.need);
    trace_put_u64(&w, "call", call);
    if (request->u.oom.reserved.has && request->u.oom.allocated.has) {
        trace_put_u64(&w, "reserved", request->u.oom.reserved.v);
        trace_put_u64(&w, "allocated", request->u.oom.allocated.v);
    }
    session_line_answer(s, &w, r);
    session_line_end(s, &w);
    if (r < 0)
        return r;
    s->call_seq = request->seq;
    return HANDLED_LATER;
}

/* R23. An answer that comes too late is none the worse: what the worker holds now counts. */
int handle_reclaimed(struct session *s, const struct wire_request *request,
                     struct wire_reply *reply)
{
    struct service *v = s->service;
    uint64_t call = request->u.reclaimed.call, us = request->u.reclaimed.us;
    struct opt_u64 reserved = request->u.reclaimed.reserved;
    struct opt_u64 allocated = request->u.reclaimed.allocated;
    struct opt_u64 before = s->policy.state.reserved;
    bool did = request->u.reclaimed.refusal == REFUSAL_NONE;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    if (did) {
        proof_asked(&s->proof, s->policy.state.reserved, s->policy.state.allocated);
        policy_released(&s->policy, reserved.v, allocated.v);
        (void)proof_reported(&s->proof, reserved.v, allocated.v, us, v->now_ns);
    }
    if (arbiter_reclaimed(&v->arbiter, &s->tenant, call, did, us, v->now_ns) < 0 && did)
        arbiter_reported(&v->arbiter, &s->tenant, true, us, v->now_ns);
    trace_begin(&w, line, sizeof(line), TRACE_END);
    trace_put_u64(&w, "call", call);
    trace_put_u64(&w, "s", s->policy.number);
    trace_put_time(&w, "t", v->now_ns);
    trace_put_answer(&w, did ? TRACE_DONE : TRACE_REFUSED);
    if (did) {
        trace_put_u64(&w, "freed", bytes_sub_sat(before.v, reserved.v));
        trace_put_u64(&w, "reserved", reserved.v);
        trace_put_u64(&w, "allocated", allocated.v);
        trace_put_u64(&w, "us", us);
    } else {
        trace_put_text(&w, "reason", refusal_word((int)request->u.reclaimed.refusal));
    }
    session_line_end(s, &w);
    reply->body = WIRE_DONE;
    reply->u.done.reason = REASON_NONE;
    return 0;
}

/* R25 */
int handle_lease(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;
    const struct lease_wish wish = {
        .kind = request->u.lease.kind,
        .bytes = request->u.lease.bytes,
        .quiet_ns = request->u.lease.quiet_ns,
        .wait_ns = request->u.lease.wait_ns,
        .term_ns = request->u.lease.term_ns,
    };
    uint64_t call = arbiter_new_call(&v->arbiter);
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;
    int r;

    (void)reply;
    r = arbiter_lease(&v->arbiter, &s->tenant, &wish, call, v->now_ns);
    session_line_begin(s, &w, line, TRACE_LEASE);
    trace_put_text(&w, "kind", lease_word((int)wish.kind));
    if (wish.kind == LEASE_BYTES || wish.bytes != 0)
        trace_put_u64(&w, "bytes", wish.bytes);
    if (wish.quiet_ns != 0)
        trace_put_time(&w, "quiet", wish.quiet_ns);
    trace_put_time(&w, "wait", wish.wait_ns);
    trace_put_time(&w, "term", wish.term_ns);
    trace_put_u64(&w, "call", call);
    session_line_answer(s, &w, r);
    session_line_end(s, &w);
    if (r < 0)
        return r;
    s->call_seq = request->seq;
    return HANDLED_LATER;
}

int handle_unlease(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;
    int r;

    r = arbiter_unlease(&s->service->arbiter, &s->tenant, request->u.lease.kind,
                        s->service->now_ns);
    session_line_begin(s, &w, line, TRACE_UNLEASE);
    trace_put_text(&w, "kind", lease_word((int)request->u.lease.kind));
    session_line_answer(s, &w, r);
    session_line_end(s, &w);
    reply->body = WIRE_DONE;
    reply->u.done.reason = REASON_NONE;
    return r;
}
