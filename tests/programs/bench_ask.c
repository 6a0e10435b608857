/* SPDX-License-Identifier: Apache-2.0 */
/* What an ask costs: a daemon's answer against the simplest thing that could answer (64 bytes there
 * and back over a SEQPACKET socketpair, blocking reads), and the library's own answer without a
 * daemon. Both partners of a pair are pinned to one CPU and the variants are interleaved in blocks,
 * so that a shared machine slows all of them alike; only the ratios mean something.
 *
 *     bench_ask SOCKET     prints one JSON object */
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dlo/dlo.h>

#define ROUNDS  7
#define BLOCKS  30
#define BLOCK   200
#define WARM_UP 20
#define SAMPLES (BLOCKS * BLOCK)
#define ECHO    64 /* bytes, about an ask and its answer */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pin(pid_t pid)
{
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    if (sched_setaffinity(pid, sizeof(cpus), &cpus) < 0)
        fprintf(stderr, "bench_ask: cannot pin pid %d, figures will be noisy\n", (int)pid);
}

static pid_t start_echo(int *ret_fd)
{
    char bytes[ECHO];
    int pair[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        close(pair[0]);
        while (read(pair[1], bytes, sizeof(bytes)) == sizeof(bytes))
            if (write(pair[1], bytes, sizeof(bytes)) != sizeof(bytes))
                break;
        _exit(0);
    }
    close(pair[1]);
    *ret_fd = pair[0];
    return pid;
}

struct bench {
    int echo_fd;
    struct dlo_client *remote, *local;
};

static int echo(const struct bench *b)
{
    char bytes[ECHO] = {0};

    return write(b->echo_fd, bytes, sizeof(bytes)) == sizeof(bytes) &&
                   read(b->echo_fd, bytes, sizeof(bytes)) == sizeof(bytes)
               ? 0
               : -1;
}

static int ask(struct dlo_client *c, int32_t want_local)
{
    struct dlo_boundary boundary = DLO_BOUNDARY_INIT;
    struct dlo_answer answer = DLO_ANSWER_INIT;

    boundary.reserved = 20000000000u;
    boundary.allocated = 3800000000u;
    boundary.free = 128000000000u;
    boundary.total = 150110000000u;
    if (dlo_ask(c, &boundary, &answer) < 0)
        return -1;
    return (answer.cause != 0) == want_local ? 0 : -1;
}

static int ask_remote(const struct bench *b)
{
    return ask(b->remote, 0);
}

static int ask_local(const struct bench *b)
{
    return ask(b->local, 1);
}

static int (*const variants[])(const struct bench *b) = {echo, ask_remote, ask_local};
static const char *const names[] = {"echo", "daemon", "local"};
#define VARIANTS 3

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int run_block(const struct bench *b, int variant, uint64_t *samples)
{
    for (int i = -WARM_UP; i < BLOCK; i++) {
        uint64_t start = now_ns();

        if (variants[variant](b) < 0) {
            fprintf(stderr, "bench_ask: %s failed or was not answered as expected\n",
                    names[variant]);
            return -1;
        }
        if (i >= 0)
            samples[i] = now_ns() - start;
    }
    return 0;
}

static double p50[VARIANTS][ROUNDS], p99[VARIANTS][ROUNDS];

static int run_round(const struct bench *b, int round)
{
    static uint64_t samples[VARIANTS][SAMPLES];

    for (int block = 0; block < BLOCKS; block++)
        for (int v = 0; v < VARIANTS; v++)
            if (run_block(b, (v + block) % VARIANTS,
                          samples[(v + block) % VARIANTS] + (size_t)block * BLOCK) < 0)
                return -1;
    for (int v = 0; v < VARIANTS; v++) {
        qsort(samples[v], SAMPLES, sizeof(uint64_t), by_value);
        p50[v][round] = (double)samples[v][SAMPLES / 2];
        p99[v][round] = (double)samples[v][SAMPLES * 99 / 100];
    }
    return 0;
}

static int double_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void print_ratio(const char *key, double over[ROUNDS], double under[ROUNDS], const char *end)
{
    double ratio[ROUNDS];

    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = over[i] / under[i];
    qsort(ratio, ROUNDS, sizeof(double), double_by_value);
    printf("  \"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}%s\n", key, ratio[ROUNDS / 2],
           ratio[0], ratio[ROUNDS - 1], end);
}

static void print_results(void)
{
    printf("{\n  \"rounds\": %d, \"asks_per_round\": %d,\n", ROUNDS, SAMPLES);
    print_ratio("daemon_p50_over_echo_p50", p50[1], p50[0], ",");
    print_ratio("daemon_p99_over_echo_p99", p99[1], p99[0], ",");
    print_ratio("local_p50_over_echo_p50", p50[2], p50[0], ",");
    for (int v = 0; v < VARIANTS; v++) {
        qsort(p50[v], ROUNDS, sizeof(double), double_by_value);
        qsort(p99[v], ROUNDS, sizeof(double), double_by_value);
        printf("  \"%s_ns\": {\"p50\": %.0f, \"p99\": %.0f}%s\n", names[v], p50[v][ROUNDS / 2],
               p99[v][ROUNDS / 2], v + 1 < VARIANTS ? "," : "");
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    struct dlo_options options = DLO_OPTIONS_INIT;
    struct bench b = {.echo_fd = -1};
    int r = EXIT_FAILURE;
    pid_t echo_pid;

    if (argc != 2) {
        fprintf(stderr, "usage: bench_ask SOCKET\n");
        return 2;
    }
    pin(0); /* children inherit it; the daemon is pinned by run.sh */
    echo_pid = start_echo(&b.echo_fd);
    options.name = "bench";
    options.socket = argv[1];
    if (echo_pid > 0 && dlo_open(&options, &b.remote) == 0) {
        options.socket = "/nonexistent/dlod.sock";
        if (dlo_open(&options, &b.local) == 0) {
            r = EXIT_SUCCESS;
            for (int round = 0; round < ROUNDS && r == EXIT_SUCCESS; round++)
                if (run_round(&b, round) < 0)
                    r = EXIT_FAILURE;
        }
    }
    if (r == EXIT_SUCCESS)
        print_results();
    dlo_close(b.remote);
    dlo_close(b.local);
    if (echo_pid > 0) {
        kill(echo_pid, SIGKILL);
        waitpid(echo_pid, NULL, 0);
    }
    return r;
}
