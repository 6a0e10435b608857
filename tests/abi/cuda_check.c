/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compile-time proof that proto/abi/cuda_abi.h equals the installed cuda.h: it is compiled with
 * -fsyntax-only by tests/abi/check.sh and never linked.
 */
#include <cuda.h>
#include <stddef.h>

#define CUABI_CHECK
#include "proto/abi/cuda_abi.h"

#define SAME_TYPE(a, b) __builtin_types_compatible_p(a, b)

/*
 * The second assertion fails if cuda.h turns the symbol into another one with a macro: then the
 * first has compared the wrong prototype. The two strings differ in length, for such a macro
 * appends a suffix.
 */
#define EXPANDED(symbol) #symbol
#define CHECK_FUNC(field, symbol, since, need, args)                                               \
    _Static_assert(SAME_TYPE(__typeof__(&symbol), cuabi_##field##_fn),                             \
                   #symbol ": prototype differs from cuda.h");                                     \
    _Static_assert(sizeof(EXPANDED(symbol)) == sizeof(#symbol),                                    \
                   #symbol ": cuda.h renames this symbol with a macro");
CUABI_FUNCS(CHECK_FUNC)

#define CHECK_RESULT(name, value, class)                                                           \
    _Static_assert((int)CUDA_##name == (value), "CUDA_" #name ": value differs from cuda.h");
CUABI_RESULTS(CHECK_RESULT)

#define CHECK_CONST(name, value)                                                                   \
    _Static_assert((int)CU_##name == (value), "CU_" #name ": value differs from cuda.h");
CUABI_CONSTS(CHECK_CONST)

_Static_assert(SAME_TYPE(CUdeviceptr, unsigned long long), "CUdeviceptr");
_Static_assert(SAME_TYPE(CUdevice, int), "CUdevice");
_Static_assert(SAME_TYPE(CUresult, unsigned int), "CUresult");
_Static_assert(SAME_TYPE(CUcontext, struct CUctx_st *), "CUcontext");
_Static_assert(SAME_TYPE(CUstream, struct CUstream_st *), "CUstream");
_Static_assert(SAME_TYPE(CUevent, struct CUevent_st *), "CUevent");
_Static_assert(SAME_TYPE(CUmemoryPool, struct CUmemPoolHandle_st *), "CUmemoryPool");
_Static_assert(SAME_TYPE(CUhostFn, cuabi_host_fn), "CUhostFn");

#define CHECK_SIZE(tag)                                                                            \
    _Static_assert(sizeof(struct tag) == sizeof(struct cuabi_check_##tag), #tag ": size")
#define CHECK_MEMBER(tag, member)                                                                  \
    _Static_assert(offsetof(struct tag, member) == offsetof(struct cuabi_check_##tag, member) &&   \
                       sizeof(((struct tag *)0)->member) ==                                        \
                           sizeof(((struct cuabi_check_##tag *)0)->member),                        \
                   #tag "." #member ": place or size differs from cuda.h")

CHECK_SIZE(CUuuid_st);
CHECK_MEMBER(CUuuid_st, bytes);
CHECK_SIZE(CUmemLocation_st);
CHECK_MEMBER(CUmemLocation_st, type);
CHECK_MEMBER(CUmemLocation_st, id);
CHECK_SIZE(CUmemPoolProps_st);
CHECK_MEMBER(CUmemPoolProps_st, allocType);
CHECK_MEMBER(CUmemPoolProps_st, handleTypes);
CHECK_MEMBER(CUmemPoolProps_st, location);
CHECK_MEMBER(CUmemPoolProps_st, win32SecurityAttributes);
CHECK_MEMBER(CUmemPoolProps_st, maxSize);
CHECK_MEMBER(CUmemPoolProps_st, usage);
