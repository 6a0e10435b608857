/* SPDX-License-Identifier: Apache-2.0 */
/* A tiny daemon in a thread of the test: speaks the wire, decides with the policy core, and
 * misbehaves as told. For the tests of the client library only. */
#pragma once

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/policy/policy.h"
#include "proto/base/error.h"
#include "proto/wire/wire.h"

#define FAKE_CONNS 8

enum fake_behaviour {
    FAKE_NORMAL,
    FAKE_SILENT,       /* takes everything, says nothing */
    FAKE_SILENT_ASK,   /* says nothing to an ask only */
    FAKE_CLOSE_ON_ASK, /* closes when it is asked */
    FAKE_REFUSE,       /* answers a hello with an error and closes */
};

struct fake_conn {
    int fd;
    struct policy_session session;
};

struct fake {
    char dir[64], path[96];
    pthread_t thread;
    int listener, wake;
    atomic_int behaviour, stager_limit, mode;
    atomic_uint connects; /* also while the mutex keeps the thread from going on */
    struct policy_settings settings;
    struct fake_conn conns[FAKE_CONNS];
    uint64_t last_number;

    pthread_mutex_t mutex; /* protects the rest; changed is signalled with it */
    pthread_cond_t changed;
    struct wire_hello hello; /* the last one */
    struct resume resumed;   /* the last one */
    unsigned hellos, asks, resumes, attaches, detaches, releases, accepts;
    uint32_t stagers; /* of the last session that changed them */
    uint64_t staged_bytes;
    struct boundary boundary; /* of the last ask */

    struct wire_arena arena;
    struct wire_request request;
    struct wire_reply reply;
};

static inline void fake_note(struct fake *f, unsigned *counter)
{
    pthread_mutex_lock(&f->mutex);
    ++*counter;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

/* Waits until the counter has that value; fails the test after 5 s. */
static inline void fake_wait(struct fake *f, const unsigned *counter, unsigned value)
{
    struct timespec until;
    int r = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    pthread_mutex_lock(&f->mutex);
    while (*counter < value && r == 0)
        r = pthread_cond_timedwait(&f->changed, &f->mutex, &until);
    pthread_mutex_unlock(&f->mutex);
    ck_assert_msg(r == 0, "the daemon saw %u of %u", *counter, value);
}

static inline unsigned fake_read(struct fake *f, const unsigned *counter)
{
    unsigned v;

    pthread_mutex_lock(&f->mutex);
    v = *counter;
    pthread_mutex_unlock(&f->mutex);
    return v;
}

static inline void fake_end_session(struct fake_conn *c)
{
    struct stager *s;

    while ((s = ledger_pop(&c->session.ledger)))
        free(s);
    close(c->fd);
    c->fd = -1;
}

static inline void fake_error(struct fake *f, int code, const char *text)
{
    f->reply.body = WIRE_ERROR;
    f->reply.u.error.code = code;
    snprintf(f->reply.u.error.text, sizeof(f->reply.u.error.text), "%s", text);
}

static inline void fake_hello(struct fake *f, struct fake_conn *c)
{
    const struct wire_hello *h = &f->request.u.hello;
    const struct policy_choice choice = {.policy = h->policy,
                                         .has_min_free = h->has_min_free,
                                         .min_free = h->min_free,
                                         .stage_end = h->stage_end,
                                         .brackets = (h->features & FEATURE_BRACKETS) != 0,
                                         .mode = h->mode};

    policy_session_init(&c->session, ++f->last_number, &choice, h->has_state ? &h->state : NULL);
    f->settings.mode = (enum mode)atomic_load(&f->mode);
    f->reply.body = WIRE_WELCOME;
    f->reply.u.welcome = (struct wire_welcome){.version = 1,
                                               .session = c->session.number,
                                               .mode = f->settings.mode,
                                               .margin = f->settings.margin,
                                               .cap_fraction = f->settings.cap_fraction,
                                               .min_free = f->settings.min_free,
                                               .policy = f->settings.policy};
    strcpy(f->reply.u.welcome.daemon, "fake-1");
    strcpy(f->reply.u.welcome.uuid, "GPU-fake");
}

static inline void fake_ledger(struct fake *f, struct fake_conn *c)
{
    f->reply.body = WIRE_LEDGER;
    f->reply.u.ledger.staged_bytes = f->staged_bytes = c->session.ledger.staged_bytes;
    f->reply.u.ledger.stager_count = f->stagers = c->session.ledger.count;
    f->reply.u.ledger.peak = c->session.state.peak;
}

static inline void fake_attach(struct fake *f, struct fake_conn *c)
{
    struct stager *s = calloc(1, sizeof(*s));

    ck_assert_ptr_nonnull(s);
    strcpy(s->id, f->request.u.attach.id);
    s->staged_bytes = f->request.u.attach.staged_bytes;
    fake_ledger(f, c);
    if ((int)c->session.ledger.count >= atomic_load(&f->stager_limit)) {
        free(s);
        fake_error(f, ERR_LIMIT, "enough");
    } else if (policy_attach(&c->session, s) <= 0) {
        free(s);
    } else {
        fake_ledger(f, c);
    }
}

static inline void fake_detach(struct fake *f, struct fake_conn *c)
{
    struct stager *s = policy_detach(&c->session, f->request.u.detach.id);

    fake_ledger(f, c);
    if (!s)
        fake_error(f, ERR_UNKNOWN_STAGER, "unknown");
    free(s);
}

/* Fills reply; the counter to step. Called with the mutex held. */
static inline unsigned *fake_handle(struct fake *f, struct fake_conn *c)
{
    struct policy_notice notice;

    f->reply.body = WIRE_DONE;
    switch (f->request.op) {
    case WIRE_HELLO:
        f->hello = f->request.u.hello;
        fake_hello(f, c);
        return &f->hellos;
    case WIRE_ATTACH:
        fake_attach(f, c);
        return &f->attaches;
    case WIRE_DETACH:
        fake_detach(f, c);
        return &f->detaches;
    case WIRE_SET_PEAK:
        policy_set_peak(&c->session, f->request.u.set_peak.peak);
        fake_ledger(f, c);
        return NULL;
    case WIRE_WARMUP:
        if (policy_warmup(&c->session, f->request.u.warmup.phase) < 0)
            fake_error(f, ERR_BAD_STATE, "bad state");
        return NULL;
    case WIRE_BUSY:
        if (policy_busy(&c->session, f->request.u.busy.phase) < 0)
            fake_error(f, ERR_BAD_STATE, "bad state");
        return NULL;
    case WIRE_ASK:
        f->boundary = f->request.u.ask;
        f->reply.body = WIRE_ANSWER;
        policy_decide(&f->settings, &c->session, &f->boundary, NULL, NULL, &f->reply.u.answer,
                      &notice);
        return &f->asks;
    case WIRE_RELEASED:
        policy_released(&c->session, f->request.u.released.reserved,
                        f->request.u.released.allocated);
        return &f->releases;
    case WIRE_RESUME:
        f->resumed = c->session.state = f->request.u.resume.state;
        return &f->resumes;
    default:
        fake_error(f, ERR_UNSUPPORTED, "?");
        return NULL;
    }
}

static inline void fake_packet(struct fake *f, struct fake_conn *c)
{
    uint8_t bytes[LIMIT_MESSAGE_BYTES + 1], out[LIMIT_MESSAGE_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
    int how = atomic_load(&f->behaviour);
    const char *field;
    unsigned *counter;
    bool is_ask, ends = false;

    if (n <= 0) {
        fake_end_session(c);
        return;
    }
    ck_assert_int_eq(wire_decode_request(&f->arena, bytes, (size_t)n, &f->request, &field), 0);
    is_ask = f->request.op == WIRE_ASK;
    pthread_mutex_lock(&f->mutex);
    counter = fake_handle(f, c);
    if (counter) /* before the reply, so that who has the reply sees the count */
        ++*counter;
    pthread_cond_broadcast(&f->changed);
    f->reply.seq = f->request.seq;
    if (how == FAKE_REFUSE) {
        fake_error(f, ERR_POLICY_NOT_ALLOWED, "not here");
        ends = true;
    }
    if (how == FAKE_CLOSE_ON_ASK && is_ask)
        ends = true;
    else if (how != FAKE_SILENT && !(how == FAKE_SILENT_ASK && is_ask))
        ends |= send(c->fd, out, wire_encode_reply(&f->reply, out), MSG_NOSIGNAL | MSG_DONTWAIT) <
                0; /* as dlod does: a peer that does not read is closed */
    if (ends)
        fake_end_session(c);
    pthread_mutex_unlock(&f->mutex);
}

static inline void fake_accept(struct fake *f)
{
    int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);

    atomic_fetch_add(&f->connects, 1);
    for (int i = 0; fd >= 0 && i < FAKE_CONNS; i++) {
        if (f->conns[i].fd >= 0)
            continue;
        f->conns[i].fd = fd;
        ledger_init(&f->conns[i].session.ledger);
        fake_note(f, &f->accepts);
        return;
    }
    ck_abort_msg("too many connections");
}

static inline void *fake_loop(void *arg)
{
    struct fake *f = arg;

    for (;;) {
        struct pollfd p[FAKE_CONNS + 2] = {{.fd = f->wake, .events = POLLIN},
                                           {.fd = f->listener, .events = POLLIN}};

        for (int i = 0; i < FAKE_CONNS; i++)
            p[i + 2] = (struct pollfd){.fd = f->conns[i].fd, .events = POLLIN};
        if (poll(p, FAKE_CONNS + 2, -1) < 0)
            continue;
        if (p[0].revents)
            return NULL;
        for (int i = 0; i < FAKE_CONNS; i++)
            if (p[i + 2].revents && f->conns[i].fd >= 0)
                fake_packet(f, &f->conns[i]);
        if (p[1].revents)
            fake_accept(f);
    }
}

static inline void fake_start(struct fake *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    for (int i = 0; i < FAKE_CONNS; i++)
        f->conns[i].fd = -1;
    strcpy(address.sun_path, f->path);
    f->wake = eventfd(0, EFD_CLOEXEC);
    f->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(f->listener, 0);
    ck_assert_int_eq(bind(f->listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(f->listener, 8), 0);
    ck_assert_int_eq(pthread_create(&f->thread, NULL, fake_loop, f), 0);
}

static inline void fake_stop(struct fake *f)
{
    ck_assert_int_eq(eventfd_write(f->wake, 1), 0);
    pthread_join(f->thread, NULL);
    for (int i = 0; i < FAKE_CONNS; i++)
        if (f->conns[i].fd >= 0)
            fake_end_session(&f->conns[i]);
    close(f->listener);
    close(f->wake);
    unlink(f->path);
}

/* A folder of its own, nobody listening yet. */
static inline struct fake *fake_new(void)
{
    struct fake *f = calloc(1, sizeof(*f));

    ck_assert_ptr_nonnull(f);
    strcpy(f->dir, "/tmp/dlo-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/gpu0.sock", f->dir);
    f->settings = (struct policy_settings){.margin = 1.25,
                                           .cap_fraction = 0.25,
                                           .min_free = 0.05,
                                           .policy = POLICY_LEARNED,
                                           .mode = MODE_ON};
    atomic_init(&f->stager_limit, 4096);
    atomic_init(&f->mode, MODE_ON);
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    return f;
}

static inline void fake_free(struct fake *f)
{
    rmdir(f->dir);
    pthread_mutex_destroy(&f->mutex);
    pthread_cond_destroy(&f->changed);
    free(f);
}
