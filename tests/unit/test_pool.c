/* SPDX-License-Identifier: Apache-2.0 */
/* The pool adapter on the simulated GPU. */
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
    dlo_cache_close(cache); /* it borrows the handle */
    dlo_close(client);
    client = open_client_at(cuda, f->path, DLO_MODE_ON);
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
    fake_stop(f);
    fake_free(f);
}
END_TEST

/* The cap holds without anybody to ask. */
START_TEST(without_the_daemon_the_driver_keeps_the_cap)
{
    struct fake *f = started_daemon();
    unsigned long long held, blocks[18];

    start(NULL, DLO_MODE_ON);
    dlo_cache_close(cache); /* it borrows the handle */
    dlo_close(client);
    client = open_client_at(cuda, f->path, DLO_MODE_ON);
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
    dlo_cache_close(cache); /* it borrows the handle */
    dlo_close(client);
    client = open_client_at(cuda, f->path, DLO_MODE_ON);
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
    fake_stop(f);
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
}

int main(int argc, char **argv)
{
    return harness_main(argc, argv, "pool", add_cases);
}
