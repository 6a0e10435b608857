/* SPDX-License-Identifier: Apache-2.0 */
/* Start, errors as text, and what can be asked of a device without a context. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simgpu/libcuda/driver.h"

/* ---- cuInit ---- */

/* One entry of CUDA_VISIBLE_DEVICES: an index, or the beginning of a UUID. -1: no such device. A
 * "MIG-..." entry would be looked up here once MIG instances are simulated. */
static int find_visible(const char *entry, size_t length)
{
    char *end;
    long index;

    if (length > 4 && strncmp(entry, "GPU-", 4) == 0) {
        for (unsigned int i = 0; i < driver.ledger->device_count; i++) {
            char uuid[LEDGER_UUID_TEXT_SIZE];

            ledger_uuid_text(&driver.ledger->devices[i], uuid);
            if (strncmp(uuid, entry, length) == 0)
                return (int)i;
        }
        return -1;
    }
    errno = 0;
    index = strtol(entry, &end, 10);
    if (errno || end != entry + length || index < 0 || index >= (long)driver.ledger->device_count)
        return -1;
    return (int)index;
}

static void find_visible_devices(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");

    driver.visible_count = 0;
    if (!list) {
        for (unsigned int i = 0; i < driver.ledger->device_count; i++)
            driver.visible[driver.visible_count++] = i;
        return;
    }
    while (driver.visible_count < LEDGER_DEVICES_MAX) {
        size_t length = strcspn(list, ",");
        int index = length ? find_visible(list, length) : -1;

        /* The first bad entry ends the list, as in CUDA. */
        if (index < 0)
            return;
        driver.visible[driver.visible_count++] = (unsigned int)index;
        if (list[length] == '\0')
            return;
        list += length + 1;
    }
}

/* The real driver does not go away on dlclose(), nor can we: streams have threads. */
static void stay_loaded(void)
{
    Dl_info info;

    if (dladdr((void *)&driver, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static unsigned int init_once(void)
{
    struct ledger *ledger = call_ledger();
    struct ledger_process *process;

    if (!ledger)
        return CUABI_ERROR_NO_DEVICE;
    find_visible_devices();
    if (driver.visible_count == 0)
        return CUABI_ERROR_NO_DEVICE;

    ledger_lock(ledger);
    process = ledger_self(ledger);
    if (process)
        process->cuda_opens = 1;
    ledger_unlock(ledger);
    if (!process)
        return CUABI_ERROR_OPERATING_SYSTEM;

    for (unsigned int i = 0; i < ledger->device_count; i++) {
        driver.contexts[i].device = i;
        driver.default_pools[i].device = i;
    }
    stay_loaded();
    __atomic_store_n(&driver.init_pid, getpid(), __ATOMIC_RELEASE);
    return CUABI_SUCCESS;
}

unsigned int cuInit(unsigned int flags)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_NOTHING);
    int init_pid = __atomic_load_n(&driver.init_pid, __ATOMIC_ACQUIRE);

    if (result != CUABI_SUCCESS)
        return result;
    if (flags != 0)
        return CUABI_ERROR_INVALID_VALUE;
    if (init_pid == getpid())
        return CUABI_SUCCESS;
    if (init_pid != 0)
        return CUABI_ERROR_NOT_INITIALIZED; /* a child forked after cuInit */

    driver_lock();
    if (driver.init_pid == 0)
        result = init_once();
    driver_unlock();
    return result;
}

unsigned int cuDriverGetVersion(int *version)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_NOTHING);

    if (result != CUABI_SUCCESS)
        return result;
    if (!version)
        return CUABI_ERROR_INVALID_VALUE;
    *version = (int)call_switch("SIMGPU_CUDA_VERSION", 13000);
    return CUABI_SUCCESS;
}

/* ---- errors ---- */

static unsigned int error_text(unsigned int code, const char **ret_text)
{
    if (!ret_text)
        return CUABI_ERROR_INVALID_VALUE;
    switch (code) {
#define ERROR_CASE(name, value, class)                                                             \
    case value:                                                                                    \
        *ret_text = "CUDA_" #name;                                                                 \
        return CUABI_SUCCESS;
        CUABI_RESULTS(ERROR_CASE)
#undef ERROR_CASE
    default:
        *ret_text = NULL;
        return CUABI_ERROR_INVALID_VALUE;
    }
}

unsigned int cuGetErrorName(unsigned int code, const char **name)
{
    return error_text(code, name);
}

unsigned int cuGetErrorString(unsigned int code, const char **text)
{
    return error_text(code, text);
}

/* ---- devices ---- */

/* The start of every call about one device. */
static unsigned int enter_device(const char *symbol, int ordinal, unsigned int *ret_device)
{
    unsigned int result = call_enter(symbol, CALL_NEEDS_INIT);

    return result == CUABI_SUCCESS ? call_device(ordinal, ret_device) : result;
}

unsigned int cuDeviceGetCount(int *count)
{
    unsigned int result = call_enter(__func__, CALL_NEEDS_INIT);

    if (result != CUABI_SUCCESS)
        return result;
    if (!count)
        return CUABI_ERROR_INVALID_VALUE;
    *count = (int)driver.visible_count;
    return CUABI_SUCCESS;
}

unsigned int cuDeviceGet(int *ret_device, int ordinal)
{
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!ret_device)
        return CUABI_ERROR_INVALID_VALUE;
    *ret_device = ordinal;
    return CUABI_SUCCESS;
}

unsigned int cuDeviceGetName(char *name, int length, int ordinal)
{
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!name || length <= 0)
        return CUABI_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "%s", driver.ledger->devices[device].name);
    return CUABI_SUCCESS;
}

unsigned int cuDeviceGetUuid_v2(struct CUuuid_st *uuid, int ordinal)
{
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!uuid)
        return CUABI_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, driver.ledger->devices[device].uuid, sizeof(uuid->bytes));
    return CUABI_SUCCESS;
}

unsigned int cuDeviceGetPCIBusId(char *text, int length, int ordinal)
{
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!text || length <= 0)
        return CUABI_ERROR_INVALID_VALUE;
    /* Four digits of domain here, eight in NVML: compare the numbers, never the strings. */
    snprintf(text, (size_t)length, "0000:%02X:00.0", driver.ledger->devices[device].pci_bus);
    return CUABI_SUCCESS;
}

unsigned int cuDeviceTotalMem_v2(size_t *bytes, int ordinal)
{
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!bytes)
        return CUABI_ERROR_INVALID_VALUE;
    ledger_lock(driver.ledger);
    *bytes = driver.ledger->devices[device].total_bytes;
    ledger_unlock(driver.ledger);
    return CUABI_SUCCESS;
}

static int attribute_of(const struct ledger_device *device, unsigned int attribute)
{
    switch (attribute) {
    case CUABI_DEVICE_ATTRIBUTE_INTEGRATED:
    case CUABI_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        return device->is_integrated ? 1 : 0;
    case CUABI_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        return (int)device->compute_mode;
    case CUABI_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
        return 1;
    case CUABI_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return call_switch("SIMGPU_NO_POOLS", 0) ? 0 : 1;
    default:
        return 0;
    }
}

unsigned int cuDeviceGetAttribute(int *value, unsigned int attribute, int ordinal)
{
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!value)
        return CUABI_ERROR_INVALID_VALUE;
    ledger_lock(driver.ledger);
    *value = attribute_of(&driver.ledger->devices[device], attribute);
    ledger_unlock(driver.ledger);
    return CUABI_SUCCESS;
}

/* ---- memory of CUDA graphs: none is simulated ---- */

unsigned int cuDeviceGetGraphMemAttribute(int ordinal, unsigned int attribute, void *value)
{
    const uint64_t nothing = 0;
    unsigned int device;
    unsigned int result = enter_device(__func__, ordinal, &device);

    if (result != CUABI_SUCCESS)
        return result;
    if (!value || attribute > CUABI_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        return CUABI_ERROR_INVALID_VALUE;
    memcpy(value, &nothing, sizeof(nothing));
    return CUABI_SUCCESS;
}

unsigned int cuDeviceGraphMemTrim(int ordinal)
{
    unsigned int device;

    return enter_device(__func__, ordinal, &device);
}
