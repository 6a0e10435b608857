/* SPDX-License-Identifier: Apache-2.0 */
/* The words of docs/policy.md as enums, spelled alike in C, protocol, traces, logs and metrics.
 * Numbers travel on the wire: never reuse one. 0 always means "none". */
#pragma once

#include <stdint.h>

/* What a worker is told to do. KEEP: whatever it would do without us (R30). */
#define DECISION_MAP(X)                                                                            \
    X(RETAIN, 1, "retain")                                                                         \
    X(RELEASE, 2, "release")                                                                       \
    X(KEEP, 3, "keep")

/* R7, in order of precedence. */
#define REASON_MAP(X)                                                                              \
    X(FORCED, 1, "forced")                                                                         \
    X(TELEMETRY_UNAVAILABLE, 2, "telemetry_unavailable")                                           \
    X(QUIET, 3, "quiet")                                                                           \
    X(RECLAIM, 4, "reclaim")                                                                       \
    X(POLICY_ALWAYS, 5, "policy_always")                                                           \
    X(POLICY_NEVER, 6, "policy_never")                                                             \
    X(CACHED_OVER_BUDGET, 7, "cached_over_budget")                                                 \
    X(LOW_FREE_MEMORY, 8, "low_free_memory")                                                       \
    X(NEIGHBOUR_NEED, 9, "neighbour_need")                                                         \
    X(WITHIN_BUDGET, 10, "within_budget")

/* R27: what would cure a session that releases all the time for one and the same reason. */
#define CURE_MAP(X)                                                                                \
    X(CAP, 1, "cap")             /* cached_over_budget */                                          \
    X(FLOOR, 2, "floor")         /* low_free_memory */                                             \
    X(ALLOCATOR, 3, "allocator") /* telemetry_unavailable, the allocator could not be read */      \
    X(TELEMETRY, 4, "telemetry") /* telemetry_unavailable, the device could not be read */

/* R27: at every boundary of its last brackets, or at some boundary of each of them. */
#define HABIT_MAP(X)                                                                               \
    X(INERT, 1, "inert")                                                                           \
    X(FLAPPING, 2, "flapping")

/* R4: why a worker forces a release. */
#define FORCE_MAP(X)                                                                               \
    X(FAILURE, 1, "failure")                                                                       \
    X(OOM_RETRY, 2, "oom_retry")                                                                   \
    X(STAGE_END, 3, "stage_end")                                                                   \
    X(OPERATOR, 4, "operator")

/* R5, R11a, R32. */
#define POLICY_MAP(X)                                                                              \
    X(LEARNED, 1, "learned")                                                                       \
    X(FIXED, 2, "fixed")                                                                           \
    X(ALWAYS, 3, "always")                                                                         \
    X(NEVER, 4, "never")                                                                           \
    X(DEMAND, 5, "demand")

/* R30. The lower of two modes wins where client and daemon differ. */
#define MODE_MAP(X)                                                                                \
    X(OFF, 1, "off")                                                                               \
    X(SHADOW, 2, "shadow")                                                                         \
    X(ON, 3, "on")

/* R4: what a stage_end request means for this host. */
#define STAGE_END_MAP(X)                                                                           \
    X(FORCE, 1, "force")                                                                           \
    X(ADVISE, 2, "advise")

/* Where a reading of device memory comes from. */
#define SOURCE_MAP(X)                                                                              \
    X(NVML, 1, "nvml")                                                                             \
    X(CUDA, 2, "cuda")                                                                             \
    X(MEMINFO, 3, "meminfo")                                                                       \
    X(SIM, 4, "sim")                                                                               \
    X(WORKER, 5, "worker")

/* Warm-up windows (R12), brackets (R21) and idle waits have a begin and an end. */
#define PHASE_MAP(X)                                                                               \
    X(BEGIN, 1, "begin")                                                                           \
    X(END, 2, "end")

/* How a call that waited for memory ended (R24, R24a), and why. */
#define WAIT_END_MAP(X)                                                                            \
    X(COVERED, 1, "covered") /* a fresh sample shows that it fits */                               \
    X(NOBODY, 2, "nobody")   /* nobody is left who could make room */                              \
    X(DEADLINE, 3, "deadline")                                                                     \
    X(UNVERIFIED, 4, "unverified") /* no sample says what is free */                               \
    X(SHADOW, 5, "shadow")         /* R30: nobody is asked */                                      \
    X(LOCAL, 6, "local")           /* R28: no daemon was there to help */

/* Why a session did not release when it was told to (R23). */
#define REFUSAL_MAP(X)                                                                             \
    X(NO_CALLBACK, 1, "no_callback") /* the host gave no way to do it */                           \
    X(FAILED, 2, "failed")           /* the host tried, and could not */                           \
    X(BUSY, 3, "busy")               /* its work has begun meanwhile */

/* R25. This version has reservations, of bytes. */
#define LEASE_MAP(X)                                                                               \
    X(SHARED, 1, "shared")                                                                         \
    X(EXCLUSIVE, 2, "exclusive")                                                                   \
    X(BYTES, 3, "bytes")

/* R20: when a session could release. */
#define READINESS_MAP(X)                                                                           \
    X(READY, 1, "ready")              /* now */                                                    \
    X(BUSY, 2, "busy")                /* at its next boundary, which will come */                  \
    X(DORMANT, 3, "at_next_boundary") /* whenever that is; it is not asked and not waited for */   \
    X(ABSENT, 4, "absent")            /* shadow: it takes no part */

/* R28: why the library answered by itself. */
#define CAUSE_MAP(X)                                                                               \
    X(NO_DAEMON, 1, "no_daemon")                                                                   \
    X(DEADLINE, 2, "deadline")                                                                     \
    X(BACK_OFF, 3, "back_off")                                                                     \
    X(BROKEN, 4, "broken")                                                                         \
    X(REFUSED, 5, "refused")                                                                       \
    X(LOCKED, 6, "locked")

/* Bits of a hello: what the session can do. Unknown bits are ignored. */
#define FEATURE_MAP(X)                                                                             \
    X(BRACKETS, 1, "brackets")                                                                     \
    X(RECLAIM, 2, "reclaim")                                                                       \
    X(BACKGROUND, 4, "background")                                                                 \
    X(PARTIAL, 8, "partial")

enum decision {
    DECISION_NONE = 0,
#define X(name, value, word) DECISION_##name = value,
    DECISION_MAP(X)
#undef X
};
enum reason {
    REASON_NONE = 0,
#define X(name, value, word) REASON_##name = value,
    REASON_MAP(X)
#undef X
        REASON_MAX
};
enum force {
    FORCE_NONE = 0,
#define X(name, value, word) FORCE_##name = value,
    FORCE_MAP(X)
#undef X
        FORCE_MAX
};
enum policy {
    POLICY_NONE = 0,
#define X(name, value, word) POLICY_##name = value,
    POLICY_MAP(X)
#undef X
};
enum mode {
    MODE_NONE = 0,
#define X(name, value, word) MODE_##name = value,
    MODE_MAP(X)
#undef X
};
enum cure {
    CURE_NONE = 0,
#define X(name, value, word) CURE_##name = value,
    CURE_MAP(X)
#undef X
};
enum habit_kind {
    HABIT_NONE = 0,
#define X(name, value, word) HABIT_##name = value,
    HABIT_MAP(X)
#undef X
};
enum stage_end {
    STAGE_END_NONE = 0,
#define X(name, value, word) STAGE_END_##name = value,
    STAGE_END_MAP(X)
#undef X
};
enum source {
    SOURCE_NONE = 0,
#define X(name, value, word) SOURCE_##name = value,
    SOURCE_MAP(X)
#undef X
};
enum phase {
    PHASE_NONE = 0,
#define X(name, value, word) PHASE_##name = value,
    PHASE_MAP(X)
#undef X
};
enum cause {
    CAUSE_NONE = 0,
#define X(name, value, word) CAUSE_##name = value,
    CAUSE_MAP(X)
#undef X
        CAUSE_MAX
};
enum wait_end {
    WAIT_END_NONE = 0,
#define X(name, value, word) WAIT_END_##name = value,
    WAIT_END_MAP(X)
#undef X
};
enum lease {
    LEASE_NONE = 0,
#define X(name, value, word) LEASE_##name = value,
    LEASE_MAP(X)
#undef X
};
enum refusal {
    REFUSAL_NONE = 0,
#define X(name, value, word) REFUSAL_##name = value,
    REFUSAL_MAP(X)
#undef X
};
enum readiness {
    READINESS_NONE = 0,
#define X(name, value, word) READINESS_##name = value,
    READINESS_MAP(X)
#undef X
};
enum feature {
#define X(name, value, word) FEATURE_##name = value,
    FEATURE_MAP(X)
#undef X
};

/* One row of a word table; a table ends with a NULL word. */
struct term {
    int value;
    const char *word;
};

extern const struct term decision_terms[], reason_terms[], force_terms[], policy_terms[],
    mode_terms[], cure_terms[], habit_terms[], stage_end_terms[], source_terms[], phase_terms[],
    cause_terms[], feature_terms[], wait_end_terms[], readiness_terms[], refusal_terms[],
    lease_terms[];

/* The word of a value, "-" for 0 and for a value that is not in the table. */
const char *term_word(const struct term *table, int value);

/* The value of a word, 0 where there is none. */
int term_value(const struct term *table, const char *word);

#define decision_word(v)  term_word(decision_terms, v)
#define reason_word(v)    term_word(reason_terms, v)
#define force_word(v)     term_word(force_terms, v)
#define policy_word(v)    term_word(policy_terms, v)
#define mode_word(v)      term_word(mode_terms, v)
#define cure_word(v)      term_word(cure_terms, v)
#define habit_word(v)     term_word(habit_terms, v)
#define stage_end_word(v) term_word(stage_end_terms, v)
#define source_word(v)    term_word(source_terms, v)
#define phase_word(v)     term_word(phase_terms, v)
#define cause_word(v)     term_word(cause_terms, v)
#define wait_end_word(v)  term_word(wait_end_terms, v)
#define readiness_word(v) term_word(readiness_terms, v)
#define lease_word(v)     term_word(lease_terms, v)
#define refusal_word(v)   term_word(refusal_terms, v)
