/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: what the ledger says of it, and plain allocations. */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/simgpu/libcuda/driver.h"

#define SMALL_LIMIT   (DRIVER_GRANULE / 2) /* smaller allocations share granules */
#define SMALL_UNIT    512u                 /* alignment of what cuMemAlloc returns */
#define FIRST_ADDRESS 0x30000000000000ull  /* beyond 2^47: no host memory is ever there */

struct allocation {
    uint64_t address;
    uint64_t bytes;
    uint64_t small_bytes; /* its part of shared granules, or 0 */
    uint64_t whole_bytes; /* granules of its own, or 0 */
    char *backing;
    struct CUctx_st *context;
    struct allocation *next;
};

static struct allocation *allocations;
static uint64_t next_address = FIRST_ADDRESS;

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- the ledger ---- */

unsigned int memory_charge(unsigned int device, uint64_t bytes)
{
    struct ledger_process *process;
    unsigned int result = CUABI_SUCCESS;

    if (bytes == 0)
        return CUABI_SUCCESS;
    ledger_lock(driver.ledger);
    process = ledger_self(driver.ledger);
    if (!process || ledger_charge(driver.ledger, process, device, bytes))
        result = CUABI_ERROR_OUT_OF_MEMORY;
    ledger_unlock(driver.ledger);
    return result;
}

unsigned int memory_charge_trimming(unsigned int device, uint64_t bytes)
{
    unsigned int result = memory_charge(device, bytes);

    if (result != CUABI_ERROR_OUT_OF_MEMORY || !call_switch("SIMGPU_ALLOC_TRIMS", 1))
        return result;
    pool_trim_all(device);
    return memory_charge(device, bytes);
}

void memory_refund(unsigned int device, uint64_t bytes)
{
    struct ledger_process *process;

    if (bytes == 0)
        return;
    ledger_lock(driver.ledger);
    process = ledger_find_self(driver.ledger);
    if (process)
        ledger_refund(driver.ledger, process, device, bytes);
    ledger_unlock(driver.ledger);
}

unsigned int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    unsigned int device;

    if (result != CUABI_SUCCESS)
        return result;
    if (!free_bytes || !total_bytes)
        return CUABI_ERROR_INVALID_VALUE;
    device = context_current()->device;
    ledger_lock(driver.ledger);
    ledger_reap(driver.ledger, LEDGER_REAP_IF_DUE);
    *free_bytes = ledger_free_bytes(driver.ledger, device);
    *total_bytes = driver.ledger->devices[device].total_bytes;
    ledger_unlock(driver.ledger);
    return CUABI_SUCCESS;
}

/* ---- addresses and contents ---- */

uint64_t memory_new_address(uint64_t bytes)
{
    uint64_t address = next_address;

    /* A gap between two of them, so that running over the end hits nothing. */
    next_address += round_up(bytes, DRIVER_GRANULE) + DRIVER_GRANULE;
    return address;
}

char *memory_back(char **backing, uint64_t bytes)
{
    void *memory;

    if (!*backing) {
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            return NULL;
        *backing = memory;
    }
    return *backing;
}

char *memory_contents(uint64_t address, uint64_t bytes)
{
    for (struct allocation *a = allocations; a; a = a->next) {
        char *backing;

        if (address < a->address || address - a->address > a->bytes ||
            bytes > a->bytes - (address - a->address))
            continue;
        backing = memory_back(&a->backing, a->bytes);
        return backing ? backing + (address - a->address) : NULL;
    }
    return pool_contents(address, bytes);
}

/* ---- plain allocations ---- */

/* How far the shared granules of a context grow or shrink with its small allocations. */
static uint64_t granules(uint64_t small_bytes)
{
    return round_up(small_bytes, DRIVER_GRANULE);
}

static unsigned int allocate(struct CUctx_st *context, uint64_t bytes, uint64_t *ret_address)
{
    struct allocation *allocation = calloc(1, sizeof(*allocation));
    unsigned int result;

    if (!allocation)
        return CUABI_ERROR_OPERATING_SYSTEM;
    allocation->context = context;
    allocation->bytes = bytes;
    if (bytes < SMALL_LIMIT) {
        allocation->small_bytes = round_up(bytes, SMALL_UNIT);
        result = memory_charge_trimming(context->device,
                                        granules(context->small_bytes + allocation->small_bytes) -
                                            granules(context->small_bytes));
    } else {
        allocation->whole_bytes = round_up(bytes, DRIVER_GRANULE);
        result = memory_charge_trimming(context->device, allocation->whole_bytes);
    }
    if (result != CUABI_SUCCESS) {
        free(allocation);
        return result;
    }
    context->small_bytes += allocation->small_bytes;
    allocation->address = memory_new_address(bytes);
    allocation->next = allocations;
    allocations = allocation;
    *ret_address = allocation->address;
    return CUABI_SUCCESS;
}

static void release(struct allocation **link)
{
    struct allocation *allocation = *link;
    struct CUctx_st *context = allocation->context;
    uint64_t before = granules(context->small_bytes);

    *link = allocation->next;
    context->small_bytes -= allocation->small_bytes;
    memory_refund(context->device,
                  allocation->whole_bytes + before - granules(context->small_bytes));
    if (allocation->backing)
        munmap(allocation->backing, allocation->bytes);
    free(allocation);
}

void memory_end_context(struct CUctx_st *context)
{
    struct allocation **link = &allocations;

    while (*link) {
        if ((*link)->context == context)
            release(link);
        else
            link = &(*link)->next;
    }
}

unsigned int cuMemAlloc_v2(unsigned long long *ret_address, size_t bytes)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    uint64_t address;

    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_address || bytes == 0)
        return CUABI_ERROR_INVALID_VALUE;
    if (bytes > UINT64_MAX / 2)
        return CUABI_ERROR_OUT_OF_MEMORY;
    driver_lock();
    result = allocate(context_current(), bytes, &address);
    driver_unlock();
    if (result == CUABI_SUCCESS)
        *ret_address = address;
    return result;
}

unsigned int cuMemFree_v2(unsigned long long address)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    struct allocation **link = &allocations;

    if (result != CUABI_SUCCESS || address == 0)
        return result;
    driver_lock();
    stream_drain_device(context_current()->device); /* cuMemFree synchronizes */
    while (*link && (*link)->address != address)
        link = &(*link)->next;
    if (*link)
        release(link);
    else
        result = CUABI_ERROR_INVALID_VALUE;
    driver_unlock();
    return result;
}
