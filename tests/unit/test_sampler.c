/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler on a real loop. Its probe is this program again, run with --probe: the environment
 * says how it behaves, and it notes each start and each request in a file. */
#include "daemon/sampler.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <uv.h>

#include "daemon/log.h"
#include "daemon/telemetry/telemetry.h"
#include "tests/unit/fake_probe.h"

#define MS         UINT64_C(1000000)
#define GIVE_UP_MS 20000 /* no test takes that long on a machine that is alive */
#define SELF       ""    /* this program, as it was called: valgrind is behind /proc/self/exe */
#define WAITS      50

/* ---- the fixture ---- */

struct waiter {
    struct sample_wait wait;
    bool is_done, has_sample;
    uint64_t told_ns;
    struct sample sample;
};

static uv_loop_t loop;
static struct config config;
static struct sampler *sampler;
static struct waiter waiters[WAITS];
static int devices, samples, missing, idles, told;
static struct device_info last_device;
static struct sample last_sample;
static bool is_inside, close_at_told;
static char notes_path[64], notes[4096];

static void on_device(void *arg, const struct device_info *info)
{
    ck_assert_ptr_eq(arg, &loop);
    last_device = *info;
    devices++;
}

static void on_sample(void *arg, const struct sample *sample)
{
    ck_assert_ptr_eq(arg, &loop);
    last_sample = *sample;
    if (sample->free.has)
        samples++;
    else
        missing++;
}

static void on_idle(void *arg)
{
    ck_assert_ptr_eq(arg, &loop);
    idles++;
}

static void on_done(struct sample_wait *wait, const struct sample *sample)
{
    struct waiter *w = container_of(wait, struct waiter, wait);

    ck_assert(!is_inside);
    ck_assert(!w->is_done);
    ck_assert_int_gt(samples + missing, 0); /* the sample was told first */
    w->is_done = true;
    w->has_sample = sample != NULL;
    w->told_ns = uv_hrtime();
    if (sample)
        w->sample = *sample;
    told++;
    if (close_at_told) {
        sampler_close(sampler);
        sampler = NULL;
    }
}

static void start(const char *probe_mode, const char *program)
{
    const struct sampler_callbacks callbacks = {
        .device = on_device, .sample = on_sample, .idle = on_idle, .arg = &loop};
    int fd;

    signal(SIGPIPE, SIG_IGN);
    devices = samples = missing = idles = told = 0;
    close_at_told = false;
    snprintf(notes_path, sizeof(notes_path), "/tmp/test_sampler.XXXXXX");
    fd = mkostemp(notes_path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    close(fd);
    setenv("FAKE_NOTES", notes_path, 1);
    setenv("FAKE_PROBE", probe_mode, 1);
    unsetenv("FAKE_SLOW_MS");
    config_defaults(&config);
    snprintf(config.gpu, sizeof(config.gpu), "0");
    for (int i = 0; i < WAITS; i++) {
        memset(&waiters[i], 0, sizeof(waiters[i]));
        waiters[i].wait.done = on_done;
        list_init(&waiters[i].wait.link);
    }
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    sampler = sampler_new(&loop, &config, *program ? program : program_invocation_name, &callbacks);
    ck_assert_ptr_nonnull(sampler);
}

static void start_good(void)
{
    start("good", SELF);
}

static void finish(void)
{
    sampler_close(sampler);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0); /* no handle is left */
    unlink(notes_path);
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

/* Runs the loop until the condition holds (true) or the time is over (false). */
/* A turn of the loop that runs timers goes on to wait for the next event, so a tick ends each wait
 * soon enough to look again. */
static bool run_until(bool (*holds)(void), uint64_t limit_ms)
{
    uint64_t give_up_ns = uv_hrtime() + limit_ms * MS;
    bool is_over = false;
    uv_timer_t tick;

    uv_timer_init(&loop, &tick);
    uv_update_time(&loop);
    uv_timer_start(&tick, on_tick, 1, 1);
    while (!holds() && !is_over) {
        uv_run(&loop, UV_RUN_ONCE);
        is_over = uv_hrtime() > give_up_ns;
    }
    is_over = !holds();
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    return !is_over;
}

static const char *read_notes(void)
{
    FILE *f = fopen(notes_path, "re");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(notes, 1, sizeof(notes) - 1, f);
    notes[n] = '\0';
    fclose(f);
    return notes;
}

static int noted(char event)
{
    int count = 0;

    for (const char *p = read_notes(); *p; p++)
        count += *p == event;
    return count;
}

static const char *described(void)
{
    static char text[512];

    sampler_describe(sampler, text, sizeof(text));
    return text;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

#define assert_starts(text, prefix)                                                                \
    ck_assert_msg(starts_with(text, prefix), "\"%s\" does not start with \"%s\"", text, prefix)

static void wait_n(int first, int count)
{
    is_inside = true;
    for (int i = first; i < first + count; i++)
        sampler_wait(sampler, &waiters[i].wait, uv_hrtime());
    is_inside = false;
}

static bool has_device(void)
{
    return devices > 0;
}
static bool has_sample(void)
{
    return samples > 0;
}
static bool has_two_samples(void)
{
    return samples > 1;
}
static bool has_idle(void)
{
    return idles > 0;
}
static bool one_told(void)
{
    return told >= 1;
}
static bool all_told(void)
{
    return told >= WAITS;
}
static bool is_waiting(void)
{
    return starts_with(described(), "waiting");
}
static bool is_running(void)
{
    return strcmp(described(), "running") == 0;
}
static bool is_closing(void)
{
    return strcmp(described(), "closing") == 0;
}
static bool sample_asked(void)
{
    return noted('s') > 0;
}
static bool started_twice(void)
{
    return noted('+') > 1;
}
static bool waits_longer(void)
{
    return starts_with(described(), "waiting 2s");
}

/* ---- the tests ---- */

START_TEST(one_sample_serves_all_who_wait)
{
    struct sample newest;
    uint64_t begun;

    start_good();
    config.sample_timeout = GIVE_UP_MS * MS; /* a probe has to start first */
    config.sample_max_age = GIVE_UP_MS * MS;
    begun = uv_hrtime();
    wait_n(0, WAITS);
    ck_assert(run_until(all_told, GIVE_UP_MS));
    for (int i = 0; i < WAITS; i++) {
        ck_assert(waiters[i].has_sample);
        ck_assert_uint_eq(waiters[i].sample.free.v, 1);
        ck_assert_uint_eq(waiters[i].sample.total.v, TOTAL);
        ck_assert_int_eq(waiters[i].sample.source, SOURCE_NVML);
    }
    ck_assert_int_eq(samples, 1);
    ck_assert_int_eq(missing, 0);
    ck_assert(sampler_newest(sampler, uv_hrtime(), &newest));
    ck_assert_uint_eq(newest.free.v, 1);
    ck_assert_uint_le(newest.age_ns, uv_hrtime() - begun);
    /* nobody wants it any more */
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    ck_assert_str_eq(read_notes(), "+is-");
    finish();
}
END_TEST

START_TEST(identify_runs_once_and_exits)
{
    start_good();
    ck_assert_str_eq(described(), "off");
    ck_assert(!sampler_device(sampler)->known);
    sampler_identify(sampler);
    ck_assert_int_eq(devices, 0);
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    ck_assert_int_eq(devices, 1);
    ck_assert_str_eq(last_device.uuid, "GPU-fake");
    ck_assert_str_eq(last_device.name, "Fake??GPU"); /* no control characters */
    ck_assert(last_device.minor.has);
    ck_assert_uint_eq(last_device.minor.v, 7);
    ck_assert_uint_eq(last_device.total.v, TOTAL);
    ck_assert(sampler_device(sampler)->known);
    ck_assert_str_eq(read_notes(), "+i-");
    ck_assert_str_eq(described(), "off");
    ck_assert_int_eq(idles, 1);
    finish();
}
END_TEST

START_TEST(samples_come_by_themselves_while_wanted)
{
    uint64_t begun;

    start_good();
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    begun = uv_hrtime();
    ck_assert(run_until(has_two_samples, GIVE_UP_MS));
    ck_assert_uint_ge(uv_hrtime() - begun, config.sample_interval / 2);
    ck_assert_str_eq(described(), "running");
    ck_assert_int_eq(idles, 0);
    sampler_set_wanted(sampler, false);
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    ck_assert_int_eq(noted('-'), 1);
    /* and comes back without a back-off */
    samples = 0;
    begun = uv_hrtime();
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    ck_assert_uint_lt(uv_hrtime() - begun, 900 * MS);
    ck_assert_int_eq(devices, 2);
    finish();
}
END_TEST

START_TEST(a_wait_ends_in_time_without_an_answer)
{
    uint64_t begun;

    start("hang", SELF);
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(sample_asked, GIVE_UP_MS));
    begun = uv_hrtime();
    wait_n(0, WAITS);
    ck_assert(run_until(all_told, GIVE_UP_MS));
    for (int i = 0; i < WAITS; i++) {
        ck_assert(!waiters[i].has_sample);
        ck_assert_uint_ge(waiters[i].told_ns - begun, config.sample_timeout);
        ck_assert_uint_lt(waiters[i].told_ns - begun, config.sample_timeout + 250 * MS);
    }
    ck_assert_int_ge(missing, 1);
    ck_assert_int_le(missing, 3); /* one a batch, not one a wait */
    ck_assert_int_eq(samples, 0);
    finish();
}
END_TEST

START_TEST(a_starting_probe_is_waited_for)
{
    uint64_t begun;

    start("hang_start", SELF);
    sampler_set_wanted(sampler, true);
    begun = uv_hrtime();
    wait_n(0, 1);
    ck_assert(run_until(one_told, GIVE_UP_MS));
    ck_assert(!waiters[0].has_sample);
    ck_assert_uint_ge(waiters[0].told_ns - begun, config.sample_timeout);
    ck_assert_uint_lt(waiters[0].told_ns - begun, config.sample_timeout + 250 * MS);
    ck_assert_str_eq(described(), "starting");
    finish();
}
END_TEST

START_TEST(a_sample_too_old_on_arrival_decides_nothing)
{
    start_good();
    setenv("FAKE_SLOW_MS", "80", 1);
    config.sample_timeout = 200 * MS;
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(is_running, GIVE_UP_MS));
    wait_n(0, 1);
    ck_assert(run_until(one_told, GIVE_UP_MS));
    ck_assert(!waiters[0].has_sample);
    ck_assert_int_ge(samples, 1); /* they came, and were told to the daemon */
    ck_assert_int_ge(noted('s'), 2);
    config.sample_max_age = GIVE_UP_MS * MS;
    config.sample_timeout = GIVE_UP_MS * MS;
    wait_n(1, 1);
    told = 0;
    ck_assert(run_until(one_told, GIVE_UP_MS));
    ck_assert(waiters[1].has_sample);
    ck_assert_uint_ge(waiters[1].sample.age_ns, 80 * MS); /* from when it was asked for */
    finish();
}
END_TEST

START_TEST(a_hung_probe_is_killed_and_started_again_later)
{
    uint64_t begun;

    start("hang", SELF);
    config.probe_timeout = 300 * MS;
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(is_waiting, GIVE_UP_MS));
    assert_starts(described(), "waiting 1s: failed: hung");
    ck_assert_int_eq(noted('+'), 1);
    begun = uv_hrtime();
    /* meanwhile nobody waits in vain */
    wait_n(0, 1);
    ck_assert_int_eq(told, 0);
    ck_assert(run_until(one_told, GIVE_UP_MS));
    ck_assert_uint_lt(uv_hrtime() - begun, config.sample_timeout);
    ck_assert(!waiters[0].has_sample);
    setenv("FAKE_PROBE", "good", 1);
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    ck_assert_uint_ge(uv_hrtime() - begun, 800 * MS);
    ck_assert_int_eq(noted('+'), 2);
    finish();
}
END_TEST

/* Words of the exit, of the reply, of a signal; and back-off doubles. */
static const struct {
    const char *mode, *program, *described;
} failures[] = {
    {"no_driver", SELF, "waiting 1s: no_driver: cuInit: no driver here"},
    {"fail_sample", SELF, "waiting 1s: no_driver: cuInit: no driver here"},
    {"die", SELF, "waiting 1s: lost: ended with exit code 14"},
    {"short", SELF, "waiting 1s: failed: an answer that is not of this build"},
    {"long", SELF, "waiting 1s: failed: an answer that is not of this build"},
    {"wrong_magic", SELF, "waiting 1s: failed: an answer that is not of this build"},
    {"wrong_seq", SELF, "waiting 1s: failed: an answer that is not of this build"},
    {"good", "/nonexistent/dlod",
     "waiting 1s: failed: /nonexistent/dlod cannot be started: no "
     "such file or directory"},
    {"good", "/bin/false", "waiting 1s: failed: ended with exit code 1"},
};

START_TEST(a_failing_probe_is_described)
{
    start(failures[_i].mode, failures[_i].program);
    sampler_set_wanted(sampler, true);
    wait_n(0, 1);
    ck_assert(run_until(is_waiting, GIVE_UP_MS));
    if (strcmp(failures[_i].program, "/bin/false"))
        ck_assert_str_eq(described(), failures[_i].described);
    else
        assert_starts(described(), "waiting 1s: ");
    ck_assert(run_until(one_told, GIVE_UP_MS));
    ck_assert(!waiters[0].has_sample);
    ck_assert_int_eq(samples, 0);
    finish();
}
END_TEST

START_TEST(back_off_doubles_and_logs_once)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    char text[4096] = "";

    ck_assert_int_ge(fd, 0);
    log_init(fd, LOG_LEVEL_DEBUG);
    start("no_driver", SELF);
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(waits_longer, GIVE_UP_MS));
    ck_assert_int_eq(noted('+'), 2);
    setenv("FAKE_PROBE", "good", 1);
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    log_init(STDERR_FILENO, LOG_LEVEL_INFO);
    ck_assert_int_gt(pread(fd, text, sizeof(text) - 1, 0), 0);
    close(fd);
    ck_assert_ptr_nonnull(strstr(text, "level=warning"));
    ck_assert_ptr_null(strstr(strstr(text, "probe_failed") + 1, "probe_failed"));
    ck_assert_ptr_nonnull(strstr(text, "answers again"));
    finish();
}
END_TEST

START_TEST(a_failed_identify_ends_idle_and_can_be_asked_again)
{
    start("no_driver", SELF);
    sampler_identify(sampler);
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    ck_assert(!sampler_device(sampler)->known);
    ck_assert_str_eq(described(), "off: no_driver: cuInit: no driver here");
    setenv("FAKE_PROBE", "good", 1);
    sampler_identify(sampler);
    ck_assert(run_until(has_device, GIVE_UP_MS));
    ck_assert_int_eq(noted('+'), 2);
    finish();
}
END_TEST

START_TEST(a_probe_that_does_not_exit_is_killed)
{
    uint64_t begun;

    start("stays", SELF);
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    begun = uv_hrtime();
    sampler_set_wanted(sampler, false);
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    ck_assert_uint_ge(uv_hrtime() - begun, 1900 * MS);
    ck_assert_int_eq(noted('-'), 0);
    finish();
}
END_TEST

START_TEST(wanted_again_while_it_closes)
{
    start("lingers", SELF);
    setenv("FAKE_SLOW_MS", "100", 1); /* its driver takes that long to close */
    sampler_set_wanted(sampler, true);
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    sampler_set_wanted(sampler, false);
    ck_assert(run_until(is_closing, GIVE_UP_MS));
    sampler_set_wanted(sampler, true);
    samples = 0;
    ck_assert(run_until(has_sample, GIVE_UP_MS));
    ck_assert_int_eq(idles, 0);
    ck_assert(started_twice());
    finish();
}
END_TEST

START_TEST(a_cancelled_wait_is_not_told)
{
    start_good();
    config.sample_timeout = config.sample_max_age = GIVE_UP_MS * MS;
    wait_n(0, 3);
    sampler_cancel(&waiters[1].wait);
    sampler_cancel(&waiters[1].wait); /* twice is nothing */
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    ck_assert_int_eq(told, 2);
    ck_assert(!waiters[1].is_done);
    sampler_cancel(&waiters[0].wait); /* nor after it was told */
    finish();
}
END_TEST

START_TEST(close_tells_nobody)
{
    start("hang", SELF);
    sampler_set_wanted(sampler, true);
    if (_i)
        ck_assert(run_until(sample_asked, GIVE_UP_MS));
    wait_n(0, WAITS);
    finish();
    ck_assert_int_eq(told, 0);
    ck_assert_int_eq(missing, 0);
}
END_TEST

START_TEST(close_from_inside_a_wait)
{
    start(_i ? "hang" : "good", SELF);
    if (!_i)
        config.sample_timeout = config.sample_max_age = GIVE_UP_MS * MS;
    close_at_told = true;
    sampler_set_wanted(sampler, true);
    wait_n(0, WAITS);
    ck_assert(run_until(one_told, GIVE_UP_MS));
    ck_assert_ptr_null(sampler);
    finish();
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(waiters[0].has_sample, !_i);
}
END_TEST

START_TEST(without_a_probe_every_wait_ends_at_once)
{
    uint64_t begun;

    start_good();
    config.telemetry = BACKEND_WORKER;
    sampler_set_wanted(sampler, true);
    sampler_identify(sampler);
    begun = uv_hrtime();
    wait_n(0, WAITS);
    ck_assert_int_eq(told, 0);
    ck_assert(run_until(all_told, GIVE_UP_MS));
    ck_assert_uint_lt(uv_hrtime() - begun, config.sample_timeout);
    ck_assert_int_eq(missing, 1);
    ck_assert_str_eq(read_notes(), "");
    ck_assert_str_eq(described(), "off");
    sampler_set_wanted(sampler, false);
    ck_assert(run_until(has_idle, GIVE_UP_MS));
    finish();
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("sampler");
    TCase *t = tcase_create("sampler");
    SRunner *r;
    int failed;

    if (argc > 1 && strcmp(argv[1], "--probe") == 0)
        return fake_probe(argc, argv);
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, one_sample_serves_all_who_wait);
    tcase_add_test(t, identify_runs_once_and_exits);
    tcase_add_test(t, samples_come_by_themselves_while_wanted);
    tcase_add_test(t, a_wait_ends_in_time_without_an_answer);
    tcase_add_test(t, a_starting_probe_is_waited_for);
    tcase_add_test(t, a_sample_too_old_on_arrival_decides_nothing);
    tcase_add_test(t, a_hung_probe_is_killed_and_started_again_later);
    tcase_add_loop_test(t, a_failing_probe_is_described, 0, (int)ARRAY_SIZE(failures));
    tcase_add_test(t, back_off_doubles_and_logs_once);
    tcase_add_test(t, a_failed_identify_ends_idle_and_can_be_asked_again);
    tcase_add_test(t, a_probe_that_does_not_exit_is_killed);
    tcase_add_test(t, wanted_again_while_it_closes);
    tcase_add_test(t, a_cancelled_wait_is_not_told);
    tcase_add_loop_test(t, close_tells_nobody, 0, 2);
    tcase_add_loop_test(t, close_from_inside_a_wait, 0, 2);
    tcase_add_test(t, without_a_probe_every_wait_ends_at_once);
    r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
