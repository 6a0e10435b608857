/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/policy.h"

#include <stddef.h>

#include "proto/base/error.h"

static bool is_fraction(double v)
{
    return v >= 0.0 && v <= 1.0; /* false for NaN */
}

void policy_default_settings(struct policy_settings *s)
{
    *s = (struct policy_settings){
        .margin = 1.25,
        .cap_fraction = 0.25,
        .min_free = 0.05,
        .policy = POLICY_LEARNED,
        .mode = MODE_ON,
    };
}

/* R11 */
int policy_check_settings(const struct policy_settings *s, const char **ret_key)
{
    const char *key = NULL;

    if (!(s->margin >= 1.0 && s->margin <= 1e6)) /* above a million it is a slip, not a margin */
        key = "margin";
    else if (!is_fraction(s->cap_fraction))
        key = "cap_fraction";
    else if (!is_fraction(s->min_free))
        key = "min_free";
    else if (s->policy < POLICY_LEARNED || s->policy > POLICY_NEVER)
        key = "policy"; /* R32 (demand) is planned */
    else if (s->policy == POLICY_NEVER && !s->allow_never)
        key = "allow_never";
    else if (s->mode < MODE_OFF || s->mode > MODE_ON)
        key = "mode";
    if (!key)
        return 0;
    *ret_key = key;
    return ERR_INVALID;
}

/* R11a */
int policy_check_choice(const struct policy_settings *s, const struct policy_choice *choice)
{
    if (choice->has_min_free && !is_fraction(choice->min_free))
        return ERR_INVALID;
    if (choice->policy == POLICY_DEMAND)
        return ERR_UNSUPPORTED;
    if (choice->policy == POLICY_NEVER && !s->allow_never)
        return ERR_POLICY_NOT_ALLOWED;
    return 0;
}

void policy_session_init(struct policy_session *p, uint64_t number,
                         const struct policy_choice *choice, const struct resume *resume)
{
    *p = (struct policy_session){.number = number, .choice = *choice};
    ledger_init(&p->ledger);
    if (resume)
        p->state = *resume;
}

/* R1 */
int policy_attach(struct policy_session *p, struct stager *node)
{
    int r;

    if (ledger_find(&p->ledger, node->id))
        return 0;
    r = ledger_add(&p->ledger, node);
    return r < 0 ? r : 1;
}

/* R2, R3 */
struct stager *policy_detach(struct policy_session *p, const char *id)
{
    struct stager *node = ledger_remove(&p->ledger, id);

    if (node && p->ledger.staged_bytes == 0) {
        p->state.peak = 0;
        p->state.warmup_ended = false; /* R13 */
    }
    return node;
}

/* R11c */
void policy_set_peak(struct policy_session *p, uint64_t peak_bytes)
{
    p->state.peak = peak_bytes;
}

/* R12 */
int policy_warmup(struct policy_session *p, enum phase phase)
{
    bool begins = phase == PHASE_BEGIN;

    if (p->state.in_warmup == begins)
        return ERR_BAD_STATE;
    p->state.in_warmup = begins;
    if (!begins)
        p->state.warmup_ended = true;
    return 0;
}

/* R21: busy is declared, never guessed */
int policy_busy(struct policy_session *p, enum phase phase)
{
    bool begins = phase == PHASE_BEGIN;

    if (!p->choice.brackets || p->state.busy == begins)
        return ERR_BAD_STATE;
    p->state.busy = begins;
    if (!begins)
        habit_bracket_end(&p->habit);
    return 0;
}

/* R31 */
int policy_set(struct policy_session *p, const struct operator_change *change)
{
    struct operator_settings *o = &p->state.operator;

    if (change->revision != o->revision)
        return ERR_STALE;
    if (change->has_cap)
        o->cap_bytes = change->cap_bytes;
    if (change->has_pin)
        o->pin_bytes = change->pin_bytes;
    if (change->has_priority)
        o->priority = change->priority;
    o->revision++;
    return 0;
}

void policy_report(struct policy_session *p, struct opt_u64 reserved, struct opt_u64 allocated)
{
    if (!reserved.has || !allocated.has)
        return;
    p->state.reserved = reserved;
    p->state.allocated = allocated;
}

/* R26 */
void policy_released(struct policy_session *p, uint64_t reserved, uint64_t allocated)
{
    p->state.reserved = opt_u64(reserved);
    p->state.allocated = opt_u64(allocated);
    p->state.residue = opt_u64(bytes_sub_sat(reserved, allocated));
}

uint64_t policy_product(uint64_t bytes, double fraction)
{
    double product = (double)bytes * fraction;

    /* 2^64 as a double: what is at or above it does not fit, and converting it is undefined */
    return product >= 18446744073709551616.0 ? UINT64_MAX : (uint64_t)product;
}

enum policy policy_effective(const struct policy_settings *s, const struct policy_session *p)
{
    return p->choice.policy != POLICY_NONE ? p->choice.policy : s->policy;
}

uint64_t policy_learned(const struct policy_settings *s, const struct policy_session *p)
{
    return policy_product(p->state.peak, s->margin);
}

uint64_t policy_cap(const struct policy_settings *s, const struct policy_session *p,
                    uint64_t total_bytes)
{
    if (p->state.operator.cap_bytes.has) /* R31 */
        return p->state.operator.cap_bytes.v;
    return policy_product(total_bytes, s->cap_fraction);
}

uint64_t policy_floor(const struct policy_settings *s, const struct policy_session *p,
                      uint64_t total_bytes)
{
    return policy_product(total_bytes, p->choice.has_min_free ? p->choice.min_free : s->min_free);
}

/* R5, R11a */
uint64_t policy_budget(const struct policy_settings *s, const struct policy_session *p,
                       uint64_t total_bytes)
{
    uint64_t cap = policy_cap(s, p, total_bytes);

    switch (policy_effective(s, p)) {
    case POLICY_ALWAYS:
        return 0;
    case POLICY_NEVER:
        return UINT64_MAX;
    case POLICY_FIXED:
        return cap;
    default:
        return bytes_min(policy_learned(s, p), cap);
    }
}

/* The value that R5 compares. */
static void read_cache(const struct boundary *b, struct answer *a)
{
    uint64_t cached;

    if (!b->reserved.has || !b->allocated.has)
        return;
    cached = bytes_sub_sat(b->reserved.v, b->allocated.v);
    a->cached = opt_u64(b->releasable.has ? bytes_min(cached, b->releasable.v) : cached);
}

/* R11b: free and total always come from one source, the worker's own pair first. Where R6 decides
 * without them nobody takes a sample, so none is shown either. */
static void read_memory(const struct boundary *b, const struct sample *newest, struct answer *a)
{
    if (b->free.has && b->total.has) {
        a->free = b->free;
        a->total = b->total;
        a->age_ns = opt_u64(0);
    } else if (newest && a->cached.has) {
        a->free = newest->free;
        a->total = newest->total;
        a->age_ns = opt_u64(newest->age_ns);
    }
}

/* R8: the values of before the observation; those whose inputs were not read stay missing. */
static void fill_inputs(const struct policy_settings *s, const struct policy_session *p,
                        struct answer *a)
{
    enum policy policy = policy_effective(s, p);

    if (a->total.has) {
        a->floor = opt_u64(policy_floor(s, p, a->total.v));
        a->cap = opt_u64(policy_cap(s, p, a->total.v));
    }
    if (a->total.has || policy == POLICY_ALWAYS || policy == POLICY_NEVER)
        a->budget = opt_u64(policy_budget(s, p, a->total.v));
    if (a->cached.has && a->cap.has)
        a->capped = opt_u64(a->cached.v <= policy_learned(s, p) && a->cached.v > a->cap.v ? 1 : 0);
}

/* R5, R6, R7 for an unforced boundary, on the inputs that fill_inputs left. */
static enum decision judge(enum policy policy, const struct answer *a, const struct others *others,
                           enum reason *ret_reason)
{
    if (!a->cached.has || !a->free.has || !a->total.has) {
        *ret_reason = REASON_TELEMETRY_UNAVAILABLE; /* R6, under every policy */
        return DECISION_RELEASE;
    }
    if (others && others->quiet) {
        *ret_reason = REASON_QUIET;
        return DECISION_RETAIN;
    }
    if (others && others->reclaims) {
        *ret_reason = REASON_RECLAIM;
        return DECISION_RELEASE;
    }
    if (policy == POLICY_ALWAYS) {
        *ret_reason = REASON_POLICY_ALWAYS;
        return DECISION_RELEASE;
    }
    if (policy == POLICY_NEVER) {
        *ret_reason = REASON_POLICY_NEVER;
        return DECISION_RETAIN;
    }
    if (a->cached.v > a->budget.v) {
        *ret_reason = REASON_CACHED_OVER_BUDGET;
        return DECISION_RELEASE;
    }
    if (a->free.v < a->floor.v) {
        *ret_reason = REASON_LOW_FREE_MEMORY;
        return DECISION_RELEASE;
    }
    *ret_reason = REASON_WITHIN_BUDGET;
    return DECISION_RETAIN;
}

/* R12, R13 */
static void count(struct policy_session *p, const struct answer *a, uint64_t old_peak,
                  struct policy_notice *ret_notice)
{
    struct counts *c = &p->state.counts;

    if (a->would == DECISION_RETAIN) {
        c->retained++;
        return;
    }
    if (p->state.in_warmup) {
        c->cold_start_releases++;
        return;
    }
    c->serving_releases++;
    if (a->reason == REASON_CACHED_OVER_BUDGET && a->capped.v == 0 && p->state.warmup_ended) {
        c->uncovered++;
        ret_notice->uncovered = p->state.peak > old_peak;
        ret_notice->old_peak = old_peak;
        ret_notice->new_peak = p->state.peak;
    }
}

/* R30 */
enum mode policy_mode(const struct policy_settings *s, const struct policy_session *p)
{
    return p->choice.mode != MODE_NONE && p->choice.mode < s->mode ? p->choice.mode : s->mode;
}

bool policy_is_forced(const struct policy_session *p, const struct boundary *b)
{
    if (b->force == FORCE_STAGE_END && p->choice.stage_end == STAGE_END_ADVISE)
        return false;
    return b->force != FORCE_NONE;
}

void policy_decide(const struct policy_settings *s, struct policy_session *p,
                   const struct boundary *b, const struct sample *newest,
                   const struct others *others, struct answer *ret,
                   struct policy_notice *ret_notice)
{
    struct answer a = {.session = p->number, .warmup = p->state.in_warmup};
    uint64_t old_peak = p->state.peak;

    *ret_notice = (struct policy_notice){0};
    a.n = ++p->state.n;
    a.staged_bytes = p->ledger.staged_bytes;
    a.stager_count = p->ledger.count;
    policy_report(p, b->reserved, b->allocated);
    if (policy_is_forced(p, b)) { /* R4: no telemetry is read, nothing is learned */
        a.would = DECISION_RELEASE;
        a.reason = REASON_FORCED;
        p->state.counts.forced[b->force]++;
    } else {
        read_cache(b, &a);
        read_memory(b, newest, &a);
        fill_inputs(s, p, &a);
        a.would = judge(policy_effective(s, p), &a, others, &a.reason);
        if (a.reason != REASON_TELEMETRY_UNAVAILABLE) /* R5: decide, then learn */
            p->state.peak = bytes_max(p->state.peak, a.cached.v);
        count(p, &a, old_peak, ret_notice);
        habit_boundary(&p->habit, &a, b, p->choice.brackets, p->state.busy);
    }
    a.decision = policy_mode(s, p) == MODE_ON ? a.would : DECISION_KEEP;
    a.peak = p->state.peak;
    a.learned = policy_learned(s, p);
    p->last = a;
    *ret = a;
}

void policy_follow_bracket_end(struct policy_session *p)
{
    if (p->state.in_warmup)
        p->state.counts.cold_start_releases++;
    else
        p->state.counts.serving_releases++;
}

enum reason policy_bracket_end(struct policy_session *p, const struct others *others)
{
    enum reason reason = others->reclaims         ? REASON_RECLAIM
                         : others->neighbour_need ? REASON_NEIGHBOUR_NEED
                                                  : REASON_NONE;

    if (reason != REASON_NONE)
        policy_follow_bracket_end(p);
    return reason;
}

void policy_follow(struct policy_session *p, const struct boundary *b, const struct answer *a)
{
    struct policy_notice ignored = {0};

    policy_report(p, b->reserved, b->allocated);
    count(p, a, p->state.peak, &ignored);
    p->state.peak = a->peak;
    p->state.n = a->n;
    p->last = *a;
}
