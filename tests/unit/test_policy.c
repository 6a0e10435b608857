/* SPDX-License-Identifier: Apache-2.0 */
/* R4 to R11c at their edges. The long runs are the traces of tests/conformance. */
#include "tests/unit/policy_case.h"

#include <math.h>

/* ---- R4 ---- */

/* R4, R8 */
START_TEST(a_forced_release_reads_and_learns_nothing)
{
    policy_set_peak(&session, 30);
    for (int cause = FORCE_FAILURE; cause < FORCE_MAX; cause++) {
        ck_assert_int_eq(force((enum force)cause), REASON_FORCED);
        ck_assert_int_eq(got.decision, DECISION_RELEASE);
        ck_assert(!got.cached.has && !got.free.has && !got.total.has && !got.age_ns.has);
        ck_assert(!got.floor.has && !got.cap.has && !got.budget.has && !got.capped.has);
        ck_assert_uint_eq(got.peak, 30);
        ck_assert_uint_eq(got.learned, 37);
        ck_assert_uint_eq(got.n, (uint64_t)cause);
        ck_assert_uint_eq(session.state.counts.forced[cause], 1);
    }
    ck_assert_uint_eq(session.state.counts.serving_releases, 0); /* R12 */
    ck_assert_uint_eq(session.state.reserved.v, 90);             /* R20: it was reported */
}
END_TEST

/* R4 */
START_TEST(only_stage_end_is_advised)
{
    choice.stage_end = STAGE_END_ADVISE;
    start(NULL);
    ck_assert_int_eq(force(FORCE_STAGE_END), REASON_CACHED_OVER_BUDGET);
    ck_assert_uint_eq(got.peak, 90);
    ck_assert_int_eq(force(FORCE_STAGE_END), REASON_WITHIN_BUDGET);
    ck_assert_int_eq(got.decision, DECISION_RETAIN);
    ck_assert_uint_eq(session.state.counts.forced[FORCE_STAGE_END], 0);
    ck_assert_int_eq(force(FORCE_FAILURE), REASON_FORCED);
    ck_assert_int_eq(force(FORCE_OOM_RETRY), REASON_FORCED);
    ck_assert_int_eq(force(FORCE_OPERATOR), REASON_FORCED);
}
END_TEST

/* ---- R5 to R8 ---- */
static const struct {
    uint64_t peak, cached, free, total;
    enum reason reason;
    uint64_t budget, capped, new_peak;
} rows[] = {
    /* R5: equal retains, on both sides of both limits */
    {80, 100, 400, 800, REASON_WITHIN_BUDGET, 100, 0, 100},
    {80, 101, 400, 800, REASON_CACHED_OVER_BUDGET, 100, 0, 101},
    {80, 0, 40, 800, REASON_WITHIN_BUDGET, 100, 0, 80},
    {80, 0, 39, 800, REASON_LOW_FREE_MEMORY, 100, 0, 80},
    {80, 100, 39, 800, REASON_LOW_FREE_MEMORY, 100, 0, 100}, /* it teaches too */
    /* R5: the cap is the other half of the budget; R7: capped only between the two */
    {800, 200, 800, 800, REASON_WITHIN_BUDGET, 200, 0, 800},
    {800, 201, 800, 800, REASON_CACHED_OVER_BUDGET, 200, 1, 800},
    {800, 1000, 800, 800, REASON_CACHED_OVER_BUDGET, 200, 1, 1000},
    {800, 1001, 800, 800, REASON_CACHED_OVER_BUDGET, 200, 0, 1001},
    {160, 200, 800, 800, REASON_WITHIN_BUDGET, 200, 0, 200}, /* learned == cap */
    /* R7: the cache is named before the floor */
    {0, 1, 0, 800, REASON_CACHED_OVER_BUDGET, 0, 0, 1},
    {0, 0, 0, 800, REASON_LOW_FREE_MEMORY, 0, 0, 0},
    /* a device of nothing, and one of everything */
    {0, 0, 0, 0, REASON_WITHIN_BUDGET, 0, 0, 0},
    {8, 1, 0, 0, REASON_CACHED_OVER_BUDGET, 0, 1, 8},
    {MAX, MAX, MAX, MAX, REASON_CACHED_OVER_BUDGET, 1ull << 62, 1, MAX},
    {MAX, 1ull << 62, MAX, MAX, REASON_WITHIN_BUDGET, 1ull << 62, 0, MAX},
    {1, 1, 0, 19, REASON_WITHIN_BUDGET, 1, 0, 1}, /* the floor truncates to 0 */
    {1, 1, 0, 20, REASON_LOW_FREE_MEMORY, 1, 0, 1},
};

START_TEST(a_boundary_is_decided_on_what_was_before_and_then_learned)
{
    const typeof(rows[0]) *row = &rows[_i];

    policy_set_peak(&session, row->peak);
    ck_assert_int_eq(ask(row->cached, row->free, row->total), row->reason);
    ck_assert_int_eq(got.decision,
                     row->reason == REASON_WITHIN_BUDGET ? DECISION_RETAIN : DECISION_RELEASE);
    ck_assert_int_eq(got.would, got.decision);
    ck_assert_uint_eq(got.budget.v, row->budget);
    ck_assert_uint_eq(got.capped.v, row->capped);
    ck_assert_uint_eq(got.peak, row->new_peak);
    ck_assert_uint_eq(got.cached.v, row->cached);
    ck_assert(got.age_ns.has && got.age_ns.v == 0);
}
END_TEST

/* R5 */
START_TEST(cached_never_wraps_and_releasable_only_lowers_it)
{
    struct boundary b = at(5, 400, 400);

    b.allocated = opt_u64(MAX);
    ck_assert_int_eq(decide(b), REASON_WITHIN_BUDGET);
    ck_assert_uint_eq(got.cached.v, 0);
    b = at(60, 400, 400);
    b.releasable = opt_u64(0);
    ck_assert_int_eq(decide(b), REASON_WITHIN_BUDGET);
    ck_assert_uint_eq(got.cached.v, 0);
    ck_assert_uint_eq(got.peak, 0);
    b.releasable = opt_u64(61);
    decide(b);
    ck_assert_uint_eq(got.peak, 60);
}
END_TEST

/* R5: the three products are products of doubles */
START_TEST(products_are_those_of_ieee_doubles_and_saturate)
{
    ck_assert_uint_eq(policy_product(MAX, 1.0), MAX);
    ck_assert_uint_eq(policy_product(MAX, 1e6), MAX);
    ck_assert_uint_eq(policy_product(MAX, 0.5), 1ull << 63);
    ck_assert_uint_eq(policy_product(1, 0.999), 0);
    ck_assert_uint_eq(policy_product(100, 0.29), 28); /* 28.999999999999996 */
    ck_assert_uint_eq(policy_product(85899345920u, 0.35), 30064771072u);
    ck_assert_uint_eq(policy_product((1ull << 53) + 1, 1.0), 1ull << 53);
    ck_assert_uint_eq(policy_product(MAX, 0.0), 0);
}
END_TEST

/* R6, R11a: under every policy, whatever is missing, and nothing is learned */
START_TEST(missing_telemetry_releases_under_every_policy)
{
    settings.allow_never = true;
    settings.policy = (enum policy)(POLICY_LEARNED + _i);
    for (int missing = 1; missing < 16; missing++) {
        struct boundary b = at(90, 400, 400);

        b.reserved.has = !(missing & 1);
        b.allocated.has = !(missing & 2);
        b.free.has = !(missing & 4);
        b.total.has = !(missing & 8);
        ck_assert_int_eq(decide(b), REASON_TELEMETRY_UNAVAILABLE);
        ck_assert_int_eq(got.decision, DECISION_RELEASE);
        ck_assert_uint_eq(got.peak, 0);
        ck_assert_uint_eq(got.cached.has, !(missing & 3));
        ck_assert_uint_eq(got.cap.has, !(missing & 12)); /* R11b: half a pair is none */
    }
    ck_assert_uint_eq(session.state.counts.serving_releases, 15);
}
END_TEST

/* R8 */
START_TEST(an_answer_counts_from_one_and_carries_the_ledger)
{
    attach("a", 5);
    attach("b", 6);
    policy_set_peak(&session, 40);
    ck_assert_int_eq(policy_warmup(&session, PHASE_BEGIN), 0);
    ask(1, 400, 400);
    ask(2, 400, 400);
    ck_assert_uint_eq(got.n, 2);
    ck_assert_uint_eq(got.staged_bytes, 11);
    ck_assert_uint_eq(got.stager_count, 2);
    ck_assert(got.warmup);
    ck_assert_uint_eq(got.learned, 50);
    ck_assert_uint_eq(got.floor.v, 20);
    ck_assert_uint_eq(got.cap.v, 100);
    ck_assert_uint_eq(session.last.n, 2);
}
END_TEST

/* R9, R11b */
START_TEST(the_workers_pair_decides_alone_and_the_sample_only_without_one)
{
    struct sample sample = {.free = {4, true}, .total = {400, true}, .age_ns = 9};
    struct boundary b = at(0, 80, 400);

    policy_decide(&settings, &session, &b, &sample, NULL, &got, &notice);
    ck_assert_int_eq(got.reason, REASON_WITHIN_BUDGET);
    ck_assert_uint_eq(got.age_ns.v, 0);
    b.total.has = false; /* half a pair is none, and is not mixed with the sample */
    policy_decide(&settings, &session, &b, &sample, NULL, &got, &notice);
    ck_assert_int_eq(got.reason, REASON_LOW_FREE_MEMORY);
    ck_assert_uint_eq(got.free.v, 4);
    ck_assert_uint_eq(got.age_ns.v, 9);
    sample.free.has = false;
    policy_decide(&settings, &session, &b, &sample, NULL, &got, &notice);
    ck_assert_int_eq(got.reason, REASON_TELEMETRY_UNAVAILABLE);
}
END_TEST

/* ---- R11, R11a, R11c ---- */

/* R11 */
START_TEST(settings_out_of_range_name_their_key)
{
    static const struct {
        struct policy_settings s;
        const char *key;
    } bad[] = {
        {{0.999, 0.25, 0.05, POLICY_LEARNED, MODE_ON, false}, "margin"},
        {{NAN, 0.25, 0.05, POLICY_LEARNED, MODE_ON, false}, "margin"},
        {{INFINITY, 0.25, 0.05, POLICY_LEARNED, MODE_ON, false}, "margin"},
        {{1.0, 1.001, 0.05, POLICY_LEARNED, MODE_ON, false}, "cap_fraction"},
        {{1.0, NAN, 0.05, POLICY_LEARNED, MODE_ON, false}, "cap_fraction"},
        {{1.0, 0.0, -0.1, POLICY_LEARNED, MODE_ON, false}, "min_free"},
        {{1.0, 0.0, 0.0, POLICY_NONE, MODE_ON, false}, "policy"},
        {{1.0, 0.0, 0.0, POLICY_DEMAND, MODE_ON, false}, "policy"},
        {{1.0, 0.0, 0.0, POLICY_NEVER, MODE_ON, false}, "allow_never"},
        {{1.0, 0.0, 0.0, POLICY_ALWAYS, MODE_NONE, false}, "mode"},
    };
    static const struct policy_settings good[] = {
        {1.0, 0.0, 0.0, POLICY_ALWAYS, MODE_OFF, false},
        {1e6, 1.0, 1.0, POLICY_NEVER, MODE_SHADOW, true},
    };
    const char *key;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        ck_assert_int_eq(policy_check_settings(&bad[i].s, &key), ERR_INVALID);
        ck_assert_str_eq(key, bad[i].key);
    }
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        ck_assert_int_eq(policy_check_settings(&good[i], &key), 0);
}
END_TEST

/* R11a, R32 */
START_TEST(a_session_may_choose_what_the_settings_allow)
{
    choice.policy = POLICY_NEVER;
    ck_assert_int_eq(policy_check_choice(&settings, &choice), ERR_POLICY_NOT_ALLOWED);
    settings.allow_never = true;
    ck_assert_int_eq(policy_check_choice(&settings, &choice), 0);
    choice.policy = POLICY_DEMAND;
    ck_assert_int_eq(policy_check_choice(&settings, &choice), ERR_UNSUPPORTED);
    choice.policy = POLICY_NONE;
    ck_assert_int_eq(policy_check_choice(&settings, &choice), 0);
    choice.has_min_free = true;
    choice.min_free = 1.0;
    ck_assert_int_eq(policy_check_choice(&settings, &choice), 0);
    choice.min_free = NAN;
    ck_assert_int_eq(policy_check_choice(&settings, &choice), ERR_INVALID);
}
END_TEST

/* R11a: all four learn alike; the session's choice goes before the daemon's */
START_TEST(the_other_policies_show_their_budget_and_learn)
{
    static const struct {
        enum policy policy;
        enum reason at_cap, above_cap, low;
        uint64_t budget;
    } by[] = {
        {POLICY_FIXED, REASON_WITHIN_BUDGET, REASON_CACHED_OVER_BUDGET, REASON_LOW_FREE_MEMORY,
         100},
        {POLICY_ALWAYS, REASON_POLICY_ALWAYS, REASON_POLICY_ALWAYS, REASON_POLICY_ALWAYS, 0},
        {POLICY_NEVER, REASON_POLICY_NEVER, REASON_POLICY_NEVER, REASON_POLICY_NEVER, MAX},
    };

    settings.policy = POLICY_LEARNED;
    choice.policy = by[_i].policy;
    start(NULL);
    ck_assert_int_eq(policy_effective(&settings, &session), choice.policy);
    ck_assert_int_eq(ask(100, 400, 400), by[_i].at_cap);
    ck_assert_uint_eq(got.budget.v, by[_i].budget);
    ck_assert_uint_eq(got.peak, 100);
    ck_assert_int_eq(ask(101, 400, 400), by[_i].above_cap);
    ck_assert_uint_eq(got.capped.v, 1);
    ck_assert_uint_eq(got.peak, 101);
    ck_assert_int_eq(ask(0, 19, 400), by[_i].low);
    ck_assert_int_eq(force(FORCE_FAILURE), REASON_FORCED);
}
END_TEST

/* R11a */
START_TEST(a_sessions_own_floor_goes_before_the_daemons)
{
    choice.has_min_free = true;
    choice.min_free = 0.0;
    start(NULL);
    ck_assert_int_eq(ask(0, 0, 400), REASON_WITHIN_BUDGET);
    choice.min_free = 1.0;
    start(NULL);
    ck_assert_int_eq(ask(0, 399, 400), REASON_LOW_FREE_MEMORY);
    ck_assert_int_eq(ask(0, 400, 400), REASON_WITHIN_BUDGET);
}
END_TEST

/* R11c */
START_TEST(a_peak_that_was_set_is_a_peak)
{
    policy_set_peak(&session, MAX);
    ck_assert_uint_eq(policy_learned(&settings, &session), MAX);
    policy_set_peak(&session, 8);
    ck_assert_int_eq(ask(10, 400, 400), REASON_WITHIN_BUDGET);
    ck_assert_uint_eq(got.peak, 10);
    policy_set_peak(&session, 0);
    ck_assert_int_eq(ask(1, 400, 400), REASON_CACHED_OVER_BUDGET);
}
END_TEST

/* R31 in R5: an operator's cap replaces the fraction */
START_TEST(a_cap_in_bytes_replaces_the_fraction)
{
    struct resume state = {.peak = 1000, .operator.cap_bytes = {300, true} };

    start(&state);
    ck_assert_int_eq(ask(300, 400, 400), REASON_WITHIN_BUDGET);
    ck_assert_int_eq(ask(301, 400, 400), REASON_CACHED_OVER_BUDGET);
    ck_assert_uint_eq(got.cap.v, 300);
    ck_assert_uint_eq(got.capped.v, 1);
}
END_TEST

static void add(TCase *t)
{
    tcase_add_test(t, a_forced_release_reads_and_learns_nothing);
    tcase_add_test(t, only_stage_end_is_advised);
    tcase_add_loop_test(t, a_boundary_is_decided_on_what_was_before_and_then_learned, 0,
                        (int)ARRAY_SIZE(rows));
    tcase_add_test(t, cached_never_wraps_and_releasable_only_lowers_it);
    tcase_add_test(t, products_are_those_of_ieee_doubles_and_saturate);
    tcase_add_loop_test(t, missing_telemetry_releases_under_every_policy, 0, 4);
    tcase_add_test(t, an_answer_counts_from_one_and_carries_the_ledger);
    tcase_add_test(t, the_workers_pair_decides_alone_and_the_sample_only_without_one);
    tcase_add_test(t, settings_out_of_range_name_their_key);
    tcase_add_test(t, a_session_may_choose_what_the_settings_allow);
    tcase_add_loop_test(t, the_other_policies_show_their_budget_and_learn, 0, 3);
    tcase_add_test(t, a_sessions_own_floor_goes_before_the_daemons);
    tcase_add_test(t, a_peak_that_was_set_is_a_peak);
    tcase_add_test(t, a_cap_in_bytes_replaces_the_fraction);
}

int main(void)
{
    return run_cases("policy", add);
}
