/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies between host and device. Page-locked host memory is read and written when the stream
 * gets there; pageable memory is staged: the caller may change it at once.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/simgpu/libcuda/driver.h"

static unsigned int copy_to_device(uint64_t address, const char *host, size_t bytes,
                                   struct CUstream_st *stream)
{
    char *device = memory_contents(address, bytes);
    char *staged = NULL;

    if (!device)
        return CUABI_ERROR_INVALID_VALUE;
    if (!host_is_pinned(host, bytes)) {
        staged = malloc(bytes);
        if (!staged)
            return CUABI_ERROR_OPERATING_SYSTEM;
        memcpy(staged, host, bytes);
        host = staged;
    }
    stream_push_copy(stream_resolve(stream), device, host, staged, bytes);
    return CUABI_SUCCESS;
}

static unsigned int copy_to_host(char *host, uint64_t address, size_t bytes,
                                 struct CUstream_st *stream)
{
    const char *device = memory_contents(address, bytes);
    uint64_t sequence;

    if (!device)
        return CUABI_ERROR_INVALID_VALUE;
    stream = stream_resolve(stream);
    sequence = stream_push_copy(stream, host, device, NULL, bytes);
    if (!host_is_pinned(host, bytes))
        stream_drain(stream, sequence);
    return CUABI_SUCCESS;
}

unsigned int cuMemcpyHtoDAsync_v2(unsigned long long address, const void *host, size_t bytes,
                                  struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS || bytes == 0)
        return result;
    driver_lock();
    result = copy_to_device(address, host, bytes, stream);
    driver_unlock();
    return result;
}

unsigned int cuMemcpyDtoHAsync_v2(void *host, unsigned long long address, size_t bytes,
                                  struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS || bytes == 0)
        return result;
    driver_lock();
    result = copy_to_host(host, address, bytes, stream);
    driver_unlock();
    return result;
}
