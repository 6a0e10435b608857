/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon of one session without sockets, loop or probe, for test_session.c: `t` holds it and what
 * came out of it, feed() puts packets in, be_*() brings it into a state. The sampler is a fake, so
 * that a test says when a sample comes. */
#pragma once

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/dispatch.h"
#include "daemon/log.h"
#include "daemon/room.h"
#include "daemon/session.h"
#include "proto/base/error.h"

/* ---- a sampler that does what it is told ---- */

struct sampler {
    bool is_wanted, has_newest;
    struct sample newest;
    struct sample_wait *waiting;
    struct device_info device;
};

void sampler_set_wanted(struct sampler *s, bool wanted)
{
    s->is_wanted = wanted;
}

bool sampler_newest(const struct sampler *s, uint64_t now_ns, struct sample *ret)
{
    (void)now_ns;
    *ret = s->newest;
    return s->has_newest;
}

void sampler_wait(struct sampler *s, struct sample_wait *w, uint64_t now_ns)
{
    (void)now_ns;
    s->waiting = w;
    list_init(&w->link);
}

void sampler_cancel(struct sample_wait *w)
{
    (void)w;
}

const struct device_info *sampler_device(const struct sampler *s)
{
    return &s->device;
}

void sampler_describe(const struct sampler *s, char *out, size_t size)
{
    (void)s;
    snprintf(out, size, "fake");
}

/* ---- a daemon of one session, and its peer ---- */

static struct {
    struct config config;
    struct service service;
    struct sampler sampler;
    struct session *session;
    /* what came out */
    struct wire_reply reply;
    struct wire_arena arena;
    unsigned sent, closed, paused, resumed;
    bool is_deaf; /* the peer takes no packet */
} t;

static inline int take_packet(void *arg, const uint8_t *bytes, size_t length)
{
    (void)arg;
    if (t.is_deaf)
        return ERR_IO;
    ck_assert_int_eq(wire_decode_reply(&t.arena, bytes, length, &t.reply), 0);
    t.sent++;
    return 0;
}

static inline void note_pause(void *arg, bool paused)
{
    (void)arg;
    *(paused ? &t.paused : &t.resumed) += 1;
}

static inline void note_close(void *arg)
{
    (void)arg;
    t.closed++;
}

static const struct session_io io = {take_packet, note_pause, note_close};

static inline void open_connection(void)
{
    const struct peer peer = {.pid = 7, .uid = 1000, .gid = 1000};

    t.sent = t.closed = t.paused = t.resumed = 0;
    t.is_deaf = false;
    ck_assert_int_eq(session_new(&t.service, &peer, &io, NULL, &t.session), 0);
}

static inline void close_connection(void)
{
    session_end(t.session, 0, "the test ends it");
    session_free(t.session);
    t.session = NULL;
}

static inline void set_up(void)
{
    memset(&t, 0, sizeof(t));
    log_init(STDERR_FILENO, LOG_LEVEL_ERROR);
    config_defaults(&t.config);
    t.config.telemetry = BACKEND_NVML;
    service_init(&t.service, &t.config, 1);
    t.service.journal = journal_new(65536, "", 0, "boot", service_preamble, &t.service);
    ck_assert_ptr_nonnull(t.service.journal);
    t.service.sampler = &t.sampler;
    open_connection();
}

static inline void tear_down(void)
{
    if (t.session)
        close_connection();
    journal_free(t.service.journal);
    service_done(&t.service);
}

/* What each message needs to be a good one in the state in which it is allowed. */
static inline struct wire_request good(enum wire_op op)
{
    struct wire_request r = {.seq = 9, .op = op};

    switch (op) {
    case WIRE_HELLO:
        r.u.hello.min_version = r.u.hello.max_version = 1;
        r.u.hello.features = FEATURE_BRACKETS;
        break;
    case WIRE_ATTACH:
        strcpy(r.u.attach.id, "new");
        r.u.attach.staged_bytes = 5;
        break;
    case WIRE_DETACH:
        strcpy(r.u.detach.id, "old");
        break;
    case WIRE_WARMUP:
        r.u.warmup.phase = PHASE_BEGIN;
        break;
    case WIRE_BUSY:
        r.u.busy.phase = PHASE_BEGIN;
        break;
    case WIRE_IDLE:
        r.u.idle.phase = PHASE_BEGIN;
        break;
    case WIRE_LEASE:
    case WIRE_UNLEASE:
        r.u.lease.kind = LEASE_BYTES;
        r.u.lease.bytes = 1;
        r.u.lease.term_ns = 1;
        break;
    case WIRE_RECLAIMED: /* of nothing: harmless */
        r.u.reclaimed.call = 7;
        r.u.reclaimed.refusal = REFUSAL_FAILED;
        break;
    case WIRE_ASK:
        r.u.ask.reserved = opt_u64(40);
        r.u.ask.allocated = opt_u64(10);
        r.u.ask.free = opt_u64(80);
        r.u.ask.total = opt_u64(400);
        break;
    default:
        break;
    }
    return r;
}

/* What the loop does after each packet. A sample that the arbiter wants does not come. */
static inline void turn(void)
{
    static const struct sample none = {0};

    room_act(&t.service);
    if (!t.service.is_room_sample_due)
        return;
    t.service.room_sample.done(&t.service.room_sample, NULL);
    room_sampled(&t.service, &none);
    room_act(&t.service);
}

static inline void feed(const struct wire_request *request)
{
    uint8_t bytes[LIMIT_MESSAGE_BYTES];

    session_feed(t.session, bytes, wire_encode_request(request, bytes));
    turn();
}

static inline void feed_good(enum wire_op op)
{
    const struct wire_request r = good(op);

    feed(&r);
}

/* A member of the oneof that this version does not know. */
static inline void feed_unknown(void)
{
    static const uint8_t bytes[] = {0x08, 9, 0xea, 0x01, 0};

    session_feed(t.session, bytes, sizeof(bytes));
}

static inline void be_worker(void)
{
    struct wire_request r = good(WIRE_ATTACH);

    feed_good(WIRE_HELLO);
    strcpy(r.u.attach.id, "old");
    feed(&r);
    ck_assert_int_eq(t.session->state, SESSION_WORKER);
}

static inline void be_observer(void)
{
    struct wire_request r = good(WIRE_HELLO);

    r.u.hello.observer = true;
    feed(&r);
    ck_assert_int_eq(t.session->state, SESSION_OBSERVER);
}

static inline void be_waiting(void)
{
    struct wire_request r = good(WIRE_ASK);

    be_worker();
    r.u.ask.free = r.u.ask.total = opt_none();
    feed(&r);
    ck_assert_int_eq(t.session->state, SESSION_WAITING);
}

/* Has an open request for events. */
static inline void be_watcher(void)
{
    struct wire_request r = {.seq = 8, .op = WIRE_EVENTS};

    be_observer();
    r.u.events.wait = true;
    r.u.events.cursor = journal_next(t.service.journal);
    feed(&r);
    ck_assert(!list_empty(&t.session->watch_link));
}
