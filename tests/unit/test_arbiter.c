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
