/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

#include <math.h>
#include <string.h>

#include "proto/base/error.h"

/* Copies text into a member that is an array. */
#define GET_TEXT(m, name, out) text_parse(&(m)->name, (out), sizeof(out))

/* The readers below return false where a member is out of range. */

static bool fractions_finite(double a, double b, double c)
{
    return isfinite(a) && isfinite(b) && isfinite(c);
}

static bool error_parse(const Dlo__Wire__Error *m, struct wire_reply *ret)
{
    ret->u.error.code = m->code;
    GET_TEXT(m, text, ret->u.error.text);
    return m->code < 0; /* what is not negative would read as a success */
}

static bool welcome_parse(const Dlo__Wire__Welcome *m, struct wire_welcome *ret)
{
    ret->version = m->version;
    ret->features = m->features;
    ret->session = m->session;
    ret->mode = (enum mode)m->mode;
    GET_TEXT(m, daemon, ret->daemon);
    GET_TEXT(m, uuid, ret->uuid);
    ret->margin = m->margin;
    ret->cap_fraction = m->cap_fraction;
    ret->min_free = m->min_free;
    ret->policy = (enum policy)term_or_none(policy_terms, m->policy);
    ret->allow_never = m->allow_never != 0;
    ret->oom_wait_ns = m->oom_wait_ns;
    ret->operator.cap_bytes = GET_OPT(m, cap);
    ret->operator.pin_bytes = GET_OPT(m, pin);
    ret->operator.priority = m->priority;
    ret->operator.revision = m->revision;
    return m->priority >= -PRIORITY_MAX && m->priority <= PRIORITY_MAX &&
           term_known(mode_terms, m->mode) &&
           fractions_finite(m->margin, m->cap_fraction, m->min_free);
}

static bool daemon_parse(const Dlo__Wire__Daemon *m, struct wire_daemon *ret)
{
    GET_TEXT(m, version, ret->version);
    ret->pid = m->pid;
    ret->uptime_ns = m->uptime_ns;
    ret->mode = (enum mode)term_or_none(mode_terms, m->mode);
    ret->policy = (enum policy)term_or_none(policy_terms, m->policy);
    ret->margin = m->margin;
    ret->cap_fraction = m->cap_fraction;
    ret->min_free = m->min_free;
    ret->sessions = m->sessions;
    ret->stagers = m->stagers;
    ret->resuming = m->resuming != 0;
    ret->rejected = m->rejected;
    return fractions_finite(m->margin, m->cap_fraction, m->min_free);
}

static void device_parse(const Dlo__Wire__Device *m, struct wire_device *ret)
{
    GET_TEXT(m, uuid, ret->uuid);
    GET_TEXT(m, name, ret->name);
    GET_TEXT(m, pci, ret->pci);
    GET_TEXT(m, probe, ret->probe);
    ret->minor = GET_OPT(m, minor);
    ret->free = GET_OPT(m, free);
    ret->total = GET_OPT(m, total);
    ret->age_ns = GET_OPT(m, age_ns);
    ret->floor = GET_OPT(m, floor);
    ret->cap = GET_OPT(m, cap);
    ret->source = (enum source)term_or_none(source_terms, m->source);
}

static void proof_parse(const Dlo__Wire__Proof *m, struct proof *ret)
{
    ret->releases = m->releases;
    ret->empty = m->empty;
    ret->bytes = m->bytes;
    ret->us = m->us;
    ret->cached = GET_OPT(m, cached);
    ret->freed = GET_OPT(m, freed);
    ret->sampled = GET_OPT(m, sampled);
    ret->residue = GET_OPT(m, residue);
    ret->last_us = m->last_us;
    ret->age_ns = m->age_ns;
}

static void room_parse(const Dlo__Wire__Room *m, struct room *ret)
{
    ret->readiness = (enum readiness)term_or_none(readiness_terms, m->readiness);
    ret->claim_bytes = m->claim;
    ret->asked_event = m->asked;
    ret->is_late = m->late != 0;
    ret->need_bytes = m->need;
    ret->waits_bytes = m->waits;
    ret->held_bytes = m->held;
    ret->term_ns = m->term_ns;
    ret->lease = (enum lease)term_or_none(lease_terms, m->lease);
    ret->lease_term_ns = m->lease_term_ns;
    ret->quiet_ns = m->quiet_ns;
    ret->waits_for = (enum lease)term_or_none(lease_terms, m->waits_for);
    ret->wait_ns = m->wait_ns;
}

static bool row_parse(const Dlo__Wire__SessionRow *m, struct wire_row *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->session = m->session;
    GET_TEXT(m, name, ret->name);
    ret->pid = m->pid;
    ret->uid = m->uid;
    ret->features = m->features;
    ret->policy = (enum policy)term_or_none(policy_terms, m->policy);
    ret->min_free = m->min_free;
    GET_TEXT(m, component, ret->component);
    ret->last_age_ns = m->last_age_ns;
    ret->staged_bytes = m->staged;
    ret->stager_count = m->stagers;
    ret->budget = GET_OPT(m, budget);
    ret->habit = (enum habit_kind)term_or_none(habit_terms, m->habit);
    ret->cure = (enum cure)term_or_none(cure_terms, m->cure);
    if (m->room)
        room_parse(m->room, &ret->room);
    if (m->proof)
        proof_parse(m->proof, &ret->proof);
    if (m->state && !state_parse(m->state, &ret->state))
        return false;
    if (m->last && !answer_parse(m->last, &ret->last))
        return false;
    return isfinite(m->min_free);
}

static bool status_parse(const Dlo__Wire__StatusPage *m, struct wire_status *ret)
{
    memset(ret, 0, offsetof(struct wire_status, rows));
    ret->cursor = m->cursor;
    ret->more = m->more != 0;
    ret->has_daemon = m->daemon != NULL;
    if (m->daemon && !daemon_parse(m->daemon, &ret->daemon))
        return false;
    if (m->device)
        device_parse(m->device, &ret->device);
    for (; ret->row_count < m->n_sessions && ret->row_count < WIRE_ROWS_MAX; ret->row_count++)
        if (!row_parse(m->sessions[ret->row_count], &ret->rows[ret->row_count]))
            return false;
    if (m->n_sessions > WIRE_ROWS_MAX) { /* of a newer daemon: the rest is asked for again */
        ret->cursor = ret->rows[WIRE_ROWS_MAX - 1].session;
        ret->more = true;
    }
    return true;
}

static void events_parse(const Dlo__Wire__EventsPage *m, struct wire_events *ret)
{
    ret->line_count = 0;
    ret->lost = m->lost;
    ret->end = m->end;
    ret->cursor = m->cursor;
    for (; ret->line_count < m->n_lines && ret->line_count < WIRE_LINES_MAX; ret->line_count++) {
        ProtobufCBinaryData *line = &m->lines[ret->line_count];

        for (size_t i = 0; i < line->len; i++)
            if (line->data[i] < 0x20 || line->data[i] > 0x7e)
                line->data[i] = '?'; /* in the arena, so there is no room to escape it */
        ret->lines[ret->line_count].text = line->len > 0 ? (const char *)line->data : "";
        ret->lines[ret->line_count].length = line->len;
    }
    ret->cursor = bytes_sub_sat(ret->cursor, m->n_lines - ret->line_count);
}

static bool body_parse(const Dlo__Wire__Reply *m, struct wire_reply *ret)
{
    switch (m->body_case) {
    case DLO__WIRE__REPLY__BODY_ERROR:
        ret->body = WIRE_ERROR;
        return error_parse(m->error, ret);
    case DLO__WIRE__REPLY__BODY_WELCOME:
        ret->body = WIRE_WELCOME;
        return welcome_parse(m->welcome, &ret->u.welcome);
    case DLO__WIRE__REPLY__BODY_LEDGER:
        ret->body = WIRE_LEDGER;
        ret->u.ledger.staged_bytes = m->ledger->staged;
        ret->u.ledger.stager_count = m->ledger->stagers;
        ret->u.ledger.peak = m->ledger->peak;
        return true;
    case DLO__WIRE__REPLY__BODY_ANSWER:
        ret->body = WIRE_ANSWER;
        return answer_parse(m->answer, &ret->u.answer);
    case DLO__WIRE__REPLY__BODY_DONE:
        ret->body = WIRE_DONE;
        ret->u.done.reason = (enum reason)term_or_none(reason_terms, m->done->reason);
        return true;
    case DLO__WIRE__REPLY__BODY_STATUS:
        ret->body = WIRE_STATUS_PAGE;
        return status_parse(m->status, &ret->u.status);
    case DLO__WIRE__REPLY__BODY_EVENTS:
        ret->body = WIRE_EVENTS_PAGE;
        events_parse(m->events, &ret->u.events);
        return true;
    case DLO__WIRE__REPLY__BODY_RECLAIM:
        ret->body = WIRE_RECLAIM;
        ret->u.reclaim.event = m->reclaim->event;
        ret->u.reclaim.call = m->reclaim->call;
        ret->u.reclaim.bytes = m->reclaim->bytes;
        ret->u.reclaim.timeout_ns = m->reclaim->timeout_ns;
        return true;
    case DLO__WIRE__REPLY__BODY_WAIT_END:
        ret->body = WIRE_WAIT_END;
        ret->u.wait_end.end = (enum wait_end)term_or_none(wait_end_terms, m->wait_end->end);
        ret->u.wait_end.freed = m->wait_end->freed;
        ret->u.wait_end.free = GET_OPT(m->wait_end, free);
        return true;
    case DLO__WIRE__REPLY__BODY_REVISION:
        ret->body = WIRE_REVISION;
        ret->u.revision.revision = m->revision->revision;
        return true;
    case DLO__WIRE__REPLY__BODY_HELD:
        ret->body = WIRE_HELD;
        ret->u.held.timeout_ns = m->held->timeout_ns;
        return true;
    default:
        return true; /* of a newer daemon */
    }
}

int wire_decode_reply(struct wire_arena *arena, const uint8_t *bytes, size_t length,
                      struct wire_reply *ret)
{
    ProtobufCAllocator allocator = arena_allocator(arena);
    Dlo__Wire__Reply *m;

    ret->seq = 0;
    ret->body = WIRE_BODY_UNKNOWN;
    if (length > LIMIT_MESSAGE_BYTES)
        return ERR_TOO_LONG;
    m = dlo__wire__reply__unpack(&allocator, length, bytes);
    if (!m)
        return ERR_MALFORMED;
    ret->seq = m->seq;
    return body_parse(m, ret) ? 0 : ERR_MALFORMED;
}
