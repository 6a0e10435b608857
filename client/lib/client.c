/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions: a handle is a link behind a lock whose wait counts against the deadline. */
#include <dlo/dlo.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/conn.h"
#include "client/lib/handle.h"
#include "proto/base/error.h"
#include "proto/base/meminfo.h"

/* How often this process is a child of one that had the library: a handle of an earlier generation
 * belongs to a parent. Changes only in the child of a fork, where one thread exists. */
static atomic_uint generation;
static pthread_once_t fork_guard_once = PTHREAD_ONCE_INIT;
static int fork_guard_error;

/* A handle that does not exist cannot keep the text of its error. */
static _Thread_local char open_error[2 * LIMIT_TEXT_SIZE];

static void count_fork(void)
{
    atomic_fetch_add(&generation, 1);
}

static void set_fork_guard(void)
{
    fork_guard_error = pthread_atfork(NULL, NULL, count_fork);
}

bool handle_is_inherited(const struct dlo_client *c)
{
    return c->generation != atomic_load_explicit(&generation, memory_order_relaxed);
}

void handle_restore_errno(const int *saved)
{
    errno = *saved;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAVE_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HAVE_TSAN 1
#endif

/* The clock of deadlines is monotonic. The thread sanitizers of gcc 12 and clang 14 do not know the
 * function that takes it, so under them the wait is by the wall clock. */
static int lock_until(pthread_mutex_t *mutex, uint64_t deadline_ns)
{
#ifdef HAVE_TSAN
    uint64_t now_ns = conn_now_ns(), left = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    left += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(left / 1000000000u);
    until.tv_nsec = (long)(left % 1000000000u);
    return pthread_mutex_timedlock(mutex, &until);
#else
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                   .tv_nsec = (long)(deadline_ns % 1000000000u)};

    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
#endif
}

/* 0 with the lock held, which handle_leave gives back. */
static int lock(struct dlo_client *c, uint64_t deadline_ns)
{
    if (pthread_mutex_trylock(&c->mutex) != 0 && lock_until(&c->mutex, deadline_ns) != 0)
        return ERR_TIMEOUT;
    atomic_store_explicit(&c->is_held, true, memory_order_relaxed);
    c->link->text[0] = '\0';
    return 0;
}

int32_t handle_leave(struct dlo_client *c, const char *what, int r)
{
    if (r < 0 && c->link->text[0])
        snprintf(c->error, sizeof(c->error), "%s: %s (%s)", what, error_text(r), c->link->text);
    else if (r < 0)
        snprintf(c->error, sizeof(c->error), "%s: %s", what, error_text(r));
    atomic_store_explicit(&c->is_held, false, memory_order_relaxed);
    pthread_mutex_unlock(&c->mutex);
    return r;
}

int handle_enter(struct dlo_client *c, uint64_t *ret_deadline_ns)
{
    if (!c)
        return ERR_INVALID;
    if (handle_is_inherited(c))
        return ERR_FORKED;
    *ret_deadline_ns = conn_now_ns() + c->options.deadline_ns;
    return lock(c, *ret_deadline_ns);
}

static int open_link(struct dlo_client *c)
{
    if (c->options.mode != MODE_OFF)
        return link_socket_new(&c->options, conn_now_ns() + c->options.deadline_ns, &c->link);
    c->link = link_null_new();
    return c->link ? 0 : ERR_NO_MEMORY;
}

int32_t dlo_open(const struct dlo_options *options, struct dlo_client **ret)
{
    _keep_errno_;
    struct dlo_client *c;
    int r;

    if (!ret)
        return ERR_INVALID;
    pthread_once(&fork_guard_once, set_fork_guard);
    c = fork_guard_error ? NULL : calloc(1, sizeof(*c));
    if (!c) {
        snprintf(open_error, sizeof(open_error), "dlo_open: %s", error_text(ERR_NO_MEMORY));
        return ERR_NO_MEMORY;
    }
    r = options_read(options, &c->options, c->error, sizeof(c->error));
    if (r == 0)
        r = open_link(c);
    if (r < 0) {
        snprintf(open_error, sizeof(open_error), "dlo_open: %.400s",
                 c->error[0] ? c->error : error_text(r));
        free(c);
        return r;
    }
    c->release = c->options.release;
    c->release_arg = c->options.release_arg;
    pthread_mutex_init(&c->mutex, NULL);
    c->generation = atomic_load(&generation);
    *ret = c;
    return 0;
}

void dlo_close(struct dlo_client *c)
{
    _keep_errno_;

    if (!c)
        return;
    if (handle_is_inherited(c)) {
        /* Another thread of the parent was changing it: what it points to may be half done. */
        if (atomic_load(&c->is_held))
            return;
        c->link->ops->free(c->link); /* closes the copy of the descriptor, says nothing */
        free(c);
        return;
    }
    c->link->ops->free(c->link);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

int32_t dlo_attach(struct dlo_client *c, const char *id, uint64_t bytes)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    r = options_name_ok(id) ? c->link->ops->attach(c->link, id, bytes, deadline_ns) : ERR_INVALID;
    return handle_leave(c, "attach", r);
}

int32_t dlo_detach(struct dlo_client *c, const char *id)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    r = options_name_ok(id) ? c->link->ops->detach(c->link, id, deadline_ns) : ERR_INVALID;
    return handle_leave(c, "detach", r);
}

int32_t dlo_set_peak(struct dlo_client *c, uint64_t peak_bytes)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    return handle_leave(c, "set peak", c->link->ops->set_peak(c->link, peak_bytes, deadline_ns));
}

static int32_t warmup(struct dlo_client *c, enum phase phase, const char *what)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    return handle_leave(c, what, c->link->ops->warmup(c->link, phase, deadline_ns));
}

int32_t dlo_warmup_begin(struct dlo_client *c)
{
    return warmup(c, PHASE_BEGIN, "warm-up begin");
}

int32_t dlo_warmup_end(struct dlo_client *c)
{
    return warmup(c, PHASE_END, "warm-up end");
}

static int32_t busy(struct dlo_client *c, enum phase phase, const struct dlo_report *report,
                    struct dlo_answer *ret, const char *what)
{
    _keep_errno_;
    struct dlo_report all;
    struct answer answer;
    uint64_t deadline_ns;
    int r;

    if (options_report(report, &all) < 0 || (ret && ret->size < sizeof(ret->size)))
        return ERR_INVALID;
    r = handle_enter(c, &deadline_ns);
    if (r < 0)
        return r;
    r = c->link->ops->busy(c->link, phase, &all, deadline_ns, &answer);
    if (r == 0 && ret)
        r = options_give_answer(&answer, CAUSE_NONE, ret);
    return handle_leave(c, what, r);
}

int32_t dlo_busy_begin(struct dlo_client *c, const struct dlo_report *report)
{
    return busy(c, PHASE_BEGIN, report, NULL, "busy begin");
}

int32_t dlo_busy_end(struct dlo_client *c, const struct dlo_report *report, struct dlo_answer *ret)
{
    return busy(c, PHASE_END, report, ret, "busy end");
}

/* R6: what is safe when nothing can be read, not even our own state. */
static int give_blind(struct dlo_client *c, const struct boundary *b, enum cause cause,
                      struct dlo_answer *ret)
{
    bool is_forced = options_is_forced(c->options.stage_end, b->force);
    int mode = atomic_load_explicit(&c->link->mode, memory_order_relaxed);
    struct answer a = {
        .decision = mode == MODE_ON ? DECISION_RELEASE : DECISION_KEEP, /* R30 */
        .would = mode == MODE_OFF ? DECISION_KEEP : DECISION_RELEASE,
        .reason = mode == MODE_OFF ? REASON_NONE
                  : is_forced      ? REASON_FORCED
                                   : REASON_TELEMETRY_UNAVAILABLE,
    };

    return options_give_answer(&a, cause, ret);
}

/* R11b: the worker's own reading, where the boundary has none and the host can be asked. */
static void read_memory(struct dlo_client *c, struct boundary *b)
{
    const struct options *o = &c->options;
    uint64_t free_bytes, total_bytes;

    if (!o->read_memory || o->mode == MODE_OFF || (b->free.has && b->total.has) ||
        options_is_forced(o->stage_end, b->force))
        return;
    if (o->read_memory(o->read_memory_arg, &free_bytes, &total_bytes) != 0 ||
        free_bytes == DLO_MISSING || total_bytes == DLO_MISSING)
        return;
    b->free = opt_u64(free_bytes);
    b->total = opt_u64(total_bytes);
}

int32_t dlo_ask(struct dlo_client *c, const struct dlo_boundary *b, struct dlo_answer *ret)
{
    _keep_errno_;
    struct boundary boundary;
    struct answer answer;
    enum cause cause;
    uint64_t deadline_ns;
    int r;

    if (!c || !ret || ret->size < sizeof(ret->size) || options_boundary(b, &boundary) < 0)
        return ERR_INVALID;
    if (handle_is_inherited(c)) {
        r = give_blind(c, &boundary, CAUSE_NONE, ret);
        return r < 0 ? r : ERR_FORKED;
    }
    read_memory(c, &boundary);
    r = handle_enter(c, &deadline_ns);
    if (r < 0) {
        atomic_fetch_add(&c->locked, 1);
        return give_blind(c, &boundary, CAUSE_LOCKED, ret);
    }
    c->link->ops->ask(c->link, &boundary, deadline_ns, &answer, &cause);
    return handle_leave(c, "ask", options_give_answer(&answer, cause, ret));
}

int32_t dlo_forced(struct dlo_client *c, int32_t force, const char *component)
{
    _keep_errno_;
    struct dlo_boundary in = DLO_BOUNDARY_INIT;
    struct boundary b;
    uint64_t deadline_ns;
    int r;

    in.force = force;
    in.component = component;
    if (force == 0 || options_boundary(&in, &b) < 0)
        return ERR_INVALID;
    r = handle_enter(c, &deadline_ns);
    if (r < 0)
        return r;
    r = options_is_forced(c->options.stage_end, b.force) ? c->link->ops->forced(c->link, &b)
                                                         : ERR_BAD_STATE;
    return handle_leave(c, "forced", r);
}

int32_t dlo_released(struct dlo_client *c, uint64_t reserved, uint64_t allocated, uint64_t us)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = reserved == DLO_MISSING || allocated == DLO_MISSING ? ERR_INVALID
                                                                : handle_enter(c, &deadline_ns);

    if (r < 0)
        return r;
    return handle_leave(c, "released", c->link->ops->released(c->link, reserved, allocated, us));
}

int32_t dlo_get_info(struct dlo_client *c, struct dlo_info *ret)
{
    _keep_errno_;
    struct dlo_info info = DLO_INFO_INIT;
    uint64_t deadline_ns;
    int r;

    if (!ret)
        return ERR_INVALID;
    r = handle_enter(c, &deadline_ns);
    if (r < 0)
        return r;
    c->link->ops->describe(c->link, &info);
    info.local[CAUSE_LOCKED] += atomic_load(&c->locked);
    return handle_leave(c, "info", options_give_info(&info, ret));
}

int32_t dlo_get_cap(struct dlo_client *c, uint64_t total_bytes, uint64_t *ret_cap)
{
    _keep_errno_;
    uint64_t deadline_ns;
    int r = ret_cap ? handle_enter(c, &deadline_ns) : ERR_INVALID;

    if (r < 0)
        return r;
    *ret_cap = c->link->ops->cap(c->link, total_bytes);
    return handle_leave(c, "cap", 0);
}

const char *dlo_last_error(const struct dlo_client *c)
{
    if (!c)
        return open_error;
    return handle_is_inherited(c) ? error_text(ERR_FORKED) : c->error;
}

int32_t dlo_find_socket(const char *gpu_uuid, char *ret, size_t ret_size)
{
    _keep_errno_;
    char path[CONN_PATH_SIZE];
    int r = ret ? conn_find(NULL, gpu_uuid, path) : ERR_INVALID;

    if (r < 0)
        return r;
    if (strlen(path) >= ret_size)
        return ERR_TOO_LONG;
    strcpy(ret, path);
    return 0;
}

uint64_t dlo_host_memory_free(uint64_t free_bytes, uint64_t total_bytes)
{
    _keep_errno_;
    uint64_t available;
    const char *why;

    if (meminfo_read(MEMINFO_PATH, &available, &why))
        return free_bytes;
    return meminfo_correct(free_bytes, available, total_bytes);
}
