/* SPDX-License-Identifier: Apache-2.0 */
/* One connection as a state machine: packets in, packets out. No uv types, no descriptors: the
 * server gives it packets and a struct session_io to answer through, tests do the same with
 * buffers. Memory per peer is bounded: this struct and its stagers within the quotas.
 *
 * NEW -- hello --> WORKER (a session of docs/policy.md) or OBSERVER (dlo-ctl)
 * WORKER -- ask without a fresh sample --> WAITING -- sample or its deadline --> WORKER
 * any -- error that ends trust, or session_end --> CLOSED */
#pragma once

#include "daemon/policy/arbiter.h"
#include "daemon/proof.h"
#include "daemon/sampler.h"
#include "daemon/service.h"
#include "proto/trace/trace.h"

enum session_state {
    SESSION_NEW = 1,
    SESSION_WORKER = 2,
    SESSION_OBSERVER = 4,
    SESSION_WAITING = 8, /* owes an answer that needs a sample; reads nothing meanwhile */
    SESSION_CLOSED = 16,
};

/* The way out. */
struct session_io {
    /* One packet, whole or not at all. Then the session is ended by: ERR_LIMIT, the peer's buffer
     * is full since it does not read; ERR_IO, the connection is gone. */
    int (*send)(void *arg, const uint8_t *bytes, size_t length);
    void (*pause)(void *arg, bool paused); /* stop or go on reading */
    void (*close)(void *arg);              /* ends the connection; session_free comes later */
};

struct session {
    struct list link, watch_link;
    struct service *service;
    struct holder *holder; /* of peer.uid */
    const struct session_io *io;
    void *io_arg;
    enum session_state state;
    struct peer peer;
    uint64_t opened_ns, features;
    uint32_t version; /* of the protocol, agreed on */
    char name[LIMIT_NAME_SIZE], group[LIMIT_NAME_SIZE];
    uint32_t rank, world;
    uint32_t error_count;

    struct policy_session policy;
    struct tenant tenant;            /* of service::arbiter, while it is a worker */
    uint32_t call_seq;               /* of the request whose call waits there */
    char component[LIMIT_NAME_SIZE]; /* of the last decision */
    uint64_t decided_ns;
    struct proof_state proof; /* R26, since the session was opened */

    struct boundary pending; /* while WAITING */
    uint32_t pending_seq;
    struct sample_wait wait;

    uint32_t watch_seq; /* while in service::watchers */
    uint64_t watch_cursor;
};

/* A new connection within the quotas: ERR_BUSY, ERR_NO_MEMORY. */
int session_new(struct service *service, const struct peer *peer, const struct session_io *io,
                void *io_arg, struct session **ret) _must_check_;

/* One packet of the peer. The session may be CLOSED afterwards. */
void session_feed(struct session *s, const uint8_t *bytes, size_t length);

/* Ends it for a cause of ours or of the transport ("the peer closed", "no hello within 1s").
 * code: the error that the peer is told, 0 for none. Calls io->close once. */
void session_end(struct session *s, int code, const char *cause);

/* Frees it; it must be CLOSED. */
void session_free(struct session *s);

/* ---- for handlers (daemon/handle_*.c) ---- */

/* Sends service->reply with that seq; ends the session when the peer does not take it. */
void session_reply(struct session *s, uint32_t seq);

/* Decides the boundary and sends the answer. sample: NULL where none is fresh. */
void session_decide(struct session *s, uint32_t seq, const struct boundary *b,
                    const struct sample *sample);

/* R27: one notice when it begins to release all the time, with what would cure it. */
void session_tell_habit(struct session *s);

/* Registers it as a worker: into the service's table, the probe wanted, journal and log. */
void session_register(struct session *s);

/* A line about it for the journal: begun, then t and the outcome (r < 0: an error with its reason),
 * after which the caller may add keys, and written. */
void session_line_begin(const struct session *s, struct trace_writer *w,
                        char line[TRACE_LINE_MAX + 1], enum trace_verb verb);
void session_line_answer(const struct session *s, struct trace_writer *w, int r);
void session_line_end(const struct session *s, struct trace_writer *w);

/* Writes its open line and one attach line a stager: for preambles and after a resume. */
void session_journal_state(const struct session *s, struct journal *j);

/* Logs one line about the session with its number, pid and uid. */
void session_log(const struct session *s, enum log_level level, const char *format, ...)
    _printf_(3, 4);

/* Tells a worker the settings that hold since a reload: a welcome that nobody asked for. */
void session_welcome_again(struct session *s);

/* Sends events to a session that waits for them, if there are any. */
void session_wake_watcher(struct session *s);
