/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is between its boundaries: R1 to R3, R10, R12, R13, R21, R26, R29, R30. */
#include "tests/unit/policy_case.h"

#include "client/ctl/replay_play.h"
#include "daemon/config.h"

/* ---- R1 to R3 ---- */

/* R1 */
START_TEST(an_id_attaches_once_whatever_its_bytes)
{
    ck_assert_int_eq(attach("a", 10), 1);
    ck_assert_int_eq(attach("a", 99), 0);
    ck_assert_uint_eq(session.ledger.staged_bytes, 10);
    ck_assert_uint_eq(session.ledger.count, 1);
    ck_assert_ptr_eq(ledger_find(&session.ledger, "a"), &nodes[0]);
}
END_TEST

/* R1 */
START_TEST(a_sum_beyond_64_bits_is_an_error_and_changes_nothing)
{
    ck_assert_int_eq(attach("a", MAX), 1);
    ck_assert_int_eq(attach("zero", 0), 1);
    ck_assert_int_eq(attach("b", 1), ERR_OVERFLOW);
    ck_assert_ptr_null(ledger_find(&session.ledger, "b"));
    ck_assert_uint_eq(session.ledger.staged_bytes, MAX);
    ck_assert_uint_eq(session.ledger.count, 2);
    ck_assert_ptr_nonnull(policy_detach(&session, "a"));
    ck_assert_int_eq(attach("b", MAX), 1);
}
END_TEST

/* R1, R2: also with long chains in every bucket */
START_TEST(thousands_of_stagers_come_and_go)
{
    char id[LIMIT_NAME_SIZE];
    size_t seen = 0;

    for (unsigned i = 0; i < QUOTA_STAGERS_SESSION; i++) {
        snprintf(id, sizeof(id), "layer.%u", i);
        ck_assert_int_eq(attach(id, i), 1);
    }
    for (struct stager *s = ledger_next(&session.ledger, NULL); s;
         s = ledger_next(&session.ledger, s))
        seen++;
    ck_assert_uint_eq(seen, QUOTA_STAGERS_SESSION);
    for (unsigned i = QUOTA_STAGERS_SESSION; i-- > 1;) {
        snprintf(id, sizeof(id), "layer.%u", i);
        ck_assert_ptr_eq(policy_detach(&session, id), &nodes[i]);
        ck_assert_ptr_null(policy_detach(&session, id));
    }
    ck_assert_uint_eq(session.ledger.staged_bytes, 0);
    ck_assert_ptr_eq(ledger_pop(&session.ledger), &nodes[0]);
    ck_assert_ptr_null(ledger_pop(&session.ledger));
}
END_TEST

/* R2 */
START_TEST(a_peak_survives_a_partial_detach_and_an_unknown_one)
{
    attach("a", 10);
    attach("b", 1);
    policy_set_peak(&session, 30);
    ck_assert_ptr_null(policy_detach(&session, "c"));
    ck_assert_uint_eq(session.ledger.staged_bytes, 11);
    ck_assert_ptr_nonnull(policy_detach(&session, "a"));
    ck_assert_uint_eq(session.state.peak, 30);
}
END_TEST

/* R2, R3: an unknown id changes nothing, although the total is 0 */
START_TEST(an_unknown_detach_of_an_empty_ledger_keeps_the_peak)
{
    policy_set_peak(&session, 30);
    ck_assert_ptr_null(policy_detach(&session, "a"));
    ck_assert_uint_eq(session.state.peak, 30);
}
END_TEST

/* R3: the byte total counts, not the stagers */
START_TEST(a_total_of_zero_resets_the_peak_with_stagers_left)
{
    attach("a", 10);
    attach("zero", 0);
    policy_set_peak(&session, 30);
    detach("a");
    ck_assert_uint_eq(session.state.peak, 0);
    ck_assert_uint_eq(session.ledger.count, 1);
    policy_set_peak(&session, 30);
    attach("b", 5);
    detach("zero");
    ck_assert_uint_eq(session.state.peak, 30);
}
END_TEST

/* R10 */
START_TEST(a_session_without_stagers_learns)
{
    ck_assert_int_eq(ask(30, 400, 400), REASON_CACHED_OVER_BUDGET);
    ck_assert_int_eq(ask(30, 400, 400), REASON_WITHIN_BUDGET);
    attach("a", 1);
    ck_assert_uint_eq(session.state.peak, 30);
    detach("a");
    ck_assert_int_eq(ask(30, 400, 400), REASON_CACHED_OVER_BUDGET);
}
END_TEST

/* ---- R12, R13, R21, R26 ---- */

/* R12, R21 */
START_TEST(windows_and_brackets_do_not_nest)
{
    ck_assert_int_eq(policy_warmup(&session, PHASE_END), ERR_BAD_STATE);
    ck_assert(!session.state.warmup_ended);
    ck_assert_int_eq(policy_warmup(&session, PHASE_BEGIN), 0);
    ck_assert_int_eq(policy_warmup(&session, PHASE_BEGIN), ERR_BAD_STATE);
    ck_assert_int_eq(policy_warmup(&session, PHASE_END), 0);
    ck_assert(session.state.warmup_ended);
    ck_assert_int_eq(policy_busy(&session, PHASE_BEGIN), ERR_BAD_STATE); /* no brackets */
    choice.brackets = true;
    start(NULL);
    ck_assert_int_eq(policy_busy(&session, PHASE_END), ERR_BAD_STATE);
    ck_assert_int_eq(policy_busy(&session, PHASE_BEGIN), 0);
    ck_assert_int_eq(policy_busy(&session, PHASE_BEGIN), ERR_BAD_STATE);
    ck_assert_int_eq(policy_busy(&session, PHASE_END), 0);
}
END_TEST

/* R12: every reason counts, forced ones by their cause alone, and the flag changes no answer */
START_TEST(releases_are_counted_in_and_outside_the_window)
{
    const struct counts *c = &session.state.counts;
    struct boundary nothing = {0};

    window(PHASE_BEGIN);
    ask(30, 400, 400);
    ask(30, 1, 400);
    decide(nothing);
    force(FORCE_FAILURE);
    ask(30, 400, 400);
    window(PHASE_END);
    ask(200, 400, 400);
    decide(nothing);
    ck_assert_uint_eq(c->cold_start_releases, 3);
    ck_assert_uint_eq(c->serving_releases, 2);
    ck_assert_uint_eq(c->retained, 1);
    ck_assert_uint_eq(c->forced[FORCE_FAILURE], 1);
}
END_TEST

/* R13 */
START_TEST(a_request_that_the_warmup_did_not_cover_is_noticed_once_per_peak)
{
    ask(10, 400, 400); /* before any window ended */
    ck_assert(!notice.uncovered);
    window(PHASE_BEGIN);
    ask(20, 400, 400); /* inside */
    ck_assert(!notice.uncovered);
    window(PHASE_END);
    ck_assert_uint_eq(session.state.counts.uncovered, 0);
    ask(40, 400, 400);
    ck_assert(notice.uncovered);
    ck_assert_uint_eq(notice.old_peak, 20);
    ck_assert_uint_eq(notice.new_peak, 40);
    ask(0, 1, 400); /* another reason */
    ck_assert(!notice.uncovered);
    policy_set_peak(&session, 400);
    ask(110, 400, 400); /* capped */
    ck_assert_int_eq(got.reason, REASON_CACHED_OVER_BUDGET);
    ck_assert(!notice.uncovered);
    ck_assert_uint_eq(session.state.counts.uncovered, 1);
}
END_TEST

/* R3, R13 */
START_TEST(a_reset_forgets_that_a_window_ended)
{
    attach("a", 1);
    window(PHASE_BEGIN);
    window(PHASE_END);
    detach("a");
    ck_assert_int_eq(ask(40, 400, 400), REASON_CACHED_OVER_BUDGET);
    ck_assert(!notice.uncovered);
    ck_assert_uint_eq(session.state.counts.uncovered, 0);
}
END_TEST

/* R20, R26 */
START_TEST(what_a_release_leaves_is_the_residue)
{
    policy_released(&session, 40, 10);
    ck_assert_uint_eq(session.state.residue.v, 30);
    ck_assert_uint_eq(session.state.reserved.v, 40);
    policy_released(&session, 10, 40);
    ck_assert(session.state.residue.has && session.state.residue.v == 0);
    ck_assert_uint_eq(session.state.peak, 0);
}
END_TEST

/* ---- R29, R30 ---- */

/* R29 */
START_TEST(a_resumed_session_goes_on_as_if_nothing_had_been)
{
    struct policy_session whole;
    struct answer first;

    ask(80, 400, 400);
    window(PHASE_BEGIN);
    window(PHASE_END);
    whole = session;
    ask(90, 400, 400);
    first = got;
    session = whole;
    start(&whole.state);
    ck_assert_uint_eq(session.last.n, 0);
    ask(90, 400, 400);
    ck_assert_int_eq(got.decision, first.decision);
    ck_assert_uint_eq(got.n, 2);
    ck_assert_uint_eq(got.peak, first.peak);
    ask(120, 400, 400);
    ck_assert(notice.uncovered);
    ck_assert_uint_eq(session.state.counts.uncovered, 1);
}
END_TEST

/* R30: the lower of the two modes counts; everything is computed and counted */
START_TEST(in_shadow_the_answer_is_keep_and_says_what_it_would_be)
{
    static const struct {
        enum mode daemon, client;
        enum decision decision;
    } modes[] = {
        {MODE_ON, MODE_NONE, DECISION_RELEASE},  {MODE_ON, MODE_ON, DECISION_RELEASE},
        {MODE_SHADOW, MODE_NONE, DECISION_KEEP}, {MODE_SHADOW, MODE_ON, DECISION_KEEP},
        {MODE_ON, MODE_SHADOW, DECISION_KEEP},   {MODE_ON, MODE_OFF, DECISION_KEEP},
        {MODE_OFF, MODE_SHADOW, DECISION_KEEP},
    };

    settings.mode = modes[_i].daemon;
    choice.mode = modes[_i].client;
    start(NULL);
    ck_assert_int_eq(ask(30, 400, 400), REASON_CACHED_OVER_BUDGET);
    ck_assert_int_eq(got.decision, modes[_i].decision);
    ck_assert_int_eq(got.would, DECISION_RELEASE);
    ck_assert_int_eq(force(FORCE_FAILURE), REASON_FORCED);
    ck_assert_int_eq(got.decision, modes[_i].decision);
    ck_assert_int_eq(ask(30, 400, 400), REASON_WITHIN_BUDGET);
    ck_assert_int_eq(got.would, DECISION_RETAIN);
    ck_assert_uint_eq(session.state.counts.serving_releases, 1);
    ck_assert_uint_eq(session.state.counts.retained, 1);
}
END_TEST

/* The numbers of R5 stand in daemon/config.def; replay, which may not include it, has them too. */
START_TEST(replay_begins_with_the_defaults_of_the_daemon)
{
    struct policy_settings s;
    struct config c;

    config_defaults(&c);
    engine_default_settings(&s);
    ck_assert_double_eq(s.margin, c.margin);
    ck_assert_double_eq(s.cap_fraction, c.cap_fraction);
    ck_assert_double_eq(s.min_free, c.min_free);
    ck_assert_int_eq(s.policy, c.policy);
    ck_assert_int_eq(s.mode, c.mode);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, an_id_attaches_once_whatever_its_bytes);
    tcase_add_test(t, a_sum_beyond_64_bits_is_an_error_and_changes_nothing);
    tcase_add_test(t, thousands_of_stagers_come_and_go);
    tcase_add_test(t, a_peak_survives_a_partial_detach_and_an_unknown_one);
    tcase_add_test(t, an_unknown_detach_of_an_empty_ledger_keeps_the_peak);
    tcase_add_test(t, a_total_of_zero_resets_the_peak_with_stagers_left);
    tcase_add_test(t, a_session_without_stagers_learns);
    tcase_add_test(t, windows_and_brackets_do_not_nest);
    tcase_add_test(t, releases_are_counted_in_and_outside_the_window);
    tcase_add_test(t, a_request_that_the_warmup_did_not_cover_is_noticed_once_per_peak);
    tcase_add_test(t, a_reset_forgets_that_a_window_ended);
    tcase_add_test(t, what_a_release_leaves_is_the_residue);
    tcase_add_test(t, a_resumed_session_goes_on_as_if_nothing_had_been);
    tcase_add_loop_test(t, in_shadow_the_answer_is_keep_and_says_what_it_would_be, 0, 7);
    tcase_add_test(t, replay_begins_with_the_defaults_of_the_daemon);
}

int main(void)
{
    return run_cases("policy_session", add);
}
