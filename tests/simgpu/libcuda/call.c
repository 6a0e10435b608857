/* SPDX-License-Identifier: Apache-2.0 */
/* The way into each call: planted faults, then the state that the call needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simgpu/libcuda/driver.h"
#include "tests/simgpu/shared/fault.h"
#include "tests/simgpu/shared/size.h"

struct driver driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static pthread_once_t ledger_once = PTHREAD_ONCE_INIT;

void driver_lock(void)
{
    pthread_mutex_lock(&lock);
}

void driver_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void driver_wait(void)
{
    pthread_cond_wait(&progress, &lock);
}

void driver_notify(void)
{
    pthread_cond_broadcast(&progress);
}

static void open_ledger(void)
{
    const char *why = NULL;

    driver.ledger = ledger_open(NULL, &why);
    if (!driver.ledger && getenv("SIMGPU_VERBOSE"))
        fprintf(stderr, "simulated libcuda: no device: %s\n", why);
}

struct ledger *call_ledger(void)
{
    pthread_once(&ledger_once, open_ledger);
    return driver.ledger;
}

uint64_t call_switch(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t value;

    if (!text || !*text)
        return fallback;
    if (size_parse(text, &value)) {
        fprintf(stderr, "simulated libcuda: %s=%s is not a size, ignoring\n", name, text);
        return fallback;
    }
    return value;
}

static unsigned int check_context(void)
{
    const struct CUctx_st *context = context_current();
    const struct ledger_device *device;

    if (!context)
        return CUABI_ERROR_INVALID_CONTEXT;
    if (!__atomic_load_n(&context->is_alive, __ATOMIC_ACQUIRE))
        return CUABI_ERROR_CONTEXT_IS_DESTROYED;
    device = &driver.ledger->devices[context->device];
    if (__atomic_load_n(&device->is_lost, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&device->generation, __ATOMIC_ACQUIRE) != context->generation)
        return CUABI_ERROR_UNKNOWN;
    return CUABI_SUCCESS;
}

unsigned int call_enter(const char *symbol, enum call_needs needs)
{
    struct ledger *ledger = call_ledger();
    struct fault_outcome fault = {0};
    unsigned int sticky;

    if (ledger)
        fault = fault_pass(ledger, symbol);
    if (fault.is_error && fault.is_sticky)
        __atomic_store_n(&driver.sticky_result, fault.code, __ATOMIC_RELAXED);
    if (fault.is_error)
        return fault.code;
    if (needs == CALL_NEEDS_NOTHING)
        return CUABI_SUCCESS;

    if (__atomic_load_n(&driver.is_exiting, __ATOMIC_ACQUIRE))
        return CUABI_ERROR_DEINITIALIZED;
    /* The pid differs in a forked child, where no driver works. */
    if (__atomic_load_n(&driver.init_pid, __ATOMIC_ACQUIRE) != getpid())
        return CUABI_ERROR_NOT_INITIALIZED;
    sticky = __atomic_load_n(&driver.sticky_result, __ATOMIC_RELAXED);
    if (sticky)
        return sticky;
    return needs == CALL_NEEDS_CONTEXT ? check_context() : CUABI_SUCCESS;
}

unsigned int call_device(int ordinal, unsigned int *ret_device)
{
    if (ordinal < 0 || (unsigned int)ordinal >= driver.visible_count)
        return CUABI_ERROR_INVALID_DEVICE;
    *ret_device = driver.visible[ordinal];
    return CUABI_SUCCESS;
}

/* The kernel driver gives a process's memory back when its device files close. A killed process
 * does not come by here: others find it dead. */
static void __attribute__((destructor)) leave_ledger(void)
{
    struct ledger_process *process;

    if (!driver.ledger || driver.init_pid != getpid())
        return;
    __atomic_store_n(&driver.is_exiting, 1, __ATOMIC_RELEASE);
    ledger_lock(driver.ledger);
    process = ledger_find_self(driver.ledger);
    if (process)
        ledger_drop(driver.ledger, process);
    ledger_unlock(driver.ledger);
}
