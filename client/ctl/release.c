/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl release: has the caches of workers emptied, each on its own thread (R23). */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#include "client/ctl/ctl.h"
#include "proto/base/parse.h"

/* Longer than the daemon may take: oom_wait, and the slowest release it waits for. */
#define WAIT_NS 30000000000u

struct wish {
    uint64_t session, bytes;
    bool only_ready, all;
};

static int parse(struct ctl_options *o, struct wish *w, int argc, char **argv)
{
    enum { OPT_READY = OPT_VERB, OPT_ALL, OPT_UNTIL };
    static const struct option options[] = {CTL_COMMON_OPTIONS,
                                            {"ready", no_argument, NULL, OPT_READY},
                                            {"all", no_argument, NULL, OPT_ALL},
                                            {"until-free", required_argument, NULL, OPT_UNTIL},
                                            {NULL, 0, NULL, 0}};
    int option, r = CTL_EXIT_OK;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPT_READY)
            w->only_ready = true;
        else if (option == OPT_ALL)
            w->all = true;
        else if (option == OPT_UNTIL && parse_size(optarg, &w->bytes) < 0)
            return ctl_usage("release", "--until-free %s: not a size", optarg);
        else if (option != OPT_UNTIL && !ctl_option(o, option, &r))
            return ctl_usage("release", "%s", "");
    }
    if (r != CTL_EXIT_OK || o->has_help)
        return r;
    if ((optind < argc) + w->only_ready + w->all != 1)
        return ctl_usage("release", "it needs one of SESSION, --ready and --all");
    if (optind < argc && (parse_u64(argv[optind], &w->session) < 0 || w->session == 0))
        return ctl_usage("release", "%s: not the number of a session", argv[optind]);
    return optind + 1 < argc ? ctl_usage("release", "it takes one session") : CTL_EXIT_OK;
}

/* Why nothing came of it, where that can be told. */
static const char *remark(const struct wish *w, const struct wire_wait_end *end)
{
    if (end->end == WAIT_END_SHADOW)
        return "; mode is shadow: nobody is asked";
    if (end->end == WAIT_END_UNVERIFIED)
        return "; there is no sample of the device to go by";
    if (end->end == WAIT_END_DEADLINE)
        return "; some did not answer in time";
    if (end->freed == 0 && w->session != 0)
        return "; it has nothing to give, or gives it at its next boundary";
    return "";
}

static void print_end(const struct ctl_options *o, const struct wish *w,
                      const struct wire_wait_end *end)
{
    char freed[CTL_SIZE_TEXT], free_text[CTL_SIZE_TEXT];

    printf("released %s, %s free (%s%s)\n", ctl_size(o, opt_u64(end->freed), freed),
           ctl_size(o, end->free, free_text), wait_end_word((int)end->end), remark(w, end));
}

int ctl_release(int argc, char **argv)
{
    struct wish w = {.bytes = UINT64_MAX};
    struct ctl_options o;
    struct ctl_link *l;
    int r;

    ctl_options_init(&o);
    r = parse(&o, &w, argc, argv);
    if (r != CTL_EXIT_OK)
        return r;
    if (o.has_help)
        return ctl_print_help("release");
    l = ctl_connect(&o, NULL, &r);
    if (!l)
        return r;
    l->request.op = WIRE_VACATE;
    l->request.u.vacate.bytes = w.bytes;
    l->request.u.vacate.session = w.session;
    l->request.u.vacate.only_ready = w.only_ready;
    r = ctl_call(l, WAIT_NS);
    if (r == CTL_EXIT_OK && l->reply.body == WIRE_WAIT_END)
        print_end(&o, &w, &l->reply.u.wait_end);
    ctl_disconnect(l);
    return r;
}
