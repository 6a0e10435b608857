/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/link_local.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/need.h"
#include "daemon/policy/policy.h"
#include "proto/base/error.h"

struct entry {
    struct stager stager;
    struct replica replica;
};

struct local {
    struct policy_settings settings;
    struct policy_session session;
    enum policy wanted_policy; /* of the options */
    struct list replicas;
    struct need need;
};

static struct entry *entry_of_stager(struct stager *s)
{
    return container_of(s, struct entry, stager);
}

static struct entry *entry_of_replica(struct replica *r)
{
    return container_of(r, struct entry, replica);
}

int local_new(const struct options *options, struct local **ret)
{
    const struct policy_choice choice = {
        .policy = options->policy,
        .has_min_free = options->has_min_free,
        .min_free = options->min_free,
        .stage_end = options->stage_end,
        .brackets = (options->features & FEATURE_BRACKETS) != 0,
        .mode = options->mode,
    };
    struct policy_settings generous;
    struct local *l;
    int r;

    policy_default_settings(&generous);
    generous.allow_never = true; /* the daemon will say */
    r = policy_check_choice(&generous, &choice);
    if (r < 0)
        return r;
    l = calloc(1, sizeof(*l));
    if (!l)
        return ERR_NO_MEMORY;
    policy_default_settings(&l->settings); /* until a daemon tells its own */
    l->wanted_policy = options->policy;
    policy_session_init(&l->session, 0, &choice, NULL);
    list_init(&l->replicas);
    local_refused(l); /* R11a: `never` needs a permission that nobody gave yet */
    *ret = l;
    return 0;
}

static void free_entry(struct entry *e)
{
    list_remove(&e->replica.link);
    free(e);
}

void local_free(struct local *l)
{
    if (!l)
        return;
    list_for_each(pos, tmp, &l->replicas)
        free_entry(entry_of_replica(list_entry(pos, struct replica, link)));
    free(l);
}

void local_welcome(struct local *l, const struct wire_welcome *w)
{
    l->session.number = w->session;
    l->session.choice.policy = l->wanted_policy;
    local_settings(l, w);
}

void local_settings(struct local *l, const struct wire_welcome *w)
{
    const struct policy_settings settings = {
        .margin = w->margin,
        .cap_fraction = w->cap_fraction,
        .min_free = w->min_free,
        .policy = w->policy,
        .mode = w->mode,
        .allow_never = w->allow_never || w->policy == POLICY_NEVER,
    };
    const char *key;

    if (policy_check_settings(&settings, &key) == 0) /* else what we had is better */
        l->settings = settings;
    if (w->operator.revision> l->session.state.operator.revision) /* R31: brought back by us, R29 */
        l->session.state.operator= w->operator;
}

void local_refused(struct local *l)
{
    if (l->wanted_policy == POLICY_NEVER)
        l->session.choice.policy = POLICY_NONE;
}

int local_attach(struct local *l, const char *id, uint64_t staged_bytes, struct replica **ret)
{
    struct entry *e;
    int r;

    *ret = NULL;
    if (ledger_find(&l->session.ledger, id))
        return 0;
    if (l->session.ledger.count >= QUOTA_STAGERS_SESSION)
        return ERR_LIMIT;
    e = calloc(1, sizeof(*e));
    if (!e)
        return ERR_NO_MEMORY;
    e->stager.staged_bytes = staged_bytes;
    strcpy(e->stager.id, id); /* options_name_ok passed it */
    r = policy_attach(&l->session, &e->stager);
    if (r <= 0) {
        free(e);
        return r;
    }
    e->replica =
        (struct replica){.id = e->stager.id, .staged_bytes = staged_bytes, .is_wanted = true};
    list_append(&l->replicas, &e->replica.link);
    *ret = &e->replica;
    return 0;
}

void local_undo_attach(struct local *l, struct replica *r)
{
    struct stager *s = ledger_remove(&l->session.ledger, r->id); /* not R3 */

    if (s)
        free_entry(entry_of_stager(s));
}

int local_detach(struct local *l, const char *id, struct replica **ret)
{
    struct stager *s = policy_detach(&l->session, id);
    struct entry *e;

    *ret = NULL;
    if (!s)
        return ERR_UNKNOWN_STAGER;
    e = entry_of_stager(s);
    e->replica.is_wanted = false;
    if (e->replica.is_known)
        *ret = &e->replica;
    else
        free_entry(e);
    return 0;
}

void local_drop(struct local *l, struct replica *tombstone)
{
    (void)l;
    free_entry(entry_of_replica(tombstone));
}

void local_forget_known(struct local *l)
{
    list_for_each(pos, tmp, &l->replicas)
    {
        struct replica *r = list_entry(pos, struct replica, link);

        r->is_known = r->is_refused = false;
        r->seq = 0;
        if (!r->is_wanted)
            free_entry(entry_of_replica(r));
    }
}

struct list *local_replicas(struct local *l)
{
    return &l->replicas;
}

int local_warmup(struct local *l, enum phase phase)
{
    return policy_warmup(&l->session, phase);
}

/* In a bracket it shows what it needs. */
static void show_need(struct local *l, struct opt_u64 reserved)
{
    if (reserved.has && l->session.state.busy)
        need_shown(&l->need, reserved.v);
}

int local_busy(struct local *l, enum phase phase, struct opt_u64 *need, struct opt_u64 *reserved,
               struct opt_u64 *allocated)
{
    struct resume *s = &l->session.state;
    uint64_t largest;
    int r;

    show_need(l, *reserved);
    r = policy_busy(&l->session, phase);
    if (r < 0)
        return r;
    if (phase == PHASE_END)
        need_bracket_end(&l->need);
    policy_report(&l->session, *reserved, *allocated);
    if (!reserved->has || !allocated->has) {
        *reserved = s->reserved;
        *allocated = s->allocated;
    }
    largest = need_largest(&l->need);
    if (!need->has && largest > 0 && reserved->has)
        *need = opt_u64(bytes_sub_sat(largest, reserved->v));
    if (need->has && reserved->has)
        s->announced = opt_u64(bytes_add_sat(reserved->v, need->v));
    return 0;
}

void local_vacated(struct local *l)
{
    policy_follow_bracket_end(&l->session);
}

void local_lacked(struct local *l, uint64_t bytes)
{
    if (l->session.state.busy)
        need_shown(&l->need, bytes_add_sat(l->session.state.reserved.v, bytes));
}

void local_set_peak(struct local *l, uint64_t peak)
{
    policy_set_peak(&l->session, peak);
}

void local_released(struct local *l, uint64_t reserved, uint64_t allocated)
{
    show_need(l, opt_u64(reserved));
    policy_released(&l->session, reserved, allocated);
}

bool local_is_forced(const struct local *l, const struct boundary *b)
{
    return options_is_forced(l->session.choice.stage_end, b->force);
}

void local_decide(struct local *l, const struct boundary *b, enum cause cause, struct answer *ret)
{
    struct policy_notice notice;

    show_need(l, b->reserved);
    policy_decide(&l->settings, &l->session, b, NULL, NULL, ret, &notice);
    if (cause != CAUSE_NONE)
        l->session.state.counts.local[cause]++;
}

void local_follow(struct local *l, const struct boundary *b, const struct answer *answer)
{
    show_need(l, b->reserved);
    policy_follow(&l->session, b, answer);
}

enum mode local_mode(const struct local *l)
{
    enum mode chosen = l->session.choice.mode;

    return chosen != MODE_NONE && chosen < l->settings.mode ? chosen : l->settings.mode;
}

const struct resume *local_state(const struct local *l)
{
    return &l->session.state;
}

void local_restore(struct local *l, const struct resume *state)
{
    l->session.state = *state;
}

uint64_t local_cap(const struct local *l, uint64_t total_bytes)
{
    return policy_cap(&l->settings, &l->session, total_bytes);
}

struct local_view local_view(const struct local *l)
{
    return (struct local_view){
        .session = l->session.number,
        .learned = policy_learned(&l->settings, &l->session),
        .staged_bytes = l->session.ledger.staged_bytes,
        .stager_count = l->session.ledger.count,
        .policy = policy_effective(&l->settings, &l->session),
    };
}
