/* SPDX-License-Identifier: Apache-2.0 */
/* A driver memory pool as an allocator cache. By default the driver gives freed memory back at
 * every synchronize (a threshold of 0), and there would be nothing to decide. So the threshold is
 * raised to what is used plus the cap: the policy decides below it, and the driver enforces it by
 * itself, also while no boundary comes and when dlod is gone. */
#include "client/cuda/pool.h"

#include <stdlib.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct pool_cache {
    struct dlo_cache cache;
    struct CUmemPoolHandle_st *pool;
    bool is_ours;
    uint64_t original_threshold; /* put back where we do not decide, and at the end */
    /* under the cache's mutex: */
    uint64_t cap; /* in force, DLO_MISSING: the threshold is the original one */
    uint64_t reserved_high, allocated_high; /* at the last boundary */
};

static struct pool_cache *pool_cache(struct dlo_cache *cache)
{
    return container_of(cache, struct pool_cache, cache);
}

static int get(struct pool_cache *p, unsigned int attribute, uint64_t *ret)
{
    return DRIVER_CALL(p->cache.cuda, mem_pool_get_attribute, p->pool, attribute, ret);
}

static int set(struct pool_cache *p, unsigned int attribute, uint64_t value)
{
    return DRIVER_CALL(p->cache.cuda, mem_pool_set_attribute, p->pool, attribute, &value);
}

static int pool_read(struct dlo_cache *cache, uint64_t *ret_reserved, uint64_t *ret_allocated)
{
    struct pool_cache *p = pool_cache(cache);
    uint64_t reserved = 0, used = 0;
    int r = driver_enter(cache->cuda);

    if (r)
        return r;
    r = get(p, CUABI_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    if (r == 0)
        r = get(p, CUABI_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    driver_leave(cache->cuda);
    if (r == 0) {
        *ret_reserved = reserved;
        *ret_allocated = used;
    }
    return r;
}

/* A free whose completion the host has not observed counts as outstanding, so a synchronize comes
 * before the trim. */
static int pool_release(struct dlo_cache *cache)
{
    struct pool_cache *p = pool_cache(cache);
    int r = driver_enter(cache->cuda);

    if (r)
        return r;
    r = DRIVER_CALL(cache->cuda, ctx_synchronize);
    if (r == 0)
        r = DRIVER_CALL(cache->cuda, mem_pool_trim_to, p->pool, 0);
    driver_leave(cache->cuda);
    return r;
}

/* The high watermarks since the boundary before; setting one to 0 starts it anew. */
static void pool_begin(struct dlo_cache *cache)
{
    struct pool_cache *p = pool_cache(cache);
    uint64_t reserved = DLO_MISSING, used = DLO_MISSING;

    if (driver_enter(cache->cuda))
        return;
    if (get(p, CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &reserved) == 0)
        (void)set(p, CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
    if (get(p, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH, &used) == 0)
        (void)set(p, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH, 0);
    driver_leave(cache->cuda);
    pthread_mutex_lock(&cache->mutex);
    p->reserved_high = reserved;
    p->allocated_high = used;
    pthread_mutex_unlock(&cache->mutex);
}

static void set_threshold(struct pool_cache *p, uint64_t cap)
{
    uint64_t threshold = p->original_threshold, used = 0;
    bool is_known = cap == DLO_MISSING;

    if (driver_enter(p->cache.cuda))
        return;
    if (!is_known)
        is_known = get(p, CUABI_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) == 0 &&
                   !__builtin_add_overflow(used, cap, &threshold);
    if (is_known)
        (void)set(p, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold);
    driver_leave(p->cache.cuda);
}

/* An answer without a cap (forced, or nothing could be read) leaves the cap of the one before. */
static void pool_settle(struct dlo_cache *cache, const struct dlo_answer *answer)
{
    struct pool_cache *p = pool_cache(cache);
    bool is_ours_to_set = true;
    uint64_t cap;

    pthread_mutex_lock(&cache->mutex);
    if (answer && answer->decision == DLO_DECISION_KEEP) { /* R30 */
        is_ours_to_set = p->cap != DLO_MISSING;
        p->cap = DLO_MISSING;
    } else if (answer && (answer->fields & DLO_FIELD_CAP)) {
        p->cap = answer->cap;
    } else {
        is_ours_to_set = p->cap != DLO_MISSING;
    }
    cap = p->cap;
    pthread_mutex_unlock(&cache->mutex);
    if (is_ours_to_set)
        set_threshold(p, cap);
}

static void pool_describe(struct dlo_cache *cache, struct dlo_cache_state *io)
{
    struct pool_cache *p = pool_cache(cache);
    uint64_t threshold = 0;

    pthread_mutex_lock(&cache->mutex);
    io->reserved_high = p->reserved_high;
    io->allocated_high = p->allocated_high;
    pthread_mutex_unlock(&cache->mutex);
    if (driver_enter(cache->cuda))
        return;
    if (get(p, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == 0)
        io->threshold = threshold;
    driver_leave(cache->cuda);
}

static void pool_free(struct dlo_cache *cache)
{
    struct pool_cache *p = pool_cache(cache);

    if (driver_enter(cache->cuda))
        return;
    if (p->is_ours)
        DRIVER_UNDO(cache->cuda, mem_pool_destroy, p->pool);
    else
        DRIVER_UNDO(cache->cuda, mem_pool_set_attribute, p->pool,
                    CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &p->original_threshold);
    driver_leave(cache->cuda);
}

static const struct allocator_ops pool_ops = {
    .read = pool_read,
    .release = pool_release,
    .begin = pool_begin,
    .settle = pool_settle,
    .describe = pool_describe,
    .free = pool_free,
};

struct CUmemPoolHandle_st *pool_of_cache(const struct dlo_cache *cache)
{
    return cache && cache->ops == &pool_ops
               ? container_of(cache, const struct pool_cache, cache)->pool
               : NULL;
}

void *dlo_cache_pool(const struct dlo_cache *cache)
{
    return pool_of_cache(cache);
}

/* ---- opening ---- */

static bool has_pool_calls(const struct dlo_cuda *cuda)
{
#define HAS(field, symbol, since, need, args)                                                      \
    (CUABI_NEED_##need != CUABI_NEED_POOL || cuda->calls.field != NULL) &&
    return CUABI_FUNCS(HAS) true;
#undef HAS
}

static int make_pool(struct pool_cache *p, bool is_exportable)
{
    struct dlo_cuda *cuda = p->cache.cuda;
    const struct CUmemPoolProps_st props = {
        .allocType = CUABI_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = is_exportable ? CUABI_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
        .location = {.type = CUABI_MEM_LOCATION_TYPE_DEVICE, .id = cuda->device},
    };
    int r = DRIVER_CALL(cuda, mem_pool_create, &p->pool, &props);

    p->is_ours = r == 0;
    p->cache.is_unreleasable = is_exportable;
    return r;
}

/* With the context pushed. */
static int take_pool(struct pool_cache *p, const struct dlo_pool *wanted)
{
    struct dlo_cuda *cuda = p->cache.cuda;
    int supported = 0;
    int r = DRIVER_CALL(cuda, device_get_attribute, &supported,
                        CUABI_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, cuda->device);

    if (r == 0 && !supported)
        return driver_fail(ERR_UNSUPPORTED, "the device has no memory pools");
    p->pool = wanted->pool;
    if (r == 0 && !p->pool)
        r = wanted->use_default
                ? DRIVER_CALL(cuda, device_get_default_mem_pool, &p->pool, cuda->device)
                : make_pool(p, wanted->exportable);
    if (r == 0)
        r = get(p, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &p->original_threshold);
    return r;
}

/* The threshold holds from the start: no boundary may come for a long time. */
static void settle_first(struct pool_cache *p)
{
    struct dlo_info info = DLO_INFO_INIT;
    uint64_t free_bytes, total_bytes, cap;

    if (p->cache.client && dlo_get_info(p->cache.client, &info) == 0 && info.mode == DLO_MODE_ON &&
        dlo_cuda_read_memory(p->cache.cuda, &free_bytes, &total_bytes) == 0 &&
        dlo_get_cap(p->cache.client, total_bytes, &cap) == 0 && cap != DLO_MISSING) {
        p->cap = cap;
        set_threshold(p, cap);
    }
}

int32_t dlo_cache_open_pool(struct dlo_cuda *cuda, struct dlo_client *client,
                            const struct dlo_pool *pool, struct dlo_cache **ret)
{
    struct dlo_pool wanted = DLO_POOL_INIT;
    struct pool_cache *p;
    int r;

    if (!cuda || !ret || !driver_take(&wanted, sizeof(wanted), pool))
        return driver_fail(ERR_INVALID, "dlo_cache_open_pool: %s", error_text(ERR_INVALID));
    if (wanted.exportable && (wanted.pool || wanted.use_default))
        return driver_fail(ERR_INVALID, "dlo_cache_open_pool: only a pool of our own can be made "
                                        "exportable");
    if (!has_pool_calls(cuda))
        return driver_fail(ERR_UNSUPPORTED,
                           "the driver is older than 11.2: it has no memory pools");
    r = driver_enter(cuda);
    if (r)
        return r;
    p = calloc(1, sizeof(*p));
    if (!p || cache_init(&p->cache, &pool_ops, cuda, client) < 0) {
        driver_leave(cuda);
        free(p);
        return driver_fail(ERR_NO_MEMORY, "dlo_cache_open_pool: %s", error_text(ERR_NO_MEMORY));
    }
    p->cache.tells_residue = true;
    p->cap = p->reserved_high = p->allocated_high = DLO_MISSING;
    r = take_pool(p, &wanted);
    driver_leave(cuda);
    if (r) {
        if (p->is_ours)
            pool_free(&p->cache);
        pthread_mutex_destroy(&p->cache.mutex);
        free(p);
        return r;
    }
    settle_first(p);
    *ret = &p->cache;
    return 0;
}
