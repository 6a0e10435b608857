/* SPDX-License-Identifier: Apache-2.0 */
/* libdlo-client-cuda: the CUDA side of a worker, for programs on the Driver API. Three parts:
 *
 *     dlo_cuda    the driver, loaded with dlopen, and the worker's own context
 *     dlo_cache   an allocator cache that asks dlod at component boundaries, releases where the
 *                 answer says so, and reports what that gave back: a driver memory pool (the pool
 *                 adapter), or any other allocator through two callbacks (the hook)
 *     dlo_stager  a group of weights in page-locked host memory that are copied to the device while
 *                 their component runs (R15 to R19 of docs/policy.md)
 *
 * A worker opens them in this order, and closes them in the other:
 *
 *     dlo_cuda_open(NULL, &cuda);            its context must exist already
 *     dlo_cuda_uuid(cuda, uuid);             options.gpu_uuid = uuid;
 *     dlo_open(&options, &client);           options.read_memory = dlo_cuda_read_memory, cuda
 *     dlo_cache_open_pool(cuda, client, NULL, &cache);
 *     dlo_stager_new(cuda, cache, &stager_options, &stager);
 *
 * Results: 0; negative, one of DLO_ERR_* of dlo.h; positive, a CUresult of the driver, unchanged.
 * dlo_cuda_last_error has the sentence. Trouble with dlod is never among them: the policy then runs
 * in this process (R28).
 * Context: each call pushes the worker's context and pops it again; the current context of the
 * thread is never replaced. The library never creates a context.
 * After an error that ends the context (DLO_CUDA_CLASS_DEAD) no driver call is made any more:
 * everything fails with that same result, and views stay on their host masters.
 * Threads: any, and no call needs the same thread as another. One dlo_cuda or dlo_cache may be used
 * by several threads at once; one dlo_stager by one thread at a time. Never call this library from
 * a callback of cuLaunchHostFunc.
 * Fork: in the child of a fork there is no CUDA. Calls return DLO_ERR_FORKED and change nothing;
 * closing frees the child's heap alone.
 * Ownership, growth of structs (`size` first) and numbers: as in dlo.h. */
#ifndef DLO_DLO_CUDA_H
#define DLO_DLO_CUDA_H

#include <dlo/dlo.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dlo_cuda;
struct dlo_cache;
struct dlo_stager;

/* ---- the driver and the worker's context ---- */

/* Start from DLO_CUDA_OPTIONS_INIT. */
struct dlo_cuda_options {
    size_t size;
    void *context;  /* CUcontext, borrowed until dlo_cuda_close; NULL: the one that is current on
                       this thread, else the primary context of `device` where it is active */
    int32_t device; /* ordinal, only where no context is given or current */
    int32_t unused; /* 0 */
    dlo_log_fn log; /* failures while cleaning up after another one, at DEBUG; NULL: silent */
    void *log_arg;
};

#define DLO_CUDA_OPTIONS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct dlo_cuda_options), NULL, 0, 0, NULL, NULL                                    \
    }

/* Loads libcuda.so.1 ($DLO_LIBCUDA names another file) and takes the worker's context.
 * options may be NULL. Errors: DLO_ERR_IO (no driver), DLO_ERR_UNSUPPORTED (the driver lacks a
 * call), DLO_ERR_BAD_STATE (there is no context yet: make one first, this library will not),
 * DLO_ERR_INVALID, DLO_ERR_NO_MEMORY, or the driver's. Blocks: as long as cuInit does. */
DLO_API int32_t dlo_cuda_open(const struct dlo_cuda_options *options, struct dlo_cuda **ret);

/* NULL is fine. Caches and stagers made with it must be gone. A primary context that dlo_cuda_open
 * took is given back. The driver stays loaded. */
DLO_API void dlo_cuda_close(struct dlo_cuda *cuda);

#define DLO_CUDA_UUID_SIZE 48

/* "GPU-..." of the context's device; of a MIG instance "MIG-...", for dlo_options.gpu_uuid.
 * Errors: DLO_ERR_UNSUPPORTED (drivers before 11.4), DLO_ERR_FORKED, or the driver's. */
DLO_API int32_t dlo_cuda_uuid(struct dlo_cuda *cuda, char ret[DLO_CUDA_UUID_SIZE]);

/* Device memory as this context sees it: a dlo_read_memory_fn whose argument is the struct
 * dlo_cuda. On a device whose memory is the host's, free is what /proc/meminfo could give (R11b).
 * 0, or not 0 where it cannot be read; then nothing is written. */
DLO_API int32_t dlo_cuda_read_memory(void *cuda, uint64_t *ret_free, uint64_t *ret_total);

/* What a result of the driver means for its process (reasons from cuda.h's own texts). */
enum {
    DLO_CUDA_CLASS_OK = 0,
    DLO_CUDA_CLASS_PRESSURE = 1, /* out of memory: release, then one retry */
    DLO_CUDA_CLASS_RETRY = 2,    /* not now: exclusive mode, fabric manager, MPS */
    DLO_CUDA_CLASS_CONTEXT = 3,  /* the context is gone, the process is fine */
    DLO_CUDA_CLASS_DEAD = 4,     /* the process must end and be started again */
    DLO_CUDA_CLASS_NEVER = 5,    /* no use of the driver in this process: forked, stub, mismatch */
    DLO_CUDA_CLASS_OTHER = 6     /* this call failed, and nothing more is known */
};
DLO_API int32_t dlo_cuda_error_class(int32_t result);

/* The sentence of this thread's last failed call of this library, "" before the first. Valid until
 * the thread's next one. */
DLO_API const char *dlo_cuda_last_error(void);

/* ---- caches ---- */

/* Any allocator. Both callbacks return 0 or a CUresult or an error of the host (> 0), are called on
 * the thread that is inside dlo_cache_boundary or a stager's call, with the cache unlocked, and
 * must not call this library with the same cache. */
struct dlo_hook {
    size_t size;
    void *arg;
    /* What the allocator holds from the driver, and what of it is in use, in bytes. */
    int32_t (*read)(void *arg, uint64_t *ret_reserved, uint64_t *ret_allocated);
    /* Gives back what is not in use (cudaMemPoolTrimTo, torch.cuda.empty_cache, ...). */
    int32_t (*release)(void *arg);
};

#define DLO_HOOK_INIT                                                                              \
    {                                                                                              \
        sizeof(struct dlo_hook), NULL, NULL, NULL                                                  \
    }

/* Which driver pool. Start from DLO_POOL_INIT: a pool of our own. */
struct dlo_pool {
    size_t size;
    void *pool;          /* CUmemoryPool, borrowed until dlo_cache_close; NULL: see use_default */
    int32_t use_default; /* 1: the device's default pool, which others of the process share */
    int32_t exportable;  /* 1: make ours shareable by file descriptor. Such a pool never gives
                            memory back and is reported as not releasable */
};

#define DLO_POOL_INIT                                                                              \
    {                                                                                              \
        sizeof(struct dlo_pool), NULL, 0, 0                                                        \
    }

/* What is known of a cache. Numbers that were not read are DLO_MISSING. */
struct dlo_cache_state {
    size_t size;
    uint64_t reserved;      /* now, bytes */
    uint64_t allocated;     /* now, bytes */
    uint64_t releasable;    /* 0 where a release gives nothing back, else DLO_MISSING (not known) */
    uint64_t reserved_high; /* the most since the boundary before; pools only */
    uint64_t allocated_high; /* the same */
    uint64_t threshold;      /* the pool's release threshold now; pools only */
    uint64_t releases;       /* done through this cache */
    uint64_t empty_releases; /* of these, such that gave back less than 1/20 of what was cached */
    uint64_t released_bytes; /* given back by the last release: reserved before minus after */
    uint64_t residue;        /* cached right after it */
    uint64_t release_us;     /* how long it took */
};

#define DLO_CACHE_STATE_INIT                                                                       \
    {                                                                                              \
        sizeof(struct dlo_cache_state), DLO_MISSING, DLO_MISSING, DLO_MISSING, DLO_MISSING,        \
            DLO_MISSING, DLO_MISSING, 0, 0, DLO_MISSING, DLO_MISSING, DLO_MISSING                  \
    }

/* A cache over an allocator of the host. client is borrowed until dlo_cache_close and should serve
 * this cache alone; NULL: no policy, every boundary releases (R19). cuda may be NULL: then no
 * driver is needed at all. hook is copied. Errors: DLO_ERR_INVALID, DLO_ERR_NO_MEMORY. */
DLO_API int32_t dlo_cache_open_hook(struct dlo_cuda *cuda, struct dlo_client *client,
                                    const struct dlo_hook *hook, struct dlo_cache **ret);

/* A cache over a driver memory pool, for stagers and for the worker's own cuMemAllocFromPoolAsync.
 * The pool's release threshold is set to what is used plus the cap, now and after each answer, so
 * that the cap holds between boundaries and without dlod; never to the budget, or the driver would
 * trim what the policy must see in order to learn. The threshold of a pool that is not ours is put
 * back by dlo_cache_close. In mode off, and with client NULL, it is not touched.
 * pool may be NULL for DLO_POOL_INIT. Errors: DLO_ERR_UNSUPPORTED (the device has no pools),
 * DLO_ERR_INVALID, DLO_ERR_NO_MEMORY, DLO_ERR_FORKED, or the driver's. */
DLO_API int32_t dlo_cache_open_pool(struct dlo_cuda *cuda, struct dlo_client *client,
                                    const struct dlo_pool *pool, struct dlo_cache **ret);

/* NULL is fine. A pool of ours is destroyed; what is still allocated from it lives on until it is
 * freed. */
DLO_API void dlo_cache_close(struct dlo_cache *cache);

/* CUmemoryPool of a pool cache, else NULL; valid until dlo_cache_close. */
DLO_API void *dlo_cache_pool(const struct dlo_cache *cache);

/* A component boundary (R4 to R8): reads the allocator, asks, releases where the answer says so,
 * and reports what that gave back and took (R26). Call it on the worker's own thread after its own
 * synchronize. component may be NULL. force: DLO_FORCE_*, 0 to ask. A forced release is done first
 * and told afterwards, and never waits for dlod. In modes shadow and off, and without a client, the
 * cache releases: what it does without dlod (R19, R30). ret may be NULL; else set its size first.
 * Errors: DLO_ERR_INVALID, DLO_ERR_FORKED, or what release returned; ret is filled before the
 * release. An allocator that cannot be read is not an error: the answer is RELEASE (R6).
 * Blocks: the deadline of the client, plus the release. */
DLO_API int32_t dlo_cache_boundary(struct dlo_cache *cache, const char *component, int32_t force,
                                   struct dlo_answer *ret);

/* Reads the cache. Set ret->size first. Errors: DLO_ERR_INVALID, DLO_ERR_FORKED. */
DLO_API int32_t dlo_cache_read(struct dlo_cache *cache, struct dlo_cache_state *ret);

/* ---- stagers ---- */

/* Where the host master of a storage lives. */
enum {
    DLO_MASTER_COPIED = 0,    /* copied into one page-locked slab of the stager, 512 bytes aligned:
                                 the fastest source for the copy engine */
    DLO_MASTER_REGISTERED = 1 /* stays the caller's memory, which is page-locked where it lies */
};

/* Start from DLO_STAGER_OPTIONS_INIT. */
struct dlo_stager_options {
    size_t size;
    const char *id;        /* of this stager at dlod, [A-Za-z0-9._:-]{1,63}; copied */
    const char *component; /* for log and status; NULL: the id */
    int32_t master;        /* DLO_MASTER_* */
    int32_t unused;        /* 0 */
};

#define DLO_STAGER_OPTIONS_INIT                                                                    \
    {                                                                                              \
        sizeof(struct dlo_stager_options), NULL, NULL, DLO_MASTER_COPIED, 0                        \
    }

/* An empty stager. cache is borrowed until dlo_stager_free; NULL: device memory comes from
 * cuMemAlloc, and there is nothing to ask for. With a pool cache it comes from the pool, with a
 * hook from cuMemAlloc. Errors: DLO_ERR_INVALID, DLO_ERR_NO_MEMORY, DLO_ERR_FORKED, or the
 * driver's. */
DLO_API int32_t dlo_stager_new(struct dlo_cuda *cuda, struct dlo_cache *cache,
                               const struct dlo_stager_options *options, struct dlo_stager **ret);

/* Adds a view: *slot points `offset` bytes into the storage of `bytes` bytes at `host`. Storages
 * are unique by address: a second view of the same storage shares it on the host and on the device,
 * so views that alias stay aliases. Until dlo_stager_seal *slot is not changed. Afterwards it
 * belongs to the stager, must stay valid until dlo_stager_free, and holds the address of the host
 * master or, while loaded, of the device copy at the same offset. Errors: DLO_ERR_INVALID (0 bytes,
 * an offset at or beyond the end, the same address with another size, a storage that overlaps
 * another), DLO_ERR_BAD_STATE (sealed), DLO_ERR_NO_MEMORY, DLO_ERR_OVERFLOW. */
DLO_API int32_t dlo_stager_add(struct dlo_stager *stager, void *host, uint64_t bytes,
                               uint64_t offset, void **slot);

/* Makes the page-locked masters, binds all views to them, and attaches the stager at dlod (R1).
 * After DLO_MASTER_COPIED the memory given to dlo_stager_add may be freed. The masters must not be
 * changed while the stager is loaded. An error leaves everything as it was.
 * Errors: DLO_ERR_BAD_STATE (sealed, or no view), DLO_ERR_LIMIT or DLO_ERR_OVERFLOW (by dlod's
 * quotas), DLO_ERR_NO_MEMORY, DLO_ERR_FORKED, or the driver's. */
DLO_API int32_t dlo_stager_seal(struct dlo_stager *stager);

/* Bytes of the unique storages. */
DLO_API uint64_t dlo_stager_bytes(const struct dlo_stager *stager);

/* 1 while the views are on the device. */
DLO_API int32_t dlo_stager_is_loaded(const struct dlo_stager *stager);

/* R15. Device memory for each storage, copies on the stager's own stream, and `stream` (CUstream,
 * NULL: the legacy default stream) waits for them, not the host. Loading twice does nothing.
 * R17: out of memory is undone, the cache is released, others are asked to make room (dlo_oom,
 * which says how long that may take), and the load is tried once more. R18: any other failure is
 * undone, the cache is released, and the result returned. Errors: DLO_ERR_BAD_STATE (not sealed),
 * DLO_ERR_FORKED, or the driver's; then all views are on their masters and nothing is left
 * allocated. */
DLO_API int32_t dlo_stager_load(struct dlo_stager *stager, void *stream);

/* R16. All uses of the device copies must have been put on `stream`, or before it. Waits for them
 * once, binds the views to their masters (nothing is copied back), frees the device memory, and
 * asks at the boundary (dlo_cache_boundary). Offloading twice does nothing and asks nothing. ret as
 * in dlo_cache_boundary; decision 0 where nothing was asked. Errors: DLO_ERR_BAD_STATE (not
 * sealed), DLO_ERR_FORKED, or the driver's (R18); the views are on their masters in any case. */
DLO_API int32_t dlo_stager_offload(struct dlo_stager *stager, void *stream, struct dlo_answer *ret);

/* NULL is fine. Waits for what is on the stager's stream, frees, detaches (R2), and asks nothing.
 * After DLO_MASTER_COPIED the slots are NULL: their memory is gone. */
DLO_API void dlo_stager_free(struct dlo_stager *stager);

#ifdef __cplusplus
}
#endif

#endif
