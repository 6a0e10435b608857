/* SPDX-License-Identifier: Apache-2.0 */
/* The trace format: journal file, output of `dlo-ctl events`, input of `dlo-ctl replay`, and test
 * vectors are all this text, one line per event:
 *
 *     verb key=value ... -> answer key=value ...
 *
 * This module turns a line into verb and pairs and back; it knows which keys a verb needs and what
 * form their values have, and nothing of what they mean. No heap, no I/O, no locale. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/answer.h"
#include "proto/base/attr.h"

#define TRACE_HEADER     "# dlo-trace 1"
#define TRACE_LINE_MAX   2048 /* characters without the newline; our longest, an ask, has 600 */
#define TRACE_PAIRS_MAX  48
#define TRACE_ERROR_SIZE 256

/* Each verb has a row in trace.c: its word, its required keys and the optional keys that have a
 * form, as "key:form ...". Forms: u (u64), i (32 bits, may be negative), t (seconds), d (double), b
 * (0 or 1), B (true or false), n (name), s (any text), w (RFC 3339), l (numbers with commas), f
 * (features: a number or words with commas), and the words of terms.h: p policy, m mode, e
 * stage_end, r force, h phase, o source; k the kind of a lease. */
enum trace_verb {
    TRACE_NONE = 0, /* a comment or an empty line */
    TRACE_CONFIG,
    TRACE_CLOCK,
    TRACE_NOTE,
    TRACE_OPEN,
    TRACE_CLOSE,
    TRACE_ATTACH,
    TRACE_DETACH,
    TRACE_SET_PEAK,
    TRACE_SET,
    TRACE_WARMUP,
    TRACE_BUSY,
    TRACE_IDLE,
    TRACE_SAMPLE,
    TRACE_PROCESS,
    TRACE_ASK,
    TRACE_OOM,
    TRACE_LEASE,
    TRACE_UNLEASE,
    TRACE_RECLAIM,
    TRACE_END,
    TRACE_RELEASED,
    TRACE_VERB_MAX
};

enum trace_outcome {
    TRACE_NO_ANSWER = 0,
    TRACE_OK,
    TRACE_ERROR,
    TRACE_RETAIN,
    TRACE_RELEASE,
    TRACE_KEEP,
    TRACE_GRANTED,
    TRACE_TIMEOUT,
    TRACE_REFUSED,
    TRACE_DONE,
    TRACE_OUTCOME_MAX
};

/* Both point into the storage of their line. */
struct trace_pair {
    const char *key, *value;
};

struct trace_line {
    enum trace_verb verb;
    enum trace_outcome outcome;
    size_t pair_count, answer_count;
    struct trace_pair pairs[TRACE_PAIRS_MAX];        /* before -> */
    struct trace_pair answer_pairs[TRACE_PAIRS_MAX]; /* after -> */
    char storage[TRACE_LINE_MAX + 1];
};

const char *trace_verb_word(enum trace_verb verb);
const char *trace_outcome_word(enum trace_outcome outcome);

/* Parses one line (no newline). 0, or ERR_INVALID / ERR_OVERFLOW / ERR_TOO_LONG with one sentence
 * in ret_error that names the key. Unknown keys are kept. ret->verb is TRACE_NONE for comments. */
int trace_parse(const char *text, size_t length, struct trace_line *ret,
                char ret_error[TRACE_ERROR_SIZE]) _must_check_;

/* Values of a parsed line, whose form trace_parse has checked. Missing key or "-": none. */
const char *trace_get(const struct trace_line *line, const char *key);        /* NULL if missing */
const char *trace_get_answer(const struct trace_line *line, const char *key); /* NULL if missing */
bool trace_has(const struct trace_line *line, const char *key); /* also where it is "-" */
struct opt_u64 trace_get_u64(const struct trace_line *line, const char *key);
struct opt_u64 trace_get_time(const struct trace_line *line, const char *key); /* ns */
void trace_get_boundary(const struct trace_line *line, struct boundary *ret);
void trace_get_resume(const struct trace_line *line, struct resume *ret);

/* Writes one line. Strings are quoted where they need it; what does not fit is cut at the end of
 * the line, `is_cut` says so, and the line is still one line. */
struct trace_writer {
    char *out;
    size_t size, length;
    bool is_cut, has_answer;
};

void trace_begin(struct trace_writer *w, char *out, size_t size, enum trace_verb verb);
void trace_put_u64(struct trace_writer *w, const char *key, uint64_t value);
void trace_put_i64(struct trace_writer *w, const char *key, int64_t value);
void trace_put_opt(struct trace_writer *w, const char *key, struct opt_u64 value); /* "-" if none */
void trace_put_double(struct trace_writer *w, const char *key, double value);      /* 17 digits */
void trace_put_time(struct trace_writer *w, const char *key, uint64_t ns);
void trace_put_text(struct trace_writer *w, const char *key, const char *value);
void trace_put_boundary(struct trace_writer *w, const struct boundary *b); /* R8's inputs */
/* Of an `open` beyond docs/trace-format.md: accepted=1, a session that was allowed when it came and
 * is not asked again. From here: peak n warmup busy residue cap pin priority rev, and beyond
 * docs/trace-format.md: warmup_ended (a window ended, R13), reserved and allocated (of the last
 * report), announced (R24a), retained cold serving uncovered (the counts of R12 and R13), forced
 * and local (counts by cause, "1,0,2" from cause 1 on). Only what differs from a fresh session. */
void trace_put_resume(struct trace_writer *w, const struct resume *state);
/* R24: outcome, reason, freed, free */
void trace_put_wait_end(struct trace_writer *w, enum wait_end end, uint64_t freed,
                        struct opt_u64 free_bytes);
void trace_put_answer(struct trace_writer *w, enum trace_outcome outcome); /* " -> retain" */
void trace_put_decision(struct trace_writer *w, const struct answer *a);   /* outcome and R8 keys */
/* NUL-terminates; returns the length. No newline is written. */
size_t trace_finish(struct trace_writer *w);
