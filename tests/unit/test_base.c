/* SPDX-License-Identifier: Apache-2.0 */
/* The bottom layer: numbers as text in every locale, checked bytes, names, words. */
#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/name.h"
#include "proto/base/parse.h"
#include "proto/base/terms.h"

enum kind { U64, SIZE, DURATION, SECONDS };

static const struct {
    enum kind kind;
    const char *text;
    int error;
    uint64_t value;
} numbers[] = {
    {U64, "0", 0, 0},
    {U64, "18446744073709551615", 0, UINT64_MAX},
    {U64, "18446744073709551616", ERR_OVERFLOW, 0},
    {U64, "99999999999999999999999", ERR_OVERFLOW, 0},
    {U64, "", ERR_INVALID, 0},
    {U64, "-1", ERR_INVALID, 0},
    {U64, "+1", ERR_INVALID, 0},
    {U64, " 1", ERR_INVALID, 0},
    {U64, "1 ", ERR_INVALID, 0},
    {U64, "0x10", ERR_INVALID, 0},
    {SIZE, "64M", 0, 64ull << 20},
    {SIZE, "64MiB", 0, 64ull << 20},
    {SIZE, "64MB", 0, 64000000},
    {SIZE, "20GB", 0, 20000000000ull},
    {SIZE, "1000", 0, 1000},
    {SIZE, "16777215T", 0, 16777215ull << 40},
    {SIZE, "16777216T", ERR_OVERFLOW, 0},
    {SIZE, "64m", ERR_INVALID, 0},
    {SIZE, "1.5G", ERR_INVALID, 0},
    {SIZE, "M", ERR_INVALID, 0},
    {SIZE, "1 M", ERR_INVALID, 0},
    {DURATION, "0", 0, 0},
    {DURATION, "50ms", 0, 50000000},
    {DURATION, "2s", 0, 2000000000},
    {DURATION, "1h", 0, 3600000000000},
    {DURATION, "3min", 0, 180000000000},
    {DURATION, "7", ERR_INVALID, 0},
    {DURATION, "5124095577h", ERR_OVERFLOW, 0},
    {SECONDS, "0", 0, 0},
    {SECONDS, "12.000000001", 0, 12000000001},
    {SECONDS, "0.5", 0, 500000000},
    {SECONDS, "18446744073.709551615", 0, UINT64_MAX},
    {SECONDS, "18446744073.709551616", ERR_OVERFLOW, 0},
    {SECONDS, "1.", ERR_INVALID, 0},
    {SECONDS, "1.0000000001", ERR_INVALID, 0},
    {SECONDS, "1,5", ERR_INVALID, 0},
};

START_TEST(a_number_is_the_whole_text_or_an_error)
{
    static int (*const parsers[])(const char *, uint64_t *) = {parse_u64, parse_size,
                                                               parse_duration, parse_seconds};
    uint64_t value = 77;
    int r = parsers[numbers[_i].kind](numbers[_i].text, &value);

    ck_assert_msg(r == numbers[_i].error, "%s: %d", numbers[_i].text, r);
    ck_assert_uint_eq(value, r < 0 ? 77 : numbers[_i].value); /* written on success alone */
}
END_TEST

START_TEST(numbers_read_back_as_they_were_printed)
{
    static const uint64_t values[] = {0,          1,          9,          10,          999,
                                      1000,       1024,       1000000,    50000000,    999999999,
                                      1000000000, 1000000001, 1500000000, 64ull << 20, UINT64_MAX};
    char text[PARSE_TEXT_MAX], want[PARSE_TEXT_MAX];
    uint64_t back;

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        snprintf(want, sizeof(want), "%llu", (unsigned long long)values[i]);
        ck_assert_uint_eq(format_u64(values[i], text), strlen(want));
        ck_assert_str_eq(text, want);
        format_seconds(values[i], text);
        ck_assert_int_eq(parse_seconds(text, &back), 0);
        ck_assert_uint_eq(back, values[i]);
        format_size(values[i], text);
        ck_assert_int_eq(parse_size(text, &back), 0);
        ck_assert_uint_eq(back, values[i]);
        format_duration(values[i], text);
        ck_assert_int_eq(parse_duration(text, &back), 0);
        ck_assert_uint_eq(back, values[i]);
    }
}
END_TEST

START_TEST(people_read_decimal_units_rounded_down)
{
    char text[PARSE_TEXT_MAX];

    format_human(999, text);
    ck_assert_str_eq(text, "999 B");
    format_human(1000, text);
    ck_assert_str_eq(text, "1.00 kB");
    format_human(17959999999u, text);
    ck_assert_str_eq(text, "17.95 GB");
    format_human(UINT64_MAX, text);
    ck_assert_str_eq(text, "18.44 EB");
}
END_TEST

/* The library lives in programs that set a locale with a comma. */
START_TEST(doubles_have_a_point_in_every_locale)
{
    static const double values[] = {0.05, 0.25, 1.25, 1.0 / 3, 0.1 + 0.2, 1e-300, 0};
    char text[PARSE_TEXT_MAX];
    double back;

    if (!setlocale(LC_ALL, "de_DE.UTF-8"))
        printf("SKIP the comma: no locale de_DE.UTF-8 here\n");
    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        format_double(values[i], text);
        ck_assert_ptr_null(strchr(text, ','));
        ck_assert_int_eq(parse_double(text, &back), 0);
        ck_assert(memcmp(&back, &values[i], sizeof(back)) == 0);
    }
    ck_assert_int_eq(parse_double("0,05", &back), ERR_INVALID);
    ck_assert_int_eq(parse_double("nan", &back), ERR_INVALID);
    ck_assert_int_eq(parse_double("inf", &back), ERR_INVALID);
    ck_assert_int_eq(parse_double("0x1p3", &back), ERR_INVALID);
    ck_assert_int_eq(parse_double("1e999", &back), ERR_OVERFLOW);
    ck_assert_int_eq(parse_double("", &back), ERR_INVALID);
    ck_assert_int_eq(parse_double("1.2.3", &back), ERR_INVALID);
}
END_TEST

START_TEST(signs_and_truths)
{
    int64_t i;
    bool b;

    ck_assert_int_eq(parse_i64("-100", &i), 0);
    ck_assert_int_eq(i, -100);
    ck_assert_int_eq(parse_i64("9223372036854775808", &i), ERR_OVERFLOW);
    ck_assert_int_eq(parse_i64("--1", &i), ERR_INVALID);
    ck_assert_int_eq(parse_bool("yes", &b), 0);
    ck_assert(b);
    ck_assert_int_eq(parse_bool("0", &b), 0);
    ck_assert(!b);
    ck_assert_int_eq(parse_bool("maybe", &b), ERR_INVALID);
}
END_TEST

START_TEST(bytes_never_wrap)
{
    uint64_t sum = 5;

    ck_assert(!bytes_add(UINT64_MAX, 1, &sum));
    ck_assert_uint_eq(sum, 5);
    ck_assert(bytes_add(UINT64_MAX - 1, 1, &sum));
    ck_assert_uint_eq(sum, UINT64_MAX);
    ck_assert_uint_eq(bytes_add_sat(UINT64_MAX, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(bytes_sub_sat(3, 4), 0);
    ck_assert_uint_eq(bytes_sub_sat(4, 3), 1);
}
END_TEST

START_TEST(names_are_bounded_and_plain)
{
    char out[LIMIT_NAME_SIZE], longest[LIMIT_NAME_SIZE + 8];

    memset(longest, 'a', sizeof(longest));
    ck_assert(name_valid("a", 1));
    ck_assert(name_valid("A-z_0.9:", 8));
    ck_assert(name_valid(longest, LIMIT_NAME_CHARS));
    ck_assert(!name_valid(longest, LIMIT_NAME_CHARS + 1));
    ck_assert(!name_valid("", 0));
    ck_assert(!name_valid("a\0b", 3));
    ck_assert(!name_valid("a b", 3));
    ck_assert(!name_valid("a\n", 2));
    ck_assert(!name_valid("\xc3\xa4", 2));
    longest[sizeof(longest) - 1] = '\0';
    name_sanitize(longest, out);
    ck_assert_uint_eq(strlen(out), LIMIT_NAME_CHARS);
    name_sanitize("my worker\n", out);
    ck_assert_str_eq(out, "my_worker_");
    name_sanitize("", out);
    ck_assert(name_valid(out, strlen(out)));
}
END_TEST

START_TEST(user_text_is_escaped_and_cut_whole)
{
    char out[16];

    ck_assert_str_eq(text_escape("a\x1b[0m\"", 6, out, sizeof(out)), "a%1B[0m%22");
    ck_assert_str_eq(text_escape("50%", 3, out, sizeof(out)), "50%25");
    ck_assert_str_eq(text_escape("\n\n\n\n\n\n", 6, out, 10), "%0A%0A%0A");
    ck_assert_str_eq(text_escape("\n\n\n\n", 4, out, 9), "%0A%0A");
    ck_assert_str_eq(text_escape("abc", 3, out, 1), "");
}
END_TEST

START_TEST(each_word_has_one_number_and_back)
{
    for (const struct term *t = reason_terms; t->word; t++) {
        ck_assert_int_eq(term_value(reason_terms, t->word), t->value);
        ck_assert_str_eq(term_word(reason_terms, t->value), t->word);
    }
    ck_assert_str_eq(term_word(reason_terms, 0), "-");
    ck_assert_str_eq(term_word(reason_terms, 999), "-");
    ck_assert_int_eq(term_value(reason_terms, "no such"), 0);
    ck_assert_str_eq(error_word(ERR_UNKNOWN_STAGER), "unknown_stager");
    ck_assert_int_eq(error_from_word("unknown_stager"), ERR_UNKNOWN_STAGER);
    ck_assert_int_eq(error_from_word("no such"), 0);
    ck_assert_str_eq(error_word(12345), "unknown");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("base");
    SRunner *r;
    int failed;

    suite_add_tcase(s, t);
    tcase_add_loop_test(t, a_number_is_the_whole_text_or_an_error, 0, (int)ARRAY_SIZE(numbers));
    tcase_add_test(t, numbers_read_back_as_they_were_printed);
    tcase_add_test(t, people_read_decimal_units_rounded_down);
    tcase_add_test(t, doubles_have_a_point_in_every_locale);
    tcase_add_test(t, signs_and_truths);
    tcase_add_test(t, bytes_never_wrap);
    tcase_add_test(t, names_are_bounded_and_plain);
    tcase_add_test(t, user_text_is_escaped_and_cut_whole);
    tcase_add_test(t, each_word_has_one_number_and_back);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
