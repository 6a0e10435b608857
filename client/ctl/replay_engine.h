/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the offline player: its sessions, and what room on the device is to them. */
#pragma once

#include "client/ctl/replay_play.h"
#include "daemon/policy/arbiter.h"

#define BUCKETS 256 /* a journal has at most some thousand sessions open */

struct played {
    struct list link; /* engine.buckets */
    struct policy_session policy;
    struct tenant tenant;
    uint64_t told_call; /* the trace's number of the reclaim that it was told last */
    bool has_released;  /* at its boundary before: from_empty holds at this one */
    bool is_partial;    /* not all of its stagers are in the trace */
    bool is_stale;      /* a run of a daemon has begun, and has not opened it again yet */
};

struct engine {
    const struct replay_options *options;
    struct policy_settings settings;
    struct arbiter arbiter;
    struct tenant operator; /* of lines with s=0 */
    uint64_t foreign_calls; /* that wait, and whose begin is not in the trace */
    struct list buckets[BUCKETS];
    struct sample newest;
    bool have_newest, have_age, has_stale;
    struct opt_u64 sample_time_ns, last_time_ns;
    struct opt_u64 device_total; /* the probe's last (R11c) */
    uint64_t max_stagers_session;
    bool has_quota;  /* the trace names it */
    bool is_partial; /* lines of a preamble are missing: sessions may be there that it does not open
                      */
};

typedef int (*handler_fn)(struct engine *e, const struct trace_line *line,
                          struct replay_result *ret, char ret_error[TRACE_ERROR_SIZE]);

/* The session with that number, NULL where it is not open. */
struct played *engine_find(struct engine *e, uint64_t number);
/* The session of the line, NULL with the error written. */
struct played *engine_session(struct engine *e, const struct trace_line *line,
                              char ret_error[TRACE_ERROR_SIZE]);
/* The result of a call that answers ok or an error. */
void engine_answer_code(struct replay_result *ret, int code);
/* The time of the line, or of the last one that had one. */
uint64_t engine_now_ns(const struct engine *e);

/* ---- replay_room.c ---- */
void engine_room_init(struct engine *e);
/* What a config line says about waiting. */
void engine_room_config(struct engine *e, const struct trace_line *line);
/* The keys of an open line. */
void engine_room_open(struct engine *e, struct played *p, const struct trace_line *line);
/* A preamble begins; its notes say what goes on. */
void engine_room_clock(struct engine *e);
/* Notes of a preamble. */
void engine_room_note(struct engine *e, const struct trace_line *line);
/* Before a boundary is decided. */
void engine_room_boundary(struct engine *e, struct played *p, const struct trace_line *line,
                          const struct boundary *b, struct others *ret);
int engine_on_busy(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                   char ret_error[TRACE_ERROR_SIZE]);
int engine_on_idle(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                   char ret_error[TRACE_ERROR_SIZE]);
int engine_on_oom(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE]);
int engine_on_set(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE]);
int engine_on_lease(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                    char ret_error[TRACE_ERROR_SIZE]);
int engine_on_unlease(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                      char ret_error[TRACE_ERROR_SIZE]);
/* close s=0: who had caches released has gone. */
void engine_forget_operator(struct engine *e);
int engine_on_end(struct engine *e, const struct trace_line *line, struct replay_result *ret,
                  char ret_error[TRACE_ERROR_SIZE]);
