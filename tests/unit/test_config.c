/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <check.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/error.h"

#define MS 1000000ull

static struct config c;
static char error[CONFIG_ERROR_SIZE];
static char path[64];

static void start(void)
{
    config_defaults(&c);
    error[0] = '\0';
    snprintf(path, sizeof path, "/tmp/test-config-%d.conf", (int)getpid());
}

static void stop(void)
{
    unlink(path);
}

static int read_bytes(const char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
    return config_read_file(&c, path, error);
}

static int read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

START_TEST(defaults_are_those_of_the_table)
{
    ck_assert_str_eq(c.gpu, "");
    ck_assert_int_eq(c.telemetry, BACKEND_AUTO);
    ck_assert_int_eq(c.mode, MODE_ON);
    ck_assert_int_eq(c.policy, POLICY_LEARNED);
    ck_assert(!c.allow_never);
    ck_assert_double_eq(c.margin, 1.25);
    ck_assert_double_eq(c.cap_fraction, 0.25);
    ck_assert_double_eq(c.min_free, 0.05);
    ck_assert_uint_eq(c.socket_mode, 0660);
    ck_assert_uint_eq(c.sample_max_age, 50 * MS);
    ck_assert_uint_eq(c.sample_timeout, 100 * MS);
    ck_assert_uint_eq(c.max_sessions, 1024);
    ck_assert_uint_eq(c.journal_ring, 1 << 20);
    ck_assert_int_eq(c.log_level, LOG_LEVEL_INFO);
}
END_TEST

static const struct {
    const char *key, *value;
    int r;
    const char *says;
} values[] = {
    {"min_free", "0", 0, ""},
    {"min_free", "1", 0, ""},
    {"min_free", "1e-3", 0, ""},
    {"min_free", "1.0000001", ERR_INVALID, "x: min_free = 1.0000001: must be from 0 to 1"},
    {"min_free", "-0.1", ERR_INVALID, "from 0 to 1"},
    {"min_free", "nan", ERR_INVALID, "from 0 to 1"},
    {"min_free", "0,05", ERR_INVALID, "x: min_free = 0,05: must be from 0 to 1 (for example 0.25)"},
    {"min_free", "5%", ERR_INVALID, "from 0 to 1"},
    {"min_free", "", ERR_INVALID, "from 0 to 1"},
    {"min_free", "1e999", ERR_OVERFLOW, "from 0 to 1"},
    {"margin", "1", 0, ""},
    {"margin", "0.99", ERR_INVALID, "1 or more"},
    {"margin", "inf", ERR_INVALID, "1 or more"},
    {"sample_max_age", "0", 0, ""},
    {"sample_max_age", "50", ERR_INVALID, "x: sample_max_age = 50: is not a time"},
    {"sample_max_age", "24h", 0, ""},
    {"sample_max_age", "25h", ERR_OVERFLOW, "at most 24h"},
    {"journal_ring", "64M", 0, ""},
    {"journal_ring", "64 M", ERR_INVALID, "is not a size"},
    {"journal_ring", "-1", ERR_INVALID, "is not a size"},
    {"journal_ring", "2T", ERR_OVERFLOW, "at most 1T"},
    {"journal_ring", "18446744073709551616", ERR_OVERFLOW, "at most 1T"},
    {"max_sessions", "1", 0, ""},
    {"max_sessions", "1000000", 0, ""},
    {"max_sessions", "1000001", ERR_OVERFLOW, "from 1 to 1000000"},
    {"max_sessions", "0", ERR_INVALID, "from 1 to 1000000"},
    {"max_sessions", "0x10", ERR_INVALID, "from 1 to 1000000"},
    {"root_sessions", "0", 0, ""},
    {"allow_never", "yes", 0, ""},
    {"allow_never", "maybe", ERR_INVALID, "true or false"},
    {"socket_mode", "0600", 0, ""},
    {"socket_mode", "0680", ERR_INVALID, "four octal digits"},
    {"socket_mode", "660", ERR_INVALID, "four octal digits"},
    {"socket_mode", "1660", ERR_INVALID, "four octal digits"},
    {"mode", "shadow", 0, ""},
    {"mode", "ON", ERR_INVALID, "on, shadow or off"},
    {"mode", "-", ERR_INVALID, "on, shadow or off"},
    {"policy", "never", 0, ""},
    {"policy", "demand", ERR_INVALID, "x: policy = demand: is planned, not built yet"},
    {"policy", "learn", ERR_INVALID, "learned, fixed, always or never"},
    {"telemetry", "worker", 0, ""},
    {"telemetry", "rocm", ERR_INVALID, "auto, nvml, cuda or worker"},
    {"log_level", "error", 0, ""},
    {"log_level", "3", ERR_INVALID, "error, warning"},
    {"gpu", "minor:0", 0, ""},
    {"gpu", "", 0, ""},
    {"gpu", "a\nb", ERR_INVALID, "x: gpu = a?b: must not have control characters"},
    {"gpu", "a;b", ERR_INVALID, "';'"},
    {"gpu", " 0", ERR_INVALID, "spaces at its ends"},
    {"journal_file", "/tmp/a b=c#d", 0, ""},
    {"sockets", "", ERR_INVALID, "x: there is no key sockets (did you mean socket?)"},
    {"sample_maxage", "1s", ERR_INVALID, "(did you mean sample_max_age?)"},
    {"min_fre", "0", ERR_INVALID, "(did you mean min_free?)"},
    {"banana", "1", ERR_INVALID, "x: there is no key banana (--print-config shows all)"},
    {"a_key_that_is_longer_than_any_key_could_be", "1", ERR_INVALID, "there is no key a_key"},
    {"", "1", ERR_INVALID, "there is no key"},
    {"Margin", "1", ERR_INVALID, "(did you mean margin?)"},
};

START_TEST(a_value_is_taken_or_named)
{
    struct config before = c;
    int r = config_set(&c, values[_i].key, values[_i].value, "x", error);

    ck_assert_int_eq(r, values[_i].r);
    ck_assert_msg(strstr(error, values[_i].says), "%s", error);
    if (r < 0)
        ck_assert_int_eq(memcmp(&before, &c, sizeof c), 0);
}
END_TEST

START_TEST(a_text_is_no_longer_than_its_place)
{
    char text[300];

    memset(text, 'a', sizeof text);
    text[103] = '\0';
    ck_assert_int_eq(config_set(&c, "socket", text, "x", error), 0);
    text[103] = 'a';
    text[104] = '\0';
    ck_assert_int_eq(config_set(&c, "socket", text, "x", error), ERR_OVERFLOW);
    ck_assert_msg(strstr(error, "103 characters"), "%s", error);
    text[104] = 'a';
    text[170] = '\0';
    ck_assert_int_eq(config_set(&c, "journal_file", text, "x", error), 0);
    text[170] = 'a';
    text[171] = '\0';
    ck_assert_int_eq(config_set(&c, "journal_file", text, "x", error), ERR_OVERFLOW);
    ck_assert_msg(strstr(error, "170 characters"), "%s", error);
}
END_TEST

START_TEST(a_file_sets_keys)
{
    ck_assert_int_eq(read_text("# a comment\n; another\n\n[dlod]\ngpu = GPU-1 ; inline\n"
                               "  min_free = 0.1\r\nmargin=2"),
                     0);
    ck_assert_str_eq(c.gpu, "GPU-1");
    ck_assert_double_eq(c.min_free, 0.1);
    ck_assert_double_eq(c.margin, 2);
    ck_assert_int_eq(read_text("margin = 3\n"), 0);
    ck_assert_double_eq(c.margin, 3);
    ck_assert_str_eq(c.gpu, "GPU-1");
    ck_assert_int_eq(read_text(""), 0);
}
END_TEST

static const struct {
    const char *text, *says; /* behind the path */
} bad_files[] = {
    {"margin = 2\nmin_free = 2\n", ":2: min_free = 2: must be from 0 to 1"},
    {"\n\nmargins = 2\n", ":3: there is no key margins (did you mean margin?)"},
    {"margin = 2\nmargin = 2\n", ":2: margin is set a second time (line 1 sets it too"},
    {"margin = 2\n  min_free\n", ":2: is neither key = value"},
    {"margin\n", ":1: is neither key = value"},
    {"[dlod\nmargin = 2\n", ":1: is neither key = value"},
    {"[dlo]\nmargin = 2\n", ":2: is in a section that is not [dlod]"},
    {"margin = 2\n[dlod]\nmargin = 3\n", ":3: margin is set a second time (line 1"},
    {"policy = demand\n", ":1: policy = demand: is planned"},
};

START_TEST(nothing_is_taken_from_a_bad_file)
{
    struct config before = c;
    char says[200];

    ck_assert_int_lt(read_text(bad_files[_i].text), 0);
    snprintf(says, sizeof says, "%s%s", path, bad_files[_i].says);
    ck_assert_msg(strstr(error, says) == error, "%s", error);
    ck_assert_int_eq(memcmp(&before, &c, sizeof c), 0);
}
END_TEST

START_TEST(a_long_line_is_an_error_not_two_lines)
{
    char text[400];
    int n = snprintf(text, sizeof text, "min_free = 0.1\n# ");

    memset(text + n, 'x', 196);
    memcpy(text + n + 196, "\nmargin = 2\n", 13);
    ck_assert_int_eq(read_text(text), 0); /* 198 characters */
    ck_assert_double_eq(c.margin, 2);
    memset(text + n, 'x', 197);
    memcpy(text + n + 197, "\nmargin = 3\n", 13);
    ck_assert_int_eq(read_text(text), ERR_INVALID);
    ck_assert_msg(strstr(error, ":2: the line is longer than 198 characters"), "%s", error);
    ck_assert_double_eq(c.margin, 2);
}
END_TEST

START_TEST(a_file_is_text_of_a_sensible_size)
{
    static char big[65537];

    memset(big, '\n', sizeof big);
    ck_assert_int_eq(read_bytes(big, 65536), 0);
    ck_assert_int_eq(read_bytes(big, 65537), ERR_INVALID);
    ck_assert_msg(strstr(error, "longer than 64 KiB"), "%s", error);
    ck_assert_int_eq(read_bytes("margin = 2\nm\0\n", 14), ERR_INVALID);
    ck_assert_msg(strstr(error, ":2: has a NUL byte"), "%s", error);
    ck_assert_int_eq(config_read_file(&c, "/nowhere/dlod.conf", error), ERR_INVALID);
    ck_assert_str_eq(error, "/nowhere/dlod.conf: cannot be read: No such file or directory");
    ck_assert_int_eq(config_read_file(&c, "/tmp", error), ERR_INVALID);
    ck_assert_str_eq(error, "/tmp: is not a file");
}
END_TEST

/* What dlod prints, as the file at path. */
static void print_to_file(void)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    config_print(&c, f);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(what_is_printed_reads_back)
{
    static const char *const sets[][2] = {
        {"gpu", "GPU-12345678-1234-1234-1234-123456789abc"},
        {"telemetry", "cuda"},
        {"mode", "shadow"},
        {"policy", "fixed"},
        {"allow_never", "true"},
        {"margin", "1.3000000000000003"},
        {"cap_fraction", "0.30000000000000004"},
        {"min_free", "1e-17"},
        {"socket", "/run/dlo/a b#c=d:e [x].sock"},
        {"socket_mode", "0007"},
        {"sample_timeout", "99999us"},
        {"journal_ring", "65537"},
        {"max_sessions", "1000000"},
        {"root_sessions", "0"},
        {"log_level", "debug"},
    };
    struct config other;
    char longest[171];

    for (size_t i = 0; i < ARRAY_SIZE(sets); i++)
        ck_assert_msg(config_set(&c, sets[i][0], sets[i][1], "x", error) == 0, "%s", error);
    memset(longest, 'z', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert_int_eq(config_set(&c, "journal_file", longest, "x", error), 0);
    print_to_file();
    config_defaults(&other);
    ck_assert_msg(config_read_file(&other, path, error) == 0, "%s", error);
    ck_assert_int_eq(memcmp(&c, &other, sizeof c), 0);

    config_defaults(&c);
    print_to_file();
    ck_assert_msg(config_read_file(&other, path, error) == 0, "%s", error);
    ck_assert_int_eq(memcmp(&c, &other, sizeof c), 0);
}
END_TEST

START_TEST(a_german_locale_changes_nothing)
{
    struct config other;

    if (!setlocale(LC_ALL, "de_DE.UTF-8") || strcmp(localeconv()->decimal_point, ",") != 0) {
        printf("SKIP a_german_locale_changes_nothing: no de_DE.UTF-8 here (tests/locale.sh)\n");
        return;
    }
    config_defaults(&c);
    ck_assert_double_eq(c.margin, 1.25);
    ck_assert_int_eq(config_set(&c, "min_free", "0,05", "x", error), ERR_INVALID);
    print_to_file();
    config_defaults(&other);
    ck_assert_msg(config_read_file(&other, path, error) == 0, "%s", error);
    ck_assert_int_eq(memcmp(&c, &other, sizeof c), 0);
    setlocale(LC_ALL, "C");
}
END_TEST

static int from_argv(enum config_action *ret_action, const char *a1, const char *a2, const char *a3)
{
    const char *argv[] = {"dlod", a1, a2, a3, NULL};
    int argc = 1;

    while (argc < 4 && argv[argc])
        argc++;
    return config_from_argv(&c, argc, (char *const *)argv, ret_action, error);
}

START_TEST(every_key_is_an_option)
{
    enum config_action action;

    ck_assert_int_eq(from_argv(&action, "--min-free", "0.1", NULL), 0);
    ck_assert_double_eq(c.min_free, 0.1);
    ck_assert_int_eq(action, CONFIG_RUN);
    ck_assert_int_eq(from_argv(&action, "--min_free=0.2", NULL, NULL), 0);
    ck_assert_double_eq(c.min_free, 0.2);
    ck_assert_int_eq(from_argv(&action, "--set", "min-free=0.3", "--socket=a=b"), 0);
    ck_assert_double_eq(c.min_free, 0.3);
    ck_assert_str_eq(c.socket, "a=b");
    ck_assert_int_eq(from_argv(&action, "--set=margin=2", "--margin", "3"), 0);
    ck_assert_double_eq(c.margin, 3);
    ck_assert_double_eq(c.min_free, 0.05); /* each call begins with the defaults */
    ck_assert_int_eq(from_argv(&action, "--gpu", "", NULL), 0);
    ck_assert_int_eq(from_argv(&action, "--print-config", "--margin=2", NULL), 0);
    ck_assert_int_eq(action, CONFIG_PRINT);
    ck_assert_int_eq(from_argv(&action, "--check_config", NULL, NULL), 0);
    ck_assert_int_eq(action, CONFIG_CHECK);
    ck_assert_int_eq(from_argv(&action, "--help", "--nonsense", NULL), 0);
    ck_assert_int_eq(action, CONFIG_HELP);
    ck_assert_int_eq(from_argv(&action, "-h", NULL, NULL), 0);
    ck_assert_int_eq(action, CONFIG_HELP);
    ck_assert_int_eq(from_argv(&action, "--version", NULL, NULL), 0);
    ck_assert_int_eq(action, CONFIG_VERSION);
}
END_TEST

START_TEST(options_win_over_the_file)
{
    enum config_action action;
    char option[80];

    ck_assert_int_eq(read_text("margin = 2\nmin_free = 0.5\n"), 0);
    snprintf(option, sizeof option, "--config=%s", path);
    ck_assert_int_eq(from_argv(&action, "--margin=3", option, NULL), 0);
    ck_assert_double_eq(c.margin, 3);
    ck_assert_double_eq(c.min_free, 0.5);
    ck_assert_int_eq(from_argv(&action, option, option, NULL), ERR_INVALID);
    ck_assert_msg(strstr(error, "is given twice"), "%s", error);
    ck_assert_int_eq(from_argv(&action, "--config", "/nowhere/x", NULL), ERR_INVALID);
    ck_assert_msg(strstr(error, "/nowhere/x: cannot be read"), "%s", error);
}
END_TEST

static const struct {
    const char *a1, *a2, *says;
} bad_options[] = {
    {"--marign", "2", "command line: there is no key marign (did you mean margin?)"},
    {"--margin", "0.5", "command line: margin = 0.5: must be 1 or more"},
    {"--margin", NULL, "--margin: needs a value"},
    {"--set", "margin", "margin: --set needs key=value"},
    {"--set", "margin=x", "--set: margin = x: must be 1 or more"},
    {"--set", "=x", "is not an option"},
    {"margin", NULL, "margin: is not an option"},
    {"--", NULL, "--: is not an option"},
    {"-x", NULL, "-x: is not an option"},
    {"", NULL, ": is not an option"},
    {"--print-config=yes", NULL, "--print-config=yes: takes no value"},
    {"--an-option-of-a-name-that-nobody-would-ever-want-to-type-in-full-length", "1", "is not an"},
};

START_TEST(a_bad_option_is_named)
{
    enum config_action action = CONFIG_RUN;
    struct config before = c;

    ck_assert_int_eq(from_argv(&action, bad_options[_i].a1, bad_options[_i].a2, NULL), ERR_INVALID);
    ck_assert_msg(strstr(error, bad_options[_i].says), "%s", error);
    ck_assert_int_eq(memcmp(&before, &c, sizeof c), 0);
}
END_TEST

static const struct {
    const char *a1, *a2, *says; /* NULL: good */
} together[] = {
    {"--gpu=0", NULL, NULL},
    {"--telemetry=worker", NULL, NULL},
    {"--telemetry=auto", NULL, "gpu: is needed (set gpu, or telemetry = worker)"},
    {"--telemetry=worker", "--policy=never", "allow_never: policy = never needs allow_never"},
    {"--telemetry=worker", "--margin=2e6", "margin: must be from 1 to 1000000"},
    {"--telemetry=worker", "--sample-timeout=249999us", NULL},
    {"--telemetry=worker", "--sample-timeout=250ms", "sample_timeout: must be above 0 and below"},
    {"--telemetry=worker", "--sample-timeout=0", "sample_timeout: must be above 0 and below"},
    {"--telemetry=worker", "--sample-interval=249ms", "sample_interval: must be 250ms or more"},
    {"--telemetry=worker", "--probe-timeout=0", "probe_timeout: must be above 0"},
    {"--telemetry=worker", "--hello-timeout=0", "hello_timeout: must be above 0"},
    {"--telemetry=worker", "--max-sessions=8", "root_sessions: must be below max_sessions"},
    {"--telemetry=worker", "--max-sessions=9", NULL},
    {"--telemetry=worker", "--journal-ring=16383", "journal_ring: must be from 16K to 1G"},
    {"--telemetry=worker", "--journal-ring=2G", "journal_ring: must be from 16K to 1G"},
};

START_TEST(keys_must_agree_with_each_other)
{
    enum config_action action;

    ck_assert_int_eq(from_argv(&action, together[_i].a1, together[_i].a2, NULL), 0);
    if (together[_i].says) {
        ck_assert_int_eq(config_validate(&c, error), ERR_INVALID);
        ck_assert_msg(strstr(error, together[_i].says) == error, "%s", error);
    } else {
        ck_assert_msg(config_validate(&c, error) == 0, "%s", error);
    }
}
END_TEST

START_TEST(a_reload_takes_what_it_may)
{
    struct config fresh;

    config_defaults(&fresh);
    ck_assert_int_eq(config_set(&fresh, "margin", "2", "x", error), 0);
    ck_assert_ptr_null(config_apply_reload(&c, &fresh));
    ck_assert_double_eq(c.margin, 2);
    ck_assert_int_eq(config_set(&fresh, "socket", "/a", "x", error), 0);
    ck_assert_int_eq(config_set(&fresh, "log_level", "debug", "x", error), 0);
    ck_assert_str_eq(config_apply_reload(&c, &fresh), "socket");
    ck_assert_str_eq(c.socket, "");
    ck_assert_int_eq(c.log_level, LOG_LEVEL_DEBUG);
}
END_TEST

START_TEST(help_shows_each_key)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    ck_assert_ptr_nonnull(f);
    config_print_options(f);
    ck_assert_int_eq(fclose(f), 0);
    for (char *p = text; *p; p++) /* the names of options have '-' */
        if (*p == '-')
            *p = '_';
#define KEY(name, type, dflt, reload, doc) ck_assert_ptr_nonnull(strstr(text, "__" #name " "));
#include "daemon/config.def"
#undef KEY
    ck_assert_ptr_nonnull(strstr(text, "__sample_max_age TIME (default 50ms)\n"));
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config");
    TCase *t = tcase_create("config");
    SRunner *r = srunner_create(s);
    int failed;

    suite_add_tcase(s, t);
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, defaults_are_those_of_the_table);
    tcase_add_loop_test(t, a_value_is_taken_or_named, 0, ARRAY_SIZE(values));
    tcase_add_test(t, a_text_is_no_longer_than_its_place);
    tcase_add_test(t, a_file_sets_keys);
    tcase_add_loop_test(t, nothing_is_taken_from_a_bad_file, 0, ARRAY_SIZE(bad_files));
    tcase_add_test(t, a_long_line_is_an_error_not_two_lines);
    tcase_add_test(t, a_file_is_text_of_a_sensible_size);
    tcase_add_test(t, what_is_printed_reads_back);
    tcase_add_test(t, a_german_locale_changes_nothing);
    tcase_add_test(t, every_key_is_an_option);
    tcase_add_test(t, options_win_over_the_file);
    tcase_add_loop_test(t, a_bad_option_is_named, 0, ARRAY_SIZE(bad_options));
    tcase_add_loop_test(t, keys_must_agree_with_each_other, 0, ARRAY_SIZE(together));
    tcase_add_test(t, a_reload_takes_what_it_may);
    tcase_add_test(t, help_shows_each_key);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
