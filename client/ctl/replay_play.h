/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of `replay`: options, a trace in memory, one line at a time, and the result of
 * playing it, which the offline engine and the live connection fill alike. Knows nothing of
 * daemon/policy; only the engine does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/trace/trace.h"

struct replay_options {
    bool check, compare, json, bytes, live;
    bool has_margin, has_cap_fraction, has_min_free;
    double margin, cap_fraction, min_free; /* these and policy win over the trace */
    enum policy policy;                    /* NONE: what the trace says */
    const char *socket;
    bool close_loop; /* take from_empty where the policy released before (--compare) */
};

enum replay_kind {
    REPLAY_NOTHING, /* the line has no answer */
    REPLAY_OK,
    REPLAY_ERROR,    /* `error reason=...` */
    REPLAY_ATTACHED, /* ok staged stagers */
    REPLAY_DETACHED, /* ok staged stagers peak */
    REPLAY_PEAK,     /* ok peak */
    REPLAY_DECISION,
    REPLAY_SET,     /* ok rev, or refused reason (R31) */
    REPLAY_VACATED, /* release reason: a busy end (R21) */
    REPLAY_TAKEN,   /* what stands behind -> is no answer but a report */
    REPLAY_UNKNOWN, /* of a session that this piece of a journal does not open */
    REPLAY_PLANNED, /* a verb of a rule that is not built yet */
};

struct replay_result {
    enum replay_kind kind;
    int code; /* of REPLAY_ERROR */
    uint64_t staged_bytes, peak;
    uint32_t stager_count;
    struct answer answer;
    uint64_t revision;          /* of REPLAY_SET */
    enum reason reason;         /* of REPLAY_VACATED */
    struct opt_u64 held_bytes;  /* cached at this boundary, also where it was forced */
    struct opt_u64 claim_bytes; /* R20 */
    struct opt_u64 next_budget; /* after this observation; live: before it */
    bool uncovered;             /* R13 */
};

/* ---- traces ---- */
struct replay_file {
    const char *name;
    char *text; /* owned */
    size_t length, at, line;
};

/* Reads the whole file ("-": stdin). Prints what is wrong and returns -1. */
int replay_file_load(struct replay_file *f, const char *name);
void replay_file_done(struct replay_file *f);
void replay_file_rewind(struct replay_file *f);

/* The next line with a verb. 1; 0 at the end; -1 with the sentence in ret_error. */
int replay_file_next(struct replay_file *f, struct trace_line *ret,
                     char ret_error[TRACE_ERROR_SIZE]);

/* ---- players; each returns 0, or -1 with the sentence in ret_error ---- */
struct engine;
struct live;
struct policy_settings;

/* Settings of a trace that has no config line; those of daemon/config.def but allow_never. */
void engine_default_settings(struct policy_settings *ret);
/* The name of an option that is out of range, or NULL. */
const char *engine_check_options(const struct replay_options *o);
/* NULL: out of memory. The options are borrowed. */
struct engine *engine_new(const struct replay_options *o);
void engine_free(struct engine *e);
int engine_step(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                char ret_error[TRACE_ERROR_SIZE]);

/* Is the line one that the arbiter answers, a reclaim or the end of a call that waited? */
bool engine_is_output(struct engine *e, const struct trace_line *line);
/* The time of that line comes. */
void engine_let_pass(struct engine *e, const struct trace_line *line);
/* The next line that the arbiter answers; false where there is none. */
bool engine_next_output(struct engine *e, struct trace_line *ret);
/* The trace begins amid calls that wait, or lacks sessions: its outputs cannot be told. */
bool engine_is_torn(const struct engine *e);

/* Finds a daemon that answers. NULL with an exit code and the sentence in ret_error. */
struct live *live_new(const char *socket, int *ret_exit, char ret_error[TRACE_ERROR_SIZE]);
void live_free(struct live *l);
/* May this line be played through a daemon? */
int live_check(const struct trace_line *line, char ret_error[TRACE_ERROR_SIZE]);
int live_step(struct live *l, const struct trace_line *line, struct replay_result *ret,
              char ret_error[TRACE_ERROR_SIZE]);

/* Shared by both: a list of names or a number, as trace_parse has checked it. */
uint64_t replay_features(const char *text);
/* "ask: s: no session 5 is open" */
int replay_no_session(const struct trace_line *line, uint64_t number,
                      char ret_error[TRACE_ERROR_SIZE]);

/* ---- what is made of a result ---- */
struct replay_summary {
    uint64_t events, asks, retained, uncovered, planned, errors;
    uint64_t releases[2][REASON_MAX]; /* [in a warm-up window] */
    uint64_t given_back_bytes, largest_claim_bytes, largest_retained_bytes;
    uint64_t last_session, final_peak;
    struct opt_u64 final_budget;
};

uint64_t replay_releases(const struct replay_summary *s);
void replay_count(struct replay_summary *s, const struct trace_line *line,
                  const struct replay_result *result);

/* The answer of a result in the words of the format, as a parsed line with the same verb. */
void replay_answer_line(const struct trace_line *line, const struct replay_result *result,
                        struct trace_line *ret);

/* --check: compares what stands behind -> with the answer. The caller's function is told of each
 * difference; returns how many keys were compared. */
typedef void (*replay_difference_fn)(void *context, const char *key, const char *expected,
                                     const char *got);
size_t replay_compare_answer(const struct trace_line *expected, const struct trace_line *got,
                             replay_difference_fn tell, void *context);

/* --compare over all files; returns the exit status. */
int replay_policies(const struct replay_options *o, struct replay_file *files, size_t count);

/* ---- output ---- */
void replay_print_event(FILE *out, const struct trace_line *line, const struct trace_line *answer,
                        bool exact);
void replay_print_summary(FILE *out, const struct replay_summary *s, bool exact);

/* Exact, or for people and without a space ("17.95GB"). */
const char *replay_bytes_text(uint64_t bytes, bool exact, char out[40]);
