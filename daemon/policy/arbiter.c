/* SPDX-License-Identifier: Apache-2.0 */
/* Events in, actions out. What an event leads to is in pressure.c. */
#include "daemon/policy/arbiter.h"

#include <stddef.h>

#include "daemon/policy/arbiter_parts.h"
#include "proto/base/error.h"

void arbiter_init(struct arbiter *a, const struct policy_settings *settings,
                  const struct arbiter_limits *limits)
{
    *a = (struct arbiter){.settings = settings, .limits = *limits};
    list_init(&a->tenants);
    list_init(&a->actions);
}

/* What was due by now happens before the event that comes now, in the order and as of the times at
 * which it was due, whenever arbiter_tick was called: the same events give the same actions in a
 * replay. */
static void at(struct arbiter *a, uint64_t now_ns)
{
    uint64_t due_ns = arbiter_due(a); /* as of the last event */

    a->event_ns = now_ns;
    while (due_ns <= now_ns) {
        uint64_t done_ns = due_ns;

        a->now_ns = due_ns;
        pressure_miss(a);
        pressure_run(a);
        due_ns = arbiter_due(a);
        if (due_ns <= done_ns)
            break;
    }
    a->now_ns = now_ns;
}

/* ---- who is there ---- */

/* In order of number; sessions come with the highest. */
static void insert(struct arbiter *a, struct tenant *t)
{
    struct list *after = a->tenants.prev;

    while (after != &a->tenants && list_entry(after, struct tenant, link)->number > t->number)
        after = after->prev;
    list_append(after->next, &t->link);
}

void arbiter_add(struct arbiter *a, struct tenant *t, struct policy_session *policy,
                 uint64_t number)
{
    *t = (struct tenant){.policy = policy, .number = number};
    for (int kind = 0; kind < ACTION_KINDS; kind++) {
        list_init(&t->actions[kind].link);
        t->actions[kind].tenant = t;
        t->actions[kind].kind = (enum action_kind)kind;
    }
    insert(a, t);
}

/* R25a: until a sample shows that its bytes are back. */
static void leave_ghost(struct arbiter *a, const struct tenant *t)
{
    struct ghost *place = &a->ghosts[0];
    uint64_t bytes = t->policy ? t->policy->state.reserved.v : 0;

    if (bytes == 0 || !a->newest.free.has)
        return;
    for (size_t i = 0; i < ARBITER_GHOSTS && place->bytes != 0; i++)
        place = &a->ghosts[i];
    *place = (struct ghost){
        .bytes = bytes_add_sat(place->bytes, bytes),
        .free_bytes = place->bytes ? place->free_bytes : a->newest.free.v,
        .died_ns = a->now_ns,
    };
}

void arbiter_remove(struct arbiter *a, struct tenant *t, uint64_t now_ns)
{
    at(a, now_ns);
    pressure_forget(a, t);
    lease_forget(a, t);
    if (t->reclaim.serves)
        pressure_answered(a, t, 0, opt_none());
    if (a->granted == t)
        a->granted = NULL;
    list_remove(&t->link);
    for (int kind = 0; kind < ACTION_KINDS; kind++)
        list_remove(&t->actions[kind].link);
    leave_ghost(a, t);
    pressure_run(a);
}

/* ---- what they report ---- */

/* Each report of a session ends its grant and what was kept for it. */
static void take_report(struct arbiter *a, struct tenant *t, struct opt_u64 releasable)
{
    t->releasable = releasable;
    t->charge = 0;
    t->told_ns = 0;
    if (a->granted == t)
        a->granted = NULL;
}

/* Gives what the boundary has to do for others, and notes that it was told. */
static bool tell_reclaim(struct tenant *t, struct opt_u64 reserved)
{
    if (t->reclaim.serves == 0)
        return false;
    t->reclaim.is_told = true;
    if (reserved.has) {
        t->reclaim.reserved = reserved.v;
        t->reclaim.claim = tenant_reclaimable(t);
    }
    list_remove(&t->actions[ACTION_RECLAIM].link); /* it does it here and now */
    return true;
}

/* It was told to release at an earlier boundary and has not said since what became of it. */
static void settle_told(struct arbiter *a, struct tenant *t, struct opt_u64 reserved)
{
    if (t->reclaim.serves && t->reclaim.is_told && reserved.has)
        pressure_answered(a, t, bytes_sub_sat(t->reclaim.reserved, reserved.v), reserved);
}

void arbiter_boundary(struct arbiter *a, struct tenant *t, const struct boundary *b,
                      uint64_t now_ns, struct others *ret)
{
    at(a, now_ns);
    settle_told(a, t, b->reserved);
    policy_report(t->policy, b->reserved, b->allocated);
    take_report(a, t, b->releasable);
    lease_reported(a, t);
    *ret = (struct others){.quiet = lease_is_quiet_for(a, t, b->free)};
    ret->reclaims = !ret->quiet && tell_reclaim(t, b->reserved);
    pressure_run(a);
}

void arbiter_told(struct arbiter *a, struct tenant *t, uint64_t now_ns)
{
    at(a, now_ns);
    t->told_ns = now_ns;
    pressure_run(a);
}

static void take_release(struct arbiter *a, struct tenant *t, bool is_release, uint64_t us)
{
    struct opt_u64 reserved = t->policy->state.reserved;

    take_report(a, t, opt_none());
    if (is_release) {
        t->slowest_ns = bytes_max(t->slowest_ns, us > UINT64_MAX / 1000 ? UINT64_MAX : us * 1000);
        if (t->reclaim.serves)
            pressure_answered(a, t, bytes_sub_sat(t->reclaim.reserved, reserved.v), reserved);
    }
    pressure_run(a);
}

void arbiter_reported(struct arbiter *a, struct tenant *t, bool is_release, uint64_t us,
                      uint64_t now_ns)
{
    at(a, now_ns);
    lease_reported(a, t);
    take_release(a, t, is_release, us);
}

int arbiter_reclaimed(struct arbiter *a, struct tenant *t, uint64_t call, bool did, uint64_t us,
                      uint64_t now_ns)
{
    if (t->reclaim.serves == 0 || !t->reclaim.is_pushed || t->reclaim.call != call)
        return ERR_BAD_STATE;
    at(a, now_ns);
    if (did) { /* for others: it says nothing of what this session maps for itself (R25) */
        take_release(a, t, true, us);
        return 0;
    }
    pressure_answered(a, t, 0, t->policy->state.reserved);
    pressure_run(a);
    return 0;
}

/* ---- brackets and idle waits ---- */

static void announce(struct arbiter *a, struct tenant *t, struct opt_u64 need)
{
    take_report(a, t, opt_none());
    lease_reported(a, t);
    t->was_busy = true;
    t->last_busy_ns = a->now_ns;
    if (need.has)
        t->policy->state.announced = opt_u64(bytes_add_sat(t->policy->state.reserved.v, need.v));
}

uint64_t arbiter_new_call(struct arbiter *a)
{
    return ++a->last_call;
}

bool arbiter_busy_begin(struct arbiter *a, struct tenant *t, struct opt_u64 need, uint64_t wait_ns,
                        uint64_t call, uint64_t now_ns)
{
    const struct wait w = {
        .kind = WAIT_BUSY,
        .call = call,
        .bytes = need.v,
        .deadline_ns = bytes_add_sat(now_ns, bytes_min(wait_ns, a->limits.busy_wait_ns)),
    };
    bool waits;

    at(a, now_ns);
    settle_told(a, t, t->policy->state.reserved);
    announce(a, t, need);
    waits = need.v > 0 && t->wait.kind == WAIT_NONE && tenant_is_on(a, t) && arbiter_has_sample(a);
    if (waits) {
        pressure_begin(a, t, &w);
        if (arbiter_missing(a, t) == 0) {
            pressure_forget(a, t);
            waits = false;
        }
    }
    pressure_run(a);
    return waits;
}

void arbiter_busy_end(struct arbiter *a, struct tenant *t, struct opt_u64 need, uint64_t now_ns,
                      struct others *ret)
{
    at(a, now_ns);
    settle_told(a, t, t->policy->state.reserved);
    announce(a, t, need);
    *ret = (struct others){.quiet = lease_is_quiet_for(a, t, opt_none())};
    if (!ret->quiet) {
        ret->reclaims = tell_reclaim(t, t->policy->state.reserved);
        ret->neighbour_need = tenant_is_on(a, t) && arbiter_has_neighbour_need(a, t);
    }
    pressure_run(a);
}

int arbiter_idle(struct arbiter *a, struct tenant *t, enum phase phase, bool is_background,
                 uint64_t now_ns)
{
    bool *is_on = is_background ? &t->is_background : &t->is_idle;
    bool begins = phase == PHASE_BEGIN;

    if (*is_on == begins)
        return ERR_BAD_STATE;
    at(a, now_ns);
    *is_on = begins;
    pressure_run(a); /* whoever waits may ask it now */
    return 0;
}

/* ---- calls that wait ---- */

int arbiter_oom(struct arbiter *a, struct tenant *t, uint64_t need, uint64_t call, uint64_t now_ns)
{
    const struct wait w = {
        .kind = WAIT_OOM,
        .call = call,
        .bytes = need,
        .deadline_ns = bytes_add_sat(now_ns, a->limits.oom_wait_ns),
    };

    if (t->wait.kind != WAIT_NONE)
        return ERR_BAD_STATE;
    at(a, now_ns);
    if (a->granted == t)
        a->granted = NULL;
    t->charge = 0;
    pressure_begin(a, t, &w);
    pressure_run(a);
    return 0;
}

static bool is_possible(const struct lease_wish *w)
{
    bool is_bytes = w->kind == LEASE_BYTES;

    return w->kind != LEASE_NONE && is_bytes == (w->bytes != 0) &&
           w->quiet_ns <= (is_bytes ? w->term_ns : 0) && w->term_ns != 0 &&
           w->wait_ns <= ARBITER_LEASE_WAIT_MAX_NS && w->term_ns <= ARBITER_LEASE_TERM_MAX_NS;
}

static bool has_as_much(const struct arbiter *a, const struct tenant *t,
                        const struct lease_wish *wish)
{
    const struct hold *h = &t->hold;

    if (wish->kind != LEASE_BYTES)
        return arbiter_leased(a, t) == wish->kind || arbiter_leased(a, t) == LEASE_EXCLUSIVE;
    return wish->bytes <= h->bytes && a->now_ns < h->ends_ns &&
           (wish->quiet_ns == 0 || a->now_ns < h->quiet_ends_ns);
}

int arbiter_lease(struct arbiter *a, struct tenant *t, const struct lease_wish *wish, uint64_t call,
                  uint64_t now_ns)
{
    struct wait w = {
        .kind = WAIT_LEASE,
        .lease = wish->kind,
        .call = call,
        .bytes = wish->bytes,
        .quiet_ns = wish->quiet_ns,
        .term_ns = wish->term_ns,
        .deadline_ns = bytes_add_sat(now_ns, wish->wait_ns),
    };

    if (!is_possible(wish))
        return ERR_INVALID;
    if (t->wait.kind != WAIT_NONE)
        return ERR_BAD_STATE;
    at(a, now_ns);
    w.is_renewal = has_as_much(a, t, wish);
    pressure_begin(a, t, &w);
    pressure_run(a);
    return 0;
}

int arbiter_unlease(struct arbiter *a, struct tenant *t, enum lease kind, uint64_t now_ns)
{
    at(a, now_ns);
    if (kind == LEASE_BYTES) {
        if (t->hold.bytes == 0)
            return ERR_BAD_STATE;
        t->hold = (struct hold){0};
    } else {
        if (t->lease == LEASE_NONE)
            return ERR_BAD_STATE;
        t->lease = LEASE_NONE;
        t->lease_ends_ns = 0;
    }
    pressure_run(a);
    return 0;
}

static bool has_session(const struct arbiter *a, uint64_t number)
{
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *t = list_entry(pos, struct tenant, link);

        if (t->number == number && t->policy)
            return true;
    }
    return false;
}

int arbiter_operator(struct arbiter *a, struct tenant *t, uint64_t bytes, uint64_t target,
                     bool only_ready, uint64_t call, uint64_t now_ns)
{
    const struct wait w = {
        .kind = WAIT_OPERATOR,
        .call = call,
        .bytes = bytes,
        .target = target,
        .only_ready = only_ready,
        .deadline_ns = bytes_add_sat(now_ns, a->limits.oom_wait_ns),
    };

    if (t->wait.kind != WAIT_NONE)
        return ERR_BAD_STATE;
    if (target != 0 && !has_session(a, target))
        return ERR_UNKNOWN_SESSION;
    at(a, now_ns);
    pressure_begin(a, t, &w);
    pressure_run(a);
    return 0;
}

/* ---- samples and time ---- */

static void lay_ghosts(struct arbiter *a)
{
    for (size_t i = 0; i < ARBITER_GHOSTS; i++) {
        struct ghost *g = &a->ghosts[i];
        uint64_t back = bytes_sub_sat(a->newest.free.v, g->free_bytes);

        if (g->bytes != 0 && (back >= g->bytes - g->bytes / 10 || /* drivers keep some */
                              a->now_ns - g->died_ns >= a->limits.dead_wait_ns))
            *g = (struct ghost){0};
        else
            g->free_bytes = bytes_min(g->free_bytes, a->newest.free.v);
    }
}

void arbiter_sample(struct arbiter *a, const struct sample *sample, uint64_t now_ns)
{
    at(a, now_ns);
    if (sample && sample->free.has) {
        a->newest = *sample;
        a->newest_ns = bytes_sub_sat(now_ns, sample->age_ns);
        a->samples++;
        lay_ghosts(a);
        lease_sampled(a);
    } else {
        pressure_unverified(a);
    }
    pressure_run(a);
}

void arbiter_tick(struct arbiter *a, uint64_t now_ns)
{
    at(a, now_ns);
}

uint64_t arbiter_due(const struct arbiter *a)
{
    uint64_t due = UINT64_MAX;

    if (a->waiting == 0) /* nobody is asked either */
        return due;
    list_for_each(pos, tmp, &a->tenants)
    {
        const struct tenant *t = list_entry(pos, struct tenant, link);

        if (t->wait.kind != WAIT_NONE)
            due = bytes_min(due, t->wait.deadline_ns);
        due = bytes_min(due, lease_due(a, t));
        if (t->reclaim.deadline_ns != 0)
            due = bytes_min(due, t->reclaim.deadline_ns);
    }
    if (a->granted)
        due = bytes_min(due, a->granted_ns + ARBITER_GRANT_NS);
    return bytes_min(due, lease_settle_due(a));
}

bool arbiter_wants_sample(const struct arbiter *a)
{
    return a->wants_sample;
}

/* ---- actions ---- */

void arbiter_queue(struct arbiter *a, struct tenant *t, enum action_kind kind)
{
    struct action_node *node = &t->actions[kind];

    if (list_empty(&node->link))
        list_append(&a->actions, &node->link);
}

bool arbiter_next(struct arbiter *a, struct action *ret)
{
    struct action_node *node;
    struct tenant *t;

    if (list_empty(&a->actions))
        return false;
    node = list_entry(a->actions.next, struct action_node, link);
    list_remove(&node->link);
    t = node->tenant;
    *ret = (struct action){.kind = node->kind, .tenant = t};
    if (node->kind == ACTION_RECLAIM) {
        ret->event = t->reclaim.event;
        ret->call = t->reclaim.call;
        ret->bytes = t->reclaim.claim;
        ret->timeout_ns = bytes_sub_sat(t->reclaim.deadline_ns, a->now_ns);
        return true;
    }
    ret->event = t->wait.event;
    ret->call = t->wait.call;
    ret->timeout_ns = bytes_sub_sat(t->wait.deadline_ns, a->now_ns);
    if (node->kind == ACTION_END) {
        ret->end = t->wait.end;
        ret->freed = t->wait.freed;
        ret->free = arbiter_has_sample(a) ? a->newest.free : opt_none();
        t->wait = (struct wait){0};
        a->waiting--;
    }
    return true;
}
