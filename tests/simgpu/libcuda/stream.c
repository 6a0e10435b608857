/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams: one thread each, which runs the operations in their order while the caller goes on. A
 * wait that is missing in the code under test therefore shows as wrong bytes, as on hardware.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/simgpu/libcuda/driver.h"

enum operation_kind {
    OPERATION_COPY,
    OPERATION_FREE,
    OPERATION_RECORD,
    OPERATION_WAIT,
    OPERATION_CALL,
};

struct operation {
    enum operation_kind kind;
    uint64_t sequence;
    struct operation *next;
    /* copy */
    char *to;
    const char *from;
    char *staged; /* owned copy of pageable source memory, or NULL */
    size_t bytes;
    /* free */
    struct CUmemPoolHandle_st *pool;
    struct block *block;
    /* record, wait: owns one reference */
    struct CUevent_st *event;
    uint64_t record;
    /* call */
    cuabi_host_fn function;
    void *user_data;
};

/* Operations are numbered from 1 on each stream. */
struct CUstream_st {
    unsigned int device;
    pthread_t thread;
    int is_started;
    int is_stopping;
    uint64_t issued;
    uint64_t done;
    uint64_t observed; /* the host has waited for these */
    struct operation *head;
    struct operation *tail;
    struct CUstream_st *next;
    struct CUstream_st *retired_next;
};

static struct CUstream_st *streams;                         /* those made by the caller */
static struct CUstream_st null_streams[LEDGER_DEVICES_MAX]; /* the one called NULL */

/* Destroyed streams are kept: events, and walks that were waiting, may still point to them. */
static struct CUstream_st *retired;

/* ---- the thread ---- */

static void copy_delay(void)
{
    uint64_t us = call_switch("SIMGPU_COPY_US", 0);
    struct timespec left = {.tv_sec = (time_t)(us / 1000000),
                            .tv_nsec = (long)(us % 1000000) * 1000};

    if (us)
        nanosleep(&left, NULL);
}

/* The part that takes time, without the lock. */
static void run_unlocked(const struct operation *operation)
{
    driver_unlock();
    copy_delay();
    if (operation->kind == OPERATION_COPY)
        memcpy(operation->to, operation->from, operation->bytes);
    else
        operation->function(operation->user_data);
    driver_lock();
}

static void run(struct CUstream_st *stream, const struct operation *operation)
{
    struct CUevent_st *event = operation->event;

    switch (operation->kind) {
    case OPERATION_COPY:
    case OPERATION_CALL:
        run_unlocked(operation);
        break;
    case OPERATION_FREE:
        pool_freed(operation->pool, operation->block, operation->sequence);
        break;
    case OPERATION_RECORD:
        if (event->completed < operation->record)
            event->completed = operation->record;
        break;
    case OPERATION_WAIT:
        while (event->completed < operation->record && !stream->is_stopping)
            driver_wait();
        break;
    }
}

static void *stream_thread(void *argument)
{
    struct CUstream_st *stream = argument;

    driver_lock();
    for (;;) {
        struct operation *operation = stream->head;

        if (!operation && stream->is_stopping)
            break;
        if (!operation) {
            driver_wait();
            continue;
        }
        run(stream, operation);
        stream->head = operation->next;
        stream->done = operation->sequence;
        if (operation->event)
            event_drop(operation->event);
        free(operation->staged);
        free(operation);
        driver_notify();
    }
    driver_unlock();
    return NULL;
}

static int start(struct CUstream_st *stream, unsigned int device)
{
    if (stream->is_started)
        return 0;
    stream->device = device;
    stream->is_started = pthread_create(&stream->thread, NULL, stream_thread, stream) == 0;
    return stream->is_started ? 0 : -1;
}

/* ---- operations ---- */

/* Takes a copy of the operation. Like malloc everywhere in a test, it must not fail. */
static uint64_t push(struct CUstream_st *stream, const struct operation *template)
{
    struct operation *operation = malloc(sizeof(*operation));

    if (!operation)
        abort();
    *operation = *template;
    operation->next = NULL;
    operation->sequence = ++stream->issued;
    if (operation->event)
        operation->event->refs++;
    if (stream->head)
        stream->tail->next = operation;
    else
        stream->head = operation;
    stream->tail = operation;
    driver_notify();
    return operation->sequence;
}

uint64_t stream_push_copy(struct CUstream_st *stream, char *to, const char *from, char *staged,
                          size_t bytes)
{
    struct operation operation = {
        .kind = OPERATION_COPY, .to = to, .from = from, .staged = staged, .bytes = bytes};

    return push(stream, &operation);
}

uint64_t stream_push_free(struct CUstream_st *stream, struct CUmemPoolHandle_st *pool,
                          struct block *block)
{
    struct operation operation = {.kind = OPERATION_FREE, .pool = pool, .block = block};

    return push(stream, &operation);
}

uint64_t stream_push_record(struct CUstream_st *stream, struct CUevent_st *event)
{
    struct operation operation = {
        .kind = OPERATION_RECORD, .event = event, .record = event->recorded};

    return push(stream, &operation);
}

uint64_t stream_push_wait(struct CUstream_st *stream, struct CUevent_st *event)
{
    struct operation operation = {
        .kind = OPERATION_WAIT, .event = event, .record = event->recorded};

    return push(stream, &operation);
}

/* ---- waiting ---- */

int stream_has_run(const struct CUstream_st *stream, uint64_t sequence)
{
    return stream->done >= sequence;
}

int stream_was_observed(const struct CUstream_st *stream, uint64_t sequence)
{
    return stream->observed >= sequence;
}

void stream_observe(struct CUstream_st *stream, uint64_t sequence)
{
    if (stream->observed < sequence)
        stream->observed = sequence;
}

void stream_drain(struct CUstream_st *stream, uint64_t sequence)
{
    while (stream->done < sequence)
        driver_wait();
    stream_observe(stream, sequence);
}

void stream_drain_device(unsigned int device)
{
    for (struct CUstream_st *stream = streams; stream; stream = stream->next) {
        if (stream->device == device)
            stream_drain(stream, stream->issued);
    }
    stream_drain(&null_streams[device], null_streams[device].issued);
}

void stream_drain_all(void)
{
    for (unsigned int i = 0; i < driver.ledger->device_count; i++)
        stream_drain_device(i);
}

unsigned int stream_device(const struct CUstream_st *stream)
{
    return stream->device;
}

struct CUstream_st *stream_resolve(struct CUstream_st *stream)
{
    unsigned int device;

    if (stream)
        return stream;
    device = context_current()->device;
    if (start(&null_streams[device], device))
        abort();
    return &null_streams[device];
}

/* ---- exported calls ---- */

unsigned int cuStreamCreate(struct CUstream_st **ret_stream, unsigned int flags)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    struct CUstream_st *stream;

    (void)flags;
    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_stream)
        return CUABI_ERROR_INVALID_VALUE;
    stream = calloc(1, sizeof(*stream));
    if (!stream || start(stream, context_current()->device)) {
        free(stream);
        return CUABI_ERROR_OPERATING_SYSTEM;
    }
    driver_lock();
    stream->next = streams;
    streams = stream;
    driver_unlock();
    *ret_stream = stream;
    return CUABI_SUCCESS;
}

unsigned int cuStreamDestroy_v2(struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    struct CUstream_st **link = &streams;

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    while (*link && *link != stream)
        link = &(*link)->next;
    if (!*link) {
        driver_unlock();
        return CUABI_ERROR_INVALID_HANDLE;
    }
    stream_drain(stream, stream->issued);
    *link = stream->next;
    pool_forget_stream(stream);
    stream->is_stopping = 1;
    stream->retired_next = retired;
    retired = stream;
    driver_notify();
    driver_unlock();

    pthread_join(stream->thread, NULL);
    return CUABI_SUCCESS;
}

unsigned int cuStreamSynchronize(struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    stream = stream_resolve(stream);
    stream_drain(stream, stream->issued);
    pool_after_sync(stream->device);
    driver_unlock();
    return CUABI_SUCCESS;
}

unsigned int cuStreamQuery(struct CUstream_st *stream)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);

    if (result != CUABI_SUCCESS)
        return result;
    driver_lock();
    stream = stream_resolve(stream);
    if (stream->done < stream->issued)
        result = CUABI_ERROR_NOT_READY;
    else
        stream_observe(stream, stream->done);
    driver_unlock();
    return result;
}

unsigned int cuLaunchHostFunc(struct CUstream_st *stream, cuabi_host_fn function, void *user_data)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_CONTEXT);
    struct operation operation = {
        .kind = OPERATION_CALL, .function = function, .user_data = user_data};

    if (result != CUABI_SUCCESS)
        return result;
    if (!function)
        return CUABI_ERROR_INVALID_VALUE;
    driver_lock();
    push(stream_resolve(stream), &operation);
    driver_unlock();
    return CUABI_SUCCESS;
}
