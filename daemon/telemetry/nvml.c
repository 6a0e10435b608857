/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: free memory without a context. Its total is not CUDA's (638 MiB apart on one card), so its
 * free and its total stay together. The device is opened by PCI id, since a search by UUID may
 * wake every device and fails where any of them is lost. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "daemon/telemetry/backend.h"
#include "proto/abi/nvml_abi.h"
#include "proto/base/dl.h"
#include "proto/base/error.h"

struct nvml {
    const struct telemetry_target *target;
    struct nvabi_calls calls;
    struct nvmlDevice_st *device;
    bool is_ready; /* nvmlInit succeeded */
};

static const struct dl_symbol symbols[] = {
#define ROW(field, symbol, need, result, args)                                                     \
    {#symbol, offsetof(struct nvabi_calls, field), NVABI_NEED_##need == NVABI_NEED_PROBE},
    NVABI_FUNCS(ROW)
#undef ROW
};

static const struct dl_library library = {
    .soname = "libnvidia-ml.so.1",
    .env = "DLO_LIBNVML",
    .symbols = symbols,
    .symbol_count = ARRAY_SIZE(symbols),
};

int telemetry_nvml_exit(unsigned int result)
{
    switch (result) {
    case NVABI_SUCCESS:
        return PROBE_EXIT_OK;
    case NVABI_ERROR_DRIVER_NOT_LOADED:
    case NVABI_ERROR_LIBRARY_NOT_FOUND:
        return PROBE_EXIT_NO_DRIVER;
    case NVABI_ERROR_NOT_FOUND:
    case NVABI_ERROR_GPU_NOT_FOUND:
        return PROBE_EXIT_NO_DEVICE;
    case NVABI_ERROR_LIB_RM_VERSION_MISMATCH:
        return PROBE_EXIT_MISMATCH;
    case NVABI_ERROR_TIMEOUT:
    case NVABI_ERROR_IN_USE:
    case NVABI_ERROR_MEMORY:
    case NVABI_ERROR_NOT_READY:
        return PROBE_EXIT_UNAVAILABLE;
    case NVABI_ERROR_GPU_IS_LOST:
    case NVABI_ERROR_RESET_REQUIRED:
        return PROBE_EXIT_LOST;
    default: /* 17 and 999 too: a container whose device files went away */
        return PROBE_EXIT_FAILED;
    }
}

static int fail(const struct nvml *n, struct telemetry_error *error, const char *call,
                unsigned int result)
{
    const char *text = n->calls.error_string(result);

    return telemetry_fail(error, telemetry_nvml_exit(result), (int32_t)result, "%s: %s (%u)", call,
                          text ? text : "an error without a text", result);
}

/* The library and nvmlInit, in the caller's memory. */
static int start(struct nvml *n, struct telemetry_error *error)
{
    char why[DL_ERROR_SIZE];
    unsigned int result;
    void *handle;

    if (dl_load(&library, &n->calls, &handle, why))
        return telemetry_fail(error, PROBE_EXIT_NO_DRIVER, 0, "%s", why);
    result = n->calls.init();
    if (result != NVABI_SUCCESS)
        return fail(n, error, "nvmlInit_v2", result);
    n->is_ready = true;
    return 0;
}

static void stop(struct nvml *n)
{
    if (n->is_ready)
        n->calls.shutdown();
    n->is_ready = false;
}

/* What CUDA found comes first; else what the operator wrote. */
static int find_device(struct nvml *n, struct telemetry_error *error)
{
    const struct gpu_spec *spec = &n->target->spec;
    char pci[PCI_TEXT_SIZE];
    bool has_pci = n->target->known->pci[0] || spec->kind == GPU_PCI;
    unsigned int result;
    const char *call;

    /* a MIG instance by its UUID: the PCI id is the parent's, whose memory is not ours */
    if (spec->kind == GPU_MIG || (spec->kind == GPU_UUID && !has_pci)) {
        call = "nvmlDeviceGetHandleByUUID";
        result = n->calls.device_get_handle_by_uuid(spec->uuid, &n->device);
    } else if (has_pci) {
        call = "nvmlDeviceGetHandleByPciBusId_v2";
        pci_id_format(&spec->pci, pci);
        result = n->calls.device_get_handle_by_pci_bus_id(
            n->target->known->pci[0] ? n->target->known->pci : pci, &n->device);
    } else {
        call = "nvmlDeviceGetHandleByIndex_v2";
        result = n->calls.device_get_handle_by_index(spec->number, &n->device);
    }
    if (result == NVABI_ERROR_INVALID_ARGUMENT) /* how it says that there is none */
        return telemetry_fail(error, PROBE_EXIT_NO_DEVICE, (int32_t)result, "%s: no such device",
                              call);
    return result == NVABI_SUCCESS ? 0 : fail(n, error, call, result);
}

static bool is_split(const struct nvml *n)
{
    unsigned int current = 0, pending = 0;

    return n->target->spec.kind != GPU_MIG && n->calls.device_get_mig_mode &&
           n->calls.device_get_mig_mode(n->device, &current, &pending) == NVABI_SUCCESS &&
           current == NVABI_DEVICE_MIG_ENABLE;
}

static int check_device(struct nvml *n, struct telemetry_error *error)
{
    const char *known = n->target->known->uuid;
    char uuid[LIMIT_UUID_SIZE] = "";
    unsigned int result;

    if (is_split(n))
        return telemetry_fail(error, PROBE_EXIT_NO_DEVICE, 0,
                              "the device is split into MIG instances: name one by its MIG UUID");
    result = n->calls.device_get_uuid(n->device, uuid, sizeof(uuid));
    if (result != NVABI_SUCCESS)
        return fail(n, error, "nvmlDeviceGetUUID", result);
    if (known[0] && strcasecmp(known, uuid) != 0)
        return telemetry_fail(error, PROBE_EXIT_NO_DEVICE, 0,
                              "CUDA names the device %.48s and NVML %.48s", known, uuid);
    return 0;
}

static void nvml_close(void *state)
{
    struct nvml *n = state;

    if (n)
        stop(n);
    free(n);
}

static int nvml_open(const struct telemetry_target *target, void **ret_state,
                     struct telemetry_error *ret_error)
{
    struct nvml *n = calloc(1, sizeof(*n));
    int rc;

    if (!n)
        return telemetry_fail(ret_error, PROBE_EXIT_FAILED, ENOMEM, "out of host memory");
    n->target = target;
    rc = start(n, ret_error);
    if (!rc)
        rc = find_device(n, ret_error);
    if (!rc)
        rc = check_device(n, ret_error);
    if (rc)
        nvml_close(n);
    else
        *ret_state = n;
    return rc;
}

static int read_memory(struct nvml *n, struct telemetry_reading *ret, struct telemetry_error *error)
{
    struct nvmlMemory_v2_st v2 = {.version = NVABI_MEMORY_V2};
    struct nvmlMemory_st v1 = {0};
    const char *call;
    unsigned int result;

    if (n->calls.device_get_memory_info_v2) {
        call = "nvmlDeviceGetMemoryInfo_v2";
        result = n->calls.device_get_memory_info_v2(n->device, &v2);
        v1.free = v2.free;
        v1.total = v2.total;
    } else {
        call = "nvmlDeviceGetMemoryInfo";
        result = n->calls.device_get_memory_info(n->device, &v1);
    }
    *ret = (struct telemetry_reading){.source = SOURCE_NVML};
    /* "no memory of its own" is an answer, and some say it as a total of 0 */
    if (result == NVABI_ERROR_NOT_SUPPORTED || (result == NVABI_SUCCESS && !v1.total))
        return 0;
    if (result != NVABI_SUCCESS)
        return fail(n, error, call, result);
    ret->free = opt_u64(v1.free);
    ret->total = opt_u64(v1.total);
    return 0;
}

/* Adds what CUDA does not know or was not there to tell. */
static int nvml_identify(void *state, struct telemetry_identity *io,
                         struct telemetry_error *ret_error)
{
    struct nvml *n = state;
    struct telemetry_reading reading;
    struct nvmlPciInfo_st pci;
    unsigned int minor;
    struct pci_id id;

    if (!io->uuid[0] &&
        n->calls.device_get_uuid(n->device, io->uuid, sizeof(io->uuid)) != NVABI_SUCCESS)
        io->uuid[0] = '\0';
    if (!io->name[0] && n->calls.device_get_name &&
        n->calls.device_get_name(n->device, io->name, sizeof(io->name)) != NVABI_SUCCESS)
        io->name[0] = '\0';
    if (!io->pci[0] && n->calls.device_get_pci_info &&
        n->calls.device_get_pci_info(n->device, &pci) == NVABI_SUCCESS &&
        !pci_id_parse(pci.busId, &id))
        pci_id_format(&id, io->pci);
    if (n->target->spec.kind != GPU_MIG &&
        n->calls.device_get_minor_number(n->device, &minor) == NVABI_SUCCESS)
        io->minor = opt_u64(minor);
    if (!n->calls.device_get_memory_info_v2)
        telemetry_append(io->note, "the driver has no nvmlDeviceGetMemoryInfo_v2: using "
                                   "nvmlDeviceGetMemoryInfo instead");
    if (io->total.has)
        return 0;
    if (n->calls.device_get_compute_mode)
        n->calls.device_get_compute_mode(n->device, &io->compute_mode);
    if (read_memory(n, &reading, ret_error))
        return ERR_IO;
    io->total = reading.total;
    return 0;
}

static int nvml_sample(void *state, struct telemetry_reading *ret,
                       struct telemetry_error *ret_error)
{
    return read_memory(state, ret, ret_error);
}

/* The id of a device with that minor number, of an NVML that is ready. */
static int search_minor(const struct nvml *n, uint32_t wanted, struct pci_id *ret)
{
    unsigned int count = 0, minor;
    struct nvmlDevice_st *device;
    struct nvmlPciInfo_st pci;

    if (!n->calls.device_get_pci_info || n->calls.device_get_count(&count) != NVABI_SUCCESS)
        return ERR_IO;
    for (unsigned int i = 0; i < count; i++) {
        if (n->calls.device_get_handle_by_index(i, &device) != NVABI_SUCCESS ||
            n->calls.device_get_minor_number(device, &minor) != NVABI_SUCCESS || minor != wanted)
            continue;
        if (n->calls.device_get_pci_info(device, &pci) == NVABI_SUCCESS)
            return pci_id_parse(pci.busId, ret) ? ERR_IO : 0;
    }
    return ERR_IO;
}

int telemetry_nvml_find_minor(uint32_t minor, struct pci_id *ret)
{
    struct nvml n = {0};
    struct telemetry_error ignored;
    int rc = start(&n, &ignored);

    if (!rc)
        rc = search_minor(&n, minor, ret);
    stop(&n);
    return rc;
}

const struct telemetry_backend telemetry_nvml = {
    .name = "nvml",
    .open = nvml_open,
    .identify = nvml_identify,
    .sample = nvml_sample,
    .close = nvml_close,
};
