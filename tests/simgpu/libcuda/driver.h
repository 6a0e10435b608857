/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the simulated libcuda share: the objects behind the opaque handles, the one
 * lock, and the way into a call.
 *
 * driver_lock() guards everything in this header. The ledger has its own lock, which is taken
 * inside it and never the other way round. No call sleeps with either held, but for
 * stream_drain(), which waits on the condition of driver_lock().
 */
#ifndef TESTS_SIMGPU_LIBCUDA_DRIVER_H
#define TESTS_SIMGPU_LIBCUDA_DRIVER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/abi/cuda_abi.h"
#include "tests/simgpu/shared/ledger.h"

/* The exported functions, declared from the ABI table: a definition of another type does not
 * compile, so simulated driver, table and (tests/abi) the real cuda.h are the same. */
#define DRIVER_EXPORT(field, symbol, since, need, args)                                            \
    __attribute__((visibility("default"))) unsigned int symbol args;
CUABI_FUNCS(DRIVER_EXPORT)
#undef DRIVER_EXPORT

#define DRIVER_GRANULE ((uint64_t)2 << 20) /* the driver maps device memory by 2 MiB */

/* The primary context of a device. The handle outlives what it stands for. */
struct CUctx_st {
    unsigned int device; /* index in the ledger */
    unsigned int refs;
    int is_alive;
    uint32_t generation;  /* of the device when the context was made */
    uint64_t cost_bytes;  /* charged for the context itself */
    uint64_t small_bytes; /* allocations below a granule share granules */
};

enum block_state {
    BLOCK_FREE,
    BLOCK_USED,
    BLOCK_PENDING, /* freed in stream order: usable on its stream, elsewhere once that ran */
};

struct block {
    uint64_t offset_bytes;
    uint64_t bytes;
    enum block_state state;
    struct CUstream_st *stream; /* pending: where it was freed */
    uint64_t sequence;          /* pending: the operation that frees it */
    struct block *next;
};

/* A piece of device memory that a pool has reserved, cut into blocks. */
struct chunk {
    uint64_t address;
    uint64_t bytes;
    char *backing; /* contents, NULL until something is copied */
    struct block *blocks;
    struct chunk *next;
};

struct CUmemPoolHandle_st {
    unsigned int device;
    int is_exportable; /* such a pool never gives memory back */
    uint64_t threshold_bytes;
    uint64_t max_bytes; /* 0: no limit */
    uint64_t reserved_bytes;
    uint64_t reserved_high_bytes;
    uint64_t used_bytes;
    uint64_t used_high_bytes;
    struct chunk *chunks;
    struct CUmemPoolHandle_st *next;
};

struct CUevent_st {
    struct CUevent_st *next; /* driver.events */
    uint64_t recorded;       /* number of the newest record */
    uint64_t completed;
    unsigned int refs;
    struct CUstream_st *stream; /* of the newest record, and its operation there */
    uint64_t sequence;
};

struct driver {
    struct ledger *ledger;
    int init_pid; /* who called cuInit: nobody else may call anything */
    int is_exiting;
    unsigned int sticky_result; /* what a planted sticky fault left */
    unsigned int visible_count;
    unsigned int visible[LEDGER_DEVICES_MAX]; /* CUDA ordinal -> index in the ledger */
    struct CUctx_st contexts[LEDGER_DEVICES_MAX];
    struct CUmemPoolHandle_st default_pools[LEDGER_DEVICES_MAX];
    struct CUmemPoolHandle_st *pools; /* those made with cuMemPoolCreate */
    struct CUevent_st *events;        /* all: a driver knows them also when their owner cannot */
};

extern struct driver driver;

void driver_lock(void);
void driver_unlock(void);

/* Waits for, and tells of, progress on any stream. The lock must be held. */
void driver_wait(void);
void driver_notify(void);

/* ---- call.c: the way into each call ---- */

enum call_needs {
    CALL_NEEDS_NOTHING,
    CALL_NEEDS_INIT,
    CALL_NEEDS_CONTEXT, /* a live one, current on this thread */
};

/* To be called first, without the lock, with the name of the exported symbol. Anything but
 * CUABI_SUCCESS must be returned to the caller at once. */
unsigned int call_enter(const char *symbol, enum call_needs needs);

/* Maps the ledger if that has not been done; NULL without one. */
struct ledger *call_ledger(void);

/* An environment switch: bytes or a plain number, with the default. */
uint64_t call_switch(const char *name, uint64_t fallback);

/* A device number of the caller as an index in the ledger, or CUABI_ERROR_INVALID_DEVICE. */
unsigned int call_device(int ordinal, unsigned int *ret_device);

/* ---- context.c ---- */

/* The context on top of this thread's stack, or NULL. */
struct CUctx_st *context_current(void);

/* ---- memory.c: the ledger, and addresses ---- */

/* CUABI_SUCCESS or CUABI_ERROR_OUT_OF_MEMORY; memory_charge_trimming gives what the process's own
 * pools can spare back before it refuses. */
unsigned int memory_charge(unsigned int device, uint64_t bytes);
unsigned int memory_charge_trimming(unsigned int device, uint64_t bytes);
void memory_refund(unsigned int device, uint64_t bytes);

/* A device address that nothing else has and that faults when the host touches it. */
uint64_t memory_new_address(uint64_t bytes);

/* Where the contents of this device memory are on the host, made at the first use; NULL if the
 * range is not one allocation's. */
char *memory_contents(uint64_t address, uint64_t bytes);
char *memory_back(char **backing, uint64_t bytes);

/* Frees all allocations of a context that ends. */
void memory_end_context(struct CUctx_st *context);

/* ---- pool.c ---- */

unsigned int pool_alloc(struct CUmemPoolHandle_st *pool, uint64_t bytes, struct CUstream_st *stream,
                        uint64_t *ret_address);
unsigned int pool_free(uint64_t address, struct CUstream_st *stream);
void pool_trim(struct CUmemPoolHandle_st *pool, uint64_t keep_bytes);
void pool_trim_all(unsigned int device);
void pool_release_all(struct CUmemPoolHandle_st *pool);
char *pool_contents(uint64_t address, uint64_t bytes);

/* The host has waited for the device: pools shrink to their thresholds. */
void pool_after_sync(unsigned int device);

/* The operation that frees the block has run. */
void pool_freed(struct CUmemPoolHandle_st *pool, struct block *block, uint64_t sequence);

/* Blocks freed on a stream that goes away are simply free. */
void pool_forget_stream(const struct CUstream_st *stream);

/* ---- host.c ---- */

/* Is this host memory page-locked by us? Then copies read it late. */
int host_is_pinned(const void *address, size_t bytes);

/* ---- stream.c ---- */

/* The stream itself, or the current context's own stream for NULL. */
struct CUstream_st *stream_resolve(struct CUstream_st *stream);
unsigned int stream_device(const struct CUstream_st *stream);

/* Waits until the operation has run, and notes that the host knows. */
void stream_drain(struct CUstream_st *stream, uint64_t sequence);
void stream_drain_device(unsigned int device);
void stream_drain_all(void);
int stream_has_run(const struct CUstream_st *stream, uint64_t sequence);
int stream_was_observed(const struct CUstream_st *stream, uint64_t sequence);
void stream_observe(struct CUstream_st *stream, uint64_t sequence);

/* Append an operation; return its number on the stream. */
uint64_t stream_push_copy(struct CUstream_st *stream, char *to, const char *from, char *staged,
                          size_t bytes);
uint64_t stream_push_free(struct CUstream_st *stream, struct CUmemPoolHandle_st *pool,
                          struct block *block);
/* One use of it is over; the last frees it. With the driver's lock held. */
void event_drop(struct CUevent_st *event);

uint64_t stream_push_record(struct CUstream_st *stream, struct CUevent_st *event);
uint64_t stream_push_wait(struct CUstream_st *stream, struct CUevent_st *event);

#endif
