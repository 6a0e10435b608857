/* SPDX-License-Identifier: Apache-2.0 */
/* R27: who releases all the time, and why. */
#include <check.h>
#include <stdlib.h>

#include "daemon/policy/habit.h"

/* One letter a boundary: r retain, c over the budget, f low free memory, a no allocator, t no
 * device memory, o another reason; ( and ) a bracket. */
static void play(struct habit *h, const char *letters, bool is_bracketed)
{
    bool is_busy = false;

    for (; *letters; letters++) {
        struct answer a = {.would = DECISION_RELEASE};
        struct boundary b = {.reserved = opt_u64(2), .allocated = opt_u64(1)};

        if (*letters == '(' || *letters == ')') {
            is_busy = *letters == '(';
            if (!is_busy)
                habit_bracket_end(h);
            continue;
        }
        switch (*letters) {
        case 'r':
            a.would = DECISION_RETAIN;
            a.reason = REASON_WITHIN_BUDGET;
            break;
        case 'c':
            a.reason = REASON_CACHED_OVER_BUDGET;
            break;
        case 'f':
            a.reason = REASON_LOW_FREE_MEMORY;
            break;
        case 'a':
            b.allocated = opt_none();
            a.reason = REASON_TELEMETRY_UNAVAILABLE;
            break;
        case 't':
            a.reason = REASON_TELEMETRY_UNAVAILABLE;
            break;
        default:
            a.reason = REASON_POLICY_ALWAYS;
        }
        habit_boundary(h, &a, &b, is_bracketed, is_busy);
    }
}

static const struct {
    const char *letters;
    bool is_bracketed;
    enum habit_kind kind;
    enum cure cure;
} rows[] = {
    {"ccccccc", false, HABIT_NONE, CURE_NONE}, /* seven */
    {"cccccccc", false, HABIT_INERT, CURE_CAP},
    {"rcccccccc", false, HABIT_INERT, CURE_CAP},
    {"ccccccccr", false, HABIT_NONE, CURE_NONE},
    {"ffffffff", false, HABIT_INERT, CURE_FLOOR},
    {"aaaaaaaa", false, HABIT_INERT, CURE_ALLOCATOR},
    {"tttttttt", false, HABIT_INERT, CURE_TELEMETRY},
    {"aaaatttt", false, HABIT_NONE, CURE_NONE}, /* not one and the same */
    {"cccccccf", false, HABIT_NONE, CURE_NONE},
    {"oooooooo", false, HABIT_NONE, CURE_NONE}, /* other reasons never count */
    {"(cc)(cc)(cc)(cc)(cc)(cc)(cc)(cc)", true, HABIT_INERT, CURE_CAP},
    {"(cc)(cc)(cc)(cc)(cc)(cc)(cc)(cc", true, HABIT_NONE, CURE_NONE}, /* the eighth still runs */
    {"(cr)(rc)(cr)(rc)(cr)(rrc)(c)(cr)", true, HABIT_FLAPPING, CURE_CAP},
    {"(cf)(rf)(cf)(rf)(f)(rf)(f)(fr)", true, HABIT_FLAPPING, CURE_FLOOR},
    {"(cf)(cf)(cf)(cf)(cf)(cf)(cf)(cf)", true, HABIT_FLAPPING, CURE_CAP},
    {"(cr)(rc)(cr)(rr)(cr)(rc)(cr)(cr)", true, HABIT_NONE, CURE_NONE},
    {"(c)()(c)(c)(c)(c)()(c)(c)(c)", true, HABIT_INERT, CURE_CAP}, /* brackets without a boundary */
    {"(c)r(c)r(c)(c)(c)r(c)(c)(c)", true, HABIT_INERT, CURE_CAP},  /* and boundaries without one */
    {"cccccccc", true, HABIT_NONE, CURE_NONE},
};

START_TEST(kind_and_cure_follow_from_the_last_windows)
{
    struct habit h = {0};

    play(&h, rows[_i].letters, rows[_i].is_bracketed);
    ck_assert_msg(h.kind == rows[_i].kind && h.cure == rows[_i].cure, "%s: %d %d", rows[_i].letters,
                  (int)h.kind, (int)h.cure);
    ck_assert_int_eq(habit_take_news(&h), rows[_i].kind != HABIT_NONE);
    ck_assert(!habit_take_news(&h));
}
END_TEST

START_TEST(each_change_is_news_once)
{
    struct habit h = {0};

    play(&h, "cccccccc", false);
    ck_assert(habit_take_news(&h));
    play(&h, "cccccccc", false);
    ck_assert(!habit_take_news(&h));
    play(&h, "ffffffff", false); /* another reason */
    ck_assert(habit_take_news(&h));
    ck_assert_int_eq(h.cure, CURE_FLOOR);
    play(&h, "r", false);
    ck_assert(!habit_take_news(&h));
    ck_assert_int_eq(h.kind, HABIT_NONE);
    play(&h, "ffffffff", false);
    ck_assert(habit_take_news(&h));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("habit");
    TCase *tcase = tcase_create("habit");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(tcase, kind_and_cure_follow_from_the_last_windows, 0,
                        (int)(sizeof(rows) / sizeof(rows[0])));
    tcase_add_test(tcase, each_change_is_news_once);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
