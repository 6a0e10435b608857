/* SPDX-License-Identifier: Apache-2.0 */
/* One function, turn(), does what time and the probe have made necessary and sets the one timer to
 * the next moment at which something is due; timer, pipe and exit lead there. What the daemon calls
 * only starts things, so that no callback runs inside it. A callback may call anything here, close
 * included. SIGPIPE must be ignored: the probe may die while a request is written to it. */
#include "daemon/sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "daemon/log.h"
#include "daemon/telemetry/telemetry.h"

#define MS_NS           UINT64_C(1000000)
#define SECOND_NS       (1000 * MS_NS)
#define BACK_OFF_MIN_NS SECOND_NS
#define BACK_OFF_MAX_NS (60 * SECOND_NS)
#define CLOSE_NS        (2 * SECOND_NS) /* from end of file to exit; a driver closes in less */
#define AGAIN_NS        (5 * MS_NS) /* to the next try for those whom the last one came too late for */
#define NEVER           UINT64_MAX

/* The first answer includes loading the driver, which takes seconds where nothing else keeps it
 * loaded (no persistence mode): it has so many times probe_timeout. */
#define STARTING_FACTOR 5

enum state {
    GONE,     /* no process */
    STARTING, /* asked who the device is */
    RUNNING,
    CLOSING, /* ends by itself: at end of file, or after it told us that it failed */
    KILLED,  /* and not gone yet: where that lasts it hangs in the kernel */
};

struct sampler {
    const struct config *config;
    char *probe_path;
    struct stat probe_file; /* when we started */
    struct sampler_callbacks callbacks;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_process_t process;
    uv_pipe_t pipe;
    unsigned int handle_count; /* not closed yet, the timer among them */
    bool have_process, have_pipe, is_closing;

    bool is_wanted, identify_due, idle_due;
    enum state state;
    uint64_t timer_ns; /* when it fires */

    /* the one request that may be out */
    bool is_owed, is_overdue;
    uint32_t seq, op;
    uint64_t sent_ns, next_sample_ns, closing_ns;
    uint64_t again_ns; /* after a reading that took too long for those who wait */

    /* of the probe that failed last */
    bool has_failed;
    int failed_exit, told_exit; /* told_exit: the one in the log, PROBE_EXIT_OK for none */
    char cause[LIMIT_TEXT_SIZE];
    char note[LIMIT_TEXT_SIZE]; /* what the probe said of itself; logged when it changes */
    uint64_t not_before_ns, back_off_ns;

    struct list waits, ending; /* ending: taken out of waits, to be told one by one */
    struct device_info device;
    struct sample newest;
    uint64_t newest_ns; /* when it was asked for; 0: there is none */
    union {
        struct probe_reply reply;
        char bytes[sizeof(struct probe_reply) + 1]; /* one more shows an oversized packet */
    } in;
};

static void turn(struct sampler *s);

static bool is_active(const struct sampler *s)
{
    return s->config->telemetry != BACKEND_WORKER &&
           (s->is_wanted || s->identify_due || !list_empty(&s->waits));
}

/* Is there a probe that may answer, or could one be started now? */
static bool can_answer(const struct sampler *s, uint64_t now_ns)
{
    if (s->config->telemetry == BACKEND_WORKER || s->has_failed)
        return false;
    return s->state != KILLED && (s->state != GONE || now_ns >= s->not_before_ns);
}

/* ---- handles ---- */

static void on_timer(uv_timer_t *timer)
{
    struct sampler *s = timer->data;

    s->timer_ns = NEVER;
    turn(s);
}

/* Makes the timer fire by then. */
static void arm(struct sampler *s, uint64_t at_ns)
{
    uint64_t now = uv_hrtime();

    if (s->is_closing || at_ns >= s->timer_ns)
        return;
    s->timer_ns = at_ns;
    uv_update_time(s->loop); /* a timer counts from the loop's idea of now */
    uv_timer_start(&s->timer, on_timer, at_ns > now ? (at_ns - now + MS_NS - 1) / MS_NS : 0, 0);
}

static void on_closed(uv_handle_t *handle)
{
    struct sampler *s = handle->data;

    if (handle == (uv_handle_t *)&s->process)
        s->have_process = false;
    if (handle == (uv_handle_t *)&s->pipe)
        s->have_pipe = false;
    if (--s->handle_count == 0) {
        free(s->probe_path);
        free(s);
    } else if (!s->is_closing) {
        turn(s);
    }
}

static void close_pipe(struct sampler *s)
{
    s->is_owed = false;
    if (s->have_pipe && !uv_is_closing((uv_handle_t *)&s->pipe))
        uv_close((uv_handle_t *)&s->pipe, on_closed);
}

/* ---- the end of a probe ---- */

/* One line for the first failure and one for each of another kind; none for a retry. */
static void tell_failure(struct sampler *s)
{
    if (s->told_exit == s->failed_exit)
        return;
    s->told_exit = s->failed_exit;
    log_line(LOG_LEVEL_WARNING, "event=probe_failed",
             "probe: %s: %s; using no samples until it answers", probe_exit_word(s->failed_exit),
             s->cause);
}

static void back_off(struct sampler *s)
{
    uint64_t twice = s->back_off_ns * 2;

    s->back_off_ns = twice == 0 ? BACK_OFF_MIN_NS : bytes_min(twice, BACK_OFF_MAX_NS);
    s->not_before_ns = uv_hrtime() + s->back_off_ns;
    s->has_failed = false;
    s->identify_due = false; /* that was its one try */
    tell_failure(s);
}

/* It is to end by itself. cause: "" where its exit will tell. */
static void close_probe(struct sampler *s, bool has_failed, const char *cause)
{
    close_pipe(s);
    s->state = CLOSING;
    s->closing_ns = uv_hrtime();
    s->has_failed = has_failed;
    snprintf(s->cause, sizeof(s->cause), "%s", cause);
}

static void kill_probe(struct sampler *s, const char *cause)
{
    close_probe(s, true, cause);
    s->state = KILLED;
    s->failed_exit = PROBE_EXIT_FAILED;
    tell_failure(s); /* now, since it may never be gone */
    uv_process_kill(&s->process, SIGKILL);
}

static void on_exit_probe(uv_process_t *process, int64_t status, int signal_number)
{
    struct sampler *s = process->data;
    bool as_told = s->state == CLOSING && !s->has_failed;

    if (s->state != CLOSING && s->state != KILLED)
        s->cause[0] = '\0';
    s->state = GONE;
    close_pipe(s);
    uv_close((uv_handle_t *)process, on_closed);
    if (as_told)
        return;
    s->failed_exit = signal_number || status <= 0 || status > 255 ? PROBE_EXIT_FAILED : (int)status;
    if (!s->cause[0] && signal_number)
        snprintf(s->cause, sizeof(s->cause), "ended by signal %d", signal_number);
    else if (!s->cause[0])
        snprintf(s->cause, sizeof(s->cause), "ended with exit code %" PRId64, status);
    back_off(s);
    turn(s);
}

/* ---- waits ---- */

/* Tells all in s->ending. Each may wait again, cancel others or close the sampler meanwhile. */
static void end_waits(struct sampler *s, const struct sample *sample)
{
    while (!list_empty(&s->ending)) {
        struct sample_wait *w = list_entry(s->ending.next, struct sample_wait, link);

        list_remove(&w->link);
        w->done(w, sample);
    }
}

/* Moves the waits that are due by then to s->ending; true where there are any. */
static bool take_waits(struct sampler *s, uint64_t due_ns)
{
    list_for_each(node, next, &s->waits)
    {
        if (list_entry(node, struct sample_wait, link)->deadline_ns > due_ns)
            continue;
        list_remove(node);
        list_append(&s->ending, node);
    }
    return !list_empty(&s->ending);
}

static void fail_waits(struct sampler *s, uint64_t due_ns)
{
    const struct sample none = {.source = SOURCE_NONE};

    if (!take_waits(s, due_ns))
        return;
    s->callbacks.sample(s->callbacks.arg, &none);
    end_waits(s, NULL);
}

/* ---- requests and replies ---- */

static uint64_t answer_due(const struct sampler *s)
{
    uint64_t limit = s->config->probe_timeout;

    return s->sent_ns + (s->op == PROBE_IDENTIFY ? limit * STARTING_FACTOR : limit);
}

static void send_request(struct sampler *s, enum probe_op op)
{
    struct probe_request request = {.magic = PROBE_MAGIC, .seq = ++s->seq, .op = op};
    uv_buf_t buffer = uv_buf_init((char *)&request, sizeof(request));

    s->op = op;
    s->sent_ns = uv_hrtime();
    if (op == PROBE_SAMPLE)
        s->next_sample_ns = s->sent_ns + s->config->sample_interval;
    s->is_overdue = false;
    /* One record always fits. An error means that the probe dies, which end of file will tell. */
    s->is_owed = uv_try_write((uv_stream_t *)&s->pipe, &buffer, 1) == (int)sizeof(request);
    arm(s, answer_due(s));
}

/* What came from a vendor's library goes into logs and paths: printable, and ended. */
static void clean_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text; text++) {
        if (*text < 0x20 || *text > 0x7e)
            *text = '?';
    }
}

static bool reply_valid(struct sampler *s, ssize_t size)
{
    struct probe_reply *r = &s->in.reply;

    if (size != (ssize_t)sizeof(*r) || !s->is_owed || r->magic != PROBE_MAGIC || r->seq != s->seq ||
        r->op != s->op)
        return false;
    clean_text(r->uuid, sizeof(r->uuid));
    clean_text(r->name, sizeof(r->name));
    clean_text(r->pci, sizeof(r->pci));
    clean_text(r->text, sizeof(r->text));
    return true;
}

static void on_identity(struct sampler *s, const struct probe_reply *r)
{
    struct device_info *d = &s->device;

    *d = (struct device_info){.known = true, .integrated = r->integrated != 0};
    memcpy(d->uuid, r->uuid, sizeof(d->uuid));
    memcpy(d->name, r->name, sizeof(d->name));
    memcpy(d->pci, r->pci, sizeof(d->pci));
    if (r->has_minor)
        d->minor = opt_u64(r->minor);
    if (r->has_total)
        d->total = opt_u64(r->total_bytes);
    s->state = RUNNING;
    s->identify_due = false;
    if (r->text[0] && strcmp(s->note, r->text) != 0)
        log_line(LOG_LEVEL_INFO, "event=probe", "probe: %s", r->text);
    memcpy(s->note, r->text, sizeof(s->note));
    s->callbacks.device(s->callbacks.arg, d);
}

static void on_sample(struct sampler *s, const struct probe_reply *r)
{
    struct sample sample = {.age_ns = uv_hrtime() - s->sent_ns};

    if (r->has_free && r->has_total) {
        sample.free = opt_u64(r->free_bytes);
        sample.total = opt_u64(r->total_bytes);
        sample.source = (enum source)r->source;
        s->newest = sample;
        s->newest_ns = s->sent_ns;
        s->back_off_ns = 0;
        if (s->told_exit != PROBE_EXIT_OK)
            log_line(LOG_LEVEL_INFO, "event=probe", "probe: answers again");
        s->told_exit = PROBE_EXIT_OK;
    }
    s->callbacks.sample(s->callbacks.arg, &sample);
    /* R9: one that was too long on its way decides nothing; turn() asks for another. */
    if (sample.age_ns > s->config->sample_max_age)
        s->again_ns = uv_hrtime() + AGAIN_NS;
    else if (take_waits(s, NEVER))
        end_waits(s, sample.free.has ? &sample : NULL);
}

static void on_alloc(uv_handle_t *handle, size_t suggested_bytes, uv_buf_t *buffer)
{
    struct sampler *s = handle->data;

    (void)suggested_bytes;
    *buffer = uv_buf_init(s->in.bytes, sizeof(s->in.bytes));
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct sampler *s = stream->data;
    const struct probe_reply *r = &s->in.reply;

    (void)buffer;
    if (size == 0) /* nothing there after all */
        return;
    if (size < 0) {
        close_probe(s, true, "");
    } else if (!reply_valid(s, size)) {
        kill_probe(s, "an answer that is not of this build");
    } else {
        s->is_owed = false;
        if (r->status)
            close_probe(s, true, r->text[0] ? r->text : "it does not say why");
        else if (s->op == PROBE_IDENTIFY)
            on_identity(s, r);
        else
            on_sample(s, r);
    }
    turn(s);
}

/* ---- starting a probe ---- */

/* The file of the probe, which is our own program; where an upgrade has replaced or removed that
 * file, what this process was started from. */
static const char *program_of(const struct sampler *s)
{
    struct stat now;

    if (s->probe_file.st_ino == 0) /* it was not there at the start either */
        return s->probe_path;
    if (stat(s->probe_path, &now) == 0 && now.st_dev == s->probe_file.st_dev &&
        now.st_ino == s->probe_file.st_ino)
        return s->probe_path;
    return "/proc/self/exe";
}

static int spawn(struct sampler *s, int child_fd)
{
    static const char *const backends[] = {
        [BACKEND_AUTO] = "auto",
        [BACKEND_NVML] = "nvml",
        [BACKEND_CUDA] = "cuda",
        [BACKEND_WORKER] = "worker",
    };
    const char *args[] = {
        "dlod", "--probe", "--gpu", s->config->gpu, "--telemetry", backends[s->config->telemetry],
        NULL};
    uv_stdio_container_t stdio[] = {
        {.flags = UV_IGNORE}, /* /dev/null, as the next */
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        [PROBE_FD] = {.flags = UV_INHERIT_FD, .data.fd = child_fd},
    };
    const uv_process_options_t options = {
        .file = program_of(s),
        .args = (char **)args,
        .stdio = stdio,
        .stdio_count = ARRAY_SIZE(stdio),
        .exit_cb = on_exit_probe,
    };
    int rc = uv_spawn(s->loop, &s->process, &options);

    s->process.data = s;
    s->have_process = true;
    s->handle_count++;
    if (rc)
        uv_close((uv_handle_t *)&s->process, on_closed);
    return rc;
}

static int open_pipe(struct sampler *s, int fd)
{
    int rc = uv_pipe_init(s->loop, &s->pipe, 0);

    if (rc) {
        close(fd);
        return rc;
    }
    s->pipe.data = s;
    s->have_pipe = true;
    s->handle_count++;
    rc = uv_pipe_open(&s->pipe, fd);
    if (rc)
        close(fd);
    return rc ? rc : uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read);
}

static void start_probe(struct sampler *s)
{
    int pair[2], rc;

    s->cause[0] = '\0';
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
        rc = -errno;
        pair[0] = pair[1] = -1;
    } else {
        rc = spawn(s, pair[1]);
        close(pair[1]);
    }
    if (rc) {
        if (pair[0] >= 0)
            close(pair[0]);
        snprintf(s->cause, sizeof(s->cause), "%.100s cannot be started: %s", s->probe_path,
                 uv_strerror(rc));
        s->failed_exit = PROBE_EXIT_FAILED;
        back_off(s);
        return;
    }
    s->next_sample_ns = 0;
    rc = open_pipe(s, pair[0]);
    if (rc) {
        kill_probe(s, uv_strerror(rc));
        return;
    }
    s->state = STARTING;
    send_request(s, PROBE_IDENTIFY);
}

/* ---- what is due ---- */

/* A probe that owes an answer or its exit for too long. It is overdue for one turn of the loop
 * before it is killed: when the whole daemon was stopped, the answer may be there unread. */
static void check_probe(struct sampler *s, uint64_t now_ns)
{
    if (s->is_owed && now_ns >= answer_due(s)) {
        if (s->is_overdue)
            kill_probe(s, "hung: it owed an answer for longer than probe_timeout");
        s->is_overdue = true;
    } else if (s->state == CLOSING && now_ns >= s->closing_ns + CLOSE_NS) {
        kill_probe(s, s->has_failed && s->cause[0] ? s->cause : "hung: it did not exit");
    }
}

/* Starts, asks or lets go, as the probe is needed. */
static void pursue(struct sampler *s, uint64_t now_ns)
{
    if (s->state == GONE) {
        if (is_active(s) && !s->have_process && !s->have_pipe && now_ns >= s->not_before_ns)
            start_probe(s);
    } else if (s->state == RUNNING) {
        if (!is_active(s))
            close_probe(s, false, "");
        else if (!s->is_owed && ((!list_empty(&s->waits) && now_ns >= s->again_ns) ||
                                 (s->is_wanted && now_ns >= s->next_sample_ns)))
            send_request(s, PROBE_SAMPLE);
    }
}

static uint64_t next_due(const struct sampler *s, uint64_t now_ns)
{
    uint64_t due = NEVER;

    if (!list_empty(&s->waits) && !can_answer(s, now_ns))
        return now_ns;
    list_for_each(node, next, &s->waits) due =
        bytes_min(due, list_entry(node, struct sample_wait, link)->deadline_ns);
    if (s->is_owed)
        due = bytes_min(due, s->is_overdue ? now_ns + MS_NS : answer_due(s));
    if (s->state == CLOSING)
        due = bytes_min(due, s->closing_ns + CLOSE_NS);
    if (s->state == GONE && is_active(s) && !s->have_process && !s->have_pipe)
        due = bytes_min(due, s->not_before_ns);
    if (s->state == RUNNING && !s->is_owed && !list_empty(&s->waits))
        due = bytes_min(due, s->again_ns);
    if (s->state == RUNNING && s->is_wanted && !s->is_owed)
        due = bytes_min(due, s->next_sample_ns);
    return due;
}

static bool is_idle(const struct sampler *s)
{
    return !s->is_wanted && !is_active(s) && s->state == GONE && !s->have_process && !s->have_pipe;
}

static void turn(struct sampler *s)
{
    uint64_t now = uv_hrtime();

    if (s->is_closing)
        return;
    check_probe(s, now);
    fail_waits(s, can_answer(s, now) ? now : NEVER);
    if (s->is_closing)
        return;
    pursue(s, now);
    if (s->config->telemetry == BACKEND_WORKER)
        s->identify_due = false;
    if (s->idle_due && is_idle(s)) {
        s->idle_due = false;
        if (s->callbacks.idle)
            s->callbacks.idle(s->callbacks.arg);
    }
    arm(s, next_due(s, now));
}

/* ---- for the daemon ---- */

struct sampler *sampler_new(struct uv_loop_s *loop, const struct config *config,
                            const char *probe_path, const struct sampler_callbacks *callbacks)
{
    struct sampler *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    if (stat(probe_path, &s->probe_file) < 0)
        s->probe_file.st_ino = 0;
    s->probe_path = strdup(probe_path);
    if (!s->probe_path || uv_timer_init(loop, &s->timer)) {
        free(s->probe_path);
        free(s);
        return NULL;
    }
    s->loop = loop;
    s->config = config;
    s->callbacks = *callbacks;
    s->timer.data = s;
    s->timer_ns = NEVER;
    s->handle_count = 1;
    list_init(&s->waits);
    list_init(&s->ending);
    return s;
}

static void drop_waits(struct list *head)
{
    while (!list_empty(head))
        list_remove(head->next);
}

void sampler_close(struct sampler *s)
{
    if (!s || s->is_closing)
        return;
    s->is_closing = true;
    drop_waits(&s->waits);
    drop_waits(&s->ending);
    close_pipe(s);
    if (s->have_process && !uv_is_closing((uv_handle_t *)&s->process)) {
        uv_process_kill(&s->process, SIGKILL);
        uv_close((uv_handle_t *)&s->process, on_closed);
    }
    uv_close((uv_handle_t *)&s->timer, on_closed);
}

void sampler_identify(struct sampler *s)
{
    /* one that runs has said already, one that starts is about to */
    s->identify_due = s->state != RUNNING && s->state != STARTING;
    s->idle_due = true;
    arm(s, 0);
}

void sampler_reload(struct sampler *s)
{
    s->next_sample_ns = bytes_min(s->next_sample_ns, s->sent_ns + s->config->sample_interval);
    arm(s, 0);
}

void sampler_set_wanted(struct sampler *s, bool wanted)
{
    s->is_wanted = wanted;
    s->idle_due = true;
    arm(s, 0);
}

bool sampler_newest(const struct sampler *s, uint64_t now_ns, struct sample *ret)
{
    if (s->newest_ns == 0)
        return false;
    *ret = s->newest;
    ret->age_ns = bytes_sub_sat(now_ns, s->newest_ns);
    return true;
}

void sampler_wait(struct sampler *s, struct sample_wait *w, uint64_t now_ns)
{
    w->deadline_ns = now_ns + s->config->sample_timeout;
    list_append(&s->waits, &w->link);
    s->idle_due = true;
    if (s->state == RUNNING && !s->is_owed)
        send_request(s, PROBE_SAMPLE);
    /* a probe that is busy or starting is waited for; else turn() knows what to do */
    arm(s, s->state == RUNNING || s->state == STARTING ? w->deadline_ns : 0);
}

void sampler_cancel(struct sample_wait *w)
{
    if (w->link.next)
        list_remove(&w->link);
}

const struct device_info *sampler_device(const struct sampler *s)
{
    return &s->device;
}

void sampler_describe(const struct sampler *s, char *out, size_t size)
{
    static const char *const words[] = {
        [STARTING] = "starting", [RUNNING] = "running", [CLOSING] = "closing", [KILLED] = "hung"};
    uint64_t now = uv_hrtime();

    if (s->state != GONE)
        snprintf(out, size, "%s", words[s->state]);
    else if (is_active(s) && s->not_before_ns > now)
        snprintf(out, size, "waiting %" PRIu64 "s: %s: %s",
                 (s->not_before_ns - now + SECOND_NS - 1) / SECOND_NS,
                 probe_exit_word(s->failed_exit), s->cause);
    else if (s->told_exit != PROBE_EXIT_OK && s->cause[0])
        snprintf(out, size, "off: %s: %s", probe_exit_word(s->failed_exit), s->cause);
    else
        snprintf(out, size, "%s", is_active(s) ? "starting" : "off");
}
