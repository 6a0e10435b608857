/* SPDX-License-Identifier: Apache-2.0 */
/* What a handle does its work through, behind one table: link_socket (a daemon, with the local
 * engine beside it at all times) or link_null (mode off). A link knows no lock: the handle calls
 * one function at a time. Functions that return int give 0 or ERR_*, with detail in text where they
 * have more to say than the code. deadline_ns is monotonic and absolute; a function without one
 * never waits. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "client/lib/options.h"
#include "proto/base/answer.h"
#include "proto/wire/wire.h"

struct link;

/* What a thread that waits sees when it looks at the link. */
struct link_look {
    int fd;           /* readable when there is more to see; -1: none */
    uint64_t next_ns; /* look again by then (R28) */
    bool has_reclaim; /* to be carried out by whom looked (R23) */
    uint64_t call, bytes;
    bool has_waited; /* the call of `oom` has ended */
    struct wire_wait_end waited;
    uint64_t held_ns; /* R24: it may take so long; 0: not told yet */
};

struct link_ops {
    void (*free)(struct link *l);
    int (*attach)(struct link *l, const char *id, uint64_t bytes, uint64_t deadline_ns);
    int (*detach)(struct link *l, const char *id, uint64_t deadline_ns);
    int (*set_peak)(struct link *l, uint64_t peak_bytes, uint64_t deadline_ns);
    int (*warmup)(struct link *l, enum phase phase, uint64_t deadline_ns);
    /* ret->decision is NONE where there is nothing to do */
    int (*busy)(struct link *l, enum phase phase, const struct dlo_report *report,
                uint64_t deadline_ns, struct answer *ret);
    /* there is always an answer; *ret_cause is NONE where the library did not replace the daemon */
    void (*ask)(struct link *l, const struct boundary *b, uint64_t deadline_ns, struct answer *ret,
                enum cause *ret_cause);
    int (*forced)(struct link *l, const struct boundary *b);
    int (*released)(struct link *l, uint64_t reserved, uint64_t allocated, uint64_t us);
    /* R24: begins; 0, or ERR_NO_DAEMON where nobody can help, which is no fault. Sets how long it
     * takes at most. look tells of its end; abandon, where that took too long. */
    int (*oom)(struct link *l, uint64_t need_bytes, uint64_t deadline_ns, uint64_t *ret_wait_ns);
    /* R25: the same for a reservation; it takes wait_ns at most. */
    int (*reserve)(struct link *l, uint64_t bytes, uint64_t wait_ns, uint64_t term_ns,
                   uint64_t deadline_ns);
    int (*unreserve)(struct link *l, uint64_t deadline_ns);
    void (*abandon)(struct link *l);
    /* R21: an idle wait begins or ends; the daemon is told now or as soon as it is there. */
    void (*idle)(struct link *l, enum phase phase, uint64_t deadline_ns);
    void (*look)(struct link *l, struct link_look *ret);
    void (*reclaimed)(struct link *l, uint64_t call, enum refusal refusal, uint64_t reserved,
                      uint64_t allocated, uint64_t us);
    uint64_t (*cap)(struct link *l, uint64_t total_bytes);   /* MISSING where there is none */
    void (*describe)(struct link *l, struct dlo_info *info); /* info is zero but for size */
};

struct link {
    const struct link_ops *ops;
    char text[LIMIT_TEXT_SIZE]; /* detail of the error that was just returned, "" for none */
    _Atomic int mode; /* enum mode in force; the only member that is read without the lock */
};

/* Inert (R30). NULL when out of memory. */
struct link *link_null_new(void);

/* Waits for the daemon until the deadline; not to have one is no error. options are borrowed for
 * the life of the link. ERR_NO_MEMORY, ERR_UNSUPPORTED, ERR_INVALID. */
int link_socket_new(const struct options *options, uint64_t deadline_ns,
                    struct link **ret) _must_check_;
