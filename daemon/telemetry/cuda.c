/* SPDX-License-Identifier: Apache-2.0 */
/* The Driver API: who the device is, without a context; what is free on it, with one. libcuda
 * keeps the device's files open to the end of the process, so nothing is unloaded here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/telemetry/backend.h"
#include "proto/abi/cuda_abi.h"
#include "proto/base/dl.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

struct cuda {
    const struct telemetry_target *target;
    struct cuabi_calls calls;
    int device;
    bool has_context;
};

static const struct dl_symbol symbols[] = {
#define ROW(field, symbol, since, need, args)                                                      \
    {#symbol, offsetof(struct cuabi_calls, field), CUABI_NEED_##need == CUABI_NEED_PROBE},
    CUABI_FUNCS(ROW)
#undef ROW
};

static const struct dl_library library = {
    .soname = "libcuda.so.1",
    .env = "DLO_LIBCUDA",
    .symbols = symbols,
    .symbol_count = ARRAY_SIZE(symbols),
};

static enum cuabi_class class_of(unsigned int result)
{
    static const struct {
        unsigned int result;
        enum cuabi_class class;
    } rows[] = {
#define ROW(name, value, class) {value, CUABI_CLASS_##class},
        CUABI_RESULTS(ROW)
#undef ROW
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].result == result)
            return rows[i].class;
    }
    return CUABI_CLASS_OTHER;
}

int telemetry_cuda_exit(unsigned int result)
{
    switch (result) { /* where a class has several exits */
    case CUABI_SUCCESS:
        return PROBE_EXIT_OK;
    case CUABI_ERROR_STUB_LIBRARY:
        return PROBE_EXIT_NO_DRIVER;
    case CUABI_ERROR_NO_DEVICE:
    case CUABI_ERROR_INVALID_DEVICE:
        return PROBE_EXIT_NO_DEVICE;
    case CUABI_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUABI_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
        return PROBE_EXIT_MISMATCH;
    default:
        break;
    }
    switch (class_of(result)) {
    case CUABI_CLASS_PRESSURE: /* for the context */
    case CUABI_CLASS_RETRY:
        return PROBE_EXIT_UNAVAILABLE;
    case CUABI_CLASS_CONTEXT:
    case CUABI_CLASS_DEAD:
        return PROBE_EXIT_DEAD;
    default:
        return PROBE_EXIT_FAILED;
    }
}

static int fail(const struct cuda *c, struct telemetry_error *error, const char *call,
                unsigned int result)
{
    const char *name = NULL;

    if (c->calls.get_error_name(result, &name) != CUABI_SUCCESS || !name)
        name = "an error without a name";
    return telemetry_fail(error, telemetry_cuda_exit(result), (int32_t)result, "%s: %s (%u)", call,
                          name, result);
}

/* The order and the choice of devices come from the environment, which is read by cuInit once. */
static int set_environment(const struct gpu_spec *spec)
{
    if (setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1))
        return -1;
    if (spec->kind == GPU_MIG)
        return setenv("CUDA_VISIBLE_DEVICES", spec->uuid, 1);
    return unsetenv("CUDA_VISIBLE_DEVICES");
}

static unsigned int read_uuid(const struct cuda *c, int device, char out[LIMIT_UUID_SIZE])
{
    struct CUuuid_st uuid;
    unsigned int result;

    out[0] = '\0';
    if (!c->calls.device_get_uuid)
        return CUABI_SUCCESS;
    result = c->calls.device_get_uuid(&uuid, device);
    if (result == CUABI_SUCCESS)
        format_uuid(c->target->spec.kind == GPU_MIG ? "MIG" : "GPU", uuid.bytes, out);
    return result;
}

static bool is_old_mig_name(const char *uuid)
{
    return strncmp(uuid, "MIG-GPU-", 8) == 0;
}

/* Is device the one that the operator named? Index and an old MIG name are settled by the order. */
static int match(const struct cuda *c, int ordinal, int device, bool *ret,
                 struct telemetry_error *error)
{
    const struct gpu_spec *spec = &c->target->spec;
    char text[LIMIT_UUID_SIZE];
    unsigned int result;
    struct pci_id pci;

    switch (spec->kind) {
    case GPU_INDEX:
        *ret = (uint32_t)ordinal == spec->number;
        return 0;
    case GPU_PCI:
        result = c->calls.device_get_pci_bus_id(text, sizeof(text), device);
        if (result != CUABI_SUCCESS)
            return fail(c, error, "cuDeviceGetPCIBusId", result);
        *ret = !pci_id_parse(text, &pci) && pci_id_equal(&pci, &spec->pci);
        return 0;
    case GPU_UUID:
    case GPU_MIG:
        result = read_uuid(c, device, text);
        if (result != CUABI_SUCCESS)
            return fail(c, error, "cuDeviceGetUuid_v2", result);
        *ret = is_old_mig_name(spec->uuid) || strcmp(text, spec->uuid) == 0 ||
               (spec->kind == GPU_MIG && !text[0]);
        return 0;
    case GPU_MINOR: /* was made a PCI id before */
    default:
        *ret = false;
        return 0;
    }
}

static int find_device(struct cuda *c, struct telemetry_error *error)
{
    int count = 0, device;
    bool found = false;
    unsigned int result = c->calls.device_get_count(&count);

    if (result != CUABI_SUCCESS)
        return fail(c, error, "cuDeviceGetCount", result);
    for (int i = 0; i < count; i++) {
        int rc;

        result = c->calls.device_get(&device, i);
        if (result != CUABI_SUCCESS)
            return fail(c, error, "cuDeviceGet", result);
        rc = match(c, i, device, &found, error);
        if (rc)
            return rc;
        if (found) {
            c->device = device;
            return 0;
        }
    }
    if (c->target->spec.kind == GPU_UUID && !c->calls.device_get_uuid)
        return telemetry_fail(error, PROBE_EXIT_NO_DEVICE, 0,
                              "this driver has no cuDeviceGetUuid_v2: name the device otherwise");
    return telemetry_fail(error, PROBE_EXIT_NO_DEVICE, 0,
                          "no such device among the %d that CUDA sees", count);
}

static void cuda_close(void *state)
{
    struct cuda *c = state;

    if (!c)
        return;
    if (c->has_context)
        c->calls.primary_ctx_release(c->device);
    free(c);
}

static int cuda_open(const struct telemetry_target *target, void **ret_state,
                     struct telemetry_error *ret_error)
{
    struct cuda *c = calloc(1, sizeof(*c));
    char why[DL_ERROR_SIZE];
    unsigned int result;
    void *handle;
    int rc;

    if (!c)
        return telemetry_fail(ret_error, PROBE_EXIT_FAILED, ENOMEM, "out of host memory");
    c->target = target;
    if (dl_load(&library, &c->calls, &handle, why)) {
        rc = telemetry_fail(ret_error, PROBE_EXIT_NO_DRIVER, 0, "%s", why);
        goto fail;
    }
    if (set_environment(&target->spec)) {
        rc = telemetry_fail(ret_error, PROBE_EXIT_FAILED, errno, "setenv: %s", strerror(errno));
        goto fail;
    }
    result = c->calls.init(0);
    if (result != CUABI_SUCCESS) {
        rc = fail(c, ret_error, "cuInit", result);
        goto fail;
    }
    rc = find_device(c, ret_error);
    if (rc)
        goto fail;
    *ret_state = c;
    return 0;
fail:
    cuda_close(c);
    return rc;
}

static int cuda_identify(void *state, struct telemetry_identity *io,
                         struct telemetry_error *ret_error)
{
    struct cuda *c = state;
    char uuid[LIMIT_UUID_SIZE], name[LIMIT_NAME_SIZE] = "", pci[LIMIT_NAME_SIZE] = "";
    int integrated = 0, mode = 0;
    struct pci_id id;
    uint32_t minor;
    size_t total;
    unsigned int result;

#define CALL(symbol, expression)                                                                   \
    do {                                                                                           \
        result = (expression);                                                                     \
        if (result != CUABI_SUCCESS)                                                               \
            return fail(c, ret_error, symbol, result);                                             \
    } while (0)
    CALL("cuDeviceGetUuid_v2", read_uuid(c, c->device, uuid));
    CALL("cuDeviceGetName", c->calls.device_get_name(name, sizeof(name), c->device));
    CALL("cuDeviceGetPCIBusId", c->calls.device_get_pci_bus_id(pci, sizeof(pci), c->device));
    CALL("cuDeviceTotalMem_v2", c->calls.device_total_mem(&total, c->device));
    CALL("cuDeviceGetAttribute",
         c->calls.device_get_attribute(&integrated, CUABI_DEVICE_ATTRIBUTE_INTEGRATED, c->device));
    CALL("cuDeviceGetAttribute",
         c->calls.device_get_attribute(&mode, CUABI_DEVICE_ATTRIBUTE_COMPUTE_MODE, c->device));
#undef CALL

    if (is_old_mig_name(c->target->spec.uuid))
        snprintf(uuid, sizeof(uuid), "%s", c->target->spec.uuid);
    memcpy(io->uuid, uuid, sizeof(io->uuid));
    snprintf(io->name, sizeof(io->name), "%s", name);
    io->pci[0] = '\0';
    if (!pci_id_parse(pci, &id)) {
        pci_id_format(&id, io->pci);
        /* a MIG instance has no file /dev/nvidiaN of its own */
        if (c->target->spec.kind != GPU_MIG &&
            !gpu_proc_minor_of(c->target->gpus_path, &id, &minor))
            io->minor = opt_u64(minor);
    }
    io->total = opt_u64(total);
    io->integrated = integrated == 1;
    io->compute_mode = (uint32_t)mode;
    return 0;
}

static int take_context(struct cuda *c, struct telemetry_error *error)
{
    struct CUctx_st *context;
    unsigned int result;
    int mode = 0;

    result = c->calls.device_get_attribute(&mode, CUABI_DEVICE_ATTRIBUTE_COMPUTE_MODE, c->device);
    if (result != CUABI_SUCCESS)
        return fail(c, error, "cuDeviceGetAttribute", result);
    if (mode == CUABI_COMPUTEMODE_EXCLUSIVE_PROCESS || mode == CUABI_COMPUTEMODE_PROHIBITED)
        return telemetry_fail(error, PROBE_EXIT_UNAVAILABLE, 0,
                              "the device is in compute mode %s: a context of the probe would lock "
                              "the workers out; use telemetry = nvml or worker",
                              mode == CUABI_COMPUTEMODE_PROHIBITED ? "prohibited" : "exclusive");
    /* A spinning wait would cost a core. An active context keeps its flags, which is all right. */
    if (c->calls.primary_ctx_set_flags)
        c->calls.primary_ctx_set_flags(c->device, CUABI_CTX_SCHED_BLOCKING_SYNC);
    result = c->calls.primary_ctx_retain(&context, c->device);
    if (result != CUABI_SUCCESS)
        return fail(c, error, "cuDevicePrimaryCtxRetain", result);
    c->has_context = true;
    result = c->calls.ctx_set_current(context);
    if (result != CUABI_SUCCESS)
        return fail(c, error, "cuCtxSetCurrent", result);
    return 0;
}

static int cuda_sample(void *state, struct telemetry_reading *ret,
                       struct telemetry_error *ret_error)
{
    struct cuda *c = state;
    size_t free_bytes, total_bytes;
    unsigned int result = CUABI_ERROR_INVALID_CONTEXT;

    /* A context that is gone is taken again, once: the process is not to blame. */
    for (int attempt = 0; attempt < 2; attempt++) {
        int rc = c->has_context ? 0 : take_context(c, ret_error);

        if (rc)
            return rc;
        result = c->calls.mem_get_info(&free_bytes, &total_bytes);
        if (result != CUABI_ERROR_INVALID_CONTEXT && result != CUABI_ERROR_CONTEXT_IS_DESTROYED)
            break;
        c->calls.primary_ctx_release(c->device);
        c->has_context = false;
    }
    if (result != CUABI_SUCCESS)
        return fail(c, ret_error, "cuMemGetInfo_v2", result);
    *ret = (struct telemetry_reading){
        .free = opt_u64(free_bytes), .total = opt_u64(total_bytes), .source = SOURCE_CUDA};
    return 0;
}

const struct telemetry_backend telemetry_cuda = {
    .name = "cuda",
    .open = cuda_open,
    .identify = cuda_identify,
    .sample = cuda_sample,
    .close = cuda_close,
};
