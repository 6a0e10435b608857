/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered memory pools. A pool reserves device memory by chunks, hands blocks of them out
 * and keeps what is freed. A chunk goes back to the device as a whole, when nothing of it is in
 * use and the host knows that: a block freed on a stream pins its chunk until the host has waited
 * for that stream.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/simgpu/libcuda/driver.h"

#define BLOCK_UNIT    512u
#define CHUNK_DEFAULT ((uint64_t)32 << 20) /* what drivers were seen to reserve at once */

/* ---- giving chunks back ---- */

static int is_releasable(const struct chunk *chunk)
{
    for (const struct block *b = chunk->blocks; b; b = b->next) {
        if (b->state == BLOCK_USED)
            return 0;
        if (b->state == BLOCK_PENDING && !stream_was_observed(b->stream, b->sequence))
            return 0;
    }
    return 1;
}

static void release_chunk(struct CUmemPoolHandle_st *pool, struct chunk **link)
{
    struct chunk *chunk = *link;
    struct block *block = chunk->blocks;

    *link = chunk->next;
    while (block) {
        struct block *next = block->next;

        free(block);
        block = next;
    }
    if (chunk->backing)
        munmap(chunk->backing, chunk->bytes);
    pool->reserved_bytes -= chunk->bytes;
    memory_refund(pool->device, chunk->bytes);
    free(chunk);
}

void pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes)
{
    struct chunk **link = &pool->chunks;

    if (pool->is_exportable)
        return;
    while (*link && pool->reserved_bytes > keep_bytes) {
        if (pool->reserved_bytes - (*link)->bytes >= keep_bytes && is_releasable(*link))
            release_chunk(pool, link);
        else
            link = &(*link)->next;
    }
}

void pool_release_all(struct CUmemPoolHandle_st *pool)
{
    while (pool->chunks)
        release_chunk(pool, &pool->chunks);
    pool->used_bytes = 0;
}

void pool_trim_all(unsigned int device)
{
    pool_trim(&driver.default_pools[device], 0);
    for (struct CUmemPoolHandle_st *pool = driver.pools; pool; pool = pool->next) {
        if (pool->device == device)
            pool_trim(pool, 0);
    }
}

void pool_after_sync(unsigned int device)
{
    struct CUmemPoolHandle_st *pool = &driver.default_pools[device];

    pool_trim(pool, pool->threshold_bytes);
    for (pool = driver.pools; pool; pool = pool->next) {
        if (pool->device == device)
            pool_trim(pool, pool->threshold_bytes);
    }
}

/* ---- finding ---- */

static struct block *find_in_pool(struct CUmemPoolHandle_st *pool, uint64_t address,
                                  struct chunk **ret_chunk)
{
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        uint64_t offset = address - chunk->address;

        if (address < chunk->address || offset >= chunk->bytes)
            continue;
        *ret_chunk = chunk;
        for (struct block *b = chunk->blocks; b; b = b->next) {
            if (offset >= b->offset_bytes && offset - b->offset_bytes < b->bytes)
                return b;
        }
    }
    return NULL;
}

/* The block of any pool that holds the address. */
static struct block *find_block(uint64_t address, struct CUmemPoolHandle_st **ret_pool,
                                struct chunk **ret_chunk)
{
    struct block *block;

    for (unsigned int i = 0; i < LEDGER_DEVICES_MAX; i++) {
        *ret_pool = &driver.default_pools[i];
        block = find_in_pool(*ret_pool, address, ret_chunk);
        if (block)
            return block;
    }
    for (*ret_pool = driver.pools; *ret_pool; *ret_pool = (*ret_pool)->next) {
        block = find_in_pool(*ret_pool, address, ret_chunk);
        if (block)
            return block;
    }
    return NULL;
}

char *pool_contents(uint64_t address, uint64_t bytes)
{
    struct CUmemPoolHandle_st *pool;
    struct chunk *chunk;
    struct block *block = find_block(address, &pool, &chunk);
    uint64_t offset;
    char *backing;

    if (!block || block->state != BLOCK_USED)
        return NULL;
    offset = address - chunk->address;
    if (bytes > block->offset_bytes + block->bytes - offset)
        return NULL;
    backing = memory_back(&chunk->backing, chunk->bytes);
    return backing ? backing + offset : NULL;
}

/* ---- allocating ---- */

/* Blocks whose release the host has seen are plainly free, and free neighbours are one block. */
static void settle_chunk(struct chunk *chunk)
{
    for (struct block *b = chunk->blocks; b; b = b->next) {
        if (b->state == BLOCK_PENDING && stream_was_observed(b->stream, b->sequence))
            b->state = BLOCK_FREE;
    }
    for (struct block *b = chunk->blocks; b; b = b->next) {
        while (b->state == BLOCK_FREE && b->next && b->next->state == BLOCK_FREE) {
            struct block *absorbed = b->next;

            b->bytes += absorbed->bytes;
            b->next = absorbed->next;
            free(absorbed);
        }
    }
}

static int is_usable(const struct block *block, const struct CUstream_st *stream)
{
    if (block->state == BLOCK_PENDING)
        return block->stream == stream || stream_has_run(block->stream, block->sequence);
    return block->state == BLOCK_FREE;
}

/* Cuts a free block in two so that the first has just these bytes. 0, or -1: no host memory. */
static int split_block(struct block *block, uint64_t bytes)
{
    struct block *rest;

    if (block->state != BLOCK_FREE || block->bytes == bytes)
        return 0;
    rest = calloc(1, sizeof(*rest));
    if (!rest)
        return -1;
    rest->offset_bytes = block->offset_bytes + bytes;
    rest->bytes = block->bytes - bytes;
    rest->next = block->next;
    block->next = rest;
    block->bytes = bytes;
    return 0;
}

static void take_block(struct CUmemPoolHandle_st *pool, struct block *block)
{
    /* Reused on its own stream before the release has run there: it still counts as used, and
     * pool_freed() will see that it is too late. */
    if (block->state == BLOCK_FREE || stream_has_run(block->stream, block->sequence))
        pool->used_bytes += block->bytes;
    block->state = BLOCK_USED;
    block->stream = NULL;
    block->sequence = 0;
    if (pool->used_bytes > pool->used_high_bytes)
        pool->used_high_bytes = pool->used_bytes;
}

/* 0, or -1: no block of the pool has that much room. */
static int alloc_inside(struct CUmemPoolHandle_st *pool, uint64_t bytes,
                        const struct CUstream_st *stream, uint64_t *ret_address)
{
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        settle_chunk(chunk);
        for (struct block *b = chunk->blocks; b; b = b->next) {
            if (b->bytes < bytes || !is_usable(b, stream) || split_block(b, bytes))
                continue;
            take_block(pool, b);
            *ret_address = chunk->address + b->offset_bytes;
            return 0;
        }
    }
    return -1;
}

static unsigned int grow(struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
    uint64_t unit = call_switch("SIMGPU_CHUNK", CHUNK_DEFAULT);
    struct chunk *chunk;
    unsigned int result;

    if (unit == 0)
        unit = CHUNK_DEFAULT;
    bytes = (bytes + unit - 1) / unit * unit;
    if (pool->max_bytes &&
        (bytes > pool->max_bytes || pool->reserved_bytes > pool->max_bytes - bytes))
        return CUABI_ERROR_OUT_OF_MEMORY;

    chunk = calloc(1, sizeof(*chunk));
    if (chunk)
        chunk->blocks = calloc(1, sizeof(*chunk->blocks));
    if (!chunk || !chunk->blocks) {
        free(chunk);
        return CUABI_ERROR_OPERATING_SYSTEM;
    }
    result = memory_charge_trimming(pool->device, bytes);
    if (result != CUABI_SUCCESS) {
        free(chunk->blocks);
        free(chunk);
        return result;
    }
    chunk->bytes = bytes;
    chunk->blocks->bytes = bytes;
    chunk->address = memory_new_address(bytes);
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->reserved_bytes += bytes;
    if (pool->reserved_bytes > pool->reserved_high_bytes)
        pool->reserved_high_bytes = pool->reserved_bytes;
    return CUABI_SUCCESS;
}

unsigned int pool_alloc(struct CUmemPoolHandle_st *pool, uint64_t bytes, struct CUstream_st *stream,
                        uint64_t *ret_address)
{
    unsigned int result;

    bytes = (bytes + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT;
    if (!alloc_inside(pool, bytes, stream, ret_address))
        return CUABI_SUCCESS;
    result = grow(pool, bytes);
    if (result != CUABI_SUCCESS)
        return result;
    return alloc_inside(pool, bytes, stream, ret_address) ? CUABI_ERROR_OPERATING_SYSTEM
                                                          : CUABI_SUCCESS;
}

/* ---- freeing ---- */

unsigned int pool_free(uint64_t address, struct CUstream_st *stream)
{
    struct CUmemPoolHandle_st *pool;
    struct chunk *chunk;
    struct block *block = find_block(address, &pool, &chunk);

    if (!block || block->state != BLOCK_USED || address != chunk->address + block->offset_bytes)
        return CUABI_ERROR_INVALID_VALUE;
    block->state = BLOCK_PENDING;
    block->stream = stream;
    block->sequence = stream_push_free(stream, pool, block);
    return CUABI_SUCCESS;
}

void pool_freed(struct CUmemPoolHandle_st *pool, struct block *block, uint64_t sequence)
{
    /* Otherwise it was reused in stream order in the meantime. */
    if (block->state == BLOCK_PENDING && block->sequence == sequence)
        pool->used_bytes -= block->bytes;
}

static void forget_in_pool(struct CUmemPoolHandle_st *pool, const struct CUstream_st *stream)
{
    for (struct chunk *chunk = pool->chunks; chunk; chunk = chunk->next) {
        for (struct block *b = chunk->blocks; b; b = b->next) {
            if (b->state != BLOCK_PENDING || b->stream != stream)
                continue;
            b->state = BLOCK_FREE;
            b->stream = NULL;
        }
    }
}

void pool_forget_stream(const struct CUstream_st *stream)
{
    forget_in_pool(&driver.default_pools[stream_device(stream)], stream);
    for (struct CUmemPoolHandle_st *pool = driver.pools; pool; pool = pool->next)
        forget_in_pool(pool, stream);
}
