/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl explain: why, in one sentence, with the numbers that decided and the rule. */
#include <getopt.h>
#include <inttypes.h>

#include "client/ctl/ctl.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"
#include "proto/base/terms.h"

struct texts {
    char cached[CTL_SIZE_TEXT], budget[CTL_SIZE_TEXT], cap[CTL_SIZE_TEXT], free[CTL_SIZE_TEXT],
        total[CTL_SIZE_TEXT], floor[CTL_SIZE_TEXT], peak[CTL_SIZE_TEXT], learned[CTL_SIZE_TEXT];
};

static void fill_texts(const struct ctl_options *o, const struct answer *a, struct texts *t)
{
    ctl_size(o, a->cached, t->cached);
    ctl_size(o, a->budget, t->budget);
    ctl_size(o, a->cap, t->cap);
    ctl_size(o, a->free, t->free);
    ctl_size(o, a->total, t->total);
    ctl_size(o, a->floor, t->floor);
    ctl_size(o, opt_u64(a->peak), t->peak);
    ctl_size(o, opt_u64(a->learned), t->learned);
}

static void print_missing(const struct answer *a)
{
    if (!a->cached.has)
        printf("the worker could not read what its allocator holds (R6)");
    else
        printf("neither the worker nor the probe could read the device's memory in time (R6, R9)");
}

static void print_over_budget(const struct answer *a, const struct texts *t)
{
    printf("its cache of %s was over its budget of %s (R5)", t->cached, t->budget);
    if (a->capped.has && a->capped.v)
        printf("; it has learned more, but the cap is %s, a share of %s", t->cap, t->total);
    else
        printf("; now it has learned a peak of %s", t->peak);
}

static void print_why(const struct answer *a, const struct texts *t)
{
    switch (a->reason) {
    case REASON_FORCED:
        printf("the worker forced it (R4)");
        break;
    case REASON_TELEMETRY_UNAVAILABLE:
        print_missing(a);
        break;
    case REASON_POLICY_ALWAYS:
        printf("its policy is always (R11a); it cached %s", t->cached);
        break;
    case REASON_POLICY_NEVER:
        printf("its policy is never (R11a); it cached %s", t->cached);
        break;
    case REASON_CACHED_OVER_BUDGET:
        print_over_budget(a, t);
        break;
    case REASON_LOW_FREE_MEMORY:
        printf("%s free of %s was below the floor of %s (R5), with %s cached", t->free, t->total,
               t->floor, t->cached);
        break;
    case REASON_WITHIN_BUDGET:
        printf("its cache of %s was within its budget of %s, and %s free of %s was not below the "
               "floor of %s (R5)",
               t->cached, t->budget, t->free, t->total, t->floor);
        break;
    default:
        printf("of a reason this version does not know");
    }
}

static void print_sentence(const struct ctl_options *o, const struct wire_row *row)
{
    const struct answer *a = &row->last;
    char age[CTL_SIZE_TEXT];
    struct texts t;

    printf("session %" PRIu64 " (%s, pid %u) ", row->session, row->name, row->pid);
    if (a->n == 0) {
        printf("has not asked since it connected");
        if (row->state.n > 0)
            printf("; it brought %" PRIu64 " earlier decisions with it (R29)", row->state.n);
        printf(".\n");
        return;
    }
    fill_texts(o, a, &t);
    printf("was told to %s", decision_word((int)a->decision));
    if (row->component[0])
        printf(" at %s", row->component);
    printf(" %s ago (decision %" PRIu64 "%s, %s): ", ctl_age(row->last_age_ns, age), a->n,
           a->warmup ? ", in its warm-up" : "", reason_word((int)a->reason));
    if (a->decision == DECISION_KEEP)
        printf("in shadow mode (R30) the answer changes nothing; it would have been %s, since ",
               decision_word((int)a->would));
    print_why(a, &t);
    printf(".\n");
}

/* R26 */
static void print_proof(const struct ctl_options *o, const struct proof *p)
{
    char cached[CTL_SIZE_TEXT], freed[CTL_SIZE_TEXT], sampled[CTL_SIZE_TEXT],
        residue[CTL_SIZE_TEXT], took[CTL_SIZE_TEXT], age[CTL_SIZE_TEXT];

    if (p->releases == 0)
        return;
    printf("its last release, %s ago, took %s and ", ctl_age(p->age_ns, age),
           ctl_microseconds(p->last_us, took));
    if (!p->freed.has)
        printf("was forced, so what it gave back was not reported");
    else if (proof_is_empty(p))
        printf("gave nothing back of the %s that were cached", ctl_size(o, p->cached, cached));
    else
        printf("gave back %s of the %s that were cached", ctl_size(o, p->freed, freed),
               ctl_size(o, p->cached, cached));
    if (p->sampled.has)
        printf(" (%s by sample)", ctl_size(o, p->sampled, sampled));
    printf("; %s stayed cached (R26)", ctl_size(o, p->residue, residue));
    if (p->empty > 0)
        printf("; %" PRIu64 " of its %" PRIu64 " releases gave nothing back", p->empty,
               p->releases);
    printf(".\n");
}

int ctl_explain(int argc, char **argv)
{
    static const struct option options[] = {CTL_COMMON_OPTIONS, {NULL, 0, NULL, 0}};
    struct ctl_options o;
    struct ctl_status st;
    struct ctl_link *l;
    uint64_t session;
    int option, r = CTL_EXIT_OK;

    ctl_options_init(&o);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!ctl_option(&o, option, &r))
            return ctl_usage("explain", "%s", "");
    if (r != CTL_EXIT_OK)
        return r;
    if (o.has_help)
        return ctl_print_help("explain");
    if (optind + 1 != argc || parse_u64(argv[optind], &session) < 0)
        return ctl_usage("explain", "name one session by its number; dlo-ctl status lists them");
    l = ctl_connect(&o, NULL, &r);
    if (!l)
        return r;
    r = ctl_pull_status(l, opt_u64(session), &st);
    if (r == CTL_EXIT_OK) {
        print_sentence(&o, &st.rows[0]);
        print_proof(&o, &st.rows[0].proof);
        ctl_status_done(&st);
    }
    ctl_disconnect(l);
    return r;
}
