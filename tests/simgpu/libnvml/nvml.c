/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated libnvidia-ml.so.1: the view of the ledger that needs no context. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/abi/nvml_abi.h"
#include "tests/simgpu/shared/fault.h"
#include "tests/simgpu/shared/ledger.h"

/* The exported functions, declared from the ABI table: a definition of another type does not
 * compile. */
#define NVML_EXPORT(field, symbol, need, result, args)                                             \
    __attribute__((visibility("default"))) result symbol args;
NVABI_FUNCS(NVML_EXPORT)
#undef NVML_EXPORT

struct nvmlDevice_st {
    int is_known; /* a handle was given out */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the three below */
static struct ledger *ledger;                            /* set once, never unmapped */
static unsigned int init_count;
static int init_pid;

static struct nvmlDevice_st handles[LEDGER_DEVICES_MAX];

/* ---- start and end ---- */

static unsigned int open_ledger(void)
{
    const char *why = NULL;

    pthread_mutex_lock(&lock);
    if (!ledger)
        ledger = ledger_open(NULL, &why);
    pthread_mutex_unlock(&lock);
    if (!ledger && getenv("SIMGPU_VERBOSE"))
        fprintf(stderr, "simulated libnvidia-ml: no driver: %s\n", why);
    return ledger ? NVABI_SUCCESS : NVABI_ERROR_DRIVER_NOT_LOADED;
}

/* Notes in the ledger how often this process has the library open; 0 gives its slot back unless
 * CUDA has it too. */
static int note_opens(unsigned int count)
{
    struct ledger_process *process;

    ledger_lock(ledger);
    process = count ? ledger_self(ledger) : ledger_find_self(ledger);
    if (process)
        process->nvml_opens = count;
    if (process && count == 0 && process->cuda_opens == 0)
        ledger_drop(ledger, process);
    ledger_unlock(ledger);
    return process ? 0 : -1;
}

unsigned int nvmlInit_v2(void)
{
    unsigned int result = open_ledger();
    struct fault_outcome fault;

    if (result != NVABI_SUCCESS)
        return result;
    fault = fault_pass(ledger, __func__);
    if (fault.is_error)
        return fault.code;

    pthread_mutex_lock(&lock);
    if (init_pid != getpid())
        init_count = 0; /* the first call, or the first in a forked child */
    init_pid = getpid();
    if (note_opens(init_count + 1))
        result = NVABI_ERROR_OPERATING_SYSTEM;
    else
        init_count++;
    pthread_mutex_unlock(&lock);
    return result;
}

/* The start of every call but nvmlInit_v2. */
static unsigned int enter(const char *symbol)
{
    struct fault_outcome fault;
    int is_open;

    pthread_mutex_lock(&lock);
    is_open = ledger && init_pid == getpid() && init_count > 0;
    pthread_mutex_unlock(&lock);
    if (!is_open)
        return NVABI_ERROR_UNINITIALIZED;
    fault = fault_pass(ledger, symbol);
    return fault.is_error ? fault.code : NVABI_SUCCESS;
}

unsigned int nvmlShutdown(void)
{
    unsigned int result = enter(__func__);

    if (result != NVABI_SUCCESS)
        return result;
    pthread_mutex_lock(&lock);
    init_count--;
    note_opens(init_count);
    pthread_mutex_unlock(&lock);
    return NVABI_SUCCESS;
}

static void __attribute__((destructor)) leave_ledger(void)
{
    if (ledger && init_pid == getpid() && init_count > 0)
        note_opens(0);
}

const char *nvmlErrorString(unsigned int result)
{
    switch (result) {
#define ERROR_CASE(name, value)                                                                    \
    case value:                                                                                    \
        return "NVML_" #name;
        NVABI_RESULTS(ERROR_CASE)
#undef ERROR_CASE
    default:
        return "unknown result";
    }
}

/* Copies a text out as the library does. */
static unsigned int give_text(const char *text, char *buffer, unsigned int length)
{
    if (!buffer)
        return NVABI_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVABI_ERROR_INSUFFICIENT_SIZE;
    memcpy(buffer, text, strlen(text) + 1);
    return NVABI_SUCCESS;
}

unsigned int nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    const char *text = getenv("SIMGPU_DRIVER_VERSION");
    unsigned int result = enter(__func__);

    if (result != NVABI_SUCCESS)
        return result;
    return give_text(text ? text : "580.65.06", version, length);
}

/* ---- handles ---- */

static int is_lost(unsigned int index)
{
    return __atomic_load_n(&ledger->devices[index].is_lost, __ATOMIC_ACQUIRE) != 0;
}

static unsigned int give_handle(unsigned int index, struct nvmlDevice_st **ret_device)
{
    if (is_lost(index))
        return NVABI_ERROR_GPU_IS_LOST;
    __atomic_store_n(&handles[index].is_known, 1, __ATOMIC_RELAXED);
    *ret_device = &handles[index];
    return NVABI_SUCCESS;
}

unsigned int nvmlDeviceGetCount_v2(unsigned int *count)
{
    unsigned int result = enter(__func__);

    if (result != NVABI_SUCCESS)
        return result;
    if (!count)
        return NVABI_ERROR_INVALID_ARGUMENT;
    *count = ledger->device_count;
    return NVABI_SUCCESS;
}

unsigned int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct nvmlDevice_st **ret_device)
{
    unsigned int result = enter(__func__);

    if (result != NVABI_SUCCESS)
        return result;
    if (!ret_device || index >= ledger->device_count)
        return NVABI_ERROR_INVALID_ARGUMENT;
    return give_handle(index, ret_device);
}

/* Looks at every device on its way, so it fails if any of them is lost. The PCI call does not. */
unsigned int nvmlDeviceGetHandleByUUID(const char *uuid, struct nvmlDevice_st **ret_device)
{
    unsigned int result = enter(__func__);
    char text[LEDGER_UUID_TEXT_SIZE];
    int found = -1;

    if (result != NVABI_SUCCESS)
        return result;
    if (!uuid || !ret_device)
        return NVABI_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < ledger->device_count; i++) {
        if (is_lost(i))
            return NVABI_ERROR_GPU_IS_LOST;
        ledger_uuid_text(&ledger->devices[i], text);
        if (strcmp(text, uuid) == 0)
            found = (int)i;
    }
    return found < 0 ? NVABI_ERROR_NOT_FOUND : give_handle((unsigned int)found, ret_device);
}

/* Any spelling of the numbers will do: "0000:1b:00.0" and "00000000:1B:00.0" are one device. */
unsigned int nvmlDeviceGetHandleByPciBusId_v2(const char *text, struct nvmlDevice_st **ret_device)
{
    unsigned int result = enter(__func__);
    unsigned int domain;
    unsigned int bus;
    unsigned int slot;

    if (result != NVABI_SUCCESS)
        return result;
    if (!text || !ret_device || sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return NVABI_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < ledger->device_count; i++) {
        if (domain == 0 && slot == 0 && bus == ledger->devices[i].pci_bus)
            return give_handle(i, ret_device);
    }
    return NVABI_ERROR_NOT_FOUND;
}

/* The start of every call about one device. */
static unsigned int enter_device(const char *symbol, const struct nvmlDevice_st *handle,
                                 unsigned int *ret_index)
{
    unsigned int result = enter(symbol);

    if (result != NVABI_SUCCESS)
        return result;
    for (unsigned int i = 0; i < ledger->device_count; i++) {
        if (handle != &handles[i] || !__atomic_load_n(&handle->is_known, __ATOMIC_RELAXED))
            continue;
        *ret_index = i;
        return is_lost(i) ? NVABI_ERROR_GPU_IS_LOST : NVABI_SUCCESS;
    }
    return NVABI_ERROR_INVALID_ARGUMENT;
}

/* ---- identity ---- */

unsigned int nvmlDeviceGetUUID(struct nvmlDevice_st *device, char *uuid, unsigned int length)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);
    char text[LEDGER_UUID_TEXT_SIZE];

    if (result != NVABI_SUCCESS)
        return result;
    ledger_uuid_text(&ledger->devices[index], text);
    return give_text(text, uuid, length);
}

unsigned int nvmlDeviceGetName(struct nvmlDevice_st *device, char *name, unsigned int length)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);

    if (result != NVABI_SUCCESS)
        return result;
    return give_text(ledger->devices[index].name, name, length);
}

unsigned int nvmlDeviceGetMinorNumber(struct nvmlDevice_st *device, unsigned int *minor)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);

    if (result != NVABI_SUCCESS)
        return result;
    if (!minor)
        return NVABI_ERROR_INVALID_ARGUMENT;
    *minor = ledger->devices[index].minor;
    return NVABI_SUCCESS;
}

unsigned int nvmlDeviceGetPciInfo_v3(struct nvmlDevice_st *device, struct nvmlPciInfo_st *pci)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);

    if (result != NVABI_SUCCESS)
        return result;
    if (!pci)
        return NVABI_ERROR_INVALID_ARGUMENT;
    memset(pci, 0, sizeof(*pci));
    pci->bus = ledger->devices[index].pci_bus;
    pci->pciDeviceId = 0x51d010de; /* the vendor's id in the low half, "simulated" in the high */
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus & 0xff);
    snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus & 0xff);
    return NVABI_SUCCESS;
}

unsigned int nvmlDeviceGetComputeMode(struct nvmlDevice_st *device, unsigned int *mode)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);

    if (result != NVABI_SUCCESS)
        return result;
    if (!mode)
        return NVABI_ERROR_INVALID_ARGUMENT;
    ledger_lock(ledger);
    *mode = ledger->devices[index].compute_mode;
    ledger_unlock(ledger);
    return NVABI_SUCCESS;
}

/* MIG is not simulated: every device says that it is off. Its instances would be handles of their
 * own, found by nvmlDeviceGetMigDeviceHandleByIndex. */
unsigned int nvmlDeviceGetMigMode(struct nvmlDevice_st *device, unsigned int *current,
                                  unsigned int *pending)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);

    if (result != NVABI_SUCCESS)
        return result;
    if (!current || !pending)
        return NVABI_ERROR_INVALID_ARGUMENT;
    *current = NVABI_DEVICE_MIG_DISABLE;
    *pending = NVABI_DEVICE_MIG_DISABLE;
    return NVABI_SUCCESS;
}

/* ---- memory ---- */

/* Fills all but the version. */
static unsigned int read_memory(unsigned int index, struct nvmlMemory_v2_st *memory)
{
    const struct ledger_device *device = &ledger->devices[index];
    unsigned int result = NVABI_SUCCESS;

    ledger_lock(ledger);
    if (device->is_integrated) {
        result = NVABI_ERROR_NOT_SUPPORTED; /* such a part has no frame buffer of its own */
    } else {
        ledger_reap(ledger, LEDGER_REAP_IF_DUE);
        memory->reserved = device->nvml_reserved_bytes;
        memory->total = device->total_bytes + memory->reserved;
        memory->free = ledger_free_bytes(ledger, index);
        memory->used = memory->total - memory->reserved - memory->free;
    }
    ledger_unlock(ledger);
    return result;
}

unsigned int nvmlDeviceGetMemoryInfo_v2(struct nvmlDevice_st *device,
                                        struct nvmlMemory_v2_st *memory)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);

    if (result != NVABI_SUCCESS)
        return result;
    if (!memory)
        return NVABI_ERROR_INVALID_ARGUMENT;
    if (memory->version != NVABI_MEMORY_V2)
        return NVABI_ERROR_ARGUMENT_VERSION_MISMATCH;
    return read_memory(index, memory);
}

/* The old call counts what the driver reserved as used. */
unsigned int nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *device, struct nvmlMemory_st *memory)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);
    struct nvmlMemory_v2_st now;

    if (result != NVABI_SUCCESS)
        return result;
    if (!memory)
        return NVABI_ERROR_INVALID_ARGUMENT;
    result = read_memory(index, &now);
    if (result != NVABI_SUCCESS)
        return result;
    memory->total = now.total;
    memory->free = now.free;
    memory->used = now.used + now.reserved;
    return NVABI_SUCCESS;
}

/* Fills at most room entries, and counts all. */
static unsigned int list_processes(unsigned int index, struct nvmlProcessInfo_v2_st *infos,
                                   unsigned int room)
{
    unsigned int count = 0;

    ledger_lock(ledger);
    ledger_reap(ledger, LEDGER_REAP_IF_DUE);
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        const struct ledger_process *process = &ledger->processes[i];

        if (!process->pid || !process->has_context[index])
            continue;
        if (count < room) {
            infos[count].pid = (unsigned int)process->pid;
            infos[count].usedGpuMemory = process->bytes[index];
            infos[count].gpuInstanceId = ~0u;
            infos[count].computeInstanceId = ~0u;
        }
        count++;
    }
    ledger_unlock(ledger);
    return count;
}

unsigned int nvmlDeviceGetComputeRunningProcesses_v3(struct nvmlDevice_st *device,
                                                     unsigned int *count,
                                                     struct nvmlProcessInfo_v2_st *infos)
{
    unsigned int index;
    unsigned int result = enter_device(__func__, device, &index);
    unsigned int room;

    if (result != NVABI_SUCCESS)
        return result;
    if (!count || (*count > 0 && !infos))
        return NVABI_ERROR_INVALID_ARGUMENT;
    room = *count;
    *count = list_processes(index, infos, room);
    return *count > room ? NVABI_ERROR_INSUFFICIENT_SIZE : NVABI_SUCCESS;
}
