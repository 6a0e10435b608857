/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb hold: another user of the GPU, with a context and some memory. It works on the ledger
 * directly, so no planted fault hits it, but is a process of its own like any other.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/simgpu/ctl/ctl.h"
#include "tests/simgpu/shared/size.h"

static int take(struct ledger *ledger, unsigned int device, uint64_t bytes)
{
    struct ledger_process *process;
    int result = -1;

    ledger_lock(ledger);
    process = ledger_self(ledger);
    if (process) {
        process->cuda_opens = 1;
        result =
            ledger_charge(ledger, process, device, ledger->devices[device].context_bytes + bytes);
        if (result)
            ledger_drop(ledger, process);
        else
            process->has_context[device] = 1;
    }
    ledger_unlock(ledger);
    return result;
}

static void give_back(struct ledger *ledger)
{
    struct ledger_process *process;

    ledger_lock(ledger);
    process = ledger_find_self(ledger);
    if (process)
        ledger_drop(ledger, process);
    ledger_unlock(ledger);
}

/* SIGTERM and SIGINT, as a file to poll. */
static int open_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

/* Does the end of stdin mean anything? Not if it is /dev/null or a file, as in a background job. */
static int stdin_can_end(void)
{
    struct stat status;

    if (fstat(STDIN_FILENO, &status))
        return 0;
    return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(STDIN_FILENO);
}

static void wait_for_end(int signals)
{
    struct pollfd files[] = {
        {.fd = signals, .events = POLLIN},
        {.fd = stdin_can_end() ? STDIN_FILENO : -1, .events = POLLIN},
    };
    char ignored[256];

    for (;;) {
        if (poll(files, 2, -1) < 0 && errno != EINTR)
            return;
        if (files[0].revents)
            return;
        if (files[1].revents && read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0)
            return;
    }
}

int verb_hold(int argc, char **argv)
{
    struct ledger *ledger = ctl_open_ledger();
    unsigned int device;
    uint64_t bytes;
    int signals;
    int status;

    if (!ledger)
        return CTL_EXIT_FAILED;
    status = ctl_take_device(ledger, &argc, &argv, &device);
    if (status)
        return status;
    if (argc != 1 || size_parse(argv[0], &bytes))
        return ctl_usage_error("hold: wants a size such as 2Gi");
    signals = open_signals();
    if (signals < 0)
        return ctl_failure("hold: %s", strerror(errno));
    if (bytes > UINT64_MAX / 2 || take(ledger, device, bytes))
        return ctl_failure("hold: out of memory: a context and %" PRIu64 " bytes", bytes);

    printf("holding %" PRIu64 "\n", bytes);
    fflush(stdout);
    wait_for_end(signals);
    give_back(ledger);
    close(signals);
    return 0;
}
