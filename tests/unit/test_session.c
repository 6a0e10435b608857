/* SPDX-License-Identifier: Apache-2.0 */
/* daemon/session.c and dispatch.c: packets in, packets out. */
#include "daemon/session.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/session_case.h"

#define GB UINT64_C(1000000000)

/* ---- every message in every state ---- */

enum { IN_NEW, IN_WORKER, IN_OBSERVER, IN_WAITING, IN_WATCHER, STATE_COUNT };

static void be_new(void) {}

static void (*const be[STATE_COUNT])(void) = {be_new, be_worker, be_observer, be_waiting,
                                              be_watcher};

#define OK 0
#define BS ERR_BAD_STATE
#define PM ERR_PERMISSION
#define US ERR_UNSUPPORTED

/* A message that is missing here fails the test. */
static const int expected[WIRE_OP_MAX][STATE_COUNT] = {
    /*                    NEW WORKER OBSERVER WAITING WATCHER */
    [WIRE_OP_UNKNOWN] = {BS, US, US, US, US}, /**/
    [WIRE_HELLO] = {OK, BS, BS, BS, BS},      /**/
    [WIRE_ATTACH] = {BS, OK, PM, BS, BS},     /**/
    [WIRE_DETACH] = {BS, OK, PM, BS, BS},     /**/
    [WIRE_SET_PEAK] = {BS, OK, PM, BS, BS},   /**/
    [WIRE_WARMUP] = {BS, OK, PM, BS, BS},     /**/
    [WIRE_BUSY] = {BS, OK, PM, BS, BS},       /**/
    [WIRE_ASK] = {BS, OK, PM, BS, BS},        /**/
    [WIRE_RELEASED] = {BS, OK, PM, BS, BS},   /**/
    [WIRE_RESUME] = {BS, OK, PM, BS, BS},     /**/
    [WIRE_STATUS] = {BS, OK, OK, BS, BS},     /**/
    [WIRE_EVENTS] = {BS, OK, OK, BS, BS},     /**/
    [WIRE_IDLE] = {BS, OK, PM, BS, BS},       /**/
    [WIRE_OOM] = {BS, OK, PM, BS, BS},        /**/
    [WIRE_SET] = {BS, PM, PM, PM, BS},        /* nobody here is an admin */
    [WIRE_LEASE] = {BS, OK, PM, BS, BS},      /**/
    [WIRE_UNLEASE] = {BS, BS, PM, BS, BS},    /* there is none */
    [WIRE_VACATE] = {BS, PM, PM, PM, BS},     /**/
    [WIRE_RECLAIMED] = {BS, OK, PM, BS, BS},  /**/
};

static void check_answer(enum wire_op op, int state, unsigned sent_before)
{
    int want = expected[op][state];

    ck_assert_msg(t.sent == sent_before + 1, "%s in state %d: %u answers", wire_op_word(op), state,
                  t.sent - sent_before);
    ck_assert_uint_eq(t.reply.seq, 9);
    if (want == OK)
        ck_assert_msg(t.reply.body != WIRE_ERROR, "%s in state %d: %s", wire_op_word(op), state,
                      t.reply.u.error.text);
    else
        ck_assert_msg(t.reply.body == WIRE_ERROR && t.reply.u.error.code == want,
                      "%s in state %d: body %d code %d, expected %d", wire_op_word(op), state,
                      t.reply.body, t.reply.u.error.code, want);
    /* an error ends a connection only before its hello */
    ck_assert_uint_eq(t.closed, want != OK && state == IN_NEW);
}

START_TEST(a_message_is_allowed_where_the_table_says)
{
    enum wire_op op = (enum wire_op)(_i / STATE_COUNT);
    int state = _i % STATE_COUNT;
    unsigned sent;

    be[state]();
    sent = t.sent;
    if (op == WIRE_OP_UNKNOWN)
        feed_unknown();
    else
        feed_good(op);
    check_answer(op, state, sent);
}
END_TEST

START_TEST(every_message_has_one_row)
{
    for (int op = WIRE_OP_UNKNOWN + 1; op < WIRE_OP_MAX; op++) {
        const struct dispatch_row *row = dispatch_find((enum wire_op)op);

        ck_assert_ptr_nonnull(row);
        ck_assert_int_eq(row->op, op);
    }
    ck_assert_ptr_null(dispatch_find(WIRE_OP_UNKNOWN));
}
END_TEST

/* ---- the life of a session ---- */

START_TEST(a_worker_is_registered_and_wants_the_probe)
{
    feed_good(WIRE_HELLO);
    ck_assert_int_eq(t.reply.body, WIRE_WELCOME);
    ck_assert_uint_eq(t.reply.u.welcome.session, 1);
    ck_assert_uint_eq(t.service.session_count, 1);
    ck_assert(t.sampler.is_wanted);
    close_connection();
    ck_assert_uint_eq(t.service.session_count, 0);
    ck_assert_uint_eq(t.service.connection_count, 0);
    ck_assert(!t.sampler.is_wanted);
    ck_assert(list_empty(&t.service.holders));
}
END_TEST

START_TEST(an_observer_is_not_registered)
{
    be_observer();
    ck_assert_uint_eq(t.service.session_count, 0);
    ck_assert(!t.sampler.is_wanted);
}
END_TEST

START_TEST(the_quotas_of_stagers_are_given_back)
{
    struct wire_request r = good(WIRE_ATTACH);

    t.config.max_stagers_session = 3;
    be_worker();
    for (int i = 0; i < 5; i++) {
        snprintf(r.u.attach.id, sizeof(r.u.attach.id), "s%d", i);
        feed(&r);
    }
    ck_assert_int_eq(t.reply.u.error.code, ERR_LIMIT);
    ck_assert_uint_eq(t.service.stager_count, 3);
    ck_assert_uint_eq(t.session->holder->stagers, 3);
    r.u.attach.staged_bytes = UINT64_MAX;
    feed_good(WIRE_DETACH);
    feed(&r); /* fits the quota, but not 2^64 */
    ck_assert_int_eq(t.reply.u.error.code, ERR_OVERFLOW);
    ck_assert_uint_eq(t.service.stager_count, 2);
    close_connection();
    ck_assert_uint_eq(t.service.stager_count, 0);
}
END_TEST

START_TEST(quotas_of_connections_are_counted)
{
    const struct peer user = {.pid = 8, .uid = 1000}, root = {.pid = 9, .uid = 0};
    struct session *other;

    t.config.max_sessions = 2;
    t.config.root_sessions = 1;
    ck_assert_int_eq(session_new(&t.service, &user, &io, NULL, &other), ERR_BUSY);
    ck_assert_int_eq(session_new(&t.service, &root, &io, NULL, &other), 0);
    session_end(other, 0, "over");
    session_free(other);
    t.config.max_sessions = 10;
    t.config.max_sessions_uid = 1;
    ck_assert_int_eq(session_new(&t.service, &user, &io, NULL, &other), ERR_BUSY);
    ck_assert_uint_eq(t.service.connection_count, 1);
}
END_TEST

START_TEST(too_many_errors_end_it)
{
    struct wire_request r = good(WIRE_DETACH);
    unsigned before;

    be_worker();
    strcpy(r.u.detach.id, "none");
    before = t.sent;
    for (int i = 0; i < 99; i++)
        feed(&r);
    ck_assert_uint_eq(t.closed, 0);
    feed(&r);
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_uint_eq(t.sent, before + 100);
    ck_assert_int_eq(t.session->state, SESSION_CLOSED);
    feed(&r); /* what was in flight is not looked at */
    ck_assert_uint_eq(t.sent, before + 100);
    ck_assert_uint_eq(t.service.rejected, 100);
}
END_TEST

START_TEST(a_send_failure_ends_it_once)
{
    be_worker();
    t.is_deaf = true;
    feed_good(WIRE_ASK);
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_int_eq(t.session->state, SESSION_CLOSED);
    ck_assert_uint_eq(t.service.session_count, 0);
    ck_assert_uint_eq(t.service.stager_count, 0);
    feed_good(WIRE_ASK);
    session_end(t.session, ERR_SHUTDOWN, "again");
    ck_assert_uint_eq(t.closed, 1);
}
END_TEST

START_TEST(a_send_failure_of_an_error_answer_ends_it_once)
{
    static const uint8_t garbage[] = {0xff, 0xff};

    be_worker();
    t.is_deaf = true;
    session_feed(t.session, garbage, sizeof(garbage));
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_uint_eq(t.service.session_count, 0);
}
END_TEST

START_TEST(a_deaf_peer_is_ended_once_at_shutdown)
{
    be_worker();
    t.is_deaf = true;
    session_end(t.session, ERR_SHUTDOWN, "SIGTERM");
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_uint_eq(t.service.session_count, 0);
}
END_TEST

START_TEST(the_end_tells_why_and_closes_once)
{
    be_worker();
    session_end(t.session, ERR_SHUTDOWN, "SIGTERM");
    ck_assert_int_eq(t.reply.u.error.code, ERR_SHUTDOWN);
    ck_assert_uint_eq(t.reply.seq, 0);
    ck_assert_str_eq(t.reply.u.error.text, "SIGTERM");
    session_end(t.session, 0, "again");
    ck_assert_uint_eq(t.closed, 1);
}
END_TEST

START_TEST(bytes_that_are_no_message_are_answered_and_end_it)
{
    uint8_t bytes[LIMIT_MESSAGE_BYTES + 1] = {0xff};

    be_worker();
    session_feed(t.session, bytes, _i == 0 ? sizeof(bytes) : 20);
    ck_assert_int_eq(t.reply.u.error.code, _i == 0 ? ERR_TOO_LONG : ERR_MALFORMED);
    ck_assert_uint_eq(t.reply.seq, 0);
    ck_assert_uint_eq(t.closed, 1);
}
END_TEST

START_TEST(a_field_that_breaks_a_rule_is_named_and_the_session_goes_on)
{
    static const uint8_t bytes[] = {0x08, 9, 0x32, 2, 0x08, 7}; /* warmup.phase = 7 */

    be_worker();
    session_feed(t.session, bytes, sizeof(bytes));
    ck_assert_int_eq(t.reply.u.error.code, ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(t.reply.u.error.text, "warmup.phase"));
    ck_assert_uint_eq(t.closed, 0);
}
END_TEST

START_TEST(a_policy_that_is_not_allowed_opens_no_session)
{
    struct wire_request r = good(WIRE_HELLO);

    r.u.hello.policy = POLICY_NEVER;
    feed(&r);
    ck_assert_int_eq(t.reply.u.error.code, ERR_POLICY_NOT_ALLOWED);
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_uint_eq(t.service.session_count, 0);
}
END_TEST

START_TEST(mode_off_makes_an_observer_of_a_worker)
{
    t.config.mode = MODE_OFF;
    service_apply_config(&t.service);
    feed_good(WIRE_HELLO);
    ck_assert_int_eq(t.reply.u.welcome.mode, MODE_OFF);
    ck_assert_int_eq(t.session->state, SESSION_OBSERVER);
    ck_assert_uint_eq(t.service.session_count, 0);
}
END_TEST

START_TEST(a_peak_is_clamped_to_the_device)
{
    struct wire_request r = good(WIRE_HELLO);

    t.sampler.device.known = true;
    t.sampler.device.total = opt_u64(8 * GB);
    r.u.hello.has_state = true;
    r.u.hello.state.peak = UINT64_MAX;
    r.u.hello.state.n = 4;
    feed(&r);
    ck_assert_uint_eq(t.session->policy.state.peak, 8 * GB);
    r = good(WIRE_SET_PEAK);
    r.u.set_peak.peak = 9 * GB;
    feed(&r);
    ck_assert_uint_eq(t.reply.u.ledger.peak, 8 * GB);
    feed_good(WIRE_ASK);
    ck_assert_uint_eq(t.reply.u.answer.n, 5); /* R29: the count goes on */
}
END_TEST

/* ---- R9: waiting for a sample ---- */

static const struct sample reading = {
    .free = {.has = true, .v = 80}, .total = {.has = true, .v = 400}, .source = SOURCE_NVML};

START_TEST(an_ask_without_a_pair_waits_and_reads_nothing)
{
    be_waiting();
    ck_assert_uint_eq(t.paused, 1);
    ck_assert_ptr_nonnull(t.sampler.waiting);
    t.sampler.newest = reading;
    t.sampler.has_newest = true;
    t.sampler.waiting->done(t.sampler.waiting, &reading);
    ck_assert_int_eq(t.reply.body, WIRE_ANSWER);
    ck_assert_int_eq(t.reply.u.answer.reason, REASON_CACHED_OVER_BUDGET);
    ck_assert_uint_eq(t.reply.seq, 9);
    ck_assert_uint_eq(t.resumed, 1);
    ck_assert_int_eq(t.session->state, SESSION_WORKER);
}
END_TEST

START_TEST(a_sample_that_does_not_come_is_missing_telemetry)
{
    be_waiting();
    t.sampler.waiting->done(t.sampler.waiting, NULL);
    ck_assert_int_eq(t.reply.u.answer.reason, REASON_TELEMETRY_UNAVAILABLE);
    ck_assert_int_eq(t.session->state, SESSION_WORKER);
}
END_TEST

START_TEST(a_fresh_sample_decides_at_once)
{
    struct wire_request r = good(WIRE_ASK);

    be_worker();
    r.u.ask.free = opt_none(); /* a pair with a missing member is none */
    t.sampler.newest = reading;
    t.sampler.newest.age_ns = t.config.sample_max_age;
    t.sampler.has_newest = true;
    feed(&r);
    ck_assert_uint_eq(t.reply.u.answer.free.v, 80);
    ck_assert_ptr_null(t.sampler.waiting);
    t.sampler.newest.age_ns++;
    feed(&r);
    ck_assert_ptr_nonnull(t.sampler.waiting);
}
END_TEST

START_TEST(what_needs_no_sample_does_not_wait)
{
    struct wire_request r = good(WIRE_ASK);

    be_worker();
    r.u.ask.free = r.u.ask.total = opt_none();
    r.u.ask.force = FORCE_FAILURE;
    feed(&r);
    ck_assert_int_eq(t.reply.u.answer.reason, REASON_FORCED);
    r.u.ask.force = FORCE_NONE;
    r.u.ask.reserved = opt_none();
    feed(&r);
    ck_assert_int_eq(t.reply.u.answer.reason, REASON_TELEMETRY_UNAVAILABLE);
    r = good(WIRE_ASK);
    feed(&r);
    ck_assert_int_eq(t.reply.u.answer.reason, REASON_CACHED_OVER_BUDGET);
    t.config.telemetry = BACKEND_WORKER;
    r.u.ask.total = opt_none();
    feed(&r);
    ck_assert_int_eq(t.reply.u.answer.reason, REASON_TELEMETRY_UNAVAILABLE);
    ck_assert_ptr_null(t.sampler.waiting);
}
END_TEST

START_TEST(an_end_while_waiting_answers_nothing_more)
{
    unsigned sent;

    be_waiting();
    sent = t.sent;
    session_end(t.session, 0, "the worker's process is gone");
    ck_assert_uint_eq(t.sent, sent);
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_uint_eq(t.service.session_count, 0);
    ck_assert(!t.sampler.is_wanted);
}
END_TEST

START_TEST(a_peer_that_goes_deaf_while_waiting_ends_once)
{
    be_waiting();
    t.is_deaf = true;
    t.sampler.waiting->done(t.sampler.waiting, NULL);
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_uint_eq(t.resumed, 0);
}
END_TEST

/* ---- those who wait for events ---- */

START_TEST(a_watcher_is_woken_by_the_next_record)
{
    unsigned sent;

    be_watcher();
    sent = t.sent;
    session_wake_watcher(t.session);
    ck_assert_uint_eq(t.sent, sent); /* nothing new */
    journal_append(t.service.journal, "note text=x", 11);
    session_wake_watcher(t.session);
    ck_assert_uint_eq(t.sent, sent + 1);
    ck_assert_uint_eq(t.reply.seq, 8);
    ck_assert_int_eq(t.reply.body, WIRE_EVENTS_PAGE);
    ck_assert_uint_eq(t.reply.u.events.line_count, 1);
    ck_assert(list_empty(&t.session->watch_link));
}
END_TEST

START_TEST(a_watcher_that_ends_leaves_the_list)
{
    be_watcher();
    close_connection();
    ck_assert(list_empty(&t.service.watchers));
}
END_TEST

static void add_tests(TCase *c)
{
    tcase_add_loop_test(c, a_message_is_allowed_where_the_table_says, 0, WIRE_OP_MAX * STATE_COUNT);
    tcase_add_test(c, every_message_has_one_row);
    tcase_add_test(c, a_worker_is_registered_and_wants_the_probe);
    tcase_add_test(c, an_observer_is_not_registered);
    tcase_add_test(c, the_quotas_of_stagers_are_given_back);
    tcase_add_test(c, quotas_of_connections_are_counted);
    tcase_add_test(c, too_many_errors_end_it);
    tcase_add_test(c, a_send_failure_ends_it_once);
    tcase_add_test(c, a_send_failure_of_an_error_answer_ends_it_once);
    tcase_add_test(c, a_deaf_peer_is_ended_once_at_shutdown);
    tcase_add_test(c, the_end_tells_why_and_closes_once);
    tcase_add_loop_test(c, bytes_that_are_no_message_are_answered_and_end_it, 0, 2);
    tcase_add_test(c, a_field_that_breaks_a_rule_is_named_and_the_session_goes_on);
    tcase_add_test(c, a_policy_that_is_not_allowed_opens_no_session);
    tcase_add_test(c, mode_off_makes_an_observer_of_a_worker);
    tcase_add_test(c, a_peak_is_clamped_to_the_device);
    tcase_add_test(c, an_ask_without_a_pair_waits_and_reads_nothing);
    tcase_add_test(c, a_sample_that_does_not_come_is_missing_telemetry);
    tcase_add_test(c, a_fresh_sample_decides_at_once);
    tcase_add_test(c, what_needs_no_sample_does_not_wait);
    tcase_add_test(c, an_end_while_waiting_answers_nothing_more);
    tcase_add_test(c, a_peer_that_goes_deaf_while_waiting_ends_once);
    tcase_add_test(c, a_watcher_is_woken_by_the_next_record);
    tcase_add_test(c, a_watcher_that_ends_leaves_the_list);
}

int main(void)
{
    Suite *s = suite_create("session");
    TCase *c = tcase_create("session");
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
