/* SPDX-License-Identifier: Apache-2.0 */
/* One stager with three views of one storage and one of another, for the tests of stagers. */
#pragma once

#include "tests/unit/cuda_case.h"

#define BYTES (8 * MIB)

static struct dlo_cuda *cuda;
static struct dlo_client *client;
static struct dlo_cache *cache;
static struct dlo_stager *stager;
static struct CUstream_st *compute;
static unsigned char *weights, *small_weights;
static void *base, *alias, *inner, *other; /* slots: three views of one storage, one of another */

static inline struct dlo_stager *new_stager(const char *id, int32_t master)
{
    struct dlo_stager_options o = DLO_STAGER_OPTIONS_INIT;
    struct dlo_stager *s;

    o.id = id;
    o.master = master;
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), 0);
    return s;
}

static inline void fill(unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
}

static inline void add_views(struct dlo_stager *s)
{
    ck_assert_int_eq(dlo_stager_add(s, weights, BYTES, 0, &base), 0);
    ck_assert_int_eq(dlo_stager_add(s, weights, BYTES, 0, &alias), 0);
    ck_assert_int_eq(dlo_stager_add(s, small_weights, 1000, 8, &other), 0);
    ck_assert_int_eq(dlo_stager_add(s, weights, BYTES, 4096, &inner), 0);
}

static inline void start(int32_t master)
{
    cuda = open_cuda();
    client = open_client(cuda);
    cache = open_pool(cuda, client);
    make_flaky(cuda);
    ck_assert_uint_eq(cu.stream_create(&compute, CUABI_STREAM_NON_BLOCKING), CUABI_SUCCESS);
    weights = malloc(BYTES);
    small_weights = malloc(1000);
    fill(weights, BYTES);
    fill(small_weights, 1000);
    stager = new_stager("dit", master);
    add_views(stager);
    ck_assert_int_eq(dlo_stager_seal(stager), 0);
}

static inline void stop(void)
{
    dlo_stager_free(stager);
    dlo_cache_close(cache);
    dlo_close(client);
    dlo_cuda_close(cuda);
    free(weights);
    free(small_weights);
}

static inline void assert_on_masters(void)
{
    ck_assert_int_eq(dlo_stager_is_loaded(stager), 0);
    ck_assert_ptr_eq(base, alias);
    ck_assert_int_eq((char *)inner - (char *)base, 4096);
    ck_assert_int_eq(((unsigned char *)inner)[1], weights[4097]);
    ck_assert_int_eq(((unsigned char *)other)[0], small_weights[8]);
    ck_assert_uint_eq(used(dlo_cache_pool(cache)), 0);
}

/* What the device holds at a view. */
static inline unsigned char device_byte(void *view, size_t offset)
{
    unsigned char *page;
    unsigned char byte;

    ck_assert_uint_eq(cu.mem_host_alloc((void **)&page, 16, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.memcpy_dtoh_async(page, (uintptr_t)view + offset, 1, compute),
                      CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_synchronize(compute), CUABI_SUCCESS);
    byte = *page;
    cu.mem_free_host(page);
    return byte;
}
