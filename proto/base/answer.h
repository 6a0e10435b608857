/* SPDX-License-Identifier: Apache-2.0 */
/* What crosses rooms about one decision: the answer with its inputs (R8), what a boundary reports,
 * a sample of device memory, and what a session carries over a reconnect (R29). Plain data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"
#include "proto/base/terms.h"

/* One reading of device memory. A member without `has` was not read. */
struct sample {
    struct opt_u64 free, total;
    uint64_t age_ns; /* when it is used: time since it was taken */
    enum source source;
};

/* What a worker reports when it asks. free and total are its own pair (R11b): one without the
 * other counts as none. */
struct boundary {
    enum force force; /* FORCE_NONE: an unforced boundary */
    struct opt_u64 reserved, allocated, releasable, free, total;
    char component[LIMIT_NAME_SIZE]; /* "" where the worker did not name it */
};

/* R8. budget, capped, floor and cap are of before this observation, peak and learned of after. */
struct answer {
    enum decision decision; /* what the worker is told */
    enum decision would;    /* in shadow mode what it would have been told, else `decision` */
    enum reason reason;
    struct opt_u64 cached, free, total, age_ns, floor, cap, budget, capped;
    uint64_t peak, learned, staged_bytes;
    uint32_t stager_count;
    bool warmup;
    uint64_t session, n; /* n: the session's decisions, from 1 */
};

/* Counts of one session since its worker opened it; they survive a reconnect. */
struct counts {
    uint64_t retained;
    uint64_t cold_start_releases; /* R12: unforced, inside a warm-up window */
    uint64_t serving_releases;    /* R12: unforced, outside */
    uint64_t uncovered;           /* R13 */
    uint64_t forced[FORCE_MAX];   /* by cause */
    uint64_t local[CAUSE_MAX];    /* R28: answered by the library itself, by cause */
};

/* R26: what the releases of a session gave back since it was opened. The members from `cached` on
 * are about the last one; what was not read has no value. */
struct proof {
    uint64_t releases;      /* reported */
    uint64_t empty;         /* of these, such that gave back less than 1/20 of what was cached */
    uint64_t bytes;         /* given back by all of them, by the worker's reports */
    uint64_t us;            /* how long all of them took */
    struct opt_u64 cached;  /* before it */
    struct opt_u64 freed;   /* by the worker's report: reserved before minus after */
    struct opt_u64 sampled; /* by the probe: what became free until the first sample after it */
    struct opt_u64 residue; /* cached right after it */
    uint64_t last_us;
    uint64_t age_ns; /* when it is shown: since it was reported */
};

/* R23's measure: a release gave nothing back when it gave less than 1/20 of what was cached. */
static inline bool proof_gave_nothing(uint64_t freed, uint64_t cached)
{
    return cached > 0 && (freed == 0 || freed < cached / 20);
}

/* The last one, where it is known. */
static inline bool proof_is_empty(const struct proof *p)
{
    return p->freed.has && p->cached.has && proof_gave_nothing(p->freed.v, p->cached.v);
}

/* R20 to R25, for showing: what a session could give others, and needs of them. */
struct room {
    enum readiness readiness;
    uint64_t claim_bytes, asked_event, need_bytes, waits_bytes;
    uint64_t held_bytes, term_ns; /* of its reservation; times are from now on */
    enum lease lease;
    uint64_t lease_term_ns, quiet_ns;
    enum lease waits_for;
    uint64_t wait_ns; /* of the call that waits */
    bool is_late;
};

/* R31: what an operator has set for a session. revision 0: nothing yet. */
struct operator_settings {
    struct opt_u64 cap_bytes, pin_bytes;
    int32_t priority;
    uint64_t revision;
};

/* A change of them, by one who has seen that revision. What is not given stays as it is. */
struct operator_change {
    uint64_t revision;
    bool has_cap, has_pin, has_priority;
    struct opt_u64 cap_bytes, pin_bytes; /* no value: takes it away */
    int32_t priority;
};

#define PRIORITY_MAX 100

/* R29: absolute state that a client registers again; a fresh session has all of it zero. */
struct resume {
    uint64_t peak, n;
    bool in_warmup, warmup_ended, busy;
    struct opt_u64 residue, reserved, allocated; /* last report */
    struct opt_u64 announced;                    /* R24a: what it will hold at most */
    struct operator_settings operator;           /* R31 */
    struct counts counts;
};
