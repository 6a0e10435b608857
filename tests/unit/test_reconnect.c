/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/reconnect.h"

#include <check.h>
#include <stdlib.h>

#define MS  1000000ull
#define S   1000000000ull
#define NOW (1000 * S)

static struct reconnect r;

static void start(void)
{
    reconnect_init(&r, 42);
}

/* Fails the attempt that is due at now, and returns the pause that follows. */
static uint64_t fail_once(uint64_t now, enum cause why)
{
    ck_assert_int_eq(reconnect_poll(&r, now), RECONNECT_CONNECT);
    reconnect_failed(&r, why, now);
    return r.next_ns - now;
}

static void come_up(uint64_t now)
{
    ck_assert_int_eq(reconnect_poll(&r, now), RECONNECT_CONNECT);
    ck_assert_int_eq(reconnect_poll(&r, now), RECONNECT_CONTINUE);
    reconnect_synced(&r);
}

START_TEST(first_connect_is_due_at_once)
{
    ck_assert_int_eq(r.state, RECONNECT_DOWN);
    ck_assert_int_eq(r.cause, CAUSE_NO_DAEMON);
    ck_assert_int_eq(reconnect_poll(&r, 0), RECONNECT_CONNECT);
    ck_assert_int_eq(r.state, RECONNECT_HANDSHAKE);
}
END_TEST

START_TEST(pauses_double_from_100_ms_to_30_s_with_jitter_of_a_half)
{
    uint64_t now = NOW, full = 100 * MS;

    for (int i = 0; i < 14; i++) {
        uint64_t pause = fail_once(now, CAUSE_NO_DAEMON);

        ck_assert_uint_ge(pause, full / 2);
        ck_assert_uint_le(pause, full);
        ck_assert_int_eq(reconnect_poll(&r, now + pause - 1), RECONNECT_WAIT);
        now += pause;
        full = full * 2 < 30 * S ? full * 2 : 30 * S;
    }
}
END_TEST

START_TEST(same_seed_same_pauses_other_seed_other_pauses)
{
    struct reconnect a, b, c;

    reconnect_init(&a, 1);
    reconnect_init(&b, 1);
    reconnect_init(&c, 2);
    reconnect_failed(&a, CAUSE_BROKEN, NOW);
    reconnect_failed(&b, CAUSE_BROKEN, NOW);
    reconnect_failed(&c, CAUSE_BROKEN, NOW);
    ck_assert_uint_eq(a.next_ns, b.next_ns);
    ck_assert_uint_ne(a.next_ns, c.next_ns);
}
END_TEST

START_TEST(success_starts_the_pauses_again)
{
    uint64_t now = NOW, pause;

    for (int i = 0; i < 5; i++)
        now += fail_once(now, CAUSE_NO_DAEMON);
    come_up(now);
    ck_assert_int_eq(reconnect_poll(&r, now + 3600 * S), RECONNECT_USE);
    reconnect_failed(&r, CAUSE_BROKEN, now);
    pause = r.next_ns - now;
    ck_assert_uint_le(pause, 100 * MS);
    ck_assert_uint_eq(r.successes, 1);
}
END_TEST

START_TEST(cause_in_the_pause_says_what_happened)
{
    static const struct {
        enum cause why, shown;
    } rows[] = {
        {CAUSE_NO_DAEMON, CAUSE_NO_DAEMON}, {CAUSE_REFUSED, CAUSE_REFUSED},
        {CAUSE_DEADLINE, CAUSE_BACK_OFF},   {CAUSE_BROKEN, CAUSE_BACK_OFF},
        {CAUSE_BACK_OFF, CAUSE_BACK_OFF},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        start();
        fail_once(NOW, rows[i].why);
        ck_assert_int_eq(r.cause, rows[i].shown);
    }
}
END_TEST

START_TEST(refusal_pauses_longest)
{
    uint64_t pause = fail_once(NOW, CAUSE_REFUSED);

    ck_assert_uint_ge(pause, 15 * S);
    ck_assert_uint_le(pause, 30 * S);
}
END_TEST

START_TEST(silent_handshake_is_given_up_after_10_s)
{
    ck_assert_int_eq(reconnect_poll(&r, NOW), RECONNECT_CONNECT);
    ck_assert_int_eq(reconnect_poll(&r, NOW + 10 * S - 1), RECONNECT_CONTINUE);
    ck_assert_int_eq(reconnect_poll(&r, NOW + 10 * S), RECONNECT_ABANDON);
    ck_assert_int_eq(r.state, RECONNECT_DOWN);
    ck_assert_int_eq(r.cause, CAUSE_BACK_OFF);
    ck_assert_int_eq(reconnect_poll(&r, NOW + 10 * S + 1), RECONNECT_WAIT);
    ck_assert_int_eq(reconnect_poll(&r, NOW + 10 * S + 100 * MS), RECONNECT_CONNECT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reconnect");
    TCase *t = tcase_create("state machine");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, start, NULL);
    tcase_add_test(t, first_connect_is_due_at_once);
    tcase_add_test(t, pauses_double_from_100_ms_to_30_s_with_jitter_of_a_half);
    tcase_add_test(t, same_seed_same_pauses_other_seed_other_pauses);
    tcase_add_test(t, success_starts_the_pauses_again);
    tcase_add_test(t, cause_in_the_pause_says_what_happened);
    tcase_add_test(t, refusal_pauses_longest);
    tcase_add_test(t, silent_handshake_is_given_up_after_10_s);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
