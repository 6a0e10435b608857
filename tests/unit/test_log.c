/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int ends[2];
static char got[65536];

static void open_pipe(void)
{
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    unsetenv("JOURNAL_STREAM");
    log_init(ends[1], LOG_LEVEL_INFO);
}

static void close_pipe(void)
{
    log_init(STDERR_FILENO, LOG_LEVEL_INFO);
    close(ends[0]);
    close(ends[1]);
}

static const char *take(void)
{
    ssize_t n = read(ends[0], got, sizeof got - 1);

    if (n < 0) {
        ck_assert_int_eq(errno, EAGAIN);
        n = 0;
    }
    got[n] = '\0';
    return got;
}

/* The line behind its time, which must look like 2026-01-31T12:00:00.123Z. */
static const char *behind_time(const char *line)
{
    static const char form[] = "ts=dddd-dd-ddTdd:dd:dd.dddZ ";

    for (size_t i = 0; form[i]; i++) {
        if (form[i] == 'd')
            ck_assert_msg(line[i] >= '0' && line[i] <= '9', "%s", line);
        else
            ck_assert_msg(line[i] == form[i], "%s", line);
    }
    return line + sizeof form - 1;
}

START_TEST(a_line_has_time_level_msg_and_fields)
{
    log_line(LOG_LEVEL_WARNING, "session=7 pid=12", "no %s for %d s", "sample", 3);
    ck_assert_str_eq(behind_time(take()),
                     "level=warning msg=\"no sample for 3 s\" session=7 pid=12\n");
    log_line(LOG_LEVEL_INFO, "", "started");
    ck_assert_str_eq(behind_time(take()), "level=info msg=\"started\"\n");
    log_line(LOG_LEVEL_INFO, NULL, "%s", "");
    ck_assert_str_eq(behind_time(take()), "level=info msg=\"\"\n");
}
END_TEST

START_TEST(a_level_above_the_set_one_is_silent)
{
    log_line(LOG_LEVEL_DEBUG, "", "no");
    ck_assert_str_eq(take(), "");
    ck_assert(!log_enabled(LOG_LEVEL_DEBUG));
    log_set_level(LOG_LEVEL_DEBUG);
    ck_assert(log_enabled(LOG_LEVEL_DEBUG));
    log_line(LOG_LEVEL_DEBUG, "", "yes");
    ck_assert_str_eq(behind_time(take()), "level=debug msg=\"yes\"\n");
    log_set_level(LOG_LEVEL_ERROR);
    log_line(LOG_LEVEL_WARNING, "", "no");
    ck_assert_str_eq(take(), "");
}
END_TEST

START_TEST(user_text_cannot_forge_a_line)
{
    log_line(LOG_LEVEL_INFO, "", "%s", "a\n<0>level=error msg=\"b\"\x1b[2J\\\t\x7f\xc2\x9b\r");
    ck_assert_str_eq(behind_time(take()),
                     "level=info msg=\"a\\n<0>level=error msg=\\\"b\\\"\\x1b[2J\\\\\\x09\\x7f\\xc2"
                     "\\x9b\\x0d\"\n");
    log_line(LOG_LEVEL_INFO, "name=a\nb\x1b", "x");
    ck_assert_str_eq(behind_time(take()), "level=info msg=\"x\" name=a?b?\n");
}
END_TEST

START_TEST(a_long_line_is_cut_and_says_so)
{
    char text[5000], quotes[600];
    const char *line;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    log_line(LOG_LEVEL_INFO, "session=1", "%s", text);
    line = take();
    ck_assert_uint_le(strlen(line), 1024);
    ck_assert_uint_gt(strlen(line), 900);
    ck_assert_ptr_nonnull(strstr(line, "x\" session=1 cut=true\n"));

    memset(quotes, '"', sizeof quotes - 1); /* short until it is escaped; no escape is split */
    quotes[sizeof quotes - 1] = '\0';
    log_line(LOG_LEVEL_INFO, "session=1", "%s", quotes);
    line = take();
    ck_assert_uint_le(strlen(line), 1024);
    ck_assert_ptr_nonnull(strstr(line, "\\\"\" session=1 cut=true\n"));

    log_line(LOG_LEVEL_INFO, text, "short"); /* fields are never that long: a bug of ours */
    ck_assert_str_eq(behind_time(take()), "level=info msg=\"short\" cut=true\n");
}
END_TEST

START_TEST(the_journal_gets_priorities_and_no_time)
{
    static const struct {
        enum log_level level;
        const char *line;
    } cases[] = {
        {LOG_LEVEL_ERROR, "<3>level=error msg=\"x\"\n"},
        {LOG_LEVEL_WARNING, "<4>level=warning msg=\"x\"\n"},
        {LOG_LEVEL_NOTICE, "<5>level=notice msg=\"x\"\n"},
        {LOG_LEVEL_INFO, "<6>level=info msg=\"x\"\n"},
        {LOG_LEVEL_DEBUG, "<7>level=debug msg=\"x\"\n"},
    };
    struct stat st;
    char stream[64];

    ck_assert_int_eq(fstat(ends[1], &st), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    log_init(ends[1], LOG_LEVEL_DEBUG);
    log_line(cases[_i].level, "", "x");
    ck_assert_str_eq(take(), cases[_i].line);

    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino + 1);
    setenv("JOURNAL_STREAM", stream, 1); /* stderr was redirected after systemd had set it */
    log_init(ends[1], LOG_LEVEL_DEBUG);
    log_line(cases[_i].level, "", "x");
    behind_time(take());
}
END_TEST

START_TEST(a_full_pipe_drops_lines_and_counts_them)
{
    char kib[1024] = {0};
    size_t lines = 0;

    ck_assert_int_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], kib, sizeof kib) > 0)
        lines++;
    ck_assert_uint_gt(lines, 0);
    ck_assert_int_eq(fcntl(ends[1], F_SETFL, 0), 0); /* from here a write would wait for ever */
    alarm(10);
    for (int i = 0; i < 3; i++)
        log_line(LOG_LEVEL_INFO, "", "lost");
    while (read(ends[0], got, sizeof got) > 0)
        ;
    log_line(LOG_LEVEL_INFO, "", "seen");
    ck_assert_str_eq(behind_time(take()), "level=info msg=\"seen\" dropped=3\n");
    log_line(LOG_LEVEL_INFO, "", "seen");
    ck_assert_str_eq(behind_time(take()), "level=info msg=\"seen\"\n");
    alarm(0);
}
END_TEST

START_TEST(errno_is_kept)
{
    close(ends[1]);
    errno = ENOTTY;
    log_line(LOG_LEVEL_ERROR, "", "nobody reads");
    ck_assert_int_eq(errno, ENOTTY);
    ends[1] = dup(ends[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("log");
    TCase *t = tcase_create("log");
    SRunner *r = srunner_create(s);
    int failed;

    suite_add_tcase(s, t);
    tcase_add_checked_fixture(t, open_pipe, close_pipe);
    tcase_add_test(t, a_line_has_time_level_msg_and_fields);
    tcase_add_test(t, a_level_above_the_set_one_is_silent);
    tcase_add_test(t, user_text_cannot_forge_a_line);
    tcase_add_test(t, a_long_line_is_cut_and_says_so);
    tcase_add_loop_test(t, the_journal_gets_priorities_and_no_time, 0, 5);
    tcase_add_test(t, a_full_pipe_drops_lines_and_counts_them);
    tcase_add_test(t, errno_is_kept);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
