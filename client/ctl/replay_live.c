/* SPDX-License-Identifier: Apache-2.0 */
/* The live player: each `open` of a trace is a connection to a running daemon. */
#include "client/ctl/replay_play.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "client/lib/conn.h"
#include "proto/base/error.h"
#include "proto/base/list.h"
#include "proto/base/parse.h"

#define CALL_NS                                                                                    \
    5000000000ull /* far above the daemon's own sample_timeout; it hangs beyond that               \
                   */

struct connection {
    struct list link; /* live.connections */
    uint64_t number;  /* in the trace; the daemon has its own */
    int fd;
    uint32_t seq;
};

struct live {
    struct list connections;
    char path[CONN_PATH_SIZE];
    struct wire_arena arena;
    struct wire_reply reply;
};

static void cannot(char ret_error[TRACE_ERROR_SIZE], const char *what, int code)
{
    snprintf(ret_error, TRACE_ERROR_SIZE, "%s: %s", what, error_text(code));
}

static int exit_of(int code)
{
    switch (code) {
    case ERR_NO_DAEMON:
        return CTL_EXIT_NO_DAEMON;
    case ERR_NOT_TRUSTED:
    case ERR_PERMISSION:
        return CTL_EXIT_PERMISSION;
    default:
        return CTL_EXIT_FAILURE;
    }
}

struct live *live_new(const char *socket, int *ret_exit, char ret_error[TRACE_ERROR_SIZE])
{
    struct live *l = calloc(1, sizeof(*l));
    int fd = -1, r;

    *ret_exit = CTL_EXIT_FAILURE;
    if (!l) {
        cannot(ret_error, "replay", ERR_NO_MEMORY);
        return NULL;
    }
    list_init(&l->connections);
    r = conn_find(socket, NULL, l->path);
    if (r == 0)
        r = conn_connect(l->path, &fd); /* only to see that somebody is there */
    if (r < 0) {
        cannot(ret_error, socket ? socket : "replay", r);
        *ret_exit = exit_of(r);
        free(l);
        return NULL;
    }
    close(fd);
    *ret_exit = CTL_EXIT_OK;
    return l;
}

static void hang_up(struct connection *c)
{
    list_remove(&c->link);
    close(c->fd);
    free(c);
}

void live_free(struct live *l)
{
    if (!l)
        return;
    list_for_each(pos, tmp, &l->connections) hang_up(list_entry(pos, struct connection, link));
    free(l);
}

int live_check(const struct trace_line *line, char ret_error[TRACE_ERROR_SIZE])
{
    const char *word = trace_verb_word(line->verb);

    if (line->verb == TRACE_SAMPLE || line->verb == TRACE_CONFIG) {
        snprintf(ret_error, TRACE_ERROR_SIZE,
                 "%s: a live daemon has its own; replay this file without --live", word);
        return -1;
    }
    if (trace_get(line, "t")) {
        snprintf(ret_error, TRACE_ERROR_SIZE,
                 "%s: t: a live daemon has its own time; replay this file without --live", word);
        return -1;
    }
    return 0;
}

static struct connection *find(struct live *l, uint64_t number)
{
    list_for_each(pos, tmp, &l->connections)
    {
        struct connection *c = list_entry(pos, struct connection, link);

        if (c->number == number)
            return c;
    }
    return NULL;
}

/* Does the line carry state of a session that was there already? */
static bool has_state(const struct trace_line *line)
{
    static const char *const keys[] = {
        "peak",    "n",         "warmup", "warmup_ended", "busy",  "residue",
        "cap",     "pin",       "rev",    "priority",     "cold",  "reserved",
        "serving", "allocated", "forced", "uncovered",    "local", "retained",
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (trace_get(line, keys[i]))
            return true;
    return false;
}

static int word_of(const struct trace_line *line, const char *key, const struct term *terms)
{
    const char *word = trace_get(line, key);

    return word ? term_value(terms, word) : 0;
}

static void copy_name(const struct trace_line *line, const char *key, char out[LIMIT_NAME_SIZE])
{
    const char *name = trace_get(line, key);

    snprintf(out, LIMIT_NAME_SIZE, "%s", name ? name : "");
}

static void fill_hello(const struct trace_line *line, struct wire_hello *h)
{
    const char *features = trace_get(line, "features"), *min_free = trace_get(line, "min_free");

    *h = (struct wire_hello){
        .min_version = WIRE_VERSION_MIN,
        .max_version = WIRE_VERSION_MAX,
        .features = features ? replay_features(features) : 0,
        .policy = (enum policy)word_of(line, "policy", policy_terms),
        .stage_end = (enum stage_end)word_of(line, "stage_end", stage_end_terms),
        .mode = (enum mode)word_of(line, "mode", mode_terms),
        .rank = (uint32_t)trace_get_u64(line, "rank").v,
        .world = (uint32_t)trace_get_u64(line, "world").v,
        .has_state = has_state(line),
    };
    copy_name(line, "name", h->name);
    copy_name(line, "group", h->group);
    h->has_min_free = min_free && parse_double(min_free, &h->min_free) == 0;
    trace_get_resume(line, &h->state);
}

static int call(struct live *l, struct connection *c, struct wire_request *request,
                const struct trace_line *line, char ret_error[TRACE_ERROR_SIZE])
{
    int r = conn_call(c->fd, &l->arena, &c->seq, request, &l->reply, conn_now_ns() + CALL_NS);

    if (r == 0)
        return 0;
    snprintf(ret_error, TRACE_ERROR_SIZE, "%s: %s", trace_verb_word(line->verb), error_text(r));
    return -1;
}

static int step_open(struct live *l, const struct trace_line *line,
                     char ret_error[TRACE_ERROR_SIZE])
{
    struct wire_request request = {.op = WIRE_HELLO};
    uint64_t number = trace_get_u64(line, "s").v;
    struct connection *c = find(l, number);
    int r;

    if (c)
        hang_up(c);
    c = calloc(1, sizeof(*c));
    if (!c) {
        cannot(ret_error, "open", ERR_NO_MEMORY);
        return -1;
    }
    c->number = number;
    r = conn_connect(l->path, &c->fd);
    if (r < 0) {
        cannot(ret_error, l->path, r);
        free(c);
        return -1;
    }
    list_append(&l->connections, &c->link);
    fill_hello(line, &request.u.hello);
    r = call(l, c, &request, line, ret_error);
    if (r < 0 || l->reply.body == WIRE_ERROR)
        hang_up(c);
    return r;
}

/* Fills the request of a line. false: a verb that needs none. */
static bool fill_request(const struct trace_line *line, struct wire_request *q)
{
    enum phase phase = (enum phase)word_of(line, "phase", phase_terms);

    switch (line->verb) {
    case TRACE_ATTACH:
        q->op = WIRE_ATTACH;
        copy_name(line, "id", q->u.attach.id);
        q->u.attach.staged_bytes = trace_get_u64(line, "bytes").v;
        return true;
    case TRACE_DETACH:
        q->op = WIRE_DETACH;
        copy_name(line, "id", q->u.detach.id);
        return true;
    case TRACE_SET_PEAK:
        q->op = WIRE_SET_PEAK;
        q->u.set_peak.peak = trace_get_u64(line, "peak").v;
        return true;
    case TRACE_WARMUP:
        q->op = WIRE_WARMUP;
        q->u.warmup.phase = phase;
        return true;
    case TRACE_BUSY:
        q->op = WIRE_BUSY;
        q->u.busy.phase = phase;
        q->u.busy.need = trace_get_u64(line, "need");
        q->u.busy.reserved = trace_get_u64(line, "reserved");
        q->u.busy.allocated = trace_get_u64(line, "allocated");
        return true;
    case TRACE_ASK:
        q->op = WIRE_ASK;
        trace_get_boundary(line, &q->u.ask);
        return true;
    case TRACE_RELEASED:
        q->op = WIRE_RELEASED;
        q->u.released.reserved = trace_get_u64(line, "reserved").v;
        q->u.released.allocated = trace_get_u64(line, "allocated").v;
        q->u.released.us = trace_get_u64(line, "us").v;
        return true;
    default:
        return false;
    }
}

static void take_decision(const struct trace_line *line, const struct answer *a,
                          struct replay_result *ret)
{
    struct boundary b;

    trace_get_boundary(line, &b);
    ret->kind = REPLAY_DECISION;
    ret->answer = *a;
    ret->next_budget = a->budget;
    if (!b.reserved.has || !b.allocated.has)
        return;
    ret->held_bytes = opt_u64(bytes_sub_sat(b.reserved.v, b.allocated.v));
    if (b.releasable.has)
        ret->held_bytes.v = bytes_min(ret->held_bytes.v, b.releasable.v);
    ret->claim_bytes = b.releasable.has ? b.releasable : ret->held_bytes;
}

static int take_reply(const struct live *l, const struct trace_line *line,
                      struct replay_result *ret, char ret_error[TRACE_ERROR_SIZE])
{
    const struct wire_reply *reply = &l->reply;

    switch (reply->body) {
    case WIRE_ERROR:
        ret->kind = REPLAY_ERROR;
        ret->code = reply->u.error.code;
        return 0;
    case WIRE_WELCOME:
    case WIRE_DONE:
        ret->kind = REPLAY_OK;
        return 0;
    case WIRE_LEDGER:
        ret->kind = line->verb == TRACE_ATTACH   ? REPLAY_ATTACHED
                    : line->verb == TRACE_DETACH ? REPLAY_DETACHED
                                                 : REPLAY_PEAK;
        ret->staged_bytes = reply->u.ledger.staged_bytes;
        ret->stager_count = reply->u.ledger.stager_count;
        ret->peak = reply->u.ledger.peak;
        return 0;
    case WIRE_ANSWER:
        take_decision(line, &reply->u.answer, ret);
        return 0;
    default:
        snprintf(ret_error, TRACE_ERROR_SIZE, "%s: the daemon answered something else",
                 trace_verb_word(line->verb));
        return -1;
    }
}

int live_step(struct live *l, const struct trace_line *line, struct replay_result *ret,
              char ret_error[TRACE_ERROR_SIZE])
{
    struct wire_request request = {0};
    struct connection *c;

    *ret = (struct replay_result){.kind = REPLAY_NOTHING};
    if (line->verb == TRACE_NOTE || line->verb == TRACE_CLOCK)
        return 0;
    if (line->verb == TRACE_OPEN) {
        if (step_open(l, line, ret_error) < 0)
            return -1;
        return take_reply(l, line, ret, ret_error);
    }
    if (line->verb != TRACE_CLOSE && !fill_request(line, &request)) {
        ret->kind = REPLAY_PLANNED;
        return 0;
    }
    c = find(l, trace_get_u64(line, "s").v);
    if (!c)
        return replay_no_session(line, trace_get_u64(line, "s").v, ret_error);
    if (line->verb == TRACE_CLOSE) {
        hang_up(c);
        ret->kind = REPLAY_OK;
        return 0;
    }
    if (call(l, c, &request, line, ret_error) < 0)
        return -1;
    return take_reply(l, line, ret, ret_error);
}
