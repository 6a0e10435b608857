/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold for the simulated driver to mean anything: memory, processes, pools, copies. */
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simgpu/harness.h"

/* ---- contexts and plain memory ---- */

START_TEST(context_costs_memory_and_free_needs_one)
{
    unsigned long long address;
    size_t bytes;
    size_t total;

    load_cuda();
    ck_assert_uint_eq(cu.device_total_mem(&total, 0), CUABI_ERROR_NOT_INITIALIZED);
    ck_assert_uint_eq(cu.init(0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.device_total_mem(&total, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(total, TOTAL);
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &total), CUABI_ERROR_INVALID_CONTEXT);
    ck_assert(shows("bytes 0 context no open cuda"));

    ck_assert_uint_eq(cu.primary_ctx_retain(&context, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.ctx_set_current(context), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
    ck_assert_uint_eq(cu.mem_alloc(&address, 100 * MIB), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT - 100 * MIB);
    ck_assert_uint_gt(address, (uint64_t)1 << 47);

    ck_assert_uint_eq(cu.primary_ctx_release(0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &total), CUABI_ERROR_CONTEXT_IS_DESTROYED);
    ck_assert_uint_eq(cu.primary_ctx_retain(&context, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

START_TEST(out_of_memory_comes_exactly_at_the_end)
{
    const uint64_t room = TOTAL - CONTEXT;
    unsigned long long address;
    unsigned long long more;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc(&address, room + 1), CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(free_bytes(), room);
    ck_assert_uint_eq(cu.mem_alloc(&address, room), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), 0);
    ck_assert_uint_eq(cu.mem_alloc(&more, 1), CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert_uint_eq(cu.mem_free(address + 8), CUABI_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(cu.mem_free(address), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), room);

    ck_assert_int_eq(simgpu("set foreign=700Mi"), 0);
    ck_assert_uint_eq(free_bytes(), 24 * MIB);
    ck_assert_uint_eq(cu.mem_alloc(&address, 25 * MIB), CUABI_ERROR_OUT_OF_MEMORY);
}
END_TEST

START_TEST(context_itself_can_run_out_of_memory)
{
    ck_assert_int_eq(simgpu("set foreign=800Mi"), 0);
    ck_assert_uint_eq(start_cuda(), CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert(shows("bytes 0 context no open cuda"));
}
END_TEST

START_TEST(small_allocations_share_two_mebibytes)
{
    unsigned long long first;
    unsigned long long second;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc(&first, 1), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc(&second, 4096), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT - 2 * MIB);
    ck_assert_uint_eq(cu.mem_free(first), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_free(second), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

START_TEST(big_allocations_cost_the_host_nothing)
{
    unsigned long long address;
    struct CUmemPoolHandle_st *pool;

    ck_assert_int_eq(simgpu("set total=150G"), 0);
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc(&address, 60000000000), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc_async(&address, 60000000000, NULL), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.device_get_default_mem_pool(&pool, 0), CUABI_SUCCESS);
    ck_assert_uint_ge(reserved(pool), 60000000000);
}
END_TEST

START_TEST(forked_child_has_no_cuda)
{
    pid_t child;
    int status;
    int count;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    child = fork();
    if (child == 0)
        _exit(cu.device_get_count(&count) == CUABI_ERROR_NOT_INITIALIZED &&
                      cu.init(0) == CUABI_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

START_TEST(without_a_ledger_there_is_no_device)
{
    load_cuda();
    load_nvml();
    unsetenv("SIMGPU");
    ck_assert_uint_eq(cu.init(0), CUABI_ERROR_NO_DEVICE);
    ck_assert_uint_eq(nv.init(), NVABI_ERROR_DRIVER_NOT_LOADED);
}
END_TEST

/* ---- several processes ---- */

START_TEST(peers_share_the_memory_until_they_are_killed)
{
    struct peer peer;
    int status;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    peer = peer_start();
    ck_assert_int_eq(answer_of(&peer), CUABI_SUCCESS);
    ck_assert_int_eq(ask(&peer, "alloc", 200), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - 2 * CONTEXT - 200 * MIB);
    ck_assert_int_eq(ask(&peer, "alloc", 225), CUABI_ERROR_OUT_OF_MEMORY);

    peer_kill(&peer); /* it is a zombie now */
    WAIT_FOR(free_bytes() == TOTAL - CONTEXT);
    ck_assert_int_eq(waitpid(peer.pid, &status, 0), peer.pid);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

START_TEST(allocation_finds_the_memory_of_the_dead_at_once)
{
    unsigned long long address;
    struct peer peer;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    peer = peer_start();
    ck_assert_int_eq(answer_of(&peer), CUABI_SUCCESS);
    free_bytes();
    peer_kill(&peer);
    ck_assert_uint_eq(cu.mem_alloc(&address, TOTAL - CONTEXT), CUABI_SUCCESS);
}
END_TEST

START_TEST(killing_a_busy_process_does_no_harm)
{
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    for (int round = 0; round < 20; round++) {
        struct peer peer = peer_start();

        ck_assert_int_eq(answer_of(&peer), CUABI_SUCCESS);
        tell(&peer, "churn", 0);
        WAIT_FOR(free_bytes() == TOTAL - 2 * CONTEXT - 2 * MIB);
        peer_kill(&peer);
        WAIT_FOR(free_bytes() == TOTAL - CONTEXT);
        waitpid(peer.pid, NULL, 0);
    }
}
END_TEST

START_TEST(cached_memory_is_lost_to_others_until_it_is_trimmed)
{
    unsigned long long address;
    struct peer peer;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    peer = peer_start();
    ck_assert_int_eq(answer_of(&peer), CUABI_SUCCESS);
    ck_assert_int_eq(ask(&peer, "cache", 320), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - 2 * CONTEXT - 320 * MIB);
    ck_assert_uint_eq(cu.mem_alloc(&address, 200 * MIB), CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(ask(&peer, "trim", 0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc(&address, 200 * MIB), CUABI_SUCCESS);
    peer_kill(&peer);
}
END_TEST

START_TEST(exclusive_mode_admits_one_process)
{
    struct peer peer;

    ck_assert_int_eq(simgpu("set compute_mode=3"), 0);
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    peer = peer_start();
    ck_assert_int_eq(answer_of(&peer), CUABI_ERROR_DEVICE_UNAVAILABLE);
    peer_kill(&peer);
}
END_TEST

START_TEST(open_libraries_are_listed_and_block_a_reset)
{
    start_nvml();
    ck_assert(shows("open nvml"));
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert(shows("context yes open cuda,nvml"));
    ck_assert_uint_eq(nv.shutdown(), NVABI_SUCCESS);
    ck_assert(!shows("nvml"));
    ck_assert_uint_eq(cu.primary_ctx_release(0), CUABI_SUCCESS);
    ck_assert(shows("context no open cuda")); /* only the end of the process closes that */
    ck_assert_int_eq(simgpu("reset >/dev/null"), 1);
}
END_TEST

/* ---- pools ---- */

static struct CUmemPoolHandle_st *pool_start(struct CUstream_st **ret_stream)
{
    struct CUmemPoolHandle_st *pool;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_create(ret_stream, CUABI_STREAM_NON_BLOCKING), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.device_get_default_mem_pool(&pool, 0), CUABI_SUCCESS);
    return pool;
}

static void keep_everything(struct CUmemPoolHandle_st *pool)
{
    uint64_t all = UINT64_MAX;

    ck_assert_uint_eq(cu.mem_pool_set_attribute(pool, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all),
                      CUABI_SUCCESS);
}

START_TEST(pool_gives_back_at_a_sync_what_the_host_saw_freed)
{
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool = pool_start(&stream);
    unsigned long long address;

    ck_assert_uint_eq(cu.mem_alloc_async(&address, 40 * MIB, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), 64 * MIB); /* by chunks of 32 MiB */
    ck_assert_uint_eq(used(pool), 40 * MIB);
    ck_assert_uint_eq(cu.mem_free_async(address, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_pool_trim_to(pool, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), 64 * MIB); /* nobody has waited for the stream */
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), 0); /* the threshold is 0 */
    ck_assert_uint_eq(used(pool), 0);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

START_TEST(pool_keeps_memory_below_its_threshold_until_a_trim)
{
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool = pool_start(&stream);
    unsigned long long small;
    unsigned long long large;

    keep_everything(pool);
    ck_assert_uint_eq(cu.mem_alloc_async(&small, 40 * MIB, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc_async(&large, 200 * MIB, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_free_async(large, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), (64 + 224) * MIB);
    ck_assert_uint_eq(used(pool), 40 * MIB);
    ck_assert_uint_eq(cu.mem_pool_trim_to(pool, 100 * MIB), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), (64 + 224) * MIB); /* a whole chunk would be too much */
    ck_assert_uint_eq(cu.mem_pool_trim_to(pool, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), 64 * MIB); /* a live block pins its chunk */
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT - 64 * MIB);
}
END_TEST

START_TEST(pool_watermarks_can_be_reset)
{
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool = pool_start(&stream);
    unsigned long long address;
    uint64_t zero = 0;
    uint64_t one = 1;

    keep_everything(pool);
    ck_assert_uint_eq(cu.mem_alloc_async(&address, 40 * MIB, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_free_async(address, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    ck_assert_uint_eq(pool_value(pool, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH), 40 * MIB);
    ck_assert_uint_eq(pool_value(pool, CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64 * MIB);
    ck_assert_uint_eq(cu.mem_pool_set_attribute(pool, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH, &one),
                      CUABI_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(cu.mem_pool_set_attribute(pool, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH, &zero),
                      CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_pool_set_attribute(pool, CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero),
                      CUABI_SUCCESS);
    ck_assert_uint_eq(pool_value(pool, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    ck_assert_uint_eq(pool_value(pool, CUABI_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64 * MIB);
}
END_TEST

START_TEST(block_reused_on_its_stream_counts_once)
{
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool = pool_start(&stream);
    unsigned long long address;

    keep_everything(pool);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(cu.mem_alloc_async(&address, 32 * MIB, stream), CUABI_SUCCESS);
        ck_assert_uint_eq(cu.mem_free_async(address, stream), CUABI_SUCCESS);
    }
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    ck_assert_uint_eq(used(pool), 0);
    ck_assert_uint_eq(pool_value(pool, CUABI_MEMPOOL_ATTR_USED_MEM_HIGH), 32 * MIB);
    ck_assert_uint_eq(reserved(pool), 32 * MIB);
}
END_TEST

START_TEST(allocation_empties_the_own_pools_before_it_fails)
{
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool = pool_start(&stream);
    unsigned long long address;

    keep_everything(pool);
    ck_assert_uint_eq(cu.mem_alloc_async(&address, 640 * MIB, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_free_async(address, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    setenv("SIMGPU_ALLOC_TRIMS", "0", 1);
    ck_assert_uint_eq(cu.mem_alloc(&address, 500 * MIB), CUABI_ERROR_OUT_OF_MEMORY);
    unsetenv("SIMGPU_ALLOC_TRIMS");
    ck_assert_uint_eq(cu.mem_alloc(&address, 500 * MIB), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), 0);
}
END_TEST

START_TEST(exportable_pool_never_gives_memory_back)
{
    struct CUmemPoolProps_st props = {
        .allocType = CUABI_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CUABI_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CUABI_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    struct CUstream_st *stream;
    struct CUmemPoolHandle_st *pool;
    unsigned long long address;

    pool_start(&stream);
    ck_assert_uint_eq(cu.mem_pool_create(&pool, &props), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc_from_pool_async(&address, MIB, pool, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_free_async(address, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_pool_trim_to(pool, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(pool), 32 * MIB);
    ck_assert_uint_eq(cu.mem_pool_destroy(pool), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

/* ---- copies ---- */

static sem_t gate;

/* On a stream: keeps what follows waiting until the test opens the gate. */
static void wait_at_gate(void *user_data)
{
    (void)user_data;
    sem_wait(&gate);
}

static void *host_memory(void)
{
    void *memory;

    ck_assert_uint_eq(cu.mem_host_alloc(&memory, 64, 0), CUABI_SUCCESS);
    return memory;
}

START_TEST(copies_read_pinned_memory_late_and_wait_for_events)
{
    struct CUstream_st *first;
    struct CUstream_st *second;
    struct CUevent_st *event;
    unsigned long long address;
    char *from;
    char *to;

    pool_start(&first);
    sem_init(&gate, 0, 0);
    from = host_memory();
    to = host_memory();
    ck_assert_uint_eq(cu.stream_create(&second, CUABI_STREAM_NON_BLOCKING), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.event_create(&event, CUABI_EVENT_DISABLE_TIMING), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_alloc(&address, 64), CUABI_SUCCESS);

    strcpy(from, "early");
    ck_assert_uint_eq(cu.launch_host_func(first, wait_at_gate, NULL), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.memcpy_htod_async(address, from, 64, first), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.event_record(event, first), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_wait_event(second, event, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.memcpy_dtoh_async(to, address, 64, second), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.event_query(event), CUABI_ERROR_NOT_READY);
    ck_assert_uint_eq(cu.stream_query(second), CUABI_ERROR_NOT_READY);
    strcpy(from, "late");
    sem_post(&gate);
    ck_assert_uint_eq(cu.stream_synchronize(second), CUABI_SUCCESS);
    ck_assert_str_eq(to, "late");
    ck_assert_uint_eq(cu.event_query(event), CUABI_SUCCESS);

    ck_assert_uint_eq(cu.stream_destroy(first), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.event_synchronize(event), CUABI_SUCCESS); /* outlives its stream */
    ck_assert_uint_eq(cu.event_destroy(event), CUABI_SUCCESS);
}
END_TEST

START_TEST(copies_take_pageable_memory_at_once)
{
    char pageable[64] = "at the call";
    struct CUstream_st *stream;
    unsigned long long address;
    char *to;

    pool_start(&stream);
    sem_init(&gate, 0, 0);
    to = host_memory();
    ck_assert_uint_eq(cu.mem_alloc(&address, 64), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.launch_host_func(stream, wait_at_gate, NULL), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.memcpy_htod_async(address, pageable, 64, stream), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.memcpy_dtoh_async(to, address, 64, stream), CUABI_SUCCESS);
    strcpy(pageable, "overwritten");
    sem_post(&gate);
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    ck_assert_str_eq(to, "at the call");

    /* Beyond the end of the allocation. */
    ck_assert_uint_eq(cu.memcpy_htod_async(address + 1, to, 64, stream), CUABI_ERROR_INVALID_VALUE);
}
END_TEST

static void add_cases(TCase *tcase)
{
    tcase_add_test(tcase, context_costs_memory_and_free_needs_one);
    tcase_add_test(tcase, out_of_memory_comes_exactly_at_the_end);
    tcase_add_test(tcase, context_itself_can_run_out_of_memory);
    tcase_add_test(tcase, small_allocations_share_two_mebibytes);
    tcase_add_test(tcase, big_allocations_cost_the_host_nothing);
    tcase_add_test(tcase, forked_child_has_no_cuda);
    tcase_add_test(tcase, without_a_ledger_there_is_no_device);
    tcase_add_test(tcase, peers_share_the_memory_until_they_are_killed);
    tcase_add_test(tcase, allocation_finds_the_memory_of_the_dead_at_once);
    tcase_add_test(tcase, killing_a_busy_process_does_no_harm);
    tcase_add_test(tcase, cached_memory_is_lost_to_others_until_it_is_trimmed);
    tcase_add_test(tcase, exclusive_mode_admits_one_process);
    tcase_add_test(tcase, open_libraries_are_listed_and_block_a_reset);
    tcase_add_test(tcase, pool_gives_back_at_a_sync_what_the_host_saw_freed);
    tcase_add_test(tcase, pool_keeps_memory_below_its_threshold_until_a_trim);
    tcase_add_test(tcase, pool_watermarks_can_be_reset);
    tcase_add_test(tcase, block_reused_on_its_stream_counts_once);
    tcase_add_test(tcase, allocation_empties_the_own_pools_before_it_fails);
    tcase_add_test(tcase, exportable_pool_never_gives_memory_back);
    tcase_add_test(tcase, copies_read_pinned_memory_late_and_wait_for_events);
    tcase_add_test(tcase, copies_take_pageable_memory_at_once);
}

int main(int argc, char **argv)
{
    return harness_main(argc, argv, "simgpu", add_cases);
}
