/* SPDX-License-Identifier: Apache-2.0 */
/* Page-locked host memory: only that it is page-locked is simulated, not the locking. */
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/simgpu/libcuda/driver.h"

struct host_range {
    char *address;
    size_t bytes;
    int is_registered; /* the caller's memory, not ours */
    struct host_range *next;
};

static struct host_range *ranges;

int host_is_pinned(const void *address, size_t bytes)
{
    const char *first = address;

    for (const struct host_range *r = ranges; r; r = r->next) {
        if (first >= r->address && first + bytes <= r->address + r->bytes)
            return 1;
    }
    return 0;
}

static int overlaps_any(const char *first, size_t bytes)
{
    for (const struct host_range *r = ranges; r; r = r->next) {
        if (first < r->address + r->bytes && first + bytes > r->address)
            return 1;
    }
    return 0;
}

static unsigned int add_range(char *address, size_t bytes, int is_registered)
{
    struct host_range *range = malloc(sizeof(*range));

    if (!range)
        return CUABI_ERROR_OPERATING_SYSTEM;
    *range = (struct host_range){address, bytes, is_registered, ranges};
    ranges = range;
    return CUABI_SUCCESS;
}

/* Copies that are still under way may use the range: wait for all of them. */
static unsigned int remove_range(const char *address, int is_registered, unsigned int missing)
{
    struct host_range **link = &ranges;
    struct host_range *range;

    while (*link && ((*link)->address != address || (*link)->is_registered != is_registered))
        link = &(*link)->next;
    if (!*link)
        return missing;
    stream_drain_all();
    range = *link;
    *link = range->next;
    if (!is_registered)
        munmap(range->address, range->bytes);
    free(range);
    return CUABI_SUCCESS;
}

unsigned int cuMemHostAlloc(void **ret_address, size_t bytes, unsigned int flags)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    void *memory;

    (void)flags;
    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_address || bytes == 0)
        return CUABI_ERROR_INVALID_VALUE;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return CUABI_ERROR_OUT_OF_MEMORY;
    driver_lock();
    result = add_range(memory, bytes, 0);
    driver_unlock();
    if (result == CUABI_SUCCESS)
        *ret_address = memory;
    else
        munmap(memory, bytes);
    return result;
}

unsigned int cuMemFreeHost(void *address)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    result = remove_range(address, 0, CUABI_ERROR_INVALID_VALUE);
    driver_unlock();
    return result;
}

unsigned int cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    (void)flags;
    if (result != CUABI_SUCCESS)
        return result;
    if (!address || bytes == 0)
        return CUABI_ERROR_INVALID_VALUE;
    driver_lock();
    if (overlaps_any(address, bytes))
        result = CUABI_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    else
        result = add_range(address, bytes, 1);
    driver_unlock();
    return result;
}

unsigned int cuMemHostUnregister(void *address)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    result = remove_range(address, 1, CUABI_ERROR_HOST_MEMORY_NOT_REGISTERED);
    driver_unlock();
    return result;
}
