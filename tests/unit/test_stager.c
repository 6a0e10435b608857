/* SPDX-License-Identifier: Apache-2.0 */
/* R15 to R19 on the simulated GPU: aliases, one retry, every failure ends on the masters, no leak.
 */
#include "tests/unit/stager_case.h"

START_TEST(views_of_one_storage_stay_aliases)
{
    unsigned char *page;

    start(DLO_MASTER_COPIED);
    ck_assert_uint_eq(dlo_stager_bytes(stager), BYTES + 1000);
    ck_assert_uint_eq((uintptr_t)base % 512, 0);
    ck_assert_uint_eq(((uintptr_t)other - 8) % 512, 0);
    assert_on_masters();
    ((unsigned char *)base)[4096] = 99; /* before the load, through one view */
    ck_assert_int_eq(*(unsigned char *)inner, 99);

    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_int_eq(dlo_stager_is_loaded(stager), 1);
    ck_assert_ptr_eq(base, alias);
    ck_assert_int_eq((char *)inner - (char *)base, 4096);
    ck_assert_int_eq(device_byte(inner, 0), 99);
    ck_assert_int_eq(device_byte(other, 0), small_weights[8]);
    ck_assert_uint_eq(cu.mem_host_alloc((void **)&page, 16, 0), CUABI_SUCCESS);
    *page = 77; /* on the device, through another view */
    ck_assert_uint_eq(cu.memcpy_htod_async((uintptr_t)inner, page, 1, compute), CUABI_SUCCESS);
    ck_assert_int_eq(device_byte(alias, 4096), 77);

    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    ck_assert_int_eq(*(unsigned char *)inner, 99); /* nothing is copied back */
    ((unsigned char *)inner)[0] = 98;
    ck_assert_int_eq(((unsigned char *)alias)[4096], 98);
    cu.mem_free_host(page);
    stop();
    ck_assert_ptr_null(base);
    ck_assert_ptr_null(other);
}
END_TEST

START_TEST(loading_and_offloading_twice_does_nothing)
{
    struct dlo_answer answer = DLO_ANSWER_INIT;
    void *device;

    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, &answer), 0);
    ck_assert_int_eq(answer.decision, 0);
    ck_assert_uint_eq(info_of(client).decisions, 0);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    device = base;
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_ptr_eq(base, device);
    ck_assert_int_eq(copy_plan.calls, 2); /* storages, not views */
    ck_assert_int_eq(dlo_stager_offload(stager, compute, &answer), 0);
    ck_assert_int_eq(answer.decision, DLO_DECISION_RELEASE); /* nothing was learned yet */
    ck_assert_int_eq(answer.reason, DLO_REASON_CACHED_OVER_BUDGET);
    ck_assert_uint_eq(answer.staged_bytes, BYTES + 1000);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, &answer), 0);
    ck_assert_int_eq(answer.decision, 0);
    ck_assert_uint_eq(info_of(client).decisions, 1);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, &answer), 0);
    ck_assert_int_eq(answer.decision, DLO_DECISION_RETAIN);
    assert_on_masters();
    stop();
}
END_TEST

START_TEST(compute_waits_for_the_copies_and_the_host_does_not)
{
    setenv("SIMGPU_COPY_US", "200000", 1);
    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    /* the two copies take 0.4 s: the compute stream has them before it */
    ck_assert_uint_eq(cu.stream_query(compute), CUABI_ERROR_NOT_READY);
    ck_assert_int_eq(device_byte(inner, 1), weights[4097]);
    ck_assert_int_eq(sync_plan.calls, 0);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    ck_assert_int_eq(sync_plan.calls, 1); /* R16: once */
    stop();
}
END_TEST

/* R17 */
START_TEST(out_of_memory_is_retried_once_after_a_release)
{
    unsigned long long neighbour, block;
    struct dlo_cache_state state;

    setenv("SIMGPU_ALLOC_TRIMS", "0", 1);
    start(DLO_MASTER_COPIED);
    /* the pool keeps 512 MiB that nobody uses, and the rest of the device is taken */
    ck_assert_uint_eq(
        cu.mem_alloc_from_pool_async(&block, 128 * MIB, dlo_cache_pool(cache), compute),
        CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_free_async(block, compute), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.stream_synchronize(compute), CUABI_SUCCESS);
    ck_assert_uint_eq(reserved(dlo_cache_pool(cache)), 128 * MIB);
    ck_assert_uint_eq(cu.mem_alloc(&neighbour, free_bytes()), CUABI_SUCCESS);
    fail_at(&alloc_plan, 0, CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_int_eq(alloc_plan.calls, 3); /* one that failed, two that did not */
    state = state_of(cache);
    ck_assert_uint_eq(state.releases, 1);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_OOM_RETRY], 1);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_FAILURE], 0);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    assert_on_masters();

    /* and when it does not help: never a third try, and the weights are on the host */
    ck_assert_uint_eq(cu.mem_alloc(&block, free_bytes()), CUABI_SUCCESS);
    fail_at(&alloc_plan, -1, 0);
    ck_assert_int_eq(dlo_stager_load(stager, compute), CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert(strstr(dlo_cuda_last_error(), "OUT_OF_MEMORY"));
    ck_assert_int_eq(alloc_plan.calls, 2);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_OOM_RETRY], 2);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_FAILURE], 1);
    assert_on_masters();
    stop();
}
END_TEST

/* R17, R18: both orders of two failures, and where a load can fail: {first, second} call of an
 * allocation or a copy, and how many tries there are. */
START_TEST(a_failed_load_ends_on_the_masters)
{
    static const struct {
        struct plan *plan;
        int at;
        unsigned int result;
        int then;
        unsigned int then_result;
        int expected;
        uint64_t oom, failure;
    } cases[] = {
        {&alloc_plan, 0, CUABI_ERROR_OUT_OF_MEMORY, 1, CUABI_ERROR_INVALID_VALUE,
         CUABI_ERROR_INVALID_VALUE, 1, 1},
        {&alloc_plan, 1, CUABI_ERROR_OUT_OF_MEMORY, 3, CUABI_ERROR_OUT_OF_MEMORY,
         CUABI_ERROR_OUT_OF_MEMORY, 1, 1},
        {&alloc_plan, 0, CUABI_ERROR_INVALID_VALUE, 1, CUABI_ERROR_OUT_OF_MEMORY,
         CUABI_ERROR_INVALID_VALUE, 0, 1},
        {&alloc_plan, 1, CUABI_ERROR_INVALID_VALUE, -1, 0, CUABI_ERROR_INVALID_VALUE, 0, 1},
        {&copy_plan, 0, CUABI_ERROR_INVALID_VALUE, -1, 0, CUABI_ERROR_INVALID_VALUE, 0, 1},
        {&copy_plan, 1, CUABI_ERROR_OPERATING_SYSTEM, -1, 0, CUABI_ERROR_OPERATING_SYSTEM, 0, 1},
        {&copy_plan, 1, CUABI_ERROR_OUT_OF_MEMORY, 2, CUABI_ERROR_INVALID_VALUE,
         CUABI_ERROR_INVALID_VALUE, 1, 1},
        {&record_plan, 0, CUABI_ERROR_INVALID_HANDLE, -1, 0, CUABI_ERROR_INVALID_HANDLE, 0, 1},
        {&wait_plan, 0, CUABI_ERROR_UNKNOWN, -1, 0, CUABI_ERROR_UNKNOWN, 0, 1},
    };
    struct dlo_info before;

    start(DLO_MASTER_COPIED);
    before = info_of(client);
    clear_plans();
    cases[_i].plan->at = cases[_i].at;
    cases[_i].plan->result = cases[_i].result;
    cases[_i].plan->then = cases[_i].then;
    cases[_i].plan->then_result = cases[_i].then_result;
    ck_assert_int_eq(dlo_stager_load(stager, compute), cases[_i].expected);
    assert_on_masters();
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_OOM_RETRY], cases[_i].oom);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_FAILURE], cases[_i].failure);
    ck_assert_uint_eq(info_of(client).decisions - before.decisions,
                      cases[_i].oom + cases[_i].failure);
    ck_assert_uint_eq(reserved(dlo_cache_pool(cache)), 0); /* released */
    clear_plans();
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0); /* and it is usable */
    ck_assert_int_eq(device_byte(inner, 1), weights[4097]);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    assert_on_masters();
    stop();
}
END_TEST

START_TEST(a_failed_offload_ends_on_the_masters)
{
    static const struct {
        struct plan *plan;
        int at;
    } cases[] = {
        {&sync_plan, 0}, {&free_plan, 0}, {&free_plan, 1}, {&record_plan, 0}, {&wait_plan, 0}};

    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    clear_plans();
    fail_at(cases[_i].plan, cases[_i].at, CUABI_ERROR_INVALID_HANDLE);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), CUABI_ERROR_INVALID_HANDLE);
    ck_assert(strstr(dlo_cuda_last_error(), "INVALID_HANDLE"));
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_FAILURE], 1);
    clear_plans();
    if (cases[_i].plan != &free_plan)
        assert_on_masters();
    ck_assert_int_eq(dlo_stager_is_loaded(stager), 0);
    ck_assert_int_eq(((unsigned char *)inner)[1], weights[4097]);
    stop();
}
END_TEST

START_TEST(after_the_end_of_the_context_nothing_is_called)
{
    int calls;

    start(DLO_MASTER_COPIED);
    fail_at(&copy_plan, 1, CUABI_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(dlo_stager_load(stager, compute), CUABI_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(dlo_cuda_error_class(CUABI_ERROR_ILLEGAL_ADDRESS), DLO_CUDA_CLASS_DEAD);
    ck_assert_int_eq(((unsigned char *)inner)[1], weights[4097]);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_FAILURE], 1);
    calls = alloc_plan.calls + copy_plan.calls + sync_plan.calls + free_plan.calls;
    ck_assert_int_eq(dlo_stager_load(stager, compute), CUABI_ERROR_ILLEGAL_ADDRESS);
    ck_assert(strstr(dlo_cuda_last_error(), "the context has ended"));
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0); /* it is not loaded */
    ck_assert_int_eq(alloc_plan.calls + copy_plan.calls + sync_plan.calls + free_plan.calls, calls);
    stop();
    ck_assert_int_eq(alloc_plan.calls + copy_plan.calls + sync_plan.calls + free_plan.calls, calls);
}
END_TEST

START_TEST(a_context_that_ends_while_loaded_gives_the_masters_back)
{
    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_int_eq(simgpu("fault cuEventRecord sticky=719"), 0);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), CUABI_ERROR_LAUNCH_FAILED);
    ck_assert_int_eq(dlo_stager_is_loaded(stager), 0);
    ck_assert_int_eq(((unsigned char *)inner)[1], weights[4097]);
    ck_assert_int_eq(((unsigned char *)other)[0], small_weights[8]);
    stop();
}
END_TEST

START_TEST(registered_masters_stay_where_they_are)
{
    int page;

    start(DLO_MASTER_REGISTERED);
    ck_assert_ptr_eq(base, weights);
    ck_assert_ptr_eq(other, small_weights + 8);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_int_eq(device_byte(base, 5), weights[5]);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    ck_assert_ptr_eq(base, weights);
    dlo_stager_free(stager);
    ck_assert_ptr_eq(base, weights);
    page = (int)cu.mem_host_unregister(weights);
    ck_assert_int_eq(page, CUABI_ERROR_HOST_MEMORY_NOT_REGISTERED);

    /* memory that somebody else has locked is used as it is, and stays locked */
    ck_assert_uint_eq(cu.mem_host_register(weights, BYTES, 0), CUABI_SUCCESS);
    stager = new_stager("again", DLO_MASTER_REGISTERED);
    add_views(stager);
    ck_assert_int_eq(dlo_stager_seal(stager), 0);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    dlo_stager_free(stager); /* loaded */
    ck_assert_ptr_eq(inner, weights + 4096);
    ck_assert_uint_eq(cu.mem_host_unregister(weights), CUABI_SUCCESS);
    ck_assert_uint_eq(used(dlo_cache_pool(cache)), 0);
    stager = NULL;
    stop();
}
END_TEST

START_TEST(a_failed_seal_leaves_everything_as_it_was)
{
    struct dlo_stager *s;
    void *before = &before, *slot = before;

    start(DLO_MASTER_COPIED);
    s = new_stager("dit2", DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_seal(s), DLO_ERR_BAD_STATE); /* empty */
    ck_assert_int_eq(dlo_stager_add(s, weights, BYTES, 0, &slot), 0);
    ck_assert_int_eq(simgpu("fault cuMemHostAlloc error=2"), 0);
    ck_assert_int_eq(dlo_stager_seal(s), CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert_ptr_eq(slot, before);
    ck_assert_int_eq(dlo_stager_load(s, compute), DLO_ERR_BAD_STATE);
    ck_assert_uint_eq(info_of(client).stager_count, 1);
    ck_assert_int_eq(simgpu("fault clear"), 0);
    ck_assert_int_eq(simgpu("fault cuEventCreate:2 error=304"), 0);
    ck_assert_int_eq(dlo_stager_seal(s), CUABI_ERROR_OPERATING_SYSTEM);
    ck_assert_int_eq(dlo_stager_seal(s), 0);
    ck_assert_int_eq(dlo_stager_seal(s), DLO_ERR_BAD_STATE);
    ck_assert_ptr_ne(slot, before);
    ck_assert_uint_eq(info_of(client).stager_count, 2);
    ck_assert_int_eq(dlo_stager_add(s, weights, BYTES, 0, &slot), DLO_ERR_BAD_STATE);
    dlo_stager_free(s);
    ck_assert_uint_eq(info_of(client).stager_count, 1);
    stop();
}
END_TEST

START_TEST(bad_arguments_are_refused_in_words)
{
    struct dlo_stager_options o = DLO_STAGER_OPTIONS_INIT;
    struct dlo_stager *s;
    void *slot;

    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_new(NULL, cache, &o, &s), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), DLO_ERR_INVALID); /* no id */
    o.id = "a name with spaces";
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), DLO_ERR_INVALID);
    ck_assert(strstr(dlo_cuda_last_error(), "id must be"));
    o.id = "1234567890123456789012345678901234567890123456789012345678901234"; /* 64 */
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), DLO_ERR_INVALID);
    o.id = "x";
    o.master = 2;
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), DLO_ERR_INVALID);
    o.master = DLO_MASTER_COPIED;
    o.size = 4;
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), DLO_ERR_INVALID);
    o.size = sizeof(o);
    ck_assert_int_eq(dlo_stager_new(cuda, cache, &o, &s), 0);
    ck_assert_int_eq(dlo_stager_add(s, NULL, 1, 0, &slot), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_add(s, weights, 0, 0, &slot), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_add(s, weights, 8, 8, &slot), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_add(s, weights, 8, 0, NULL), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_add(s, weights, UINT64_MAX, 0, &slot), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_add(s, weights, 8, 7, &slot), 0);
    ck_assert_int_eq(dlo_stager_add(s, weights, 9, 0, &slot), DLO_ERR_INVALID); /* another size */
    ck_assert_int_eq(dlo_stager_add(s, weights + 7, 8, 0, &slot), DLO_ERR_INVALID); /* overlaps */
    ck_assert(strstr(dlo_cuda_last_error(), "overlaps"));
    ck_assert_int_eq(dlo_stager_add(s, weights + 8, 8, 0, &slot), 0);
    ck_assert_int_eq(dlo_stager_load(s, NULL), DLO_ERR_BAD_STATE);
    ck_assert_int_eq(dlo_stager_load(NULL, NULL), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_stager_offload(s, NULL, NULL), DLO_ERR_BAD_STATE);
    dlo_stager_free(s);
    dlo_stager_free(NULL);
    ck_assert_uint_eq(dlo_stager_bytes(NULL), 0);
    stop();
}
END_TEST

START_TEST(a_million_views_are_the_limit)
{
    static void *slot;

    start(DLO_MASTER_COPIED);
    dlo_stager_free(stager);
    stager = new_stager("many", DLO_MASTER_COPIED);
    for (unsigned i = 0; i < 1u << 20; i++)
        ck_assert_int_eq(dlo_stager_add(stager, weights, 1000, i % 1000, &slot), 0);
    ck_assert_int_eq(dlo_stager_add(stager, weights, 1000, 0, &slot), DLO_ERR_LIMIT);
    ck_assert_uint_eq(dlo_stager_bytes(stager), 1000);
    stop();
}
END_TEST

/* R19: without a cache there is nothing to keep, with one that has no policy everything is
 * released. */
START_TEST(without_a_policy_every_offload_releases)
{
    struct dlo_stager *s;
    uint64_t before;
    void *slot;

    start(DLO_MASTER_COPIED);
    dlo_stager_free(stager);
    dlo_cache_close(cache);
    cache = open_pool(cuda, NULL);
    stager = new_stager("nobody", DLO_MASTER_COPIED);
    add_views(stager);
    ck_assert_int_eq(dlo_stager_seal(stager), 0);
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
        ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
        ck_assert_uint_eq(state_of(cache).releases, i);
        ck_assert_uint_eq(reserved(dlo_cache_pool(cache)), 0);
    }
    ck_assert_uint_eq(info_of(client).decisions, 0);

    before = free_bytes();
    ck_assert_int_eq(dlo_stager_new(cuda, NULL,
                                    &(struct dlo_stager_options){
                                        .size = sizeof(struct dlo_stager_options), .id = "plain"},
                                    &s),
                     0);
    ck_assert_int_eq(dlo_stager_add(s, weights, BYTES, 0, &slot), 0);
    ck_assert_int_eq(dlo_stager_seal(s), 0);
    ck_assert_int_eq(dlo_stager_load(s, compute), 0);
    ck_assert_uint_lt(free_bytes(), before);
    ck_assert_int_eq(dlo_stager_offload(s, compute, NULL), 0);
    ck_assert_uint_eq(free_bytes(), before);
    fail_at(&alloc_plan, 0, CUABI_ERROR_OUT_OF_MEMORY);
    ck_assert_int_eq(dlo_stager_load(s, compute), 0); /* the one retry is here too */
    dlo_stager_free(s);
    ck_assert_uint_eq(free_bytes(), before);
    stop();
}
END_TEST

START_TEST(the_child_of_a_fork_changes_nothing)
{
    int status;
    pid_t pid;

    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    pid = fork();
    if (pid == 0) {
        void *device = base;
        uint64_t free_now, total;
        int good = dlo_stager_load(stager, compute) == DLO_ERR_FORKED &&
                   dlo_stager_offload(stager, compute, NULL) == DLO_ERR_FORKED &&
                   dlo_cache_boundary(cache, NULL, 0, NULL) == DLO_ERR_FORKED &&
                   dlo_cuda_read_memory(cuda, &free_now, &total) == DLO_ERR_FORKED;

        dlo_stager_free(stager);
        dlo_cache_close(cache);
        dlo_close(client);
        dlo_cuda_close(cuda);
        _exit(good && base == device ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(device_byte(inner, 1), weights[4097]);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    ck_assert_uint_eq(info_of(client).stager_count, 1);
    stop();
}
END_TEST

START_TEST(the_current_context_of_the_thread_is_left_alone)
{
    struct CUctx_st *now = NULL;

    start(DLO_MASTER_COPIED);
    ck_assert_uint_eq(cu.ctx_set_current(NULL), CUABI_SUCCESS); /* as in a thread of the worker's */
    ck_assert_int_eq(dlo_stager_load(stager, compute), 0);
    ck_assert_int_eq(dlo_stager_offload(stager, compute, NULL), 0);
    ck_assert_uint_eq(cu.ctx_get_current(&now), CUABI_SUCCESS);
    ck_assert_ptr_null(now);
    ck_assert_uint_eq(cu.ctx_set_current(context), CUABI_SUCCESS);
    fail_at(&copy_plan, 0, CUABI_ERROR_INVALID_VALUE);
    ck_assert_int_eq(dlo_stager_load(stager, compute), CUABI_ERROR_INVALID_VALUE);
    ck_assert_uint_eq(cu.ctx_get_current(&now), CUABI_SUCCESS);
    ck_assert_ptr_eq(now, context);
    stop();
}
END_TEST

static void add_cases(TCase *tcase)
{
    tcase_add_test(tcase, views_of_one_storage_stay_aliases);
    tcase_add_test(tcase, loading_and_offloading_twice_does_nothing);
    tcase_add_test(tcase, compute_waits_for_the_copies_and_the_host_does_not);
    tcase_add_test(tcase, out_of_memory_is_retried_once_after_a_release);
    tcase_add_loop_test(tcase, a_failed_load_ends_on_the_masters, 0, 9);
    tcase_add_loop_test(tcase, a_failed_offload_ends_on_the_masters, 0, 5);
    tcase_add_test(tcase, after_the_end_of_the_context_nothing_is_called);
    tcase_add_test(tcase, a_context_that_ends_while_loaded_gives_the_masters_back);
    tcase_add_test(tcase, registered_masters_stay_where_they_are);
    tcase_add_test(tcase, a_failed_seal_leaves_everything_as_it_was);
    tcase_add_test(tcase, bad_arguments_are_refused_in_words);
    tcase_add_test(tcase, a_million_views_are_the_limit);
    tcase_add_test(tcase, without_a_policy_every_offload_releases);
    tcase_add_test(tcase, the_child_of_a_fork_changes_nothing);
    tcase_add_test(tcase, the_current_context_of_the_thread_is_left_alone);
}

int main(int argc, char **argv)
{
    return harness_main(argc, argv, "stager", add_cases);
}
