/* SPDX-License-Identifier: Apache-2.0 */
/* A device with some sessions on it, for the tests of the arbiter. Sizes are in GB. What the
 * arbiter does is written into `did`, an action a word: "ask1" (session 1 is told to release),
 * "held2", "end2:covered" (its call is answered). */
#pragma once

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "daemon/policy/arbiter.h"
#include "proto/base/error.h"

#define GB       1000000000ull
#define SESSIONS 70

struct player {
    struct tenant tenant;
    struct policy_session policy;
};

static struct policy_settings settings;
static struct arbiter arbiter;
static struct player players[SESSIONS + 1];
static uint64_t total_bytes, now_ns, dead_bytes;
static uint64_t calls[SESSIONS + 1]; /* the reclaim that each was told */
static struct action last[SESSIONS + 1];
static struct others others; /* of the last boundary or end of a bracket */
static char did[4096];

static inline void drain(void)
{
    struct action action;

    while (arbiter_next(&arbiter, &action)) {
        size_t used = strlen(did), number = (size_t)action.tenant->number;

        last[number] = action;
        if (action.kind == ACTION_RECLAIM) {
            calls[number] = action.call;
            snprintf(did + used, sizeof(did) - used, "%sask%zu", used ? " " : "", number);
        } else if (action.kind == ACTION_HELD) {
            snprintf(did + used, sizeof(did) - used, "%sheld%zu", used ? " " : "", number);
        } else {
            snprintf(did + used, sizeof(did) - used, "%send%zu:%s", used ? " " : "", number,
                     wait_end_word((int)action.end));
        }
    }
}

/* What was done since the last expect. */
#define expect(text)                                                                               \
    do {                                                                                           \
        drain();                                                                                   \
        ck_assert_str_eq(did, text);                                                               \
        did[0] = '\0';                                                                             \
    } while (0)

static inline void device(uint64_t total)
{
    static const struct arbiter_limits limits = {
        .oom_wait_ns = 5 * ARBITER_S,
        .busy_wait_ns = ARBITER_S / 5,
        .dead_wait_ns = 20 * ARBITER_S,
        .sample_timeout_ns = ARBITER_S / 10,
        .quiet_reserve = GB / 2,
    };

    policy_default_settings(&settings);
    arbiter_init(&arbiter, &settings, &limits);
    memset(players, 0, sizeof(players));
    memset(calls, 0, sizeof(calls));
    total_bytes = total;
    now_ns = 1000 * ARBITER_S;
    dead_bytes = 0;
    did[0] = '\0';
}

static inline struct tenant *tenant(size_t n)
{
    return &players[n].tenant;
}

static inline struct resume *state(size_t n)
{
    return &players[n].policy.state;
}

/* A session that holds so much in its cache. */
static inline void join(size_t n, bool brackets, uint64_t cached)
{
    const struct policy_choice choice = {.brackets = brackets};

    policy_session_init(&players[n].policy, n, &choice, NULL);
    state(n)->reserved = opt_u64(cached);
    state(n)->allocated = opt_u64(0);
    arbiter_add(&arbiter, tenant(n), &players[n].policy, n);
}

static inline uint64_t free_bytes(void)
{
    uint64_t used = dead_bytes;

    for (size_t n = 1; n <= SESSIONS; n++)
        used += players[n].policy.state.reserved.v;
    ck_assert_uint_le(used, total_bytes);
    return total_bytes - used;
}

static inline void sample(void)
{
    struct sample s = {.free = opt_u64(free_bytes()), .total = opt_u64(total_bytes)};

    arbiter_sample(&arbiter, &s, now_ns);
}

static inline void pass(double seconds)
{
    now_ns += (uint64_t)(seconds * (double)ARBITER_S);
    arbiter_tick(&arbiter, now_ns);
}

static inline void idle(size_t n)
{
    ck_assert_int_eq(arbiter_idle(&arbiter, tenant(n), PHASE_BEGIN, false, now_ns), 0);
}

/* The session does what it was told: holds so much afterwards. */
static inline void release(size_t n, uint64_t reserved, uint64_t allocated)
{
    policy_released(&players[n].policy, reserved, allocated);
    ck_assert_int_eq(arbiter_reclaimed(&arbiter, tenant(n), calls[n], true, 1000, now_ns), 0);
}

static inline void oom(size_t n, uint64_t need)
{
    ck_assert_int_eq(arbiter_oom(&arbiter, tenant(n), need, n, now_ns), 0);
}

/* Asks for a lease or a reservation; seconds. */
static inline int lease(size_t n, enum lease kind, uint64_t bytes, double quiet, double wait,
                        double term)
{
    const struct lease_wish wish = {
        .kind = kind,
        .bytes = bytes,
        .quiet_ns = (uint64_t)(quiet * (double)ARBITER_S),
        .wait_ns = (uint64_t)(wait * (double)ARBITER_S),
        .term_ns = (uint64_t)(term * (double)ARBITER_S),
    };

    return arbiter_lease(&arbiter, tenant(n), &wish, n, now_ns);
}

/* A boundary at which it holds so much; true when it is told to release for others. */
static inline bool boundary(size_t n, uint64_t reserved, uint64_t allocated)
{
    struct boundary b = {.reserved = opt_u64(reserved), .allocated = opt_u64(allocated)};

    arbiter_boundary(&arbiter, tenant(n), &b, now_ns, &others);
    state(n)->reserved = b.reserved;
    state(n)->allocated = b.allocated;
    return others.reclaims;
}

/* It has released at a boundary. */
static inline void report(size_t n, uint64_t reserved, uint64_t allocated)
{
    policy_released(&players[n].policy, reserved, allocated);
    arbiter_reported(&arbiter, tenant(n), true, 1000, now_ns);
}

/* true: the call waits. */
static inline bool begin_busy(size_t n, uint64_t need)
{
    ck_assert_int_eq(policy_busy(&players[n].policy, PHASE_BEGIN), 0);
    return arbiter_busy_begin(&arbiter, tenant(n), opt_u64(need), ARBITER_S, n, now_ns);
}

static inline enum reason end_busy(size_t n, uint64_t need)
{
    ck_assert_int_eq(policy_busy(&players[n].policy, PHASE_END), 0);
    arbiter_busy_end(&arbiter, tenant(n), opt_u64(need), now_ns, &others);
    return policy_bracket_end(&players[n].policy, &others);
}
