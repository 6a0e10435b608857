/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

#define VARINT_MAX 10U /* bytes of the longest number */
#define TAG_BYTES  1U  /* of a field number up to 15 */
#define LENGTH_MAX 2U  /* of a length below 2^14 */

/* What a page that lost rows or lines can need beside the page itself: the reply's seq, tag and
 * length, and a cursor and a flag that may have been absent before. */
#define PAGE_RESERVE                                                                               \
    ((TAG_BYTES + 5) + (TAG_BYTES + LENGTH_MAX) + (TAG_BYTES + VARINT_MAX) + (TAG_BYTES + 1))

struct row_memory {
    Dlo__Wire__SessionRow row;
    Dlo__Wire__State state;
    Dlo__Wire__Counts counts;
    Dlo__Wire__Answer last;
    Dlo__Wire__Proof proof;
    Dlo__Wire__Room room;
};

struct status_memory {
    Dlo__Wire__StatusPage page;
    Dlo__Wire__Daemon daemon;
    Dlo__Wire__Device device;
    struct row_memory rows[WIRE_ROWS_MAX];
    Dlo__Wire__SessionRow *row_list[WIRE_ROWS_MAX];
};

struct events_memory {
    Dlo__Wire__EventsPage page;
    ProtobufCBinaryData line_list[WIRE_LINES_MAX];
};

/* Bytes of a submessage or of bytes, with tag and length. */
static size_t field_size(size_t length)
{
    return TAG_BYTES + (length < 128 ? 1U : LENGTH_MAX) + length;
}

/* Its parts lie on the stack of the caller: nothing points there afterwards. */
static size_t pack(Dlo__Wire__Reply *m, uint8_t *out)
{
    size_t length = dlo__wire__reply__pack(m, out);

    m->body_case = DLO__WIRE__REPLY__BODY__NOT_SET;
    m->error = NULL;
    return length;
}

static size_t error_encode(Dlo__Wire__Reply *m, const struct wire_reply *reply, uint8_t *out)
{
    Dlo__Wire__Error error = DLO__WIRE__ERROR__INIT;

    PUT_ALWAYS(&error, code, reply->u.error.code);
    PUT_TEXT(&error, text, reply->u.error.text);
    m->body_case = DLO__WIRE__REPLY__BODY_ERROR;
    m->error = &error;
    return pack(m, out);
}

static size_t welcome_encode(Dlo__Wire__Reply *m, const struct wire_welcome *w, uint8_t *out)
{
    Dlo__Wire__Welcome welcome = DLO__WIRE__WELCOME__INIT;

    PUT(&welcome, version, w->version);
    PUT(&welcome, features, w->features);
    PUT(&welcome, session, w->session);
    PUT(&welcome, mode, w->mode);
    PUT_TEXT(&welcome, daemon, w->daemon);
    PUT_TEXT(&welcome, uuid, w->uuid);
    PUT(&welcome, margin, w->margin);
    PUT(&welcome, cap_fraction, w->cap_fraction);
    PUT(&welcome, min_free, w->min_free);
    PUT(&welcome, policy, w->policy);
    PUT(&welcome, allow_never, w->allow_never);
    PUT(&welcome, oom_wait_ns, w->oom_wait_ns);
    PUT_OPT(&welcome, cap, w->operator.cap_bytes);
    PUT_OPT(&welcome, pin, w->operator.pin_bytes);
    PUT(&welcome, priority, w->operator.priority);
    PUT(&welcome, revision, w->operator.revision);
    m->body_case = DLO__WIRE__REPLY__BODY_WELCOME;
    m->welcome = &welcome;
    return pack(m, out);
}

static size_t ledger_encode(Dlo__Wire__Reply *m, const struct wire_reply *reply, uint8_t *out)
{
    Dlo__Wire__Ledger ledger = DLO__WIRE__LEDGER__INIT;

    PUT(&ledger, staged, reply->u.ledger.staged_bytes);
    PUT(&ledger, stagers, reply->u.ledger.stager_count);
    PUT(&ledger, peak, reply->u.ledger.peak);
    m->body_case = DLO__WIRE__REPLY__BODY_LEDGER;
    m->ledger = &ledger;
    return pack(m, out);
}

static size_t answer_encode(Dlo__Wire__Reply *m, const struct answer *a, uint8_t *out)
{
    Dlo__Wire__Answer answer;

    answer_fill(&answer, a);
    m->body_case = DLO__WIRE__REPLY__BODY_ANSWER;
    m->answer = &answer;
    return pack(m, out);
}

static size_t reclaim_encode(Dlo__Wire__Reply *m, const struct wire_reclaim *r, uint8_t *out)
{
    Dlo__Wire__Reclaim reclaim = DLO__WIRE__RECLAIM__INIT;

    PUT(&reclaim, event, r->event);
    PUT_ALWAYS(&reclaim, call, r->call);
    PUT(&reclaim, bytes, r->bytes);
    PUT(&reclaim, timeout_ns, r->timeout_ns);
    m->body_case = DLO__WIRE__REPLY__BODY_RECLAIM;
    m->reclaim = &reclaim;
    return pack(m, out);
}

static size_t wait_end_encode(Dlo__Wire__Reply *m, const struct wire_wait_end *w, uint8_t *out)
{
    Dlo__Wire__WaitEnd wait_end = DLO__WIRE__WAIT_END__INIT;

    PUT(&wait_end, end, w->end);
    PUT(&wait_end, freed, w->freed);
    PUT_OPT(&wait_end, free, w->free);
    m->body_case = DLO__WIRE__REPLY__BODY_WAIT_END;
    m->wait_end = &wait_end;
    return pack(m, out);
}

static size_t revision_encode(Dlo__Wire__Reply *m, const struct wire_reply *reply, uint8_t *out)
{
    Dlo__Wire__Revision revision = DLO__WIRE__REVISION__INIT;

    PUT_ALWAYS(&revision, revision, reply->u.revision.revision);
    m->body_case = DLO__WIRE__REPLY__BODY_REVISION;
    m->revision = &revision;
    return pack(m, out);
}

static size_t held_encode(Dlo__Wire__Reply *m, const struct wire_reply *reply, uint8_t *out)
{
    Dlo__Wire__Held held = DLO__WIRE__HELD__INIT;

    PUT_ALWAYS(&held, timeout_ns, reply->u.held.timeout_ns);
    m->body_case = DLO__WIRE__REPLY__BODY_HELD;
    m->held = &held;
    return pack(m, out);
}

static size_t done_encode(Dlo__Wire__Reply *m, const struct wire_reply *reply, uint8_t *out)
{
    Dlo__Wire__Done done = DLO__WIRE__DONE__INIT;

    PUT(&done, reason, reply->u.done.reason);
    m->body_case = DLO__WIRE__REPLY__BODY_DONE;
    m->done = &done;
    return pack(m, out);
}

static void daemon_fill(Dlo__Wire__Daemon *m, const struct wire_daemon *d)
{
    dlo__wire__daemon__init(m);
    PUT_TEXT(m, version, d->version);
    PUT(m, pid, d->pid);
    PUT(m, uptime_ns, d->uptime_ns);
    PUT(m, mode, d->mode);
    PUT(m, policy, d->policy);
    PUT(m, margin, d->margin);
    PUT(m, cap_fraction, d->cap_fraction);
    PUT(m, min_free, d->min_free);
    PUT(m, sessions, d->sessions);
    PUT(m, stagers, d->stagers);
    PUT(m, resuming, d->resuming);
    PUT(m, rejected, d->rejected);
}

static void device_fill(Dlo__Wire__Device *m, const struct wire_device *d)
{
    dlo__wire__device__init(m);
    PUT_TEXT(m, uuid, d->uuid);
    PUT_TEXT(m, name, d->name);
    PUT_TEXT(m, pci, d->pci);
    m->has_minor = d->minor.has;
    m->minor = (uint32_t)d->minor.v; /* a device minor is below 2^20 */
    PUT_OPT(m, free, d->free);
    PUT_OPT(m, total, d->total);
    PUT_OPT(m, age_ns, d->age_ns);
    PUT(m, source, d->source);
    PUT_TEXT(m, probe, d->probe);
    PUT_OPT(m, floor, d->floor);
    PUT_OPT(m, cap, d->cap);
}

static void proof_fill(Dlo__Wire__Proof *m, const struct proof *p)
{
    dlo__wire__proof__init(m);
    PUT(m, releases, p->releases);
    PUT(m, empty, p->empty);
    PUT(m, bytes, p->bytes);
    PUT(m, us, p->us);
    PUT_OPT(m, cached, p->cached);
    PUT_OPT(m, freed, p->freed);
    PUT_OPT(m, sampled, p->sampled);
    PUT_OPT(m, residue, p->residue);
    PUT(m, last_us, p->last_us);
    PUT(m, age_ns, p->age_ns);
}

static void room_fill(Dlo__Wire__Room *m, const struct room *r)
{
    dlo__wire__room__init(m);
    PUT(m, readiness, r->readiness);
    PUT(m, claim, r->claim_bytes);
    PUT(m, asked, r->asked_event);
    PUT(m, late, r->is_late);
    PUT(m, need, r->need_bytes);
    PUT(m, waits, r->waits_bytes);
    PUT(m, held, r->held_bytes);
    PUT(m, term_ns, r->term_ns);
    PUT(m, lease, r->lease);
    PUT(m, lease_term_ns, r->lease_term_ns);
    PUT(m, quiet_ns, r->quiet_ns);
    PUT(m, waits_for, r->waits_for);
    PUT(m, wait_ns, r->wait_ns);
}

static void row_fill(struct row_memory *memory, const struct wire_row *row)
{
    Dlo__Wire__SessionRow *m = &memory->row;

    dlo__wire__session_row__init(m);
    PUT(m, session, row->session);
    PUT_TEXT(m, name, row->name);
    PUT(m, pid, row->pid);
    PUT(m, uid, row->uid);
    PUT(m, features, row->features);
    PUT(m, policy, row->policy);
    PUT(m, min_free, row->min_free);
    state_fill(&memory->state, &memory->counts, &row->state);
    m->state = &memory->state;
    if (row->last.n != 0) {
        answer_fill(&memory->last, &row->last);
        m->last = &memory->last;
    }
    PUT(m, staged, row->staged_bytes);
    PUT(m, stagers, row->stager_count);
    PUT_OPT(m, budget, row->budget);
    PUT_TEXT(m, component, row->component);
    PUT(m, last_age_ns, row->last_age_ns);
    PUT(m, habit, row->habit);
    PUT(m, cure, row->cure);
    room_fill(&memory->room, &row->room);
    m->room = &memory->room;
    if (row->proof.releases != 0) {
        proof_fill(&memory->proof, &row->proof);
        m->proof = &memory->proof;
    }
}

/* Drops the last rows until the page fits a message. The first always fits (see the test). */
static void status_cut(Dlo__Wire__StatusPage *page, struct wire_status *status)
{
    uint32_t kept = 0;
    size_t size;

    page->n_sessions = 0;
    size = PAGE_RESERVE + dlo__wire__status_page__get_packed_size(page);
    while (kept < status->row_count) {
        size += field_size(dlo__wire__session_row__get_packed_size(page->sessions[kept]));
        if (size > LIMIT_MESSAGE_BYTES)
            break;
        kept++;
    }
    page->n_sessions = kept;
    status->row_count = kept;
    if (kept > 0)
        status->cursor = status->rows[kept - 1].session;
    status->more = true;
    PUT(page, cursor, status->cursor);
    PUT(page, more, status->more);
}

static size_t status_encode(Dlo__Wire__Reply *m, struct wire_status *status, uint8_t *out)
{
    struct status_memory memory;
    Dlo__Wire__StatusPage *page = &memory.page;

    dlo__wire__status_page__init(page);
    if (status->has_daemon) {
        daemon_fill(&memory.daemon, &status->daemon);
        page->daemon = &memory.daemon;
    }
    device_fill(&memory.device, &status->device);
    page->device = &memory.device;
    if (status->row_count > WIRE_ROWS_MAX)
        status->row_count = WIRE_ROWS_MAX;
    for (uint32_t i = 0; i < status->row_count; i++) {
        row_fill(&memory.rows[i], &status->rows[i]);
        memory.row_list[i] = &memory.rows[i].row;
    }
    page->n_sessions = status->row_count;
    page->sessions = memory.row_list;
    PUT(page, cursor, status->cursor);
    PUT(page, more, status->more);
    m->body_case = DLO__WIRE__REPLY__BODY_STATUS;
    m->status = page;
    if (dlo__wire__reply__get_packed_size(m) > LIMIT_MESSAGE_BYTES)
        status_cut(page, status);
    return pack(m, out);
}

/* Drops the last lines until the page fits a message. A first line that alone is too long is cut,
 * so that a reader always gets on. */
static void events_cut(Dlo__Wire__EventsPage *page, struct wire_events *events)
{
    uint32_t kept = 0;
    size_t size;

    page->n_lines = 0;
    size = PAGE_RESERVE + dlo__wire__events_page__get_packed_size(page);
    if (events->line_count > 0 && size + field_size(page->lines[0].len) > LIMIT_MESSAGE_BYTES) {
        page->lines[0].len = LIMIT_MESSAGE_BYTES - size - TAG_BYTES - LENGTH_MAX;
        events->lines[0].length = page->lines[0].len;
    }
    while (kept < events->line_count) {
        size += field_size(page->lines[kept].len);
        if (size > LIMIT_MESSAGE_BYTES)
            break;
        kept++;
    }
    page->n_lines = kept;
    events->cursor = bytes_sub_sat(events->cursor, events->line_count - kept);
    events->line_count = kept;
    PUT(page, cursor, events->cursor);
}

static size_t events_encode(Dlo__Wire__Reply *m, struct wire_events *events, uint8_t *out)
{
    struct events_memory memory;
    Dlo__Wire__EventsPage *page = &memory.page;

    dlo__wire__events_page__init(page);
    if (events->line_count > WIRE_LINES_MAX)
        events->line_count = WIRE_LINES_MAX;
    for (uint32_t i = 0; i < events->line_count; i++)
        memory.line_list[i] = (ProtobufCBinaryData){
            .len = events->lines[i].length,
            .data = (uint8_t *)(uintptr_t)events->lines[i].text,
        };
    page->n_lines = events->line_count;
    page->lines = memory.line_list;
    PUT(page, cursor, events->cursor);
    PUT(page, lost, events->lost);
    PUT(page, end, events->end);
    m->body_case = DLO__WIRE__REPLY__BODY_EVENTS;
    m->events = page;
    if (dlo__wire__reply__get_packed_size(m) > LIMIT_MESSAGE_BYTES)
        events_cut(page, events);
    return pack(m, out);
}

size_t wire_encode_reply(struct wire_reply *reply, uint8_t *out)
{
    Dlo__Wire__Reply m = DLO__WIRE__REPLY__INIT;

    m.seq = reply->seq;
    switch (reply->body) {
    case WIRE_ERROR:
        return error_encode(&m, reply, out);
    case WIRE_WELCOME:
        return welcome_encode(&m, &reply->u.welcome, out);
    case WIRE_LEDGER:
        return ledger_encode(&m, reply, out);
    case WIRE_ANSWER:
        return answer_encode(&m, &reply->u.answer, out);
    case WIRE_DONE:
        return done_encode(&m, reply, out);
    case WIRE_STATUS_PAGE:
        return status_encode(&m, &reply->u.status, out);
    case WIRE_EVENTS_PAGE:
        return events_encode(&m, &reply->u.events, out);
    case WIRE_RECLAIM:
        return reclaim_encode(&m, &reply->u.reclaim, out);
    case WIRE_WAIT_END:
        return wait_end_encode(&m, &reply->u.wait_end, out);
    case WIRE_REVISION:
        return revision_encode(&m, reply, out);
    case WIRE_HELD:
        return held_encode(&m, reply, out);
    default:
        return pack(&m, out); /* a reply without a body */
    }
}
