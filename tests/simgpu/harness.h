/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the test programs of the simulated driver share: the tool, the two libraries through the
 * real dlopen path (LD_LIBRARY_PATH has build/simgpu first), peers, which are other processes of
 * the same program that obey one command a line, and a suite whose every case has a process and a
 * ledger of its own. For one .c file a program, so everything is static.
 */
#ifndef TESTS_SIMGPU_HARNESS_H
#define TESTS_SIMGPU_HARNESS_H

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proto/abi/cuda_abi.h"
#include "proto/abi/nvml_abi.h"

#define MIB         ((uint64_t)1 << 20)
#define TOTAL       (1024 * MIB)
#define CONTEXT     (300 * MIB)
#define DEADLINE_MS 10000 /* for what takes milliseconds, on a machine that is very busy */

static struct cuabi_calls cu;
static struct nvabi_calls nv;
static struct CUctx_st *context;
static char folder[256];

/* Between two looks at a condition, never instead of one. */
static inline void sleep_ms(int ms)
{
    poll(NULL, 0, ms);
}

static inline int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits for a condition, and fails if it does not come true. */
#define WAIT_FOR(condition)                                                                        \
    do {                                                                                           \
        int64_t give_up_ms = now_ms() + DEADLINE_MS;                                               \
        int came_true = 0;                                                                         \
                                                                                                   \
        while (!came_true && now_ms() < give_up_ms) {                                              \
            came_true = (condition);                                                               \
            if (!came_true)                                                                        \
                sleep_ms(1);                                                                       \
        }                                                                                          \
        ck_assert_msg(came_true, "still not so: %s", #condition);                                  \
    } while (0)

/* ---- the tool and the libraries ---- */

/* Runs the simgpu tool; its exit status. */
__attribute__((format(printf, 1, 2))) static inline int simgpu(const char *format, ...)
{
    const char *build = getenv("DLO_BUILD");
    char words[256];
    char command[512];
    va_list arguments;
    int status;

    va_start(arguments, format);
    vsnprintf(words, sizeof(words), format, arguments);
    va_end(arguments);
    snprintf(command, sizeof(command), "%s/simgpu/simgpu %s 2>&1", build ? build : "build", words);
    status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What `simgpu show` says, searched for a text. */
static inline int shows(const char *text)
{
    const char *build = getenv("DLO_BUILD");
    char command[512];
    char output[8192];
    size_t length;
    FILE *pipe;

    snprintf(command, sizeof(command), "%s/simgpu/simgpu show", build ? build : "build");
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    length = fread(output, 1, sizeof(output) - 1, pipe);
    output[length] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
    return strstr(output, text) != NULL;
}

static inline void *bind_symbol(void *library, const char *symbol)
{
    void *address = dlsym(library, symbol);

    if (!address) {
        fprintf(stderr, "%s is not exported\n", symbol);
        abort();
    }
    return address;
}

static inline void *load(const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        fprintf(stderr, "%s (is LD_LIBRARY_PATH set?)\n", dlerror());
        abort();
    }
    return library;
}

static inline void load_cuda(void)
{
    void *library = load("libcuda.so.1");

#define BIND_CUDA(field, symbol, since, need, args)                                                \
    *(void **)&cu.field = bind_symbol(library, #symbol);
    CUABI_FUNCS(BIND_CUDA)
}

static inline void load_nvml(void)
{
    void *library = load("libnvidia-ml.so.1");

#define BIND_NVML(field, symbol, need, result, args)                                               \
    *(void **)&nv.field = bind_symbol(library, #symbol);
    NVABI_FUNCS(BIND_NVML)
}

/* Loads CUDA and makes the primary context of device 0 current. The first result that is not
 * SUCCESS. Asserts nothing, for peers do not run inside a test. */
static inline unsigned int start_cuda(void)
{
    char name[64] = "";
    unsigned int result;

    load_cuda();
    result = cu.init(0);
    if (result == CUABI_SUCCESS)
        result = cu.device_get_name(name, sizeof(name), 0);
    if (result == CUABI_SUCCESS && strncmp(name, "Simulated", 9) != 0) {
        fprintf(stderr, "this is a real driver: %s\n", name);
        abort();
    }
    if (result == CUABI_SUCCESS)
        result = cu.primary_ctx_retain(&context, 0);
    if (result == CUABI_SUCCESS)
        result = cu.ctx_set_current(context);
    return result;
}

static inline struct nvmlDevice_st *start_nvml(void)
{
    struct nvmlDevice_st *device;

    load_nvml();
    ck_assert_uint_eq(nv.init(), NVABI_SUCCESS);
    ck_assert_uint_eq(nv.device_get_handle_by_index(0, &device), NVABI_SUCCESS);
    return device;
}

static inline uint64_t free_bytes(void)
{
    size_t free_now = 0;
    size_t total = 0;

    ck_assert_uint_eq(cu.mem_get_info(&free_now, &total), CUABI_SUCCESS);
    return free_now;
}

static inline uint64_t pool_value(struct CUmemPoolHandle_st *pool, unsigned int attribute)
{
    uint64_t value = 0;

    ck_assert_uint_eq(cu.mem_pool_get_attribute(pool, attribute, &value), CUABI_SUCCESS);
    return value;
}

static inline uint64_t reserved(struct CUmemPoolHandle_st *pool)
{
    return pool_value(pool, CUABI_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static inline uint64_t used(struct CUmemPoolHandle_st *pool)
{
    return pool_value(pool, CUABI_MEMPOOL_ATTR_USED_MEM_CURRENT);
}

/* ---- peers: this program again, as another process of the same ledger ---- */

struct peer {
    pid_t pid;
    FILE *commands;
    FILE *answers;
};

/* The other side: "alloc MIB", "cache MIB" (allocate from the default pool and free again), "trim",
 * "churn" (allocate and free until killed). Answers with the result. */
static inline int obey(const char *command, unsigned long mib)
{
    uint64_t keep_all = UINT64_MAX;
    struct CUmemPoolHandle_st *pool;
    unsigned long long address;
    unsigned int result;

    cu.device_get_default_mem_pool(&pool, 0);
    if (strcmp(command, "alloc") == 0)
        return (int)cu.mem_alloc(&address, mib * MIB);
    if (strcmp(command, "trim") == 0)
        return (int)cu.mem_pool_trim_to(pool, 0);
    if (strcmp(command, "churn") == 0) {
        for (;;) {
            if (cu.mem_alloc(&address, 2 * MIB) == CUABI_SUCCESS)
                cu.mem_free(address);
        }
    }
    cu.mem_pool_set_attribute(pool, CUABI_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all);
    result = cu.mem_alloc_async(&address, mib * MIB, NULL);
    if (result == CUABI_SUCCESS)
        result = cu.mem_free_async(address, NULL);
    return (int)(result == CUABI_SUCCESS ? cu.ctx_synchronize() : result);
}

static inline int peer_main(void)
{
    unsigned int result = start_cuda();
    char command[16];
    unsigned long mib;

    printf("%u\n", result);
    fflush(stdout);
    while (scanf("%15s %lu", command, &mib) == 2) {
        printf("%d\n", obey(command, mib));
        fflush(stdout);
    }
    return 0;
}

static inline int answer_of(struct peer *peer)
{
    int result = -1;

    ck_assert_int_eq(fscanf(peer->answers, "%d", &result), 1);
    return result;
}

static inline void tell(struct peer *peer, const char *command, unsigned int mib)
{
    fprintf(peer->commands, "%s %u\n", command, mib);
    fflush(peer->commands);
}

static inline int ask(struct peer *peer, const char *command, unsigned int mib)
{
    tell(peer, command, mib);
    return answer_of(peer);
}

/* The result of its making a context is the first answer. */
static inline struct peer peer_start(void)
{
    struct peer peer;
    int down[2];
    int up[2];

    ck_assert_int_eq(pipe2(down, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(up, O_CLOEXEC), 0);
    peer.pid = fork();
    if (peer.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
        dup2(down[0], STDIN_FILENO);
        dup2(up[1], STDOUT_FILENO);
        execl(program_invocation_name, "peer", "peer", (char *)NULL); /* not /proc/self/exe: under
                                                               valgrind that is valgrind */
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    peer.commands = fdopen(down[1], "w");
    peer.answers = fdopen(up[0], "r");
    return peer;
}

/* Leaves a zombie. */
static inline void peer_kill(struct peer *peer)
{
    siginfo_t info;

    kill(peer->pid, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)peer->pid, &info, WEXITED | WNOWAIT), 0);
    fclose(peer->commands);
    fclose(peer->answers);
}

/* ---- the ledger and the suite ---- */

static inline void make_ledger(void)
{
    const char *parent = getenv("TMPDIR");
    char path[300];

    snprintf(folder, sizeof(folder), "%s/test_simgpu.XXXXXX", parent ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/ledger", folder);
    setenv("SIMGPU", path, 1);
    ck_assert_int_eq(simgpu("create --total 1Gi --context 300Mi"), 0);
}

static inline void remove_ledger(void)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/ledger", folder);
    unlink(path);
    rmdir(folder);
}

/* To be called by main(): obeys as a peer, or runs the cases that add_cases adds. */
static inline int harness_main(int argc, char **argv, const char *name,
                               void (*add_cases)(TCase *tcase))
{
    const char *slow = getenv("DLO_SLOW");
    Suite *suite;
    TCase *tcase;
    SRunner *runner;
    int failed;

    if (argc > 1 && strcmp(argv[1], "peer") == 0)
        return peer_main();
    suite = suite_create(name);
    tcase = tcase_create(name);
    tcase_set_timeout(tcase, 60 * (slow ? atof(slow) : 1.0)); /* sanitizers, valgrind */
    tcase_add_checked_fixture(tcase, make_ledger, remove_ledger);
    add_cases(tcase);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    /* Whatever CK_FORK says: each case wants a process whose driver is fresh. */
    srunner_set_fork_status(runner, CK_FORK);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}

#endif
