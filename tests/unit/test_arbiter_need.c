/* SPDX-License-Identifier: Apache-2.0 */
/* R24a: room is made before the work; R30: who takes no part; and what an operator asks for. */
#include <stdlib.h>

#include "tests/unit/arbiter_case.h"

/* ---- announced need (R24a) ---- */

START_TEST(an_announced_need_is_met_before_the_work)
{
    device(85 * GB);
    join(1, true, 48600000000);
    join(2, true, 0);
    idle(1);
    sample();
    ck_assert(begin_busy(2, 38900000000));
    expect("ask1");
    release(1, 0, 0);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(a_begin_waits_no_longer_than_its_deadline)
{
    device(85 * GB);
    join(1, true, 48600000000);
    join(2, true, 0);
    idle(1);
    sample();
    ck_assert(begin_busy(2, 38900000000));
    expect("ask1");
    pass(0.2);
    expect("end2:deadline");
}
END_TEST

START_TEST(a_begin_that_fits_or_that_nobody_can_help_does_not_wait)
{
    device(85 * GB);
    join(1, true, 10 * GB);
    join(2, true, 0);
    idle(1);
    ck_assert(!begin_busy(2, 80 * GB)); /* no sample */
    ck_assert_int_eq(end_busy(2, 80 * GB), REASON_NONE);
    sample();
    ck_assert(!begin_busy(2, 75 * GB));
    ck_assert_int_eq(end_busy(2, 75 * GB), REASON_NONE);
    pass(1.5); /* the sample is too old */
    ck_assert(!begin_busy(2, 80 * GB));
    expect("");
}
END_TEST

START_TEST(who_takes_turns_vacates_at_the_end_of_its_turn)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    sample();
    ck_assert(!begin_busy(1, 80 * GB));
    (void)boundary(1, 80 * GB, 10 * GB);
    sample();
    ck_assert_int_eq(end_busy(1, 0), REASON_NONE); /* nobody else needs anything */
    (void)begin_busy(2, 80 * GB);
    drain();
    did[0] = '\0';
    (void)end_busy(2, 80 * GB);
    ck_assert(!begin_busy(1, 0));
    sample();
    ck_assert_int_eq(end_busy(1, 0), REASON_NEIGHBOUR_NEED);
    ck_assert_uint_eq(state(1)->counts.serving_releases, 1);
    pass(601); /* it was not busy for ten minutes */
    ck_assert(!begin_busy(1, 0));
    sample();
    ck_assert_int_eq(end_busy(1, 0), REASON_NONE);
}
END_TEST

START_TEST(the_end_of_a_bracket_answers_a_reclaim)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, false, 0);
    ck_assert(!begin_busy(1, 0));
    oom(2, 70 * GB);
    sample();
    expect("");
    ck_assert_int_eq(end_busy(1, 0), REASON_RECLAIM);
    report(1, 0, 0);
    sample();
    expect("end2:covered");
}
END_TEST

/* ---- who takes no part ---- */

START_TEST(shadow_asks_nobody_and_is_not_asked)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    idle(1);
    players[1].policy.choice.mode = MODE_SHADOW;
    oom(2, 70 * GB);
    sample();
    expect("end2:nobody");
    players[2].policy.choice.mode = MODE_SHADOW;
    oom(2, 70 * GB);
    expect("end2:shadow");
}
END_TEST

START_TEST(without_a_sample_the_answer_is_at_once_and_unverified)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    idle(1);
    oom(2, 70 * GB);
    expect("");
    arbiter_sample(&arbiter, NULL, now_ns);
    expect("end2:unverified");
}
END_TEST

START_TEST(an_old_reading_that_comes_late_is_none)
{
    struct sample s = {.free = opt_u64(90 * GB), .total = opt_u64(100 * GB), .age_ns = ARBITER_S};

    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    oom(2, 70 * GB);
    arbiter_sample(&arbiter, &s, now_ns); /* taken before the call */
    expect("");
    ck_assert(arbiter_wants_sample(&arbiter));
    sample();
    expect("end2:nobody");
}
END_TEST

START_TEST(a_lone_session_is_never_touched)
{
    device(85 * GB);
    join(1, true, 48600000000);
    sample();
    ck_assert(!begin_busy(1, 30 * GB));
    ck_assert(!boundary(1, 80 * GB, 0));
    ck_assert_int_eq(end_busy(1, 84 * GB), REASON_NONE);
    oom(1, 20 * GB);
    sample();
    expect("end1:nobody");
}
END_TEST

START_TEST(a_background_thread_is_asked_only_outside_brackets)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, false, 60 * GB - 20 * GB);
    ck_assert_int_eq(arbiter_idle(&arbiter, tenant(1), PHASE_BEGIN, true, now_ns), 0);
    ck_assert_int_eq(arbiter_idle(&arbiter, tenant(2), PHASE_BEGIN, true, now_ns), 0);
    ck_assert_int_eq(tenant_readiness(&arbiter, tenant(1)), READINESS_READY);
    ck_assert_int_eq(tenant_readiness(&arbiter, tenant(2)), READINESS_BUSY); /* no brackets */
    ck_assert(!begin_busy(1, 0));
    ck_assert_int_eq(tenant_readiness(&arbiter, tenant(1)), READINESS_BUSY);
    ck_assert_int_eq(arbiter_idle(&arbiter, tenant(1), PHASE_BEGIN, true, now_ns), ERR_BAD_STATE);
    ck_assert_int_eq(arbiter_idle(&arbiter, tenant(1), PHASE_END, false, now_ns), ERR_BAD_STATE);
}
END_TEST

/* ---- an operator ---- */

START_TEST(an_operator_has_caches_released)
{
    device(100 * GB);
    join(1, true, 30 * GB);
    join(2, false, 30 * GB);
    join(3, true, 30 * GB); /* dormant */
    arbiter_add(&arbiter, tenant(9), NULL, 9);
    idle(1);
    ck_assert_int_eq(arbiter_operator(&arbiter, tenant(9), UINT64_MAX, 0, true, 1, now_ns), 0);
    sample();
    expect("ask1");
    release(1, 0, 0);
    sample();
    expect("end9:nobody");
    ck_assert_uint_eq(last[9].freed, 30 * GB);
    ck_assert_int_eq(arbiter_operator(&arbiter, tenant(9), UINT64_MAX, 2, false, 2, now_ns), 0);
    sample();
    ck_assert(!boundary(1, 10 * GB, 0));
    ck_assert(boundary(2, 30 * GB, 0));
    report(2, 0, 0);
    sample();
    expect("end9:nobody");
    ck_assert_int_eq(arbiter_operator(&arbiter, tenant(9), UINT64_MAX, 3, false, 3, now_ns), 0);
    sample();
    expect("end9:nobody");
    ck_assert_uint_eq(last[9].freed, 0);
    ck_assert_int_eq(arbiter_operator(&arbiter, tenant(9), UINT64_MAX, 77, false, 4, now_ns),
                     ERR_UNKNOWN_SESSION);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("arbiter_need");
    TCase *c = tcase_create("all");

    tcase_add_test(c, an_announced_need_is_met_before_the_work);
    tcase_add_test(c, a_begin_waits_no_longer_than_its_deadline);
    tcase_add_test(c, a_begin_that_fits_or_that_nobody_can_help_does_not_wait);
    tcase_add_test(c, who_takes_turns_vacates_at_the_end_of_its_turn);
    tcase_add_test(c, the_end_of_a_bracket_answers_a_reclaim);
    tcase_add_test(c, shadow_asks_nobody_and_is_not_asked);
    tcase_add_test(c, without_a_sample_the_answer_is_at_once_and_unverified);
    tcase_add_test(c, an_old_reading_that_comes_late_is_none);
    tcase_add_test(c, a_lone_session_is_never_touched);
    tcase_add_test(c, a_background_thread_is_asked_only_outside_brackets);
    tcase_add_test(c, an_operator_has_caches_released);
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
