/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/dispatch.h"

#include "proto/base/error.h"

#define ANY_OPEN (SESSION_WORKER | SESSION_OBSERVER)

static const struct dispatch_row rows[] = {
    {WIRE_HELLO, PERMISSION_ANYONE, SESSION_NEW, handle_hello},
    {WIRE_ATTACH, PERMISSION_WORKER, SESSION_WORKER, handle_attach},
    {WIRE_DETACH, PERMISSION_WORKER, SESSION_WORKER, handle_detach},
    {WIRE_SET_PEAK, PERMISSION_WORKER, SESSION_WORKER, handle_set_peak},
    {WIRE_WARMUP, PERMISSION_WORKER, SESSION_WORKER, handle_warmup},
    {WIRE_BUSY, PERMISSION_WORKER, SESSION_WORKER, handle_busy},
    {WIRE_ASK, PERMISSION_WORKER, SESSION_WORKER, handle_ask},
    {WIRE_RELEASED, PERMISSION_WORKER, SESSION_WORKER, handle_released},
    {WIRE_RESUME, PERMISSION_WORKER, SESSION_WORKER, handle_resume},
    {WIRE_IDLE, PERMISSION_WORKER, SESSION_WORKER, handle_idle},
    {WIRE_OOM, PERMISSION_WORKER, SESSION_WORKER, handle_oom},
    {WIRE_RECLAIMED, PERMISSION_WORKER, SESSION_WORKER, handle_reclaimed},
    {WIRE_LEASE, PERMISSION_WORKER, SESSION_WORKER, handle_lease},
    {WIRE_UNLEASE, PERMISSION_WORKER, SESSION_WORKER, handle_unlease},
    {WIRE_SET, PERMISSION_ADMIN, ANY_OPEN, handle_set},
    {WIRE_VACATE, PERMISSION_ADMIN, ANY_OPEN, handle_vacate},
    {WIRE_STATUS, PERMISSION_ANYONE, ANY_OPEN, handle_status},
    {WIRE_EVENTS, PERMISSION_ANYONE, ANY_OPEN, handle_events},
};

const struct dispatch_row *dispatch_find(enum wire_op op)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].op == op)
            return &rows[i];
    return NULL;
}

static bool has_permission(const struct session *s, enum permission permission)
{
    if (permission == PERMISSION_ADMIN)
        return s->peer.is_admin;
    return permission == PERMISSION_ANYONE || s->state != SESSION_OBSERVER;
}

int dispatch_run(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    const struct dispatch_row *row = dispatch_find(request->op);

    if (s->state == SESSION_NEW && request->op != WIRE_HELLO)
        return ERR_BAD_STATE; /* a hello comes first, whatever else it may be */
    if (!row)
        return ERR_UNSUPPORTED;
    if (!list_empty(&s->watch_link))
        return ERR_BAD_STATE; /* one outstanding request while it waits for events */
    if (!has_permission(s, row->permission))
        return ERR_PERMISSION;
    if (!(row->states & s->state))
        return ERR_BAD_STATE;
    return row->handle(s, request, reply);
}
