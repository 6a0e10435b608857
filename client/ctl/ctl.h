/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of dlo-ctl share: the verb table's type, options that all of them take, the
 * connection, exit codes, and output that is safe for a terminal. One file a verb. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/attr.h"
#include "proto/wire/wire.h"

/* Exit codes, the same for all verbs; `dlo-ctl --help` lists them from this table. */
#define EXIT_MAP(X)                                                                                \
    X(OK, 0, "done; ask: retain; replay --check: no difference")                                   \
    X(FAILURE, 1, "failed; replay --check: a difference")                                          \
    X(USAGE, 2, "wrong usage; replay --check: nothing was compared")                               \
    X(NO_DAEMON, 3, "no daemon answers on the socket")                                             \
    X(PERMISSION, 4, "not permitted, or the socket cannot be trusted")                             \
    X(TIMEOUT, 6, "the daemon did not answer in time")                                             \
    X(VERSION, 7, "no protocol version in common")                                                 \
    X(RELEASE, 10, "ask: release")                                                                 \
    X(KEEP, 11, "ask: keep, since mode is shadow or off")

enum {
#define X(name, code, text) CTL_EXIT_##name = code,
    EXIT_MAP(X)
#undef X
};

struct ctl_verb {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns an exit code */
    const char *usage;                 /* behind "dlo-ctl " */
    const char *summary;
};

extern const struct ctl_verb ctl_verbs[]; /* ends with a NULL name */

int ctl_status(int argc, char **argv);
int ctl_events(int argc, char **argv);
int ctl_explain(int argc, char **argv);
int ctl_ask(int argc, char **argv);
int ctl_replay(int argc, char **argv);
int ctl_set(int argc, char **argv);
int ctl_release(int argc, char **argv);
int ctl_reserve(int argc, char **argv);

/* Options that every verb which talks to a daemon takes. */
struct ctl_options {
    const char *socket;  /* NULL: looked for (client/lib/conn.h) */
    uint64_t timeout_ns; /* of each answer; 2 s */
    bool json, bytes;    /* bytes: exact numbers instead of human ones */
    bool has_help;
};

/* For getopt_long: values above every character, so that verbs can add theirs behind. */
enum { OPT_SOCKET = 256, OPT_TIMEOUT, OPT_JSON, OPT_BYTES, OPT_HELP, OPT_VERB };

// clang-format off
#define CTL_COMMON_OPTIONS                                                                         \
    {"socket", required_argument, NULL, OPT_SOCKET}, {"timeout", required_argument, NULL, OPT_TIMEOUT}, \
    {"json", no_argument, NULL, OPT_JSON}, {"bytes", no_argument, NULL, OPT_BYTES},                \
    {"help", no_argument, NULL, OPT_HELP}
// clang-format on

void ctl_options_init(struct ctl_options *o);

/* Takes a common option; false for another one (getopt has printed what was wrong with '?'). *ret
 * becomes CTL_EXIT_USAGE where its value is bad. */
bool ctl_option(struct ctl_options *o, int option, int *ret);

/* The help of one verb on stdout, or a pointer to it on stderr. */
int ctl_print_help(const char *verb);
int ctl_usage(const char *verb, const char *problem_format, ...) _printf_(2, 3);

/* One observer's connection. Big: not for the stack of a deep call. */
struct ctl_link {
    int fd;
    uint32_t seq;
    uint64_t timeout_ns;
    struct wire_arena arena;
    struct wire_request request;
    struct wire_reply reply;
};

/* Connects and says hello, as an observer unless hello names a worker. NULL, with the reason on
 * stderr and an exit code in *ret_exit; else freed with ctl_disconnect. */
struct ctl_link *ctl_connect(const struct ctl_options *o, const struct wire_hello *hello,
                             int *ret_exit);
void ctl_disconnect(struct ctl_link *l);

/* Sends l->request, waits for l->reply (wait_ns 0: the link's timeout). CTL_EXIT_OK, or the reason
 * is on stderr. An error reply of the daemon is a failure here. */
int ctl_call(struct ctl_link *l, uint64_t wait_ns);

/* Prints text with control and non-ASCII bytes escaped, so that nothing reaches the terminal. */
void ctl_print_safe(FILE *out, const char *text, size_t length);

/* A quantity of bytes for people, or exact; "-" where it is missing. */
#define CTL_SIZE_TEXT 40
const char *ctl_size(const struct ctl_options *o, struct opt_u64 bytes, char out[CTL_SIZE_TEXT]);

/* A duration for people, "12 ms", "3.4 s", "5 min". */
const char *ctl_age(uint64_t ns, char out[CTL_SIZE_TEXT]);
const char *ctl_microseconds(uint64_t us, char out[CTL_SIZE_TEXT]); /* below a millisecond too */

/* ---- status, shared by status and explain ---- */
struct ctl_status {
    struct wire_daemon daemon;
    struct wire_device device;
    struct wire_row *rows;
    size_t row_count;
};

/* Pulls all pages (or one session's row). CTL_EXIT_OK, else the reason is on stderr. Free the rows
 * with ctl_status_done. */
int ctl_pull_status(struct ctl_link *l, struct opt_u64 session, struct ctl_status *ret);
void ctl_status_done(struct ctl_status *st);

/* status_json.c: the whole status as one JSON object with "schema": 1. */
int ctl_print_status_json(const struct ctl_status *st);
