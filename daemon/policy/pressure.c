/* SPDX-License-Identifier: Apache-2.0 */
/* Events of pressure (R22) from their begin to the answer of the call that raised them (R23, R24):
 * a sample says what is missing, a candidate is asked, its answer makes the sample old. */
#include "daemon/policy/arbiter_parts.h"

static uint64_t bit_of(const struct wait *w)
{
    return UINT64_C(1) << w->slot;
}

/* The wait of that slot. */
static struct wait *wait_at(struct arbiter *a, uint32_t slot)
{
    return &a->events[slot]->wait;
}

void pressure_cancel(struct tenant *t)
{
    t->reclaim = (struct reclaim){0};
    list_remove(&t->actions[ACTION_RECLAIM].link); /* it need not be told any more */
}

/* Takes a place for the event of t; false where all are taken. */
static bool take_slot(struct arbiter *a, struct tenant *t)
{
    for (uint32_t i = 0; i < ARBITER_EVENTS; i++) {
        if (a->events[i])
            continue;
        a->events[i] = t;
        t->wait.slot = i;
        t->wait.event = ++a->last_event;
        if (t->wait.turn == 0)
            t->wait.turn = t->wait.event;
        return true;
    }
    return false;
}

/* The oldest event among those of the mask. */
static uint64_t oldest_event(struct arbiter *a, uint64_t mask)
{
    uint64_t oldest = UINT64_MAX;

    for (uint32_t i = 0; i < ARBITER_EVENTS; i++)
        if (mask & (UINT64_C(1) << i))
            oldest = bytes_min(oldest, wait_at(a, i)->event);
    return oldest;
}

/* Nobody is asked for this event any more; a request ends with its last event. */
static void drop_slot(struct arbiter *a, struct wait *w)
{
    uint64_t bit = bit_of(w);

    a->events[w->slot] = NULL;
    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        t->asked &= ~bit;
        if (!(t->reclaim.serves & bit))
            continue;
        t->reclaim.serves &= ~bit;
        if (t->reclaim.serves == 0)
            pressure_cancel(t);
        else if (t->reclaim.event == w->event)
            t->reclaim.event = oldest_event(a, t->reclaim.serves);
    }
}

/* R25: granted where the room is there, and where nobody can tell. */
static void grant_lease(struct arbiter *a, struct tenant *t)
{
    const struct wait *w = &t->wait;
    uint64_t ends_ns = bytes_add_sat(a->now_ns, w->term_ns);

    if (w->kind != WAIT_LEASE || (w->end != WAIT_END_COVERED && w->end != WAIT_END_UNVERIFIED))
        return;
    if (w->lease == LEASE_BYTES) {
        t->hold = (struct hold){
            .bytes = w->bytes,
            .ends_ns = ends_ns,
            .quiet_ends_ns = w->quiet_ns ? bytes_add_sat(a->now_ns, w->quiet_ns) : 0,
            .before_bytes = w->is_renewal ? t->hold.before_bytes : arbiter_process_bytes(a, t),
        };
    } else {
        t->lease = w->lease;
        t->lease_ends_ns = ends_ns;
    }
}

static void end_event(struct arbiter *a, struct tenant *t, enum wait_end end)
{
    struct wait *w = &t->wait;

    if (w->event != 0)
        drop_slot(a, w);
    w->has_ended = true;
    w->end = end;
    grant_lease(a, t); /* now: the next event must not count on it */
}

void pressure_forget(struct arbiter *a, struct tenant *t)
{
    if (t->wait.kind == WAIT_NONE)
        return;
    if (wait_is_active(&t->wait) && t->wait.event != 0)
        drop_slot(a, &t->wait);
    a->waiting--;
    t->wait = (struct wait){0};
    list_remove(&t->actions[ACTION_HELD].link);
    list_remove(&t->actions[ACTION_END].link);
}

static void want_sample(struct arbiter *a, struct wait *w)
{
    w->needs_sample = true;
    w->sample_ns = a->now_ns;
    w->samples = a->samples;
}

void pressure_begin(struct arbiter *a, struct tenant *t, const struct wait *w)
{
    a->waiting++;
    t->wait = *w;
    t->wait.begun_ns = a->now_ns;
    if (!tenant_is_on(a, t)) { /* R30 */
        end_event(a, t, WAIT_END_SHADOW);
        return;
    }
    if (w->kind != WAIT_BUSY) /* that one was begun by what the newest sample says */
        want_sample(a, &t->wait);
}

void pressure_unverified(struct arbiter *a)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (!wait_is_active(&t->wait) || wait_has_sample(a, &t->wait))
            continue;
        if (t->wait.kind == WAIT_LEASE) /* who has others keep quiet counts without one too */
            t->wait.is_unverified = true;
        else
            end_event(a, t, WAIT_END_UNVERIFIED);
    }
}

void pressure_answered(struct arbiter *a, struct tenant *t, uint64_t freed, struct opt_u64 reserved)
{
    struct reclaim r = t->reclaim;

    pressure_cancel(t);
    for (uint32_t i = 0; i < ARBITER_EVENTS; i++) {
        if (!(r.serves & (UINT64_C(1) << i)))
            continue;
        want_sample(a, wait_at(a, i));
        if (wait_at(a, i)->event == r.event) /* charged once, to the oldest */
            wait_at(a, i)->freed = bytes_add_sat(wait_at(a, i)->freed, freed);
    }
    if (freed < r.claim / 20 + (r.claim % 20 != 0)) /* freed x 20 < claim */
        t->unreleasable = reserved;
}

void pressure_miss(struct arbiter *a)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);
        uint64_t deadline_ns = t->reclaim.deadline_ns;

        if (deadline_ns == 0 || a->now_ns < deadline_ns)
            continue;
        t->late_until_ns = bytes_add_sat(deadline_ns, ARBITER_LATE_NS);
        pressure_cancel(t);
    }
}

/* ---- whom to ask ---- */

/* R25: what an active session gives up it is known to map again, and that must fit beside: a
 * reservation gains nothing by it. */
static bool maps_it_again(const struct arbiter *a, const struct tenant *t)
{
    return tenant_is_active(a, t) && t->policy->choice.brackets && t->policy->state.announced.has &&
           t->policy->state.announced.v >= t->policy->state.reserved.v;
}

static bool may_be_asked(const struct arbiter *a, const struct tenant *t, const struct tenant *by,
                         enum readiness readiness)
{
    const struct wait *w = &by->wait;

    return t != by && !(t->asked & bit_of(w)) && tenant_readiness(a, t) == readiness &&
           tenant_reclaimable(t) > 0 && (w->target == 0 || w->target == t->number) &&
           !(w->kind == WAIT_LEASE && maps_it_again(a, t));
}

/* R23: is x to be asked before y, where that much is missing? */
static bool comes_before(const struct arbiter *a, const struct tenant *x, const struct tenant *y,
                         uint64_t missing)
{
    uint64_t of_x = tenant_reclaimable(x), of_y = tenant_reclaimable(y);

    if (tenant_is_late(a, x) != tenant_is_late(a, y))
        return tenant_is_late(a, y);
    if (x->policy->state.operator.priority != y->policy->state.operator.priority)
        return x->policy->state.operator.priority<y->policy->state.operator.priority;
    if ((of_x >= missing) != (of_y >= missing))
        return of_x >= missing;
    if (of_x != of_y)
        return of_x >= missing ? of_x < of_y : of_x > of_y;
    return x->number < y->number;
}

static struct tenant *best_ready(const struct arbiter *a, const struct tenant *by, uint64_t missing)
{
    struct tenant *best = NULL;

    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (may_be_asked(a, t, by, READINESS_READY) && (!best || comes_before(a, t, best, missing)))
            best = t;
    }
    return best;
}

static void ask(struct arbiter *a, struct tenant *t, const struct wait *w, bool is_pushed)
{
    struct reclaim *r = &t->reclaim;

    t->asked |= bit_of(w);
    r->serves |= bit_of(w);
    if (r->call != 0) /* it is asked already, for an older event */
        return;
    r->event = w->event;
    r->call = ++a->last_call;
    r->is_pushed = is_pushed;
    r->asked_ns = a->now_ns;
    r->deadline_ns = is_pushed ? a->now_ns + tenant_reclaim_ns(t) : 0;
    r->claim = tenant_reclaimable(t);
    r->reserved = t->policy->state.reserved.v;
    if (is_pushed)
        arbiter_queue(a, t, ACTION_RECLAIM);
}

static bool has_candidate(const struct arbiter *a, const struct tenant *by)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *t = list_entry(pos, struct tenant, link);

        if (may_be_asked(a, t, by, READINESS_READY) || may_be_asked(a, t, by, READINESS_BUSY))
            return true;
    }
    return false;
}

static bool ask_all_busy(struct arbiter *a, struct tenant *by)
{
    bool did = false;

    if (by->wait.only_ready)
        return false;
    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (!may_be_asked(a, t, by, READINESS_BUSY))
            continue;
        ask(a, t, &by->wait, false);
        did = true;
    }
    return did;
}

/* Is somebody still to answer this event? pushed: one who was told to release now. */
static bool is_awaited(const struct arbiter *a, const struct wait *w, bool pushed)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct reclaim *r = &list_entry(pos, struct tenant, link)->reclaim;

        if (r->serves & bit_of(w) && (!pushed || r->is_pushed))
            return true;
    }
    return false;
}

/* R24: it may take until then; the client is told once. */
static void extend(struct arbiter *a, struct tenant *t, uint64_t deadline_ns)
{
    struct wait *w = &t->wait;

    if (w->kind != WAIT_OOM || w->is_told_held || deadline_ns <= w->deadline_ns)
        return;
    w->deadline_ns = deadline_ns;
    w->is_told_held = true;
    arbiter_queue(a, t, ACTION_HELD);
}

/* R24, R25a: bytes of dead workers that the driver has not given back yet. */
static bool awaits_ghosts(struct arbiter *a, struct tenant *t)
{
    uint64_t until_ns = bytes_add_sat(t->wait.begun_ns, a->limits.dead_wait_ns);

    if (t->wait.kind != WAIT_OOM || a->now_ns >= until_ns)
        return false;
    for (size_t i = 0; i < ARBITER_GHOSTS; i++) {
        if (a->ghosts[i].bytes == 0)
            continue;
        extend(a, t, until_ns);
        return true;
    }
    return false;
}

/* R25: a reservation that nobody can make room for now waits on, and asks again in a while. */
static void rest(struct arbiter *a, struct tenant *t)
{
    drop_slot(a, &t->wait);
    t->wait.event = 0;
    t->wait.rests_ns = bytes_add_sat(a->now_ns, ARBITER_LEASE_REST_NS);
    want_sample(a, &t->wait);
}

/* R25: granted on what is free now, not before sessions had time to come back (R29), and, where
 * others are to keep quiet, when memory has come to rest. The next sample comes soon. */
static bool may_be_granted(const struct arbiter *a, const struct tenant *t)
{
    const struct wait *w = &t->wait;

    if (w->kind != WAIT_LEASE || w->lease == LEASE_SHARED)
        return true;
    if (a->now_ns < a->resumes_ns)
        return false;
    if (w->lease == LEASE_BYTES && w->is_unverified)
        return true;
    if (!w->is_unverified && a->event_ns - a->newest_ns > ARBITER_LEASE_AGE_NS)
        return false;
    return !lease_wants_quiet(w) || lease_has_settled(a, t);
}

/* One step of an event; true where something changed. */
static bool advance(struct arbiter *a, struct tenant *t)
{
    struct wait *w = &t->wait;
    struct tenant *next;
    uint64_t missing;

    if (a->now_ns >= w->deadline_ns) {
        end_event(a, t, WAIT_END_DEADLINE);
        return true;
    }
    if (w->is_renewal) {
        end_event(a, t, WAIT_END_COVERED);
        return true;
    }
    if (w->kind == WAIT_LEASE && lease_is_held_up(a, t))
        return false;
    if (!w->is_unverified && w->lease != LEASE_SHARED && !wait_has_sample(a, w))
        return false;
    missing = w->is_unverified ? 0 : arbiter_missing(a, t);
    if (missing == 0 && !may_be_granted(a, t))
        return false;
    if (missing == 0) {
        end_event(a, t, w->is_unverified ? WAIT_END_UNVERIFIED : WAIT_END_COVERED);
        return true;
    }
    if (is_awaited(a, w, true))
        return false;
    if (lease_forbids_asking(a, t) && has_candidate(a, t))
        return false;
    next = best_ready(a, t, missing);
    if (next && !tenant_is_late(a, next)) {
        ask(a, next, w, true);
    } else if (!ask_all_busy(a, t)) {
        if (next)
            ask(a, next, w, true);
        else if (is_awaited(a, w, false) || awaits_ghosts(a, t))
            return false;
        else if (w->kind == WAIT_LEASE)
            rest(a, t);
        else
            end_event(a, t, WAIT_END_NOBODY);
    }
    if (next && next->reclaim.deadline_ns != 0)
        extend(a, t, next->reclaim.deadline_ns + 2 * a->limits.sample_timeout_ns);
    return true;
}

/* Gives places to those that came when all were taken; their deadline runs meanwhile. */
static bool place_the_rest(struct arbiter *a)
{
    bool did = false;

    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (!wait_is_active(&t->wait) || t->wait.event != 0)
            continue;
        if (a->now_ns >= t->wait.deadline_ns)
            end_event(a, t, WAIT_END_DEADLINE);
        else if (a->now_ns >= t->wait.rests_ns ||
                 (wait_has_sample(a, &t->wait) && arbiter_missing(a, t) == 0))
            did |= take_slot(a, t);
    }
    return did;
}

/* ---- answers ---- */

/* R24: retries are granted one at a time. */
static bool is_retry(const struct wait *w)
{
    return w->kind == WAIT_OOM && (w->end == WAIT_END_COVERED || w->end == WAIT_END_NOBODY);
}

static void answer(struct arbiter *a, struct tenant *t)
{
    if (t->wait.kind != WAIT_LEASE) /* which keeps it by its term */
        t->charge = bytes_min(t->wait.freed, t->wait.bytes);
    if (is_retry(&t->wait)) {
        a->granted = t;
        a->granted_ns = a->now_ns;
    }
    arbiter_queue(a, t, ACTION_END);
}

static bool is_to_be_answered(const struct tenant *t)
{
    return t->wait.kind != WAIT_NONE && t->wait.has_ended &&
           list_empty(&t->actions[ACTION_END].link);
}

/* The retry whose turn it is. */
static struct tenant *next_retry(struct arbiter *a)
{
    struct tenant *first = NULL;

    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (is_to_be_answered(t) && is_retry(&t->wait) &&
            (!first || t->wait.turn < first->wait.turn))
            first = t;
    }
    return first;
}

/* What was covered when its event ended may have been taken by the retries before it: it is looked
 * at again, as a new event. The answer says what is, not what was promised. */
static void look_again(struct arbiter *a, struct tenant *t)
{
    t->wait.has_ended = t->wait.had_to_queue = false;
    t->wait.event = 0;
    want_sample(a, &t->wait);
}

static void grant_next(struct arbiter *a)
{
    struct tenant *retry = a->granted ? NULL : next_retry(a);

    if (retry && retry->wait.had_to_queue && retry->wait.end == WAIT_END_COVERED)
        look_again(a, retry);
    else if (retry)
        answer(a, retry);
    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (is_to_be_answered(t))
            t->wait.had_to_queue = true;
    }
}

static void answer_all(struct arbiter *a)
{
    if (a->granted && a->now_ns - a->granted_ns >= ARBITER_GRANT_NS)
        a->granted = NULL;
    list_for_each(pos, tmp, &a->tenants)
    {
        struct tenant *t = list_entry(pos, struct tenant, link);

        if (!is_to_be_answered(t) || (is_retry(&t->wait) && a->now_ns < t->wait.deadline_ns))
            continue;
        if (t->wait.had_to_queue && t->wait.end == WAIT_END_COVERED) /* by others, perhaps */
            t->wait.end = WAIT_END_DEADLINE;
        answer(a, t);
    }
    grant_next(a);
    (void)place_the_rest(a); /* who is looked at again */
}

/* The oldest event that is younger than that one. */
static struct tenant *event_after(const struct arbiter *a, uint64_t event)
{
    struct tenant *next = NULL;

    for (uint32_t i = 0; i < ARBITER_EVENTS; i++) {
        struct tenant *t = a->events[i];

        if (t && t->wait.event > event && (!next || t->wait.event < next->wait.event))
            next = t;
    }
    return next;
}

void pressure_run(struct arbiter *a)
{
    bool did;

    a->wants_sample = false;
    if (a->waiting == 0) { /* as nearly always */
        lease_settle(a);
        return;
    }
    do {
        uint64_t event = 0;

        did = place_the_rest(a);
        lease_settle(a);
        for (struct tenant *t = event_after(a, 0); t; t = event_after(a, event)) {
            event = t->wait.event;
            did |= advance(a, t);
        }
    } while (did);
    answer_all(a);
    for (uint32_t i = 0; i < ARBITER_EVENTS; i++)
        if (a->events[i] && !wait_at(a, i)->is_unverified && !wait_has_sample(a, wait_at(a, i)))
            a->wants_sample = true;
    if (lease_wants_sample(a))
        a->wants_sample = true;
}
