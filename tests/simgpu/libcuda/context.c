/* SPDX-License-Identifier: Apache-2.0 */
/* Primary contexts and each thread's stack of current ones. */
#include <unistd.h>

#include "tests/simgpu/libcuda/driver.h"

#define STACK_MAX 16 /* deeper than any test pushes */

static _Thread_local struct CUctx_st *stack[STACK_MAX];
static _Thread_local unsigned int depth;

struct CUctx_st *context_current(void)
{
    return depth ? stack[depth - 1] : NULL;
}

/* ---- primary contexts ---- */

/* May this process make a context now? Wants the ledger's lock. */
static unsigned int may_open(const struct ledger_device *device, unsigned int index)
{
    if (device->is_lost)
        return CUABI_ERROR_UNKNOWN;
    if (device->compute_mode == CUABI_COMPUTEMODE_PROHIBITED)
        return CUABI_ERROR_DEVICE_UNAVAILABLE;
    if (device->compute_mode != CUABI_COMPUTEMODE_EXCLUSIVE_PROCESS)
        return CUABI_SUCCESS;
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        const struct ledger_process *process = &driver.ledger->processes[i];

        if (process->pid && process->pid != getpid() && process->has_context[index])
            return CUABI_ERROR_DEVICE_UNAVAILABLE;
    }
    return CUABI_SUCCESS;
}

static unsigned int context_begin(struct CUctx_st *context)
{
    struct ledger *ledger = driver.ledger;
    struct ledger_device *device = &ledger->devices[context->device];
    struct ledger_process *process;
    unsigned int result;

    ledger_lock(ledger);
    if (device->compute_mode == CUABI_COMPUTEMODE_EXCLUSIVE_PROCESS)
        ledger_reap(ledger, LEDGER_REAP_NOW);
    process = ledger_self(ledger);
    result = process ? may_open(device, context->device) : CUABI_ERROR_OPERATING_SYSTEM;
    if (result == CUABI_SUCCESS &&
        ledger_charge(ledger, process, context->device, device->context_bytes))
        result = CUABI_ERROR_OUT_OF_MEMORY;
    if (result == CUABI_SUCCESS) {
        process->has_context[context->device] = 1;
        context->cost_bytes = device->context_bytes;
        context->generation = device->generation;
        context->small_bytes = 0;
        __atomic_store_n(&context->is_alive, 1, __ATOMIC_RELEASE);
    }
    ledger_unlock(ledger);
    return result;
}

/* All that the context owns goes. Its handle may still be current somewhere and answers
 * CONTEXT_IS_DESTROYED from now on. Pools made with cuMemPoolCreate belong to the device. */
static void context_end(struct CUctx_st *context)
{
    struct ledger_process *process;

    stream_drain_device(context->device);
    memory_end_context(context);
    pool_release_all(&driver.default_pools[context->device]);
    driver.default_pools[context->device].threshold_bytes = 0;
    __atomic_store_n(&context->is_alive, 0, __ATOMIC_RELEASE);
    memory_refund(context->device, context->cost_bytes);

    ledger_lock(driver.ledger);
    process = ledger_find_self(driver.ledger);
    if (process)
        process->has_context[context->device] = 0;
    ledger_unlock(driver.ledger);
}

unsigned int cuDevicePrimaryCtxRetain(struct CUctx_st **ret_context, int ordinal)
{
    unsigned int device;
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);
    struct CUctx_st *context;

    if (result == CUABI_SUCCESS)
        result = call_device(ordinal, &device);
    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_context)
        return CUABI_ERROR_INVALID_VALUE;

    context = &driver.contexts[device];
    driver_lock();
    if (context->refs == 0)
        result = context_begin(context);
    if (result == CUABI_SUCCESS) {
        context->refs++;
        *ret_context = context;
    }
    driver_unlock();
    return result;
}

unsigned int cuDevicePrimaryCtxRelease_v2(int ordinal)
{
    unsigned int device;
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);
    struct CUctx_st *context;

    if (result == CUABI_SUCCESS)
        result = call_device(ordinal, &device);
    if (result != CUABI_SUCCESS)
        return result;

    context = &driver.contexts[device];
    driver_lock();
    if (context->refs == 0)
        result = CUABI_ERROR_INVALID_CONTEXT;
    else if (--context->refs == 0)
        context_end(context);
    driver_unlock();
    return result;
}

unsigned int cuDevicePrimaryCtxSetFlags_v2(int ordinal, unsigned int flags)
{
    unsigned int device;
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    (void)flags;
    return result == CUABI_SUCCESS ? call_device(ordinal, &device) : result;
}

unsigned int cuDevicePrimaryCtxGetState(int ordinal, unsigned int *flags, int *is_active)
{
    unsigned int device;
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result == CUABI_SUCCESS)
        result = call_device(ordinal, &device);
    if (result != CUABI_SUCCESS)
        return result;
    if (!flags || !is_active)
        return CUABI_ERROR_INVALID_VALUE;
    *flags = 0;
    *is_active = __atomic_load_n(&driver.contexts[device].is_alive, __ATOMIC_ACQUIRE);
    return CUABI_SUCCESS;
}

/* ---- the stack of this thread ---- */

unsigned int cuCtxSetCurrent(struct CUctx_st *context)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result != CUABI_SUCCESS)
        return result;
    if (!context && depth)
        depth--;
    else if (context && depth)
        stack[depth - 1] = context;
    else if (context)
        stack[depth++] = context;
    return CUABI_SUCCESS;
}

unsigned int cuCtxGetCurrent(struct CUctx_st **ret_context)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_context)
        return CUABI_ERROR_INVALID_VALUE;
    *ret_context = context_current();
    return CUABI_SUCCESS;
}

unsigned int cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result != CUABI_SUCCESS)
        return result;
    if (!context || depth == STACK_MAX)
        return CUABI_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUABI_SUCCESS;
}

unsigned int cuCtxPopCurrent_v2(struct CUctx_st **ret_context)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result != CUABI_SUCCESS)
        return result;
    if (depth == 0)
        return CUABI_ERROR_INVALID_CONTEXT;
    depth--;
    if (ret_context)
        *ret_context = stack[depth];
    return CUABI_SUCCESS;
}

unsigned int cuCtxGetDevice(int *ret_ordinal)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_ordinal)
        return CUABI_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < driver.visible_count; i++) {
        if (driver.visible[i] == context_current()->device)
            *ret_ordinal = (int)i;
    }
    return CUABI_SUCCESS;
}

unsigned int cuCtxSynchronize(void)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    stream_drain_device(context_current()->device);
    pool_after_sync(context_current()->device);
    driver_unlock();
    return CUABI_SUCCESS;
}
