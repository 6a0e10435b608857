/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl set: cap, pin and priority of a session (R31). */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

struct wish {
    uint64_t session;
    struct operator_change change;
    bool has_revision;
};

/* A size, or "none". */
static int take_bytes(const char *text, bool *ret_has, struct opt_u64 *ret)
{
    *ret_has = true;
    *ret = opt_none();
    if (strcmp(text, "none") == 0)
        return 0;
    ret->has = true;
    return parse_size(text, &ret->v);
}

static int take_priority(const char *text, struct operator_change *c)
{
    int64_t number;

    if (parse_i64(text, &number) < 0 || number < -PRIORITY_MAX || number > PRIORITY_MAX)
        return ERR_INVALID;
    c->has_priority = true;
    c->priority = (int32_t)number;
    return 0;
}

/* "cap=12G" */
static int take_word(struct wish *w, const char *word)
{
    const char *value = strchr(word, '=');

    if (!value++)
        return ERR_INVALID;
    if (strncmp(word, "cap=", 4) == 0)
        return take_bytes(value, &w->change.has_cap, &w->change.cap_bytes);
    if (strncmp(word, "pin=", 4) == 0)
        return take_bytes(value, &w->change.has_pin, &w->change.pin_bytes);
    if (strncmp(word, "priority=", 9) == 0)
        return take_priority(value, &w->change);
    return ERR_INVALID;
}

static int parse(struct ctl_options *o, struct wish *w, int argc, char **argv)
{
    enum { OPT_REV = OPT_VERB };
    static const struct option options[] = {
        CTL_COMMON_OPTIONS, {"rev", required_argument, NULL, OPT_REV}, {NULL, 0, NULL, 0}};
    int option, r = CTL_EXIT_OK;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPT_REV) {
            w->has_revision = parse_u64(optarg, &w->change.revision) == 0;
            if (!w->has_revision)
                return ctl_usage("set", "--rev %s: not a number", optarg);
        } else if (!ctl_option(o, option, &r)) {
            return ctl_usage("set", "%s", "");
        }
    }
    if (r != CTL_EXIT_OK || o->has_help)
        return r;
    if (optind >= argc || parse_u64(argv[optind], &w->session) < 0 || w->session == 0)
        return ctl_usage("set", "it needs the number of a session");
    if (optind + 1 >= argc)
        return ctl_usage("set", "it needs cap=B|none, pin=B|none or priority=N");
    for (int i = optind + 1; i < argc; i++)
        if (take_word(w, argv[i]) < 0)
            return ctl_usage("set", "%s: not cap=B|none, pin=B|none or priority=-100..100",
                             argv[i]);
    return CTL_EXIT_OK;
}

/* The revision that is there now, for who did not say which one was seen. */
static int read_revision(struct ctl_link *l, struct wish *w)
{
    struct ctl_status st;
    int r = ctl_pull_status(l, opt_u64(w->session), &st);

    if (r != CTL_EXIT_OK)
        return r;
    w->change.revision = st.row_count > 0 ? st.rows[0].state.operator.revision : 0;
    ctl_status_done(&st);
    return CTL_EXIT_OK;
}

int ctl_set(int argc, char **argv)
{
    struct ctl_options o;
    struct wish w = {0};
    struct ctl_link *l;
    int r;

    ctl_options_init(&o);
    r = parse(&o, &w, argc, argv);
    if (r != CTL_EXIT_OK)
        return r;
    if (o.has_help)
        return ctl_print_help("set");
    l = ctl_connect(&o, NULL, &r);
    if (!l)
        return r;
    if (!w.has_revision)
        r = read_revision(l, &w);
    if (r == CTL_EXIT_OK) {
        l->request.op = WIRE_SET;
        l->request.u.set.session = w.session;
        l->request.u.set.change = w.change;
        r = ctl_call(l, 0);
    }
    if (r == CTL_EXIT_OK && l->reply.body == WIRE_REVISION)
        printf("session %" PRIu64 ": revision %" PRIu64 "\n", w.session,
               l->reply.u.revision.revision);
    ctl_disconnect(l);
    return r;
}
