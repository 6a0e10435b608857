/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simgpu/shared/fault.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define HANG_MS  (3600u * 1000u) /* an hour: longer than any test waits */
#define SLICE_MS 20u             /* how soon a hung call notices that its fault was cleared */

static void sleep_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left)) {
        /* A signal whose handler returned: the call stays blocked, as in the real driver. */
    }
}

static void hang(const struct ledger_fault *fault, uint64_t serial)
{
    for (uint32_t slept_ms = 0; slept_ms < HANG_MS; slept_ms += SLICE_MS) {
        if (__atomic_load_n(&fault->serial, __ATOMIC_ACQUIRE) != serial)
            return;
        sleep_ms(SLICE_MS);
    }
}

/* Does the fault hit this call, now that it was counted? */
static int is_hit(struct ledger_fault *fault, const char *call)
{
    if (fault->action == LEDGER_FAULT_NONE || strcmp(fault->call, call) != 0)
        return 0;
    fault->calls++;
    return fault->nth == 0 || fault->nth == fault->calls;
}

struct fault_outcome fault_pass(struct ledger *ledger, const char *call)
{
    struct fault_outcome outcome = {0};
    struct ledger_fault *hung = NULL;
    uint64_t hung_serial = 0;
    uint32_t slow_ms = 0;

    if (__atomic_load_n(&ledger->fault_count, __ATOMIC_ACQUIRE) == 0)
        return outcome;

    ledger_lock(ledger);
    for (unsigned int i = 0; i < LEDGER_FAULTS_MAX; i++) {
        struct ledger_fault *fault = &ledger->faults[i];

        if (!is_hit(fault, call))
            continue;
        if (fault->action == LEDGER_FAULT_SLOW) {
            slow_ms += fault->value;
        } else if (fault->action == LEDGER_FAULT_HANG) {
            hung = fault;
            hung_serial = fault->serial;
        } else {
            outcome.is_error = 1;
            outcome.is_sticky = fault->action == LEDGER_FAULT_STICKY;
            outcome.code = fault->value;
        }
    }
    ledger_unlock(ledger);

    if (slow_ms)
        sleep_ms(slow_ms);
    if (hung)
        hang(hung, hung_serial);
    return outcome;
}

static void count_faults(struct ledger *ledger)
{
    uint32_t count = 0;

    for (unsigned int i = 0; i < LEDGER_FAULTS_MAX; i++) {
        if (ledger->faults[i].action != LEDGER_FAULT_NONE)
            count++;
    }
    __atomic_store_n(&ledger->fault_count, count, __ATOMIC_RELEASE);
}

static struct ledger_fault *find_slot(struct ledger *ledger, const char *call, uint32_t nth)
{
    struct ledger_fault *vacant = NULL;

    for (unsigned int i = 0; i < LEDGER_FAULTS_MAX; i++) {
        struct ledger_fault *fault = &ledger->faults[i];

        if (fault->action == LEDGER_FAULT_NONE)
            vacant = vacant ? vacant : fault;
        else if (fault->nth == nth && strcmp(fault->call, call) == 0)
            return fault;
    }
    return vacant;
}

int fault_set(struct ledger *ledger, const char *call, uint32_t nth,
              enum ledger_fault_action action, uint32_t value)
{
    struct ledger_fault *fault;

    ledger_lock(ledger);
    fault = find_slot(ledger, call, nth);
    if (fault) {
        snprintf(fault->call, sizeof(fault->call), "%s", call);
        fault->action = action;
        fault->value = value;
        fault->nth = nth;
        fault->calls = 0;
        __atomic_store_n(&fault->serial, ++ledger->fault_serial, __ATOMIC_RELEASE);
        count_faults(ledger);
    }
    ledger_unlock(ledger);
    return fault ? 0 : -1;
}

void fault_clear(struct ledger *ledger, const char *call)
{
    ledger_lock(ledger);
    for (unsigned int i = 0; i < LEDGER_FAULTS_MAX; i++) {
        struct ledger_fault *fault = &ledger->faults[i];

        if (call && strcmp(fault->call, call) != 0)
            continue;
        fault->action = LEDGER_FAULT_NONE;
        __atomic_store_n(&fault->serial, ++ledger->fault_serial, __ATOMIC_RELEASE);
    }
    count_faults(ledger);
    ledger_unlock(ledger);
}
