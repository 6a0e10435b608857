/* SPDX-License-Identifier: Apache-2.0 */
/* Byte quantities: unsigned 64 bits, sums checked, differences stopping at 0, and a number that
 * may be missing. No other arithmetic on bytes is allowed outside these helpers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A number that knows whether it was read. */
struct opt_u64 {
    uint64_t v;
    bool has;
};

static inline struct opt_u64 opt_u64(uint64_t v)
{
    return (struct opt_u64){.v = v, .has = true};
}

static inline struct opt_u64 opt_none(void)
{
    return (struct opt_u64){.v = 0, .has = false};
}

/* false, and *ret untouched, when the sum would pass 2^64-1 */
static inline bool bytes_add(uint64_t a, uint64_t b, uint64_t *ret)
{
    uint64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *ret = sum;
    return true;
}

static inline uint64_t bytes_add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t bytes_sub_sat(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static inline uint64_t bytes_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t bytes_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}
