/* SPDX-License-Identifier: Apache-2.0 */
/* The pool adapter, the hook and the context on the simulated GPU. */
#include "tests/unit/cuda_case.h"

#include "tests/unit/fake_daemon.h"

#define CHUNK (32 * MIB)
#define CAP   (TOTAL / 4) /* of a client without a daemon */

static struct dlo_cuda *cuda;
static struct dlo_client *client;
static struct dlo_cache *cache;
static struct CUmemPoolHandle_st *pool;
static struct CUstream_st *stream;

static void start(const struct dlo_pool *wanted, int32_t mode)
{
    setenv("SIMGPU_ALLOC_TRIMS", "0", 1);
    cuda = open_cuda();
    client = open_client_at(cuda, "/nonexistent/dlo.sock", mode);
    ck_assert_int_eq(dlo_cache_open_pool(cuda, client, wanted, &cache), 0);
    pool = dlo_cache_pool(cache);
    ck_assert_uint_eq(cu.stream_create(&stream, CUABI_STREAM_NON_BLOCKING), CUABI_SUCCESS);
}

static void stop(void)
{
    dlo_cache_close(cache);
    dlo_close(client);
    dlo_cuda_close(cuda);
}

static unsigned long long take(struct CUmemPoolHandle_st *from, uint64_t bytes)
{
    unsigned long long address;

    ck_assert_uint_eq(cu.mem_alloc_from_pool_async(&address, bytes, from, stream), CUABI_SUCCESS);
    return address;
}

static void give(unsigned long long address)
{
    ck_assert_uint_eq(cu.mem_free_async(address, stream), CUABI_SUCCESS);
}

/* Takes and gives back, so that so much lies in the pool unused, if the driver lets it. */
static void fill_cache(struct CUmemPoolHandle_st *of, uint64_t bytes)
{
    give(take(of, bytes));
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
}

static uint64_t threshold(struct CUmemPoolHandle_st *of)
{
    return pool_value(of, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD);
}

static struct dlo_answer boundary(int32_t force)
{
    struct dlo_answer answer = DLO_ANSWER_INIT;

    ck_assert_int_eq(dlo_cache_boundary(cache, "vae", force, &answer), 0);
    return answer;
}

static struct fake *started_daemon(void)
{
    struct fake *f = fake_new();

    fake_start(f);
    return f;
}

/* ---- the threshold ---- */

START_TEST(the_threshold_is_what_is_used_plus_the_cap)
{
    unsigned long long held;

    start(NULL, DLO_MODE_ON);
    ck_assert_uint_eq(threshold(pool), CAP); /* before any boundary */
    held = take(pool, 100 * MIB);
    fill_cache(pool, 64 * MIB);
    ck_assert_int_eq(boundary(0).decision, DLO_DECISION_RELEASE); /* nothing learned yet */
    ck_assert_uint_eq(threshold(pool), used(pool) + CAP);
    ck_assert_uint_eq(used(pool), 100 * MIB);
    fill_cache(pool, 64 * MIB);
    ck_assert_int_eq(boundary(0).decision, DLO_DECISION_RETAIN);
    ck_assert_uint_eq(threshold(pool), 100 * MIB + CAP);
    give(held);
    ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
    boundary(DLO_FORCE_FAILURE); /* its answer has no cap: that of before holds */
    ck_assert_uint_eq(threshold(pool), CAP);
    stop();
}
END_TEST

START_TEST(a_borrowed_pool_gets_its_threshold_back)
{
    struct dlo_pool wanted = DLO_POOL_INIT;
    struct CUmemPoolHandle_st *mine;
    uint64_t before = 77 * MIB;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.device_get_default_mem_pool(&mine, 0), CUABI_SUCCESS);
    ck_assert_uint_eq(
        cu.mem_pool_set_attribute(mine, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &before),
        CUABI_SUCCESS);
    wanted.use_default = 1;
    start(&wanted, DLO_MODE_ON);
    ck_assert_ptr_eq(pool, mine);
    ck_assert_uint_eq(threshold(mine), CAP);
    stop();
    ck_assert_uint_eq(threshold(mine), before);

    wanted.use_default = 0;
    wanted.pool = mine;
    start(&wanted, DLO_MODE_ON);
    ck_assert_ptr_eq(pool, mine);
    boundary(0);
    ck_assert_uint_eq(threshold(mine), CAP);
    stop();
    ck_assert_uint_eq(threshold(mine), before);
}
END_TEST

START_TEST(in_modes_off_and_shadow_the_threshold_is_not_touched)
{
    start(NULL, _i == 0 ? DLO_MODE_OFF : DLO_MODE_SHADOW);
    ck_assert_uint_eq(threshold(pool), 0);
    for (int i = 0; i < 3; i++) {
        fill_cache(pool, 64 * MIB);
        ck_assert_int_eq(boundary(0).decision, DLO_DECISION_KEEP);
        ck_assert_uint_eq(threshold(pool), 0);
        ck_assert_uint_eq(reserved(pool), 0);
    }
    ck_assert_uint_eq(state_of(cache).releases, 3); /* as without us: R19 */
    stop();
}
END_TEST

START_TEST(a_daemon_that_goes_to_shadow_leaves_the_threshold_as_it_was)
{
    struct fake *f = started_daemon();

    start(NULL, DLO_MODE_ON);
    dlo_close(client);
    client = open_client_at(cuda, f->path, DLO_MODE_ON);
    dlo_cache_close(cache);
    cache = open_pool(cuda, client);
    pool = dlo_cache_pool(cache);
    boundary(0);
    ck_assert_uint_eq(threshold(pool), CAP);
    f->settings.mode = MODE_SHADOW;
    ck_assert_int_eq(boundary(0).decision, DLO_DECISION_KEEP);
    ck_assert_uint_eq(threshold(pool), 0);
    f->settings.mode = MODE_ON;
    boundary(0);
    ck_assert_uint_eq(threshold(pool), CAP);
    stop();
    fake_free(f);
}
END_TEST

/* The cap holds without anybody to ask. */
START_TEST(without_the_daemon_the_driver_keeps_the_cap)
{
    struct fake *f = started_daemon();
    unsigned long long held, blocks[18];

    start(NULL, DLO_MODE_ON);
    dlo_close(client);
    client = open_client_at(cuda, f->path, DLO_MODE_ON);
    dlo_cache_close(cache);
    cache = open_pool(cuda, client);
    pool = dlo_cache_pool(cache);
    held = take(pool, 64 * MIB);
    fill_cache(pool, 64 * MIB);
    ck_assert_int_eq(boundary(0).cause, 0); /* the daemon answered */
    fake_stop(f);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < 18; k++)
            blocks[k] = take(pool, CHUNK);
        for (size_t k = 0; k < 18; k++)
            give(blocks[k]);
        ck_assert_uint_ge(reserved(pool), 640 * MIB);
        ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
        ck_assert_uint_le(reserved(pool) - used(pool), CAP);
        ck_assert_uint_gt(reserved(pool) - used(pool), CAP - CHUNK);
    }
    give(held);
    stop();
    fake_free(f);
}
END_TEST

/* A run that learns below the cap learns the same with the threshold as with none at all. */
START_TEST(the_same_is_learned_as_without_a_threshold)
{
    static const unsigned mib[] = {40, 96, 33, 96, 64, 10, 128, 90, 40, 96, 64, 128};
    struct CUmemPoolHandle_st *free_pool;
    const struct CUmemPoolProps_st props = {
        .allocType = CUABI_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CUABI_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    struct dlo_client *other;
    uint64_t keep_all = UINT64_MAX;

    start(NULL, DLO_MODE_ON);
    other = open_client(cuda);
    ck_assert_uint_eq(cu.mem_pool_create(&free_pool, &props), CUABI_SUCCESS);
    ck_assert_uint_eq(
        cu.mem_pool_set_attribute(free_pool, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all),
        CUABI_SUCCESS);
    for (size_t i = 0; i < sizeof(mib) / sizeof(mib[0]); i++) {
        struct dlo_boundary b = DLO_BOUNDARY_INIT;
        struct dlo_answer without = DLO_ANSWER_INIT, with;

        fill_cache(pool, mib[i] * MIB);
        with = boundary(0);
        fill_cache(free_pool, mib[i] * MIB);
        b.reserved = reserved(free_pool);
        b.allocated = used(free_pool);
        ck_assert_int_eq(dlo_ask(other, &b, &without), 0);
        if (without.decision == DLO_DECISION_RELEASE)
            ck_assert_uint_eq(cu.mem_pool_trim_to(free_pool, 0), CUABI_SUCCESS);
        ck_assert_int_eq(with.decision, without.decision);
        ck_assert_uint_eq(with.cached, without.cached);
        ck_assert_uint_eq(with.peak, without.peak);
    }
    ck_assert_uint_ge(info_of(client).peak, 128 * MIB);
    ck_assert_uint_le(info_of(client).peak, CAP);
    dlo_close(other);
    stop();
}
END_TEST

/* ---- what cannot be released ---- */

START_TEST(an_exportable_pool_is_reported_as_not_releasable)
{
    struct dlo_pool wanted = DLO_POOL_INIT;

    wanted.exportable = 1;
    start(&wanted, DLO_MODE_ON);
    for (int i = 0; i < 5; i++) {
        struct dlo_answer a;

        fill_cache(pool, 64 * MIB);
        a = boundary(0);
        ck_assert_int_eq(a.decision, DLO_DECISION_RETAIN);
        ck_assert_uint_eq(a.cached, 0);
    }
    ck_assert_uint_eq(state_of(cache).releasable, 0);
    ck_assert_uint_eq(state_of(cache).releases, 0);
    stop();
}
END_TEST

START_TEST(a_borrowed_exportable_pool_is_not_asked_for_ever)
{
    const struct CUmemPoolProps_st props = {
        .allocType = CUABI_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CUABI_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CUABI_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    struct dlo_pool wanted = DLO_POOL_INIT;
    struct dlo_cache_state state;
    unsigned long long held = 0;
    uint64_t asked = 0;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.mem_pool_create((struct CUmemPoolHandle_st **)&wanted.pool, &props),
                      CUABI_SUCCESS);
    start(&wanted, DLO_MODE_ON);
    fill_cache(pool, 256 * MIB);
    for (int i = 0; i < 20; i++) { /* what is used goes up and down below the same reserved */
        held = take(pool, (unsigned)(1 + i % 4) * CHUNK);
        boundary(0);
        give(held);
        ck_assert_uint_eq(cu.stream_synchronize(stream), CUABI_SUCCESS);
        boundary(0);
        if (i == 4)
            asked = state_of(cache).releases;
    }
    state = state_of(cache);
    ck_assert_uint_ge(state.releases, 1);
    ck_assert_uint_eq(state.releases, asked);
    ck_assert_uint_eq(state.empty_releases, state.releases);
    ck_assert_uint_eq(state.released_bytes, 0);
    ck_assert_uint_lt(state.releasable, 256 * MIB);
    stop();
}
END_TEST

/* ---- proof ---- */

START_TEST(a_release_is_proven)
{
    struct fake *f = started_daemon();
    struct dlo_cache_state state;
    unsigned long long pin;

    start(NULL, DLO_MODE_ON);
    dlo_close(client);
    client = open_client_at(cuda, f->path, DLO_MODE_ON);
    dlo_cache_close(cache);
    cache = open_pool(cuda, client);
    pool = dlo_cache_pool(cache);
    ck_assert_uint_eq(state_of(cache).release_us, DLO_MISSING);
    pin = take(pool, MIB); /* a chunk that no trim gives back */
    fill_cache(pool, 128 * MIB);
    boundary(DLO_FORCE_FAILURE);
    fake_wait(f, &f->releases, 1);
    state = state_of(cache);
    ck_assert_uint_eq(state.releases, 1);
    ck_assert_uint_eq(state.empty_releases, 0);
    ck_assert_uint_ge(state.released_bytes, 96 * MIB);
    ck_assert_uint_eq(state.residue, CHUNK - MIB);
    ck_assert_uint_lt(state.release_us, 10000000);
    boundary(DLO_FORCE_FAILURE); /* there is nothing left to give */
    ck_assert_uint_eq(state_of(cache).empty_releases, 1);
    ck_assert_uint_eq(state_of(cache).releasable, 0);
    fill_cache(pool, 128 * MIB); /* reserved has changed: it may give again */
    ck_assert_uint_eq(state_of(cache).releasable, DLO_MISSING);
    give(pin);
    stop();
    fake_free(f);
}
END_TEST

START_TEST(high_watermarks_are_those_since_the_boundary_before)
{
    struct dlo_cache_state state;

    start(NULL, DLO_MODE_ON);
    ck_assert_uint_eq(state_of(cache).reserved_high, DLO_MISSING);
    fill_cache(pool, 128 * MIB);
    boundary(0);
    state = state_of(cache);
    ck_assert_uint_eq(state.allocated_high, 128 * MIB);
    ck_assert_uint_eq(state.reserved_high, 128 * MIB);
    fill_cache(pool, 40 * MIB);
    boundary(0);
    ck_assert_uint_eq(state_of(cache).allocated_high, 40 * MIB);
    stop();
}
END_TEST

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
    stop();
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
    tcase_add_test(tcase, the_threshold_is_what_is_used_plus_the_cap);
    tcase_add_test(tcase, a_borrowed_pool_gets_its_threshold_back);
    tcase_add_loop_test(tcase, in_modes_off_and_shadow_the_threshold_is_not_touched, 0, 2);
    tcase_add_test(tcase, a_daemon_that_goes_to_shadow_leaves_the_threshold_as_it_was);
    tcase_add_test(tcase, without_the_daemon_the_driver_keeps_the_cap);
    tcase_add_test(tcase, the_same_is_learned_as_without_a_threshold);
    tcase_add_test(tcase, an_exportable_pool_is_reported_as_not_releasable);
    tcase_add_test(tcase, a_borrowed_exportable_pool_is_not_asked_for_ever);
    tcase_add_test(tcase, a_release_is_proven);
    tcase_add_test(tcase, high_watermarks_are_those_since_the_boundary_before);
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
    return harness_main(argc, argv, "pool", add_cases);
}
