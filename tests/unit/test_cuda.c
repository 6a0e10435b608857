/* SPDX-License-Identifier: Apache-2.0 */
/* The driver table, the worker's context, and the hook on the simulated GPU. */
#include "tests/unit/cuda_case.h"

static struct dlo_cuda *cuda;
static struct dlo_client *client;
static struct dlo_cache *cache;

/* ---- the hook ---- */

struct host {
    int reads, releases, read_result, release_result;
    uint64_t reserved, allocated;
};

static int32_t host_read(void *arg, uint64_t *ret_reserved, uint64_t *ret_allocated)
{
    struct host *h = arg;

    h->reads++;
    *ret_reserved = h->reserved;
    *ret_allocated = h->allocated;
    return h->read_result;
}

static int32_t host_release(void *arg)
{
    struct host *h = arg;

    h->releases++;
    if (h->release_result == 0)
        h->reserved = h->allocated;
    return h->release_result;
}

START_TEST(a_hook_needs_two_callbacks_and_no_driver)
{
    struct host h = {.reserved = 100 * MIB, .allocated = 10 * MIB};
    struct dlo_hook hook = DLO_HOOK_INIT;
    struct dlo_answer a = DLO_ANSWER_INIT;

    hook.arg = &h;
    hook.read = host_read;
    client = open_client(NULL);
    ck_assert_int_eq(dlo_cache_open_hook(NULL, client, &hook, &cache), DLO_ERR_INVALID);
    hook.release = host_release;
    ck_assert_int_eq(dlo_cache_open_hook(NULL, client, NULL, &cache), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_cache_open_hook(NULL, client, &hook, &cache), 0);
    ck_assert_ptr_null(dlo_cache_pool(cache));

    /* no reading of the device: R6 */
    ck_assert_int_eq(dlo_cache_boundary(cache, "x", 0, &a), 0);
    ck_assert_int_eq(a.reason, DLO_REASON_TELEMETRY_UNAVAILABLE);
    ck_assert_int_eq(h.releases, 1);
    ck_assert_int_eq(h.reads, 2); /* before, and for the proof */
    ck_assert_uint_eq(state_of(cache).released_bytes, 90 * MIB);
    ck_assert_uint_eq(state_of(cache).threshold, DLO_MISSING);

    h.read_result = 5; /* it cannot be read: R6 again, and no proof */
    ck_assert_int_eq(dlo_cache_boundary(cache, "x", 0, &a), 0);
    ck_assert_int_eq(a.decision, DLO_DECISION_RELEASE);
    ck_assert_uint_eq(state_of(cache).released_bytes, DLO_MISSING);
    ck_assert_uint_eq(state_of(cache).reserved, DLO_MISSING);
    h.read_result = 0;
    h.release_result = 9;
    ck_assert_int_eq(dlo_cache_boundary(cache, "x", DLO_FORCE_OPERATOR, &a), 9);
    ck_assert(strstr(dlo_cuda_last_error(), "release failed with 9"));
    ck_assert_int_eq(a.reason, DLO_REASON_FORCED);
    ck_assert_int_eq(dlo_cache_boundary(cache, "x", 99, &a), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_cache_boundary(NULL, "x", 0, &a), DLO_ERR_INVALID);
    dlo_cache_close(cache);
    dlo_close(client);
}
END_TEST

START_TEST(the_end_of_a_stage_may_be_an_advice)
{
    struct host h = {.reserved = 100 * MIB, .allocated = 100 * MIB};
    struct dlo_options o = DLO_OPTIONS_INIT;
    struct dlo_hook hook = DLO_HOOK_INIT;
    struct dlo_answer a = DLO_ANSWER_INIT;

    cuda = open_cuda();
    o.socket = "/nonexistent/dlo.sock";
    o.stage_end = _i == 0 ? DLO_STAGE_END_FORCE : DLO_STAGE_END_ADVISE;
    o.read_memory = dlo_cuda_read_memory;
    o.read_memory_arg = cuda;
    ck_assert_int_eq(dlo_open(&o, &client), 0);
    hook.arg = &h;
    hook.read = host_read;
    hook.release = host_release;
    ck_assert_int_eq(dlo_cache_open_hook(cuda, client, &hook, &cache), 0);
    ck_assert_int_eq(dlo_cache_boundary(cache, NULL, DLO_FORCE_STAGE_END, &a), 0);
    ck_assert_int_eq(a.decision, _i == 0 ? DLO_DECISION_RELEASE : DLO_DECISION_RETAIN);
    ck_assert_int_eq(h.releases, _i == 0 ? 1 : 0);
    ck_assert_uint_eq(info_of(client).forced[DLO_FORCE_STAGE_END], _i == 0 ? 1 : 0);
    dlo_cache_close(cache);
    dlo_close(client);
    dlo_cuda_close(cuda);
}
END_TEST

/* ---- the driver and the context ---- */

START_TEST(a_context_is_taken_and_never_made)
{
    struct dlo_cuda_options o = DLO_CUDA_OPTIONS_INIT;
    struct CUctx_st *now;

    load_cuda();
    ck_assert_int_eq(dlo_cuda_open(NULL, &cuda), DLO_ERR_BAD_STATE);
    ck_assert(strstr(dlo_cuda_last_error(), "no context yet"));
    ck_assert(shows("bytes 0 context no"));
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.ctx_set_current(NULL), CUABI_SUCCESS);
    ck_assert_int_eq(dlo_cuda_open(NULL, &cuda), 0); /* the primary one, which is active now */
    ck_assert_uint_eq(cu.ctx_get_current(&now), CUABI_SUCCESS);
    ck_assert_ptr_null(now);
    dlo_cuda_close(cuda);
    o.context = context;
    ck_assert_int_eq(dlo_cuda_open(&o, &cuda), 0);
    dlo_cuda_close(cuda);
    ck_assert_uint_eq(cu.ctx_set_current(context), CUABI_SUCCESS);
    ck_assert_uint_gt(free_bytes(), 0); /* it is still there */
    o.size = 3;
    ck_assert_int_eq(dlo_cuda_open(&o, &cuda), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_cuda_open(NULL, NULL), DLO_ERR_INVALID);
}
END_TEST

START_TEST(an_absent_driver_is_an_error_in_words)
{
    setenv("DLO_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
    ck_assert_int_eq(dlo_cuda_open(NULL, &cuda), DLO_ERR_IO);
    ck_assert(strstr(dlo_cuda_last_error(), "/nonexistent/libcuda.so.1"));
}
END_TEST

START_TEST(a_device_without_pools_is_refused)
{
    setenv("SIMGPU_NO_POOLS", "1", 1);
    cuda = open_cuda();
    ck_assert_int_eq(dlo_cache_open_pool(cuda, NULL, NULL, &cache), DLO_ERR_UNSUPPORTED);
    ck_assert(strstr(dlo_cuda_last_error(), "no memory pools"));
    ck_assert_int_eq(dlo_cache_open_pool(NULL, NULL, NULL, &cache), DLO_ERR_INVALID);
    cuda->calls.mem_pool_trim_to = NULL; /* an old driver */
    ck_assert_int_eq(dlo_cache_open_pool(cuda, NULL, NULL, &cache), DLO_ERR_UNSUPPORTED);
    dlo_cuda_close(cuda);
}
END_TEST

START_TEST(a_failed_open_of_a_pool_leaves_nothing)
{
    cuda = open_cuda();
    ck_assert_int_eq(simgpu("fault cuMemPoolGetAttribute:1 error=1"), 0);
    ck_assert_int_eq(dlo_cache_open_pool(cuda, NULL, NULL, &cache), CUABI_ERROR_INVALID_VALUE);
    ck_assert_int_eq(simgpu("fault cuMemPoolCreate:1 error=2"), 0);
    ck_assert_int_eq(dlo_cache_open_pool(cuda, NULL, NULL, &cache), CUABI_ERROR_OUT_OF_MEMORY);
    cache = open_pool(cuda, NULL);
    dlo_cache_close(cache);
    dlo_cuda_close(cuda);
}
END_TEST

START_TEST(identity_and_memory_are_the_contexts)
{
    uint64_t free_now = 0, total = 0;
    char uuid[DLO_CUDA_UUID_SIZE];

    cuda = open_cuda();
    ck_assert_int_eq(dlo_cuda_uuid(cuda, uuid), 0);
    ck_assert_int_eq(strncmp(uuid, "GPU-", 4), 0);
    ck_assert_uint_eq(strlen(uuid), 40);
    ck_assert(shows(uuid));
    ck_assert_int_eq(dlo_cuda_read_memory(cuda, &free_now, &total), 0);
    ck_assert_uint_eq(free_now, free_bytes());
    ck_assert_uint_eq(total, TOTAL);
    cuda->calls.device_get_uuid = NULL;
    ck_assert_int_eq(dlo_cuda_uuid(cuda, uuid), DLO_ERR_UNSUPPORTED);
    ck_assert_int_eq(simgpu("fault cuMemGetInfo_v2 error=999"), 0);
    free_now = total = 7;
    ck_assert_int_eq(dlo_cuda_read_memory(cuda, &free_now, &total), CUABI_ERROR_UNKNOWN);
    ck_assert_uint_eq(free_now + total, 14);
    dlo_cuda_close(cuda);
}
END_TEST

/* On a part whose memory is the host's, page cache is not in use (R11b). */
START_TEST(host_memory_is_read_as_the_kernel_counts_it)
{
    uint64_t free_now, total;

    ck_assert_int_eq(simgpu("create --total 1Gi --context 300Mi --integrated"), 0);
    ck_assert_int_eq(simgpu("set page_cache=512Mi"), 0);
    cuda = open_cuda();
    ck_assert_uint_lt(free_bytes(), TOTAL - 512 * MIB);
    ck_assert_int_eq(dlo_cuda_read_memory(cuda, &free_now, &total), 0);
    ck_assert_uint_gt(free_now, free_bytes());
    ck_assert_uint_le(free_now, total);
    dlo_cuda_close(cuda);
}
END_TEST

/* One row a code, from the texts of cuda.h. */
START_TEST(results_have_a_class)
{
    static const struct {
        int32_t result, class;
    } rows[] = {
        {0, DLO_CUDA_CLASS_OK},       {600, DLO_CUDA_CLASS_OK},      {712, DLO_CUDA_CLASS_OK},
        {2, DLO_CUDA_CLASS_PRESSURE}, {46, DLO_CUDA_CLASS_RETRY},    {802, DLO_CUDA_CLASS_RETRY},
        {805, DLO_CUDA_CLASS_RETRY},  {806, DLO_CUDA_CLASS_RETRY},   {807, DLO_CUDA_CLASS_RETRY},
        {4, DLO_CUDA_CLASS_CONTEXT},  {201, DLO_CUDA_CLASS_CONTEXT}, {709, DLO_CUDA_CLASS_CONTEXT},
        {3, DLO_CUDA_CLASS_NEVER},    {34, DLO_CUDA_CLASS_NEVER},    {100, DLO_CUDA_CLASS_NEVER},
        {803, DLO_CUDA_CLASS_NEVER},  {804, DLO_CUDA_CLASS_NEVER},   {214, DLO_CUDA_CLASS_DEAD},
        {220, DLO_CUDA_CLASS_DEAD},   {226, DLO_CUDA_CLASS_DEAD},    {700, DLO_CUDA_CLASS_DEAD},
        {702, DLO_CUDA_CLASS_DEAD},   {710, DLO_CUDA_CLASS_DEAD},    {714, DLO_CUDA_CLASS_DEAD},
        {715, DLO_CUDA_CLASS_DEAD},   {716, DLO_CUDA_CLASS_DEAD},    {717, DLO_CUDA_CLASS_DEAD},
        {718, DLO_CUDA_CLASS_DEAD},   {719, DLO_CUDA_CLASS_DEAD},    {721, DLO_CUDA_CLASS_DEAD},
        {810, DLO_CUDA_CLASS_DEAD},   {911, DLO_CUDA_CLASS_DEAD},    {999, DLO_CUDA_CLASS_OTHER},
        {304, DLO_CUDA_CLASS_OTHER},  {1, DLO_CUDA_CLASS_OTHER},     {123456, DLO_CUDA_CLASS_OTHER},
        {-1, DLO_CUDA_CLASS_OTHER},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_int_eq(dlo_cuda_error_class(rows[i].result), rows[i].class);
}
END_TEST

static void add_cases(TCase *tcase)
{
    tcase_add_test(tcase, a_hook_needs_two_callbacks_and_no_driver);
    tcase_add_loop_test(tcase, the_end_of_a_stage_may_be_an_advice, 0, 2);
    tcase_add_test(tcase, a_context_is_taken_and_never_made);
    tcase_add_test(tcase, an_absent_driver_is_an_error_in_words);
    tcase_add_test(tcase, a_device_without_pools_is_refused);
    tcase_add_test(tcase, a_failed_open_of_a_pool_leaves_nothing);
    tcase_add_test(tcase, identity_and_memory_are_the_contexts);
    tcase_add_test(tcase, host_memory_is_read_as_the_kernel_counts_it);
    tcase_add_test(tcase, results_have_a_class);
}

int main(int argc, char **argv)
{
    return harness_main(argc, argv, "cuda", add_cases);
}
