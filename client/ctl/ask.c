/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl ask: one session, one question, the answer as exit code. */
#include <getopt.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/base/error.h"
#include "proto/base/name.h"
#include "proto/base/parse.h"
#include "proto/trace/trace.h"

enum {
    OPT_RESERVED = OPT_VERB,
    OPT_ALLOCATED,
    OPT_RELEASABLE,
    OPT_FREE,
    OPT_TOTAL,
    OPT_PEAK,
    OPT_POLICY,
    OPT_MIN_FREE,
    OPT_FORCE,
    OPT_COMPONENT,
    OPT_NAME,
};

static const struct option options[] = {CTL_COMMON_OPTIONS,
                                        {"reserved", required_argument, NULL, OPT_RESERVED},
                                        {"allocated", required_argument, NULL, OPT_ALLOCATED},
                                        {"releasable", required_argument, NULL, OPT_RELEASABLE},
                                        {"free", required_argument, NULL, OPT_FREE},
                                        {"total", required_argument, NULL, OPT_TOTAL},
                                        {"peak", required_argument, NULL, OPT_PEAK},
                                        {"policy", required_argument, NULL, OPT_POLICY},
                                        {"min-free", required_argument, NULL, OPT_MIN_FREE},
                                        {"force", required_argument, NULL, OPT_FORCE},
                                        {"component", required_argument, NULL, OPT_COMPONENT},
                                        {"name", required_argument, NULL, OPT_NAME},
                                        {NULL, 0, NULL, 0}};

struct question {
    struct ctl_options common;
    struct wire_hello hello;
    struct boundary boundary;
    struct opt_u64 peak;
};

/* ERR_INVALID where the value does not fit the option. */
static int take_size(const char *text, struct opt_u64 *ret)
{
    int r = parse_size(text, &ret->v);

    ret->has = r == 0;
    return r;
}

static int take_name(const char *text, char out[LIMIT_NAME_SIZE])
{
    if (!name_valid(text, strlen(text)))
        return ERR_INVALID;
    memcpy(out, text, strlen(text) + 1);
    return 0;
}

static int take_option(struct question *q, int option)
{
    struct boundary *b = &q->boundary;

    switch (option) {
    case OPT_RESERVED:
        return take_size(optarg, &b->reserved);
    case OPT_ALLOCATED:
        return take_size(optarg, &b->allocated);
    case OPT_RELEASABLE:
        return take_size(optarg, &b->releasable);
    case OPT_FREE:
        return take_size(optarg, &b->free);
    case OPT_TOTAL:
        return take_size(optarg, &b->total);
    case OPT_PEAK:
        return take_size(optarg, &q->peak);
    case OPT_POLICY:
        q->hello.policy = (enum policy)term_value(policy_terms, optarg);
        return q->hello.policy == POLICY_NONE ? ERR_INVALID : 0;
    case OPT_FORCE:
        b->force = (enum force)term_value(force_terms, optarg);
        return b->force == FORCE_NONE ? ERR_INVALID : 0;
    case OPT_MIN_FREE:
        q->hello.has_min_free = true;
        return parse_double(optarg, &q->hello.min_free);
    case OPT_COMPONENT:
        return take_name(optarg, b->component);
    default:
        return take_name(optarg, q->hello.name);
    }
}

static int parse(struct question *q, int argc, char **argv)
{
    int option, index, r = CTL_EXIT_OK;

    while ((option = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (option == '?')
            return ctl_usage("ask", "%s", "");
        if (ctl_option(&q->common, option, &r))
            continue;
        if (take_option(q, option) < 0)
            return ctl_usage("ask", "--%s %s: not a value of that option", options[index].name,
                             optarg);
    }
    if (r == CTL_EXIT_OK && optind < argc)
        return ctl_usage("ask", "it takes options only");
    return r;
}

static int ask(const struct question *q, struct ctl_link *l)
{
    int r = CTL_EXIT_OK;

    if (q->peak.has) {
        l->request.op = WIRE_SET_PEAK;
        l->request.u.set_peak.peak = q->peak.v;
        r = ctl_call(l, 0);
    }
    if (r != CTL_EXIT_OK)
        return r;
    l->request.op = WIRE_ASK;
    l->request.u.ask = q->boundary;
    return ctl_call(l, 0);
}

/* "release reason=cached_over_budget cached=..." in the words of the trace format */
static int print_answer(const struct answer *a)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;
    const char *answer;

    trace_begin(&w, line, sizeof(line), TRACE_ASK);
    trace_put_decision(&w, a);
    trace_finish(&w);
    answer = strstr(line, "-> ");
    printf("%s\n", answer ? answer + 3 : line);
    if (a->decision == DECISION_RETAIN)
        return CTL_EXIT_OK;
    return a->decision == DECISION_RELEASE ? CTL_EXIT_RELEASE : CTL_EXIT_KEEP;
}

int ctl_ask(int argc, char **argv)
{
    struct question q = {.hello.name = "dlo-ctl-ask"};
    struct ctl_link *l;
    int r;

    ctl_options_init(&q.common);
    r = parse(&q, argc, argv);
    if (r != CTL_EXIT_OK)
        return r;
    if (q.common.has_help)
        return ctl_print_help("ask");
    if (q.boundary.force == FORCE_NONE && (!q.boundary.reserved.has || !q.boundary.allocated.has))
        return ctl_usage("ask", "--reserved and --allocated are needed unless --force is given");
    l = ctl_connect(&q.common, &q.hello, &r);
    if (!l)
        return r;
    r = ask(&q, l);
    if (r == CTL_EXIT_OK && l->reply.body == WIRE_ANSWER &&
        l->reply.u.answer.decision != DECISION_NONE) {
        r = print_answer(&l->reply.u.answer);
    } else if (r == CTL_EXIT_OK) {
        fprintf(stderr, "dlo-ctl: the daemon's answer cannot be read\n");
        r = CTL_EXIT_FAILURE;
    }
    ctl_disconnect(l);
    return r;
}
