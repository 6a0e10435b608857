/* SPDX-License-Identifier: Apache-2.0 */
/* The library as its host sees it: options, answers, modes, threads, fork. test_resume.c has what
 * happens when the daemon fails. */
#include <dlo/dlo.h>

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/lib/conn.h"
#include "tests/unit/fake_daemon.h"

#define GB    1000000000ull
#define SLACK 250000000ull /* of a busy machine, on top of a deadline */

static struct fake *fake;
static struct dlo_options options;
static struct dlo_client *c;

static void start_alone(void)
{
    unsetenv("DLO_MODE");
    fake = fake_new();
    options = (struct dlo_options)DLO_OPTIONS_INIT;
    options.name = "w1";
    options.socket = fake->path;
    c = NULL;
}

static void start(void)
{
    start_alone();
    fake_start(fake);
}

static void stop_alone(void)
{
    dlo_close(c);
    unsetenv("DLO_MODE");
    fake_free(fake);
}

static void stop(void)
{
    fake_stop(fake);
    stop_alone();
}

static void open_client(void)
{
    ck_assert_int_eq(dlo_open(&options, &c), 0);
}

static struct dlo_info info(void)
{
    struct dlo_info i = DLO_INFO_INIT;

    ck_assert_int_eq(dlo_get_info(c, &i), 0);
    return i;
}

static struct dlo_boundary boundary(uint64_t cached)
{
    struct dlo_boundary b = DLO_BOUNDARY_INIT;

    b.component = "vae";
    b.reserved = cached + 2 * GB;
    b.allocated = 2 * GB;
    b.free = 50 * GB;
    b.total = 100 * GB;
    return b;
}

static struct dlo_answer ask(uint64_t cached)
{
    struct dlo_boundary b = boundary(cached);
    struct dlo_answer a = DLO_ANSWER_INIT;

    ck_assert_int_eq(dlo_ask(c, &b, &a), 0);
    return a;
}

START_TEST(daemon_answers_with_every_input)
{
    struct dlo_answer a;
    struct dlo_info i;

    open_client();
    ck_assert_int_eq(dlo_attach(c, "vae", 3 * GB), 0);
    ck_assert_int_eq(dlo_attach(c, "vae", 4 * GB), 0); /* R1 */
    ck_assert_uint_eq(fake->staged_bytes, 3 * GB);
    ck_assert_int_eq(ask(8 * GB).decision, DLO_DECISION_RELEASE);
    a = ask(9 * GB);
    ck_assert_int_eq(a.decision, DLO_DECISION_RETAIN);
    ck_assert_int_eq(a.would, DLO_DECISION_RETAIN);
    ck_assert_int_eq(a.reason, DLO_REASON_WITHIN_BUDGET);
    ck_assert_int_eq(a.cause, 0);
    ck_assert_uint_eq(a.fields, 255);
    ck_assert_uint_eq(a.cached, 9 * GB);
    ck_assert_uint_eq(a.floor, 5 * GB);
    ck_assert_uint_eq(a.cap, 25 * GB);
    ck_assert_uint_eq(a.budget, 10 * GB);
    ck_assert_uint_eq(a.peak, 9 * GB);
    ck_assert_uint_eq(a.staged_bytes, 3 * GB);
    ck_assert_uint_eq(a.n, 2);
    i = info();
    ck_assert_int_eq(i.connected, 1);
    ck_assert_int_eq(i.mode, DLO_MODE_ON);
    ck_assert_uint_eq(i.session, a.session);
    ck_assert_uint_eq(i.protocol_version, 1);
    ck_assert_uint_eq(i.peak, 9 * GB);
    ck_assert_uint_eq(i.retained, 1);
    ck_assert_uint_eq(i.serving_releases, 1);
    ck_assert_str_eq(i.daemon_version, "fake-1");
    ck_assert_str_eq(i.uuid, "GPU-fake");
    ck_assert_str_eq(i.socket, fake->path);
    ck_assert_int_eq(dlo_detach(c, "vae"), 0);
    ck_assert_uint_eq(info().peak, 0); /* R3 */
    ck_assert_int_eq(dlo_detach(c, "vae"), DLO_ERR_UNKNOWN_STAGER);
    ck_assert_str_eq(dlo_last_error(c), "detach: no stager with that id is attached");
}
END_TEST

START_TEST(hello_carries_the_options)
{
    options.policy = DLO_POLICY_FIXED;
    options.min_free = 0.1;
    options.stage_end = DLO_STAGE_END_ADVISE;
    options.features = DLO_FEATURE_BRACKETS;
    options.group = "tp";
    options.rank = 1;
    options.world = 2;
    open_client();
    ck_assert_str_eq(fake->hello.name, "w1");
    ck_assert_str_eq(fake->hello.group, "tp");
    ck_assert_uint_eq(fake->hello.policy, POLICY_FIXED);
    ck_assert(fake->hello.has_min_free && fake->hello.min_free == 0.1);
    ck_assert_uint_eq(fake->hello.stage_end, STAGE_END_ADVISE);
    ck_assert_uint_eq(fake->hello.features, FEATURE_BRACKETS);
    ck_assert_uint_eq(fake->hello.rank + fake->hello.world, 3);
    ck_assert(fake->hello.has_state); /* always: there may have been no daemon until now */
    ck_assert_uint_eq(fake->hello.state.n, 0);
    ck_assert_int_eq(dlo_busy_begin(c, NULL), 0);
    ck_assert_int_eq(dlo_busy_begin(c, NULL), DLO_ERR_BAD_STATE);
    ck_assert_int_eq(dlo_busy_end(c, NULL, NULL), 0);
    ck_assert_int_eq(dlo_forced(c, DLO_FORCE_STAGE_END, NULL), DLO_ERR_BAD_STATE); /* R4 */
    ck_assert_int_eq(info().policy, DLO_POLICY_FIXED);
}
END_TEST

/* R4: released first, told afterwards; far more of them than replies fit a socket. */
START_TEST(forced_releases_never_wait_and_all_arrive)
{
    struct dlo_boundary b = boundary(GB);
    struct dlo_answer a = DLO_ANSWER_INIT;

    open_client();
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(dlo_forced(c, DLO_FORCE_FAILURE, "any thing"), 0);
    b.force = DLO_FORCE_OOM_RETRY;
    ck_assert_int_eq(dlo_ask(c, &b, &a), 0);
    ck_assert_int_eq(a.decision, DLO_DECISION_RELEASE);
    ck_assert_int_eq(a.reason, DLO_REASON_FORCED);
    ck_assert_uint_eq(a.fields, 0);
    ck_assert_uint_eq(a.cached, DLO_MISSING);
    ck_assert_int_eq(dlo_released(c, 2 * GB, GB, 1500), 0);
    a = ask(GB);
    ck_assert_uint_eq(a.n, 1002);
    ck_assert_int_eq(a.cause, 0);
    ck_assert_uint_eq(info().forced[DLO_FORCE_FAILURE], 1000);
    ck_assert_uint_eq(info().forced[DLO_FORCE_OOM_RETRY], 1);
}
END_TEST

START_TEST(daemons_quota_undoes_an_attach)
{
    atomic_store(&fake->stager_limit, 1);
    open_client();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    ck_assert_int_eq(dlo_set_peak(c, 5 * GB), 0);
    ck_assert_int_eq(dlo_attach(c, "b", GB), DLO_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(dlo_last_error(c), "enough"));
    ck_assert_uint_eq(info().stager_count, 1);
    ck_assert_uint_eq(info().peak, 5 * GB);
    ck_assert_int_eq(dlo_detach(c, "b"), DLO_ERR_UNKNOWN_STAGER);
}
END_TEST

START_TEST(warmup_windows_do_not_nest)
{
    open_client();
    ck_assert_int_eq(dlo_warmup_end(c), DLO_ERR_BAD_STATE);
    ck_assert_int_eq(dlo_warmup_begin(c), 0);
    ck_assert_int_eq(dlo_warmup_begin(c), DLO_ERR_BAD_STATE);
    ck_assert_int_eq(ask(GB).warmup, 1);
    ck_assert_int_eq(dlo_warmup_end(c), 0);
    ck_assert_uint_eq(info().cold_start_releases, 1);
    ck_assert_int_eq(dlo_busy_begin(c, NULL), DLO_ERR_BAD_STATE); /* no brackets declared */
}
END_TEST

static int32_t read_fixed(void *arg, uint64_t *ret_free, uint64_t *ret_total)
{
    ++*(int *)arg;
    *ret_free = 40 * GB;
    *ret_total = 80 * GB;
    return 0;
}

/* R11b: the callback's pair goes to the daemon, and is not read for a forced release. */
START_TEST(read_memory_supplies_the_pair)
{
    struct dlo_boundary b = boundary(GB);
    struct dlo_answer a = DLO_ANSWER_INIT;
    int calls = 0;

    options.read_memory = read_fixed;
    options.read_memory_arg = &calls;
    open_client();
    ck_assert_uint_eq(ask(GB).total, 100 * GB);
    ck_assert_int_eq(calls, 0);
    b.total = DLO_MISSING; /* half a pair is none */
    ck_assert_int_eq(dlo_ask(c, &b, &a), 0);
    ck_assert_int_eq(calls, 1);
    ck_assert_uint_eq(a.total, 80 * GB);
    ck_assert_uint_eq(fake->boundary.free.v, 40 * GB);
    b.force = DLO_FORCE_FAILURE;
    ck_assert_int_eq(dlo_ask(c, &b, &a), 0);
    ck_assert_int_eq(calls, 1);
}
END_TEST

/* R30 */
START_TEST(mode_off_opens_nothing_and_keeps)
{
    struct dlo_answer a;

    setenv("DLO_MODE", "off", 1);
    options.mode = DLO_MODE_ON;
    open_client();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    ck_assert_int_eq(dlo_detach(c, "never seen"), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_detach(c, "never-seen"), 0);
    ck_assert_int_eq(dlo_warmup_end(c), 0);
    ck_assert_int_eq(dlo_busy_end(c, NULL, NULL), 0);
    ck_assert_int_eq(dlo_forced(c, DLO_FORCE_OPERATOR, NULL), 0);
    a = ask(50 * GB);
    ck_assert_int_eq(a.decision, DLO_DECISION_KEEP);
    ck_assert_uint_eq(a.fields, 0);
    ck_assert_int_eq(info().mode, DLO_MODE_OFF);
    ck_assert_uint_eq(info().stager_count, 0);
    ck_assert_uint_eq(fake_read(fake, &fake->accepts), 0);
}
END_TEST

START_TEST(shadow_keeps_and_says_what_it_would)
{
    struct dlo_answer a;

    if (_i == 0)
        options.mode = DLO_MODE_SHADOW;
    else
        atomic_store(&fake->mode, MODE_SHADOW);
    open_client();
    a = ask(8 * GB);
    ck_assert_int_eq(a.decision, DLO_DECISION_KEEP);
    ck_assert_int_eq(a.would, DLO_DECISION_RELEASE);
    ck_assert_int_eq(info().mode, DLO_MODE_SHADOW);
    atomic_store(&fake->behaviour, FAKE_CLOSE_ON_ASK);
    a = ask(80 * GB);
    ck_assert_int_eq(a.cause, DLO_CAUSE_BROKEN);
    ck_assert_int_eq(a.decision, DLO_DECISION_KEEP);
    ck_assert_int_eq(a.would, DLO_DECISION_RELEASE);
}
END_TEST

static int32_t read_half(void *arg, uint64_t *ret_free, uint64_t *ret_total)
{
    *ret_free = *(bool *)arg ? DLO_MISSING : 80 * GB;
    *ret_total = *(bool *)arg ? 400 * GB : DLO_MISSING;
    return 0;
}

START_TEST(a_number_that_was_not_read_is_none)
{
    struct dlo_boundary b = DLO_BOUNDARY_INIT;
    struct dlo_answer a = DLO_ANSWER_INIT;
    bool is_first = _i == 0;

    options.read_memory = read_half;
    options.read_memory_arg = &is_first;
    open_client();
    b.reserved = 40 * GB;
    b.allocated = 10 * GB;
    ck_assert_int_eq(dlo_ask(c, &b, &a), 0);
    ck_assert_int_eq(a.reason, DLO_REASON_TELEMETRY_UNAVAILABLE);
    ck_assert(!fake->boundary.free.has && !fake->boundary.total.has);
    ck_assert_int_eq(dlo_released(c, DLO_MISSING, 0, 1), DLO_ERR_INVALID);
    ck_assert_int_eq(dlo_released(c, 0, DLO_MISSING, 1), DLO_ERR_INVALID);
}
END_TEST

START_TEST(mode_off_at_the_daemon_keeps_too)
{
    struct dlo_answer a;

    atomic_store(&fake->mode, MODE_OFF);
    open_client();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    a = ask(80 * GB);
    ck_assert_int_eq(a.decision, DLO_DECISION_KEEP);
    ck_assert_int_eq(a.would, DLO_DECISION_KEEP);
    ck_assert_int_eq(a.reason, 0);
    ck_assert_int_eq(a.cause, 0);
    ck_assert_uint_eq(info().decisions, 0); /* R30: inert */
    ck_assert_int_eq(info().mode, DLO_MODE_OFF);
    ck_assert_str_eq(info().last_link_text, "its mode is off");
}
END_TEST

START_TEST(bad_options_are_refused_with_a_text)
{
    static const char *const bad_names[] = {
        "", "a b", "x/y", "0123456789012345678901234567890123456789012345678901234567890123"};
    char path[200];

    setenv("DLO_MODE", "On", 1);
    ck_assert_int_eq(dlo_open(&options, &c), DLO_ERR_INVALID);
    ck_assert_str_eq(dlo_last_error(NULL), "dlo_open: DLO_MODE is 'On', not off, shadow or on");
    unsetenv("DLO_MODE");
    for (size_t i = 0; i < ARRAY_SIZE(bad_names); i++) {
        options.name = bad_names[i];
        ck_assert_int_eq(dlo_open(&options, &c), DLO_ERR_INVALID);
    }
    options.name = NULL;
    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[108] = '\0';
    options.socket = path;
    ck_assert_int_eq(dlo_open(&options, &c), DLO_ERR_TOO_LONG);
    options.socket = fake->path;
    options.policy = DLO_POLICY_DEMAND;
    ck_assert_int_eq(dlo_open(&options, &c), DLO_ERR_UNSUPPORTED);
    options.policy = 0;
    options.min_free = 1.5;
    ck_assert_int_eq(dlo_open(&options, &c), DLO_ERR_INVALID);
    options.min_free = -1;
    options.size = 0;
    ck_assert_int_eq(dlo_open(&options, &c), DLO_ERR_INVALID);
    ck_assert_ptr_null(c);
}
END_TEST

START_TEST(structs_of_older_callers_work)
{
    struct dlo_boundary b = boundary(8 * GB);
    struct {
        struct dlo_answer a;
    } out;

    memset(&out, 0x5a, sizeof(out));
    options.size = offsetof(struct dlo_options, policy);
    options.min_free = 7; /* not read */
    open_client();
    b.size = offsetof(struct dlo_boundary, free);
    out.a.size = offsetof(struct dlo_answer, free);
    ck_assert_int_eq(dlo_ask(c, &b, &out.a), 0);
    ck_assert_int_eq(out.a.reason, DLO_REASON_TELEMETRY_UNAVAILABLE);
    ck_assert_uint_eq(out.a.cached, 8 * GB);
    ck_assert_uint_eq(out.a.size, offsetof(struct dlo_answer, free));
    ck_assert_uint_eq(out.a.free, 0x5a5a5a5a5a5a5a5aull);
    out.a.size = 1;
    ck_assert_int_eq(dlo_ask(c, &b, &out.a), DLO_ERR_INVALID);
    ck_assert_uint_eq(info().decisions, 1);
}
END_TEST

START_TEST(folder_that_others_may_write_is_not_trusted)
{
    ck_assert_int_eq(chmod(fake->dir, 0777), 0);
    open_client();
    ck_assert_int_eq(ask(GB).cause, DLO_CAUSE_REFUSED);
    ck_assert_int_eq(info().last_link_error, DLO_ERR_NOT_TRUSTED);
    ck_assert_uint_eq(fake_read(fake, &fake->accepts), 0);
}
END_TEST

START_TEST(child_of_a_fork_is_inert_and_leaves_the_session)
{
    struct dlo_answer a = DLO_ANSWER_INIT;
    struct dlo_boundary b = boundary(GB);
    struct dlo_info i = DLO_INFO_INIT;
    int status;
    pid_t pid;

    open_client();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    pid = fork();
    if (pid == 0) {
        bool ok = dlo_attach(c, "b", GB) == DLO_ERR_FORKED && dlo_ask(c, &b, &a) == DLO_ERR_FORKED;

        ok = ok && a.decision == DLO_DECISION_RELEASE &&
             a.reason == DLO_REASON_TELEMETRY_UNAVAILABLE;
        ok = ok && dlo_released(c, 1, 1, 1) == DLO_ERR_FORKED &&
             dlo_get_info(c, &i) == DLO_ERR_FORKED;
        ok = ok && strstr(dlo_last_error(c), "parent") != NULL;
        dlo_close(c);
        _exit(ok ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(ask(GB).cause, 0);
    ck_assert_uint_eq(ask(GB).stager_count, 1);
    ck_assert_uint_eq(fake_read(fake, &fake->hellos), 1);
}
END_TEST

static void *ask_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < 200; i++)
        ck_assert_int_ne(ask(GB).decision, 0);
    return NULL;
}

START_TEST(eight_threads_share_a_handle)
{
    pthread_t threads[8];

    options.deadline_ms = 10000;
    open_client();
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_many, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(info().decisions, 1600);
    ck_assert_uint_eq(fake_read(fake, &fake->asks), 1600);
}
END_TEST

/* The log function is called with the lock held: a host that hangs there blocks nobody else. */
static int log_gate[2], log_entered[2];

static void hang_in_log(void *arg, int32_t level, const char *text)
{
    char byte = 0;

    (void)arg, (void)text;
    ck_assert_int_eq(level, DLO_LOG_DEBUG);
    if (atomic_load(&fake->behaviour) != FAKE_CLOSE_ON_ASK)
        return;
    ck_assert_int_eq(write(log_entered[1], &byte, 1), 1);
    ck_assert_int_eq(read(log_gate[0], &byte, 1), 1);
}

static void *ask_once(void *arg)
{
    *(struct dlo_answer *)arg = ask(GB);
    return NULL;
}

START_TEST(lock_held_by_another_thread_counts_against_the_deadline)
{
    struct dlo_answer first, second;
    uint64_t began, took;
    pthread_t thread;
    char byte = 0;

    ck_assert_int_eq(pipe(log_gate) | pipe(log_entered), 0);
    options.log = hang_in_log;
    open_client();
    atomic_store(&fake->behaviour, FAKE_CLOSE_ON_ASK);
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_once, &first), 0);
    ck_assert_int_eq(read(log_entered[0], &byte, 1), 1);
    began = conn_now_ns();
    second = ask(GB);
    took = conn_now_ns() - began;
    ck_assert_int_eq(write(log_gate[1], &byte, 1), 1);
    pthread_join(thread, NULL);
    ck_assert_uint_ge(took, 240000000ull);
    ck_assert_uint_le(took, 250000000ull + SLACK);
    ck_assert_int_eq(second.cause, DLO_CAUSE_LOCKED);
    ck_assert_int_eq(second.decision, DLO_DECISION_RELEASE);
    ck_assert_int_eq(second.reason, DLO_REASON_TELEMETRY_UNAVAILABLE);
    ck_assert_int_eq(first.cause, DLO_CAUSE_BROKEN);
    ck_assert_uint_eq(info().local[DLO_CAUSE_LOCKED], 1);
}
END_TEST

START_TEST(errno_stays_and_words_are_static)
{
    open_client();
    fake_stop(fake);
    errno = 77;
    ask(GB);
    ask(GB);
    dlo_attach(c, "/", 1);
    ck_assert_int_eq(errno, 77);
    fake_start(fake);
    ck_assert_str_eq(dlo_strerror(0), "success");
    ck_assert_str_eq(dlo_strerror(DLO_ERR_FORKED), "the handle belongs to the parent process");
    ck_assert_str_eq(dlo_reason_name(DLO_REASON_CACHED_OVER_BUDGET), "cached_over_budget");
    ck_assert_str_eq(dlo_decision_name(99), "-");
    ck_assert_str_eq(dlo_cause_name(DLO_CAUSE_LOCKED), "locked");
    ck_assert_int_eq(dlo_attach(NULL, "a", 1), DLO_ERR_INVALID);
    dlo_close(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("client");
    TCase *t = tcase_create("with a daemon");
    TCase *inert = tcase_create("inert");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, daemon_answers_with_every_input);
    tcase_add_test(t, hello_carries_the_options);
    tcase_add_test(t, forced_releases_never_wait_and_all_arrive);
    tcase_add_test(t, daemons_quota_undoes_an_attach);
    tcase_add_test(t, warmup_windows_do_not_nest);
    tcase_add_test(t, read_memory_supplies_the_pair);
    tcase_add_test(t, mode_off_opens_nothing_and_keeps);
    tcase_add_loop_test(t, shadow_keeps_and_says_what_it_would, 0, 2);
    tcase_add_loop_test(t, a_number_that_was_not_read_is_none, 0, 2);
    tcase_add_test(t, mode_off_at_the_daemon_keeps_too);
    tcase_add_test(t, structs_of_older_callers_work);
    tcase_add_test(t, folder_that_others_may_write_is_not_trusted);
    tcase_add_test(t, child_of_a_fork_is_inert_and_leaves_the_session);
    tcase_add_test(t, eight_threads_share_a_handle);
    tcase_add_test(t, lock_held_by_another_thread_counts_against_the_deadline);
    tcase_add_test(t, errno_stays_and_words_are_static);
    tcase_set_timeout(t, 30);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(inert, start_alone, stop_alone);
    tcase_add_test(inert, bad_options_are_refused_with_a_text);
    suite_add_tcase(s, inert);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
