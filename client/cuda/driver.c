/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cuda/driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/dl.h"
#include "proto/base/error.h"
#include "proto/base/meminfo.h"
#include "proto/base/parse.h"

static const struct dl_symbol symbols[] = {
#define ROW(field, symbol, since, need, args)                                                      \
    {#symbol, offsetof(struct cuabi_calls, field),                                                 \
     CUABI_NEED_##need == CUABI_NEED_PROBE || CUABI_NEED_##need == CUABI_NEED_STAGER},
    CUABI_FUNCS(ROW)
#undef ROW
};

static const struct dl_library library = {
    .soname = "libcuda.so.1",
    .env = "DLO_LIBCUDA",
    .symbols = symbols,
    .symbol_count = ARRAY_SIZE(symbols),
};

/* How often this process is a child of one that had the library, as in client/lib/client.c. */
static atomic_uint generation;
static pthread_once_t fork_guard_once = PTHREAD_ONCE_INIT;
static int fork_guard_error;

static _Thread_local char sentence[DL_ERROR_SIZE + 64];

static void count_fork(void)
{
    atomic_fetch_add(&generation, 1);
}

static void set_fork_guard(void)
{
    fork_guard_error = pthread_atfork(NULL, NULL, count_fork);
}

int driver_generation(uint32_t *ret)
{
    pthread_once(&fork_guard_once, set_fork_guard);
    *ret = atomic_load(&generation);
    return fork_guard_error ? ERR_NO_MEMORY : 0;
}

bool driver_is_inherited(uint32_t of_object)
{
    return of_object != atomic_load_explicit(&generation, memory_order_relaxed);
}

int driver_fail(int r, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    return r;
}

const char *dlo_cuda_last_error(void)
{
    return sentence;
}

/* the public numbers are those of the table */
_Static_assert((int)DLO_CUDA_CLASS_OK == CUABI_CLASS_OK, "class");
_Static_assert((int)DLO_CUDA_CLASS_PRESSURE == CUABI_CLASS_PRESSURE, "class");
_Static_assert((int)DLO_CUDA_CLASS_RETRY == CUABI_CLASS_RETRY, "class");
_Static_assert((int)DLO_CUDA_CLASS_CONTEXT == CUABI_CLASS_CONTEXT, "class");
_Static_assert((int)DLO_CUDA_CLASS_DEAD == CUABI_CLASS_DEAD, "class");
_Static_assert((int)DLO_CUDA_CLASS_NEVER == CUABI_CLASS_NEVER, "class");
_Static_assert((int)DLO_CUDA_CLASS_OTHER == CUABI_CLASS_OTHER, "class");

int32_t dlo_cuda_error_class(int32_t result)
{
    static const struct {
        int32_t result, class;
    } rows[] = {
#define ROW(name, value, class) {value, CUABI_CLASS_##class},
        CUABI_RESULTS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].result == result)
            return rows[i].class;
    }
    return DLO_CUDA_CLASS_OTHER;
}

static const char *name_of(const struct dlo_cuda *cuda, unsigned int result)
{
    const char *name = NULL;

    if (cuda->calls.get_error_name(result, &name) != CUABI_SUCCESS || !name)
        name = "an error without a name";
    return name;
}

/* Nothing may follow a result that ends the context. Of a context that is merely gone the same is
 * true for us: it was the worker's, and only the worker can make another. */
static void note_dead(struct dlo_cuda *cuda, unsigned int result)
{
    const int32_t class = dlo_cuda_error_class((int32_t)result);
    int none = 0;

    if (class == DLO_CUDA_CLASS_DEAD || class == DLO_CUDA_CLASS_CONTEXT)
        atomic_compare_exchange_strong(&cuda->dead, &none, (int)result);
}

int driver_result(struct dlo_cuda *cuda, const char *call, unsigned int result)
{
    if (result == CUABI_SUCCESS)
        return 0;
    note_dead(cuda, result);
    return driver_fail((int)result, "%s: %s (%u)", call, name_of(cuda, result), result);
}

void driver_undone(struct dlo_cuda *cuda, const char *call, unsigned int result)
{
    char text[128];

    if (result == CUABI_SUCCESS)
        return;
    note_dead(cuda, result);
    if (!cuda->log)
        return;
    snprintf(text, sizeof(text), "cleaning up: %s: %s (%u), ignoring", call, name_of(cuda, result),
             result);
    cuda->log(cuda->log_arg, DLO_LOG_DEBUG, text);
}

int driver_enter(struct dlo_cuda *cuda)
{
    int dead;

    if (driver_is_inherited(cuda->generation))
        return driver_fail(ERR_FORKED, "%s", error_text(ERR_FORKED));
    dead = atomic_load(&cuda->dead);
    if (dead)
        return driver_fail(dead, "the context has ended: %s (%d)",
                           name_of(cuda, (unsigned int)dead), dead);
    return DRIVER_CALL(cuda, ctx_push_current, cuda->context);
}

void driver_leave(struct dlo_cuda *cuda)
{
    struct CUctx_st *popped;

    DRIVER_UNDO(cuda, ctx_pop_current, &popped);
}

bool driver_take(void *io, size_t size, const void *given)
{
    size_t theirs;

    if (!given)
        return true;
    memcpy(&theirs, given, sizeof(theirs));
    if (theirs < sizeof(theirs))
        return false;
    memcpy(io, given, theirs < size ? theirs : size);
    return true;
}

bool driver_give(void *ret, size_t size, const void *value)
{
    size_t theirs;

    memcpy(&theirs, ret, sizeof(theirs));
    if (theirs < sizeof(theirs))
        return false;
    memcpy((char *)ret + sizeof(theirs), (const char *)value + sizeof(theirs),
           (theirs < size ? theirs : size) - sizeof(theirs));
    return true;
}

/* ---- opening ---- */

/* The context: the caller's, the thread's, or the primary one where somebody made it already. */
static int take_context(struct dlo_cuda *cuda, const struct dlo_cuda_options *o)
{
    unsigned int flags = 0;
    int device = 0, active = 0, r;

    cuda->context = o->context;
    if (!cuda->context) {
        r = DRIVER_CALL(cuda, ctx_get_current, &cuda->context);
        if (r)
            return r;
    }
    if (cuda->context)
        return 0;
    r = DRIVER_CALL(cuda, device_get, &device, o->device);
    if (r == 0)
        r = DRIVER_CALL(cuda, primary_ctx_get_state, device, &flags, &active);
    if (r)
        return r;
    if (!active)
        return driver_fail(ERR_BAD_STATE,
                           "device %d has no context yet: make one before dlo_cuda_open",
                           o->device);
    r = DRIVER_CALL(cuda, primary_ctx_retain, &cuda->context, device);
    cuda->is_retained = r == 0;
    cuda->device = device;
    return r;
}

static int look_at_device(struct dlo_cuda *cuda)
{
    int integrated = 0;
    int r = driver_enter(cuda);

    if (r)
        return r;
    r = DRIVER_CALL(cuda, ctx_get_device, &cuda->device);
    if (r == 0)
        r = DRIVER_CALL(cuda, device_get_attribute, &integrated, CUABI_DEVICE_ATTRIBUTE_INTEGRATED,
                        cuda->device);
    cuda->is_integrated = integrated == 1;
    driver_leave(cuda);
    return r;
}

int32_t dlo_cuda_open(const struct dlo_cuda_options *options, struct dlo_cuda **ret)
{
    struct dlo_cuda_options o = DLO_CUDA_OPTIONS_INIT;
    struct dlo_cuda *cuda;
    char why[DL_ERROR_SIZE];
    void *handle;
    int r;

    if (!ret || !driver_take(&o, sizeof(o), options))
        return driver_fail(ERR_INVALID, "dlo_cuda_open: %s", error_text(ERR_INVALID));
    cuda = calloc(1, sizeof(*cuda));
    if (!cuda || driver_generation(&cuda->generation) < 0) {
        free(cuda);
        return driver_fail(ERR_NO_MEMORY, "dlo_cuda_open: %s", error_text(ERR_NO_MEMORY));
    }
    cuda->log = o.log;
    cuda->log_arg = o.log_arg;
    r = dl_load(&library, &cuda->calls, &handle, why);
    if (r < 0)
        driver_fail(r, "%s", why);
    if (r == 0)
        r = DRIVER_CALL(cuda, init, 0);
    if (r == 0)
        r = take_context(cuda, &o);
    if (r == 0)
        r = look_at_device(cuda);
    if (r) {
        dlo_cuda_close(cuda);
        return r;
    }
    *ret = cuda;
    return 0;
}

void dlo_cuda_close(struct dlo_cuda *cuda)
{
    if (!cuda)
        return;
    if (cuda->is_retained && !driver_is_inherited(cuda->generation))
        DRIVER_UNDO(cuda, primary_ctx_release, cuda->device);
    free(cuda);
}

/* ---- what a daemon wants to know ---- */

int32_t dlo_cuda_uuid(struct dlo_cuda *cuda, char ret[DLO_CUDA_UUID_SIZE])
{
    struct CUuuid_st uuid = {{0}};
    char name[256] = "";
    int r;

    _Static_assert(DLO_CUDA_UUID_SIZE >= UUID_TEXT_SIZE, "a UUID fits");
    if (!cuda || !ret)
        return driver_fail(ERR_INVALID, "dlo_cuda_uuid: %s", error_text(ERR_INVALID));
    if (!cuda->calls.device_get_uuid)
        return driver_fail(ERR_UNSUPPORTED, "the driver is older than 11.4: it tells no UUID");
    r = driver_enter(cuda);
    if (r)
        return r;
    r = DRIVER_CALL(cuda, device_get_uuid, &uuid, cuda->device);
    if (r == 0)
        r = DRIVER_CALL(cuda, device_get_name, name, sizeof(name), cuda->device);
    driver_leave(cuda);
    if (r == 0) /* an instance is called "NVIDIA H100 80GB HBM3 MIG 1g.10gb" */
        format_uuid(strstr(name, " MIG ") ? "MIG" : "GPU", uuid.bytes, ret);
    return r;
}

int32_t dlo_cuda_read_memory(void *arg, uint64_t *ret_free, uint64_t *ret_total)
{
    struct dlo_cuda *cuda = arg;
    size_t free_bytes = 0, total_bytes = 0;
    uint64_t available;
    const char *why;
    int r;

    if (!cuda || !ret_free || !ret_total)
        return driver_fail(ERR_INVALID, "dlo_cuda_read_memory: %s", error_text(ERR_INVALID));
    r = driver_enter(cuda);
    if (r)
        return r;
    r = DRIVER_CALL(cuda, mem_get_info, &free_bytes, &total_bytes);
    driver_leave(cuda);
    if (r)
        return r;
    *ret_free = free_bytes;
    *ret_total = total_bytes;
    if (cuda->is_integrated && meminfo_read(MEMINFO_PATH, &available, &why) == 0)
        *ret_free = meminfo_correct(free_bytes, available, total_bytes);
    return 0;
}
