/* SPDX-License-Identifier: Apache-2.0 */
/* The least that a caching allocator on a GPU is: a driver pool that keeps what is freed until it
 * is told to trim, and tensors in it. For programs of this folder; one thread, one device (the
 * first), the driver loaded with dlopen and never unloaded. Functions return 0, or the driver's
 * result, or GPU_NO_DRIVER, with a sentence in gpu->error. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/abi/cuda_abi.h"
#include "proto/base/dl.h"

#define GPU_NO_DRIVER 65536u /* above all numbers of the driver */

/* Tensors are made of blocks of the size that drivers reserve at once for a pool. So blocks are
 * reused whole, and what a pool holds does not depend on how it splits its chunks. */
#define GPU_BLOCK_BYTES       ((uint64_t)32 << 20)
#define GPU_TENSOR_BLOCKS_MAX 512 /* 17e9 bytes, enough for what is run here */

struct gpu {
    struct cuabi_calls cuda;
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool;
    char error[DL_ERROR_SIZE];
};

struct gpu_tensor {
    unsigned long long blocks[GPU_TENSOR_BLOCKS_MAX];
    uint64_t count;
};

/* Calls the driver through the table; on failure the sentence names the call. */
#define GPU_CALL(gpu, field, ...) gpu_check(gpu, #field, (gpu)->cuda.field(__VA_ARGS__))

static inline unsigned int gpu_check(struct gpu *gpu, const char *call, unsigned int result)
{
    const char *why = NULL;

    if (result == CUABI_SUCCESS)
        return result;
    if (gpu->cuda.get_error_string(result, &why) != CUABI_SUCCESS || !why)
        why = "unknown error";
    snprintf(gpu->error, sizeof(gpu->error), "%s: %s", call, why);
    return result;
}

/* A context, a stream, and the pool. */
static inline unsigned int gpu_open(struct gpu *gpu)
{
#define GPU_ROW(field, symbol, since, need, args)                                                  \
    {#symbol, offsetof(struct cuabi_calls, field), CUABI_NEED_##need != CUABI_NEED_OPTIONAL},
    static const struct dl_symbol symbols[] = {CUABI_FUNCS(GPU_ROW)};
#undef GPU_ROW
    const struct dl_library library = {"libcuda.so.1", NULL, symbols,
                                       sizeof(symbols) / sizeof(symbols[0])};
    const struct CUmemPoolProps_st props = {
        .allocType = CUABI_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CUABI_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    uint64_t threshold_bytes = UINT64_MAX; /* at no sync is anything given back by itself */
    struct CUctx_st *context;
    unsigned int r;
    void *handle;
    int device;

    if (dl_load(&library, &gpu->cuda, &handle, gpu->error))
        return GPU_NO_DRIVER;
    r = GPU_CALL(gpu, init, 0);
    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, device_get, &device, 0);
    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, primary_ctx_retain, &context, device);
    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, ctx_set_current, context);
    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, stream_create, &gpu->stream, CUABI_STREAM_NON_BLOCKING);
    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, mem_pool_create, &gpu->pool, &props);
    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, mem_pool_set_attribute, gpu->pool, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                     &threshold_bytes);
    return r;
}

/* What the pool holds from the driver, and what of it is in use. */
static inline unsigned int gpu_read(struct gpu *gpu, uint64_t *ret_reserved,
                                    uint64_t *ret_allocated)
{
    unsigned int r = GPU_CALL(gpu, mem_pool_get_attribute, gpu->pool,
                              CUABI_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, ret_reserved);

    if (r == CUABI_SUCCESS)
        r = GPU_CALL(gpu, mem_pool_get_attribute, gpu->pool, CUABI_MEMPOOL_ATTR_USED_MEM_CURRENT,
                     ret_allocated);
    return r;
}

/* The release: what torch.cuda.empty_cache is to a torch worker. */
static inline unsigned int gpu_trim(struct gpu *gpu)
{
    unsigned int r = GPU_CALL(gpu, ctx_synchronize);

    return r == CUABI_SUCCESS ? GPU_CALL(gpu, mem_pool_trim_to, gpu->pool, 0) : r;
}

static inline void gpu_free(struct gpu *gpu, struct gpu_tensor *t)
{
    while (t->count > 0)
        gpu->cuda.mem_free_async(t->blocks[--t->count], gpu->stream);
}

/* Lets a tensor grow to so many blocks; on failure it has none. */
static inline unsigned int gpu_alloc(struct gpu *gpu, struct gpu_tensor *t, uint64_t block_count)
{
    while (t->count < block_count) {
        unsigned int r = GPU_CALL(gpu, mem_alloc_from_pool_async, &t->blocks[t->count],
                                  GPU_BLOCK_BYTES, gpu->pool, gpu->stream);

        if (r != CUABI_SUCCESS) {
            gpu_free(gpu, t);
            return r;
        }
        t->count++;
    }
    return CUABI_SUCCESS;
}
