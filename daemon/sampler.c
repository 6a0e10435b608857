/* SPDX-License-Identifier: Apache-2.0 */
/* One function, turn(), does all that time and the probe make necessary and sets the one timer to
 * the next moment at which something is due; timer, pipe and exit call nothing else. What the
 * daemon calls only starts things, so that no callback runs inside it.
 * SIGPIPE must be ignored in the process: the probe may die while a request is written to it. */
#include "daemon/sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "daemon/log.h"
#include "daemon/telemetry/telemetry.h"
#include "proto/base/parse.h"

#define MS_NS           UINT64_C(1000000)
#define BACK_OFF_MIN_NS (1000 * MS_NS)
#define BACK_OFF_MAX_NS (60000 * MS_NS)
#define CLOSE_NS        (2000 * MS_NS) /* from end of file to exit; a driver closes in less */
/* The first answer includes loading the driver, which takes seconds where nothing keeps it loaded
 * (no persistence mode): so many times probe_timeout. */
#define STARTING_FACTOR 5
#define NEVER           UINT64_MAX

enum state {
    GONE,     /* no process; the next one not before not_before_ns */
    STARTING, /* asked who the device is */
    RUNNING,
    CLOSING, /* told to exit by end of file */
    KILLED,  /* and not gone yet: hung in the kernel, if that lasts */
};

struct sampler {
    const struct config *config;
    const char *probe_path;
    struct sampler_callbacks callbacks;
    uv_loop_t *loop;
    uv_timer_t timer;
    uv_process_t process;
    uv_pipe_t pipe;
    unsigned int handles; /* not closed yet, the timer included */
    bool have_process, have_pipe, process_closing, is_closing;

    bool is_wanted, identify_due, idle_due;
    enum state state;
    uint64_t timer_ns; /* when it fires; NEVER */

    /* the one request that is out */
    bool is_owed, is_overdue;
    uint32_t seq, op;
    uint64_t sent_ns, closing_ns;

    uint64_t not_before_ns, back_off_ns;
    int told_exit; /* class of failure that was logged, PROBE_EXIT_OK: none */
    int cause_exit;
    char cause[LIMIT_TEXT_SIZE];

    struct list waits, ending; /* ending: taken from waits and told one by one */
    struct device_info device;
    struct sample newest;
    uint64_t newest_ns; /* when it was asked for */
    union {
        struct probe_reply reply;
        char bytes[sizeof(struct probe_reply) + 1]; /* one more shows an oversized packet */
    } in;
};

static void turn(struct sampler *s);

/* ---- handles ---- */

static void on_closed(uv_handle_t *handle)
{
    struct sampler *s = handle->data;

    if (handle == (uv_handle_t *)&s->process) {
        s->have_process = s->process_closing = false;
        if (s->state != GONE && !s->is_closing)
            s->state = GONE;
    } else if (handle == (uv_handle_t *)&s->pipe) {
        s->have_pipe = false;
    }
    if (--s->handles == 0)
        free(s);
    else if (!s->is_closing)
        turn(s);
}

static void close_pipe(struct sampler *s)
{
    s->is_owed = false;
    if (s->have_pipe && !uv_is_closing((uv_handle_t *)&s->pipe))
        uv_close((uv_handle_t *)&s->pipe, on_closed);
}

static void on_timer(uv_timer_t *timer)
{
    struct sampler *s = timer->data;

    s->timer_ns = NEVER;
    turn(s);
}

static void arm(struct sampler *s, uint64_t at_ns, uint64_t now_ns)
{
    uint64_t ms;

    if (s->is_closing || at_ns >= s->timer_ns)
        return;
    ms = at_ns > now_ns ? (at_ns - now_ns + MS_NS - 1) / MS_NS : 0;
    s->timer_ns = at_ns;
    uv_update_time(s->loop); /* a timer counts from the loop's idea of now */
    uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* ---- failures and their words ---- */

static void set_cause(struct sampler *s, int exit_code, const char *text)
{
    s->cause_exit = exit_code;
    snprintf(s->cause, sizeof(s->cause), "%s", text);
}

/* One line for the first failure and for each of another kind, none for a retry. */
static void tell_failure(struct sampler *s)
{
    if (s->told_exit == s->cause_exit)
        return;
    s->told_exit = s->cause_exit;
    log_line(LOG_LEVEL_WARNING, "event=probe_failed",
             "the probe failed: %s: %s; workers without a reading of their own release until it "
             "answers",
             probe_exit_word(s->cause_exit), s->cause);
}

static void back_off(struct sampler *s, uint64_t now_ns)
{
    uint64_t twice = s->back_off_ns * 2;

    s->back_off_ns = !twice ? BACK_OFF_MIN_NS : twice < BACK_OFF_MAX_NS ? twice : BACK_OFF_MAX_NS;
    s->not_before_ns = now_ns + s->back_off_ns;
    s->identify_due = false; /* that was its one try */
    tell_failure(s);
}

/* Ends a probe that cannot be trusted to end itself. on_exit does the rest, when it comes. */
static void kill_probe(struct sampler *s, const char *why)
{
    set_cause(s, PROBE_EXIT_FAILED, why);
    close_pipe(s);
    s->state = KILLED;
    tell_failure(s);
    uv_process_kill(&s->process, SIGKILL);
}

static void on_exit_probe(uv_process_t *process, int64_t status, int signal_number)
{
    struct sampler *s = process->data;
    uint64_t now = uv_hrtime();
    enum state was = s->state;

    close_pipe(s);
    s->process_closing = true;
    s->state = GONE;
    uv_close((uv_handle_t *)process, on_closed);
    if (was == CLOSING && s->cause_exit == PROBE_EXIT_OK)
        return; /* as told; what it exits with is of no interest */
    if (was != KILLED && signal_number) {
        char text[64];

        snprintf(text, sizeof(text), "killed by signal %d", signal_number);
        set_cause(s, PROBE_EXIT_FAILED, text);
    } else if (was != KILLED && s->cause_exit == PROBE_EXIT_OK) {
        char text[64];

        snprintf(text, sizeof(text), "exit code %" PRId64, status);
        set_cause(s, status > 0 && status < 256 ? (int)status : PROBE_EXIT_FAILED, text);
    }
    back_off(s, now);
}

/* ---- requests and replies ---- */

static void send_request(struct sampler *s, enum probe_op op)
{
    struct probe_request request = {.magic = PROBE_MAGIC, .seq = ++s->seq, .op = op};
    uv_buf_t buffer = uv_buf_init((char *)&request, sizeof(request));
    int n = uv_try_write((uv_stream_t *)&s->pipe, &buffer, 1);

    s->op = op;
    s->sent_ns = uv_hrtime();
    s->is_overdue = false;
    /* One record always fits, so an error means that it is dying: end of file or its exit tells. */
    s->is_owed = n == (int)sizeof(request);
}

/* What came from the vendor's library goes into logs and paths: printable text, and ended. */
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

/* Tells all in s->ending. Each may wait again, cancel others or close the sampler meanwhile. */
static void end_waits(struct sampler *s, const struct sample *sample)
{
    while (!list_empty(&s->ending)) {
        struct sample_wait *w = list_entry(s->ending.next, struct sample_wait, link);

        list_remove(&w->link);
        w->done(w, sample);
    }
}

/* Moves the waits that are due by then; true where there are any. */
static bool take_waits(struct sampler *s, uint64_t due_ns)
{
    list_for_each(node, next, &s->waits)
    {
        struct sample_wait *w = list_entry(node, struct sample_wait, link);

        if (w->deadline_ns > due_ns)
            continue;
        list_remove(&w->link);
        list_append(&s->ending, &w->link);
    }
    return !list_empty(&s->ending);
}

static void fail_waits(struct sampler *s, uint64_t due_ns)
{
    const struct sample none = {0};

    if (!take_waits(s, due_ns))
        return;
    s->callbacks.sample(s->callbacks.arg, &none);
    end_waits(s, NULL);
}

static void on_identity(struct sampler *s)
{
    const struct probe_reply *r = &s->in.reply;
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
    if (r->text[0] && strcmp(s->cause, r->text)) /* once, not at each start */
        log_line(LOG_LEVEL_INFO, "event=probe", "%s", r->text);
    snprintf(s->cause, sizeof(s->cause), "%s", r->text);
    s->callbacks.device(s->callbacks.arg, d);
}

static void on_sample(struct sampler *s, uint64_t now_ns)
{
    const struct probe_reply *r = &s->in.reply;
    struct sample sample = {.age_ns = now_ns - s->sent_ns};

    if (r->has_free && r->has_total) {
        sample.free = opt_u64(r->free_bytes);
        sample.total = opt_u64(r->total_bytes);
        sample.source = (enum source)r->source;
        s->newest = sample;
        s->newest_ns = s->sent_ns;
        s->back_off_ns = 0;
        if (s->told_exit != PROBE_EXIT_OK)
            log_line(LOG_LEVEL_INFO, "event=probe", "the probe answers again");
        s->told_exit = PROBE_EXIT_OK;
    }
    s->callbacks.sample(s->callbacks.arg, &sample);
    /* R9: one that took too long on its way decides nothing; turn() asks for another. */
    if (sample.age_ns > s->config->sample_max_age)
        return;
    if (take_waits(s, NEVER))
        end_waits(s, sample.free.has ? &sample : NULL);
}

static void on_reply(struct sampler *s)
{
    const struct probe_reply *r = &s->in.reply;

    s->is_owed = false;
    if (r->status) { /* it exits by itself after this, with the code that says more */
        s->cause_exit = PROBE_EXIT_OK;
        set_cause(s, PROBE_EXIT_FAILED, r->text);
    } else if (s->op == PROBE_IDENTIFY) {
        on_identity(s);
    } else {
        on_sample(s, uv_hrtime());
    }
}
