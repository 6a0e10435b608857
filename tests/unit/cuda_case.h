/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of client/cuda share: a simulated GPU of 1 GiB whose context takes 300 MiB, a
 * client that has no daemon (the policy runs in this process), and calls of the driver that fail
 * when they are told to. */
#pragma once

#include <dlo/dlo_cuda.h>

#include "client/cuda/driver.h"
#include "tests/simgpu/harness.h"

/* With a context that is current, as in any worker. */
static inline struct dlo_cuda *open_cuda(void)
{
    struct dlo_cuda *cuda;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_int_eq(dlo_cuda_open(NULL, &cuda), 0);
    return cuda;
}

static inline struct dlo_client *open_client_at(struct dlo_cuda *cuda, const char *socket,
                                                int32_t mode)
{
    struct dlo_options o = DLO_OPTIONS_INIT;
    struct dlo_client *client;

    o.socket = socket;
    o.mode = mode;
    o.read_memory = cuda ? dlo_cuda_read_memory : NULL;
    o.read_memory_arg = cuda;
    ck_assert_int_eq(dlo_open(&o, &client), 0);
    return client;
}

static inline struct dlo_client *open_client(struct dlo_cuda *cuda)
{
    return open_client_at(cuda, "/nonexistent/dlo.sock", DLO_MODE_ON);
}

static inline struct dlo_cache *open_pool(struct dlo_cuda *cuda, struct dlo_client *client)
{
    struct dlo_cache *cache;

    ck_assert_int_eq(dlo_cache_open_pool(cuda, client, NULL, &cache), 0);
    return cache;
}

static inline struct dlo_info info_of(struct dlo_client *client)
{
    struct dlo_info info = DLO_INFO_INIT;

    ck_assert_int_eq(dlo_get_info(client, &info), 0);
    return info;
}

static inline struct dlo_cache_state state_of(struct dlo_cache *cache)
{
    struct dlo_cache_state state = DLO_CACHE_STATE_INIT;

    ck_assert_int_eq(dlo_cache_read(cache, &state), 0);
    return state;
}

/* ---- calls that fail: of the next ones, that with index `at` (from 0) returns `result` ---- */

struct plan {
    int at, then; /* -1: none; `then` is a second one, counted from the start too */
    unsigned int result, then_result;
    int calls;
};
static struct plan alloc_plan, copy_plan, sync_plan, free_plan, record_plan, wait_plan;

static inline unsigned int planned(struct plan *plan)
{
    const int index = plan->calls++;

    if (index == plan->at)
        return plan->result;
    return index == plan->then ? plan->then_result : CUABI_SUCCESS;
}

static inline void fail_at(struct plan *plan, int at, unsigned int result)
{
    *plan = (struct plan){.at = at, .then = -1, .result = result};
}

static inline unsigned int flaky_alloc(unsigned long long *address, size_t bytes,
                                       struct CUmemPoolHandle_st *pool, struct CUstream_st *stream)
{
    const unsigned int r = planned(&alloc_plan);

    return r ? r : cu.mem_alloc_from_pool_async(address, bytes, pool, stream);
}

static inline unsigned int flaky_plain_alloc(unsigned long long *address, size_t bytes)
{
    const unsigned int r = planned(&alloc_plan);

    return r ? r : cu.mem_alloc(address, bytes);
}

static inline unsigned int flaky_copy(unsigned long long to, const void *from, size_t bytes,
                                      struct CUstream_st *stream)
{
    const unsigned int r = planned(&copy_plan);

    return r ? r : cu.memcpy_htod_async(to, from, bytes, stream);
}

static inline unsigned int flaky_sync(struct CUstream_st *stream)
{
    const unsigned int r = planned(&sync_plan);

    /* a synchronize that tells of an error has waited */
    cu.stream_synchronize(stream);
    return r;
}

static inline unsigned int flaky_free(unsigned long long address, struct CUstream_st *stream)
{
    const unsigned int r = planned(&free_plan);

    cu.mem_free_async(address, stream); /* else a test of leaks would see the fault, not a leak */
    return r;
}

static inline unsigned int flaky_record(struct CUevent_st *event, struct CUstream_st *stream)
{
    const unsigned int r = planned(&record_plan);

    return r ? r : cu.event_record(event, stream);
}

static inline unsigned int flaky_wait(struct CUstream_st *stream, struct CUevent_st *event,
                                      unsigned int flags)
{
    const unsigned int r = planned(&wait_plan);

    return r ? r : cu.stream_wait_event(stream, event, flags);
}

static inline void clear_plans(void)
{
    struct plan *const plans[] = {&alloc_plan, &copy_plan,   &sync_plan,
                                  &free_plan,  &record_plan, &wait_plan};

    for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
        fail_at(plans[i], -1, 0);
}

static inline void make_flaky(struct dlo_cuda *cuda)
{
    clear_plans();
    cuda->calls.mem_alloc_from_pool_async = flaky_alloc;
    cuda->calls.mem_alloc = flaky_plain_alloc;
    cuda->calls.memcpy_htod_async = flaky_copy;
    cuda->calls.stream_synchronize = flaky_sync;
    cuda->calls.mem_free_async = flaky_free;
    cuda->calls.event_record = flaky_record;
    cuda->calls.stream_wait_event = flaky_wait;
}
