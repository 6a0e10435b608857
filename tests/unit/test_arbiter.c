/* SPDX-License-Identifier: Apache-2.0 */
/* R20 to R24a: who is asked to make room, and what they who wait are answered. */
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
    state(1)->priority = 5;
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
    state(1)->pin_bytes = opt_u64(10 * GB);
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
    struct others others;

    device(100 * GB);
    join(1, true, 60 * GB);
    arbiter_boundary(&arbiter, tenant(1), &b, now_ns, &others);
    ck_assert_uint_eq(tenant_claim(tenant(1)), 2 * GB);
    report(1, 59 * GB, 0);
    ck_assert_uint_eq(tenant_claim(tenant(1)), 0);
}
END_TEST

/* ---- misses, deaths ---- */

START_TEST(a_stopped_worker_costs_its_deadline_and_comes_last)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 20 * GB);
    join(3, true, 0);
    idle(1);
    idle(2);
    oom(3, 30 * GB);
    sample();
    expect("ask2"); /* covers: 20 are free */
    pass(2);
    sample();
    expect("ask1");
    release(1, 0, 0);
    sample();
    expect("end3:covered");
    (void)boundary(3, 0, 0);
    (void)boundary(1, 60 * GB, 0);
    oom(3, 30 * GB);
    sample();
    expect("ask1"); /* though it is the larger */
}
END_TEST

START_TEST(a_slow_release_has_the_time_that_it_has_shown)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    idle(1);
    policy_released(&players[1].policy, 0, 0);
    arbiter_reported(&arbiter, tenant(1), true, 3000000, now_ns); /* 3 s */
    (void)boundary(1, 60 * GB, 0);
    oom(2, 70 * GB);
    sample();
    expect("ask1 held2"); /* longer than the 5 s of oom: the client is told */
    ck_assert_uint_eq(last[1].timeout_ns, 12 * ARBITER_S);
    ck_assert_uint_eq(last[2].timeout_ns, 12 * ARBITER_S + ARBITER_S / 5);
    pass(11.9);
    expect("");
    sample();
    release(1, 0, 0);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(a_dead_workers_bytes_are_waited_for)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    sample();
    arbiter_remove(&arbiter, tenant(1), now_ns);
    dead_bytes = 60 * GB;
    state(1)->reserved = opt_none();
    oom(2, 70 * GB);
    sample();
    expect("held2");
    ck_assert_uint_eq(last[2].timeout_ns, 20 * ARBITER_S);
    for (int i = 0; i < 8; i++) {
        pass(0.5);
        sample();
        expect("");
    }
    dead_bytes = 0;
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(a_dead_workers_bytes_that_never_return_end_with_nobody)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    sample();
    arbiter_remove(&arbiter, tenant(1), now_ns);
    dead_bytes = 60 * GB;
    state(1)->reserved = opt_none();
    oom(2, 70 * GB);
    sample();
    expect("held2");
    pass(19.9);
    sample();
    expect("");
    pass(0.2);
    expect("end2:deadline");
}
END_TEST

START_TEST(a_candidate_that_dies_is_an_answer)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    idle(1);
    oom(2, 70 * GB);
    sample();
    expect("ask1");
    arbiter_remove(&arbiter, tenant(1), now_ns);
    state(1)->reserved = opt_none();
    ck_assert(arbiter_wants_sample(&arbiter));
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(one_who_waits_and_dies_leaves_nothing)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, true, 0);
    idle(1);
    oom(2, 70 * GB);
    sample();
    expect("ask1");
    arbiter_remove(&arbiter, tenant(2), now_ns);
    expect("");
    ck_assert_uint_eq(tenant(1)->asked, 0);
    ck_assert_uint_eq(tenant(1)->reclaim.serves, 0);
    ck_assert_uint_eq(arbiter_due(&arbiter), UINT64_MAX);
}
END_TEST

/* ---- several at once (R24) ---- */

START_TEST(retries_are_granted_one_at_a_time)
{
    device(100 * GB);
    join(1, true, 50 * GB);
    join(2, true, 45 * GB);
    oom(1, 10 * GB);
    oom(2, 10 * GB);
    state(1)->allocated = opt_u64(50 * GB);
    state(2)->allocated = opt_u64(45 * GB);
    sample();
    expect("end1:nobody"); /* neither waits for a reclaim; the second for its turn */
    pass(1);
    sample();
    expect("");
    (void)boundary(1, 50 * GB, 50 * GB);
    expect("end2:nobody");
}
END_TEST

START_TEST(a_grant_that_is_not_used_ends_by_itself)
{
    device(100 * GB);
    join(1, false, 50 * GB);
    join(2, false, 45 * GB);
    state(1)->allocated = state(1)->reserved;
    state(2)->allocated = state(2)->reserved;
    oom(1, 10 * GB);
    oom(2, 10 * GB);
    sample();
    expect("end1:nobody");
    ck_assert_uint_eq(arbiter_due(&arbiter), now_ns + ARBITER_GRANT_NS);
    pass(2);
    expect("end2:nobody");
}
END_TEST

START_TEST(what_is_freed_for_one_is_not_promised_to_another)
{
    device(100 * GB);
    join(1, true, 60 * GB);
    join(2, false, 20 * GB);
    join(3, false, 20 * GB);
    state(2)->allocated = state(3)->allocated = opt_u64(20 * GB);
    idle(1);
    oom(2, 50 * GB);
    oom(3, 50 * GB);
    sample();
    expect("ask1"); /* once, for both */
    release(1, 0, 0);
    sample();
    expect("end2:covered");
    (void)boundary(2, 70 * GB, 70 * GB); /* it loaded */
    sample();
    expect("end3:nobody");
    ck_assert_uint_eq(last[2].freed, 60 * GB);
    ck_assert_uint_eq(last[3].freed, 0);
}
END_TEST

START_TEST(two_who_wait_make_room_for_each_other)
{
    device(100 * GB);
    join(1, true, 50 * GB);
    join(2, true, 50 * GB);
    oom(1, 60 * GB); /* both hold cache and wait: each one's call carries out a reclaim */
    oom(2, 20 * GB);
    sample();
    expect("ask2 ask1");
    release(1, 0, 0);
    release(2, 0, 0);
    sample();
    expect("end1:covered");
    (void)boundary(1, 60 * GB, 60 * GB);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(more_events_than_places_are_all_answered)
{
    device(100 * GB);
    for (size_t n = 1; n <= SESSIONS; n++)
        join(n, false, 1 * GB);
    for (size_t n = 1; n <= SESSIONS; n++)
        oom(n, 90 * GB);
    sample();
    drain();
    ck_assert_uint_eq(tenant(ARBITER_EVENTS)->wait.event, ARBITER_EVENTS);
    ck_assert_uint_eq(tenant(ARBITER_EVENTS + 1)->wait.event, 0);
    pass(5);
    drain();
    for (size_t n = 1; n <= SESSIONS; n++) {
        ck_assert_uint_eq(last[n].call != 0 && last[n].kind == ACTION_END, 1);
        ck_assert_int_eq(tenant(n)->wait.kind, WAIT_NONE);
    }
    ck_assert_uint_eq(arbiter_due(&arbiter), UINT64_MAX);
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
    tcase_add_test(c, a_stopped_worker_costs_its_deadline_and_comes_last);
    tcase_add_test(c, a_slow_release_has_the_time_that_it_has_shown);
    tcase_add_test(c, a_dead_workers_bytes_are_waited_for);
    tcase_add_test(c, a_dead_workers_bytes_that_never_return_end_with_nobody);
    tcase_add_test(c, a_candidate_that_dies_is_an_answer);
    tcase_add_test(c, one_who_waits_and_dies_leaves_nothing);
    tcase_add_test(c, retries_are_granted_one_at_a_time);
    tcase_add_test(c, a_grant_that_is_not_used_ends_by_itself);
    tcase_add_test(c, what_is_freed_for_one_is_not_promised_to_another);
    tcase_add_test(c, two_who_wait_make_room_for_each_other);
    tcase_add_test(c, more_events_than_places_are_all_answered);
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
