/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of the results of a replay: answer lines, differences, counts, text. */
#include "client/ctl/replay_play.h"

#include <inttypes.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/base/parse.h"

static bool is_release(const struct answer *a)
{
    return a->would == DECISION_RELEASE; /* what was decided, also where the answer was keep */
}

void replay_count(struct replay_summary *s, const struct trace_line *line,
                  const struct replay_result *result)
{
    const struct answer *a = &result->answer;

    s->events++;
    s->planned += result->kind == REPLAY_PLANNED;
    s->errors += result->kind == REPLAY_ERROR;
    if (result->kind != REPLAY_DECISION)
        return;
    s->asks++;
    s->uncovered += result->uncovered;
    if (s->last_session != trace_get_u64(line, "s").v)
        s->final_budget = opt_none();
    s->last_session = trace_get_u64(line, "s").v;
    s->final_peak = a->peak;
    if (result->next_budget.has)
        s->final_budget = result->next_budget;
    s->largest_claim_bytes = bytes_max(s->largest_claim_bytes, result->claim_bytes.v);
    if (is_release(a)) {
        s->releases[a->warmup][a->reason < REASON_MAX ? a->reason : REASON_NONE]++;
        s->given_back_bytes = bytes_add_sat(s->given_back_bytes, result->held_bytes.v);
    } else {
        s->retained++;
        s->largest_retained_bytes = bytes_max(s->largest_retained_bytes, result->claim_bytes.v);
    }
}

uint64_t replay_releases(const struct replay_summary *s)
{
    return s->asks - s->retained;
}

void replay_answer_line(const struct trace_line *line, const struct replay_result *result,
                        struct trace_line *ret)
{
    char text[TRACE_LINE_MAX + 1], error[TRACE_ERROR_SIZE];
    struct trace_writer w;

    /* a note with the answer, since only a note needs no key that we would have to make up */
    trace_begin(&w, text, sizeof(text), TRACE_NOTE);
    trace_put_text(&w, "text", "");
    switch (result->kind) {
    case REPLAY_NOTHING:
    case REPLAY_TAKEN:
    case REPLAY_UNKNOWN:
    case REPLAY_PLANNED:
        break;
    case REPLAY_OK:
    case REPLAY_ATTACHED:
    case REPLAY_DETACHED:
    case REPLAY_PEAK:
        trace_put_answer(&w, TRACE_OK);
        break;
    case REPLAY_ERROR:
        trace_put_answer(&w, TRACE_ERROR);
        trace_put_text(&w, "reason", error_word(result->code));
        break;
    case REPLAY_DECISION:
        trace_put_decision(&w, &result->answer);
        break;
    case REPLAY_SET:
        trace_put_answer(&w, result->code < 0 ? TRACE_REFUSED : TRACE_OK);
        if (result->code < 0)
            trace_put_text(&w, "reason", error_word(result->code));
        else
            trace_put_u64(&w, "rev", result->revision);
        break;
    case REPLAY_VACATED:
        trace_put_answer(&w, TRACE_RELEASE);
        trace_put_text(&w, "reason", reason_word((int)result->reason));
        break;
    }
    if (result->kind == REPLAY_ATTACHED || result->kind == REPLAY_DETACHED) {
        trace_put_u64(&w, "staged", result->staged_bytes);
        trace_put_u64(&w, "stagers", result->stager_count);
    }
    if (result->kind == REPLAY_DETACHED || result->kind == REPLAY_PEAK)
        trace_put_u64(&w, "peak", result->peak);
    if (trace_parse(text, trace_finish(&w), ret, error) < 0)
        ret->outcome = TRACE_NO_ANSWER; /* cannot be: a test reads back all that we write */
    ret->verb = line->verb;
}

/* Numbers are compared as numbers: "0.50" is "0.5". */
static bool same_value(const char *a, const char *b)
{
    uint64_t x, y;

    if (!a || !b)
        return a == b;
    if (strcmp(a, b) == 0)
        return true;
    if (parse_u64(a, &x) == 0 && parse_u64(b, &y) == 0)
        return x == y;
    return parse_seconds(a, &x) == 0 && parse_seconds(b, &y) == 0 && x == y;
}

size_t replay_compare_answer(const struct trace_line *expected, const struct trace_line *got,
                             replay_difference_fn tell, void *context)
{
    if (expected->outcome == TRACE_NO_ANSWER)
        return 0;
    if (expected->outcome != got->outcome)
        tell(context, "answer", trace_outcome_word(expected->outcome),
             trace_outcome_word(got->outcome));
    for (size_t i = 0; i < expected->answer_count; i++) {
        const char *key = expected->answer_pairs[i].key;
        const char *want = trace_get_answer(expected, key), *have = trace_get_answer(got, key);

        if (!same_value(want, have))
            tell(context, key, want ? want : "-", have ? have : "-");
    }
    return 1 + expected->answer_count;
}

const char *replay_bytes_text(uint64_t bytes, bool exact, char out[40])
{
    char *to = out;

    if (exact) {
        snprintf(out, 40, "%" PRIu64, bytes);
        return out;
    }
    format_human(bytes, out);
    for (const char *from = out; *from; from++)
        if (*from != ' ')
            *to++ = *from;
    *to = '\0';
    return out;
}

static bool is_bytes(const char *key)
{
    static const char *const keys[] = {
        "bytes",  "reserved", "allocated", "releasable", "from_empty",     "free", "total",
        "cached", "floor",    "budget",    "learned",    "staged",         "peak", "residue",
        "cap",    "pin",      "need",      "freed",      "demand_reserve",
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

static void put_pair(struct trace_writer *w, const char *key, const char *value, bool exact)
{
    char text[40];
    uint64_t bytes;

    if (!value)
        trace_put_opt(w, key, opt_none());
    else if (!exact && is_bytes(key) && parse_u64(value, &bytes) == 0)
        trace_put_text(w, key, replay_bytes_text(bytes, false, text));
    else
        trace_put_text(w, key, value);
}

void replay_print_event(FILE *out, const struct trace_line *line, const struct trace_line *answer,
                        bool exact)
{
    char text[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, text, sizeof(text), line->verb);
    for (size_t i = 0; i < line->pair_count; i++)
        put_pair(&w, line->pairs[i].key, trace_get(line, line->pairs[i].key), exact);
    trace_finish(&w);
    fputs(text, out);
    if (answer->outcome != TRACE_NO_ANSWER) { /* a line of its own, so that it is never cut */
        trace_begin(&w, text, sizeof(text), line->verb);
        trace_put_answer(&w, answer->outcome);
        for (size_t i = 0; i < answer->answer_count; i++)
            put_pair(&w, answer->answer_pairs[i].key,
                     trace_get_answer(answer, answer->answer_pairs[i].key), exact);
        trace_finish(&w);
        fputs(text + strlen(trace_verb_word(line->verb)), out);
    }
    fputc('\n', out);
}

/* R12: unforced releases of every reason */
static uint64_t unforced(const uint64_t *counts)
{
    uint64_t total = 0;

    for (size_t i = 0; i < REASON_MAX; i++)
        if (i != REASON_FORCED)
            total += counts[i];
    return total;
}

/* Comment lines, so that what `replay --bytes` prints is a trace again. */
void replay_print_summary(FILE *out, const struct replay_summary *s, bool exact)
{
    char peak[40], budget[40], claim[40];

    fprintf(out,
            "# %" PRIu64 " events, %" PRIu64 " asks: %" PRIu64 " retained, %" PRIu64 " released",
            s->events, s->asks, s->retained, replay_releases(s));
    if (s->errors)
        fprintf(out, ", %" PRIu64 " error answers", s->errors);
    if (s->planned)
        fprintf(out, ", %" PRIu64 " skipped (planned)", s->planned);
    fputc('\n', out);
    for (size_t i = 0; i < REASON_MAX; i++)
        if (s->releases[0][i] || s->releases[1][i])
            fprintf(out, "# released %s: %" PRIu64 " in warm-up, %" PRIu64 " outside\n",
                    reason_word((int)i), s->releases[1][i], s->releases[0][i]);
    fprintf(out,
            "# unforced releases: %" PRIu64 " cold start, %" PRIu64 " serving, %" PRIu64
            " not covered by the warm-up\n",
            unforced(s->releases[1]), unforced(s->releases[0]), s->uncovered);
    if (!s->asks)
        return;
    fprintf(out, "# last session %" PRIu64 ": peak %s, budget %s; largest claim %s\n",
            s->last_session, replay_bytes_text(s->final_peak, exact, peak),
            s->final_budget.has ? replay_bytes_text(s->final_budget.v, exact, budget) : "-",
            replay_bytes_text(s->largest_claim_bytes, exact, claim));
}
