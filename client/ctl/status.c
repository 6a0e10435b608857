/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl status: what a person reads at a glance. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "proto/base/terms.h"

#define WATCH_SECONDS 1

static void print_device(const struct ctl_options *o, const struct ctl_status *st)
{
    const struct wire_device *d = &st->device;
    char free_text[CTL_SIZE_TEXT], total[CTL_SIZE_TEXT], age[CTL_SIZE_TEXT], floor[CTL_SIZE_TEXT],
        cap[CTL_SIZE_TEXT];

    printf("device   %s  %s", d->uuid[0] ? d->uuid : "not identified yet", d->name);
    if (d->minor.has)
        printf("  minor %" PRIu64 "  %s", d->minor.v, d->pci);
    printf("\nmemory   free %s of %s", ctl_size(o, d->free, free_text),
           ctl_size(o, d->total, total));
    if (d->age_ns.has)
        printf(" (%s, %s old)", source_word((int)d->source), ctl_age(d->age_ns.v, age));
    printf("   floor %s   cap %s   probe %s\n", ctl_size(o, d->floor, floor),
           ctl_size(o, d->cap, cap), d->probe[0] ? d->probe : "-");
}

static void print_daemon(const struct ctl_status *st)
{
    const struct wire_daemon *d = &st->daemon;
    char uptime[CTL_SIZE_TEXT];

    printf("daemon   dlod %s  pid %u  up %s   mode %s   policy %s   %u session%s, %u stager%s%s",
           d->version, d->pid, ctl_age(d->uptime_ns, uptime), mode_word((int)d->mode),
           policy_word((int)d->policy), d->sessions, d->sessions == 1 ? "" : "s", d->stagers,
           d->stagers == 1 ? "" : "s", d->resuming ? "   resuming" : "");
    if (d->rejected > 0)
        printf("   refused %" PRIu64, d->rejected);
    printf("\n");
}

static uint64_t sum(const uint64_t *counts, size_t count)
{
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++)
        total += counts[i];
    return total;
}

/* cached as of the worker's last report */
static struct opt_u64 cached_of(const struct wire_row *row)
{
    if (!row->state.reserved.has || !row->state.allocated.has)
        return opt_none();
    return opt_u64(bytes_sub_sat(row->state.reserved.v, row->state.allocated.v));
}

static void print_operator(const struct ctl_options *o, const struct operator_settings *s)
{
    char cap[CTL_SIZE_TEXT], pin[CTL_SIZE_TEXT];

    printf("%7s %7s  set by an operator, revision %" PRIu64 ": cap %s, pin %s, priority %d\n", "",
           "", s->revision, ctl_size(o, s->cap_bytes, cap), ctl_size(o, s->pin_bytes, pin),
           (int)s->priority);
}

static void print_row(const struct ctl_options *o, const struct wire_row *row)
{
    char staged[CTL_SIZE_TEXT], cached[CTL_SIZE_TEXT], peak[CTL_SIZE_TEXT], budget[CTL_SIZE_TEXT];
    const struct counts *c = &row->state.counts;

    printf("%7" PRIu64 " %7u  %-16s %7u %12s %12s %12s %12s  ", row->session, row->pid, row->name,
           row->stager_count, ctl_size(o, opt_u64(row->staged_bytes), staged),
           ctl_size(o, cached_of(row), cached), ctl_size(o, opt_u64(row->state.peak), peak),
           ctl_size(o, row->budget, budget));
    printf("%-8s %-22s %7" PRIu64 " %7" PRIu64 " %6" PRIu64 "%s\n",
           row->last.n > 0 ? decision_word((int)row->last.decision) : "-",
           row->last.n > 0 ? reason_word((int)row->last.reason) : "-", c->cold_start_releases,
           c->serving_releases, sum(c->forced, FORCE_MAX), row->state.in_warmup ? "  warm-up" : "");
    if (row->state.operator.revision) /* R31 */
        print_operator(o, &row->state.operator);
    if (row->habit) /* R27 */
        printf("%7s %7s  %s: it releases at %s boundary; what would cure it: %s\n", "", "",
               habit_word((int)row->habit), row->habit == HABIT_INERT ? "every" : "some",
               cure_word((int)row->cure));
}

/* R26: what releases gave back and cost. One that gave nothing back is marked. */
static void print_proof(const struct ctl_options *o, const struct wire_row *row)
{
    const struct proof *p = &row->proof;
    char all[CTL_SIZE_TEXT], freed[CTL_SIZE_TEXT], sampled[CTL_SIZE_TEXT], residue[CTL_SIZE_TEXT],
        cost[CTL_SIZE_TEXT], total_cost[CTL_SIZE_TEXT];

    printf("%7" PRIu64 "  %-16s %8" PRIu64 " %12s %10s   %12s %12s %12s %10s%s\n", row->session,
           row->name, p->releases, ctl_size(o, opt_u64(p->bytes), all),
           ctl_microseconds(p->us, total_cost), ctl_size(o, p->freed, freed),
           ctl_size(o, p->sampled, sampled), ctl_size(o, p->residue, residue),
           ctl_microseconds(p->last_us, cost), proof_is_empty(p) ? "  gave nothing back" : "");
}

static void print_proofs(const struct ctl_options *o, const struct ctl_status *st)
{
    bool has_head = false;

    for (size_t i = 0; i < st->row_count; i++) {
        if (st->rows[i].proof.releases == 0)
            continue;
        if (!has_head)
            printf("\n%7s  %-16s %8s %12s %10s   %12s %12s %12s %10s\n", "SESSION", "NAME",
                   "RELEASES", "GAVE BACK", "TOOK", "LAST", "BY SAMPLE", "RESIDUE", "TOOK");
        has_head = true;
        print_proof(o, &st->rows[i]);
    }
}

/* R20 to R24a: who could give what, when, and who needs it. A worker that is alone is not shown. */
static void print_room(const struct ctl_options *o, const struct ctl_status *st)
{
    char claim[CTL_SIZE_TEXT], need[CTL_SIZE_TEXT], waits[CTL_SIZE_TEXT];

    if (st->row_count < 2)
        return;
    printf("\n%7s  %-16s %12s  %-16s %12s %12s\n", "SESSION", "NAME", "COULD GIVE", "WHEN",
           "WILL NEED", "WAITS FOR");
    for (size_t i = 0; i < st->row_count; i++) {
        const struct room *r = &st->rows[i].room;

        printf("%7" PRIu64 "  %-16s %12s  %-16s %12s %12s%s%s\n", st->rows[i].session,
               st->rows[i].name, ctl_size(o, opt_u64(r->claim_bytes), claim),
               readiness_word((int)r->readiness), ctl_size(o, opt_u64(r->need_bytes), need),
               ctl_size(o, opt_u64(r->waits_bytes), waits), r->asked_event ? "  asked" : "",
               r->is_late ? "  late" : "");
    }
}

static void print_table(const struct ctl_options *o, const struct ctl_status *st)
{
    print_device(o, st);
    print_daemon(st);
    if (st->row_count == 0) {
        printf("\nno worker is registered\n");
        return;
    }
    printf("\n%7s %7s  %-16s %7s %12s %12s %12s %12s  %-8s %-22s %7s %7s %6s\n", "SESSION", "PID",
           "NAME", "STAGERS", "STAGED", "CACHED", "PEAK", "BUDGET", "LAST", "WHY", "WARM-UP",
           "SERVING", "FORCED");
    for (size_t i = 0; i < st->row_count; i++)
        print_row(o, &st->rows[i]);
    print_proofs(o, st);
    print_room(o, st);
    printf("\nWARM-UP, SERVING, FORCED count releases; dlo-ctl explain SESSION says why\n");
}

static int show_once(const struct ctl_options *o, struct ctl_link *l)
{
    struct ctl_status st;
    int r = ctl_pull_status(l, opt_none(), &st);

    if (r != CTL_EXIT_OK)
        return r;
    if (o->json)
        r = ctl_print_status_json(&st);
    else
        print_table(o, &st);
    if (fflush(stdout) != 0)
        r = CTL_EXIT_FAILURE;
    ctl_status_done(&st);
    return r;
}

/* Until the daemon goes away or the reader of our output does. */
static int watch(const struct ctl_options *o, struct ctl_link *l)
{
    const struct timespec pause = {.tv_sec = WATCH_SECONDS};
    int r;

    for (;;) {
        if (isatty(STDOUT_FILENO) && !o->json)
            printf("\033[H\033[J");
        r = show_once(o, l);
        if (r != CTL_EXIT_OK || (nanosleep(&pause, NULL) < 0 && errno != EINTR))
            return r;
    }
}

int ctl_status(int argc, char **argv)
{
    enum { OPT_WATCH = OPT_VERB };
    static const struct option options[] = {
        CTL_COMMON_OPTIONS, {"watch", no_argument, NULL, OPT_WATCH}, {NULL, 0, NULL, 0}};
    struct ctl_options o;
    struct ctl_link *l;
    bool is_watching = false;
    int option, r = CTL_EXIT_OK;

    ctl_options_init(&o);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPT_WATCH)
            is_watching = true;
        else if (!ctl_option(&o, option, &r))
            return ctl_usage("status", "%s", "");
    }
    if (r != CTL_EXIT_OK)
        return r;
    if (o.has_help)
        return ctl_print_help("status");
    if (optind < argc)
        return ctl_usage("status", "it takes no argument");
    l = ctl_connect(&o, NULL, &r);
    if (!l)
        return r;
    r = is_watching ? watch(&o, l) : show_once(&o, l);
    ctl_disconnect(l);
    return r;
}
