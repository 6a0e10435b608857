/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of the ledger: who is calling, and who is dead. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "tests/simgpu/shared/ledger.h"

#define REAP_INTERVAL_NS 10000000u /* a killed process's memory is back within 10 ms */
#define REAP_COST_FACTOR 10u       /* and looking takes at most a tenth of the time */

/* When the process started, in clock ticks since boot; 0 if it is gone or a zombie, which holds
 * no GPU memory any more. */
static uint64_t start_ticks_of(int32_t pid)
{
    char path[64];
    char text[1024];
    char *field;
    ssize_t length;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';

    /* The program name may hold anything, so count fields from its closing bracket: state is
     * field 3 and the start time is field 22. */
    field = strrchr(text, ')');
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    field += 1;
    for (int number = 3; number < 22; number++) {
        field = strchr(field + 1, ' ');
        if (!field)
            return 0;
    }
    return strtoull(field, NULL, 10);
}

static int is_alive(const struct ledger_process *process)
{
    if (kill(process->pid, 0) && errno == ESRCH)
        return 0;
    return start_ticks_of(process->pid) == process->start_ticks;
}

/* The kernel gives each program that is exec'd 16 random bytes: they tell this program from an
 * earlier one of the same process, whose GPU memory went at the exec. */
static uint64_t image_id(void)
{
    const void *random = (const void *)getauxval(AT_RANDOM);
    uint64_t id = 0;

    if (random)
        memcpy(&id, random, sizeof(id));
    return id;
}

void ledger_drop(struct ledger *ledger, struct ledger_process *process)
{
    for (unsigned int d = 0; d < ledger->device_count; d++)
        ledger_refund(ledger, process, d, process->bytes[d]);
    memset(process, 0, sizeof(*process));
}

struct ledger_process *ledger_find_self(struct ledger *ledger)
{
    static uint32_t last_slot; /* a guess that is checked, so a race does no harm */
    uint32_t guess = __atomic_load_n(&last_slot, __ATOMIC_RELAXED);
    int32_t pid = getpid();

    if (ledger->processes[guess].pid == pid && ledger->processes[guess].image == image_id())
        return &ledger->processes[guess];

    for (uint32_t i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        struct ledger_process *process = &ledger->processes[i];

        if (process->pid != pid)
            continue;
        if (process->image == image_id() && process->start_ticks == start_ticks_of(pid)) {
            __atomic_store_n(&last_slot, i, __ATOMIC_RELAXED);
            return process;
        }
        ledger_drop(ledger, process);
    }
    return NULL;
}

static struct ledger_process *claim_slot(struct ledger *ledger)
{
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        struct ledger_process *process = &ledger->processes[i];

        if (process->pid)
            continue;
        memset(process, 0, sizeof(*process));
        process->image = image_id();
        process->start_ticks = start_ticks_of(getpid());
        process->pid = getpid();
        return process;
    }
    return NULL;
}

struct ledger_process *ledger_self(struct ledger *ledger)
{
    struct ledger_process *process = ledger_find_self(ledger);

    if (!process)
        process = claim_slot(ledger);
    if (!process) {
        ledger_reap(ledger, LEDGER_REAP_NOW);
        process = claim_slot(ledger);
    }
    return process;
}

void ledger_reap(struct ledger *ledger, enum ledger_reap_when when)
{
    uint64_t begin_ns = ledger_now_ns();
    uint64_t pause_ns;

    if (when == LEDGER_REAP_IF_DUE && begin_ns < ledger->reap_due_ns)
        return;
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        struct ledger_process *process = &ledger->processes[i];

        if (process->pid && !is_alive(process))
            ledger_drop(ledger, process);
    }
    pause_ns = (ledger_now_ns() - begin_ns) * REAP_COST_FACTOR;
    if (pause_ns < REAP_INTERVAL_NS)
        pause_ns = REAP_INTERVAL_NS;
    ledger->reap_due_ns = ledger_now_ns() + pause_ns;
}
