/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/dispatch.h"
#include "daemon/log.h"
#include "daemon/room.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"
#include "proto/trace/trace.h"

/* A worker with a bug makes a few errors; one that makes more is not worth its log lines. */
#define ERRORS_LOGGED 5
#define ERRORS_MAX    100

int session_new(struct service *service, const struct peer *peer, const struct session_io *io,
                void *io_arg, struct session **ret)
{
    struct session *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return ERR_NO_MEMORY;
    list_init(&s->link);
    list_init(&s->watch_link);
    list_init(&s->wait.link);
    s->service = service;
    s->peer = *peer;
    s->io = io;
    s->io_arg = io_arg;
    s->state = SESSION_NEW;
    s->opened_ns = service->now_ns;
    r = service_add_connection(service, peer, &s->holder);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void session_log(const struct session *s, enum log_level level, const char *format, ...)
{
    char fields[160], text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(fields, sizeof(fields), "session=%" PRIu64 " name=%s pid=%d uid=%u", s->policy.number,
             s->name[0] ? s->name : "-", (int)s->peer.pid, s->peer.uid);
    log_line(level, fields, "%s", text);
}

void session_line_begin(const struct session *s, struct trace_writer *w,
                        char line[TRACE_LINE_MAX + 1], enum trace_verb verb)
{
    trace_begin(w, line, TRACE_LINE_MAX + 1, verb);
    trace_put_u64(w, "s", s->policy.number);
}

void session_line_answer(const struct session *s, struct trace_writer *w, int r)
{
    trace_put_time(w, "t", s->service->now_ns);
    trace_put_answer(w, r < 0 ? TRACE_ERROR : TRACE_OK);
    if (r < 0)
        trace_put_text(w, "reason", error_word(r));
}

void session_line_end(const struct session *s, struct trace_writer *w)
{
    size_t length = trace_finish(w);

    journal_append(s->service->journal, w->out, length);
}

static void put_choice(const struct session *s, struct trace_writer *w)
{
    const struct policy_choice *c = &s->policy.choice;

    if (c->has_min_free)
        trace_put_double(w, "min_free", c->min_free);
    if (c->policy != POLICY_NONE)
        trace_put_text(w, "policy", policy_word((int)c->policy));
    if (c->stage_end == STAGE_END_ADVISE)
        trace_put_text(w, "stage_end", stage_end_word((int)c->stage_end));
    if (c->mode != MODE_NONE && c->mode != MODE_ON)
        trace_put_text(w, "mode", mode_word((int)c->mode));
    if (c->brackets || c->partial)
        trace_put_text(w, "features",
                       !c->partial   ? "brackets"
                       : c->brackets ? "brackets,partial"
                                     : "partial");
    if (s->group[0]) {
        trace_put_text(w, "group", s->group);
        trace_put_u64(w, "rank", s->rank);
        trace_put_u64(w, "world", s->world);
    }
}

void session_journal_state(const struct session *s, struct journal *j)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, line, sizeof(line), TRACE_OPEN);
    trace_put_u64(&w, "s", s->policy.number);
    trace_put_text(&w, "name", s->name);
    trace_put_u64(&w, "pid", (uint64_t)s->peer.pid);
    trace_put_u64(&w, "uid", s->peer.uid);
    put_choice(s, &w);
    trace_put_resume(&w, &s->policy.state);
    room_put_tenant(s, &w);
    if (s->policy.choice.policy == POLICY_NEVER && !s->service->settings.allow_never)
        trace_put_u64(&w, "accepted", 1); /* before a reload took the permission back */
    trace_put_time(&w, "t", s->service->now_ns);
    trace_put_answer(&w, TRACE_OK);
    journal_append(j, line, trace_finish(&w));
    for (const struct stager *g = ledger_next(&s->policy.ledger, NULL); g;
         g = ledger_next(&s->policy.ledger, g)) {
        trace_begin(&w, line, sizeof(line), TRACE_ATTACH);
        trace_put_u64(&w, "s", s->policy.number);
        trace_put_text(&w, "id", g->id);
        trace_put_u64(&w, "bytes", g->staged_bytes);
        journal_append(j, line, trace_finish(&w));
    }
}

void session_register(struct session *s)
{
    struct service *v = s->service;

    s->state = SESSION_WORKER;
    list_append(&v->sessions, &s->link);
    v->session_count++;
    arbiter_add(&v->arbiter, &s->tenant, &s->policy, s->policy.number);
    s->tenant.pid = (uint64_t)s->peer.pid;
    session_journal_state(s, v->journal);
    if (v->sampler)
        sampler_set_wanted(v->sampler, true);
    if (service_may_log(v, &v->arrivals))
        session_log(s, LOG_LEVEL_INFO, "session opened%s",
                    s->policy.state.n > 0 || s->policy.state.peak > 0 ? ", resumed" : "");
}

void session_reply(struct session *s, uint32_t seq)
{
    uint8_t bytes[LIMIT_MESSAGE_BYTES];
    struct wire_reply *reply = &s->service->reply;
    int r;

    if (s->state == SESSION_CLOSED)
        return;
    reply->seq = seq;
    r = s->io->send(s->io_arg, bytes, wire_encode_reply(reply, bytes));
    if (r < 0)
        session_end(s, 0,
                    r == ERR_LIMIT ? "the peer does not read its answers" : "the peer is gone");
}

static void reply_error(struct session *s, uint32_t seq, int code, const char *text)
{
    struct wire_reply *reply = &s->service->reply;

    reply->body = WIRE_ERROR;
    reply->u.error.code = code;
    snprintf(reply->u.error.text, sizeof(reply->u.error.text), "%s", text);
    session_reply(s, seq);
}

/* Errors after which nothing that this peer sends can be believed. */
static bool ends_trust(const struct session *s, int code)
{
    return s->state == SESSION_NEW || code == ERR_MALFORMED || code == ERR_TOO_LONG ||
           s->error_count >= ERRORS_MAX;
}

static void refuse(struct session *s, uint32_t seq, int code, const char *what)
{
    char text[LIMIT_TEXT_SIZE];

    snprintf(text, sizeof(text), "%s: %s", what, error_text(code));
    s->service->rejected++;
    s->error_count++;
    if (s->error_count <= ERRORS_LOGGED && service_may_log(s->service, &s->service->mistakes))
        session_log(s, LOG_LEVEL_WARNING, "refused %s (%s)%s", text, error_word(code),
                    s->error_count == ERRORS_LOGGED ? "; further errors are not logged" : "");
    reply_error(s, seq, code, text);
    if (s->state != SESSION_CLOSED && ends_trust(s, code))
        session_end(s, 0, text);
}

void session_feed(struct session *s, const uint8_t *bytes, size_t length)
{
    struct service *v = s->service;
    const char *field = NULL;
    int r;

    if (s->state == SESSION_CLOSED)
        return;
    if (v->journal)
        journal_reserve(v->journal);
    r = wire_decode_request(&v->arena, bytes, length, &v->request, &field);
    if (r < 0) {
        refuse(s, v->request.seq, r, field ? field : "message");
        return;
    }
    memset(&v->reply, 0, offsetof(struct wire_reply, u));
    r = dispatch_run(s, &v->request, &v->reply);
    if (r < 0)
        refuse(s, v->request.seq, r, wire_op_word(v->request.op));
    else if (r != HANDLED_LATER)
        session_reply(s, v->request.seq);
    room_act(v);
}

static const char *uncovered_text(const struct policy_notice *n, char *out, size_t size)
{
    char before[PARSE_TEXT_MAX], after[PARSE_TEXT_MAX];

    format_human(n->old_peak, before);
    format_human(n->new_peak, after);
    snprintf(out, size, "the warm-up did not cover this request: peak %s -> %s", before, after);
    return out;
}

/* R26: what there was before the release that may follow. */
static void note_decision(struct session *s, const struct boundary *b)
{
    struct service *v = s->service;
    struct sample newest;
    bool is_fresh = v->sampler && sampler_newest(v->sampler, v->now_ns, &newest) &&
                    newest.age_ns <= PROOF_SAMPLE_MAX_AGE_NS;

    proof_decided(&s->proof, &v->reply.u.answer, b, is_fresh ? &newest : NULL);
}

void session_tell_habit(struct session *s)
{
    static const char *const cures[] = {
        [CURE_CAP] =
            "its cache does not fit the cap: raise cap_fraction, or a card with more memory",
        [CURE_FLOOR] = "less is free than min_free asks for: lower min_free, or make room",
        [CURE_ALLOCATOR] = "its allocator cannot be read (a pluggable one?)",
        [CURE_TELEMETRY] = "nobody can read the device's memory: see dlo-ctl status, probe",
    };
    const struct habit *h = &s->policy.habit;

    if (habit_take_news(&s->policy.habit))
        session_log(s, LOG_LEVEL_NOTICE, "%s (R27): it releases at %s boundary; %s",
                    habit_word((int)h->kind), h->kind == HABIT_INERT ? "every" : "some",
                    cures[h->cure]);
}

void session_decide(struct session *s, uint32_t seq, const struct boundary *b,
                    const struct sample *sample)
{
    struct service *v = s->service;
    char line[TRACE_LINE_MAX + 1], text[160];
    struct policy_notice notice;
    struct others others = {0};
    struct trace_writer w;

    journal_reserve(v->journal); /* each of those who shared a sample is an event */
    v->reply.body = WIRE_ANSWER;
    if (!policy_is_forced(&s->policy, b))
        arbiter_boundary(&v->arbiter, &s->tenant, b, v->now_ns, &others);
    policy_decide(&v->settings, &s->policy, b, sample, &others, &v->reply.u.answer, &notice);
    if (v->reply.u.answer.decision == DECISION_RELEASE && !policy_is_forced(&s->policy, b))
        arbiter_told(&v->arbiter, &s->tenant, v->now_ns);
    snprintf(s->component, sizeof(s->component), "%s", b->component);
    s->decided_ns = v->now_ns;
    note_decision(s, b);
    trace_begin(&w, line, sizeof(line), TRACE_ASK);
    trace_put_u64(&w, "s", s->policy.number);
    trace_put_boundary(&w, b);
    trace_put_time(&w, "t", s->service->now_ns);
    trace_put_decision(&w, &v->reply.u.answer);
    journal_append(v->journal, line, trace_finish(&w));
    if (notice.uncovered)
        session_log(s, LOG_LEVEL_NOTICE, "%s (R13, component %s)",
                    uncovered_text(&notice, text, sizeof(text)),
                    b->component[0] ? b->component : "-");
    session_tell_habit(s);
    log_line(LOG_LEVEL_DEBUG, "", "%s", line);
    session_reply(s, seq);
}

static void free_stagers(struct session *s)
{
    struct stager *g;

    while ((g = ledger_pop(&s->policy.ledger))) {
        service_drop_stager(s->service, s);
        free(g);
    }
}

static void unregister(struct session *s)
{
    struct service *v = s->service;
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    list_remove(&s->link);
    v->session_count--;
    trace_begin(&w, line, sizeof(line), TRACE_CLOSE);
    trace_put_u64(&w, "s", s->policy.number);
    trace_put_time(&w, "t", s->service->now_ns);
    journal_append(v->journal, line, trace_finish(&w));
    arbiter_remove(&v->arbiter, &s->tenant, v->now_ns);
    if (v->session_count == 0 && v->sampler)
        sampler_set_wanted(v->sampler, false);
}

void session_end(struct session *s, int code, const char *cause)
{
    bool is_worker = s->state == SESSION_WORKER || s->state == SESSION_WAITING;

    if (s->state == SESSION_CLOSED)
        return;
    if (code < 0)
        reply_error(s, 0, code, cause);
    if (s->state == SESSION_CLOSED)
        return; /* it did not take the answer, and has ended by that */
    if (is_worker) {
        journal_reserve(s->service->journal);
        if (service_may_log(s->service, &s->service->arrivals))
            session_log(s, LOG_LEVEL_INFO, "session closed: %s; %" PRIu64 " decisions, %u errors",
                        cause, s->policy.state.n, s->error_count);
        unregister(s);
    } else if (s->state == SESSION_NEW && service_may_log(s->service, &s->service->mistakes)) {
        session_log(s, LOG_LEVEL_INFO, "connection closed before a hello: %s", cause);
    }
    s->state = SESSION_CLOSED;
    sampler_cancel(&s->wait);
    list_remove(&s->watch_link);
    free_stagers(s);
    s->io->close(s->io_arg);
    if (s->service->operated_by == s)
        room_forget_operator(s->service);
    if (is_worker)
        room_act(s->service); /* it may be what others waited for */
}

void session_free(struct session *s)
{
    if (!s)
        return;
    service_drop_connection(s->service, s->holder);
    free(s);
}

void session_wake_watcher(struct session *s)
{
    uint64_t cursor = s->watch_cursor;

    if (s->state == SESSION_CLOSED || !view_events(s->service, cursor, &s->service->reply))
        return;
    list_remove(&s->watch_link);
    session_reply(s, s->watch_seq);
}
