/* SPDX-License-Identifier: Apache-2.0 */
/* 1,000 random schedules of several workers on one device, each played with the arbiter and without
 * one: what R20 to R25a promise holds at every step, and fewer requests fail. The seed of a
 * schedule is its number.
 *
 * A worker serves requests: it idles (in an idle wait, or dormant), begins a bracket, loads its
 * components one after the other, each of which needs so much of the device, passes a boundary
 * after each, and ends. It keeps its cache until it is told otherwise, or runs out of memory: then
 * it releases, asks for room, and tries once more. Now and then one reserves. Some die, some stop
 * for a while. */
#include <stdlib.h>

#include "tests/unit/arbiter_case.h"

#define SCHEDULES     1000
#define WORKERS       5
#define STEPS         1200 /* of 50 ms: a minute */
#define STEP_NS       (ARBITER_S / 20)
#define COMPONENTS    3
#define TOLD_KEPT     32
#define SAMPLES       5 /* steps between periodic samples */
#define LEASE_WAIT_NS (4 * ARBITER_S)
/* R23: an event asks a session once at most, and each worker has one that rests (R25) in between.
 */
#define ASKED_A_MINUTE (WORKERS * 60)

/* As ck_assert, which writes to a pipe each time: here it is asked millions of times. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg("schedule %u: %s", (unsigned)schedule, #condition);                       \
    } while (0)

enum doing { IDLE, BUSY, IN_OOM, IN_LEASE, DEAD };

struct worker {
    enum doing doing;
    uint64_t until_ns;   /* of what it does now */
    uint64_t stopped_ns; /* it answers nothing until then */
    uint64_t reserved, allocated;
    uint64_t needs[COMPONENTS], largest;
    uint32_t component;
    uint64_t begun_ns;
    uint64_t told_events[TOLD_KEPT]; /* that it was asked for, the last ones */
    uint32_t told_count;
    bool is_told; /* to release, by an action */
    struct lease_wish wish;
    bool is_renewal; /* it has that much already */
    uint64_t minute, asked_in_minute;
};

static struct worker workers[WORKERS + 1];
static bool has_arbiter;
static uint64_t schedule, random_state, grants_until_ns, credited, given_back;
static size_t granted_to;
static uint64_t failed[2], served[2], asked_total, leased_total[4], asked_most;
static struct {
    uint64_t held_bytes, until_ns;
} grave;

static uint64_t pick(uint64_t from, uint64_t to)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return from + (z ^ (z >> 31)) % (to - from + 1);
}

static uint64_t room(void)
{
    uint64_t used = grave.held_bytes;

    for (size_t n = 1; n <= WORKERS; n++)
        used += workers[n].reserved;
    MUST(used <= total_bytes);
    return total_bytes - used;
}

static void take_sample(void)
{
    struct sample s = {.free = opt_u64(room()), .total = opt_u64(total_bytes)};

    arbiter_sample(&arbiter, &s, now_ns);
}

/* ---- what holds at every step ---- */

/* Whose quiet is in force; 0: nobody's but that of n. */
static size_t quiet_of_another(size_t n)
{
    for (size_t other = 1; other <= WORKERS; other++)
        if (other != n && workers[other].doing != DEAD && arbiter_is_quiet(&arbiter, tenant(other)))
            return other;
    return 0;
}

/* R25: nobody gives anything back because of others, or is asked to. */
static void check_quiet(size_t n)
{
    if (arbiter.newest.free.v >= arbiter.limits.quiet_reserve)
        MUST(quiet_of_another(n) == 0);
}

static void check_reclaim(const struct action *a)
{
    size_t n = (size_t)a->tenant->number;
    const struct worker *w = &workers[n];

    MUST(w->doing != DEAD);
    /* R20, R23: only one that can do it now, on its own thread */
    MUST(!quiet_of_another(0));
    MUST(a->tenant->is_idle || w->doing == IN_OOM || w->doing == IN_LEASE);
    for (size_t i = 0; i < TOLD_KEPT; i++)
        MUST(a->event != w->told_events[i]); /* R23: once per event */
    workers[n].told_events[w->told_count % TOLD_KEPT] = a->event;
    workers[n].told_count++;
    workers[n].is_told = true;
    if (workers[n].minute != now_ns / (60 * ARBITER_S)) {
        workers[n].minute = now_ns / (60 * ARBITER_S);
        workers[n].asked_in_minute = 0;
    }
    asked_most = bytes_max(asked_most, ++workers[n].asked_in_minute);
    MUST(workers[n].asked_in_minute <= ASKED_A_MINUTE);
    calls[n] = a->call;
    asked_total++;
}

/* R25: what is kept was free when it was granted. (That two never count the same bytes has cases of
 * its own: here workers map and give back what is kept for them, between the samples.) */
static void check_hold(size_t n, uint64_t free_bytes_then)
{
    MUST(now_ns - arbiter.newest_ns <= ARBITER_LEASE_AGE_NS);
    MUST(arbiter_held(&arbiter, tenant(n)) <= free_bytes_then);
}

static bool has_ghost(void)
{
    for (size_t i = 0; i < ARBITER_GHOSTS; i++)
        if (arbiter.ghosts[i].bytes != 0)
            return true;
    return false;
}

/* R25: nobody releases or maps again what he had, once it is quiet. */
static void check_at_rest(size_t n)
{
    MUST(now_ns - arbiter.newest_ns <= ARBITER_LEASE_AGE_NS);
    MUST(!has_ghost());
    for (size_t other = 1; other <= WORKERS; other++) {
        const struct tenant *t = tenant(other);

        if (other == n || workers[other].doing == DEAD)
            continue;
        MUST(t->reports.count == 0 || now_ns - t->reports.last_ns >= ARBITER_REPORTED_NS ||
             t->policy->state.reserved.v >= reports_most(&t->reports));
    }
}

static void check_lease(size_t n, uint64_t free_bytes_then)
{
    const struct worker *w = &workers[n];
    bool is_exclusive = w->wish.kind == LEASE_EXCLUSIVE;

    leased_total[w->wish.kind]++;
    if (w->is_renewal)
        return;
    if (w->wish.kind != LEASE_SHARED)
        MUST(quiet_of_another(n) == 0);
    if (w->wish.kind == LEASE_BYTES)
        check_hold(n, free_bytes_then);
    if (is_exclusive || w->wish.quiet_ns != 0)
        check_at_rest(n);
    for (size_t other = 1; other <= WORKERS; other++) {
        enum lease leased = other != n && workers[other].doing != DEAD
                                ? arbiter_leased(&arbiter, tenant(other))
                                : LEASE_NONE;

        MUST(leased != LEASE_EXCLUSIVE || w->wish.kind == LEASE_NONE);
        MUST(!is_exclusive || leased == LEASE_NONE);
    }
}

/* R24: retries one at a time, and by the deadline. */
static void check_end(const struct action *a)
{
    size_t n = (size_t)a->tenant->number;
    struct worker *w = &workers[n];

    if (w->doing == IN_OOM) {
        bool is_retry = a->end == WAIT_END_COVERED || a->end == WAIT_END_NOBODY;

        MUST(!is_retry || granted_to == 0 || now_ns >= grants_until_ns ||
             now_ns - w->begun_ns >= 5 * ARBITER_S);
        if (is_retry) {
            granted_to = n;
            grants_until_ns = now_ns + ARBITER_GRANT_NS;
        }
        MUST(now_ns - w->begun_ns <= 21 * ARBITER_S);
        if (a->end == WAIT_END_COVERED) /* the answer says what is */
            MUST(a->free.has && a->free.v >= w->needs[w->component]);
    } else if (w->doing == IN_LEASE) {
        MUST(now_ns - w->begun_ns <= LEASE_WAIT_NS + STEP_NS);
        if (a->end == WAIT_END_COVERED)
            check_lease(n, a->free.v);
        w->doing = IDLE;
    } else {
        MUST(now_ns - w->begun_ns <= ARBITER_S / 5 + STEP_NS);
    }
    credited += a->freed;
    w->until_ns = now_ns; /* it goes on */
}

static void check_state(void)
{
    uint32_t waiting = 0;
    uint64_t active = 0;

    for (uint32_t i = 0; i < ARBITER_EVENTS; i++)
        if (arbiter.events[i])
            active |= UINT64_C(1) << i;
    list_for_each(pos, tmp, &arbiter.tenants)
    {
        const struct tenant *t = list_entry(pos, struct tenant, link);

        waiting += t->wait.kind != WAIT_NONE;
        MUST((t->reclaim.serves & ~active) == 0); /* R23: a request ends with its event */
        MUST((t->asked & ~active) == 0);
        MUST((t->reclaim.serves & ~t->asked) == 0);
        if (t->wait.kind != WAIT_NONE)
            MUST(t->wait.deadline_ns > now_ns); /* R24, R28 */
    }
    MUST(waiting == arbiter.waiting);
    MUST(arbiter_due(&arbiter) > now_ns);
    MUST(credited <= given_back); /* nothing is counted twice */
    MUST(list_empty(&arbiter.actions));
}

static void settle(void)
{
    struct action a;

    do {
        while (arbiter_next(&arbiter, &a)) {
            if (a.kind == ACTION_RECLAIM)
                check_reclaim(&a);
            else if (a.kind == ACTION_END)
                check_end(&a);
        }
        if (arbiter_wants_sample(&arbiter))
            take_sample();
    } while (!list_empty(&arbiter.actions));
    check_state();
}

/* ---- what workers do ---- */

static void end_grant(size_t n)
{
    if (granted_to == n)
        granted_to = 0;
}

static void give_back(size_t n)
{
    struct worker *w = &workers[n];

    given_back += w->reserved - w->allocated;
    w->reserved = w->allocated;
    if (!has_arbiter)
        return;
    end_grant(n);
    policy_released(&players[n].policy, w->reserved, w->allocated);
}

static void report_release(size_t n)
{
    give_back(n);
    if (has_arbiter)
        arbiter_reported(&arbiter, tenant(n), true, 1000, now_ns);
}

static bool grow(struct worker *w)
{
    uint64_t needed = w->needs[w->component];

    w->allocated = bytes_min(w->reserved, needed);
    if (w->reserved >= needed)
        return true;
    if (needed - w->reserved > room())
        return false;
    w->reserved = w->allocated = needed;
    return true;
}

static void end_request(size_t n, bool did_serve)
{
    struct worker *w = &workers[n];

    *(did_serve ? &served[has_arbiter] : &failed[has_arbiter]) += 1;
    w->allocated = 0;
    w->doing = IDLE;
    w->until_ns = now_ns + pick(1, 20) * STEP_NS;
    if (!has_arbiter)
        return;
    end_grant(n);
    MUST(policy_busy(&players[n].policy, PHASE_END) == 0);
    policy_report(&players[n].policy, opt_u64(w->reserved), opt_u64(0));
    arbiter_busy_end(&arbiter, tenant(n), opt_u64(bytes_sub_sat(w->largest, w->reserved)), now_ns,
                     &others);
    if (policy_bracket_end(&players[n].policy, &others) != REASON_NONE) {
        check_quiet(n);
        report_release(n);
    }
    if (pick(0, 9) < 7) /* the rest is dormant */
        MUST(arbiter_idle(&arbiter, tenant(n), PHASE_BEGIN, false, now_ns) == 0);
}

static void run_out(size_t n)
{
    struct worker *w = &workers[n];

    w->allocated = 0;
    report_release(n);
    w->begun_ns = now_ns;
    w->doing = IN_OOM;
    w->until_ns = now_ns;
    if (!has_arbiter)
        return;
    w->until_ns = UINT64_MAX; /* until its call ends */
    end_grant(n);
    MUST(arbiter_oom(&arbiter, tenant(n), w->needs[w->component], n, now_ns) == 0);
}

/* A component runs, or not. */
static void load(size_t n, bool is_retry)
{
    struct worker *w = &workers[n];

    if (grow(w)) {
        w->doing = BUSY;
        w->until_ns = now_ns + pick(1, 6) * STEP_NS;
        w->largest = bytes_max(w->largest, w->reserved);
    } else if (!is_retry) {
        w->largest = bytes_max(w->largest, w->needs[w->component]);
        run_out(n);
    } else {
        w->doing = BUSY;
        end_request(n, false);
    }
}

static void begin_request(size_t n)
{
    struct worker *w = &workers[n];

    w->doing = BUSY;
    w->component = 0;
    w->begun_ns = now_ns;
    w->until_ns = now_ns;
    if (!has_arbiter)
        return;
    if (tenant(n)->is_idle)
        MUST(arbiter_idle(&arbiter, tenant(n), PHASE_END, false, now_ns) == 0);
    end_grant(n);
    MUST(policy_busy(&players[n].policy, PHASE_BEGIN) == 0);
    if (arbiter_busy_begin(&arbiter, tenant(n), opt_u64(bytes_sub_sat(w->largest, w->reserved)),
                           ARBITER_S, n, now_ns))
        w->until_ns = UINT64_MAX;
}

static bool has_it(size_t n, const struct lease_wish *wish)
{
    const struct tenant *t = tenant(n);

    if (wish->kind != LEASE_BYTES)
        return arbiter_leased(&arbiter, t) == wish->kind ||
               arbiter_leased(&arbiter, t) == LEASE_EXCLUSIVE;
    return wish->bytes <= t->hold.bytes && now_ns < t->hold.ends_ns &&
           (wish->quiet_ns == 0 || now_ns < t->hold.quiet_ends_ns);
}

/* Mostly room for what it will hold next. */
static void take_lease(size_t n)
{
    struct worker *w = &workers[n];
    uint64_t which = pick(0, 9);

    w->wish = (struct lease_wish){
        .kind = which < 8    ? LEASE_BYTES
                : which == 8 ? LEASE_SHARED
                             : LEASE_EXCLUSIVE,
        .bytes = which < 8 ? pick(1, 60) * GB : 0,
        .wait_ns = LEASE_WAIT_NS,
        .term_ns = pick(1, 10) * ARBITER_S,
    };
    if (which < 2)
        w->wish.quiet_ns = w->wish.term_ns;
    w->is_renewal = has_it(n, &w->wish);
    w->doing = IN_LEASE;
    w->begun_ns = now_ns;
    w->until_ns = UINT64_MAX;
    MUST(arbiter_lease(&arbiter, tenant(n), &w->wish, n, now_ns) == 0);
}

static void pass_boundary(size_t n)
{
    struct worker *w = &workers[n];

    w->allocated = 0;
    if (has_arbiter) {
        end_grant(n);
        if (boundary(n, w->reserved, 0)) {
            check_quiet(n);
            report_release(n);
        }
    }
    if (++w->component < COMPONENTS)
        load(n, false);
    else
        end_request(n, true);
}

static void die(size_t n)
{
    struct worker *w = &workers[n];

    grave.held_bytes += w->reserved;
    grave.until_ns = now_ns + pick(1, 100) * STEP_NS;
    w->reserved = w->allocated = 0;
    w->doing = DEAD;
    if (!has_arbiter)
        return;
    end_grant(n);
    arbiter_remove(&arbiter, tenant(n), now_ns);
}

static void answer_reclaim(size_t n)
{
    struct worker *w = &workers[n];

    w->is_told = false;
    give_back(n);
    if (arbiter_reclaimed(&arbiter, tenant(n), calls[n], true, 1000, now_ns) < 0)
        arbiter_reported(&arbiter, tenant(n), true, 1000, now_ns); /* too late, but done */
}

static void act(size_t n)
{
    struct worker *w = &workers[n];

    if (w->doing == DEAD || now_ns < w->stopped_ns)
        return;
    if (w->is_told)
        answer_reclaim(n);
    if (now_ns < w->until_ns)
        return;
    if (w->doing == IDLE && has_arbiter && pick(0, 19) == 0)
        take_lease(n);
    else if (w->doing == IDLE)
        begin_request(n);
    else if (w->doing == IN_OOM)
        load(n, true);
    else if (w->allocated == 0)
        load(n, false);
    else
        pass_boundary(n);
}

static void accident(void)
{
    size_t n = (size_t)pick(1, WORKERS);

    if (workers[n].doing != DEAD && pick(0, 3) == 0)
        die(n);
    else
        workers[n].stopped_ns = now_ns + pick(1, 100) * STEP_NS;
}

static void start(uint64_t seed, bool with)
{
    device(pick(60, 120) * GB);
    has_arbiter = with;
    random_state = seed;
    memset(workers, 0, sizeof(workers));
    memset(&grave, 0, sizeof(grave));
    credited = given_back = 0;
    granted_to = 0;
    for (size_t n = 1; n <= WORKERS; n++) {
        for (size_t i = 0; i < COMPONENTS; i++)
            workers[n].needs[i] = pick(2, 40) * GB;
        workers[n].until_ns = now_ns + pick(0, 40) * STEP_NS;
        join(n, true, 0);
    }
}

static void play(uint64_t seed, bool with)
{
    schedule = seed;
    start(seed, with);
    for (uint32_t step = 0; step < STEPS; step++) {
        now_ns += STEP_NS;
        if (now_ns >= grave.until_ns)
            grave.held_bytes = 0;
        if (has_arbiter) {
            arbiter_tick(&arbiter, now_ns);
            settle();
            if (step % SAMPLES == 0)
                take_sample();
            settle();
        }
        if (pick(0, 399) == 0)
            accident();
        for (size_t n = 1; n <= WORKERS; n++) {
            act(n);
            if (has_arbiter)
                settle();
        }
    }
}

START_TEST(random_schedules_keep_what_is_promised)
{
    const char *is_long = getenv("DLO_LONG");
    uint64_t count = is_long && *is_long == '1' ? 20 * SCHEDULES : SCHEDULES;

    for (uint64_t seed = 1; seed <= count; seed++) {
        play(seed, false);
        play(seed, true);
    }
    printf("# %u schedules: %u requests failed of %u without a daemon, %u of %u with one; %u "
           "asked, at most %u of one worker in a minute; granted: %u reservations, %u exclusive "
           "leases, %u shared ones\n",
           (unsigned)count, (unsigned)failed[0], (unsigned)(failed[0] + served[0]),
           (unsigned)failed[1], (unsigned)(failed[1] + served[1]), (unsigned)asked_total,
           (unsigned)asked_most, (unsigned)leased_total[LEASE_BYTES],
           (unsigned)leased_total[LEASE_EXCLUSIVE], (unsigned)leased_total[LEASE_SHARED]);
    ck_assert_uint_gt(leased_total[LEASE_BYTES], count / 2);
    ck_assert_uint_gt(leased_total[LEASE_EXCLUSIVE], 0);
    ck_assert_uint_gt(leased_total[LEASE_SHARED], 0);
    ck_assert_uint_gt(asked_total, count);
    ck_assert_uint_lt(failed[1] * (failed[0] + served[0]), failed[0] * (failed[1] + served[1]));
    ck_assert_uint_lt(failed[1], failed[0]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("arbiter_random");
    TCase *c = tcase_create("all");
    SRunner *runner;
    int failures;

    tcase_add_test(c, random_schedules_keep_what_is_promised);
    tcase_set_timeout(c, 300);
    suite_add_tcase(s, c);
    runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
