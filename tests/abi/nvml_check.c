/* SPDX-License-Identifier: Apache-2.0 */
/* Compile-time proof that proto/abi/nvml_abi.h equals the installed nvml.h, see cuda_check.c. */
#include <nvml.h>
#include <stddef.h>

#define NVABI_CHECK
#include "proto/abi/nvml_abi.h"

#define SAME_TYPE(a, b) __builtin_types_compatible_p(a, b)

#define EXPANDED(symbol) #symbol
#define CHECK_FUNC(field, symbol, need, result, args)                                              \
    _Static_assert(SAME_TYPE(__typeof__(&symbol), nvabi_##field##_fn),                             \
                   #symbol ": prototype differs from nvml.h");                                     \
    _Static_assert(sizeof(EXPANDED(symbol)) == sizeof(#symbol),                                    \
                   #symbol ": nvml.h renames this symbol with a macro");
NVABI_FUNCS(CHECK_FUNC)

#define CHECK_VALUE(name, value)                                                                   \
    _Static_assert((int)NVML_##name == (value), "NVML_" #name ": value differs from nvml.h");
NVABI_RESULTS(CHECK_VALUE)
NVABI_CONSTS(CHECK_VALUE)

_Static_assert(SAME_TYPE(nvmlReturn_t, unsigned int), "nvmlReturn_t");
_Static_assert(SAME_TYPE(nvmlDevice_t, struct nvmlDevice_st *), "nvmlDevice_t");
_Static_assert(nvmlMemory_v2 == NVABI_MEMORY_V2, "the version word of nvmlMemory_v2_t differs");
_Static_assert((unsigned long long)NVML_VALUE_NOT_AVAILABLE == NVABI_VALUE_NOT_AVAILABLE,
               "NVML_VALUE_NOT_AVAILABLE differs");

#define CHECK_SIZE(tag)                                                                            \
    _Static_assert(sizeof(struct tag) == sizeof(struct nvabi_check_##tag), #tag ": size")
#define CHECK_MEMBER(tag, member)                                                                  \
    _Static_assert(offsetof(struct tag, member) == offsetof(struct nvabi_check_##tag, member) &&   \
                       sizeof(((struct tag *)0)->member) ==                                        \
                           sizeof(((struct nvabi_check_##tag *)0)->member),                        \
                   #tag "." #member ": place or size differs from nvml.h")

CHECK_SIZE(nvmlMemory_st);
CHECK_MEMBER(nvmlMemory_st, total);
CHECK_MEMBER(nvmlMemory_st, free);
CHECK_MEMBER(nvmlMemory_st, used);
CHECK_SIZE(nvmlMemory_v2_st);
CHECK_MEMBER(nvmlMemory_v2_st, version);
CHECK_MEMBER(nvmlMemory_v2_st, total);
CHECK_MEMBER(nvmlMemory_v2_st, reserved);
CHECK_MEMBER(nvmlMemory_v2_st, free);
CHECK_MEMBER(nvmlMemory_v2_st, used);
CHECK_SIZE(nvmlPciInfo_st);
CHECK_MEMBER(nvmlPciInfo_st, busIdLegacy);
CHECK_MEMBER(nvmlPciInfo_st, domain);
CHECK_MEMBER(nvmlPciInfo_st, bus);
CHECK_MEMBER(nvmlPciInfo_st, device);
CHECK_MEMBER(nvmlPciInfo_st, pciDeviceId);
CHECK_MEMBER(nvmlPciInfo_st, pciSubSystemId);
CHECK_MEMBER(nvmlPciInfo_st, busId);
CHECK_SIZE(nvmlProcessInfo_v2_st);
CHECK_MEMBER(nvmlProcessInfo_v2_st, pid);
CHECK_MEMBER(nvmlProcessInfo_v2_st, usedGpuMemory);
CHECK_MEMBER(nvmlProcessInfo_v2_st, gpuInstanceId);
CHECK_MEMBER(nvmlProcessInfo_v2_st, computeInstanceId);
