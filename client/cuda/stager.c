/* SPDX-License-Identifier: Apache-2.0 */
/* R15 to R19. A storage is a run of host memory that is copied as one; a view is a slot of the host
 * program that points into one. Device pointers are held in host variables of pointer type, as CUDA
 * programs do. Whatever fails, the views end on their masters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cuda/pool.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/limits.h"
#include "proto/base/name.h"

/* The copy engine read 37 GB/s from a source 64 bytes off and 56.6 GB/s from an aligned one
 * (LMCache pull request 4418). */
#define SLAB_ALIGN 512u

#define STAGER_VIEWS_MAX (1u << 20) /* a model has some thousand tensors */

struct storage {
    char *host;   /* as given; not used once there is a copied master */
    char *master; /* page-locked, NULL until sealed */
    uint64_t bytes;
    unsigned long long device; /* 0: not allocated */
    bool is_registered;        /* by us, to be undone */
};

struct view {
    void **slot;
    size_t storage; /* index */
    uint64_t offset;
};

struct dlo_stager {
    struct dlo_cuda *cuda;
    struct dlo_cache *cache; /* NULL: nothing to ask for */
    struct CUmemPoolHandle_st *pool;
    uint32_t generation;
    char id[LIMIT_NAME_SIZE], component[LIMIT_NAME_SIZE];
    int32_t master_kind;
    struct storage *storages;
    struct view *views;
    size_t storage_count, view_count;
    uint64_t bytes;
    void *slab;
    struct CUstream_st *copy;
    struct CUevent_st *ready; /* the copies are there */
    struct CUevent_st *idle;  /* the compute stream is done with them */
    bool is_sealed, is_loaded, is_attached;
};

static int invalid(const char *what)
{
    return driver_fail(ERR_INVALID, "%s", what);
}

static bool name_ok(const char *name)
{
    return name_valid(name, strnlen(name, LIMIT_NAME_SIZE));
}

static bool is_inherited(const struct dlo_stager *s)
{
    return driver_is_inherited(s->generation);
}

static struct dlo_client *client_of(const struct dlo_stager *s)
{
    return s->cache ? s->cache->client : NULL;
}

/* ---- building one ---- */

int32_t dlo_stager_new(struct dlo_cuda *cuda, struct dlo_cache *cache,
                       const struct dlo_stager_options *options, struct dlo_stager **ret)
{
    struct dlo_stager_options o = DLO_STAGER_OPTIONS_INIT;
    struct dlo_stager *s;

    if (!cuda || !ret || !driver_take(&o, sizeof(o), options))
        return invalid("dlo_stager_new: a pointer is NULL, or options has no size");
    if (!o.id || !name_ok(o.id))
        return invalid("dlo_stager_new: id must be [A-Za-z0-9._:-]{1,63}");
    if (o.component && !name_ok(o.component))
        return invalid("dlo_stager_new: component must be [A-Za-z0-9._:-]{1,63}");
    if (o.master != DLO_MASTER_COPIED && o.master != DLO_MASTER_REGISTERED)
        return invalid("dlo_stager_new: master must be one of DLO_MASTER_*");
    s = calloc(1, sizeof(*s));
    if (!s || driver_generation(&s->generation) < 0) {
        free(s);
        return driver_fail(ERR_NO_MEMORY, "dlo_stager_new: %s", error_text(ERR_NO_MEMORY));
    }
    s->cuda = cuda;
    s->cache = cache;
    s->pool = pool_of_cache(cache);
    s->master_kind = o.master;
    strcpy(s->id, o.id); /* name_ok bounds both */
    strcpy(s->component, o.component ? o.component : o.id);
    *ret = s;
    return 0;
}

/* Room for one more element, in steps of a power of two. */
static bool grow(void **array, size_t count, size_t element_size)
{
    void *larger;

    if (count & (count - 1)) /* not full */
        return true;
    larger = reallocarray(*array, count ? 2 * count : 1, element_size);
    if (!larger)
        return false;
    *array = larger;
    return true;
}

/* The storage at host, which is made where there is none yet. */
static int find_storage(struct dlo_stager *s, char *host, uint64_t bytes, size_t *ret)
{
    uint64_t sum;

    for (size_t i = s->storage_count; i-- > 0;) {
        const struct storage *g = &s->storages[i];

        if (g->host == host && g->bytes == bytes) {
            *ret = i;
            return 0;
        }
        if (host < g->host + g->bytes && g->host < host + bytes)
            return invalid("dlo_stager_add: the storage overlaps another one, or has another size");
    }
    if (__builtin_add_overflow(s->bytes, bytes, &sum) || sum > SIZE_MAX / 2)
        return driver_fail(ERR_OVERFLOW, "dlo_stager_add: %s", error_text(ERR_OVERFLOW));
    if (!grow((void **)&s->storages, s->storage_count, sizeof(*s->storages)))
        return driver_fail(ERR_NO_MEMORY, "dlo_stager_add: %s", error_text(ERR_NO_MEMORY));
    s->storages[s->storage_count] = (struct storage){.host = host, .bytes = bytes};
    s->bytes = sum;
    *ret = s->storage_count++;
    return 0;
}

int32_t dlo_stager_add(struct dlo_stager *s, void *host, uint64_t bytes, uint64_t offset,
                       void **slot)
{
    size_t storage = 0;
    int r;

    if (!s || !host || !slot || bytes == 0 || offset >= bytes ||
        bytes > UINTPTR_MAX - (uintptr_t)host)
        return invalid(
            "dlo_stager_add: a pointer is NULL, there are no bytes, or the offset is not "
            "inside");
    if (is_inherited(s))
        return driver_fail(ERR_FORKED, "dlo_stager_add: %s", error_text(ERR_FORKED));
    if (s->is_sealed)
        return driver_fail(ERR_BAD_STATE, "dlo_stager_add: the stager is sealed");
    if (s->view_count >= STAGER_VIEWS_MAX)
        return driver_fail(ERR_LIMIT, "dlo_stager_add: more than %u views", STAGER_VIEWS_MAX);
    if (!grow((void **)&s->views, s->view_count, sizeof(*s->views)))
        return driver_fail(ERR_NO_MEMORY, "dlo_stager_add: %s", error_text(ERR_NO_MEMORY));
    r = find_storage(s, host, bytes, &storage);
    if (r < 0)
        return r;
    s->views[s->view_count++] = (struct view){.slot = slot, .storage = storage, .offset = offset};
    return 0;
}

uint64_t dlo_stager_bytes(const struct dlo_stager *s)
{
    return s ? s->bytes : 0;
}

int32_t dlo_stager_is_loaded(const struct dlo_stager *s)
{
    return s && s->is_loaded;
}

/* ---- views ---- */

static void bind_masters(struct dlo_stager *s)
{
    for (size_t i = 0; i < s->view_count; i++)
        *s->views[i].slot = s->storages[s->views[i].storage].master + s->views[i].offset;
}

static void bind_device(struct dlo_stager *s)
{
    for (size_t i = 0; i < s->view_count; i++) {
        const struct view *v = &s->views[i];

        *v->slot = (void *)(uintptr_t)(s->storages[v->storage].device + v->offset);
    }
}

/* ---- page-locked masters ---- */

static void drop_masters(struct dlo_stager *s)
{
    for (size_t i = 0; i < s->storage_count; i++) {
        if (s->storages[i].is_registered)
            DRIVER_UNDO(s->cuda, mem_host_unregister, s->storages[i].master);
        s->storages[i].is_registered = false;
        s->storages[i].master = NULL;
    }
    if (s->slab)
        DRIVER_UNDO(s->cuda, mem_free_host, s->slab);
    s->slab = NULL;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + SLAB_ALIGN - 1) / SLAB_ALIGN * SLAB_ALIGN; /* bytes is below SIZE_MAX / 2 */
}

static int copy_masters(struct dlo_stager *s)
{
    uint64_t slab_bytes = 0;
    char *next;
    int r;

    for (size_t i = 0; i < s->storage_count; i++) {
        if (__builtin_add_overflow(slab_bytes, aligned(s->storages[i].bytes), &slab_bytes))
            return driver_fail(ERR_OVERFLOW, "dlo_stager_seal: %s", error_text(ERR_OVERFLOW));
    }
    r = DRIVER_CALL(s->cuda, mem_host_alloc, &s->slab, slab_bytes, CUABI_MEMHOSTALLOC_PORTABLE);
    if (r) {
        s->slab = NULL;
        return r;
    }
    next = s->slab;
    for (size_t i = 0; i < s->storage_count; i++) {
        struct storage *g = &s->storages[i];

        g->master = next;
        memcpy(g->master, g->host, g->bytes);
        next += aligned(g->bytes);
    }
    return 0;
}

static int register_masters(struct dlo_stager *s)
{
    for (size_t i = 0; i < s->storage_count; i++) {
        struct storage *g = &s->storages[i];
        const unsigned int r =
            s->cuda->calls.mem_host_register(g->host, g->bytes, CUABI_MEMHOSTREGISTER_PORTABLE);

        g->master = g->host;
        g->is_registered = r == CUABI_SUCCESS;
        /* somebody else has locked it already: as good, and not ours to undo */
        if (r != CUABI_SUCCESS && r != CUABI_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
            return driver_result(s->cuda, "mem_host_register", r);
    }
    return 0;
}

static void drop_streams(struct dlo_stager *s)
{
    if (s->ready)
        DRIVER_UNDO(s->cuda, event_destroy, s->ready);
    if (s->idle)
        DRIVER_UNDO(s->cuda, event_destroy, s->idle);
    if (s->copy)
        DRIVER_UNDO(s->cuda, stream_destroy, s->copy);
    s->ready = s->idle = NULL;
    s->copy = NULL;
}

static int make_streams(struct dlo_stager *s)
{
    int r = DRIVER_CALL(s->cuda, stream_create, &s->copy, CUABI_STREAM_NON_BLOCKING);

    if (r == 0)
        r = DRIVER_CALL(s->cuda, event_create, &s->ready, CUABI_EVENT_DISABLE_TIMING);
    if (r == 0)
        r = DRIVER_CALL(s->cuda, event_create, &s->idle,
                        CUABI_EVENT_DISABLE_TIMING | CUABI_EVENT_BLOCKING_SYNC);
    return r;
}

static int attach(struct dlo_stager *s)
{
    struct dlo_client *client = client_of(s);
    int r = client ? dlo_attach(client, s->id, s->bytes) : 0;

    if (r < 0)
        return driver_fail(r, "dlo_stager_seal: %s", dlo_last_error(client));
    s->is_attached = client != NULL;
    return 0;
}

int32_t dlo_stager_seal(struct dlo_stager *s)
{
    int r;

    if (!s)
        return invalid("dlo_stager_seal: the stager is NULL");
    if (s->is_sealed || s->view_count == 0)
        return driver_fail(ERR_BAD_STATE, "dlo_stager_seal: %s",
                           s->is_sealed ? "it is sealed already" : "it has no view");
    r = driver_enter(s->cuda);
    if (r)
        return r;
    r = make_streams(s);
    if (r == 0)
        r = s->master_kind == DLO_MASTER_COPIED ? copy_masters(s) : register_masters(s);
    if (r == 0)
        r = attach(s);
    if (r) {
        drop_masters(s);
        drop_streams(s);
    }
    driver_leave(s->cuda);
    if (r)
        return r;
    s->is_sealed = true;
    bind_masters(s);
    return 0;
}

/* ---- load and offload ---- */

/* Frees the device memory once the copy stream has come to its end, which the host waits for: one
 * wait, after which the pool counts the memory as unused. An end of the context frees it as well.
 */
static int free_device(struct dlo_stager *s)
{
    int r = 0, end;

    for (size_t i = 0; s->pool && i < s->storage_count; i++) {
        if (s->storages[i].device) {
            end = DRIVER_CALL(s->cuda, mem_free_async, s->storages[i].device, s->copy);
            r = r ? r : end;
        }
    }
    end = DRIVER_CALL(s->cuda, stream_synchronize, s->copy);
    r = r ? r : end;
    for (size_t i = 0; i < s->storage_count; i++) {
        if (s->storages[i].device && !s->pool) {
            end = DRIVER_CALL(s->cuda, mem_free, s->storages[i].device);
            r = r ? r : end;
        }
        s->storages[i].device = 0;
    }
    return r;
}

static int copy_storage(struct dlo_stager *s, struct storage *g)
{
    int r = s->pool ? DRIVER_CALL(s->cuda, mem_alloc_from_pool_async, &g->device, g->bytes, s->pool,
                                  s->copy)
                    : DRIVER_CALL(s->cuda, mem_alloc, &g->device, g->bytes);

    if (r) {
        g->device = 0;
        return r;
    }
    return DRIVER_CALL(s->cuda, memcpy_htod_async, g->device, g->master, g->bytes, s->copy);
}

static int load_once(struct dlo_stager *s, struct CUstream_st *compute)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->storage_count; i++)
        r = copy_storage(s, &s->storages[i]);
    if (r == 0)
        r = DRIVER_CALL(s->cuda, event_record, s->ready, s->copy);
    if (r == 0)
        r = DRIVER_CALL(s->cuda, stream_wait_event, compute, s->ready, 0);
    return r;
}

/* Undoes a load or an offload that failed with r, and forces a release. What fails on the way is
 * logged by the calls themselves; r and its sentence stay. */
static int give_up(struct dlo_stager *s, int r, int32_t force)
{
    char why[256];

    snprintf(why, sizeof(why), "%s", dlo_cuda_last_error());
    s->is_loaded = false;
    bind_masters(s);
    (void)free_device(s);
    if (s->cache)
        (void)dlo_cache_boundary(s->cache, s->component, force, NULL);
    return driver_fail(r, "%s", why);
}

/* What every use begins with: 0 with the context pushed. */
static int enter(struct dlo_stager *s, const char *what)
{
    if (!s)
        return driver_fail(ERR_INVALID, "%s: the stager is NULL", what);
    if (is_inherited(s))
        return driver_fail(ERR_FORKED, "%s: %s", what, error_text(ERR_FORKED));
    if (!s->is_sealed)
        return driver_fail(ERR_BAD_STATE, "%s: the stager is not sealed", what);
    return 0;
}

int32_t dlo_stager_load(struct dlo_stager *s, void *stream)
{
    int r = enter(s, "dlo_stager_load");

    if (r || s->is_loaded)
        return r;
    r = driver_enter(s->cuda);
    if (r)
        return r;
    r = load_once(s, stream);
    if (r == CUABI_ERROR_OUT_OF_MEMORY) { /* R17: this once */
        (void)give_up(s, r, DLO_FORCE_OOM_RETRY);
        if (client_of(s)) /* R24; whatever comes of it, the load is tried once more */
            (void)dlo_oom(client_of(s), s->bytes, NULL);
        r = load_once(s, stream);
    }
    if (r) {
        r = give_up(s, r, DLO_FORCE_FAILURE);
    } else {
        s->is_loaded = true;
        bind_device(s);
        if (s->cache)
            cache_settle(s->cache);
    }
    driver_leave(s->cuda);
    return r;
}

/* The copy stream, on which the memory is freed, waits for the compute stream. */
static int follow_compute(struct dlo_stager *s, struct CUstream_st *compute)
{
    int r = DRIVER_CALL(s->cuda, event_record, s->idle, compute);

    if (r == 0)
        r = DRIVER_CALL(s->cuda, stream_wait_event, s->copy, s->idle, 0);
    if (r) /* what is still running on the device must end before its memory goes */
        DRIVER_UNDO(s->cuda, ctx_synchronize);
    return r;
}

int32_t dlo_stager_offload(struct dlo_stager *s, void *stream, struct dlo_answer *ret)
{
    const struct dlo_answer nothing = DLO_ANSWER_INIT;
    int r = enter(s, "dlo_stager_offload");

    if (r)
        return r;
    if (ret && !driver_give(ret, sizeof(nothing), &nothing))
        return invalid("dlo_stager_offload: ret has no size");
    if (!s->is_loaded)
        return 0;
    r = driver_enter(s->cuda);
    if (r)
        return give_up(s, r, DLO_FORCE_FAILURE);
    r = follow_compute(s, stream);
    s->is_loaded = false;
    bind_masters(s);
    if (r == 0)
        r = free_device(s);
    if (r)
        r = give_up(s, r, DLO_FORCE_FAILURE);
    driver_leave(s->cuda);
    if (r || !s->cache)
        return r;
    return dlo_cache_boundary(s->cache, s->component, 0, ret);
}

/* ---- the end ---- */

void dlo_stager_free(struct dlo_stager *s)
{
    if (!s)
        return;
    if (!is_inherited(s) && s->is_sealed) {
        if (driver_enter(s->cuda) == 0) { /* else the context has ended, and all of it with it */
            if (s->is_loaded) {
                DRIVER_UNDO(s->cuda, ctx_synchronize);
                (void)free_device(s);
            }
            drop_masters(s);
            drop_streams(s);
            driver_leave(s->cuda);
        }
        for (size_t i = 0; i < s->view_count; i++)
            *s->views[i].slot = s->master_kind == DLO_MASTER_COPIED
                                    ? NULL
                                    : s->storages[s->views[i].storage].host + s->views[i].offset;
        if (s->is_attached)
            (void)dlo_detach(client_of(s), s->id);
    }
    free(s->storages);
    free(s->views);
    free(s);
}
