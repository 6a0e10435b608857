/* SPDX-License-Identifier: Apache-2.0 */
/* The connection of a session: made, kept in step, made again (R28, R29). link_socket.c says what
 * to tell the daemon; this says whether and how it gets there. All sends are non-blocking, and the
 * number of replies that are still due is bounded, since a daemon closes a peer that lets its
 * answers pile up: the two can never wait for each other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/link.h"
#include "client/lib/link_local.h"
#include "client/lib/reconnect.h"
#include "client/lib/waiting.h"
#include "proto/wire/wire.h"

/* Replies that may be due. A socket buffer holds about 270 small ones; a quarter of it leaves room
 * for kernels that count more for each. */
#define SYNC_WINDOW 64

struct sync {
    const struct options *options;
    struct local *local;
    _Atomic int *mode; /* of the link */
    struct reconnect reconnect;
    int fd;
    pid_t owner;      /* the process that connected */
    uint32_t foreign; /* replies in this call that answer no call */
    uint32_t seq, due, hello_seq, resume_seq;
    bool is_full;     /* it refused a stager for its quota: no more of them on this connection */
    bool is_welcomed; /* on this connection */
    bool is_dirty;    /* the daemon was not told all that happened since its hello or resume */
    uint64_t now_ns;  /* of this call */
    struct wire_welcome welcome; /* the last; version 0: none yet */
    int last_error;              /* of the link */
    char last_text[LIMIT_TEXT_SIZE];
    char path[CONN_PATH_SIZE];
    struct waiting waiting;      /* what it says about room */
    struct wire_request request; /* scratch; sync_call and sync_push send what is in it */
    struct wire_reply reply;
    struct wire_arena arena;
};

void sync_init(struct sync *s, const struct options *options, struct local *local,
               _Atomic int *mode);
void sync_done(struct sync *s);

/* The first connect: waits for the welcome until the deadline. */
void sync_open(struct sync *s, uint64_t deadline_ns);

/* At the begin of each call: at most one non-blocking step of a reconnect; and, while connected,
 * what the daemon has to be told of earlier calls, which may wait for its replies until deadline_ns
 * (0: does not wait). CAUSE_NONE: the daemon can be called now; LOCKED: too little is left of
 * deadline_ns, since a slow lock is no fault of the daemon's; else why not. */
enum cause sync_step(struct sync *s, uint64_t deadline_ns) _must_check_;

/* Sends request and waits for its reply. CAUSE_NONE: it is in reply, and may be an error; else the
 * connection is closed. */
enum cause sync_call(struct sync *s, uint64_t deadline_ns) _must_check_;

/* Sends request, whose answer comes later, into waiting, during any call. At most one at a time. */
enum cause sync_begin(struct sync *s) _must_check_;

/* Sends request and does not wait. What does not fit is made up for later by a resume. */
void sync_push(struct sync *s);
