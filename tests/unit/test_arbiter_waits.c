/* SPDX-License-Identifier: Apache-2.0 */
/* R23 to R25a: workers that are slow, stopped or dead, and several that wait at once. */
#include <stdlib.h>

#include "tests/unit/arbiter_case.h"

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

START_TEST(what_the_retry_before_took_is_not_said_to_be_there)
{
    device(100 * GB);
    for (size_t n = 1; n <= 3; n++)
        join(n, true, 0);
    for (size_t n = 1; n <= 3; n++)
        oom(n, 50 * GB);
    sample();
    expect("end1:covered"); /* so are the others, until the first has its own */
    (void)boundary(1, 60 * GB, 60 * GB);
    expect("");
    ck_assert(arbiter_wants_sample(&arbiter));
    sample();
    expect("end2:nobody");
    (void)boundary(2, 0, 0);
    sample();
    expect("end3:nobody");
}
END_TEST

START_TEST(who_is_still_in_the_queue_at_its_deadline_is_not_told_that_there_is_room)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    oom(1, 50 * GB);
    oom(2, 50 * GB);
    sample();
    expect("end1:covered");
    now_ns += 6 * ARBITER_S; /* nobody was looking meanwhile, nor at the device */
    arbiter_tick(&arbiter, now_ns);
    expect("end2:deadline");
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
    Suite *s = suite_create("arbiter_waits");
    TCase *c = tcase_create("all");

    tcase_add_test(c, a_stopped_worker_costs_its_deadline_and_comes_last);
    tcase_add_test(c, a_slow_release_has_the_time_that_it_has_shown);
    tcase_add_test(c, a_dead_workers_bytes_are_waited_for);
    tcase_add_test(c, a_dead_workers_bytes_that_never_return_end_with_nobody);
    tcase_add_test(c, a_candidate_that_dies_is_an_answer);
    tcase_add_test(c, one_who_waits_and_dies_leaves_nothing);
    tcase_add_test(c, retries_are_granted_one_at_a_time);
    tcase_add_test(c, a_grant_that_is_not_used_ends_by_itself);
    tcase_add_test(c, what_is_freed_for_one_is_not_promised_to_another);
    tcase_add_test(c, what_the_retry_before_took_is_not_said_to_be_there);
    tcase_add_test(c, who_is_still_in_the_queue_at_its_deadline_is_not_told_that_there_is_room);
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
