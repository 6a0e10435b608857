/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cuda/cache.h"

#include <stdlib.h>
#include <time.h>

#include "proto/base/answer.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct reading {
    uint64_t reserved, allocated; /* DLO_MISSING both where the allocator cannot be read */
};

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static bool is_inherited(const struct dlo_cache *cache)
{
    return driver_is_inherited(cache->generation);
}

static struct reading read_allocator(struct dlo_cache *cache)
{
    struct reading now;

    if (cache->ops->read(cache, &now.reserved, &now.allocated) != 0)
        now.reserved = now.allocated = DLO_MISSING;
    return now;
}

static uint64_t cached(const struct reading *now)
{
    return now->reserved == DLO_MISSING ? DLO_MISSING
                                        : bytes_sub_sat(now->reserved, now->allocated);
}

/* What a release would give back, where that is known to be less than what is cached. */
static uint64_t releasable(struct dlo_cache *cache, const struct reading *now)
{
    uint64_t bytes = DLO_MISSING;

    if (cache->is_unreleasable)
        return 0;
    if (!cache->tells_residue || now->reserved == DLO_MISSING)
        return DLO_MISSING;
    pthread_mutex_lock(&cache->mutex);
    if (now->reserved == cache->proof.stuck_reserved)
        bytes = bytes_sub_sat(cached(now), cache->proof.residue);
    else
        cache->proof.stuck_reserved = DLO_MISSING;
    pthread_mutex_unlock(&cache->mutex);
    return bytes;
}

/* R26: what the release that just ended gave back. */
static void note_release(struct dlo_cache *cache, const struct reading *before,
                         const struct reading *after, uint64_t us)
{
    struct cache_proof *p = &cache->proof;
    const bool is_known = before->reserved != DLO_MISSING && after->reserved != DLO_MISSING;

    pthread_mutex_lock(&cache->mutex);
    p->releases++;
    p->us = us;
    p->residue = cached(after);
    p->released_bytes = is_known ? bytes_sub_sat(before->reserved, after->reserved) : DLO_MISSING;
    p->stuck_reserved = DLO_MISSING;
    if (is_known && proof_gave_nothing(p->released_bytes, cached(before))) {
        p->empty_releases++;
        p->stuck_reserved = after->reserved;
    }
    pthread_mutex_unlock(&cache->mutex);
}

/* Releases and reports. told_force is not 0 for a release that dlod did not answer: it is told. */
static int release(struct dlo_cache *cache, const struct reading *before, int32_t told_force,
                   const char *component)
{
    const uint64_t start_us = now_us();
    const int r = cache->ops->release(cache);
    const uint64_t us = now_us() - start_us;
    const struct reading after = read_allocator(cache);

    note_release(cache, before, &after, us);
    if (cache->client && told_force)
        (void)dlo_forced(cache->client, told_force, component);
    if (cache->client && after.reserved != DLO_MISSING)
        (void)dlo_released(cache->client, after.reserved, after.allocated, us);
    return r;
}

/* R23: in an idle wait, or while this worker waits for room itself; the library reports it. */
static int32_t release_for_others(void *arg, uint64_t bytes, uint64_t *ret_reserved,
                                  uint64_t *ret_allocated)
{
    struct dlo_cache *cache = arg;
    const struct reading before = read_allocator(cache);
    const uint64_t start_us = now_us();
    const int r = cache->ops->release(cache);
    const struct reading after = read_allocator(cache);

    (void)bytes; /* all of it is given back */
    if (r)
        return r;
    note_release(cache, &before, &after, now_us() - start_us);
    *ret_reserved = after.reserved;
    *ret_allocated = after.allocated;
    return 0;
}

int cache_init(struct dlo_cache *cache, const struct allocator_ops *ops, struct dlo_cuda *cuda,
               struct dlo_client *client)
{
    const struct cache_proof none = {
        .released_bytes = DLO_MISSING,
        .residue = DLO_MISSING,
        .us = DLO_MISSING,
        .stuck_reserved = DLO_MISSING,
    };

    cache->ops = ops;
    cache->cuda = cuda;
    cache->client = client;
    cache->proof = none;
    if (driver_generation(&cache->generation) < 0 || pthread_mutex_init(&cache->mutex, NULL) != 0)
        return ERR_NO_MEMORY;
    if (client) /* R23: it can be asked for in between */
        (void)dlo_set_release(client, release_for_others, cache);
    return 0;
}

void dlo_cache_close(struct dlo_cache *cache)
{
    if (!cache)
        return;
    if (!is_inherited(cache)) {
        if (cache->client)
            (void)dlo_set_release(cache->client, NULL, NULL);
        if (cache->ops->free)
            cache->ops->free(cache);
        pthread_mutex_destroy(&cache->mutex);
    }
    free(cache);
}

/* What there is to say where nobody was asked. */
static void answer_without_asking(int32_t force, struct dlo_answer *ret)
{
    const struct dlo_answer init = DLO_ANSWER_INIT;

    *ret = init;
    ret->decision = ret->would = DLO_DECISION_RELEASE;
    ret->reason = force ? DLO_REASON_FORCED : 0;
    ret->cached = ret->free = ret->total = ret->age_ns = DLO_MISSING;
    ret->floor = ret->cap = ret->budget = ret->capped = DLO_MISSING;
}

/* Decides; true where the host is to be told afterwards that it forced. Forced releases wait for
 * nobody; whether the end of a stage is one, is an option of the client (R4), so it is asked. */
static bool decide(struct dlo_cache *cache, const struct reading *now, const char *component,
                   int32_t force, struct dlo_answer *ret)
{
    struct dlo_boundary b = DLO_BOUNDARY_INIT;

    if (!cache->client || (force && force != DLO_FORCE_STAGE_END)) {
        answer_without_asking(force, ret);
        return force != 0;
    }
    b.force = force;
    b.component = component;
    b.reserved = now->reserved;
    b.allocated = now->allocated;
    b.releasable = releasable(cache, now);
    if (dlo_ask(cache->client, &b, ret) < 0)
        answer_without_asking(force, ret);
    return false;
}

void cache_settle(struct dlo_cache *cache)
{
    if (cache->ops->settle && cache->client)
        cache->ops->settle(cache, NULL);
}

int32_t dlo_cache_boundary(struct dlo_cache *cache, const char *component, int32_t force,
                           struct dlo_answer *ret)
{
    struct dlo_answer answer = DLO_ANSWER_INIT;
    struct reading now;
    bool is_to_tell;
    int r = 0;

    if (!cache || force < 0 || force > DLO_FORCE_OPERATOR || (ret && ret->size < sizeof(ret->size)))
        return driver_fail(ERR_INVALID, "dlo_cache_boundary: %s", error_text(ERR_INVALID));
    if (is_inherited(cache))
        return driver_fail(ERR_FORKED, "dlo_cache_boundary: %s", error_text(ERR_FORKED));
    if (cache->ops->begin)
        cache->ops->begin(cache);
    now = read_allocator(cache);
    is_to_tell = decide(cache, &now, component, force, &answer);
    if (ret)
        driver_give(ret, sizeof(answer), &answer);
    if (answer.decision != DLO_DECISION_RETAIN) /* KEEP: what it does without us, R19 */
        r = release(cache, &now, is_to_tell ? force : 0, component);
    if (cache->ops->settle && cache->client)
        cache->ops->settle(cache, &answer);
    return r;
}

int32_t dlo_cache_read(struct dlo_cache *cache, struct dlo_cache_state *ret)
{
    struct dlo_cache_state s = DLO_CACHE_STATE_INIT;
    struct reading now;

    if (!cache || !ret || ret->size < sizeof(ret->size))
        return driver_fail(ERR_INVALID, "dlo_cache_read: %s", error_text(ERR_INVALID));
    if (is_inherited(cache))
        return driver_fail(ERR_FORKED, "dlo_cache_read: %s", error_text(ERR_FORKED));
    now = read_allocator(cache);
    s.reserved = now.reserved;
    s.allocated = now.allocated;
    s.releasable = releasable(cache, &now);
    if (cache->ops->describe)
        cache->ops->describe(cache, &s);
    pthread_mutex_lock(&cache->mutex);
    s.releases = cache->proof.releases;
    s.empty_releases = cache->proof.empty_releases;
    s.released_bytes = cache->proof.released_bytes;
    s.residue = cache->proof.residue;
    s.release_us = cache->proof.us;
    pthread_mutex_unlock(&cache->mutex);
    driver_give(ret, sizeof(s), &s);
    return 0;
}

/* ---- the hook ---- */

struct hook_cache {
    struct dlo_cache cache;
    struct dlo_hook hook;
};

static const struct dlo_hook *hook_of(struct dlo_cache *cache)
{
    return &container_of(cache, struct hook_cache, cache)->hook;
}

static int hook_read(struct dlo_cache *cache, uint64_t *ret_reserved, uint64_t *ret_allocated)
{
    uint64_t reserved, allocated;
    int r = hook_of(cache)->read(hook_of(cache)->arg, &reserved, &allocated);

    if (r == 0) {
        *ret_reserved = reserved;
        *ret_allocated = allocated;
    }
    return r;
}

static int hook_release(struct dlo_cache *cache)
{
    int r = hook_of(cache)->release(hook_of(cache)->arg);

    return r ? driver_fail(r, "the hook's release failed with %d", r) : 0;
}

static const struct allocator_ops hook_ops = {.read = hook_read, .release = hook_release};

int32_t dlo_cache_open_hook(struct dlo_cuda *cuda, struct dlo_client *client,
                            const struct dlo_hook *hook, struct dlo_cache **ret)
{
    struct hook_cache *h;

    if (!ret || !hook)
        return driver_fail(ERR_INVALID, "dlo_cache_open_hook: %s", error_text(ERR_INVALID));
    h = calloc(1, sizeof(*h));
    if (!h)
        return driver_fail(ERR_NO_MEMORY, "dlo_cache_open_hook: %s", error_text(ERR_NO_MEMORY));
    if (!driver_take(&h->hook, sizeof(h->hook), hook) || !h->hook.read || !h->hook.release) {
        free(h);
        return driver_fail(ERR_INVALID, "dlo_cache_open_hook: both callbacks are needed");
    }
    if (cache_init(&h->cache, &hook_ops, cuda, client) < 0) {
        free(h);
        return driver_fail(ERR_NO_MEMORY, "dlo_cache_open_hook: %s", error_text(ERR_NO_MEMORY));
    }
    *ret = &h->cache;
    return 0;
}
