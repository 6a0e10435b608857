/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions that wait: for room (R24) and for work (R21). The handle is locked for each
 * look at the link and not between, so that other threads can go on meanwhile; what others ask for
 * is carried out here, on the thread that waits. */
#include <dlo/dlo.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/handle.h"
#include "proto/base/error.h"

#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

/* What the daemon's own time may be late by. */
#define SLACK_NS (250 * NS_PER_MS)
/* Nobody is waited for longer, whatever a daemon says: above the longest dead_wait of R24. */
#define WAIT_MAX_NS (25000 * NS_PER_MS)
/* A handle that others hold all the time is looked at that often. */
#define RETRY_NS (50 * NS_PER_MS)

int32_t dlo_set_release(struct dlo_client *c, dlo_release_fn release, void *arg)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    c->release = release;
    c->release_arg = arg;
    return handle_leave(c, "set release", 0);
}

/* The host's release function, NULL where there is none. */
static dlo_release_fn release_of(struct dlo_client *c, void **ret_arg)
{
    uint64_t deadline_ns;
    dlo_release_fn release;

    if (handle_enter(c, &deadline_ns) < 0)
        return NULL;
    release = c->release;
    *ret_arg = c->release_arg;
    handle_leave(c, "release", 0);
    return release;
}

/* 0 with what there is to see; the lock is not kept. */
static int look(struct dlo_client *c, struct link_look *ret)
{
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    *ret = (struct link_look){.fd = -1, .next_ns = conn_now_ns() + RETRY_NS};
    if (r < 0)
        return r;
    c->link->ops->look(c->link, ret);
    /* another thread may close the connection while we poll: a copy of its descriptor stays ours */
    if (ret->fd >= 0)
        ret->fd = fcntl(ret->fd, F_DUPFD_CLOEXEC, 0);
    return handle_leave(c, "wait", 0);
}

static void close_look(struct link_look *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

/* R23: does what was asked, and tells what came of it. */
static void carry_out(struct dlo_client *c, const struct link_look *l)
{
    uint64_t reserved = DLO_MISSING, allocated = DLO_MISSING, deadline_ns;
    uint64_t begin_ns = conn_now_ns();
    enum refusal refusal = REFUSAL_NO_CALLBACK;
    void *arg = NULL;
    dlo_release_fn release = release_of(c, &arg);

    if (release)
        refusal = release(arg, l->bytes, &reserved, &allocated) == 0 && reserved != DLO_MISSING &&
                          allocated != DLO_MISSING
                      ? REFUSAL_NONE
                      : REFUSAL_FAILED;
    if (handle_enter(c, &deadline_ns) < 0)
        return; /* the daemon's own deadline says what it needs to know */
    c->link->ops->reclaimed(c->link, l->call, refusal, reserved, allocated,
                            (conn_now_ns() - begin_ns) / NS_PER_US);
    handle_leave(c, "reclaim", 0);
}

/* Milliseconds until then, rounded up; -1 for ever. */
static int until(uint64_t ns)
{
    uint64_t now_ns = conn_now_ns(), left_ms;

    if (ns == UINT64_MAX)
        return -1;
    left_ms = ns > now_ns ? (ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    return left_ms > INT32_MAX ? INT32_MAX : (int)left_ms;
}

/* ---- room ---- */

static void wait_for_room(struct dlo_client *c, uint64_t wait_ns, struct wire_wait_end *ret)
{
    uint64_t begin_ns = conn_now_ns(), until_ns = begin_ns + wait_ns + SLACK_NS;
    struct link_look l;

    for (;;) {
        (void)look(c, &l);
        if (l.held_ns != 0)
            until_ns = begin_ns + WAIT_MAX_NS < conn_now_ns() + l.held_ns + SLACK_NS
                           ? begin_ns + WAIT_MAX_NS
                           : conn_now_ns() + l.held_ns + SLACK_NS;
        if (l.has_reclaim)
            carry_out(c, &l);
        if (l.has_waited || conn_now_ns() >= until_ns) {
            close_look(&l);
            break;
        }
        if (!l.has_reclaim) {
            struct pollfd p = {.fd = l.fd, .events = POLLIN};

            (void)poll(&p, 1, until(until_ns < l.next_ns ? until_ns : l.next_ns));
        }
        close_look(&l);
    }
    *ret = l.has_waited ? l.waited : (struct wire_wait_end){.end = WAIT_END_DEADLINE};
}

/* The daemon is late: its answer is not waited for any more. */
static void abandon(struct dlo_client *c, const struct wire_wait_end *end)
{
    uint64_t deadline_ns;

    if (end->end != WAIT_END_DEADLINE || handle_enter(c, &deadline_ns) < 0)
        return;
    c->link->ops->abandon(c->link);
    handle_leave(c, "wait", 0);
}

int32_t dlo_oom(struct dlo_client *c, uint64_t need_bytes, struct dlo_room *ret)
{
    _keep_errno_;
    struct wire_wait_end end = {.end = WAIT_END_LOCAL};
    uint64_t deadline_ns, wait_ns = 0;
    int r;

    if (ret && ret->size < sizeof(ret->size))
        return ERR_INVALID;
    r = handle_enter(c, &deadline_ns);
    if (r < 0)
        return r;
    r = c->link->ops->oom(c->link, need_bytes, deadline_ns, &wait_ns);
    handle_leave(c, "oom", 0);
    if (r == 0) {
        wait_for_room(c, wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS, &end);
        abandon(c, &end);
    }
    return ret ? options_give_room(&end, ret) : 0;
}

int32_t dlo_reserve(struct dlo_client *c, uint64_t bytes, uint32_t wait_ms, uint32_t term_ms,
                    struct dlo_room *ret)
{
    _keep_errno_;
    struct wire_wait_end end = {.end = WAIT_END_LOCAL};
    uint64_t deadline_ns;
    int r;

    if ((ret && ret->size < sizeof(ret->size)) || bytes == 0 || wait_ms > DLO_RESERVE_WAIT_MS_MAX ||
        term_ms > DLO_RESERVE_TERM_MS_MAX)
        return ERR_INVALID;
    if (term_ms == 0)
        term_ms = DLO_RESERVE_TERM_MS_DEFAULT;
    r = handle_enter(c, &deadline_ns);
    if (r < 0)
        return r;
    r = c->link->ops->reserve(c->link, bytes, wait_ms * NS_PER_MS, term_ms * NS_PER_MS,
                              deadline_ns);
    handle_leave(c, "reserve", 0);
    if (r == 0) {
        wait_for_room(c, wait_ms * NS_PER_MS, &end);
        abandon(c, &end);
    }
    return ret ? options_give_room(&end, ret) : 0;
}

int32_t dlo_unreserve(struct dlo_client *c)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    return handle_leave(c, "unreserve", c->link->ops->unreserve(c->link, deadline_ns));
}

/* ---- work ---- */

static void tell_idle(struct dlo_client *c, enum phase phase)
{
    uint64_t deadline_ns;

    if (handle_enter(c, &deadline_ns) < 0)
        return;
    c->link->ops->idle(c->link, phase, deadline_ns);
    handle_leave(c, "idle wait", 0);
}

/* One poll of the host's descriptor and the daemon's; true where the wait is over. */
static bool poll_both(const struct link_look *l, int fd, uint64_t until_ns, int *ret_polled,
                      bool *ret_is_ready)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = l->fd, .events = POLLIN}};

    *ret_polled =
        poll(p, 2, l->has_reclaim ? 0 : until(until_ns < l->next_ns ? until_ns : l->next_ns));
    *ret_is_ready = *ret_polled > 0 && p[0].revents != 0;
    return *ret_polled < 0 || *ret_is_ready || conn_now_ns() >= until_ns;
}

int32_t dlo_idle_wait(struct dlo_client *c, int32_t fd, int64_t timeout_ms, int32_t *ret_ready)
{
    void *arg;
    bool asks = c && !handle_is_inherited(c) && release_of(c, &arg), is_over, is_ready;
    uint64_t until_ns = UINT64_MAX;
    struct link_look l = {.fd = -1, .next_ns = UINT64_MAX};
    int polled, error;

    if (!c)
        return ERR_INVALID;
    if (timeout_ms >= 0 && (uint64_t)timeout_ms < UINT64_MAX / NS_PER_MS / 2)
        until_ns = conn_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    if (asks)
        tell_idle(c, PHASE_BEGIN);
    do {
        if (asks)
            (void)look(c, &l);
        is_over = poll_both(&l, fd, until_ns, &polled, &is_ready);
        error = errno;
        close_look(&l);
        if (asks && l.has_reclaim && !is_ready)
            carry_out(c, &l);
    } while (!is_over);
    if (asks) {
        struct link_look last;

        tell_idle(c, PHASE_END); /* what it was asked before is done, or told to be too late */
        (void)look(c, &last);
        close_look(&last);
        if (l.has_reclaim && is_ready)
            carry_out(c, &l);
        else if (last.has_reclaim)
            carry_out(c, &last);
    }
    if (ret_ready)
        *ret_ready = is_ready;
    errno = error;
    return polled < 0 && error != EINTR ? ERR_IO : 0;
}
