/* SPDX-License-Identifier: Apache-2.0 */
/* R25: leases, quiet, and that memory comes to rest before it. */
#include <stdlib.h>

#include "tests/unit/arbiter_case.h"

static void shared(size_t n)
{
    ck_assert_int_eq(lease(n, LEASE_SHARED, 0, 0, 20, 120), 0);
}

static void exclusive(size_t n)
{
    ck_assert_int_eq(lease(n, LEASE_EXCLUSIVE, 0, 0, 100, 120), 0);
}

/* A reservation that is quiet for its whole term. */
static void quietly(size_t n, uint64_t bytes)
{
    ck_assert_int_eq(lease(n, LEASE_BYTES, bytes, 120, 100, 120), 0);
}

/* Samples a quarter of a second apart, as the daemon takes them. */
static void rest_for(double seconds)
{
    for (double at = 0; at < seconds; at += 0.25) {
        pass(0.25);
        sample();
    }
}

/* A request from begin to end, with so much held at its boundary; true where it was told to
 * release there, and did. */
static bool serve(size_t n, uint64_t bytes)
{
    bool is_told;

    ck_assert(!begin_busy(n, 0));
    is_told = boundary(n, bytes, 0);
    if (is_told) {
        arbiter_told(&arbiter, tenant(n), now_ns);
        report(n, 0, 0);
    }
    (void)end_busy(n, 0);
    return is_told;
}

/* ---- who may have what beside whom ---- */

START_TEST(shared_leases_are_granted_at_once_beside_each_other)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    shared(1);
    expect("end1:covered");
    shared(2);
    expect("end2:covered");
    ck_assert_int_eq(arbiter_leased(&arbiter, tenant(1)), LEASE_SHARED);
    ck_assert(!arbiter_is_quiet(&arbiter, tenant(1)));
    pass(120);
    ck_assert_int_eq(arbiter_leased(&arbiter, tenant(1)), LEASE_NONE);
}
END_TEST

START_TEST(nothing_overtakes_a_waiting_exclusive_lease)
{
    device(100 * GB);
    for (size_t n = 1; n <= 4; n++)
        join(n, true, 0);
    shared(1);
    expect("end1:covered");
    exclusive(2);
    sample();
    shared(3);
    ck_assert_int_eq(lease(4, LEASE_BYTES, 10 * GB, 0, 100, 120), 0);
    rest_for(1);
    expect("");
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_SHARED, now_ns), 0);
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_SHARED, now_ns), ERR_BAD_STATE);
    rest_for(1);
    expect("end2:covered");
    ck_assert(arbiter_is_quiet(&arbiter, tenant(2)));
    rest_for(2);
    expect(""); /* now it is in force */
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(2), LEASE_EXCLUSIVE, now_ns), 0);
    sample();
    expect("end3:covered end4:covered");
}
END_TEST

START_TEST(quiet_holders_exclude_each_other)
{
    device(100 * GB);
    for (size_t n = 1; n <= 4; n++)
        join(n, true, 0);
    quietly(1, 20 * GB);
    sample();
    rest_for(0.25);
    expect("end1:covered");
    quietly(2, 20 * GB);
    exclusive(3);
    ck_assert_int_eq(lease(4, LEASE_BYTES, 10 * GB, 0, 100, 120), 0); /* not quiet itself */
    rest_for(3);
    expect("");
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_BYTES, now_ns), 0);
    rest_for(3);
    expect("end2:covered");
    arbiter_remove(&arbiter, tenant(2), now_ns);
    rest_for(3);
    expect("end3:covered");
    pass(95); /* until the wait of 4 is over, which quiet has kept out */
    expect("end4:deadline");
}
END_TEST

START_TEST(quiet_ends_with_its_time)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 30 * GB);
    ck_assert_int_eq(lease(1, LEASE_BYTES, 20 * GB, 3, 2, 120), 0);
    sample();
    rest_for(0.25);
    expect("end1:covered");
    ck_assert(arbiter_is_quiet(&arbiter, tenant(1)));
    pass(3);
    ck_assert(!arbiter_is_quiet(&arbiter, tenant(1)));
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 20 * GB);
}
END_TEST

START_TEST(who_has_it_renews_it_at_once)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    exclusive(1);
    sample();
    rest_for(0.25);
    expect("end1:covered");
    exclusive(2);
    pass(119);
    exclusive(1);
    expect("end2:deadline end1:covered");
    pass(119);
    ck_assert_int_eq(arbiter_leased(&arbiter, tenant(1)), LEASE_EXCLUSIVE);
    pass(1);
    ck_assert_int_eq(arbiter_leased(&arbiter, tenant(1)), LEASE_NONE);
}
END_TEST

START_TEST(exclusive_waits_for_those_who_come_back)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    arbiter.resumes_ns = now_ns + 2 * ARBITER_S;
    exclusive(1);
    shared(2); /* came later */
    sample();
    rest_for(1.75);
    expect("");
    rest_for(0.75);
    expect("end1:covered");
}
END_TEST

START_TEST(without_a_sample_it_is_granted_unverified)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    exclusive(1);
    arbiter_sample(&arbiter, NULL, now_ns);
    expect("end1:unverified");
    ck_assert(arbiter_is_quiet(&arbiter, tenant(1)));
    exclusive(2);
    arbiter_sample(&arbiter, NULL, now_ns);
    quietly(3, 10 * GB);
    expect("");
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_EXCLUSIVE, now_ns), 0);
    expect("end2:unverified");
}
END_TEST

/* ---- what quiet does ---- */

START_TEST(in_a_quiet_time_nobody_is_asked_and_nobody_releases)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, false, 40 * GB);
    join(3, true, 40 * GB);
    idle(3);
    exclusive(1);
    sample();
    rest_for(0.25);
    expect("end1:covered");
    oom(2, 50 * GB);
    sample();
    expect(""); /* 3 could: it is waited for */
    ck_assert(!boundary(2, 40 * GB, 0));
    ck_assert(others.quiet);
    (void)boundary(1, 0, 0); /* its own are as ever */
    ck_assert(!others.quiet);
    pass(1);
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_EXCLUSIVE, now_ns), 0);
    sample();
    expect("ask3");
}
END_TEST

START_TEST(without_anybody_to_ask_a_failed_load_does_not_wait_for_quiet_to_end)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 40 * GB);
    state(2)->allocated = state(2)->reserved;
    join(3, true, 40 * GB); /* dormant */
    exclusive(1);
    sample();
    rest_for(0.25);
    expect("end1:covered");
    oom(2, 50 * GB);
    sample();
    expect("end2:nobody");
}
END_TEST

START_TEST(with_next_to_nothing_free_it_releases_all_the_same)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, false, 40 * GB);
    exclusive(1);
    sample();
    rest_for(0.25);
    expect("end1:covered");
    state(1)->reserved = opt_u64(60 * GB - GB / 2);
    sample();
    (void)boundary(2, 40 * GB, 0);
    ck_assert(others.quiet); /* 0.5 is the reserve */
    state(1)->reserved.v++;
    sample();
    (void)boundary(2, 40 * GB, 0);
    ck_assert(!others.quiet);
}
END_TEST

START_TEST(the_end_of_a_request_is_quiet_too)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 60 * GB);
    join(3, true, 0);
    sample();
    ck_assert(begin_busy(3, 50 * GB)); /* nobody makes it */
    expect("end3:nobody");
    (void)end_busy(3, 50 * GB);
    ck_assert(!begin_busy(2, 0));
    exclusive(1);
    sample();
    pass(61); /* nobody has reported lately */
    rest_for(0.5);
    expect("end1:covered");
    ck_assert_int_eq(end_busy(2, 0), REASON_NONE);
    ck_assert(others.quiet);
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_EXCLUSIVE, now_ns), 0);
    sample();
    ck_assert(!begin_busy(2, 0));
    ck_assert_int_eq(end_busy(2, 0), REASON_NEIGHBOUR_NEED);
}
END_TEST

/* ---- coming to rest ---- */

START_TEST(an_active_worker_has_to_hold_what_it_will_hold)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    (void)serve(2, 50 * GB);
    policy_released(&players[2].policy, 0, 0);
    arbiter_reported(&arbiter, tenant(2), true, 1000, now_ns); /* for a reason of its own */
    exclusive(1);
    sample();
    rest_for(2);
    expect("");
    ck_assert(arbiter.settling.by == tenant(1));
    ck_assert(!serve(2, 50 * GB)); /* told quiet, it keeps it */
    ck_assert(others.quiet);
    sample();
    expect("");
    rest_for(0.5);
    expect("end1:covered");
}
END_TEST

START_TEST(a_release_in_flight_is_waited_for)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, false, 50 * GB);
    state(2)->allocated = state(2)->reserved;
    (void)boundary(2, 50 * GB, 0);
    arbiter_told(&arbiter, tenant(2), now_ns);
    exclusive(1);
    sample();
    rest_for(19);
    expect("");
    rest_for(1.5); /* it has died on the way, or does not report */
    expect("end1:covered");
}
END_TEST

START_TEST(memory_that_moves_is_not_at_rest)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    exclusive(1);
    for (uint64_t gb = 1; gb < 20; gb++) {
        state(2)->reserved = opt_u64(gb * GB); /* not by its reports */
        sample();
        pass(0.25);
        expect("");
    }
    sample();
    rest_for(0.25);
    expect("end1:covered");
}
END_TEST

START_TEST(two_samples_close_to_each_other_say_nothing)
{
    device(100 * GB);
    join(1, true, 0);
    exclusive(1);
    sample();
    for (int i = 0; i < 4; i++) {
        pass(0.05);
        sample();
        expect("");
    }
    ck_assert(!arbiter_wants_sample(&arbiter));
    pass(0.05);
    ck_assert(arbiter_wants_sample(&arbiter));
    sample();
    expect("end1:covered");
}
END_TEST

START_TEST(settling_in_vain_rests)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    (void)serve(2, 50 * GB);
    (void)serve(2, 0); /* it holds less than it did, and reports all the time */
    exclusive(1);
    sample();
    for (int i = 0; i < 29; i++) {
        rest_for(1);
        if (i % 4 == 0) { /* its largest is still among its last reports */
            (void)serve(2, 0);
            ck_assert(others.quiet);
        }
    }
    rest_for(1);
    expect("");
    ck_assert(arbiter.settling.by == NULL);
    for (int i = 0; i < 29; i++) {
        rest_for(1);
        if (i % 8 == 0) {
            (void)serve(2, 0);
            ck_assert(!others.quiet);
        }
    }
    rest_for(1);
    (void)serve(2, 50 * GB);
    ck_assert(others.quiet);
    rest_for(0.5);
    expect("end1:covered");
}
END_TEST

START_TEST(a_load_that_failed_is_helped_while_the_device_settles)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 70 * GB);
    join(3, true, 0);
    join(4, true, 0);
    idle(2);
    (void)serve(4, 20 * GB);
    (void)serve(4, 0);
    exclusive(1);
    sample();
    rest_for(1);
    expect("");
    oom(3, 60 * GB);
    sample();
    expect("ask2");
    release(2, 0, 0);
    sample();
    expect("end3:covered");
    ck_assert_int_eq(lease(2, LEASE_BYTES, 95 * GB, 0, 1, 1), 0); /* that one is not */
    rest_for(1);
    expect("end2:deadline");
}
END_TEST

START_TEST(a_reservation_makes_room_first_and_then_comes_to_rest)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 70 * GB);
    idle(2);
    quietly(1, 60 * GB);
    sample();
    expect("ask2");
    release(2, 0, 0);
    sample();
    expect("");
    rest_for(0.25);
    expect("end1:covered");
}
END_TEST

START_TEST(the_bytes_of_the_dead_come_back_first)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 60 * GB);
    sample();
    dead_bytes = 60 * GB;
    arbiter_remove(&arbiter, tenant(2), now_ns);
    state(2)->reserved = opt_u64(0);
    exclusive(1);
    rest_for(4);
    expect("");
    dead_bytes = 0;
    sample();
    rest_for(0.5);
    expect("end1:covered");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("arbiter_lease");
    TCase *c = tcase_create("all");

    tcase_add_test(c, shared_leases_are_granted_at_once_beside_each_other);
    tcase_add_test(c, nothing_overtakes_a_waiting_exclusive_lease);
    tcase_add_test(c, quiet_holders_exclude_each_other);
    tcase_add_test(c, quiet_ends_with_its_time);
    tcase_add_test(c, who_has_it_renews_it_at_once);
    tcase_add_test(c, exclusive_waits_for_those_who_come_back);
    tcase_add_test(c, without_a_sample_it_is_granted_unverified);
    tcase_add_test(c, in_a_quiet_time_nobody_is_asked_and_nobody_releases);
    tcase_add_test(c, without_anybody_to_ask_a_failed_load_does_not_wait_for_quiet_to_end);
    tcase_add_test(c, with_next_to_nothing_free_it_releases_all_the_same);
    tcase_add_test(c, the_end_of_a_request_is_quiet_too);
    tcase_add_test(c, an_active_worker_has_to_hold_what_it_will_hold);
    tcase_add_test(c, a_release_in_flight_is_waited_for);
    tcase_add_test(c, memory_that_moves_is_not_at_rest);
    tcase_add_test(c, two_samples_close_to_each_other_say_nothing);
    tcase_add_test(c, settling_in_vain_rests);
    tcase_add_test(c, a_load_that_failed_is_helped_while_the_device_settles);
    tcase_add_test(c, a_reservation_makes_room_first_and_then_comes_to_rest);
    tcase_add_test(c, the_bytes_of_the_dead_come_back_first);
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
