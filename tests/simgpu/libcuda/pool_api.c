/* SPDX-License-Identifier: Apache-2.0 */
/* The exported calls about memory pools, see pool.c for what they do. */
#include <stdlib.h>
#include <string.h>

#include "tests/simgpu/libcuda/driver.h"

static unsigned int default_pool(const char *symbol, struct CUmemPoolHandle_st **ret_pool,
                                 int ordinal)
{
    unsigned int device;
    unsigned int result = call_enter(symbol, CALL_NEEDS_INIT);

    if (result == CUABI_SUCCESS)
        result = call_device(ordinal, &device);
    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_pool)
        return CUABI_ERROR_INVALID_VALUE;
    *ret_pool = &driver.default_pools[device];
    return CUABI_SUCCESS;
}

unsigned int cuDeviceGetDefaultMemPool(struct CUmemPoolHandle_st **ret_pool, int ordinal)
{
    return default_pool(__func__, ret_pool, ordinal);
}

/* The same: cuDeviceSetMemPool is not simulated. */
unsigned int cuDeviceGetMemPool(struct CUmemPoolHandle_st **ret_pool, int ordinal)
{
    return default_pool(__func__, ret_pool, ordinal);
}

unsigned int cuMemPoolCreate(struct CUmemPoolHandle_st **ret_pool,
                             const struct CUmemPoolProps_st *props)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);
    struct CUmemPoolHandle_st *pool;
    unsigned int device;

    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_pool || !props || props->allocType != CUABI_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CUABI_MEM_LOCATION_TYPE_DEVICE)
        return CUABI_ERROR_INVALID_VALUE;
    result = call_device(props->location.id, &device);
    if (result != CUABI_SUCCESS)
        return result;

    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return CUABI_ERROR_OPERATING_SYSTEM;
    pool->device = device;
    pool->max_bytes = props->maxSize;
    pool->is_exportable = props->handleTypes != 0;
    driver_lock();
    pool->next = driver.pools;
    driver.pools = pool;
    driver_unlock();
    *ret_pool = pool;
    return CUABI_SUCCESS;
}

unsigned int cuMemPoolDestroy(struct CUmemPoolHandle_st *pool)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);
    struct CUmemPoolHandle_st **link = &driver.pools;

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    while (*link && *link != pool)
        link = &(*link)->next;
    if (*link) {
        *link = pool->next;
        stream_drain_device(pool->device);
        pool_release_all(pool);
        free(pool);
    } else {
        result = CUABI_ERROR_INVALID_VALUE; /* also a default pool: it cannot be destroyed */
    }
    driver_unlock();
    return result;
}

/* ---- attributes ---- */

/* The reuse policies are plain ints that are always on; all others are 64 bits wide. */
static int is_reuse_policy(unsigned int attribute)
{
    return attribute >= CUABI_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
           attribute <= CUABI_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static uint64_t *attribute_of(struct CUmemPoolHandle_st *pool, unsigned int attribute)
{
    switch (attribute) {
    case CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold_bytes;
    case CUABI_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved_bytes;
    case CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high_bytes;
    case CUABI_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used_bytes;
    case CUABI_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high_bytes;
    default:
        return NULL;
    }
}

unsigned int cuMemPoolGetAttribute(struct CUmemPoolHandle_st *pool, unsigned int attribute,
                                   void *value)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);
    const int policy_on = 1;
    const uint64_t *field;

    if (result != CUABI_SUCCESS)
        return result;
    if (!pool || !value)
        return CUABI_ERROR_INVALID_VALUE;
    if (is_reuse_policy(attribute)) {
        memcpy(value, &policy_on, sizeof(policy_on));
        return CUABI_SUCCESS;
    }
    driver_lock();
    field = attribute_of(pool, attribute);
    if (field)
        memcpy(value, field, sizeof(*field));
    else
        result = CUABI_ERROR_INVALID_VALUE;
    driver_unlock();
    return result;
}

/* A high watermark can only be set to 0, which makes it the present value. */
static unsigned int set_attribute(struct CUmemPoolHandle_st *pool, unsigned int attribute,
                                  uint64_t value)
{
    switch (attribute) {
    case CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold_bytes = value;
        return CUABI_SUCCESS;
    case CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (value != 0)
            return CUABI_ERROR_INVALID_VALUE;
        pool->reserved_high_bytes = pool->reserved_bytes;
        return CUABI_SUCCESS;
    case CUABI_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (value != 0)
            return CUABI_ERROR_INVALID_VALUE;
        pool->used_high_bytes = pool->used_bytes;
        return CUABI_SUCCESS;
    default:
        return CUABI_ERROR_INVALID_VALUE;
    }
}

unsigned int cuMemPoolSetAttribute(struct CUmemPoolHandle_st *pool, unsigned int attribute,
                                   void *value)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);
    uint64_t wanted;

    if (result != CUABI_SUCCESS)
        return result;
    if (!pool || !value)
        return CUABI_ERROR_INVALID_VALUE;
    if (is_reuse_policy(attribute))
        return CUABI_SUCCESS;
    memcpy(&wanted, value, sizeof(wanted));
    driver_lock();
    result = set_attribute(pool, attribute, wanted);
    driver_unlock();
    return result;
}

unsigned int cuMemPoolTrimTo(struct CUmemPoolHandle_st *pool, size_t keep_bytes)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result != CUABI_SUCCESS)
        return result;
    if (!pool)
        return CUABI_ERROR_INVALID_VALUE;
    driver_lock();
    pool_trim(pool, keep_bytes);
    driver_unlock();
    return CUABI_SUCCESS;
}

/* ---- allocating and freeing in stream order ---- */

/* With no pool, the default pool of the current context's device. */
static unsigned int alloc_async(unsigned long long *ret_address, size_t bytes,
                                struct CUmemPoolHandle_st *pool, struct CUstream_st *stream)
{
    unsigned int result;
    uint64_t address;

    if (!ret_address || bytes == 0)
        return CUABI_ERROR_INVALID_VALUE;
    if (bytes > UINT64_MAX / 2)
        return CUABI_ERROR_OUT_OF_MEMORY;
    if (!pool)
        pool = &driver.default_pools[context_current()->device];
    driver_lock();
    result = pool_alloc(pool, bytes, stream_resolve(stream), &address);
    driver_unlock();
    if (result == CUABI_SUCCESS)
        *ret_address = address;
    return result;
}

unsigned int cuMemAllocAsync(unsigned long long *ret_address, size_t bytes,
                             struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    return result == CUABI_SUCCESS ? alloc_async(ret_address, bytes, NULL, stream) : result;
}

unsigned int cuMemAllocFromPoolAsync(unsigned long long *ret_address, size_t bytes,
                                     struct CUmemPoolHandle_st *pool, struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    return pool ? alloc_async(ret_address, bytes, pool, stream) : CUABI_ERROR_INVALID_VALUE;
}

unsigned int cuMemFreeAsync(unsigned long long address, struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    result = pool_free(address, stream_resolve(stream));
    driver_unlock();
    return result;
}
