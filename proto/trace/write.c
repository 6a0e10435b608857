/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/parse.h"
#include "proto/trace/internal.h"
#include "proto/trace/trace.h"

/* Appends the whole text or nothing. Once something was cut nothing follows, so that a line never
 * has a hole. */
static void put(struct trace_writer *w, const char *text, size_t length)
{
    if (w->is_cut || length >= w->size - w->length) {
        w->is_cut = true;
        return;
    }
    memcpy(w->out + w->length, text, length);
    w->length += length;
}

/* " key=value" in one piece. */
static void put_pair(struct trace_writer *w, const char *key, const char *value)
{
    size_t key_length = strlen(key), value_length = strlen(value);

    if (w->is_cut || key_length + value_length + 2 >= w->size - w->length) {
        w->is_cut = true;
        return;
    }
    put(w, " ", 1);
    put(w, key, key_length);
    put(w, "=", 1);
    put(w, value, value_length);
}

void trace_begin(struct trace_writer *w, char *out, size_t size, enum trace_verb verb)
{
    const char *word = trace_verb_word(verb);

    *w = (struct trace_writer){.out = out, .size = size};
    if (w->size > TRACE_LINE_MAX + 1)
        w->size = TRACE_LINE_MAX + 1;
    if (w->size == 0)
        w->is_cut = true;
    put(w, word, strlen(word));
}

void trace_put_u64(struct trace_writer *w, const char *key, uint64_t value)
{
    char text[PARSE_TEXT_MAX];

    format_u64(value, text);
    put_pair(w, key, text);
}

void trace_put_i64(struct trace_writer *w, const char *key, int64_t value)
{
    char text[PARSE_TEXT_MAX];

    snprintf(text, sizeof(text), "%" PRId64, value);
    put_pair(w, key, text);
}

void trace_put_opt(struct trace_writer *w, const char *key, struct opt_u64 value)
{
    if (value.has)
        trace_put_u64(w, key, value.v);
    else
        put_pair(w, key, trace_missing);
}

void trace_put_double(struct trace_writer *w, const char *key, double value)
{
    char text[PARSE_TEXT_MAX];

    format_double(value, text);
    put_pair(w, key, text);
}

void trace_put_time(struct trace_writer *w, const char *key, uint64_t ns)
{
    char text[PARSE_TEXT_MAX];

    format_seconds(ns, text);
    put_pair(w, key, text);
}

/* The next piece of a quoted text: one character, escaped where it must be, or the %XX of a byte
 * that may not stand in a line. Returns the bytes read. */
static size_t next_piece(const char *text, size_t left, char out[8])
{
    size_t n = 1;

    if (*text == '"' || *text == '\\') {
        out[0] = '\\';
        out[1] = *text;
        out[2] = '\0';
        return 1;
    }
    while (n < left && n < 4 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n++;
    n = trace_find_bad_byte(text, n); /* the length of the character, 0 for none */
    if (n == 0) {
        snprintf(out, 8, "%%%02X", (unsigned)(unsigned char)*text);
        return 1;
    }
    memcpy(out, text, n);
    out[n] = '\0';
    return n;
}

static bool is_bare(const char *value, size_t length)
{
    return length > 0 && length < 128 && strcmp(value, "-") != 0 &&
           trace_find_bad_byte(value, length) == length && !strpbrk(value, " \"\\");
}

/* What does not fit of a text is cut inside the quotes. */
void trace_put_text(struct trace_writer *w, const char *key, const char *value)
{
    size_t length = strlen(value), at = 0, before = w->length;
    char head[LIMIT_NAME_SIZE + 8], piece[8];
    bool is_cut = false;

    if (is_bare(value, length)) {
        put_pair(w, key, value);
        return;
    }
    snprintf(head, sizeof(head), " %s=\"", key);
    put(w, head, strlen(head));
    if (w->is_cut)
        return;
    if (w->size - w->length < 2) { /* no room for the closing quote */
        w->length = before;
        w->is_cut = true;
        return;
    }
    while (at < length && !is_cut) {
        at += next_piece(value + at, length - at, piece);
        if (strlen(piece) + 1 >= w->size - w->length) /* the closing quote comes behind it */
            is_cut = true;
        else
            put(w, piece, strlen(piece));
    }
    put(w, "\"", 1);
    w->is_cut |= is_cut;
}

void trace_put_boundary(struct trace_writer *w, const struct boundary *b)
{
    if (b->force != FORCE_NONE)
        put_pair(w, "force", force_word((int)b->force));
    if (b->force == FORCE_NONE || b->reserved.has)
        trace_put_opt(w, "reserved", b->reserved);
    if (b->force == FORCE_NONE || b->allocated.has)
        trace_put_opt(w, "allocated", b->allocated);
    if (b->releasable.has)
        trace_put_opt(w, "releasable", b->releasable);
    if (b->free.has || b->total.has) {
        trace_put_opt(w, "free", b->free);
        trace_put_opt(w, "total", b->total);
    }
    if (b->component[0])
        trace_put_text(w, "component", b->component);
}

static void put_nonzero(struct trace_writer *w, const char *key, uint64_t value)
{
    if (value)
        trace_put_u64(w, key, value);
}

static void put_known(struct trace_writer *w, const char *key, struct opt_u64 value)
{
    if (value.has)
        trace_put_u64(w, key, value.v);
}

/* counts[1..] as "3,0,1"; nothing where all are 0. */
static void put_counts(struct trace_writer *w, const char *key, const uint64_t *counts, size_t max)
{
    char text[8 * PARSE_TEXT_MAX];
    size_t length = 0;
    bool any = false;

    for (size_t i = 1; i < max; i++) {
        int n = snprintf(text + length, sizeof(text) - length, "%s%" PRIu64, i > 1 ? "," : "",
                         counts[i]);

        if (n < 0 || (size_t)n >= sizeof(text) - length)
            return; /* cannot be: 8 numbers fit */
        length += (size_t)n;
        any |= counts[i] != 0;
    }
    if (any)
        put_pair(w, key, text);
}

void trace_put_resume(struct trace_writer *w, const struct resume *state)
{
    const struct counts *c = &state->counts;

    _Static_assert(FORCE_MAX <= 9 && CAUSE_MAX <= 9, "put_counts holds 8 numbers");
    put_nonzero(w, "peak", state->peak);
    put_nonzero(w, "n", state->n);
    put_nonzero(w, "warmup", state->in_warmup);
    put_nonzero(w, "warmup_ended", state->warmup_ended);
    put_nonzero(w, "busy", state->busy);
    put_known(w, "residue", state->residue);
    put_known(w, "reserved", state->reserved);
    put_known(w, "allocated", state->allocated);
    put_known(w, "announced", state->announced);
    put_known(w, "cap", state->operator.cap_bytes);
    put_known(w, "pin", state->operator.pin_bytes);
    if (state->operator.priority)
        trace_put_i64(w, "priority", state->operator.priority);
    put_nonzero(w, "rev", state->operator.revision);
    put_nonzero(w, "retained", c->retained);
    put_nonzero(w, "cold", c->cold_start_releases);
    put_nonzero(w, "serving", c->serving_releases);
    put_nonzero(w, "uncovered", c->uncovered);
    put_counts(w, "forced", c->forced, FORCE_MAX);
    put_counts(w, "local", c->local, CAUSE_MAX);
}

void trace_put_answer(struct trace_writer *w, enum trace_outcome outcome)
{
    const char *word = trace_outcome_word(outcome);
    char text[32];

    w->has_answer = true;
    snprintf(text, sizeof(text), " -> %s", word);
    put(w, text, strlen(text));
}

void trace_put_wait_end(struct trace_writer *w, enum wait_end end, uint64_t freed,
                        struct opt_u64 free_bytes)
{
    trace_put_answer(w, end == WAIT_END_COVERED    ? TRACE_GRANTED
                        : end == WAIT_END_DEADLINE ? TRACE_TIMEOUT
                                                   : TRACE_DONE);
    trace_put_text(w, "reason", wait_end_word((int)end));
    trace_put_u64(w, "freed", freed);
    trace_put_opt(w, "free", free_bytes);
}

static enum trace_outcome outcome_of(enum decision decision)
{
    switch (decision) {
    case DECISION_RETAIN:
        return TRACE_RETAIN;
    case DECISION_RELEASE:
        return TRACE_RELEASE;
    default:
        return TRACE_KEEP;
    }
}

/* R8 */
void trace_put_decision(struct trace_writer *w, const struct answer *a)
{
    trace_put_answer(w, outcome_of(a->decision));
    put_pair(w, "reason", reason_word((int)a->reason));
    trace_put_opt(w, "cached", a->cached);
    trace_put_opt(w, "free", a->free);
    trace_put_opt(w, "total", a->total);
    if (a->age_ns.has)
        trace_put_time(w, "age", a->age_ns.v);
    else
        trace_put_opt(w, "age", opt_none());
    trace_put_opt(w, "floor", a->floor);
    trace_put_opt(w, "cap", a->cap);
    trace_put_opt(w, "budget", a->budget);
    trace_put_opt(w, "capped", a->capped);
    trace_put_u64(w, "peak", a->peak);
    trace_put_u64(w, "learned", a->learned);
    trace_put_u64(w, "staged", a->staged_bytes);
    trace_put_u64(w, "stagers", a->stager_count);
    trace_put_u64(w, "warmup", a->warmup);
    trace_put_u64(w, "n", a->n);
    if (a->would != a->decision)
        put_pair(w, "would", decision_word((int)a->would));
}

size_t trace_finish(struct trace_writer *w)
{
    if (w->size > 0)
        w->out[w->length] = '\0';
    return w->length;
}
