/* SPDX-License-Identifier: Apache-2.0 */
/* A worker as an inference server would write it, with the memory of one but without its work: it
 * holds a caching pool on a (simulated or real) GPU, runs the components of a video model one after
 * another, and asks dlod after each of them whether to empty that pool.
 *
 *     h3_worker [--socket PATH] [--name NAME] [--shape h3|small] [--requests N] [--policy P] ...
 *
 * Every allocation is real (the driver is loaded with dlopen, as everywhere in this project); what
 * is not there is the copying of weights and the computing, since only memory matters here.
 *
 * One line a boundary on stdout, key=value as in a trace, then `maximum ask us=N` and `done ...`.
 * Exit status: 0, 1 something failed, 2 bad arguments. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dlo/dlo.h>

#include "tests/programs/gpu_pool.h"

/* ---- what is run ---- */

enum tensor_role {
    ROLE_NONE,
    ROLE_TAKES_INPUT,  /* frees the request's input before its boundary */
    ROLE_MAKES_OUTPUT, /* leaves an output that lives until the request ends */
};

struct component {
    const char *name;
    uint64_t staged_bytes;   /* weights in host memory, on the device only while it runs; 0: none */
    uint64_t working_blocks; /* activations and whatever else it needs while it runs */
    enum tensor_role role;
};

struct shape {
    const char *name;
    uint64_t resident_blocks; /* never leaves the device */
    uint64_t request_blocks;  /* the input of a request, and its output */
    struct component components[4];
};

/* h3: MiniMax-H3 at 1344x768.
 * Published for it: 12.945e9 bytes staged in total, and what the pool holds unused at boundaries:
 * 17.95e9 and a plateau of 17.93e9, with spikes of 19.49e9 inside a request; two releases, both in
 * the warm-up, and none afterwards.
 * Ours: how the staged bytes are split, the first step of 12.9e9, the resident 3.8e9, which tensor
 * lives how long, and so which component shows which figure.
 * What a boundary finds unused in the pool is then, in blocks and in units of 1e9 bytes:
 *     text_encoder 343 weights + 41 working                 384  12.885  (released)
 *     dit          488 working + 47 input                   535  17.952  (released)
 *     video_vae    36 weights + 498 working                 534  17.918
 *     audio_vae    the same pool, less is used              534  17.918
 * and in the next request, with the 47 blocks of the freed output in the pool too:
 *     text_encoder 534, dit 581 (19.495: the input is freed too), video_vae 534, audio_vae 534.
 * small: a second tenant that is wholly ours. */
static const struct shape shapes[] = {
    {"h3",
     113,
     47,
     {{"text_encoder", 11500000000, 41, ROLE_NONE},
      {"dit", 0, 488, ROLE_TAKES_INPUT},
      {"video_vae", 1200000000, 498, ROLE_MAKES_OUTPUT},
      {"audio_vae", 245000000, 4, ROLE_NONE}}},
    {"small",
     12,
     2,
     {{"encoder", 2000000000, 10, ROLE_NONE},
      {"decoder", 1000000000, 60, ROLE_TAKES_INPUT},
      {NULL, 0, 0, ROLE_NONE}}},
};

#define COMPONENTS_MAX (sizeof(shapes[0].components) / sizeof(shapes[0].components[0]))

struct options {
    const char *socket, *name, *policy, *shape_name;
    const struct shape *shape; /* of shape_name */
    unsigned long requests, pause_ms, deadline_ms;
    bool is_stepwise, has_hold, has_no_pair;
};

struct worker {
    struct options options;
    struct dlo_client *dlo;
    struct gpu gpu;
    struct gpu_tensor resident, input, output, weights, working;
    char request[24]; /* "warm-up", "1", "2", ... */
    bool is_serving;  /* the warm-up is over */
    uint64_t reserved_before;
    /* what the last line tells: [0] in the warm-up, [1] while serving */
    uint64_t releases[2], mapped_bytes[2], released_bytes;
    uint64_t ask_us_max;
};

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static int fail(const struct worker *w, const char *what, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", w->options.name, what, why);
    return -1;
}

static int gpu_failed(const struct worker *w, const char *what, unsigned int result)
{
    return result == CUABI_SUCCESS ? 0 : fail(w, what, w->gpu.error);
}

/* The release itself: what torch.cuda.empty_cache is to a torch worker. Then tells what is left and
 * how long it took, which is the proof that memory really came back. */
static int pool_release(struct worker *w)
{
    uint64_t began = now_us(), before, reserved, allocated;

    if (gpu_failed(w, "release", gpu_read(&w->gpu, &before, &allocated)) ||
        gpu_failed(w, "release", gpu_trim(&w->gpu)) ||
        gpu_failed(w, "release", gpu_read(&w->gpu, &reserved, &allocated)))
        return -1;
    w->released_bytes += before - reserved;
    w->reserved_before = reserved;
    if (dlo_released(w->dlo, reserved, allocated, now_us() - began))
        return fail(w, "dlo_released", dlo_last_error(w->dlo));
    return 0;
}

/* ---- one component ---- */

/* All or nothing. */
static unsigned int component_load(struct worker *w, const struct component *c)
{
    uint64_t weight_blocks = (c->staged_bytes + GPU_BLOCK_BYTES - 1) / GPU_BLOCK_BYTES;
    uint64_t output_blocks =
        c->role == ROLE_MAKES_OUTPUT ? w->options.shape->request_blocks : w->output.count;
    unsigned int result = gpu_alloc(&w->gpu, &w->weights, weight_blocks);

    if (result == CUABI_SUCCESS)
        result = gpu_alloc(&w->gpu, &w->working, c->working_blocks);
    if (result == CUABI_SUCCESS)
        result = gpu_alloc(&w->gpu, &w->output, output_blocks);
    if (result != CUABI_SUCCESS) {
        gpu_free(&w->gpu, &w->weights);
        gpu_free(&w->gpu, &w->working);
    }
    return result;
}

/* Runs a component and offloads it: afterwards all that it used is unused in the pool. */
static int component_run(struct worker *w, const struct component *c)
{
    unsigned int result = component_load(w, c);

    /* Out of memory: give back what is unused, tell it, and try once more, never a third time. */
    if (result == CUABI_ERROR_OUT_OF_MEMORY) {
        if (pool_release(w))
            return -1;
        if (dlo_forced(w->dlo, DLO_FORCE_OOM_RETRY, c->name))
            return fail(w, "dlo_forced", dlo_last_error(w->dlo));
        result = component_load(w, c);
    }
    if (gpu_failed(w, c->name, result))
        return -1;
    gpu_free(&w->gpu, &w->weights);
    gpu_free(&w->gpu, &w->working);
    if (c->role == ROLE_TAKES_INPUT)
        gpu_free(&w->gpu, &w->input);
    return 0;
}

/* ---- its boundary ---- */

static void print_number(const char *key, uint64_t value)
{
    if (value == DLO_MISSING)
        printf(" %s=-", key);
    else
        printf(" %s=%" PRIu64, key, value);
}

static void print_boundary(const struct worker *w, const struct dlo_boundary *b,
                           const struct dlo_answer *a, uint64_t us)
{
    printf("boundary name=%s request=%s component=%s", w->options.name, w->request, b->component);
    print_number("reserved", b->reserved);
    print_number("allocated", b->allocated);
    print_number("cached", a->cached);
    print_number("free", a->free);
    print_number("budget", a->budget);
    print_number("peak", a->peak);
    printf(" decision=%s reason=%s by=%s%s us=%" PRIu64 "\n", dlo_decision_name(a->decision),
           dlo_reason_name(a->reason), a->cause ? "library:" : "daemon",
           a->cause ? dlo_cause_name(a->cause) : "", us);
}

/* Waits for a line on stdin, for tests that steer. Its end lets go as well. */
static void wait_for_line(void)
{
    char line[64];

    while (fgets(line, sizeof(line), stdin) && !strchr(line, '\n'))
        ;
}

/* The one moment at which a worker asks: after a component was offloaded, on its own thread, after
 * its own synchronize. */
static int boundary(struct worker *w, const char *component)
{
    struct dlo_boundary b = DLO_BOUNDARY_INIT;
    struct dlo_answer a = DLO_ANSWER_INIT;
    size_t free_bytes, total_bytes;
    uint64_t began;

    if (gpu_failed(w, component, GPU_CALL(&w->gpu, ctx_synchronize)) ||
        gpu_failed(w, component, gpu_read(&w->gpu, &b.reserved, &b.allocated)) ||
        gpu_failed(w, component, GPU_CALL(&w->gpu, mem_get_info, &free_bytes, &total_bytes)))
        return -1;
    b.component = component;
    if (!w->options.has_no_pair) { /* else the daemon's own sample decides */
        b.free = free_bytes;
        b.total = total_bytes;
    }
    /* a pool grows only between two releases, so this is what the driver has mapped since then */
    w->mapped_bytes[w->is_serving] += b.reserved - w->reserved_before;
    w->reserved_before = b.reserved;

    began = now_us();
    if (dlo_ask(w->dlo, &b, &a))
        return fail(w, "dlo_ask", dlo_last_error(w->dlo));
    began = now_us() - began;
    if (began > w->ask_us_max)
        w->ask_us_max = began;
    print_boundary(w, &b, &a, began);

    /* KEEP (modes shadow and off) means: as without dlod. This worker would retain then. */
    if (a.decision != DLO_DECISION_RELEASE)
        return 0;
    w->releases[w->is_serving]++;
    return pool_release(w);
}

/* ---- one request ---- */

static void pause_or_wait(const struct worker *w, const char *component)
{
    const struct timespec pause = {.tv_sec = (time_t)(w->options.pause_ms / 1000),
                                   .tv_nsec = (long)(w->options.pause_ms % 1000) * 1000000};

    if (w->options.is_stepwise) {
        printf("waiting name=%s request=%s component=%s\n", w->options.name, w->request, component);
        wait_for_line();
    } else if (w->options.pause_ms > 0) {
        nanosleep(&pause, NULL);
    }
}

static int request_run(struct worker *w)
{
    const struct shape *shape = w->options.shape;

    if (gpu_failed(w, "input", gpu_alloc(&w->gpu, &w->input, shape->request_blocks)))
        return -1;
    for (size_t i = 0; i < COMPONENTS_MAX && shape->components[i].name; i++) {
        const struct component *c = &shape->components[i];

        pause_or_wait(w, c->name);
        if (component_run(w, c) || boundary(w, c->name))
            return -1;
    }
    gpu_free(&w->gpu, &w->output);
    return 0;
}

static int warm_up(struct worker *w)
{
    int r;

    strcpy(w->request, "warm-up");
    if (dlo_warmup_begin(w->dlo))
        return fail(w, "dlo_warmup_begin", dlo_last_error(w->dlo));
    r = request_run(w);
    if (dlo_warmup_end(w->dlo) && r == 0)
        r = fail(w, "dlo_warmup_end", dlo_last_error(w->dlo));
    w->is_serving = true;
    return r;
}

/* ---- all of it ---- */

static int32_t policy_number(const char *word)
{
    for (int32_t policy = DLO_POLICY_LEARNED; policy <= DLO_POLICY_NEVER; policy++) {
        static const char *const words[] = {"", "learned", "fixed", "always", "never"};

        if (word && strcmp(words[policy], word) == 0)
            return policy;
    }
    return 0;
}

static int session_open(struct worker *w)
{
    const struct options *o = &w->options;
    struct dlo_options options = DLO_OPTIONS_INIT;

    options.name = o->name;
    options.socket = o->socket;
    options.policy = policy_number(o->policy);
    options.deadline_ms = (uint32_t)o->deadline_ms;
    if (dlo_open(&options, &w->dlo))
        return fail(w, "dlo_open", dlo_last_error(NULL));
    for (size_t i = 0; i < COMPONENTS_MAX && o->shape->components[i].name; i++) {
        const struct component *c = &o->shape->components[i];

        if (c->staged_bytes > 0 && dlo_attach(w->dlo, c->name, c->staged_bytes))
            return fail(w, "dlo_attach", dlo_last_error(w->dlo));
    }
    return 0;
}

static int print_end(const struct worker *w)
{
    struct dlo_info info = DLO_INFO_INIT;
    uint64_t local = 0;

    if (dlo_get_info(w->dlo, &info))
        return fail(w, "dlo_get_info", dlo_last_error(w->dlo));
    for (size_t i = 0; i < DLO_INFO_COUNTS; i++)
        local += info.local[i];
    printf("maximum ask us=%" PRIu64 "\n", w->ask_us_max);
    printf("done name=%s releases_warmup=%" PRIu64 " releases_serving=%" PRIu64
           " released_bytes=%" PRIu64 " mapped_warmup_bytes=%" PRIu64
           " mapped_serving_bytes=%" PRIu64 " local=%" PRIu64 " reconnects=%" PRIu64 "\n",
           w->options.name, w->releases[0], w->releases[1], w->released_bytes, w->mapped_bytes[0],
           w->mapped_bytes[1], local, info.reconnects);
    return 0;
}

static int run(struct worker *w)
{
    if (gpu_failed(w, "gpu", gpu_open(&w->gpu)) || session_open(w) ||
        gpu_failed(w, "resident",
                   gpu_alloc(&w->gpu, &w->resident, w->options.shape->resident_blocks)) ||
        warm_up(w))
        return -1;
    for (unsigned long i = 1; i <= w->options.requests; i++) {
        snprintf(w->request, sizeof(w->request), "%lu", i);
        if (request_run(w))
            return -1;
    }
    if (print_end(w))
        return -1;
    if (w->options.has_hold)
        wait_for_line(); /* still registered, so that somebody can look */
    return 0;
}

/* ---- arguments ---- */

enum argument_kind { ARGUMENT_TEXT, ARGUMENT_NUMBER, ARGUMENT_FLAG };

#define OPTION(member) offsetof(struct options, member)
static const struct argument {
    const char *name;
    enum argument_kind kind;
    size_t offset;
    const char *help;
} arguments[] = {
    {"--socket", ARGUMENT_TEXT, OPTION(socket), "of dlod; else looked for as by every worker"},
    {"--name", ARGUMENT_TEXT, OPTION(name), "of this worker; else that of the shape"},
    {"--shape", ARGUMENT_TEXT, OPTION(shape_name), "h3 or small: what is run"},
    {"--policy", ARGUMENT_TEXT, OPTION(policy), "learned, fixed, always, never; else dlod's"},
    {"--requests", ARGUMENT_NUMBER, OPTION(requests), "served after one warm-up request (3)"},
    {"--deadline-ms", ARGUMENT_NUMBER, OPTION(deadline_ms), "of each call to dlod"},
    {"--step-pause-ms", ARGUMENT_NUMBER, OPTION(pause_ms), "before each component (0)"},
    {"--stepwise", ARGUMENT_FLAG, OPTION(is_stepwise),
     "print `waiting ...` and read a line before each component"},
    {"--hold", ARGUMENT_FLAG, OPTION(has_hold),
     "after `done` stay registered until a line or the end of stdin"},
    {"--no-pair", ARGUMENT_FLAG, OPTION(has_no_pair),
     "do not report device memory: the daemon's sample decides"},
};
#define ARGUMENT_COUNT (sizeof(arguments) / sizeof(arguments[0]))

static int usage(FILE *out)
{
    fputs("usage: h3_worker [OPTION [VALUE]]...\n", out);
    for (size_t i = 0; i < ARGUMENT_COUNT; i++)
        fprintf(out, "  %-16s %s\n", arguments[i].name, arguments[i].help);
    return out == stdout ? 0 : 2;
}

/* Takes one option; returns how many words it was, 0: none of ours, or a bad value. */
static int take_argument(struct options *o, char **words)
{
    for (size_t i = 0; i < ARGUMENT_COUNT; i++) {
        char *field = (char *)o + arguments[i].offset, *end;

        if (strcmp(arguments[i].name, words[0]) != 0)
            continue;
        if (arguments[i].kind == ARGUMENT_FLAG) {
            *(bool *)(void *)field = true;
            return 1;
        }
        if (!words[1])
            return 0;
        if (arguments[i].kind == ARGUMENT_TEXT) {
            *(const char **)(void *)field = words[1];
            return 2;
        }
        *(unsigned long *)(void *)field = strtoul(words[1], &end, 10);
        return words[1][0] >= '0' && words[1][0] <= '9' && !*end ? 2 : 0;
    }
    return 0;
}

static bool options_complete(struct options *o)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        if (strcmp(shapes[i].name, o->shape_name) == 0)
            o->shape = &shapes[i];
    if (!o->name)
        o->name = o->shape_name;
    return o->shape && (!o->policy || policy_number(o->policy) > 0) && o->deadline_ms <= UINT32_MAX;
}

int main(int argc, char **argv)
{
    struct worker w = {.options = {.shape_name = "h3", .requests = 3}};
    int taken, r;

    (void)argc; /* argv ends with NULL */
    for (char **words = argv + 1; *words; words += taken) {
        if (strcmp(*words, "--help") == 0)
            return usage(stdout);
        taken = take_argument(&w.options, words);
        if (taken == 0)
            return usage(stderr);
    }
    if (!options_complete(&w.options))
        return usage(stderr);
    setvbuf(stdout, NULL, _IOLBF, 0); /* whole lines, also into a pipe that several share */
    r = run(&w);
    dlo_close(w.dlo);
    return r == 0 ? 0 : 1;
}
