/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the device: what a session asks its daemon for and is asked for (R21, R23 to R25). */
#include "client/lib/link_socket.h"
#include "proto/base/error.h"

/* R28: an idle wait reconnects within 2 s. */
#define LOOK_NS 2000000000ull

int socket_oom(struct link *l, uint64_t need_bytes, uint64_t deadline_ns, uint64_t *ret_wait_ns)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);
    const struct resume *state = local_state(k->local);

    local_lacked(k->local, need_bytes);
    if (why != CAUSE_NONE || k->sync.waiting.seq != 0 ||
        !(k->sync.welcome.features & FEATURE_RECLAIM))
        return ERR_NO_DAEMON;
    k->sync.request.op = WIRE_OOM;
    k->sync.request.u.oom.need = need_bytes;
    k->sync.request.u.oom.reserved = state->reserved;
    k->sync.request.u.oom.allocated = state->allocated;
    *ret_wait_ns = k->sync.welcome.oom_wait_ns;
    return sync_begin(&k->sync) == CAUSE_NONE ? 0 : ERR_NO_DAEMON;
}

int socket_reserve(struct link *l, uint64_t bytes, uint64_t wait_ns, uint64_t term_ns,
                   uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);

    if (why != CAUSE_NONE || k->sync.waiting.seq != 0 ||
        !(k->sync.welcome.features & FEATURE_RECLAIM))
        return ERR_NO_DAEMON;
    k->sync.request.op = WIRE_LEASE;
    k->sync.request.u.lease.kind = LEASE_BYTES;
    k->sync.request.u.lease.bytes = bytes;
    k->sync.request.u.lease.wait_ns = wait_ns;
    k->sync.request.u.lease.term_ns = term_ns;
    return sync_begin(&k->sync) == CAUSE_NONE ? 0 : ERR_NO_DAEMON;
}

int socket_unreserve(struct link *l, uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    int r;

    if (sync_step(&k->sync, deadline_ns) != CAUSE_NONE)
        return 0; /* its session has ended, and the reservation with it */
    k->sync.request.op = WIRE_UNLEASE;
    k->sync.request.u.lease.kind = LEASE_BYTES;
    if (sync_call(&k->sync, deadline_ns) != CAUSE_NONE)
        return 0;
    r = socket_reply_error(k);
    return r == ERR_BAD_STATE ? 0 : r; /* its term is over: as good */
}

void socket_abandon(struct link *l)
{
    waiting_begin(&socket_of(l)->sync.waiting, 0);
}

/* Tells of an idle wait that this connection does not know of. */
static void tell_idle(struct link_socket *k, uint64_t deadline_ns)
{
    struct sync *s = &k->sync;

    if (k->idle_connection == s->reconnect.successes || !(s->welcome.features & FEATURE_RECLAIM))
        return;
    s->request.op = WIRE_IDLE;
    s->request.u.idle.phase = PHASE_BEGIN;
    s->request.u.idle.background = false;
    if (sync_call(s, deadline_ns) == CAUSE_NONE)
        k->idle_connection = s->reconnect.successes;
}

void socket_idle(struct link *l, enum phase phase, uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    bool is_up = sync_step(&k->sync, deadline_ns) == CAUSE_NONE;

    k->is_idle = phase == PHASE_BEGIN;
    if (k->is_idle)
        k->sync.waiting.reclaim.call = 0; /* an old one */
    if (k->is_idle && is_up) {
        tell_idle(k, deadline_ns);
    } else if (!k->is_idle && is_up && k->idle_connection == k->sync.reconnect.successes) {
        k->sync.request.op = WIRE_IDLE;
        k->sync.request.u.idle.phase = PHASE_END;
        k->sync.request.u.idle.background = false;
        if (sync_call(&k->sync, deadline_ns) != CAUSE_NONE)
            k->sync.is_dirty = true;
    }
    if (!k->is_idle)
        k->idle_connection = 0;
}

void socket_look(struct link *l, struct link_look *ret)
{
    struct link_socket *k = socket_of(l);
    struct sync *s = &k->sync;
    struct waiting *w = &s->waiting;
    enum cause why;

    reconnect_hasten(&s->reconnect, LOOK_NS, conn_now_ns());
    why = sync_step(s, 0);
    if (why == CAUSE_NONE && k->is_idle)
        tell_idle(k, s->now_ns + s->options->deadline_ns);
    *ret = (struct link_look){
        .fd = s->fd,
        .next_ns = s->reconnect.state == RECONNECT_UP ? UINT64_MAX : s->reconnect.next_ns,
        .has_reclaim = w->reclaim.call != 0 && s->now_ns < w->reclaim_until_ns,
        .call = w->reclaim.call,
        .bytes = w->reclaim.bytes,
        .has_waited = w->has_ended,
        .waited = w->ended,
        .held_ns = w->held_ns,
    };
    w->reclaim.call = 0; /* whoever looks carries it out */
    w->has_ended = false;
    w->held_ns = 0;
}

void socket_reclaimed(struct link *l, uint64_t call, enum refusal refusal, uint64_t reserved,
                      uint64_t allocated, uint64_t us)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, 0);

    if (refusal == REFUSAL_NONE)
        local_released(k->local, reserved, allocated);
    if (why != CAUSE_NONE) {
        k->sync.is_dirty = true;
        return;
    }
    k->sync.request.op = WIRE_RECLAIMED;
    k->sync.request.u.reclaimed.call = call;
    k->sync.request.u.reclaimed.refusal = refusal;
    k->sync.request.u.reclaimed.reserved = refusal ? opt_none() : opt_u64(reserved);
    k->sync.request.u.reclaimed.allocated = refusal ? opt_none() : opt_u64(allocated);
    k->sync.request.u.reclaimed.us = us;
    sync_push(&k->sync);
}
