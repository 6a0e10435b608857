/* SPDX-License-Identifier: Apache-2.0 */
/* Events, differences and summaries of a replay as JSON. Numbers are integers; what does not fit
 * 63 bits, and all text, is a string; what is missing is null. */
#include "client/ctl/replay_json.h"

#include <inttypes.h>
#include <string.h>

#include "proto/base/name.h"
#include "proto/base/parse.h"

static bool is_text(const char *key)
{
    static const char *const keys[] = {"name", "id",   "component", "group",
                                       "text", "wall", "features",  "reason"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

json_t *replay_json_u64(uint64_t v)
{
    char text[40];

    if (v <= INT64_MAX)
        return json_integer((json_int_t)v);
    return json_string(replay_bytes_text(v, true, text));
}

static json_t *value_of(const char *key, const char *value)
{
    uint64_t number;

    if (!value)
        return json_null();
    if (!is_text(key) && parse_u64(value, &number) == 0)
        return replay_json_u64(number);
    return json_string(value);
}

/* A file's name need not be UTF-8, and JSON must be: other bytes are escaped. */
static json_t *name_of(const char *name)
{
    json_t *plain = json_string(name);
    char safe[1024];

    return plain ? plain : json_string(text_escape(name, strlen(name), safe, sizeof(safe)));
}

json_t *replay_json_event(const struct replay_file *f, const struct trace_line *line,
                          const struct trace_line *answer)
{
    json_t *keys = json_object(), *result = json_object();

    for (size_t i = 0; i < line->pair_count; i++) {
        const char *key = line->pairs[i].key;

        json_object_set_new(keys, key, value_of(key, trace_get(line, key)));
    }
    for (size_t i = 0; i < answer->answer_count; i++) {
        const char *key = answer->answer_pairs[i].key;

        json_object_set_new(result, key, value_of(key, trace_get_answer(answer, key)));
    }
    return json_pack(
        "{s:o, s:o, s:s, s:o, s:s?, s:o}", "file", name_of(f->name), "line",
        replay_json_u64(f->line), "verb", trace_verb_word(line->verb), "keys", keys, "answer",
        answer->outcome == TRACE_NO_ANSWER ? NULL : trace_outcome_word(answer->outcome), "result",
        result);
}

json_t *replay_json_difference(const struct replay_file *f, const char *key, const char *expected,
                               const char *got)
{
    return json_pack("{s:o, s:o, s:s, s:s, s:s}", "file", name_of(f->name), "line",
                     replay_json_u64(f->line), "key", key, "expected", expected, "got", got);
}

static json_t *by_reason(const uint64_t *counts)
{
    json_t *o = json_object();

    for (size_t i = 1; i < REASON_MAX; i++)
        if (counts[i])
            json_object_set_new(o, reason_word((int)i), replay_json_u64(counts[i]));
    return o;
}

json_t *replay_json_summary(const char *name, const struct replay_summary *s)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "file", name_of(name),
        "events", replay_json_u64(s->events), "asks", replay_json_u64(s->asks), "retained",
        replay_json_u64(s->retained), "released_in_warmup", by_reason(s->releases[1]),
        "released_outside", by_reason(s->releases[0]), "uncovered", replay_json_u64(s->uncovered),
        "planned", replay_json_u64(s->planned), "last_session", replay_json_u64(s->last_session),
        "peak", replay_json_u64(s->final_peak), "budget",
        s->final_budget.has ? replay_json_u64(s->final_budget.v) : json_null(),
        "largest_claim_bytes", replay_json_u64(s->largest_claim_bytes));
}
