/* SPDX-License-Identifier: Apache-2.0 */
/* Leases and quiet (R25): who has others keep off, and whether memory has come to rest before that
 * begins. An engine that sizes itself by what is free must see nobody else's memory move. */
#include "daemon/policy/arbiter_parts.h"

enum lease arbiter_leased(const struct arbiter *a, const struct tenant *t)
{
    return a->now_ns < t->lease_ends_ns ? t->lease : LEASE_NONE;
}

bool arbiter_is_quiet(const struct arbiter *a, const struct tenant *t)
{
    return arbiter_leased(a, t) == LEASE_EXCLUSIVE ||
           (t->hold.bytes != 0 && a->now_ns < t->hold.quiet_ends_ns);
}

/* Those that came later may not be granted before it. */
static bool is_overtaken(const struct wait *exclusive, const struct wait *w)
{
    return wait_is_active(exclusive) && exclusive->kind == WAIT_LEASE &&
           exclusive->lease == LEASE_EXCLUSIVE && exclusive->turn != 0 &&
           (w->turn == 0 || exclusive->turn < w->turn);
}

static bool holds_up(const struct arbiter *a, const struct tenant *other, const struct wait *w)
{
    enum lease leased = arbiter_leased(a, other);

    if (is_overtaken(&other->wait, w))
        return true;
    if (w->lease == LEASE_SHARED)
        return leased == LEASE_EXCLUSIVE;
    if (w->lease == LEASE_EXCLUSIVE && leased != LEASE_NONE)
        return true;
    return arbiter_is_quiet(a, other);
}

bool lease_is_held_up(const struct arbiter *a, const struct tenant *t)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *other = list_entry(pos, struct tenant, link);

        if (other != t && holds_up(a, other, &t->wait))
            return true;
    }
    return false;
}

bool lease_wants_quiet(const struct wait *w)
{
    return w->kind == WAIT_LEASE && (w->lease == LEASE_EXCLUSIVE || w->quiet_ns != 0);
}

bool lease_forbids_asking(const struct arbiter *a, const struct tenant *t)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        if (arbiter_is_quiet(a, list_entry(pos, struct tenant, link)))
            return true;
    }
    return a->settling.by && a->settling.by != t && t->wait.kind != WAIT_OOM;
}

/* Is it asked for the sake of a load that has run out of memory? */
static bool serves_oom(const struct arbiter *a, const struct tenant *t)
{
    for (uint32_t i = 0; i < ARBITER_EVENTS; i++)
        if (t->reclaim.serves & (UINT64_C(1) << i) && a->events[i]->wait.kind == WAIT_OOM)
            return true;
    return false;
}

bool lease_is_quiet_for(const struct arbiter *a, const struct tenant *t, struct opt_u64 own_free)
{
    struct opt_u64 free_bytes = arbiter_has_sample(a) ? a->newest.free : own_free;

    if (!tenant_is_on(a, t) || (free_bytes.has && free_bytes.v < a->limits.quiet_reserve))
        return false;
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *other = list_entry(pos, struct tenant, link);

        if (other != t && arbiter_is_quiet(a, other))
            return true;
    }
    return a->settling.by && a->settling.by != t && !serves_oom(a, t);
}

/* ---- coming to rest ---- */

static bool fits(const struct arbiter *a, const struct tenant *t)
{
    const struct wait *w = &t->wait;

    if (!wait_is_active(w) || w->event == 0 || !lease_wants_quiet(w) || a->now_ns < a->resumes_ns ||
        lease_is_held_up(a, t))
        return false;
    if (w->bytes == 0 || w->is_unverified)
        return true;
    return (t == a->settling.by ? a->newest.free.has : wait_has_sample(a, w)) &&
           arbiter_missing(a, t) == 0;
}

/* Whose quiet is next. */
static struct tenant *first_that_fits(const struct arbiter *a)
{
    struct tenant *first = NULL;

    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (fits(a, t) && (!first || t->wait.turn < first->wait.turn))
            first = t;
    }
    return first;
}

void lease_settle(struct arbiter *a)
{
    struct settling *s = &a->settling;
    struct tenant *next = a->now_ns < s->rests_until_ns ? NULL : first_that_fits(a);

    if (next && next == s->by && a->now_ns - s->since_ns >= ARBITER_SETTLE_NS) {
        s->rests_until_ns = s->since_ns + 2 * ARBITER_SETTLE_NS;
        next = NULL;
    }
    if (next == s->by)
        return;
    *s = (struct settling){.by = next, .since_ns = a->now_ns, .rests_until_ns = s->rests_until_ns};
    if (a->newest.free.has && a->event_ns - a->newest_ns <= ARBITER_LEASE_AGE_NS) {
        s->first_free = a->newest.free; /* the first of two */
        s->first_ns = a->newest_ns;
    }
}

void lease_sampled(struct arbiter *a)
{
    struct settling *s = &a->settling;
    uint64_t x = bytes_min(a->newest.free.v, s->first_free.v),
             y = bytes_max(a->newest.free.v, s->first_free.v);
    bool is_calm = s->first_free.has && y - x < ARBITER_CALM_BYTES;

    if (is_calm && a->newest_ns < s->first_ns + ARBITER_CALM_NS) /* too close to say more */
        return;
    s->calm_ns = is_calm ? a->newest_ns : 0;
    s->first_free = a->newest.free;
    s->first_ns = a->newest_ns;
}

uint64_t reports_most(const struct reports *r)
{
    uint64_t largest = 0;

    for (uint32_t i = 0; i < r->count; i++)
        largest = bytes_max(largest, r->reserved[i]);
    return largest;
}

/* It holds less than it did lately or has announced, and will map that again. */
static bool is_below_its_usual(const struct arbiter *a, const struct tenant *t)
{
    if (!t->policy || !tenant_is_on(a, t) || t->reports.count == 0 ||
        a->now_ns - t->reports.last_ns >= ARBITER_REPORTED_NS)
        return false;
    return t->policy->state.reserved.v < reports_most(&t->reports) || tenant_unmet_need(t) > 0;
}

/* Is memory of it about to become free, or to be mapped, or was it after the newest sample? */
static bool may_move(const struct arbiter *a, const struct tenant *t)
{
    const struct reclaim *r = &t->reclaim;

    return (!a->settling.by->wait.is_unverified && t->reports.changed_ns >= a->settling.calm_ns) ||
           (r->serves != 0 && (r->is_pushed || r->is_told)) ||
           (t->told_ns != 0 && a->now_ns - t->told_ns < ARBITER_TOLD_NS) ||
           is_below_its_usual(a, t);
}

/* Bytes of dead workers come back by themselves (R25a). */
static bool has_ghosts(const struct arbiter *a)
{
    for (size_t i = 0; i < ARBITER_GHOSTS; i++)
        if (a->ghosts[i].bytes != 0)
            return true;
    return false;
}

bool lease_has_settled(const struct arbiter *a, const struct tenant *t)
{
    const struct settling *s = &a->settling;

    if (s->by != t || has_ghosts(a) ||
        (!t->wait.is_unverified &&
         (s->calm_ns == 0 || a->event_ns - s->calm_ns > ARBITER_LEASE_AGE_NS)))
        return false;
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *other = list_entry(pos, struct tenant, link);

        if (other != t && may_move(a, other))
            return false;
    }
    return true;
}

bool lease_wants_sample(const struct arbiter *a)
{
    const struct settling *s = &a->settling;

    return s->by && !s->by->wait.is_unverified &&
           (!s->first_free.has || a->now_ns >= s->first_ns + ARBITER_CALM_NS);
}

/* ---- time ---- */

/* The earlier of due and ns, where that is still to come. */
static uint64_t sooner(const struct arbiter *a, uint64_t due, uint64_t ns)
{
    return ns > a->now_ns && ns < due ? ns : due;
}

uint64_t lease_settle_due(const struct arbiter *a)
{
    const struct settling *s = &a->settling;
    uint64_t due = UINT64_MAX;

    if (!s->by)
        return sooner(a, due, s->rests_until_ns);
    due = sooner(a, due, s->since_ns + ARBITER_SETTLE_NS);
    if (s->first_free.has)
        due = sooner(a, due, s->first_ns + ARBITER_CALM_NS);
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *t = list_entry(pos, struct tenant, link);

        if (t->told_ns != 0)
            due = sooner(a, due, t->told_ns + ARBITER_TOLD_NS);
        if (t->reports.count != 0)
            due = sooner(a, due, t->reports.last_ns + ARBITER_REPORTED_NS);
    }
    return due;
}

uint64_t lease_due(const struct arbiter *a, const struct tenant *t)
{
    uint64_t due = UINT64_MAX;

    if (t->lease != LEASE_NONE)
        due = sooner(a, due, t->lease_ends_ns);
    if (t->hold.bytes != 0)
        due = sooner(a, sooner(a, due, t->hold.ends_ns), t->hold.quiet_ends_ns);
    if (t->wait.kind == WAIT_LEASE)
        due = sooner(a, sooner(a, due, t->wait.rests_ns), a->resumes_ns);
    return due;
}

void lease_reported(const struct arbiter *a, struct tenant *t)
{
    struct reports *r = &t->reports;
    uint32_t newest = (r->next + ARBITER_REPORTS - 1) % ARBITER_REPORTS;

    if (r->count == 0 || r->reserved[newest] != t->policy->state.reserved.v)
        r->changed_ns = a->now_ns;
    r->reserved[r->next] = t->policy->state.reserved.v;
    r->next = (r->next + 1) % ARBITER_REPORTS;
    r->count += r->count < ARBITER_REPORTS;
    r->last_ns = a->now_ns;
}

void lease_forget(struct arbiter *a, struct tenant *t)
{
    if (a->settling.by == t)
        a->settling.by = NULL;
}
