/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of proto/wire: messages with every member set to an extreme value, and with none
 * that may be missing. */
#pragma once

#include <string.h>

#include "proto/base/error.h"
#include "proto/wire/wire.h"

#define BODY_COUNT (WIRE_REVISION + 1)

static inline uint64_t big(void)
{
    static uint64_t step;

    return UINT64_MAX - step++ % 1000; /* different, and as long as a number can be */
}

static inline struct opt_u64 big_opt(void)
{
    return opt_u64(big());
}

static inline void fill_text(char *text, size_t size)
{
    memset(text, 'x', size - 1);
    text[size - 1] = '\0';
}

#define FILL_TEXT(array) fill_text((array), sizeof(array))

static inline void fill_state(struct resume *s)
{
    *s = (struct resume){.peak = big(),
                         .n = big(),
                         .in_warmup = true,
                         .warmup_ended = true,
                         .busy = true,
                         .residue = big_opt(),
                         .reserved = big_opt(),
                         .allocated = big_opt(),
                         .announced = big_opt(),
                         .operator.cap_bytes = big_opt(),
                         .operator.pin_bytes = big_opt(),
                         .operator.priority = - 100,
                         .operator.revision = big()};
    s->counts = (struct counts){big(), big(), big(), big(), {0}, {0}};
    for (size_t i = 0; i < FORCE_MAX; i++)
        s->counts.forced[i] = big();
    for (size_t i = 0; i < CAUSE_MAX; i++)
        s->counts.local[i] = big();
}

static inline void fill_answer(struct answer *a)
{
    *a = (struct answer){.decision = DECISION_KEEP,
                         .would = DECISION_RELEASE,
                         .reason = REASON_WITHIN_BUDGET,
                         .cached = big_opt(),
                         .free = big_opt(),
                         .total = big_opt(),
                         .age_ns = big_opt(),
                         .floor = big_opt(),
                         .cap = big_opt(),
                         .budget = big_opt(),
                         .capped = opt_u64(1),
                         .peak = big(),
                         .learned = big(),
                         .staged_bytes = big(),
                         .stager_count = UINT32_MAX,
                         .warmup = true,
                         .session = big(),
                         .n = big()};
}

static inline void fill_hello(struct wire_hello *h, bool full)
{
    h->min_version = h->max_version = WIRE_VERSION_MIN;
    if (!full)
        return;
    h->max_version = UINT32_MAX;
    h->features = big();
    h->observer = true;
    FILL_TEXT(h->name);
    h->policy = POLICY_DEMAND;
    h->has_min_free = true;
    h->min_free = 0.1;
    h->stage_end = STAGE_END_ADVISE;
    h->mode = MODE_SHADOW;
    FILL_TEXT(h->group);
    h->rank = UINT32_MAX - 1;
    h->world = UINT32_MAX;
    h->has_state = true;
    fill_state(&h->state);
}

static inline void fill_ask(struct boundary *b)
{
    b->force = FORCE_OPERATOR;
    b->reserved = big_opt();
    b->allocated = big_opt();
    b->releasable = big_opt();
    b->free = big_opt();
    b->total = big_opt();
    FILL_TEXT(b->component);
}

static inline void fill_request(struct wire_request *r, enum wire_op op, bool full)
{
    memset(r, 0, sizeof(*r));
    r->seq = full ? UINT32_MAX : 1;
    r->op = op;
    switch (op) {
    case WIRE_HELLO:
        fill_hello(&r->u.hello, full);
        break;
    case WIRE_ATTACH:
    case WIRE_DETACH: /* the id is the first member of both */
        strcpy(r->u.attach.id, "a");
        if (full)
            FILL_TEXT(r->u.attach.id);
        if (op == WIRE_ATTACH)
            r->u.attach.staged_bytes = full ? big() : 0;
        break;
    case WIRE_SET_PEAK:
        r->u.set_peak.peak = full ? big() : 0;
        break;
    case WIRE_WARMUP:
        r->u.warmup.phase = full ? PHASE_END : PHASE_BEGIN;
        break;
    case WIRE_BUSY:
        r->u.busy.phase = full ? PHASE_END : PHASE_BEGIN;
        if (full)
            r->u.busy.need = r->u.busy.reserved = r->u.busy.allocated = r->u.busy.wait_ns =
                big_opt();
        break;
    case WIRE_ASK:
        if (full)
            fill_ask(&r->u.ask);
        break;
    case WIRE_RELEASED:
        if (full)
            r->u.released.reserved = r->u.released.allocated = r->u.released.us = big();
        break;
    case WIRE_RESUME:
        if (full)
            fill_state(&r->u.resume.state);
        break;
    case WIRE_STATUS:
        if (full) {
            r->u.status.cursor = big();
            r->u.status.session = big_opt();
        }
        break;
    case WIRE_EVENTS:
        r->u.events.cursor = full ? big() : 0;
        r->u.events.wait = full;
        break;
    case WIRE_IDLE:
        r->u.idle.phase = full ? PHASE_END : PHASE_BEGIN;
        r->u.idle.background = full;
        break;
    case WIRE_OOM:
        r->u.oom.need = full ? big() : 0;
        if (full)
            r->u.oom.reserved = r->u.oom.allocated = big_opt();
        break;
    case WIRE_SET:
        r->u.set.session = full ? big() : 0;
        if (full)
            r->u.set.change =
                (struct operator_change){big(), true, true, true, big_opt(), opt_none(), -100};
        break;
    case WIRE_LEASE:
    case WIRE_UNLEASE: /* has its kind alone */
        r->u.lease.kind = full ? LEASE_BYTES : LEASE_SHARED;
        if (full && op == WIRE_LEASE)
            r->u.lease.bytes = r->u.lease.wait_ns = r->u.lease.term_ns = big();
        break;
    case WIRE_VACATE:
        r->u.vacate.bytes = full ? big() : UINT64_MAX;
        r->u.vacate.session = full ? big() : 0;
        r->u.vacate.only_ready = full;
        break;
    case WIRE_RECLAIMED:
        r->u.reclaimed.call = full ? big() : 0;
        r->u.reclaimed.refusal = full ? REFUSAL_NONE : REFUSAL_BUSY;
        if (full)
            r->u.reclaimed.reserved = r->u.reclaimed.allocated = big_opt();
        r->u.reclaimed.us = full ? big() : 0;
        break;
    default:
        break;
    }
}

static inline void fill_row(struct wire_row *row)
{
    row->session = big();
    FILL_TEXT(row->name);
    row->pid = row->uid = UINT32_MAX;
    row->features = big();
    row->policy = POLICY_DEMAND;
    row->min_free = 0.1;
    fill_state(&row->state);
    fill_answer(&row->last);
    FILL_TEXT(row->component);
    row->last_age_ns = big();
    row->staged_bytes = big();
    row->stager_count = UINT32_MAX;
    row->budget = big_opt();
    row->habit = HABIT_FLAPPING;
    row->cure = CURE_TELEMETRY;
    row->room = (struct room){READINESS_DORMANT, big(), big(), big(),        big(), big(), big(),
                              LEASE_EXCLUSIVE,   big(), big(), LEASE_SHARED, big(), true};
    row->proof = (struct proof){big(),     big(),     big(),     big(), big_opt(),
                                big_opt(), big_opt(), big_opt(), big(), big()};
}

static inline void fill_status(struct wire_status *s, uint32_t row_count)
{
    s->has_daemon = true;
    FILL_TEXT(s->daemon.version);
    s->daemon.pid = UINT32_MAX;
    s->daemon.uptime_ns = big();
    s->daemon.mode = MODE_ON;
    s->daemon.policy = POLICY_NEVER;
    s->daemon.margin = 1.25;
    s->daemon.cap_fraction = 0.3;
    s->daemon.min_free = 0.05;
    s->daemon.sessions = s->daemon.stagers = UINT32_MAX;
    s->daemon.resuming = true;
    s->daemon.rejected = big();
    FILL_TEXT(s->device.uuid);
    FILL_TEXT(s->device.name);
    FILL_TEXT(s->device.pci);
    FILL_TEXT(s->device.probe);
    s->device.minor = opt_u64(UINT32_MAX);
    s->device.free = s->device.total = s->device.age_ns = big_opt();
    s->device.floor = s->device.cap = big_opt();
    s->device.source = SOURCE_WORKER;
    s->row_count = row_count;
    for (uint32_t i = 0; i < row_count; i++)
        fill_row(&s->rows[i]);
    s->cursor = big();
    s->more = true;
}

static inline void fill_welcome(struct wire_welcome *w)
{
    w->version = UINT32_MAX;
    w->features = big();
    w->session = big();
    w->mode = MODE_SHADOW;
    FILL_TEXT(w->daemon);
    FILL_TEXT(w->uuid);
    w->margin = 1.25;
    w->cap_fraction = 0.25;
    w->min_free = 0.05;
    w->policy = POLICY_ALWAYS;
    w->allow_never = true;
    w->oom_wait_ns = big();
    w->operator=(struct operator_settings){big_opt(), big_opt(), -100, big()};
}

static inline void fill_reply(struct wire_reply *r, enum wire_body body, bool full)
{
    memset(r, 0, sizeof(*r));
    r->seq = full ? UINT32_MAX : 0;
    r->body = body;
    if (body == WIRE_ERROR)
        r->u.error.code = full ? INT32_MIN : ERR_INVALID;
    if (body == WIRE_ANSWER)
        r->u.answer.decision = r->u.answer.would = DECISION_RETAIN;
    if (!full)
        return;
    if (body == WIRE_ERROR) {
        FILL_TEXT(r->u.error.text);
    } else if (body == WIRE_WELCOME) {
        fill_welcome(&r->u.welcome);
    } else if (body == WIRE_LEDGER) {
        r->u.ledger.staged_bytes = big();
        r->u.ledger.stager_count = UINT32_MAX;
        r->u.ledger.peak = big();
    } else if (body == WIRE_ANSWER) {
        fill_answer(&r->u.answer);
    } else if (body == WIRE_DONE) {
        r->u.done.reason = REASON_NEIGHBOUR_NEED;
    } else if (body == WIRE_RECLAIM) {
        r->u.reclaim = (struct wire_reclaim){big(), big(), big(), big()};
    } else if (body == WIRE_WAIT_END) {
        r->u.wait_end = (struct wire_wait_end){WAIT_END_SHADOW, big(), big_opt()};
    } else if (body == WIRE_HELD) {
        r->u.held.timeout_ns = big();
    } else if (body == WIRE_REVISION) {
        r->u.revision.revision = big();
    } else if (body == WIRE_STATUS_PAGE) {
        fill_status(&r->u.status, 1);
    } else if (body == WIRE_EVENTS_PAGE) {
        r->u.events.line_count = 2;
        r->u.events.lines[0].text = "decide session=1 \"100%\"";
        r->u.events.lines[0].length = strlen(r->u.events.lines[0].text);
        r->u.events.lines[1].text = "";
        r->u.events.cursor = r->u.events.lost = r->u.events.end = big();
    }
}
