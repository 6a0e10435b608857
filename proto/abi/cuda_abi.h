/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the CUDA Driver API that dlod and its client use, declared by us, so that the
 * project builds and runs its tests where no CUDA toolkit is installed.
 *
 * It holds facts of the binary interface (symbol names, argument types, numbers) and nothing
 * else: no code, no library handle. tests/abi/check.sh compares every row with a real cuda.h
 * wherever one is installed, and the simulated driver takes its prototypes from the same table.
 *
 * Three rules keep the comparison possible:
 *   - a row names the *exported* symbol (cuMemGetInfo_v2), never the macro of cuda.h
 *     (cuMemGetInfo): the unsuffixed symbols still exist and take 32-bit sizes;
 *   - opaque handles are pointers to the vendor's own struct tags;
 *   - enum parameters and results are `unsigned int`, a device is an `int`, a device pointer is
 *     an `unsigned long long`.
 */
#ifndef DLO_PROTO_ABI_CUDA_ABI_H
#define DLO_PROTO_ABI_CUDA_ABI_H

#include <stddef.h>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;

/* Called by the driver on one of its own threads, see cuLaunchHostFunc. */
typedef void (*cuabi_host_fn)(void *user_data);

/* In the check build the real header defines these tags, so ours get another name. */
#ifdef CUABI_CHECK
#define CUABI_TAG(tag) cuabi_check_##tag
#else
#define CUABI_TAG(tag) tag
#endif

struct CUABI_TAG(CUuuid_st) {
    char bytes[16];
};

struct CUABI_TAG(CUmemLocation_st) {
    unsigned int type;
    int id;
};

struct CUABI_TAG(CUmemPoolProps_st) {
    unsigned int allocType;
    unsigned int handleTypes;
    struct CUABI_TAG(CUmemLocation_st) location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
};

/* X(name, value, class): results; cuda.h spells them CUDA_<name>. The class is what cuda.h's own
 * texts say that the result means for its process, see enum cuabi_class. */
#define CUABI_RESULTS(X)                                                                           \
    X(SUCCESS, 0, OK)                                                                              \
    X(ERROR_INVALID_VALUE, 1, OTHER)                                                               \
    X(ERROR_OUT_OF_MEMORY, 2, PRESSURE)                                                            \
    X(ERROR_NOT_INITIALIZED, 3, NEVER)                                                             \
    X(ERROR_DEINITIALIZED, 4, CONTEXT)                                                             \
    X(ERROR_STUB_LIBRARY, 34, NEVER)                                                               \
    X(ERROR_DEVICE_UNAVAILABLE, 46, RETRY)                                                         \
    X(ERROR_NO_DEVICE, 100, NEVER)                                                                 \
    X(ERROR_INVALID_DEVICE, 101, OTHER)                                                            \
    X(ERROR_INVALID_CONTEXT, 201, CONTEXT)                                                         \
    X(ERROR_ECC_UNCORRECTABLE, 214, DEAD)                                                          \
    X(ERROR_NVLINK_UNCORRECTABLE, 220, DEAD)                                                       \
    X(ERROR_CONTAINED, 226, DEAD)                                                                  \
    X(ERROR_OPERATING_SYSTEM, 304, OTHER)                                                          \
    X(ERROR_INVALID_HANDLE, 400, OTHER)                                                            \
    X(ERROR_NOT_FOUND, 500, OTHER)                                                                 \
    X(ERROR_NOT_READY, 600, OK)                                                                    \
    X(ERROR_ILLEGAL_ADDRESS, 700, DEAD)                                                            \
    X(ERROR_LAUNCH_TIMEOUT, 702, DEAD)                                                             \
    X(ERROR_PRIMARY_CONTEXT_ACTIVE, 708, OTHER)                                                    \
    X(ERROR_CONTEXT_IS_DESTROYED, 709, CONTEXT)                                                    \
    X(ERROR_ASSERT, 710, DEAD)                                                                     \
    X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, OK)                                               \
    X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, OTHER)                                                \
    X(ERROR_HARDWARE_STACK_ERROR, 714, DEAD)                                                       \
    X(ERROR_ILLEGAL_INSTRUCTION, 715, DEAD)                                                        \
    X(ERROR_MISALIGNED_ADDRESS, 716, DEAD)                                                         \
    X(ERROR_INVALID_ADDRESS_SPACE, 717, DEAD)                                                      \
    X(ERROR_INVALID_PC, 718, DEAD)                                                                 \
    X(ERROR_LAUNCH_FAILED, 719, DEAD)                                                              \
    X(ERROR_TENSOR_MEMORY_LEAK, 721, DEAD)                                                         \
    X(ERROR_NOT_PERMITTED, 800, OTHER)                                                             \
    X(ERROR_NOT_SUPPORTED, 801, OTHER)                                                             \
    X(ERROR_SYSTEM_NOT_READY, 802, RETRY)                                                          \
    X(ERROR_SYSTEM_DRIVER_MISMATCH, 803, NEVER)                                                    \
    X(ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804, NEVER)                                            \
    X(ERROR_MPS_CONNECTION_FAILED, 805, RETRY)                                                     \
    X(ERROR_MPS_RPC_FAILURE, 806, RETRY)                                                           \
    X(ERROR_MPS_SERVER_NOT_READY, 807, RETRY)                                                      \
    X(ERROR_MPS_CLIENT_TERMINATED, 810, DEAD)                                                      \
    X(ERROR_EXTERNAL_DEVICE, 911, DEAD)                                                            \
    X(ERROR_UNKNOWN, 999, OTHER)

/* X(name, value): other numbers; cuda.h spells them CU_<name>. */
#define CUABI_CONSTS(X)                                                                            \
    X(DEVICE_ATTRIBUTE_INTEGRATED, 18)                                                             \
    X(DEVICE_ATTRIBUTE_COMPUTE_MODE, 20)                                                           \
    X(DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 88)                                                 \
    X(DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 99)                                                \
    X(DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115)                                                \
    X(COMPUTEMODE_DEFAULT, 0)                                                                      \
    X(COMPUTEMODE_PROHIBITED, 2)                                                                   \
    X(COMPUTEMODE_EXCLUSIVE_PROCESS, 3)                                                            \
    X(STREAM_NON_BLOCKING, 1)                                                                      \
    X(EVENT_BLOCKING_SYNC, 1)                                                                      \
    X(EVENT_DISABLE_TIMING, 2)                                                                     \
    X(CTX_SCHED_BLOCKING_SYNC, 4)                                                                  \
    X(MEMHOSTALLOC_PORTABLE, 1)                                                                    \
    X(MEMHOSTREGISTER_PORTABLE, 1)                                                                 \
    X(MEM_ALLOCATION_TYPE_PINNED, 1)                                                               \
    X(MEM_LOCATION_TYPE_DEVICE, 1)                                                                 \
    X(MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1)                                                    \
    X(MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, 1)                                             \
    X(MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, 2)                                                   \
    X(MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, 3)                                           \
    X(MEMPOOL_ATTR_RELEASE_THRESHOLD, 4)                                                           \
    X(MEMPOOL_ATTR_RESERVED_MEM_CURRENT, 5)                                                        \
    X(MEMPOOL_ATTR_RESERVED_MEM_HIGH, 6)                                                           \
    X(MEMPOOL_ATTR_USED_MEM_CURRENT, 7)                                                            \
    X(MEMPOOL_ATTR_USED_MEM_HIGH, 8)                                                               \
    X(GRAPH_MEM_ATTR_USED_MEM_CURRENT, 0)                                                          \
    X(GRAPH_MEM_ATTR_USED_MEM_HIGH, 1)                                                             \
    X(GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, 2)                                                      \
    X(GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, 3)

/*
 * F(field, symbol, since, need, arguments)
 *   field      name of the member in struct cuabi_calls
 *   symbol     exported symbol to bind
 *   since      CUDA version that introduced it, as cuDriverGetVersion counts (11020 is 11.2)
 *   need       who cannot work without it: PROBE (telemetry), STAGER, POOL (cuMemPool adapter),
 *              or OPTIONAL (the caller must cope with NULL)
 *   arguments  parameter list; the result is always `unsigned int`, one of CUABI_RESULTS
 */
#define CUABI_FUNCS(F)                                                                             \
    F(init, cuInit, 2000, PROBE, (unsigned int))                                                   \
    F(driver_get_version, cuDriverGetVersion, 2020, PROBE, (int *))                                \
    F(get_error_name, cuGetErrorName, 6000, PROBE, (unsigned int, const char **))                  \
    F(get_error_string, cuGetErrorString, 6000, PROBE, (unsigned int, const char **))              \
    F(device_get_count, cuDeviceGetCount, 2000, PROBE, (int *))                                    \
    F(device_get, cuDeviceGet, 2000, PROBE, (int *, int))                                          \
    F(device_get_name, cuDeviceGetName, 2000, PROBE, (char *, int, int))                           \
    F(device_get_uuid, cuDeviceGetUuid_v2, 11040, OPTIONAL, (struct CUuuid_st *, int))             \
    F(device_get_pci_bus_id, cuDeviceGetPCIBusId, 4010, PROBE, (char *, int, int))                 \
    F(device_total_mem, cuDeviceTotalMem_v2, 3020, PROBE, (size_t *, int))                         \
    F(device_get_attribute, cuDeviceGetAttribute, 2000, PROBE, (int *, unsigned int, int))         \
    F(primary_ctx_retain, cuDevicePrimaryCtxRetain, 7000, PROBE, (struct CUctx_st **, int))        \
    F(primary_ctx_release, cuDevicePrimaryCtxRelease_v2, 11000, PROBE, (int))                      \
    F(primary_ctx_set_flags, cuDevicePrimaryCtxSetFlags_v2, 11000, OPTIONAL, (int, unsigned int))  \
    F(primary_ctx_get_state, cuDevicePrimaryCtxGetState, 7000, PROBE,                              \
      (int, unsigned int *, int *))                                                                \
    F(ctx_set_current, cuCtxSetCurrent, 4000, PROBE, (struct CUctx_st *))                          \
    F(ctx_get_current, cuCtxGetCurrent, 4000, PROBE, (struct CUctx_st **))                         \
    F(ctx_push_current, cuCtxPushCurrent_v2, 4000, STAGER, (struct CUctx_st *))                    \
    F(ctx_pop_current, cuCtxPopCurrent_v2, 4000, STAGER, (struct CUctx_st **))                     \
    F(ctx_get_device, cuCtxGetDevice, 2000, STAGER, (int *))                                       \
    F(ctx_synchronize, cuCtxSynchronize, 2000, STAGER, (void))                                     \
    F(mem_get_info, cuMemGetInfo_v2, 3020, PROBE, (size_t *, size_t *))                            \
    F(mem_alloc, cuMemAlloc_v2, 3020, STAGER, (unsigned long long *, size_t))                      \
    F(mem_free, cuMemFree_v2, 3020, STAGER, (unsigned long long))                                  \
    F(mem_host_alloc, cuMemHostAlloc, 2020, STAGER, (void **, size_t, unsigned int))               \
    F(mem_free_host, cuMemFreeHost, 2000, STAGER, (void *))                                        \
    F(mem_host_register, cuMemHostRegister_v2, 6050, STAGER, (void *, size_t, unsigned int))       \
    F(mem_host_unregister, cuMemHostUnregister, 4000, STAGER, (void *))                            \
    F(memcpy_htod_async, cuMemcpyHtoDAsync_v2, 3020, STAGER,                                       \
      (unsigned long long, const void *, size_t, struct CUstream_st *))                            \
    F(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2, 3020, STAGER,                                       \
      (void *, unsigned long long, size_t, struct CUstream_st *))                                  \
    F(stream_create, cuStreamCreate, 2000, STAGER, (struct CUstream_st **, unsigned int))          \
    F(stream_destroy, cuStreamDestroy_v2, 4000, STAGER, (struct CUstream_st *))                    \
    F(stream_synchronize, cuStreamSynchronize, 2000, STAGER, (struct CUstream_st *))               \
    F(stream_query, cuStreamQuery, 2000, STAGER, (struct CUstream_st *))                           \
    F(stream_wait_event, cuStreamWaitEvent, 3020, STAGER,                                          \
      (struct CUstream_st *, struct CUevent_st *, unsigned int))                                   \
    F(launch_host_func, cuLaunchHostFunc, 10000, OPTIONAL,                                         \
      (struct CUstream_st *, cuabi_host_fn, void *))                                               \
    F(event_create, cuEventCreate, 2000, STAGER, (struct CUevent_st **, unsigned int))             \
    F(event_destroy, cuEventDestroy_v2, 4000, STAGER, (struct CUevent_st *))                       \
    F(event_record, cuEventRecord, 2000, STAGER, (struct CUevent_st *, struct CUstream_st *))      \
    F(event_query, cuEventQuery, 2000, STAGER, (struct CUevent_st *))                              \
    F(event_synchronize, cuEventSynchronize, 2000, STAGER, (struct CUevent_st *))                  \
    F(device_get_default_mem_pool, cuDeviceGetDefaultMemPool, 11020, POOL,                         \
      (struct CUmemPoolHandle_st **, int))                                                         \
    F(device_get_mem_pool, cuDeviceGetMemPool, 11020, POOL, (struct CUmemPoolHandle_st **, int))   \
    F(mem_pool_create, cuMemPoolCreate, 11020, POOL,                                               \
      (struct CUmemPoolHandle_st **, const struct CUmemPoolProps_st *))                            \
    F(mem_pool_destroy, cuMemPoolDestroy, 11020, POOL, (struct CUmemPoolHandle_st *))              \
    F(mem_pool_get_attribute, cuMemPoolGetAttribute, 11020, POOL,                                  \
      (struct CUmemPoolHandle_st *, unsigned int, void *))                                         \
    F(mem_pool_set_attribute, cuMemPoolSetAttribute, 11020, POOL,                                  \
      (struct CUmemPoolHandle_st *, unsigned int, void *))                                         \
    F(mem_pool_trim_to, cuMemPoolTrimTo, 11020, POOL, (struct CUmemPoolHandle_st *, size_t))       \
    F(mem_alloc_async, cuMemAllocAsync, 11020, POOL,                                               \
      (unsigned long long *, size_t, struct CUstream_st *))                                        \
    F(mem_alloc_from_pool_async, cuMemAllocFromPoolAsync, 11020, POOL,                             \
      (unsigned long long *, size_t, struct CUmemPoolHandle_st *, struct CUstream_st *))           \
    F(mem_free_async, cuMemFreeAsync, 11020, POOL, (unsigned long long, struct CUstream_st *))     \
    F(device_get_graph_mem_attribute, cuDeviceGetGraphMemAttribute, 11040, OPTIONAL,               \
      (int, unsigned int, void *))                                                                 \
    F(device_graph_mem_trim, cuDeviceGraphMemTrim, 11040, OPTIONAL, (int))

#define CUABI_ENUMERATOR(name, value, ...) CUABI_##name = (value),
enum cuabi_result { CUABI_RESULTS(CUABI_ENUMERATOR) };
enum cuabi_const { CUABI_CONSTS(CUABI_ENUMERATOR) };
#undef CUABI_ENUMERATOR

enum cuabi_class {
    CUABI_CLASS_OK,       /* not an error: not ready yet, registered already */
    CUABI_CLASS_PRESSURE, /* out of memory */
    CUABI_CLASS_RETRY,    /* not now: exclusive mode, fabric manager, MPS */
    CUABI_CLASS_CONTEXT,  /* the context is gone, the process is fine */
    CUABI_CLASS_DEAD,     /* the state is inconsistent: the process must be started again */
    CUABI_CLASS_NEVER,    /* no use of the driver in this process: forked, stub, mismatch */
    CUABI_CLASS_OTHER,    /* nothing more is known: 999 and 304 after a resume, too */
};

/* A set of these says which rows a caller cannot do without. */
enum cuabi_need {
    CUABI_NEED_OPTIONAL = 0,
    CUABI_NEED_PROBE = 1,
    CUABI_NEED_STAGER = 2,
    CUABI_NEED_POOL = 4,
};

#define CUABI_TYPEDEF(field, symbol, since, need, args)                                            \
    typedef unsigned int(*cuabi_##field##_fn) args;
CUABI_FUNCS(CUABI_TYPEDEF)
#undef CUABI_TYPEDEF

/* Filled by a loader with dlsym, NULL where the driver lacks the symbol. */
struct cuabi_calls {
#define CUABI_MEMBER(field, symbol, since, need, args) cuabi_##field##_fn field;
    CUABI_FUNCS(CUABI_MEMBER)
#undef CUABI_MEMBER
};

#endif
