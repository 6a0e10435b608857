/* SPDX-License-Identifier: Apache-2.0 */
/* R26: what a release gave back, by report and by sample. */
#include <check.h>
#include <stdlib.h>

#include "daemon/proof.h"

#define SECOND ((uint64_t)1000000000)

static const struct answer released = {.decision = DECISION_RELEASE};
static const struct answer retained = {.decision = DECISION_RETAIN};

static struct boundary holding(uint64_t reserved, uint64_t allocated)
{
    return (struct boundary){.reserved = opt_u64(reserved), .allocated = opt_u64(allocated)};
}

static struct sample sample_of(uint64_t free_bytes, uint64_t age_ns)
{
    return (struct sample){.free = opt_u64(free_bytes), .total = opt_u64(1000), .age_ns = age_ns};
}

START_TEST(a_report_is_compared_with_its_boundary)
{
    const struct boundary b = holding(120, 20);
    struct proof_state p = {0};

    proof_decided(&p, &released, &b, NULL);
    ck_assert(!proof_reported(&p, 50, 20, 700, SECOND));
    ck_assert_uint_eq(p.shown.releases, 1);
    ck_assert_uint_eq(p.shown.cached.v, 100);
    ck_assert_uint_eq(p.shown.freed.v, 70);
    ck_assert_uint_eq(p.shown.residue.v, 30);
    ck_assert_uint_eq(p.shown.bytes, 70);
    ck_assert(!p.shown.sampled.has);
    proof_decided(&p, &released, &b, NULL);
    ck_assert(!proof_reported(&p, 20, 20, UINT64_MAX, 2 * SECOND));
    ck_assert_uint_eq(p.shown.bytes, 170);
    ck_assert_uint_eq(p.shown.us, UINT64_MAX); /* a sum stops there */
    ck_assert_uint_eq(p.shown.last_us, UINT64_MAX);
    ck_assert_uint_eq(p.shown.empty, 0);
}
END_TEST

/* {cached before, given back, nothing} */
START_TEST(less_than_a_twentieth_is_nothing)
{
    static const struct {
        uint64_t cached, freed;
        bool is_empty;
    } rows[] = {{100, 0, true}, {100, 4, true}, {100, 5, false}, {1, 0, true},
                {1, 1, false},  {0, 0, false},  {19, 1, false},  {UINT64_MAX, 7, true}};
    struct proof_state p = {0};
    uint64_t empty = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct boundary b = holding(rows[i].cached, 0);

        proof_decided(&p, &released, &b, NULL);
        ck_assert_int_eq(proof_reported(&p, rows[i].cached - rows[i].freed, 0, 1, SECOND),
                         rows[i].is_empty);
        empty += rows[i].is_empty;
        ck_assert_uint_eq(p.shown.empty, empty);
    }
}
END_TEST

START_TEST(a_forced_release_has_no_boundary_to_compare_with)
{
    const struct boundary before = holding(500, 0), forced = {.force = FORCE_FAILURE};
    struct proof_state p = {0};

    proof_decided(&p, &retained, &before, NULL); /* another boundary: it says nothing of this one */
    proof_decided(&p, &released, &forced, NULL);
    ck_assert(!proof_reported(&p, 500, 0, 5, SECOND));
    ck_assert(!p.shown.freed.has && !p.shown.cached.has);
    ck_assert_uint_eq(p.shown.residue.v, 500);
    ck_assert_uint_eq(p.shown.empty, 0);
    ck_assert_uint_eq(p.shown.releases, 1);
    ck_assert(!proof_reported(&p, 500, 0, 5, SECOND)); /* nor a report of nobody's decision */
    ck_assert(!p.shown.freed.has);
}
END_TEST

START_TEST(the_first_sample_after_the_report_counts)
{
    const struct boundary b = holding(120, 20);
    const struct sample before = sample_of(300, 1), older = sample_of(999, SECOND / 2),
                        none = {.age_ns = 0}, first = sample_of(380, SECOND / 10),
                        second = sample_of(100, 0);
    struct proof_state p = {0};

    proof_decided(&p, &released, &b, &before);
    proof_sampled(&p, &first, SECOND); /* nothing is reported yet */
    ck_assert(!proof_reported(&p, 20, 20, 5, SECOND));
    proof_sampled(&p, &older, SECOND + SECOND / 4); /* taken before the report */
    proof_sampled(&p, &none, SECOND + SECOND / 4);
    ck_assert(!p.shown.sampled.has);
    proof_sampled(&p, &first, SECOND + SECOND / 4);
    ck_assert_uint_eq(p.shown.sampled.v, 80);
    proof_sampled(&p, &second, SECOND + SECOND / 2);
    ck_assert_uint_eq(p.shown.sampled.v, 80);
    /* a decision in between has moved memory again: no sample is a proof then */
    proof_decided(&p, &released, &b, &before);
    ck_assert(!proof_reported(&p, 20, 20, 5, 2 * SECOND));
    proof_decided(&p, &retained, &b, &before);
    proof_sampled(&p, &second, 3 * SECOND);
    ck_assert(!p.shown.sampled.has);
    /* without a sample before it, none after it */
    proof_decided(&p, &released, &b, NULL);
    ck_assert(!proof_reported(&p, 20, 20, 5, 4 * SECOND));
    proof_sampled(&p, &second, 5 * SECOND);
    ck_assert(!p.shown.sampled.has);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proof");
    TCase *tcase = tcase_create("proof");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tcase, a_report_is_compared_with_its_boundary);
    tcase_add_test(tcase, less_than_a_twentieth_is_nothing);
    tcase_add_test(tcase, a_forced_release_has_no_boundary_to_compare_with);
    tcase_add_test(tcase, the_first_sample_after_the_report_counts);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
