/* SPDX-License-Identifier: Apache-2.0 */
/* R20, R22 to R24: who is asked to make room, and what they who wait are answered. */
#include <stdlib.h>

#include "tests/unit/arbiter_case.h"

/* ---- the published case: A holds 48.6e9 idle, B needs 38.9e9 on 85.0e9 ---- */

START_TEST(an_idle_wait_makes_room)
{
    device(85 * GB);
    join(1, true, 48600000000);
    join(2, true, 0);
    idle(1);
    oom(2, 38900000000);
    ck_assert(arbiter_wants_sample(&arbiter));
    expect("");
    sample();
    expect("ask1");
    ck_assert_uint_eq(last[1].event, 1);
    release(1, 0, 0);
    ck_assert(arbiter_wants_sample(&arbiter)); /* what was promised is not believed */
    expect("");
    sample();
    expect("end2:covered");
    ck_assert_uint_eq(last[2].freed, 48600000000);
    ck_assert_uint_eq(last[2].free.v, 85 * GB);
}
END_TEST

START_TEST(a_dormant_one_is_not_waited_for)
{
    device(85 * GB);
    join(1, true, 48600000000);
    join(2, true, 0);
    ck_assert_int_eq(tenant_readiness(&arbiter, tenant(1)), READINESS_DORMANT);
    oom(2, 38900000000);
    sample();
    expect("end2:nobody");
    ck_assert_uint_eq(last[2].freed, 0);
    ck_assert(!boundary(1, 48600000000, 0));
}
END_TEST

START_TEST(a_busy_one_answers_at_its_boundary)
{
    device(85 * GB);
    join(1, true, 48600000000);
    join(2, false, 0);
    ck_assert(!begin_busy(1, 0));
    oom(2, 38900000000);
    sample();
    expect("");
    pass(1);
    ck_assert(boundary(1, 48600000000, 0));
    expect("");
    report(1, 0, 0);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(a_boundary_without_a_report_is_answered_by_the_next_one)
{
    device(85 * GB);
    join(1, false, 48600000000);
    join(2, false, 0);
    oom(2, 38900000000);
    sample();
    ck_assert(boundary(1, 48600000000, 0));
    ck_assert(!boundary(1, 1 * GB, 0));
    sample();
    expect("end2:covered");
    ck_assert_uint_eq(last[2].freed, 47600000000);
}
END_TEST

START_TEST(what_fits_is_answered_at_once)
{
    device(85 * GB);
    join(1, true, 10 * GB);
    join(2, true, 0);
    idle(1);
    oom(2, 38900000000);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(a_busy_one_that_never_comes_is_waited_for_until_the_deadline)
{
    device(85 * GB);
    join(1, false, 48600000000);
    join(2, false, 0);
    oom(2, 38900000000);
    sample();
    pass(4.9);
    sample();
    expect("");
    ck_assert_uint_eq(arbiter_due(&arbiter), now_ns + ARBITER_S / 10);
    pass(0.1);
    expect("end2:deadline");
    ck_assert(!boundary(1, 48600000000, 0)); /* a request ends with its event */
}
END_TEST

/* ---- the order of candidates (R23) ---- */

START_TEST(the_smallest_that_covers_is_asked)
{
    device(100 * GB);
    join(1, true, 18 * GB);
    join(2, true, 1 * GB);
    join(3, true, 0);
    join(4, false, 71 * GB); /* busy */
    idle(1);
    idle(2);
    oom(3, 10 * GB + GB / 10);
    sample();
    expect("ask2");
}
END_TEST

START_TEST(else_the_largest_and_one_a_round)
{
    device(100 * GB);
    join(1, true, 18 * GB);
    join(2, true, 30 * GB);
    join(3, true, 0);
    idle(1);
    idle(2);
    oom(3, 90 * GB);
    sample();
    expect("ask2");
    release(2, 0, 0);
    expect("");
    sample();
    expect("ask1");
    release(1, 0, 0);
    sample();
    expect("end3:covered");
    ck_assert_uint_eq(last[3].freed, 48 * GB);
}
END_TEST

START_TEST(priority_comes_before_size_and_ties_go_to_the_older)
{
    device(100 * GB);
    join(1, true, 10 * GB);
    join(2, true, 10 * GB);
    join(3, true, 20 * GB);
    join(4, true, 0);
    for (size_t n = 1; n <= 3; n++)
        idle(n);
    state(1)->operator.priority = 5;
    oom(4, 65 * GB); /* 5 are missing: 2 covers, as 3 does */
    sample();
    expect("ask2");
    release(2, 9 * GB, 0);
    sample();
    expect("ask3"); /* lower priority than 1, though larger */
}
END_TEST

START_TEST(ready_ones_come_before_busy_ones)
{
    device(100 * GB);
    join(1, false, 50 * GB);
    join(2, true, 1 * GB);
    join(3, false, 40 * GB);
    join(4, true, 0);
    idle(2);
    oom(4, 30 * GB);
    sample();
    expect("ask2");
    ck_assert(!boundary(1, 50 * GB, 0));
    release(2, 0, 0);
    sample();
    expect("");
    ck_assert(boundary(1, 50 * GB, 0)); /* all busy ones in one round */
    ck_assert(boundary(3, 40 * GB, 0));
}
END_TEST

START_TEST(nothing_below_a_pin)
{
    device(100 * GB);
    join(1, true, 50 * GB);
    join(2, true, 0);
    idle(1);
    state(1)->operator.pin_bytes = opt_u64(10 * GB);
    oom(2, 60 * GB);
    sample();
    expect("end2:nobody"); /* it cannot give a part */
    players[1].policy.choice.partial = true;
    oom(2, 60 * GB);
    sample();
    expect("ask1");
    ck_assert_uint_eq(last[1].bytes, 40 * GB);
}
END_TEST

START_TEST(a_claim_that_frees_nothing_is_not_asked_again)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 20 * GB);
    join(3, true, 0);
    idle(1);
    idle(2);
    oom(3, 70 * GB);
    sample();
    expect("ask1");
    release(1, 60 * GB, 0); /* residue is 60 now */
    sample();
    expect("ask2");
    release(2, 0, 0);
    sample();
    expect("end3:nobody");
    ck_assert_uint_eq(tenant_claim(tenant(1)), 0);
    (void)boundary(3, 0, 0);
    (void)boundary(1, 61 * GB, 0); /* its reserved changed: 1 more than its residue */
    ck_assert_uint_eq(tenant_claim(tenant(1)), 1 * GB);
}
END_TEST

START_TEST(a_refusal_counts_as_nothing_freed)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    idle(1);
    oom(2, 70 * GB);
    sample();
    expect("ask1");
    ck_assert_int_eq(arbiter_reclaimed(&arbiter, tenant(1), calls[1], false, 0, now_ns), 0);
    sample();
    expect("end2:nobody");
    ck_assert_int_eq(arbiter_reclaimed(&arbiter, tenant(1), calls[1], true, 0, now_ns),
                     ERR_BAD_STATE);
}
END_TEST

START_TEST(what_the_worker_says_is_releasable_counts)
{
    struct boundary b = {
        .reserved = opt_u64(60 * GB), .allocated = opt_u64(0), .releasable = opt_u64(2 * GB)};

    device(100 * GB);
    join(1, true, 60 * GB);
    arbiter_boundary(&arbiter, tenant(1), &b, now_ns, &others);
    ck_assert_uint_eq(tenant_claim(tenant(1)), 2 * GB);
    report(1, 59 * GB, 0);
    ck_assert_uint_eq(tenant_claim(tenant(1)), 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("arbiter");
    TCase *c = tcase_create("all");

    tcase_add_test(c, an_idle_wait_makes_room);
    tcase_add_test(c, a_dormant_one_is_not_waited_for);
    tcase_add_test(c, a_busy_one_answers_at_its_boundary);
    tcase_add_test(c, a_boundary_without_a_report_is_answered_by_the_next_one);
    tcase_add_test(c, what_fits_is_answered_at_once);
    tcase_add_test(c, a_busy_one_that_never_comes_is_waited_for_until_the_deadline);
    tcase_add_test(c, the_smallest_that_covers_is_asked);
    tcase_add_test(c, else_the_largest_and_one_a_round);
    tcase_add_test(c, priority_comes_before_size_and_ties_go_to_the_older);
    tcase_add_test(c, ready_ones_come_before_busy_ones);
    tcase_add_test(c, nothing_below_a_pin);
    tcase_add_test(c, a_claim_that_frees_nothing_is_not_asked_again);
    tcase_add_test(c, a_refusal_counts_as_nothing_freed);
    tcase_add_test(c, what_the_worker_says_is_releasable_counts);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
