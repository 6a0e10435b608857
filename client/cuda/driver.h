/* SPDX-License-Identifier: Apache-2.0 */
/* The driver, loaded once a process, and the worker's context around each call. Everything of this
 * folder goes to the driver through driver_enter: it refuses children of a fork and dead contexts,
 * pushes the worker's context, and remembers a result after which no call may follow. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <dlo/dlo_cuda.h>

#include "proto/abi/cuda_abi.h"
#include "proto/base/attr.h"

struct dlo_cuda {
    struct cuabi_calls calls;
    struct CUctx_st *context;
    int device;
    uint32_t generation; /* of the process that opened it, see driver_is_inherited */
    bool is_retained;    /* the primary context, to be given back */
    bool is_integrated;  /* the device's memory is the host's */
    dlo_log_fn log;
    void *log_arg;
    atomic_int dead; /* the result that ended the context, 0: none */
};

/* The child of a fork has no CUDA. generation is what driver_generation gave when the object was
 * made; ERR_NO_MEMORY where the process cannot be watched. */
int driver_generation(uint32_t *ret) _must_check_;
bool driver_is_inherited(uint32_t generation);

/* Returns 0 with the worker's context pushed, to be followed by driver_leave; else ERR_FORKED or
 * the result that ended the context, with the sentence set. */
int driver_enter(struct dlo_cuda *cuda) _must_check_;
void driver_leave(struct dlo_cuda *cuda);

/* Calls the driver; its result. A failure sets the sentence of this thread, `while` names the call
 * in it, and after the end of the context no call is made. */
#define DRIVER_CALL(cuda, field, ...)                                                              \
    (atomic_load(&(cuda)->dead) ?: driver_result(cuda, #field, (cuda)->calls.field(__VA_ARGS__)))
int driver_result(struct dlo_cuda *cuda, const char *call, unsigned int result);

/* The same for what is undone after another failure: logged, and the sentence of the failure
 * stays. */
#define DRIVER_UNDO(cuda, field, ...)                                                              \
    do {                                                                                           \
        if (!atomic_load(&(cuda)->dead))                                                           \
            driver_undone(cuda, #field, (cuda)->calls.field(__VA_ARGS__));                         \
    } while (0)
void driver_undone(struct dlo_cuda *cuda, const char *call, unsigned int result);

/* Sets the sentence of this thread; returns r. */
int driver_fail(int r, const char *format, ...) _printf_(2, 3);

/* Copies the caller's part of a struct that starts with its size over its defaults in *io. false
 * where the size cannot be one. */
bool driver_take(void *io, size_t size, const void *given);
/* The reverse: the part of it that the caller knows. */
bool driver_give(void *ret, size_t size, const void *value);
