/* SPDX-License-Identifier: Apache-2.0 */
/* Random operations of several stagers with failures planted: nothing leaks. */
#include "tests/unit/stager_case.h"

static uint64_t seed;

static unsigned int random_below(unsigned int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned int)(seed >> 33) % n;
}

static void plant_faults(void)
{
    static const unsigned int results[] = {CUABI_ERROR_OUT_OF_MEMORY, CUABI_ERROR_INVALID_VALUE,
                                           CUABI_ERROR_UNKNOWN};
    struct plan *const plans[] = {&alloc_plan,  &alloc_plan, &copy_plan, &sync_plan,
                                  &record_plan, &wait_plan,  &free_plan};

    clear_plans();
    for (unsigned int i = random_below(4); i > 0; i--) {
        struct plan *p = plans[random_below(7)];

        p->at = (int)random_below(4);
        p->result = results[random_below(3)];
        if (random_below(2)) {
            p->then = p->at + 1 + (int)random_below(3);
            p->then_result = results[random_below(3)];
        }
    }
}

/* A few stagers share a pool on a device that has not room for all of them; half of the steps have
 * planted failures. Whatever happens, a slot shows what its stager's state says, and in the end
 * nothing is left. */
START_TEST(random_operations_leak_nothing)
{
    enum { STAGERS = 5 };
    const char *steps = getenv("DLO_VALGRIND") ? "1000" : getenv("DLO_LONG") ? "100000" : "10000";
    struct dlo_stager *stagers[STAGERS] = {NULL};
    void *slots[STAGERS][2];
    uint64_t before, failures = 0;
    char id[8];

    setenv("SIMGPU_ALLOC_TRIMS", "0", 1);
    start(DLO_MASTER_COPIED);
    ck_assert_int_eq(simgpu("set foreign=%u", (unsigned)((TOTAL - CONTEXT - 96 * MIB))), 0);
    before = free_bytes();
    seed = 20261201;
    for (long step = 0; step < atol(steps); step++) {
        const unsigned int i = random_below(STAGERS);
        int r = 0;

        if (random_below(2))
            plant_faults();
        else
            clear_plans();
        switch (stagers[i] ? random_below(8) : 7) {
        case 0:
        case 1:
        case 2:
        case 3:
            r = dlo_stager_load(stagers[i], compute);
            break;
        case 4:
        case 5:
        case 6:
            r = dlo_stager_offload(stagers[i], compute, NULL);
            break;
        default:
            dlo_stager_free(stagers[i]);
            snprintf(id, sizeof(id), "s%u", i);
            stagers[i] = new_stager(id, DLO_MASTER_COPIED);
            ck_assert_int_eq(
                dlo_stager_add(stagers[i], weights + i, (i + 1) * MIB, 1, &slots[i][0]), 0);
            ck_assert_int_eq(
                dlo_stager_add(stagers[i], weights + i, (i + 1) * MIB, 70, &slots[i][1]), 0);
            ck_assert_int_eq(dlo_stager_add(stagers[i], small_weights, 100 + i, 0, &base), 0);
            ck_assert_int_eq(dlo_stager_seal(stagers[i]), 0);
        }
        failures += r != 0;
        ck_assert_int_ge(r, 0);
        if (r)
            ck_assert_int_eq(dlo_stager_is_loaded(stagers[i]), 0);
        ck_assert_int_eq((char *)slots[i][1] - (char *)slots[i][0], 69);
        if (!dlo_stager_is_loaded(stagers[i]))
            ck_assert_int_eq(*(unsigned char *)slots[i][1], weights[i + 70]);
    }
    clear_plans();
    ck_assert_uint_gt(failures, (uint64_t)atol(steps) / 20);
    for (unsigned int i = 0; i < STAGERS; i++)
        dlo_stager_free(stagers[i]);
    ck_assert_uint_eq(used(dlo_cache_pool(cache)), 0);
    ck_assert_int_eq(dlo_cache_boundary(cache, NULL, DLO_FORCE_OPERATOR, NULL), 0);
    ck_assert_uint_eq(reserved(dlo_cache_pool(cache)), 0);
    ck_assert_uint_eq(free_bytes(), before);
    ck_assert_uint_eq(info_of(client).stager_count, 1);
    stop();
}
END_TEST

static void add_cases(TCase *tcase)
{
    tcase_add_test(tcase, random_operations_leak_nothing);
}

int main(int argc, char **argv)
{
    return harness_main(argc, argv, "stager random", add_cases);
}
