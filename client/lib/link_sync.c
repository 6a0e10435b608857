/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/link_sync.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "proto/base/error.h"

/* So many replies that answer no call are taken in during one call; a peer that sends more floods
 * us. Of the honest ones at most SYNC_WINDOW are due, and some welcomes after reloads. */
#define FOREIGN_MAX (4 * SYNC_WINDOW)

/* A call that has less than this part of its deadline left does not begin to wait. */
#define LATE_PART 8

void sync_init(struct sync *s, const struct options *options, struct local *local,
               _Atomic int *mode)
{
    s->options = options;
    s->local = local;
    s->mode = mode;
    s->fd = -1;
    s->now_ns = conn_now_ns();
    reconnect_init(&s->reconnect, s->now_ns ^ ((uint64_t)getpid() << 32));
}

void sync_done(struct sync *s)
{
    if (s->fd >= 0) {
        /* a child of a fork may hold a copy, which must not keep our session alive; and it must not
         * end ours */
        if (s->owner == getpid())
            shutdown(s->fd, SHUT_RDWR);
        close(s->fd);
    }
    s->fd = -1;
}

static void remember(struct sync *s, int code, const char *text)
{
    bool is_news = code != s->last_error;

    s->last_error = code;
    snprintf(s->last_text, sizeof(s->last_text), "%s", text && text[0] ? text : error_text(code));
    if (is_news) /* a daemon that stays away is told once, not at each attempt */
        options_log(s->options, "daemon at %s: %s, deciding in this process instead",
                    s->path[0] ? s->path : "(no socket)", s->last_text);
}

static void disconnect(struct sync *s, enum cause why, int code, const char *text)
{
    sync_done(s);
    waiting_break(&s->waiting);
    local_forget_known(s->local);
    remember(s, code, text);
    reconnect_failed(&s->reconnect, why, s->now_ns);
}

static void refuse(struct sync *s, int code, const char *text)
{
    local_refused(s->local);
    disconnect(s, CAUSE_REFUSED, code, text);
}

/* Sends s->request. 0, ERR_LIMIT, ERR_IO. */
static int send_request(struct sync *s)
{
    int r;

    if (++s->seq == 0) /* marks replies that nobody asked for */
        ++s->seq;
    s->request.seq = s->seq;
    r = conn_send(s->fd, &s->request);
    if (r == 0)
        s->due++;
    return r;
}

static void on_welcome(struct sync *s)
{
    const struct wire_welcome *w = &s->reply.u.welcome;
    char text[LIMIT_TEXT_SIZE];

    if (w->version < WIRE_VERSION_MIN || w->version > WIRE_VERSION_MAX) {
        refuse(s, ERR_VERSION, NULL);
        return;
    }
    if (s->options->uuid[0] && w->uuid[0] && strcasecmp(s->options->uuid, w->uuid) != 0) {
        snprintf(text, sizeof(text), "the daemon serves %s", w->uuid);
        refuse(s, ERR_INVALID, text);
        return;
    }
    s->welcome = *w;
    s->is_welcomed = true;
    local_welcome(s->local, w);
    atomic_store(s->mode, (int)local_mode(s->local));
    if (w->mode ==
        MODE_OFF) /* R30: it registers nobody; ask again later whether that is still so */
        disconnect(s, CAUSE_REFUSED, ERR_NO_DAEMON, "its mode is off");
}

/* A reload: the same session goes on by other settings. */
static void on_settings(struct sync *s)
{
    s->welcome.mode = s->reply.u.welcome.mode;
    local_settings(s->local, &s->reply.u.welcome);
    atomic_store(s->mode, (int)local_mode(s->local));
}

/* An error that is no answer to the call in progress. */
static void on_late_error(struct sync *s)
{
    int code = s->reply.u.error.code;

    if (code == ERR_SHUTDOWN || s->reply.seq == s->resume_seq) {
        disconnect(s, CAUSE_BROKEN, code, s->reply.u.error.text);
        return;
    }
    s->is_full = s->is_full || code == ERR_LIMIT;
    list_for_each(pos, tmp, local_replicas(s->local))
    {
        struct replica *r = list_entry(pos, struct replica, link);

        if (r->seq != s->reply.seq)
            continue;
        r->is_known = false;
        r->is_refused = true;
        if (!r->is_wanted)
            local_drop(s->local, r);
        return;
    }
}

/* A reply that is no answer to the call in progress. May close the connection. */
static void on_reply(struct sync *s)
{
    bool is_error = s->reply.body == WIRE_ERROR;

    if (++s->foreign > FOREIGN_MAX) {
        disconnect(s, CAUSE_BROKEN, ERR_MALFORMED, "it sends what nobody asked for");
        return;
    }
    if (s->reply.seq != 0 && s->seq - s->reply.seq < s->due)
        s->due--;
    if (s->is_welcomed && waiting_take(&s->waiting, &s->reply, conn_now_ns()))
        return;
    if (s->is_welcomed && s->reply.seq == 0 && s->reply.body == WIRE_WELCOME) {
        on_settings(s);
        return;
    }
    if (!s->is_welcomed && is_error && (s->reply.seq == s->hello_seq || s->reply.seq == 0)) {
        refuse(s, s->reply.u.error.code, s->reply.u.error.text);
    } else if (!s->is_welcomed && s->reply.seq == s->hello_seq) {
        if (s->reply.body == WIRE_WELCOME)
            on_welcome(s);
        else
            disconnect(s, CAUSE_BROKEN, ERR_MALFORMED, NULL);
    } else if (is_error) {
        on_late_error(s);
    } /* what was not asked for is for later versions: ignored */
}

/* The next reply. After one that answered no call the deadline counts also where more is here: an
 * honest peer's answer would have been before it. */
static int receive(struct sync *s, uint64_t deadline_ns)
{
    if (s->foreign > 0 && deadline_ns != 0 && conn_now_ns() >= deadline_ns)
        return ERR_TIMEOUT;
    return conn_receive(s->fd, &s->arena, &s->reply, deadline_ns);
}

/* Takes in all replies that are here. */
static void drain(struct sync *s)
{
    while (s->fd >= 0) {
        int r = conn_receive(s->fd, &s->arena, &s->reply, 0);

        if (r == ERR_TIMEOUT)
            return;
        if (r < 0)
            disconnect(s, CAUSE_BROKEN, r, NULL);
        else
            on_reply(s);
    }
}

/* Sends s->request within the window: false when it has to wait or the connection broke. */
static bool send_windowed(struct sync *s)
{
    int r;

    if (s->due >= SYNC_WINDOW)
        drain(s);
    if (s->fd < 0 || s->due >= SYNC_WINDOW)
        return false;
    r = send_request(s);
    if (r == ERR_IO) {
        drain(s); /* why may be written in what is still to be read */
        if (s->fd >= 0)
            disconnect(s, CAUSE_BROKEN, ERR_IO, NULL);
    }
    return r == 0;
}

/* Tells the daemon that a stager came or went, which frees what is only a tombstone. */
static bool push_stager(struct sync *s, struct replica *r)
{
    s->request.op = r->is_wanted ? WIRE_ATTACH : WIRE_DETACH;
    if (r->is_wanted) {
        strcpy(s->request.u.attach.id, r->id);
        s->request.u.attach.staged_bytes = r->staged_bytes;
    } else {
        strcpy(s->request.u.detach.id, r->id);
    }
    if (!send_windowed(s))
        return false;
    if (r->is_wanted) {
        r->is_known = true;
        r->seq = s->seq;
    } else {
        local_drop(s->local, r);
    }
    return true;
}

/* Tells of all that came and went, as far as the window allows; true when the daemon knows them
 * all. In the order in which they came, so that an id that was detached and attached again stays
 * right. */
static bool push_stagers(struct sync *s)
{
    list_for_each(pos, tmp, local_replicas(s->local))
    {
        struct replica *r = list_entry(pos, struct replica, link);

        if (r->is_wanted == r->is_known || r->is_refused || (r->is_wanted && s->is_full))
            continue;
        if (s->due >= SYNC_WINDOW) /* taking replies in may drop nodes: not under the iteration */
            return false;
        if (!push_stager(s, r))
            return false;
    }
    return true;
}

/* Tells it all that happened meanwhile; true when it is up to date. */
static bool catch_up(struct sync *s)
{
    if (!push_stagers(s))
        return false;
    if (!s->is_dirty)
        return true;
    s->request.op = WIRE_RESUME;
    s->request.u.resume.state = *local_state(s->local);
    if (!send_windowed(s))
        return false;
    s->resume_seq = s->seq;
    s->is_dirty = false;
    return true;
}

static void say_hello(struct sync *s)
{
    const struct options *o = s->options;
    struct wire_hello *hello = &s->request.u.hello;

    s->request.op = WIRE_HELLO;
    *hello = (struct wire_hello){
        .min_version = WIRE_VERSION_MIN,
        .max_version = WIRE_VERSION_MAX,
        .features = o->features,
        .policy = o->policy,
        .has_min_free = o->has_min_free,
        .min_free = o->min_free,
        .stage_end = o->stage_end,
        .mode = o->mode,
        .rank = o->rank,
        .world = o->world,
        .has_state = true, /* also at first: there may have been no daemon until now */
        .state = *local_state(s->local),
    };
    strcpy(hello->name, o->name);
    strcpy(hello->group, o->group);
    s->due = 0;
    s->is_welcomed = s->is_full = false;
    s->is_dirty = false;
    s->resume_seq = 0;
    if (send_windowed(s))
        s->hello_seq = s->seq;
}

static void begin(struct sync *s)
{
    const char *path = s->options->socket[0] ? s->options->socket : NULL;
    const char *uuid = s->options->uuid[0] ? s->options->uuid : NULL;
    int r = conn_find(path, uuid, s->path);

    if (r < 0)
        s->path[0] = '\0';
    else
        r = conn_connect(s->path, &s->fd);
    if (r < 0) {
        s->fd = -1;
        disconnect(s,
                   r == ERR_NO_DAEMON ? CAUSE_NO_DAEMON
                   : r == ERR_IO      ? CAUSE_BACK_OFF
                                      : CAUSE_REFUSED,
                   r, NULL);
        return;
    }
    s->owner = getpid();
    say_hello(s);
    if (s->fd >= 0)
        (void)push_stagers(s);
}

/* Goes on with a handshake as far as it gets without waiting. */
static void go_on(struct sync *s)
{
    drain(s);
    if (s->fd < 0 || !s->is_welcomed || !push_stagers(s) || s->due > 0)
        return;
    if (!catch_up(s))
        return;
    reconnect_synced(&s->reconnect);
    s->last_error = 0;
    s->last_text[0] = '\0';
    options_log(s->options, "daemon at %s: session %llu", s->path,
                (unsigned long long)s->welcome.session);
}

void sync_open(struct sync *s, uint64_t deadline_ns)
{
    if (reconnect_poll(&s->reconnect, s->now_ns) != RECONNECT_CONNECT)
        return;
    s->foreign = 0;
    begin(s);
    if (s->fd < 0)
        return;
    while (s->fd >= 0 && !s->is_welcomed) {
        int r = receive(s, deadline_ns);

        if (r == ERR_TIMEOUT) {
            remember(s, ERR_TIMEOUT, "no welcome yet");
            return; /* goes on in later calls */
        }
        if (r < 0)
            disconnect(s, CAUSE_BROKEN, r, NULL);
        else
            on_reply(s);
    }
    if (s->fd >= 0)
        go_on(s);
}

/* Catches up, and waits for replies that make room for that until the deadline (0: does not). */
static enum cause wait_in_step(struct sync *s, uint64_t deadline_ns)
{
    if (s->due > 0)
        drain(s);
    while (s->fd >= 0 && s->is_dirty && !catch_up(s)) {
        int r;

        if (s->fd < 0)
            return CAUSE_BROKEN;
        if (deadline_ns == 0 || s->due == 0)
            return CAUSE_BACK_OFF;
        r = receive(s, deadline_ns);
        if (r == 0) {
            on_reply(s);
        } else {
            s->now_ns = conn_now_ns();
            disconnect(s, r == ERR_TIMEOUT ? CAUSE_DEADLINE : CAUSE_BROKEN, r, NULL);
            return r == ERR_TIMEOUT ? CAUSE_DEADLINE : CAUSE_BROKEN;
        }
    }
    return s->fd < 0 ? CAUSE_BROKEN : CAUSE_NONE;
}

enum cause sync_step(struct sync *s, uint64_t deadline_ns)
{
    enum cause why;

    s->now_ns = conn_now_ns();
    s->foreign = 0;
    if (s->reconnect.state == RECONNECT_UP && deadline_ns == 0)
        drain(s); /* a daemon that is gone is noticed also by a call that sends nothing */
    switch (reconnect_poll(&s->reconnect, s->now_ns)) {
    case RECONNECT_CONNECT:
        begin(s);
        break;
    case RECONNECT_CONTINUE:
        go_on(s);
        break;
    case RECONNECT_ABANDON:
        sync_done(s);
        waiting_break(&s->waiting);
        local_forget_known(s->local);
        remember(s, ERR_TIMEOUT, "no welcome");
        break;
    default:
        break;
    }
    if (s->reconnect.state != RECONNECT_UP)
        return s->reconnect.cause;
    why = s->is_dirty ? wait_in_step(s, deadline_ns) : CAUSE_NONE;
    if (why != CAUSE_NONE)
        return why;
    if (deadline_ns != 0 && s->now_ns + s->options->deadline_ns / LATE_PART > deadline_ns)
        return CAUSE_LOCKED;
    return CAUSE_NONE;
}

enum cause sync_call(struct sync *s, uint64_t deadline_ns)
{
    uint32_t seq;
    int r = send_request(s);

    seq = s->seq;
    if (r == ERR_LIMIT) {
        disconnect(s, CAUSE_BROKEN, r, "the daemon does not read");
        return CAUSE_BROKEN;
    }
    for (;;) { /* after ERR_IO too: why may be written in what is still to be read */
        int got = receive(s, r < 0 ? 0 : deadline_ns);
        enum cause why = got == ERR_TIMEOUT && r == 0 ? CAUSE_DEADLINE : CAUSE_BROKEN;

        if (got < 0) {
            s->now_ns = conn_now_ns(); /* the pause begins now, not before the wait */
            disconnect(s, why, why == CAUSE_BROKEN && got == ERR_TIMEOUT ? ERR_IO : got, NULL);
            return why;
        }
        if (s->reply.seq != seq) {
            on_reply(s);
        } else if (s->reply.body == WIRE_ERROR && s->reply.u.error.code == ERR_SHUTDOWN) {
            disconnect(s, CAUSE_BROKEN, ERR_SHUTDOWN, s->reply.u.error.text);
        } else {
            s->due -= s->due > 0;
            return CAUSE_NONE;
        }
        if (s->fd < 0)
            return CAUSE_BROKEN;
    }
}

enum cause sync_begin(struct sync *s)
{
    int r;

    if (s->due > 0)
        drain(s);
    r = s->fd < 0 ? ERR_IO : send_request(s);
    if (r == ERR_LIMIT)
        disconnect(s, CAUSE_BROKEN, r, "the daemon does not read");
    if (r < 0)
        return CAUSE_BROKEN;
    waiting_begin(&s->waiting, s->seq);
    return CAUSE_NONE;
}

void sync_push(struct sync *s)
{
    if (s->due > 0)
        drain(s);
    if (s->fd < 0 || !send_windowed(s))
        s->is_dirty = true;
}
