/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/server.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

#include "daemon/log.h"
#include "daemon/peer.h"
#include "daemon/session.h"
#include "proto/base/error.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16: refuse descriptors at the sender */
#endif

#define BACKLOG   4096 /* what systemd/dlod@.socket has; the kernel caps it at somaxconn */
#define NS_PER_MS 1000000u

struct server {
    uv_pipe_t listener;
    uv_timer_t hello_timer; /* runs while a connection owes its hello */
    struct service *service;
    struct list connections; /* connection::link, in order of arrival */
    int open_handles;
    bool is_closing, said_no_pidfd;
    uint8_t buffer[LIMIT_MESSAGE_BYTES + 1]; /* one byte more than a message may have */
};

struct connection {
    struct list link;
    struct server *server;
    struct session *session;
    uv_pipe_t pipe;
    uv_poll_t death; /* of the peer's process */
    int pidfd;       /* -1: none */
    int open_handles;
    bool is_closing, is_overdue; /* the second: its time for a hello was over a turn ago */
};

static void tick(struct server *s)
{
    s->service->now_ns = uv_hrtime();
}

static void on_server_closed(uv_handle_t *handle)
{
    struct server *s = handle->data;

    if (--s->open_handles == 0 && list_empty(&s->connections))
        free(s);
}

static void on_connection_closed(uv_handle_t *handle)
{
    struct connection *c = handle->data;
    struct server *s = c->server;

    if (--c->open_handles > 0)
        return;
    if (c->pidfd >= 0)
        close(c->pidfd);
    list_remove(&c->link);
    session_free(c->session);
    free(c);
    if (s->is_closing && s->open_handles == 0 && list_empty(&s->connections))
        free(s);
}

static void close_connection(struct connection *c)
{
    if (c->is_closing)
        return;
    c->is_closing = true;
    uv_close((uv_handle_t *)&c->pipe, on_connection_closed);
    if (c->pidfd >= 0)
        uv_close((uv_handle_t *)&c->death, on_connection_closed);
}

static int io_send(void *arg, const uint8_t *bytes, size_t length)
{
    struct connection *c = arg;
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)length);

    int n = uv_try_write((uv_stream_t *)&c->pipe, &buffer, 1);

    if (n == (int)length)
        return 0;
    return n == UV_EAGAIN ? ERR_LIMIT : ERR_IO;
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct connection *c = handle->data;

    (void)suggested;
    *ret = uv_buf_init((char *)c->server->buffer, sizeof(c->server->buffer));
}

/* uv reads again only after a full buffer, which is an oversized message: so one message a
 * connection a loop turn, and nobody can hold the loop. */
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct connection *c = stream->data;

    (void)buffer;
    if (n == 0 || c->is_closing)
        return;
    tick(c->server);
    if (n < 0)
        session_end(c->session, 0, n == UV_EOF ? "the peer closed" : uv_strerror((int)n));
    else
        session_feed(c->session, c->server->buffer, (size_t)n);
}

static void io_pause(void *arg, bool paused)
{
    struct connection *c = arg;

    if (paused)
        uv_read_stop((uv_stream_t *)&c->pipe);
    else if (!c->is_closing)
        uv_read_start((uv_stream_t *)&c->pipe, on_allocate, on_read);
}

static void io_close(void *arg)
{
    close_connection(arg);
}

static const struct session_io connection_io = {io_send, io_pause, io_close};

static void on_death(uv_poll_t *poll, int status, int events)
{
    struct connection *c = poll->data;

    (void)status;
    (void)events;
    tick(c->server);
    session_end(c->session, 0, "the worker's process is gone");
}

static void watch_death(struct connection *c, int fd, const struct peer *peer)
{
    struct server *s = c->server;

    c->pidfd = peer_pidfd(fd, peer);
    if (c->pidfd >= 0 && uv_poll_init(s->listener.loop, &c->death, c->pidfd) == 0) {
        c->death.data = c;
        c->open_handles++;
        uv_poll_start(&c->death, UV_READABLE, on_death);
        return;
    }
    if (c->pidfd >= 0)
        close(c->pidfd);
    c->pidfd = -1;
    if (!s->said_no_pidfd)
        log_line(LOG_LEVEL_NOTICE, "",
                 "no pidfd for peers here: a dead worker is noticed only when its socket closes");
    s->said_no_pidfd = true;
}

static void on_hello_timer(uv_timer_t *timer);

/* The oldest connection without a hello decides when the timer fires next. */
static void arm_hello_timer(struct server *s)
{
    uint64_t timeout = s->service->config->hello_timeout;

    list_for_each(pos, tmp, &s->connections)
    {
        struct connection *c = list_entry(pos, struct connection, link);
        uint64_t due;

        if (c->is_closing || c->session->state != SESSION_NEW) /* closing ones have no session */
            continue;
        due = c->session->opened_ns + timeout;
        due = due > s->service->now_ns ? due - s->service->now_ns : 0;
        uv_timer_start(&s->hello_timer, on_hello_timer, due / NS_PER_MS + 1, 0);
        return;
    }
}

void server_reload(struct server *s)
{
    tick(s);
    uv_timer_stop(&s->hello_timer);
    arm_hello_timer(s);
}

static void on_hello_timer(uv_timer_t *timer)
{
    struct server *s = timer->data;
    uint64_t timeout = s->service->config->hello_timeout;

    tick(s);
    list_for_each(pos, tmp, &s->connections)
    {
        struct connection *c = list_entry(pos, struct connection, link);

        if (c->is_closing || c->session->state != SESSION_NEW ||
            s->service->now_ns - c->session->opened_ns < timeout)
            continue;
        if (!c->is_overdue) /* its hello may lie unread, where it is us who were late */
            c->is_overdue = true;
        else
            session_end(c->session, ERR_HELLO_TIMEOUT, error_text(ERR_HELLO_TIMEOUT));
    }
    arm_hello_timer(s);
}

/* Over a quota: says so, and closes. */
static void refuse(struct connection *c, const struct peer *peer, int code)
{
    struct service *v = c->server->service;
    uint8_t bytes[LIMIT_MESSAGE_BYTES];

    v->rejected++;
    v->reply = (struct wire_reply){.body = WIRE_ERROR};
    v->reply.u.error.code = code;
    snprintf(v->reply.u.error.text, sizeof(v->reply.u.error.text),
             "%s: a quota of sessions is reached (max_sessions, max_sessions_uid)",
             error_text(code));
    if (io_send(c, bytes, wire_encode_reply(&v->reply, bytes)) < 0)
        log_line(LOG_LEVEL_DEBUG, "", "a refused peer did not take its answer, ignoring");
    if (service_may_log(v, &v->mistakes))
        log_line(LOG_LEVEL_WARNING, "", "refused a connection of pid %d uid %u: %s", peer->pid,
                 peer->uid, error_word(code));
    close_connection(c);
}

static void take_peer(struct connection *c)
{
    struct service *v = c->server->service;
    struct peer peer = {0};
    uv_os_fd_t fd;
    int off = 0, r;

    r = uv_fileno((uv_handle_t *)&c->pipe, &fd) < 0 ? ERR_IO
                                                    : peer_read(fd, v->config->admin_group, &peer);
    if (r < 0) {
        log_line(LOG_LEVEL_WARNING, "", "a peer without credentials was refused");
        close_connection(c);
        return;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
        log_line(LOG_LEVEL_DEBUG, "", "no SO_PASSRIGHTS here; descriptors are dropped on reading");
    r = session_new(v, &peer, &connection_io, c, &c->session);
    if (r < 0) {
        refuse(c, &peer, r);
        return;
    }
    watch_death(c, fd, &peer);
    io_pause(c, false);
    if (!uv_is_active((uv_handle_t *)&c->server->hello_timer))
        arm_hello_timer(c->server);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct server *s = listener->data;
    struct connection *c;

    tick(s);
    if (status < 0) {
        log_line(LOG_LEVEL_WARNING, "", "accept: %s, ignoring", uv_strerror(status));
        return;
    }
    c = calloc(1, sizeof(*c));
    if (!c)
        return; /* uv holds the connection until the next one; its client has a deadline */
    c->server = s;
    c->pidfd = -1;
    c->open_handles = 1;
    uv_pipe_init(listener->loop, &c->pipe, 0);
    c->pipe.data = c;
    list_append(&s->connections, &c->link);
    if (uv_accept(listener, (uv_stream_t *)&c->pipe) < 0)
        close_connection(c);
    else
        take_peer(c);
}

struct server *server_new(struct uv_loop_s *loop, struct service *service, int listen_fd)
{
    struct server *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->service = service;
    list_init(&s->connections);
    uv_pipe_init(loop, &s->listener, 0);
    uv_timer_init(loop, &s->hello_timer);
    s->listener.data = s->hello_timer.data = s;
    s->open_handles = 2;
    if (uv_pipe_open(&s->listener, listen_fd) < 0 ||
        uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection) < 0) {
        server_close(s, "");
        return NULL;
    }
    return s;
}

static void end_all(struct server *s, unsigned states, int code, const char *cause)
{
    list_for_each(pos, tmp, &s->connections)
    {
        struct connection *c = list_entry(pos, struct connection, link);

        if (!c->is_closing && c->session->state & states)
            session_end(c->session, code, cause);
    }
}

void server_close(struct server *s, const char *cause)
{
    if (!s || s->is_closing)
        return;
    tick(s);
    s->is_closing = true;
    uv_close((uv_handle_t *)&s->listener, on_server_closed);
    uv_close((uv_handle_t *)&s->hello_timer, on_server_closed);
    end_all(s, ~0u, ERR_SHUTDOWN, cause);
}

void server_end_workers(struct server *s, const char *cause)
{
    end_all(s, SESSION_WORKER | SESSION_WAITING, ERR_SHUTDOWN, cause);
}
