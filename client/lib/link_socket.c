/* SPDX-License-Identifier: Apache-2.0 */
/* A session with a daemon, mirrored by the local engine at every step. Each function first does
 * what it does in the engine, so that the engine is right whatever becomes of the daemon, and then
 * tells the daemon, if it can be called now. What it could not be told makes the link dirty. */
#include "client/lib/link_socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/error.h"

static void socket_free(struct link *l)
{
    struct link_socket *k = socket_of(l);

    sync_done(&k->sync);
    local_free(k->local);
    free(k);
}

int socket_reply_error(struct link_socket *k)
{
    const struct wire_reply *reply = &k->sync.reply;

    if (reply->body != WIRE_ERROR)
        return 0;
    snprintf(k->link.text, sizeof(k->link.text), "%s", reply->u.error.text);
    return reply->u.error.code < 0 ? reply->u.error.code : ERR_MALFORMED;
}

/* The peak as the daemon has it. Where it refused a stager that is attached here, its bytes may
 * have come to 0 (R3) and ours not: then ours holds, and a resume says it. */
static void follow_ledger(struct link_socket *k)
{
    const struct wire_reply *reply = &k->sync.reply;

    if (reply->body != WIRE_LEDGER)
        return;
    if (reply->u.ledger.staged_bytes == local_view(k->local).staged_bytes)
        local_set_peak(k->local, reply->u.ledger.peak);
    else if (reply->u.ledger.peak != local_state(k->local)->peak)
        k->sync.is_dirty = true;
}

static int socket_attach(struct link *l, const char *id, uint64_t bytes, uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);
    struct replica *replica;
    int r = local_attach(k->local, id, bytes, &replica);

    if (r < 0 || !replica)
        return r;
    if (why != CAUSE_NONE) {
        k->sync.is_dirty = true;
        return 0;
    }
    k->sync.request.op = WIRE_ATTACH;
    strcpy(k->sync.request.u.attach.id, id);
    k->sync.request.u.attach.staged_bytes = bytes;
    replica->is_known = true;
    if (sync_call(&k->sync, deadline_ns) != CAUSE_NONE)
        return 0; /* registered when the session is resumed */
    r = socket_reply_error(k);
    if (r < 0)
        local_undo_attach(k->local, replica);
    else
        follow_ledger(k);
    return r;
}

static int socket_detach(struct link *l, const char *id, uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);
    struct replica *tombstone;
    int r = local_detach(k->local, id, &tombstone);

    if (r < 0)
        return r;
    if (why != CAUSE_NONE || !tombstone) {
        k->sync.is_dirty = true;
        return 0;
    }
    k->sync.request.op = WIRE_DETACH;
    strcpy(k->sync.request.u.detach.id, id);
    local_drop(k->local, tombstone); /* the daemon is told, or the connection ends */
    if (sync_call(&k->sync, deadline_ns) != CAUSE_NONE)
        return 0;
    if (socket_reply_error(k) < 0)
        k->sync.is_dirty = true; /* it does not know what we do: a resume says how things are */
    else
        follow_ledger(k);
    return 0;
}

/* Tells of a change that the engine has accepted already. An error takes it back, but for one about
 * the order of things, where the daemon is behind and not the worker in the wrong. */
static int tell(struct link_socket *k, enum cause why, const struct resume *before,
                uint64_t deadline_ns)
{
    int r;

    if (why != CAUSE_NONE) {
        k->sync.is_dirty = true;
        return 0;
    }
    if (sync_call(&k->sync, deadline_ns) != CAUSE_NONE)
        return 0;
    r = socket_reply_error(k);
    if (r == ERR_BAD_STATE) {
        k->sync.is_dirty = true;
        return 0;
    }
    if (r < 0)
        local_restore(k->local, before);
    return r;
}

static int socket_set_peak(struct link *l, uint64_t peak_bytes, uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);
    const struct resume before = *local_state(k->local);
    int r;

    local_set_peak(k->local, peak_bytes);
    k->sync.request.op = WIRE_SET_PEAK;
    k->sync.request.u.set_peak.peak = peak_bytes;
    k->sync.reply.body = WIRE_BODY_UNKNOWN;
    r = tell(k, why, &before, deadline_ns);
    if (r == 0)
        follow_ledger(k); /* it may have been clamped */
    return r;
}

static int socket_warmup(struct link *l, enum phase phase, uint64_t deadline_ns)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);
    const struct resume before = *local_state(k->local);
    int r = local_warmup(k->local, phase);

    if (r < 0)
        return r;
    k->sync.request.op = WIRE_WARMUP;
    k->sync.request.u.warmup.phase = phase;
    return tell(k, why, &before, deadline_ns);
}

static struct opt_u64 number(uint64_t v)
{
    return v == DLO_MISSING ? opt_none() : opt_u64(v);
}

/* R24a: the begin of a request may wait on the daemon's side, and is to be back in time. */
static uint64_t busy_wait_ns(const struct link_socket *k, uint64_t deadline_ns)
{
    return bytes_sub_sat(deadline_ns, k->sync.now_ns) / 5 * 4;
}

/* R21: the end of a request may be told to release. */
static void vacate(struct link_socket *k, struct answer *ret)
{
    enum reason reason =
        k->sync.reply.body == WIRE_DONE ? k->sync.reply.u.done.reason : REASON_NONE;

    if (reason == REASON_NONE || local_mode(k->local) != MODE_ON)
        return;
    local_vacated(k->local);
    *ret = (struct answer){
        .decision = DECISION_RELEASE,
        .would = DECISION_RELEASE,
        .reason = reason,
        .peak = local_state(k->local)->peak,
        .session = local_view(k->local).session,
        .n = local_state(k->local)->n,
    };
}

static int socket_busy(struct link *l, enum phase phase, const struct dlo_report *report,
                       uint64_t deadline_ns, struct answer *ret)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, deadline_ns);
    const struct resume before = *local_state(k->local);
    struct opt_u64 need = number(report->need), reserved = number(report->reserved);
    struct opt_u64 allocated = number(report->allocated);
    int r = local_busy(k->local, phase, &need, &reserved, &allocated);

    *ret = (struct answer){0};
    if (r < 0)
        return r;
    k->sync.request.op = WIRE_BUSY;
    k->sync.request.u.busy.phase = phase;
    k->sync.request.u.busy.need = need;
    k->sync.request.u.busy.reserved = reserved;
    k->sync.request.u.busy.allocated = allocated;
    k->sync.request.u.busy.wait_ns =
        phase == PHASE_BEGIN ? opt_u64(busy_wait_ns(k, deadline_ns)) : opt_none();
    k->sync.reply.body = WIRE_BODY_UNKNOWN;
    r = tell(k, why, &before, deadline_ns);
    if (r == 0 && why == CAUSE_NONE && phase == PHASE_END)
        vacate(k, ret);
    return r;
}

static void push_ask(struct link_socket *k, enum cause why, const struct boundary *b)
{
    if (why != CAUSE_NONE) {
        k->sync.is_dirty = true;
        return;
    }
    k->sync.request.op = WIRE_ASK;
    k->sync.request.u.ask = *b;
    sync_push(&k->sync);
}

static void socket_ask(struct link *l, const struct boundary *b, uint64_t deadline_ns,
                       struct answer *ret, enum cause *ret_cause)
{
    struct link_socket *k = socket_of(l);
    bool is_forced = local_is_forced(k->local, b);
    enum cause why = sync_step(&k->sync, is_forced ? 0 : deadline_ns);

    *ret_cause = CAUSE_NONE;
    if (local_mode(k->local) == MODE_OFF) { /* R30: the daemon's; nothing is counted or learned */
        *ret = (struct answer){.decision = DECISION_KEEP, .would = DECISION_KEEP};
        return;
    }
    if (is_forced) { /* R4: released first, told afterwards */
        local_decide(k->local, b, CAUSE_NONE, ret);
        push_ask(k, why, b);
        return;
    }
    if (why == CAUSE_NONE) {
        k->sync.waiting.reclaim.call = 0; /* this boundary is told what there is to do */
        k->sync.request.op = WIRE_ASK;
        k->sync.request.u.ask = *b;
        why = sync_call(&k->sync, deadline_ns);
        if (why == CAUSE_NONE && k->sync.reply.body == WIRE_ANSWER &&
            k->sync.reply.u.answer.decision != DECISION_NONE) {
            *ret = k->sync.reply.u.answer;
            local_follow(k->local, b, ret);
            if (local_mode(k->local) != MODE_ON) /* R30, whatever the daemon says */
                ret->decision = DECISION_KEEP;
            return;
        }
        if (why == CAUSE_NONE)
            why = CAUSE_REFUSED;
    }
    local_decide(k->local, b, why, ret); /* R28 */
    k->sync.is_dirty = true;
    *ret_cause = why;
}

static int socket_forced(struct link *l, const struct boundary *b)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, 0);
    struct answer ignored;

    local_decide(k->local, b, CAUSE_NONE, &ignored);
    push_ask(k, why, b);
    return 0;
}

static int socket_released(struct link *l, uint64_t reserved, uint64_t allocated, uint64_t us)
{
    struct link_socket *k = socket_of(l);
    enum cause why = sync_step(&k->sync, 0);

    local_released(k->local, reserved, allocated);
    if (why != CAUSE_NONE) {
        k->sync.is_dirty = true;
        return 0;
    }
    k->sync.request.op = WIRE_RELEASED;
    k->sync.request.u.released.reserved = reserved;
    k->sync.request.u.released.allocated = allocated;
    k->sync.request.u.released.us = us;
    sync_push(&k->sync);
    return 0;
}

static uint64_t socket_cap(struct link *l, uint64_t total_bytes)
{
    return local_cap(socket_of(l)->local, total_bytes);
}

static void socket_describe(struct link *l, struct dlo_info *info)
{
    struct link_socket *k = socket_of(l);
    bool is_up = sync_step(&k->sync, 0) == CAUSE_NONE;
    const struct resume *state = local_state(k->local);
    const struct local_view view = local_view(k->local);
    const struct sync *s = &k->sync;

    info->mode = (int32_t)local_mode(k->local);
    info->connected = is_up;
    info->last_link_error = s->last_error;
    info->protocol_version = s->welcome.version;
    info->session = view.session;
    info->decisions = state->n;
    info->peak = state->peak;
    info->learned = view.learned;
    info->staged_bytes = view.staged_bytes;
    info->stager_count = view.stager_count;
    info->in_warmup = state->in_warmup;
    info->is_busy = state->busy;
    info->policy = (int32_t)view.policy;
    info->retained = state->counts.retained;
    info->cold_start_releases = state->counts.cold_start_releases;
    info->serving_releases = state->counts.serving_releases;
    info->uncovered = state->counts.uncovered;
    memcpy(info->forced, state->counts.forced, sizeof(state->counts.forced));
    memcpy(info->local, state->counts.local, sizeof(state->counts.local));
    info->reconnects = s->reconnect.successes > 0 ? s->reconnect.successes - 1 : 0;
    strcpy(info->socket, s->path);
    strcpy(info->uuid, s->welcome.uuid);
    strcpy(info->daemon_version, s->welcome.daemon);
    strcpy(info->last_link_text, s->last_text);
}

_Static_assert(FORCE_MAX <= DLO_INFO_COUNTS && CAUSE_MAX <= DLO_INFO_COUNTS, "counts fit");
_Static_assert(CONN_PATH_SIZE <= DLO_INFO_PATH, "paths fit");
_Static_assert(LIMIT_UUID_SIZE <= DLO_INFO_TEXT && LIMIT_NAME_SIZE <= DLO_INFO_TEXT, "texts fit");

static const struct link_ops socket_ops = {
    .free = socket_free,
    .attach = socket_attach,
    .detach = socket_detach,
    .set_peak = socket_set_peak,
    .warmup = socket_warmup,
    .busy = socket_busy,
    .ask = socket_ask,
    .forced = socket_forced,
    .released = socket_released,
    .oom = socket_oom,
    .reserve = socket_reserve,
    .unreserve = socket_unreserve,
    .abandon = socket_abandon,
    .idle = socket_idle,
    .look = socket_look,
    .reclaimed = socket_reclaimed,
    .cap = socket_cap,
    .describe = socket_describe,
};

int link_socket_new(const struct options *options, uint64_t deadline_ns, struct link **ret)
{
    struct link_socket *k = calloc(1, sizeof(*k));
    int r;

    if (!k)
        return ERR_NO_MEMORY;
    k->link.ops = &socket_ops;
    atomic_init(&k->link.mode, (int)options->mode);
    r = local_new(options, &k->local);
    if (r < 0) {
        free(k);
        return r;
    }
    sync_init(&k->sync, options, k->local, &k->link.mode);
    sync_open(&k->sync, deadline_ns);
    *ret = &k->link;
    return 0;
}
