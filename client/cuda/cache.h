/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator cache at its boundaries: read, ask, release, prove (R4 to R8, R26). What differs
 * between allocators stands in one table; pool.c has the one of driver pools, cache.c that of the
 * hook. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/cuda/driver.h"

struct allocator_ops {
    /* 0 or an error; only then are both written. */
    int (*read)(struct dlo_cache *cache, uint64_t *ret_reserved, uint64_t *ret_allocated);
    int (*release)(struct dlo_cache *cache);
    /* The rest may be NULL. */
    void (*begin)(struct dlo_cache *cache); /* a boundary begins: notes the high watermarks */
    /* After an answer, and with NULL where only what is used has changed. */
    void (*settle)(struct dlo_cache *cache, const struct dlo_answer *answer);
    void (*describe)(struct dlo_cache *cache, struct dlo_cache_state *io);
    void (*free)(struct dlo_cache *cache); /* not in the child of a fork */
};

/* What the last releases gave; under the mutex. */
struct cache_proof {
    uint64_t releases, empty_releases;
    uint64_t released_bytes, residue, us; /* DLO_MISSING before the first */
    uint64_t stuck_reserved; /* reserved after a release that gave nothing back; else DLO_MISSING */
};

struct dlo_cache {
    const struct allocator_ops *ops;
    struct dlo_cuda *cuda;     /* NULL: a hook without one */
    struct dlo_client *client; /* NULL: no policy */
    uint32_t generation;
    bool is_unreleasable;  /* it is known that nothing is ever given back */
    bool tells_residue;    /* what no release returned is not asked for again */
    pthread_mutex_t mutex; /* protects proof; never held across a callback or a call of dlo.h */
    struct cache_proof proof;
};

/* ERR_NO_MEMORY. */
int cache_init(struct dlo_cache *cache, const struct allocator_ops *ops, struct dlo_cuda *cuda,
               struct dlo_client *client) _must_check_;

/* What is used has changed much: the stager has loaded. */
void cache_settle(struct dlo_cache *cache);
