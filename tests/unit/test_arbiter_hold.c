/* SPDX-License-Identifier: Apache-2.0 */
/* R25: reservations. */
#include <stdlib.h>

#include "tests/unit/arbiter_case.h"

static void reserve(size_t n, uint64_t bytes, double wait, double term)
{
    ck_assert_int_eq(lease(n, LEASE_BYTES, bytes, 0, wait, term), 0);
}

START_TEST(what_fits_is_granted_and_kept)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, false, 20 * GB);
    state(2)->allocated = state(2)->reserved;
    reserve(1, 60 * GB, 2, 120);
    expect("");
    sample();
    expect("end1:covered");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 60 * GB);
    oom(2, 30 * GB); /* 80 are free, 20 beside what is kept */
    sample();
    expect("end2:nobody");
}
END_TEST

START_TEST(room_is_made_for_it)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 70 * GB);
    idle(2);
    reserve(1, 60 * GB, 2, 120);
    sample();
    expect("ask2");
    release(2, 0, 0);
    sample();
    expect("end1:covered");
}
END_TEST

START_TEST(it_waits_and_asks_again_in_a_while)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 70 * GB); /* dormant */
    reserve(1, 60 * GB, 30, 120);
    sample();
    expect("");
    ck_assert_uint_eq(arbiter_due(&arbiter), now_ns + ARBITER_LEASE_REST_NS);
    idle(2);
    expect("");
    pass(1.9);
    sample();
    expect("");
    pass(0.1);
    sample();
    expect("ask2");
    release(2, 0, 0);
    sample();
    expect("end1:covered");
}
END_TEST

START_TEST(it_ends_with_its_wait)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 70 * GB);
    reserve(1, 60 * GB, 3, 120);
    sample();
    pass(2.9);
    sample();
    expect("");
    pass(0.1);
    expect("end1:deadline");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 0);
    ck_assert_uint_eq(arbiter_due(&arbiter), UINT64_MAX);
}
END_TEST

START_TEST(two_never_count_the_same_bytes)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    reserve(1, 60 * GB, 2, 10);
    reserve(2, 60 * GB, 20, 10);
    sample();
    expect("end1:covered");
    pass(5);
    sample();
    expect("");
    pass(5); /* the first term is over */
    sample();
    expect("end2:covered");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 0);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(2)), 60 * GB);
}
END_TEST

START_TEST(an_old_sample_grants_nothing)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    reserve(1, 60 * GB, 2, 1);
    sample();
    expect("end1:covered");
    reserve(2, 60 * GB, 20, 10);
    sample();
    pass(0.9);
    sample();
    pass(0.15); /* the first term is over, and the device may be full again by now */
    expect("");
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(two_who_wait_and_hold_cache_make_room_for_each_other)
{
    device(100 * GB);
    join(1, true, 50 * GB);
    join(2, true, 50 * GB);
    reserve(1, 45 * GB, 5, 120);
    reserve(2, 45 * GB, 5, 120);
    sample();
    expect("ask2 ask1");
    release(2, 0, 0);
    release(1, 0, 0);
    sample();
    expect("end1:covered end2:covered");
}
END_TEST

START_TEST(what_the_holder_takes_is_kept_no_more)
{
    device(100 * GB);
    join(1, true, 5 * GB);
    join(2, true, 0);
    join(3, false, 0);
    tenant(1)->pid = tenant(3)->pid = 77; /* one process, two sessions */
    reserve(1, 60 * GB, 2, 120);
    sample();
    expect("end1:covered");
    (void)boundary(1, 25 * GB, 25 * GB);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 40 * GB);
    (void)boundary(3, 30 * GB, 30 * GB);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 10 * GB);
    (void)boundary(3, 45 * GB, 45 * GB);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 0);
}
END_TEST

START_TEST(giving_it_up_lets_the_next_one_in)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    reserve(1, 60 * GB, 2, 120);
    sample();
    expect("end1:covered");
    reserve(2, 60 * GB, 20, 120);
    sample();
    expect("");
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_BYTES, now_ns), 0);
    ck_assert_int_eq(arbiter_unlease(&arbiter, tenant(1), LEASE_BYTES, now_ns), ERR_BAD_STATE);
    pass(2);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(a_dead_holder_keeps_nothing)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    reserve(1, 60 * GB, 2, 120);
    sample();
    expect("end1:covered");
    arbiter_remove(&arbiter, tenant(1), now_ns);
    reserve(2, 60 * GB, 20, 120);
    sample();
    expect("end2:covered");
}
END_TEST

START_TEST(asking_again_replaces)
{
    device(100 * GB);
    join(1, true, 0);
    reserve(1, 60 * GB, 2, 120);
    sample();
    expect("end1:covered");
    reserve(1, 90 * GB, 2, 120); /* its own does not stand in its way */
    sample();
    expect("end1:covered");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 90 * GB);
    pass(119);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 90 * GB);
    pass(1);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 0);
}
END_TEST

START_TEST(asking_again_for_no_more_renews_at_once)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 90 * GB);
    reserve(1, 10 * GB, 2, 120);
    sample();
    expect("end1:covered");
    (void)boundary(1, 4 * GB, 4 * GB);
    pass(100);
    reserve(1, 10 * GB, 2, 120); /* what it took meanwhile it did not take twice */
    expect("end1:covered");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 6 * GB);
    pass(119);
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 6 * GB);
}
END_TEST

START_TEST(who_would_map_it_again_is_not_asked_for_a_reservation)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 60 * GB);
    ck_assert(!begin_busy(2, 0));
    ck_assert_int_eq(end_busy(2, 0), REASON_NONE);
    idle(2);
    reserve(1, 50 * GB, 2, 120);
    sample();
    expect("");
    pass(2);
    expect("end1:deadline");
    oom(1, 50 * GB); /* a load that has failed is another matter */
    sample();
    expect("ask2");
}
END_TEST

START_TEST(what_active_sessions_map_again_fits_beside_it)
{
    device(100 * GB);
    join(1, true, 0);
    join(2, true, 0);
    ck_assert(!begin_busy(2, 50 * GB)); /* no sample yet */
    reserve(1, 60 * GB, 2, 120);
    sample();
    expect("");
    pass(2);
    expect("end1:deadline");
    reserve(1, 50 * GB, 2, 120);
    sample();
    expect("end1:covered");
}
END_TEST

START_TEST(nothing_is_granted_until_sessions_had_time_to_come_back)
{
    device(100 * GB);
    join(1, true, 0);
    arbiter.resumes_ns = now_ns + 2 * ARBITER_S;
    reserve(1, 60 * GB, 10, 120);
    sample();
    expect("");
    ck_assert_uint_eq(arbiter_due(&arbiter), now_ns + 2 * ARBITER_S);
    pass(1.9);
    sample();
    expect("");
    pass(0.1);
    sample();
    expect("end1:covered");
}
END_TEST

START_TEST(without_a_sample_and_in_shadow_it_is_granted_at_once)
{
    device(100 * GB);
    join(1, true, 0);
    reserve(1, 60 * GB, 10, 120);
    arbiter_sample(&arbiter, NULL, now_ns);
    expect("end1:unverified");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(1)), 60 * GB);
    settings.mode = MODE_SHADOW;
    join(2, true, 0);
    reserve(2, 60 * GB, 10, 120);
    expect("end2:shadow");
    ck_assert_uint_eq(arbiter_held(&arbiter, tenant(2)), 0);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    static const struct {
        enum lease kind;
        uint64_t bytes;
        double quiet, wait, term;
    } rows[] = {
        {LEASE_BYTES, 0, 0, 1, 1},     {LEASE_BYTES, 1, 0, 601, 1}, {LEASE_BYTES, 1, 0, 1, 0},
        {LEASE_BYTES, 1, 0, 1, 86401}, {LEASE_BYTES, 1, 2, 1, 1},   {LEASE_NONE, 0, 0, 1, 1},
        {LEASE_EXCLUSIVE, 1, 0, 1, 1}, {LEASE_SHARED, 0, 1, 1, 1},  {LEASE_SHARED, 0, 0, 1, 0}};

    device(100 * GB);
    join(1, true, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_int_eq(
            lease(1, rows[i].kind, rows[i].bytes, rows[i].quiet, rows[i].wait, rows[i].term),
            ERR_INVALID);
    oom(1, 1);
    ck_assert_int_eq(lease(1, LEASE_BYTES, 1, 0, 1, 1), ERR_BAD_STATE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arbiter_hold");
    TCase *c = tcase_create("all");
    SRunner *runner;
    int failed;

    tcase_add_test(c, what_fits_is_granted_and_kept);
    tcase_add_test(c, room_is_made_for_it);
    tcase_add_test(c, it_waits_and_asks_again_in_a_while);
    tcase_add_test(c, it_ends_with_its_wait);
    tcase_add_test(c, two_never_count_the_same_bytes);
    tcase_add_test(c, an_old_sample_grants_nothing);
    tcase_add_test(c, two_who_wait_and_hold_cache_make_room_for_each_other);
    tcase_add_test(c, what_the_holder_takes_is_kept_no_more);
    tcase_add_test(c, giving_it_up_lets_the_next_one_in);
    tcase_add_test(c, a_dead_holder_keeps_nothing);
    tcase_add_test(c, asking_again_replaces);
    tcase_add_test(c, asking_again_for_no_more_renews_at_once);
    tcase_add_test(c, who_would_map_it_again_is_not_asked_for_a_reservation);
    tcase_add_test(c, what_active_sessions_map_again_fits_beside_it);
    tcase_add_test(c, nothing_is_granted_until_sessions_had_time_to_come_back);
    tcase_add_test(c, without_a_sample_and_in_shadow_it_is_granted_at_once);
    tcase_add_test(c, what_cannot_be_is_refused);
    suite_add_tcase(s, c);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
