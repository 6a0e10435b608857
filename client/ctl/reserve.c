/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl reserve: makes room, and keeps it for the command that it becomes (R25). */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/ctl.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

#define NS_PER_S 1000000000ull

/* R25's limits and defaults. */
#define WAIT_DEFAULT_NS (2 * NS_PER_S)
#define TERM_DEFAULT_NS (120 * NS_PER_S)

struct wish {
    uint64_t bytes, wait_ns, term_ns;
    char **command; /* NULL: none */
};

static int parse(struct ctl_options *o, struct wish *w, int argc, char **argv)
{
    enum { OPT_WAIT = OPT_VERB, OPT_TERM };
    static const struct option options[] = {CTL_COMMON_OPTIONS,
                                            {"wait", required_argument, NULL, OPT_WAIT},
                                            {"term", required_argument, NULL, OPT_TERM},
                                            {NULL, 0, NULL, 0}};
    int option, r = CTL_EXIT_OK;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPT_WAIT && parse_duration(optarg, &w->wait_ns) < 0)
            return ctl_usage("reserve", "--wait %s: not a time", optarg);
        if (option == OPT_TERM && parse_duration(optarg, &w->term_ns) < 0)
            return ctl_usage("reserve", "--term %s: not a time", optarg);
        if (option != OPT_WAIT && option != OPT_TERM && !ctl_option(o, option, &r))
            return ctl_usage("reserve", "%s", "");
    }
    if (r != CTL_EXIT_OK || o->has_help)
        return r;
    if (optind >= argc || parse_size(argv[optind], &w->bytes) < 0 || w->bytes == 0)
        return ctl_usage("reserve", "it needs a size");
    if (optind + 1 < argc) /* getopt has taken the -- away */
        w->command = argv + optind + 1;
    return CTL_EXIT_OK;
}

static int become(const struct wish *w)
{
    if (!w->command)
        return CTL_EXIT_OK;
    execvp(w->command[0], w->command);
    fprintf(stderr, "dlo-ctl: %s: %s\n", w->command[0], strerror(errno));
    return CTL_EXIT_FAILURE;
}

static int ask(const struct wish *w, struct ctl_link *l)
{
    l->request.op = WIRE_LEASE;
    l->request.u.lease.kind = LEASE_BYTES;
    l->request.u.lease.bytes = w->bytes;
    l->request.u.lease.wait_ns = w->wait_ns;
    l->request.u.lease.term_ns = w->term_ns;
    return ctl_call(l, w->wait_ns + 2 * NS_PER_S);
}

/* Says what came of it; the exit code, OK where the command is to be run. */
static int judge(const struct ctl_options *o, const struct wish *w, const struct wire_wait_end *end)
{
    char wanted[CTL_SIZE_TEXT], free_text[CTL_SIZE_TEXT];

    ctl_size(o, opt_u64(w->bytes), wanted);
    ctl_size(o, end->free, free_text);
    switch (end->end) {
    case WAIT_END_COVERED:
        fprintf(stderr, "dlo-ctl: %s reserved, %s free\n", wanted, free_text);
        return CTL_EXIT_OK;
    case WAIT_END_UNVERIFIED:
        fprintf(stderr, "dlo-ctl: %s reserved, unverified: the daemon has no sample\n", wanted);
        return CTL_EXIT_OK;
    case WAIT_END_SHADOW:
        fprintf(stderr, "dlo-ctl: mode is shadow: nobody keeps %s\n", wanted);
        return CTL_EXIT_OK;
    default:
        fprintf(stderr, "dlo-ctl: no room for %s in that time, %s free\n", wanted, free_text);
        return CTL_EXIT_TIMEOUT;
    }
}

int ctl_reserve(int argc, char **argv)
{
    struct wish w = {.wait_ns = WAIT_DEFAULT_NS, .term_ns = TERM_DEFAULT_NS};
    const struct wire_hello hello = {.name = "dlo-ctl-reserve", .features = FEATURE_BRACKETS};
    struct ctl_options o;
    struct ctl_link *l;
    int r;

    ctl_options_init(&o);
    r = parse(&o, &w, argc, argv);
    if (r != CTL_EXIT_OK)
        return r;
    if (o.has_help)
        return ctl_print_help("reserve");
    l = ctl_connect(&o, &hello, &r);
    if (!l) /* without a daemon nobody is worse off than without us */
        return r == CTL_EXIT_NO_DAEMON && w.command ? become(&w) : r;
    r = ask(&w, l);
    if (r == CTL_EXIT_OK && l->reply.body == WIRE_WAIT_END)
        r = judge(&o, &w, &l->reply.u.wait_end);
    if (r == CTL_EXIT_OK && w.command) {
        (void)fcntl(l->fd, F_SETFD, 0); /* the reservation is held by the connection */
        r = become(&w);
    }
    ctl_disconnect(l);
    return r;
}
