/* SPDX-License-Identifier: Apache-2.0 */
/* Events: each record has a number, and an event is ready when its newest record has run. */
#include <stdlib.h>

#include "tests/simgpu/libcuda/driver.h"

unsigned int cuEventCreate(struct CUevent_st **ret_event, unsigned int flags)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    struct CUevent_st *event;

    (void)flags;
    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_event)
        return CUABI_ERROR_INVALID_VALUE;
    event = calloc(1, sizeof(*event));
    if (!event)
        return CUABI_ERROR_OPERATING_SYSTEM;
    event->refs = 1;
    driver_lock();
    event->next = driver.events;
    driver.events = event;
    driver_unlock();
    *ret_event = event;
    return CUABI_SUCCESS;
}

void event_drop(struct CUevent_st *event)
{
    struct CUevent_st **link = &driver.events;

    if (--event->refs > 0)
        return;
    while (*link != event)
        link = &(*link)->next;
    *link = event->next;
    free(event);
}

/* The start of every call on an event. */
static unsigned int enter(const char *symbol, const struct CUevent_st *event)
{
    unsigned int result = call_enter(symbol, CALL_NEEDS_CONTEXT);

    if (result == CUABI_SUCCESS && !event)
        result = CUABI_ERROR_INVALID_HANDLE;
    return result;
}

unsigned int cuEventDestroy_v2(struct CUevent_st *event)
{
    unsigned int result = enter(__func__, event);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    event_drop(event);
    driver_unlock();
    return CUABI_SUCCESS;
}

unsigned int cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    unsigned int result = enter(__func__, event);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    event->stream = stream_resolve(stream);
    event->recorded++;
    event->sequence = stream_push_record(event->stream, event);
    driver_unlock();
    return CUABI_SUCCESS;
}

unsigned int cuEventQuery(struct CUevent_st *event)
{
    unsigned int result = enter(__func__, event);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    if (event->completed < event->recorded)
        result = CUABI_ERROR_NOT_READY;
    else if (event->recorded)
        stream_observe(event->stream, event->sequence);
    driver_unlock();
    return result;
}

unsigned int cuEventSynchronize(struct CUevent_st *event)
{
    unsigned int result = enter(__func__, event);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    while (event->completed < event->recorded)
        driver_wait();
    if (event->recorded) {
        stream_observe(event->stream, event->sequence);
        pool_after_sync(stream_device(event->stream));
    }
    driver_unlock();
    return CUABI_SUCCESS;
}

unsigned int cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event,
                               unsigned int flags)
{
    unsigned int result = enter(__func__, event);

    (void)flags;
    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    if (event->completed < event->recorded)
        stream_push_wait(stream_resolve(stream), event);
    driver_unlock();
    return CUABI_SUCCESS;
}
