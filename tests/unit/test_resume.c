/* SPDX-License-Identifier: Apache-2.0 */
/* The library when its daemon is away, hung, broken, unwilling or back again (R28, R29). */
#include <dlo/dlo.h>

#include <check.h>
#include <sched.h>
#include <stdlib.h>

#include "client/lib/conn.h"
#include "tests/unit/fake_daemon.h"

#define GB       1000000000ull
#define MS       1000000ull
#define DEADLINE (250 * MS)
#define SLACK    (250 * MS) /* of a busy machine, on top of a deadline */

static struct fake *fake;
static struct dlo_options options;
static struct dlo_client *c;

static void start(void)
{
    unsetenv("DLO_MODE");
    fake = fake_new();
    options = (struct dlo_options)DLO_OPTIONS_INIT;
    options.name = "w1";
    options.socket = fake->path;
    c = NULL;
}

static void stop(void)
{
    dlo_close(c);
    fake_free(fake);
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

static void wait_connected(void)
{
    uint64_t until = conn_now_ns() + 5000 * MS;

    while (!info().connected) {
        ck_assert_uint_lt(conn_now_ns(), until);
        sched_yield();
    }
}

static struct dlo_answer ask_at(uint64_t cached, uint64_t free_bytes)
{
    struct dlo_boundary b = DLO_BOUNDARY_INIT;
    struct dlo_answer a = DLO_ANSWER_INIT;

    b.reserved = cached + 2 * GB;
    b.allocated = 2 * GB;
    b.free = free_bytes;
    b.total = 100 * GB;
    ck_assert_int_eq(dlo_ask(c, &b, &a), 0);
    return a;
}

static struct dlo_answer ask(uint64_t cached)
{
    return ask_at(cached, 50 * GB);
}

START_TEST(without_a_daemon_answers_are_those_of_the_core)
{
    static const uint64_t cached[] = {GB, GB, 2 * GB, 3 * GB, 3 * GB + 1, 30 * GB, 0};
    const struct policy_settings settings = {.margin = 1.25,
                                             .cap_fraction = 0.25,
                                             .min_free = 0.05,
                                             .policy = POLICY_LEARNED,
                                             .mode = MODE_ON};
    const struct policy_choice choice = {0};
    struct policy_session session;
    struct policy_notice notice;

    policy_session_init(&session, 0, &choice, NULL);
    open_client();
    for (size_t i = 0; i < ARRAY_SIZE(cached); i++) {
        uint64_t free_bytes = i == 1 ? GB : 50 * GB;
        struct boundary b = {.reserved = opt_u64(cached[i] + 2 * GB),
                             .allocated = opt_u64(2 * GB),
                             .free = opt_u64(free_bytes),
                             .total = opt_u64(100 * GB)};
        struct dlo_answer a = ask_at(cached[i], free_bytes);
        struct answer want;

        policy_decide(&settings, &session, &b, NULL, NULL, &want, &notice);
        ck_assert_int_eq(a.decision, (int)want.decision);
        ck_assert_int_eq(a.reason, (int)want.reason);
        ck_assert_uint_eq(a.budget, want.budget.v);
        ck_assert_uint_eq(a.peak, want.peak);
        ck_assert_uint_eq(a.n, want.n);
        ck_assert_int_eq(a.cause, DLO_CAUSE_NO_DAEMON);
    }
    ck_assert_uint_eq(info().local[DLO_CAUSE_NO_DAEMON], ARRAY_SIZE(cached));
    ck_assert_int_eq(info().connected, 0);
    ck_assert_int_eq(info().last_link_error, DLO_ERR_NO_DAEMON);
    ck_assert_int_eq(dlo_attach(c, "a", UINT64_MAX), 0);
    ck_assert_int_eq(dlo_attach(c, "b", 1), DLO_ERR_OVERFLOW);
}
END_TEST

START_TEST(ledger_has_a_limit_without_a_daemon_too)
{
    char id[16];

    open_client();
    for (int i = 0; i < 4096; i++) {
        snprintf(id, sizeof(id), "s%d", i);
        ck_assert_int_eq(dlo_attach(c, id, 1), 0);
    }
    ck_assert_int_eq(dlo_attach(c, "more", 1), DLO_ERR_LIMIT);
    ck_assert_uint_eq(info().stager_count, 4096);
}
END_TEST

START_TEST(hung_daemon_costs_one_deadline_and_then_nothing)
{
    uint64_t began, took;
    struct dlo_answer a;

    fake_start(fake);
    open_client();
    atomic_store(&fake->behaviour, FAKE_SILENT_ASK);
    began = conn_now_ns();
    a = ask(GB);
    took = conn_now_ns() - began;
    ck_assert_uint_ge(took, DEADLINE - 10 * MS);
    ck_assert_uint_le(took, DEADLINE + SLACK);
    ck_assert_int_eq(a.cause, DLO_CAUSE_DEADLINE);
    ck_assert_int_eq(a.reason, DLO_REASON_CACHED_OVER_BUDGET);
    began = conn_now_ns();
    a = ask(GB);
    took = conn_now_ns() - began;
    ck_assert_int_eq(a.cause, DLO_CAUSE_BACK_OFF);
    ck_assert_int_eq(a.decision, DLO_DECISION_RETAIN); /* it learned from the answer before */
    ck_assert_uint_le(took, 50 * MS);
    ck_assert_int_eq(info().last_link_error, DLO_ERR_TIMEOUT);
    fake_stop(fake);
}
END_TEST

START_TEST(daemon_that_greets_late_is_used_when_it_does)
{
    uint64_t began = conn_now_ns(), took;

    fake_start(fake);
    atomic_store(&fake->behaviour, FAKE_SILENT);
    open_client();
    took = conn_now_ns() - began;
    ck_assert_uint_le(took, DEADLINE + SLACK);
    began = conn_now_ns();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    ck_assert_int_ne(ask(GB).cause, 0);
    ck_assert_uint_le(conn_now_ns() - began, 50 * MS);
    fake_stop(fake);
    atomic_store(&fake->behaviour, FAKE_NORMAL);
    fake_start(fake);
    wait_connected();
    ck_assert_int_eq(ask(GB).cause, 0);
    ck_assert_uint_eq(ask(GB).n, 3);
    fake_stop(fake);
}
END_TEST

START_TEST(daemon_that_closes_in_an_ask_is_answered_for)
{
    fake_start(fake);
    open_client();
    atomic_store(&fake->behaviour, FAKE_CLOSE_ON_ASK);
    ck_assert_int_eq(ask(GB).cause, DLO_CAUSE_BROKEN);
    ck_assert_int_eq(ask(GB).cause, DLO_CAUSE_BACK_OFF);
    ck_assert_uint_eq(info().local[DLO_CAUSE_BROKEN], 1);
    fake_stop(fake);
}
END_TEST

START_TEST(refused_session_decides_locally)
{
    fake_start(fake);
    atomic_store(&fake->behaviour, FAKE_REFUSE);
    options.policy = DLO_POLICY_NEVER;
    open_client();
    ck_assert_int_eq(ask(GB).cause, DLO_CAUSE_REFUSED);
    ck_assert_int_eq(ask(GB).reason, DLO_REASON_WITHIN_BUDGET); /* R11a: not `never` */
    ck_assert_int_eq(info().last_link_error, DLO_ERR_POLICY_NOT_ALLOWED);
    ck_assert_str_eq(info().last_link_text, "not here");
    ck_assert_uint_eq(fake_read(fake, &fake->hellos), 1);
    fake_stop(fake);
}
END_TEST

START_TEST(restart_costs_no_release_and_loses_nothing)
{
    struct dlo_answer a;
    uint64_t session;

    fake_start(fake);
    open_client();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    ck_assert_int_eq(dlo_attach(c, "b", 2 * GB), 0);
    ck_assert_int_eq(dlo_warmup_begin(c), 0);
    ck_assert_int_eq(ask(8 * GB).decision, DLO_DECISION_RELEASE);
    ck_assert_int_eq(dlo_warmup_end(c), 0);
    ck_assert_int_eq(dlo_released(c, 2 * GB, GB, 10), 0);
    session = ask(8 * GB).session;
    fake_stop(fake);
    a = ask(9 * GB); /* notices, and decides as the daemon would have */
    ck_assert_int_eq(a.cause, DLO_CAUSE_BROKEN);
    ck_assert_int_eq(a.decision, DLO_DECISION_RETAIN);
    fake->last_number = 40;
    fake_start(fake);
    wait_connected();
    pthread_mutex_lock(&fake->mutex);
    ck_assert(fake->hello.has_state);
    ck_assert_uint_eq(fake->hello.state.peak, 9 * GB);
    ck_assert_uint_eq(fake->hello.state.n, 3);
    ck_assert(fake->hello.state.warmup_ended);
    ck_assert_uint_eq(fake->hello.state.counts.retained, 2);
    ck_assert_uint_eq(fake->hello.state.counts.cold_start_releases, 1);
    ck_assert_uint_eq(fake->hello.state.counts.local[CAUSE_BROKEN], 1);
    ck_assert_uint_eq(fake->hello.state.residue.v, GB);
    ck_assert_uint_eq(fake->stagers, 2);
    ck_assert_uint_eq(fake->staged_bytes, 3 * GB);
    pthread_mutex_unlock(&fake->mutex);
    a = ask(10 * GB);
    ck_assert_int_eq(a.cause, 0);
    ck_assert_int_eq(a.decision, DLO_DECISION_RETAIN);
    ck_assert_uint_eq(a.n, 4);
    ck_assert_uint_eq(a.peak, 10 * GB);
    ck_assert_uint_eq(a.session, 41);
    ck_assert_uint_ne(a.session, session);
    ck_assert_uint_eq(info().reconnects, 1);
    fake_stop(fake);
}
END_TEST

/* What happens between hello and welcome is told by differences and one resume. */
START_TEST(changes_during_the_handshake_are_resumed)
{
    fake_start(fake);
    open_client();
    ck_assert_int_eq(dlo_attach(c, "a", GB), 0);
    ck_assert_int_eq(dlo_attach(c, "gone", GB), 0);
    ck_assert_int_eq(dlo_attach(c, "again", GB), 0);
    fake_stop(fake);
    ask(8 * GB);
    pthread_mutex_lock(&fake->mutex); /* the daemon accepts, and stops there */
    fake_start(fake);
    while (atomic_load(&fake->connects) < 2) {
        ck_assert_int_eq(info().connected, 0);
        sched_yield();
    }
    ck_assert_int_eq(dlo_detach(c, "gone"), 0);
    ck_assert_int_eq(dlo_detach(c, "again"), 0);
    ck_assert_int_eq(dlo_attach(c, "again", 5 * GB), 0);
    ck_assert_int_eq(dlo_set_peak(c, 7 * GB), 0);
    pthread_mutex_unlock(&fake->mutex);
    wait_connected();
    fake_wait(fake, &fake->resumes, 1);
    ck_assert_int_eq(dlo_attach(c, "last", GB), 0);
    ck_assert_uint_eq(info().staged_bytes, 7 * GB);
    pthread_mutex_lock(&fake->mutex);
    ck_assert_uint_eq(fake->hello.state.peak, 8 * GB);
    ck_assert_uint_eq(fake->resumed.peak, 7 * GB);
    ck_assert_uint_eq(fake->resumes, 1);
    ck_assert_uint_eq(fake->stagers, 3);
    ck_assert_uint_eq(fake->staged_bytes, 7 * GB);
    pthread_mutex_unlock(&fake->mutex);
    ck_assert_uint_eq(info().peak, 7 * GB);
    ck_assert_int_eq(ask(8 * GB).cause, 0);
    fake_stop(fake);
}
END_TEST

START_TEST(hundreds_of_stagers_come_back_through_the_window)
{
    char id[16];

    open_client();
    for (int i = 0; i < 1000; i++) {
        snprintf(id, sizeof(id), "s%d", i);
        ck_assert_int_eq(dlo_attach(c, id, 1), 0);
    }
    fake_start(fake);
    wait_connected();
    ck_assert_uint_eq(fake_read(fake, &fake->attaches), 1000);
    ck_assert_uint_eq(ask(GB).stager_count, 1000);
    ck_assert_int_eq(ask(GB).cause, 0);
    fake_stop(fake);
}
END_TEST

START_TEST(quota_of_the_new_daemon_leaves_the_rest_local)
{
    char id[16];

    atomic_store(&fake->stager_limit, 100);
    open_client();
    for (int i = 0; i < 500; i++) {
        snprintf(id, sizeof(id), "s%d", i);
        ck_assert_int_eq(dlo_attach(c, id, 1), 0);
    }
    fake_start(fake);
    wait_connected();
    ck_assert_uint_le(fake_read(fake, &fake->attaches), 100 + 64);
    ck_assert_uint_eq(info().stager_count, 500);
    for (int i = 0; i < 500; i++) {
        snprintf(id, sizeof(id), "s%d", i);
        ck_assert_int_eq(dlo_detach(c, id), 0);
    }
    ck_assert_uint_eq(fake_read(fake, &fake->detaches), 100);
    ck_assert_int_eq(ask(GB).cause, 0);
    fake_stop(fake);
}
END_TEST

/* A daemon that does not read fills the window; nothing waits, and the next ask finds it out. */
START_TEST(hung_daemon_does_not_stop_forced_releases)
{
    uint64_t began;

    fake_start(fake);
    open_client();
    pthread_mutex_lock(&fake->mutex);
    began = conn_now_ns();
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(dlo_forced(c, DLO_FORCE_FAILURE, NULL), 0);
    ck_assert_uint_le(conn_now_ns() - began, 100 * MS);
    began = conn_now_ns();
    ck_assert_int_eq(ask(GB).cause, DLO_CAUSE_DEADLINE);
    ck_assert_uint_le(conn_now_ns() - began, DEADLINE + SLACK);
    pthread_mutex_unlock(&fake->mutex);
    wait_connected();
    ck_assert_uint_eq(ask(GB).n, 502);
    ck_assert_int_eq(ask(GB).cause, 0);
    ck_assert_uint_eq(info().forced[DLO_FORCE_FAILURE], 500);
    fake_stop(fake);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("resume");
    TCase *t = tcase_create("failing daemons");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, without_a_daemon_answers_are_those_of_the_core);
    tcase_add_test(t, ledger_has_a_limit_without_a_daemon_too);
    tcase_add_test(t, hung_daemon_costs_one_deadline_and_then_nothing);
    tcase_add_test(t, daemon_that_greets_late_is_used_when_it_does);
    tcase_add_test(t, daemon_that_closes_in_an_ask_is_answered_for);
    tcase_add_test(t, refused_session_decides_locally);
    tcase_add_test(t, restart_costs_no_release_and_loses_nothing);
    tcase_add_test(t, changes_during_the_handshake_are_resumed);
    tcase_add_test(t, hundreds_of_stagers_come_back_through_the_window);
    tcase_add_test(t, quota_of_the_new_daemon_leaves_the_rest_local);
    tcase_add_test(t, hung_daemon_does_not_stop_forced_releases);
    tcase_set_timeout(t, 30);
    suite_add_tcase(s, t);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
