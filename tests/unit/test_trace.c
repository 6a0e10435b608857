/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/trace/trace.h"

#include <check.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/error.h"

static struct trace_line line;
static char error[TRACE_ERROR_SIZE];
static char text[TRACE_LINE_MAX + 1];

static int parse(const char *s)
{
    memset(error, 0, sizeof(error));
    return trace_parse(s, strlen(s), &line, error);
}

static void must_parse(const char *s)
{
    int r = parse(s);

    ck_assert_msg(r == 0, "%s: %s", s, error);
}

/* Writes the parsed line again: pairs by text, "-" where missing. */
static const char *write_again(void)
{
    struct trace_writer w;

    trace_begin(&w, text, sizeof(text), line.verb);
    for (size_t side = 0; side < 2; side++) {
        const struct trace_pair *pairs = side ? line.answer_pairs : line.pairs;
        size_t count = side ? line.answer_count : line.pair_count;

        if (side && line.outcome != TRACE_NO_ANSWER)
            trace_put_answer(&w, line.outcome);
        for (size_t i = 0; i < count; i++) {
            const char *key = pairs[i].key;
            const char *value = side ? trace_get_answer(&line, key) : trace_get(&line, key);

            if (value)
                trace_put_text(&w, key, value);
            else
                trace_put_opt(&w, key, opt_none());
        }
    }
    ck_assert(!w.is_cut);
    trace_finish(&w);
    return text;
}

/* ---- every verb, as it is written ---- */
static const char *const round_trips[] = {
    "config margin=1.25 cap_fraction=0.25 min_free=0.05 policy=learned allow_never=0 mode=on "
    "demand_reserve=1 max_sessions=9 t=0",
    "clock wall=2026-01-31T12:00:00Z t=1.5",
    "clock wall=2026-01-31T12:00:00.25+01:00",
    "note text=\"two words\" s=1 t=2",
    "open s=1 name=h3 pid=10 uid=0 min_free=0.05 policy=fixed stage_end=advise mode=shadow "
    "features=brackets,reclaim group=g rank=0 world=2 t=3 peak=1 n=2 warmup=1 warmup_ended=0 "
    "busy=0 "
    "residue=3 reserved=4 allocated=5 cap=6 pin=7 priority=-8 rev=9 retained=10 cold=11 serving=12 "
    "uncovered=13 forced=1,2,3,4 local=1,2,3,4,5,6 -> ok",
    "open s=1 features=3 -> error reason=policy_not_allowed",
    "close s=18446744073709551615 t=0.000000001",
    "attach s=1 id=text_encoder bytes=12945000000 -> ok staged=12945000000 stagers=1",
    "detach s=1 id=a.b:c-d -> ok staged=0 stagers=0 peak=0",
    "set_peak s=1 peak=30 -> ok peak=30",
    "set s=1 rev=2 cap=- pin=4 priority=100 -> refused reason=stale",
    "warmup s=1 phase=begin",
    "busy s=1 phase=end need=- call=3 reserved=1 allocated=1 -> release reason=reclaim",
    "idle s=1 phase=begin background=1",
    "sample free=- total=- source=nvml t=4 age=0.05",
    "process pid=1 bytes=0 name=\"a \\\"b\\\" \\\\ c\"",
    "ask s=1 reserved=40 allocated=10 free=80 total=400 -> retain reason=within_budget peak=30",
    "ask s=1 reserved=- allocated=- free=- total=4 -> release reason=telemetry_unavailable "
    "cached=-",
    "ask s=1 force=oom_retry -> keep reason=forced would=release",
    "ask s=1 reserved=1 allocated=1 component=dit releasable=1 from_empty=0 newer_key=\"x y\"",
    "oom s=1 need=5 call=1",
    "lease s=1 kind=bytes call=2 bytes=5 quiet=1 wait=2.5 term=120",
    "lease s=1 kind=exclusive call=3",
    "unlease s=1 kind=shared",
    "reclaim s=1 event=1 call=4 reason=oom deadline=2",
    "end call=4 t=9 -> granted freed=1 free=2 reserved=3 allocated=4 reason=- source=local",
    "end call=5 -> timeout",
    "end call=6 -> done",
    "released s=1 reserved=4 allocated=4 us=12 -> ok",
    "note text=\"\" other=\"-\" utf8=\"Gr\xc3\xbc\xc3\x9f dich\"",
};

START_TEST(every_verb_reads_back_as_it_was_written)
{
    const char *s = round_trips[_i];

    must_parse(s);
    ck_assert_str_eq(write_again(), s);
}
END_TEST

START_TEST(comments_and_empty_lines_have_no_verb)
{
    static const char *const lines[] = {"", "   ", "# dlo-trace 1", "#", "  # indented"};

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        must_parse(lines[i]);
        ck_assert_int_eq(line.verb, TRACE_NONE);
    }
}
END_TEST

/* ---- errors ---- */
static const struct {
    const char *line;
    int code;
    const char *error;
} wrong[] = {
    {"asks s=1", ERR_INVALID, "unknown verb: asks"},
    {"-> ok", ERR_INVALID, "unknown verb: ->"},
    {"close s", ERR_INVALID, "close: not key=value: s"},
    {"close \"s\"=1", ERR_INVALID, "close: not key=value: %22s%22=1"},
    {"close =1", ERR_INVALID, "close: not a key: =1"},
    {"close 1s=1", ERR_INVALID, "close: not a key: 1s=1"},
    {"close s=", ERR_INVALID, "close: s: no value"},
    {"close s=1 s=1", ERR_INVALID, "close: s: stands twice"},
    {"close s=1 -> ok a=1 a=1", ERR_INVALID, "close: a: stands twice"},
    {"close s=1 ->", ERR_INVALID, "close: no answer behind ->"},
    {"close s=1 -> maybe", ERR_INVALID, "close: unknown answer: maybe"},
    {"close s=1 -> ok -> ok", ERR_INVALID, "close: not key=value: ->"},
    {"note text=\"a", ERR_INVALID, "note: text: the quote is not closed"},
    {"note text=\"a\\", ERR_INVALID, "note: text: the quote is not closed"},
    {"note text=\"a\"b", ERR_INVALID, "note: text: text behind the closing quote"},
    {"note text=\"a\\n\"", ERR_INVALID,
     "note: text: a backslash that is not before a quote or a backslash"},
    {"close", ERR_INVALID, "close: s: missing"},
    {"close s=-", ERR_INVALID, "close: s: missing: -"},
    {"attach s=1 id=a", ERR_INVALID, "attach: bytes: missing"},
    {"attach s=1 id=a bytes=-", ERR_INVALID, "attach: bytes: missing: -"},
    {"attach s=1 id=a/b bytes=1", ERR_INVALID,
     "attach: id: not a name of 1 to 63 of A-Z a-z 0-9 . _ : -: a/b"},
    {"sample free=1", ERR_INVALID, "sample: total: missing"},
    {"ask s=1 reserved=1", ERR_INVALID, "ask: allocated: missing"},
    {"ask s=1 force=- allocated=1", ERR_INVALID, "ask: reserved: missing"},
    {"lease s=1 kind=bytes call=1", ERR_INVALID, "lease: bytes: missing"},
    {"lease s=1 kind=bytes call=1 bytes=-", ERR_INVALID, "lease: bytes: missing"},
    {"ask s=1 reserved=1 allocated=1 free=12x", ERR_INVALID, "ask: free: not a number: 12x"},
    {"ask s=1 reserved=1 allocated=1 free=-1", ERR_INVALID, "ask: free: negative: -1"},
    {"ask s=1 reserved=0x10 allocated=1", ERR_INVALID, "ask: reserved: not a number: 0x10"},
    {"ask s=1 reserved=\"\" allocated=1", ERR_INVALID, "ask: reserved: not a number: "},
    {"attach s=1 id=a bytes=18446744073709551616", ERR_OVERFLOW,
     "attach: bytes: does not fit: 18446744073709551616"},
    {"close s=1 t=1.0000000001", ERR_INVALID, "close: t: not a number: 1.0000000001"},
    {"close s=1 t=18446744074", ERR_OVERFLOW, "close: t: does not fit: 18446744074"},
    {"close s=1 t=-1", ERR_INVALID, "close: t: negative: -1"},
    {"set s=1 rev=1 priority=2147483648", ERR_OVERFLOW, "set: priority: does not fit: 2147483648"},
    {"config margin=nan", ERR_INVALID, "config: margin: not a number: nan"},
    {"config margin=1,25", ERR_INVALID, "config: margin: not a number: 1,25"},
    {"config margin=1e999", ERR_OVERFLOW, "config: margin: does not fit: 1e999"},
    {"config margin=-0.5", ERR_INVALID, "config: margin: negative: -0.5"},
    {"config policy=best", ERR_INVALID, "config: policy: unknown policy: best"},
    {"config mode=dark", ERR_INVALID, "config: mode: unknown mode: dark"},
    {"config allow_never=2", ERR_INVALID, "config: allow_never: not true or false: 2"},
    {"open s=1 stage_end=ask", ERR_INVALID, "open: stage_end: unknown word: ask"},
    {"open s=1 warmup=2", ERR_INVALID, "open: warmup: not 0 or 1: 2"},
    {"open s=1 features=fast", ERR_INVALID, "open: features: unknown feature: fast"},
    {"open s=1 forced=1,,2", ERR_INVALID, "open: forced: not a list of numbers: 1,,2"},
    {"ask s=1 force=luck", ERR_INVALID, "ask: force: unknown cause of a forced release: luck"},
    {"warmup s=1 phase=middle", ERR_INVALID, "warmup: phase: not begin or end: middle"},
    {"sample free=1 total=1 source=guess", ERR_INVALID, "sample: source: unknown source: guess"},
    {"lease s=1 kind=x call=1", ERR_INVALID, "lease: kind: unknown kind of lease: x"},
    {"clock wall=yesterday", ERR_INVALID, "clock: wall: not a time of RFC 3339: yesterday"},
    {"clock wall=2026-01-31T12:00:00", ERR_INVALID,
     "clock: wall: not a time of RFC 3339: 2026-01-31T12:00:00"},
    {"close s=1\r", ERR_INVALID, "column 10: a control character or not UTF-8 (byte 0x0D)"},
    {"close\ts=1", ERR_INVALID, "column 6: a control character or not UTF-8 (byte 0x09)"},
    {"# \x1b[2J", ERR_INVALID, "column 3: a control character or not UTF-8 (byte 0x1B)"},
    {"# \xff", ERR_INVALID, "column 3: a control character or not UTF-8 (byte 0xFF)"},
    {"# \xc0\xaf", ERR_INVALID, "column 3: a control character or not UTF-8 (byte 0xC0)"},
    {"# \xed\xa0\x80", ERR_INVALID, "column 3: a control character or not UTF-8 (byte 0xED)"},
    {"# \xc2\x9b", ERR_INVALID, "column 3: a control character or not UTF-8 (byte 0xC2)"},
    {"# \xe2\x82", ERR_INVALID, "column 3: a control character or not UTF-8 (byte 0xE2)"},
};

START_TEST(an_error_names_verb_key_and_value)
{
    ck_assert_int_eq(parse(wrong[_i].line), wrong[_i].code);
    ck_assert_str_eq(error, wrong[_i].error);
}
END_TEST

START_TEST(a_nul_byte_is_an_error)
{
    ck_assert_int_eq(trace_parse("close\0s=1", 9, &line, error), ERR_INVALID);
}
END_TEST

START_TEST(the_longest_line_fits_and_one_byte_more_is_too_long)
{
    char longest[TRACE_LINE_MAX + 2];

    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "note text=", 10);
    ck_assert_int_eq(trace_parse(longest, TRACE_LINE_MAX, &line, error), 0);
    ck_assert_uint_eq(strlen(trace_get(&line, "text")), TRACE_LINE_MAX - 10);
    ck_assert_int_eq(trace_parse(longest, TRACE_LINE_MAX + 1, &line, error), ERR_TOO_LONG);
    ck_assert_str_eq(error, "the line is longer than 2048 bytes");
}
END_TEST

START_TEST(as_many_keys_as_fit_and_one_more_is_too_long)
{
    char s[TRACE_LINE_MAX] = "note text=a";

    for (int i = 1; i < TRACE_PAIRS_MAX; i++)
        sprintf(s + strlen(s), " k%d=1", i);
    must_parse(s);
    strcat(s, " more=1");
    ck_assert_int_eq(parse(s), ERR_TOO_LONG);
    ck_assert_str_eq(error, "note: more: too many keys");
}
END_TEST

/* ---- values ---- */
START_TEST(missing_and_dash_read_alike_but_a_quoted_dash_is_text)
{
    must_parse("ask s=1 reserved=5 allocated=- component=\"-\"");
    ck_assert_ptr_null(trace_get(&line, "allocated"));
    ck_assert_ptr_null(trace_get(&line, "free"));
    ck_assert(!trace_get_u64(&line, "allocated").has);
    ck_assert_str_eq(trace_get(&line, "component"), "-");
    ck_assert(trace_get_u64(&line, "reserved").has);
    must_parse("close s=1 t=12.000000001");
    ck_assert_uint_eq(trace_get_time(&line, "t").v, 12000000001u);
}
END_TEST

START_TEST(a_boundary_reads_back_whole)
{
    struct boundary b, again;
    struct trace_writer w;

    must_parse("ask s=1 reserved=4 allocated=3 releasable=1 free=2 total=9 component=dit");
    trace_get_boundary(&line, &b);
    trace_begin(&w, text, sizeof(text), TRACE_ASK);
    trace_put_u64(&w, "s", 1);
    trace_put_boundary(&w, &b);
    trace_finish(&w);
    must_parse(text);
    trace_get_boundary(&line, &again);
    ck_assert_uint_eq(again.reserved.v, 4);
    ck_assert_uint_eq(again.releasable.v, 1);
    ck_assert_uint_eq(again.total.v, 9);
    ck_assert_str_eq(again.component, "dit");
    ck_assert_int_eq(again.force, FORCE_NONE);
    must_parse("ask s=1 force=stage_end");
    trace_get_boundary(&line, &b);
    ck_assert_int_eq(b.force, FORCE_STAGE_END);
    ck_assert(!b.reserved.has && !b.free.has);
}
END_TEST

static const struct resume full_state = {
    .peak = UINT64_MAX,
    .n = 3,
    .in_warmup = true,
    .warmup_ended = true,
    .busy = true,
    .residue = {4, true},
    .reserved = {0, true},
    .allocated = {5, true},
    .operator.cap_bytes = {0, true},
    .operator.pin_bytes = {6, true},
    .operator.priority = - 100,
    .operator.revision = 7,
    .counts = {.retained = 8,
               .cold_start_releases = 9,
               .serving_releases = 10,
               .uncovered = 11,
               .forced = {0, 12, 0, 13, UINT64_MAX},
               .local = {0, 0, 0, 0, 0, 0, 14}},
};

/* R29 */
START_TEST(a_resumed_state_reads_back_whole_and_a_fresh_one_writes_nothing)
{
    struct resume again, fresh = {0};
    struct trace_writer w;

    trace_begin(&w, text, sizeof(text), TRACE_OPEN);
    trace_put_u64(&w, "s", 1);
    trace_put_resume(&w, &full_state);
    ck_assert(!w.is_cut);
    trace_finish(&w);
    must_parse(text);
    trace_get_resume(&line, &again);
    trace_begin(&w, text, sizeof(text), TRACE_OPEN);
    trace_put_resume(&w, &again);
    trace_finish(&w);
    ck_assert_str_eq(text, "open peak=18446744073709551615 n=3 warmup=1 warmup_ended=1 busy=1 "
                           "residue=4 reserved=0 allocated=5 cap=0 pin=6 priority=-100 rev=7 "
                           "retained=8 cold=9 serving=10 uncovered=11 "
                           "forced=12,0,13,18446744073709551615 local=0,0,0,0,0,14");
    trace_begin(&w, text, sizeof(text), TRACE_OPEN);
    trace_put_resume(&w, &fresh);
    trace_finish(&w);
    ck_assert_str_eq(text, "open");
}
END_TEST

START_TEST(counts_of_a_newer_writer_are_dropped)
{
    struct resume state;

    must_parse("open s=1 forced=1,2,3,4,5,6,7 local=9");
    trace_get_resume(&line, &state);
    ck_assert_uint_eq(state.counts.forced[FORCE_OPERATOR], 4);
    ck_assert_uint_eq(state.counts.local[CAUSE_NO_DAEMON], 9);
    ck_assert_uint_eq(state.counts.local[CAUSE_LOCKED], 0);
}
END_TEST

/* R8 */
START_TEST(a_decision_shows_its_inputs)
{
    struct answer a = {
        .decision = DECISION_KEEP,
        .would = DECISION_RELEASE,
        .reason = REASON_CACHED_OVER_BUDGET,
        .cached = {30, true},
        .free = {80, true},
        .total = {400, true},
        .age_ns = {5000000, true},
        .floor = {20, true},
        .cap = {100, true},
        .budget = {0, true},
        .capped = {0, true},
        .peak = 30,
        .learned = 37,
        .staged_bytes = 7,
        .stager_count = 1,
        .warmup = true,
        .n = 4,
    };
    struct trace_writer w;

    trace_begin(&w, text, sizeof(text), TRACE_ASK);
    trace_put_decision(&w, &a);
    trace_finish(&w);
    ck_assert_str_eq(text, "ask -> keep reason=cached_over_budget cached=30 free=80 total=400 "
                           "age=0.005 floor=20 cap=100 budget=0 capped=0 peak=30 learned=37 "
                           "staged=7 stagers=1 warmup=1 n=4 would=release");
    a = (struct answer){
        .decision = DECISION_RELEASE, .would = DECISION_RELEASE, .reason = REASON_FORCED, .n = 1};
    trace_begin(&w, text, sizeof(text), TRACE_ASK);
    trace_put_decision(&w, &a);
    trace_finish(&w);
    ck_assert_str_eq(text, "ask -> release reason=forced cached=- free=- total=- age=- floor=- "
                           "cap=- budget=- capped=- peak=0 learned=0 staged=0 stagers=0 warmup=0 "
                           "n=1");
}
END_TEST

/* ---- writing ---- */
START_TEST(text_that_cannot_stand_in_a_line_is_escaped)
{
    struct trace_writer w;

    trace_begin(&w, text, sizeof(text), TRACE_NOTE);
    trace_put_text(&w, "text", "a\nb\x1b \"q\" \\ \xff\xc3\xbc \xc3");
    trace_finish(&w);
    ck_assert_str_eq(text, "note text=\"a%0Ab%1B \\\"q\\\" \\\\ %FF\xc3\xbc %C3\"");
    must_parse(text);
    ck_assert_str_eq(trace_get(&line, "text"), "a%0Ab%1B \"q\" \\ %FF\xc3\xbc %C3");
}
END_TEST

/* Every size of buffer: whatever fits is one line that reads, or the bare verb. */
START_TEST(what_does_not_fit_is_cut_and_still_one_line)
{
    char out[128];

    for (size_t size = 0; size < sizeof(out); size++) {
        struct trace_writer w;
        size_t length;

        memset(out, '~', sizeof(out));
        trace_begin(&w, out, size, TRACE_NOTE);
        trace_put_text(&w, "text", "two \"words\" and more \\ of them");
        trace_put_u64(&w, "s", 12345);
        trace_put_answer(&w, TRACE_OK);
        length = trace_finish(&w);
        ck_assert_uint_le(length, size ? size - 1 : 0);
        ck_assert(out[size] == '~');
        ck_assert_uint_eq(w.is_cut, size < 60);
        if (size == 0)
            continue;
        ck_assert_uint_eq(strlen(out), length);
        if (strchr(out, '='))
            must_parse(out);
    }
}
END_TEST

START_TEST(a_line_never_grows_beyond_its_limit)
{
    static char big[3 * TRACE_LINE_MAX], out[3 * TRACE_LINE_MAX];
    struct trace_writer w;

    memset(big, 'x', sizeof(big) - 1);
    trace_begin(&w, out, sizeof(out), TRACE_NOTE);
    trace_put_text(&w, "text", big);
    ck_assert_uint_eq(trace_finish(&w), TRACE_LINE_MAX);
    ck_assert(w.is_cut);
    must_parse(out);
}
END_TEST

/* ---- hostile ---- */
START_TEST(mutated_and_cut_lines_never_crash_and_what_parses_writes)
{
    unsigned seed = 1;
    size_t accepted = 0;

    for (int i = 0; i < 50000; i++) {
        const char *from = round_trips[(size_t)i % ARRAY_SIZE(round_trips)];
        char s[TRACE_LINE_MAX + 1];
        size_t length = strlen(from);

        memcpy(s, from, length);
        for (int n = rand_r(&seed) % 4; n >= 0; n--) {
            size_t at = (size_t)rand_r(&seed) % length;

            switch (rand_r(&seed) % 4) {
            case 0:
                s[at] = (char)rand_r(&seed);
                break;
            case 1:
                s[at] = " =\"\\->#,"[rand_r(&seed) % 8];
                break;
            case 2:
                memmove(s + at, s + at + 1, length - at - 1);
                length -= length > 1;
                break;
            default:
                length = at ? at : 1; /* cut, as by a crash while writing */
            }
        }
        if (trace_parse(s, length, &line, error) < 0) {
            ck_assert_uint_gt(strlen(error), 0);
            ck_assert_uint_lt(strlen(error), TRACE_ERROR_SIZE);
            continue;
        }
        accepted++;
        if (line.verb != TRACE_NONE) {
            char once[TRACE_LINE_MAX + 1];

            memcpy(once, write_again(), sizeof(once));
            must_parse(once);
            ck_assert_str_eq(write_again(), once);
        }
    }
    ck_assert_uint_gt(accepted, 1000);
}
END_TEST

/* R11: a host program may have set any locale */
START_TEST(fractions_have_a_point_in_a_german_locale)
{
    struct trace_writer w;
    struct resume state;

    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "de_DE.utf8")) {
        printf("SKIP fractions_have_a_point_in_a_german_locale: no locale de_DE.UTF-8 here\n");
        return;
    }
    must_parse("open s=1 min_free=0.05 peak=1234567");
    trace_get_resume(&line, &state);
    ck_assert_uint_eq(state.peak, 1234567);
    ck_assert_int_eq(parse("open s=1 min_free=0,05"), ERR_INVALID);
    trace_begin(&w, text, sizeof(text), TRACE_CONFIG);
    trace_put_double(&w, "min_free", 0.05);
    trace_put_time(&w, "t", 1500000000);
    trace_finish(&w);
    ck_assert_str_eq(text, "config min_free=0.05 t=1.5");
    setlocale(LC_ALL, "C");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("trace");
    SRunner *r = srunner_create(s);
    int failed;

    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, every_verb_reads_back_as_it_was_written, 0,
                        (int)ARRAY_SIZE(round_trips));
    tcase_add_test(t, comments_and_empty_lines_have_no_verb);
    tcase_add_loop_test(t, an_error_names_verb_key_and_value, 0, (int)ARRAY_SIZE(wrong));
    tcase_add_test(t, a_nul_byte_is_an_error);
    tcase_add_test(t, the_longest_line_fits_and_one_byte_more_is_too_long);
    tcase_add_test(t, as_many_keys_as_fit_and_one_more_is_too_long);
    tcase_add_test(t, missing_and_dash_read_alike_but_a_quoted_dash_is_text);
    tcase_add_test(t, a_boundary_reads_back_whole);
    tcase_add_test(t, a_resumed_state_reads_back_whole_and_a_fresh_one_writes_nothing);
    tcase_add_test(t, counts_of_a_newer_writer_are_dropped);
    tcase_add_test(t, a_decision_shows_its_inputs);
    tcase_add_test(t, text_that_cannot_stand_in_a_line_is_escaped);
    tcase_add_test(t, what_does_not_fit_is_cut_and_still_one_line);
    tcase_add_test(t, a_line_never_grows_beyond_its_limit);
    tcase_add_test(t, mutated_and_cut_lines_never_crash_and_what_parses_writes);
    tcase_add_test(t, fractions_have_a_point_in_a_german_locale);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
