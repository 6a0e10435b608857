/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/trace/trace.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/base/name.h"
#include "proto/trace/internal.h"

#define SHOWN_MAX 80 /* of a value in an error */

/* "key:form ..."; a '-' behind the form of a required key: it must be there and may be "-". */
struct verb_row {
    const char *word, *required, *optional;
};

static const struct verb_row verbs[TRACE_VERB_MAX] = {
    [TRACE_CONFIG] = {"config", "",
                      "margin:d cap_fraction:d min_free:d policy:p allow_never:B mode:m "
                      "demand_reserve:u oom_wait:t dead_wait:t busy_wait:t sample_timeout:t "
                      "quiet_reserve:u t:t"},
    [TRACE_CLOCK] = {"clock", "wall:w", "t:t"},
    [TRACE_NOTE] =
        {"note", "text:s",
         "s:u cut:u events:u calls:u newest:u taken:t bytes:u free:u died:t resumes:t t:t"},
    [TRACE_OPEN] =
        {"open", "s:u",
         "name:n pid:u uid:u min_free:d policy:p stage_end:e mode:m features:f group:n rank:u "
         "world:u t:t peak:u n:u warmup:b warmup_ended:b busy:b residue:u reserved:u "
         "announced:u "
         "allocated:u cap:u pin:u priority:i rev:u retained:u cold:u serving:u "
         "uncovered:u forced:l local:l accepted:b idle:b background:b releasable:u "
         "unreleasable:u charge:u slowest:t busy_at:t late_until:t granted_at:t hold:u "
         "hold_before:u hold_ends:t"},
    [TRACE_CLOSE] = {"close", "s:u", "t:t"},
    [TRACE_ATTACH] = {"attach", "s:u id:n bytes:u", "t:t"},
    [TRACE_DETACH] = {"detach", "s:u id:n", "t:t"},
    [TRACE_SET_PEAK] = {"set_peak", "s:u peak:u", "total:u t:t"},
    [TRACE_SET] = {"set", "s:u rev:u", "cap:u pin:u priority:i t:t"},
    [TRACE_WARMUP] = {"warmup", "s:u phase:h", "t:t"},
    [TRACE_BUSY] = {"busy", "s:u phase:h", "need:u wait:t call:u reserved:u allocated:u t:t"},
    [TRACE_IDLE] = {"idle", "s:u phase:h", "background:b t:t"},
    [TRACE_SAMPLE] = {"sample", "free:u- total:u-", "source:o t:t age:t"},
    [TRACE_PROCESS] = {"process", "pid:u bytes:u", "name:s t:t"},
    [TRACE_ASK] = {"ask", "s:u", /* and reserved and allocated, unless force is there */
                   "reserved:u allocated:u free:u total:u force:r component:n releasable:u "
                   "from_empty:u t:t"},
    [TRACE_OOM] = {"oom", "s:u need:u call:u", "reserved:u allocated:u target:u only_ready:b t:t"},
    [TRACE_LEASE] = {"lease", "s:u kind:k call:u", "bytes:u quiet:t wait:t term:t t:t"},
    [TRACE_UNLEASE] = {"unlease", "s:u", "kind:k t:t"},
    [TRACE_RECLAIM] = {"reclaim", "s:u event:u call:u", "bytes:u reason:s deadline:t t:t"},
    [TRACE_END] = {"end", "call:u", "s:u t:t"},
    [TRACE_RELEASED] = {"released", "s:u reserved:u allocated:u", "us:u t:t"},
};

static const char *const outcomes[TRACE_OUTCOME_MAX] = {
    [TRACE_OK] = "ok",           [TRACE_ERROR] = "error",     [TRACE_RETAIN] = "retain",
    [TRACE_RELEASE] = "release", [TRACE_KEEP] = "keep",       [TRACE_GRANTED] = "granted",
    [TRACE_TIMEOUT] = "timeout", [TRACE_REFUSED] = "refused", [TRACE_DONE] = "done",
};

const char *trace_verb_word(enum trace_verb verb)
{
    return verb > TRACE_NONE && verb < TRACE_VERB_MAX ? verbs[verb].word : "-";
}

const char *trace_outcome_word(enum trace_outcome outcome)
{
    return outcome > TRACE_NO_ANSWER && outcome < TRACE_OUTCOME_MAX ? outcomes[outcome] : "-";
}

/* Writes "verb: key: problem: value" from those that are not NULL. Returns code. */
static int fail(int code, const struct trace_line *line, const char *key, const char *problem,
                const char *value, char ret_error[TRACE_ERROR_SIZE])
{
    char shown[SHOWN_MAX] = "", named[LIMIT_NAME_SIZE] = "";
    bool has_verb = line->verb != TRACE_NONE;

    if (key)
        text_escape(key, strlen(key), named, sizeof(named));
    if (value)
        text_escape(value, strlen(value), shown, sizeof(shown));
    snprintf(ret_error, TRACE_ERROR_SIZE, "%s%s%s%s%s%s%s", has_verb ? verbs[line->verb].word : "",
             has_verb ? ": " : "", named, key ? ": " : "", problem, value ? ": " : "", shown);
    return code;
}

static char *skip_spaces(char *p)
{
    while (*p == ' ')
        p++;
    return p;
}

/* Ends the word at *p and moves behind it and the spaces that follow. */
static char *take_word(char **p)
{
    char *word = *p, *end = word + strcspn(word, " ");
    bool is_last = !*end;

    *end = '\0';
    *p = is_last ? end : skip_spaces(end + 1);
    return word;
}

/* *p stands on the opening quote. Unescapes in place. Returns what is wrong, or NULL. */
static const char *take_quoted(char **p, char **ret_value)
{
    char *from = *p + 1, *to = from;

    *ret_value = from;
    for (; *from != '"'; from++) {
        if (*from == '\\') {
            from++;
            if (*from && *from != '"' && *from != '\\')
                return "a backslash that is not before a quote or a backslash";
        }
        if (!*from)
            return "the quote is not closed";
        *to++ = *from;
    }
    if (from[1] && from[1] != ' ')
        return "text behind the closing quote";
    *to = '\0'; /* at the closing quote or before it */
    *p = skip_spaces(from + 1);
    return NULL;
}

static bool is_key(const char *key, size_t length)
{
    if (length < 1 || length > LIMIT_NAME_CHARS || (key[0] >= '0' && key[0] <= '9'))
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = key[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_'))
            return false;
    }
    return true;
}

static const char *find(const struct trace_pair *pairs, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0)
            return pairs[i].value;
    return NULL;
}

/* One key=value at *p into the list. */
static int take_pair(struct trace_line *line, char **p, struct trace_pair *pairs, size_t *count,
                     char ret_error[TRACE_ERROR_SIZE])
{
    char *key = *p, *value;
    size_t length = strcspn(key, " =\"");
    const char *problem;

    if (key[length] != '=')
        return fail(ERR_INVALID, line, NULL, "not key=value", take_word(p), ret_error);
    if (!is_key(key, length))
        return fail(ERR_INVALID, line, NULL, "not a key", take_word(p), ret_error);
    key[length] = '\0';
    *p = key + length + 1;
    if (**p == '"') {
        problem = take_quoted(p, &value);
        if (problem)
            return fail(ERR_INVALID, line, key, problem, NULL, ret_error);
    } else {
        value = take_word(p);
        if (!*value)
            return fail(ERR_INVALID, line, key, "no value", NULL, ret_error);
        if (strcmp(value, "-") == 0)
            value = NULL;
    }
    if (find(pairs, *count, key))
        return fail(ERR_INVALID, line, key, "stands twice", NULL, ret_error);
    if (*count == TRACE_PAIRS_MAX)
        return fail(ERR_TOO_LONG, line, key, "too many keys", NULL, ret_error);
    pairs[(*count)++] = (struct trace_pair){key, value ? value : trace_missing};
    return 0;
}

/* The form of a key in a list of "key:form", NULL where it is not there. */
static const char *form_of(const char *list, const char *key)
{
    size_t length = strlen(key);

    while (*list) {
        if (strncmp(list, key, length) == 0 && list[length] == ':')
            return list + length + 1;
        list += strcspn(list, " ");
        list += *list == ' ';
    }
    return NULL;
}

static int check_required(const struct trace_line *line, const char *list,
                          char ret_error[TRACE_ERROR_SIZE])
{
    char key[LIMIT_NAME_SIZE];

    while (*list) {
        size_t length = strcspn(list, ":"), whole = strcspn(list, " ");

        memcpy(key, list, length);
        key[length] = '\0';
        if (!find(line->pairs, line->pair_count, key))
            return fail(ERR_INVALID, line, key, "missing", NULL, ret_error);
        list += whole;
        list += *list == ' ';
    }
    return 0;
}

static int check_values(const struct trace_line *line, char ret_error[TRACE_ERROR_SIZE])
{
    const struct verb_row *row = &verbs[line->verb];

    for (size_t i = 0; i < line->pair_count; i++) {
        const struct trace_pair *pair = &line->pairs[i];
        const char *required = form_of(row->required, pair->key), *problem;
        const char *form = required ? required : form_of(row->optional, pair->key);
        int r;

        if (!form)
            continue;
        if (pair->value == trace_missing) {
            if (required && form[1] != '-')
                return fail(ERR_INVALID, line, pair->key, "missing", "-", ret_error);
            continue;
        }
        r = trace_check_form(form[0], pair->value, &problem);
        if (r < 0)
            return fail(r, line, pair->key, problem, pair->value, ret_error);
    }
    return 0;
}

/* What the table cannot say. */
static int check_together(const struct trace_line *line, char ret_error[TRACE_ERROR_SIZE])
{
    const char *kind;

    if (line->verb == TRACE_ASK && !trace_get(line, "force"))
        return check_required(line, "reserved:u allocated:u", ret_error);
    kind = line->verb == TRACE_LEASE ? trace_get(line, "kind") : NULL;
    if (kind && strcmp(kind, "bytes") == 0 && !trace_get(line, "bytes"))
        return fail(ERR_INVALID, line, "bytes", "missing", NULL, ret_error);
    return 0;
}

static int take_answer(struct trace_line *line, char **p, char ret_error[TRACE_ERROR_SIZE])
{
    const char *word = take_word(p);

    if (!*word)
        return fail(ERR_INVALID, line, NULL, "no answer behind ->", NULL, ret_error);
    for (int i = TRACE_NO_ANSWER + 1; i < TRACE_OUTCOME_MAX; i++)
        if (strcmp(outcomes[i], word) == 0)
            line->outcome = (enum trace_outcome)i;
    if (line->outcome == TRACE_NO_ANSWER)
        return fail(ERR_INVALID, line, NULL, "unknown answer", word, ret_error);
    while (**p) {
        int r = take_pair(line, p, line->answer_pairs, &line->answer_count, ret_error);

        if (r < 0)
            return r;
    }
    return 0;
}

static int take_verb(struct trace_line *line, char **p, char ret_error[TRACE_ERROR_SIZE])
{
    const char *word = take_word(p);

    for (int i = TRACE_NONE + 1; i < TRACE_VERB_MAX; i++)
        if (strcmp(verbs[i].word, word) == 0)
            line->verb = (enum trace_verb)i;
    if (line->verb == TRACE_NONE)
        return fail(ERR_INVALID, line, NULL, "unknown verb", word, ret_error);
    return 0;
}

static int take_line(struct trace_line *line, char *p, char ret_error[TRACE_ERROR_SIZE])
{
    int r = take_verb(line, &p, ret_error);

    while (r == 0 && *p) {
        if (p[0] == '-' && p[1] == '>' && (p[2] == ' ' || !p[2])) {
            take_word(&p);
            r = take_answer(line, &p, ret_error);
            break;
        }
        r = take_pair(line, &p, line->pairs, &line->pair_count, ret_error);
    }
    if (r == 0)
        r = check_required(line, verbs[line->verb].required, ret_error);
    if (r == 0)
        r = check_values(line, ret_error);
    return r < 0 ? r : check_together(line, ret_error);
}

int trace_parse(const char *text, size_t length, struct trace_line *ret,
                char ret_error[TRACE_ERROR_SIZE])
{
    size_t bad;
    char *p;

    ret->verb = TRACE_NONE;
    ret->outcome = TRACE_NO_ANSWER;
    ret->pair_count = ret->answer_count = 0;
    ret->storage[0] = '\0';
    if (length > TRACE_LINE_MAX) {
        snprintf(ret_error, TRACE_ERROR_SIZE, "the line is longer than %d bytes", TRACE_LINE_MAX);
        return ERR_TOO_LONG;
    }
    bad = trace_find_bad_byte(text, length);
    if (bad < length) {
        snprintf(ret_error, TRACE_ERROR_SIZE,
                 "column %zu: a control character or not UTF-8 (byte 0x%02X)", bad + 1,
                 (unsigned)(unsigned char)text[bad]);
        return ERR_INVALID;
    }
    if (length > 0)
        memcpy(ret->storage, text, length);
    ret->storage[length] = '\0';
    p = skip_spaces(ret->storage);
    if (!*p || *p == '#')
        return 0;
    return take_line(ret, p, ret_error);
}

/* Missing and "-" are alike for those who ask. */
static const char *get(const struct trace_pair *pairs, size_t count, const char *key)
{
    const char *value = find(pairs, count, key);

    return value == trace_missing ? NULL : value;
}

const char *trace_get(const struct trace_line *line, const char *key)
{
    return get(line->pairs, line->pair_count, key);
}

bool trace_has(const struct trace_line *line, const char *key)
{
    for (size_t i = 0; i < line->pair_count; i++)
        if (strcmp(line->pairs[i].key, key) == 0)
            return true;
    return false;
}

const char *trace_get_answer(const struct trace_line *line, const char *key)
{
    return get(line->answer_pairs, line->answer_count, key);
}
