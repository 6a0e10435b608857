/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVML that dlod's probe uses, declared by us. The same idea and the same rules as
 * proto/abi/cuda_abi.h: facts of the binary interface only, compared with a real nvml.h by
 * tests/abi/check.sh and used for the prototypes of the simulated library.
 */
#ifndef DLO_PROTO_ABI_NVML_ABI_H
#define DLO_PROTO_ABI_NVML_ABI_H

struct nvmlDevice_st;

/* In the check build the real header defines these tags, so ours get another name. */
#ifdef NVABI_CHECK
#define NVABI_TAG(tag) nvabi_check_##tag
#else
#define NVABI_TAG(tag) tag
#endif

struct NVABI_TAG(nvmlMemory_st) {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used; /* includes what the driver reserved for itself */
};

struct NVABI_TAG(nvmlMemory_v2_st) {
    unsigned int version; /* NVABI_MEMORY_V2, or the call fails */
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
};

struct NVABI_TAG(nvmlPciInfo_st) {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
};

struct NVABI_TAG(nvmlProcessInfo_v2_st) {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
};

/*
 * The version word of a struct is its size and its version in one: plain 2 is refused with
 * ARGUMENT_VERSION_MISMATCH, and nothing in the library's documentation warns of it.
 */
#define NVABI_MEMORY_V2 ((unsigned int)(sizeof(struct NVABI_TAG(nvmlMemory_v2_st)) | 2u << 24))

/* usedGpuMemory of a process whose bytes the library cannot tell. */
#define NVABI_VALUE_NOT_AVAILABLE (~0ull)

/* X(name, value): results; nvml.h spells them NVML_<name>. */
#define NVABI_RESULTS(X)                                                                           \
    X(SUCCESS, 0)                                                                                  \
    X(ERROR_UNINITIALIZED, 1)                                                                      \
    X(ERROR_INVALID_ARGUMENT, 2)                                                                   \
    X(ERROR_NOT_SUPPORTED, 3)                                                                      \
    X(ERROR_NO_PERMISSION, 4)                                                                      \
    X(ERROR_NOT_FOUND, 6)                                                                          \
    X(ERROR_INSUFFICIENT_SIZE, 7)                                                                  \
    X(ERROR_DRIVER_NOT_LOADED, 9)                                                                  \
    X(ERROR_TIMEOUT, 10)                                                                           \
    X(ERROR_LIBRARY_NOT_FOUND, 12)                                                                 \
    X(ERROR_FUNCTION_NOT_FOUND, 13)                                                                \
    X(ERROR_GPU_IS_LOST, 15)                                                                       \
    X(ERROR_RESET_REQUIRED, 16)                                                                    \
    X(ERROR_OPERATING_SYSTEM, 17)                                                                  \
    X(ERROR_LIB_RM_VERSION_MISMATCH, 18)                                                           \
    X(ERROR_IN_USE, 19)                                                                            \
    X(ERROR_MEMORY, 20)                                                                            \
    X(ERROR_ARGUMENT_VERSION_MISMATCH, 25)                                                         \
    X(ERROR_NOT_READY, 27)                                                                         \
    X(ERROR_GPU_NOT_FOUND, 28)                                                                     \
    X(ERROR_UNKNOWN, 999)

/* X(name, value): other numbers; nvml.h spells them NVML_<name>. */
#define NVABI_CONSTS(X)                                                                            \
    X(COMPUTEMODE_DEFAULT, 0)                                                                      \
    X(COMPUTEMODE_PROHIBITED, 2)                                                                   \
    X(COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                                                            \
    X(DEVICE_MIG_DISABLE, 0)                                                                       \
    X(DEVICE_MIG_ENABLE, 1)

/*
 * F(field, symbol, need, result, arguments)
 *   field, symbol  as in CUABI_FUNCS
 *   need           PROBE (telemetry cannot work without it) or OPTIONAL
 *   result         `unsigned int`, one of NVABI_RESULTS, but for the one call that returns text
 */
#define NVABI_FUNCS(F)                                                                             \
    F(init, nvmlInit_v2, PROBE, unsigned int, (void))                                              \
    F(shutdown, nvmlShutdown, PROBE, unsigned int, (void))                                         \
    F(error_string, nvmlErrorString, PROBE, const char *, (unsigned int))                          \
    F(system_get_driver_version, nvmlSystemGetDriverVersion, OPTIONAL, unsigned int,               \
      (char *, unsigned int))                                                                      \
    F(device_get_count, nvmlDeviceGetCount_v2, PROBE, unsigned int, (unsigned int *))              \
    F(device_get_handle_by_index, nvmlDeviceGetHandleByIndex_v2, PROBE, unsigned int,              \
      (unsigned int, struct nvmlDevice_st **))                                                     \
    F(device_get_handle_by_pci_bus_id, nvmlDeviceGetHandleByPciBusId_v2, PROBE, unsigned int,      \
      (const char *, struct nvmlDevice_st **))                                                     \
    F(device_get_handle_by_uuid, nvmlDeviceGetHandleByUUID, PROBE, unsigned int,                   \
      (const char *, struct nvmlDevice_st **))                                                     \
    F(device_get_uuid, nvmlDeviceGetUUID, PROBE, unsigned int,                                     \
      (struct nvmlDevice_st *, char *, unsigned int))                                              \
    F(device_get_name, nvmlDeviceGetName, OPTIONAL, unsigned int,                                  \
      (struct nvmlDevice_st *, char *, unsigned int))                                              \
    F(device_get_minor_number, nvmlDeviceGetMinorNumber, PROBE, unsigned int,                      \
      (struct nvmlDevice_st *, unsigned int *))                                                    \
    F(device_get_pci_info, nvmlDeviceGetPciInfo_v3, OPTIONAL, unsigned int,                        \
      (struct nvmlDevice_st *, struct nvmlPciInfo_st *))                                           \
    F(device_get_memory_info_v2, nvmlDeviceGetMemoryInfo_v2, OPTIONAL, unsigned int,               \
      (struct nvmlDevice_st *, struct nvmlMemory_v2_st *))                                         \
    F(device_get_memory_info, nvmlDeviceGetMemoryInfo, PROBE, unsigned int,                        \
      (struct nvmlDevice_st *, struct nvmlMemory_st *))                                            \
    F(device_get_compute_mode, nvmlDeviceGetComputeMode, OPTIONAL, unsigned int,                   \
      (struct nvmlDevice_st *, unsigned int *))                                                    \
    F(device_get_compute_running_processes, nvmlDeviceGetComputeRunningProcesses_v3, OPTIONAL,     \
      unsigned int, (struct nvmlDevice_st *, unsigned int *, struct nvmlProcessInfo_v2_st *))      \
    F(device_get_mig_mode, nvmlDeviceGetMigMode, OPTIONAL, unsigned int,                           \
      (struct nvmlDevice_st *, unsigned int *, unsigned int *))

#define NVABI_ENUMERATOR(name, value) NVABI_##name = (value),
enum nvabi_result { NVABI_RESULTS(NVABI_ENUMERATOR) };
enum nvabi_const { NVABI_CONSTS(NVABI_ENUMERATOR) };
#undef NVABI_ENUMERATOR

enum nvabi_need {
    NVABI_NEED_OPTIONAL = 0,
    NVABI_NEED_PROBE = 1,
};

#define NVABI_TYPEDEF(field, symbol, need, result, args) typedef result(*nvabi_##field##_fn) args;
NVABI_FUNCS(NVABI_TYPEDEF)
#undef NVABI_TYPEDEF

/* Filled by a loader with dlsym, NULL where the library lacks the symbol. */
struct nvabi_calls {
#define NVABI_MEMBER(field, symbol, need, result, args) nvabi_##field##_fn field;
    NVABI_FUNCS(NVABI_MEMBER)
#undef NVABI_MEMBER
};

#endif
