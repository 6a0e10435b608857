/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/journal.c: numbers that never change, a ring that begins with a state, a file that is
 * rotated, and what a broken disk costs. */
#include "daemon/journal.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/base/attr.h"

#define RING   65536
#define NO_MAX (UINT64_C(1) << 40)

static struct {
    struct journal *j;
    unsigned preambles, preamble_lines; /* called so often, writes so many lines */
    const char *preamble_line;
    char folder[64], path[96], old[112];
} t;

static void preamble(void *arg, struct journal *j)
{
    (void)arg;
    t.preambles++;
    journal_append(j, "config", 6);
    for (unsigned i = 0; i < t.preamble_lines; i++)
        journal_append(j, t.preamble_line, strlen(t.preamble_line));
}

static void open_journal(size_t ring, const char *path, uint64_t file_max, const char *boot_id)
{
    journal_free(t.j);
    t.preambles = 0;
    t.j = journal_new(ring, path, file_max, boot_id, preamble, NULL);
    ck_assert_ptr_nonnull(t.j);
}

static void set_up(void)
{
    const char *base = getenv("TMPDIR");

    memset(&t, 0, sizeof(t));
    log_init(STDERR_FILENO, LOG_LEVEL_ERROR);
    t.preamble_line = "attach s=1 id=a bytes=0";
    snprintf(t.folder, sizeof(t.folder), "%s/jXXXXXX", base && strlen(base) < 40 ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(t.folder));
    snprintf(t.path, sizeof(t.path), "%s/journal", t.folder);
    snprintf(t.old, sizeof(t.old), "%s.1", t.path);
}

static void tear_down(void)
{
    journal_free(t.j);
    unlink(t.path);
    unlink(t.old);
    rmdir(t.folder);
}

/* An event: room is made before, as the session does. */
static void event(const char *line)
{
    journal_reserve(t.j);
    journal_append(t.j, line, strlen(line));
}

static void event_number(unsigned i)
{
    char line[400];

    snprintf(line, sizeof(line), "note text=%u pad=%0200d", i, 0);
    event(line);
}

static void check_record(uint64_t number, const char *want)
{
    size_t length = 0;
    const char *text = journal_record(t.j, number, &length);

    ck_assert_msg(text, "record %" PRIu64 " is not there", number);
    ck_assert_msg(length == strlen(want) && memcmp(text, want, length) == 0,
                  "record %" PRIu64 ": %.*s, expected %s", number, (int)length, text, want);
}

static bool record_has(uint64_t number, const char *word)
{
    size_t length = 0;
    const char *text = journal_record(t.j, number, &length);

    return text && memmem(text, length, word, strlen(word));
}

static char *read_file(const char *path)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    size_t n;

    ck_assert_msg(f, "no %s", path);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    fclose(f);
    return text;
}

static bool exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

/* ---- the ring ---- */

START_TEST(records_are_numbered_from_1_and_read_back)
{
    open_journal(RING, "", 0, "b");
    ck_assert_uint_eq(journal_first(t.j), 1);
    ck_assert_uint_eq(journal_next(t.j), 2); /* the preamble */
    event("one");
    event("two");
    event("");
    check_record(1, "config");
    check_record(2, "one");
    check_record(3, "two");
    check_record(4, "");
    ck_assert_uint_eq(journal_next(t.j), 5);
}
END_TEST

START_TEST(what_is_not_there_is_no_record)
{
    size_t length;

    open_journal(RING, "", 0, "b");
    ck_assert_ptr_null(journal_record(t.j, 0, &length));
    ck_assert_ptr_null(journal_record(t.j, 2, &length));
    ck_assert_ptr_null(journal_record(t.j, UINT64_MAX, &length));
}
END_TEST

START_TEST(a_full_ring_forgets_its_older_half_and_begins_with_a_preamble)
{
    uint64_t next = 0;

    open_journal(RING, "", 0, "b");
    for (unsigned i = 0; i < 2000; i++) {
        event_number(i);
        ck_assert_uint_gt(journal_next(t.j), next); /* numbers only grow */
        next = journal_next(t.j);
        ck_assert(record_has(next - 1, "note"));
    }
    ck_assert_uint_gt(t.preambles, 3);
    ck_assert_uint_gt(journal_first(t.j), 1);
    check_record(journal_first(t.j), "config");
    for (uint64_t n = journal_first(t.j); n < next; n++)
        ck_assert(record_has(n, "")); /* without a gap */
    ck_assert(!record_has(journal_first(t.j) - 1, ""));
}
END_TEST

START_TEST(half_of_the_ring_is_there_at_any_time)
{
    open_journal(RING, "", 0, "b");
    for (unsigned i = 0; i < 2000; i++) {
        event_number(i);
        /* 220 characters each: a segment has at least 100 of them */
        if (i > 500)
            ck_assert_uint_gt(journal_next(t.j) - journal_first(t.j), 50);
    }
}
END_TEST

START_TEST(a_preamble_that_does_not_fit_is_cut_with_a_note)
{
    bool found = false;

    t.preamble_lines = 2000;
    open_journal(RING, "", 0, "b");
    for (uint64_t n = journal_first(t.j); n < journal_next(t.j); n++)
        found = found || record_has(n, "found no room in the ring");
    ck_assert(found);
    event("after");
    check_record(journal_next(t.j) - 1, "after");
}
END_TEST

/* Lines so short that the records run out before the bytes, and lines so long that the bytes do. */
START_TEST(no_mix_of_lines_breaks_a_ring_whose_preamble_is_cut)
{
    static const char *const shortest[] = {"x", "attach s=1 id=a bytes=0"};
    char longest[2049];

    memset(longest, 'y', 2048);
    longest[2048] = '\0';
    t.preamble_lines = 5000;
    t.preamble_line = shortest[_i];
    open_journal(RING, "", 0, "b");
    for (int i = 0; i < 300; i++) {
        event(i % 3 == 0 ? longest : "x");
        check_record(journal_next(t.j) - 1, i % 3 == 0 ? longest : "x");
        journal_append(t.j, "more", 4); /* without a new reserve, as a resumed session does */
        check_record(journal_next(t.j) - 1, "more");
    }
    /* and it does not begin again at each event */
    ck_assert_uint_lt(t.preambles, 150);
}
END_TEST

START_TEST(an_event_that_appends_much_rotates_in_the_middle)
{
    open_journal(RING, "", 0, "b");
    journal_reserve(t.j);
    for (int i = 0; i < 3000; i++) {
        journal_append(t.j, "attach s=1 id=abc bytes=123456", 30);
        check_record(journal_next(t.j) - 1, "attach s=1 id=abc bytes=123456");
    }
}
END_TEST

/* ---- the file ---- */

START_TEST(a_new_file_has_header_boot_and_preamble)
{
    open_journal(RING, t.path, NO_MAX, "boot-1");
    event("one");
    journal_flush(t.j);
    ck_assert_str_eq(read_file(t.path), "# dlo-trace 1\n# boot boot-1\nconfig\none\n");
    ck_assert(!exists(t.old));
}
END_TEST

START_TEST(lines_are_written_when_they_are_flushed)
{
    open_journal(RING, t.path, NO_MAX, "b");
    event("one");
    ck_assert_ptr_null(strstr(read_file(t.path), "one"));
    journal_flush(t.j);
    ck_assert_ptr_nonnull(strstr(read_file(t.path), "one"));
    event("two");
    open_journal(RING, t.path, NO_MAX, "b"); /* the former one is freed: nothing is lost */
    ck_assert_ptr_nonnull(strstr(read_file(t.path), "two"));
}
END_TEST

START_TEST(a_file_of_the_same_boot_goes_on)
{
    open_journal(RING, t.path, NO_MAX, "b");
    event("one");
    open_journal(RING, t.path, NO_MAX, "b");
    event("two");
    journal_flush(t.j);
    ck_assert_str_eq(read_file(t.path), "# dlo-trace 1\n# boot b\nconfig\none\nconfig\ntwo\n");
    ck_assert(!exists(t.old));
}
END_TEST

START_TEST(a_file_of_another_boot_is_kept_aside_and_one_of_another_kind_left_alone)
{
    static const char *const before[] = {"# dlo-trace 1\n# boot other\nold\n", "not ours\n", ""};
    FILE *f = fopen(t.path, "w");

    fputs(before[_i], f);
    fclose(f);
    open_journal(RING, t.path, NO_MAX, "b");
    journal_flush(t.j);
    ck_assert_str_eq(read_file(t.path), _i == 1 ? before[1] : "# dlo-trace 1\n# boot b\nconfig\n");
    if (_i == 0)
        ck_assert_str_eq(read_file(t.old), before[_i]);
    else
        ck_assert(!exists(t.old)); /* an empty file must not push an older piece out */
}
END_TEST

START_TEST(a_file_that_is_full_is_kept_once_and_a_new_one_begins)
{
    open_journal(RING, t.path, 4096, "b");
    for (unsigned i = 0; i < 100; i++) {
        event_number(i);
        journal_flush(t.j);
    }
    ck_assert(exists(t.old));
    ck_assert_uint_lt(strlen(read_file(t.old)), 4096 + 400);
    ck_assert_uint_lt(strlen(read_file(t.path)), 4096 + 400);
    ck_assert_int_eq(strncmp(read_file(t.path), "# dlo-trace 1\n# boot b\nconfig\n", 30), 0);
    ck_assert_ptr_nonnull(strstr(read_file(t.path), "text=99 "));
    journal_set_file_max(t.j, NO_MAX);
    unlink(t.old);
    for (unsigned i = 0; i < 100; i++)
        event_number(i);
    journal_flush(t.j);
    ck_assert(!exists(t.old));
}
END_TEST

START_TEST(more_than_waits_for_a_turn_is_written_at_once)
{
    open_journal(RING, t.path, NO_MAX, "b");
    for (unsigned i = 0; i < 1000; i++)
        event_number(i);
    ck_assert_uint_gt(strlen(read_file(t.path)), 65536);
    journal_flush(t.j);
    ck_assert_ptr_nonnull(strstr(read_file(t.path), "text=999 "));
}
END_TEST

START_TEST(what_is_no_regular_file_stays_where_it_is)
{
    struct stat before, after;

    if (_i == 0)
        ck_assert_int_eq(mkfifo(t.path, 0600), 0);
    else if (_i == 1)
        ck_assert_int_eq(symlink("elsewhere", t.path), 0);
    else
        ck_assert_int_eq(mkdir(t.path, 0700), 0);
    ck_assert_int_eq(lstat(t.path, &before), 0);
    open_journal(RING, t.path, NO_MAX, "b");
    event("one");
    journal_flush(t.j);
    check_record(2, "one");
    ck_assert_int_eq(lstat(t.path, &after), 0);
    ck_assert_uint_eq(after.st_ino, before.st_ino);
    ck_assert(!exists(t.old));
    rmdir(t.path);
}
END_TEST

START_TEST(a_folder_that_is_missing_costs_the_file_alone)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/none/journal", t.folder);
    open_journal(RING, path, NO_MAX, "b");
    for (unsigned i = 0; i < 1000; i++) {
        event_number(i);
        journal_flush(t.j);
    }
    ck_assert(record_has(journal_next(t.j) - 1, "text=999 "));
}
END_TEST

static void add_tests(TCase *c)
{
    tcase_add_test(c, records_are_numbered_from_1_and_read_back);
    tcase_add_test(c, what_is_not_there_is_no_record);
    tcase_add_test(c, a_full_ring_forgets_its_older_half_and_begins_with_a_preamble);
    tcase_add_test(c, half_of_the_ring_is_there_at_any_time);
    tcase_add_test(c, a_preamble_that_does_not_fit_is_cut_with_a_note);
    tcase_add_loop_test(c, no_mix_of_lines_breaks_a_ring_whose_preamble_is_cut, 0, 2);
    tcase_add_test(c, an_event_that_appends_much_rotates_in_the_middle);
    tcase_add_test(c, a_new_file_has_header_boot_and_preamble);
    tcase_add_test(c, lines_are_written_when_they_are_flushed);
    tcase_add_test(c, a_file_of_the_same_boot_goes_on);
    tcase_add_loop_test(c, a_file_of_another_boot_is_kept_aside_and_one_of_another_kind_left_alone,
                        0, 3);
    tcase_add_test(c, a_file_that_is_full_is_kept_once_and_a_new_one_begins);
    tcase_add_test(c, more_than_waits_for_a_turn_is_written_at_once);
    tcase_add_loop_test(c, what_is_no_regular_file_stays_where_it_is, 0, 3);
    tcase_add_test(c, a_folder_that_is_missing_costs_the_file_alone);
}

int main(void)
{
    Suite *s = suite_create("journal");
    TCase *c = tcase_create("journal");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(c, set_up, tear_down);
    add_tests(c);
    suite_add_tcase(s, c);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
