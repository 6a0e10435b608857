/* SPDX-License-Identifier: Apache-2.0 */
/* What sessions hold, need and could give (R20, R24a). Reads only. */
#include "daemon/policy/arbiter_parts.h"

bool tenant_is_on(const struct arbiter *a, const struct tenant *t)
{
    if (t->policy)
        return policy_mode(a->settings, t->policy) == MODE_ON;
    return a->settings->mode == MODE_ON;
}

uint64_t tenant_claim(const struct tenant *t)
{
    const struct resume *s = t->policy ? &t->policy->state : NULL;
    uint64_t cached;

    if (!s || !s->reserved.has || !s->allocated.has)
        return 0;
    if (t->unreleasable.has && t->unreleasable.v == s->reserved.v)
        return 0; /* R23 */
    cached = bytes_sub_sat(s->reserved.v, s->allocated.v);
    return t->releasable.has ? t->releasable.v : bytes_sub_sat(cached, s->residue.v);
}

uint64_t tenant_reclaimable(const struct tenant *t)
{
    uint64_t claim = tenant_claim(t), pin = t->policy ? t->policy->state.operator.pin_bytes.v : 0;

    if (pin == 0)
        return claim;
    return t->policy->choice.partial ? bytes_sub_sat(claim, pin) : 0;
}

enum readiness tenant_readiness(const struct arbiter *a, const struct tenant *t)
{
    bool is_busy;

    if (!t->policy || !tenant_is_on(a, t))
        return READINESS_ABSENT;
    if (t->is_idle || t->wait.kind == WAIT_OOM || t->wait.kind == WAIT_LEASE)
        return READINESS_READY;
    is_busy = !t->policy->choice.brackets || t->policy->state.busy;
    if (t->is_background && t->policy->choice.brackets && !is_busy)
        return READINESS_READY;
    return is_busy ? READINESS_BUSY : READINESS_DORMANT;
}

bool tenant_is_late(const struct arbiter *a, const struct tenant *t)
{
    return a->now_ns < t->late_until_ns;
}

uint64_t tenant_reclaim_ns(const struct tenant *t)
{
    uint64_t shown =
        t->slowest_ns > ARBITER_RECLAIM_MAX_NS / 4 ? ARBITER_RECLAIM_MAX_NS : 4 * t->slowest_ns;

    return bytes_max(ARBITER_RECLAIM_MIN_NS, shown);
}

uint64_t tenant_unmet_need(const struct tenant *t)
{
    if (!t->policy || !t->policy->choice.brackets || !t->policy->state.announced.has)
        return 0;
    return bytes_sub_sat(t->policy->state.announced.v, t->policy->state.reserved.v);
}

bool wait_is_active(const struct wait *w)
{
    return w->kind != WAIT_NONE && !w->has_ended;
}

bool arbiter_has_sample(const struct arbiter *a)
{
    return a->newest.free.has && a->now_ns - a->newest_ns <= ARBITER_SAMPLE_MAX_AGE_NS;
}

bool wait_has_sample(const struct arbiter *a, const struct wait *w)
{
    return arbiter_has_sample(a) &&
           (!w->needs_sample || (a->samples > w->samples && a->newest_ns >= w->sample_ns));
}

uint64_t arbiter_process_bytes(const struct arbiter *a, const struct tenant *t)
{
    uint64_t sum = 0;

    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *other = list_entry(pos, struct tenant, link);

        if (other->policy && (other == t || (t->pid != 0 && other->pid == t->pid)))
            sum = bytes_add_sat(sum, other->policy->state.reserved.v);
    }
    return sum;
}

uint64_t arbiter_held(const struct arbiter *a, const struct tenant *t)
{
    if (t->hold.bytes == 0 || a->now_ns >= t->hold.ends_ns)
        return 0;
    return bytes_sub_sat(t->hold.bytes,
                         bytes_sub_sat(arbiter_process_bytes(a, t), t->hold.before_bytes));
}

bool tenant_is_active(const struct arbiter *a, const struct tenant *t)
{
    return t->policy->state.busy ||
           (t->was_busy && a->now_ns - t->last_busy_ns <= ARBITER_ACTIVE_NS);
}

/* What of the device is spoken for by others, as far as this call must not take it. */
static uint64_t taken_by(const struct arbiter *a, const struct tenant *other, const struct wait *by)
{
    const struct wait *w = &other->wait;
    uint64_t taken = bytes_add_sat(other->charge, arbiter_held(a, other));

    /* what was freed for an older event is not there for this one (which, without one yet, will be
     * the youngest); its holder has no charge before its answer */
    if (w->kind == WAIT_OOM && w->event != 0 && (by->event == 0 || w->event < by->event))
        taken = bytes_add_sat(taken, bytes_min(w->freed, w->bytes));
    /* R25: what active sessions are known to map again is to fit beside a reservation */
    if (by->kind == WAIT_LEASE && other->policy && tenant_is_active(a, other))
        taken = bytes_add_sat(taken, tenant_unmet_need(other));
    return taken;
}

uint64_t arbiter_missing(const struct arbiter *a, const struct tenant *t)
{
    uint64_t taken = 0;

    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *other = list_entry(pos, struct tenant, link);

        if (other != t)
            taken = bytes_add_sat(taken, taken_by(a, other, &t->wait));
    }
    return bytes_sub_sat(t->wait.bytes, bytes_sub_sat(a->newest.free.v, taken));
}

bool arbiter_has_neighbour_need(const struct arbiter *a, const struct tenant *t)
{
    if (!arbiter_has_sample(a) || tenant_claim(t) == 0)
        return false;
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *other = list_entry(pos, struct tenant, link);

        if (other != t && other->policy && tenant_is_on(a, other) && tenant_is_active(a, other) &&
            a->newest.free.v < tenant_unmet_need(other))
            return true;
    }
    return false;
}
