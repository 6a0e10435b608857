/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl events: the daemon's journal, pulled page by page. */
#include <getopt.h>
#include <inttypes.h>

#include "client/ctl/ctl.h"
#include "proto/trace/trace.h"

#define FOREVER_NS UINT64_MAX / 4 /* far enough; added to a clock it does not wrap */

static int print_page(const struct wire_events *page)
{
    if (page->lost > 0)
        printf("# %" PRIu64 " records left the ring before they were read\n", page->lost);
    for (uint32_t i = 0; i < page->line_count; i++) {
        ctl_print_safe(stdout, page->lines[i].text, page->lines[i].length);
        putchar('\n');
    }
    return fflush(stdout) == 0 ? CTL_EXIT_OK : CTL_EXIT_FAILURE;
}

static int pull(struct ctl_link *l, bool is_following)
{
    uint64_t cursor = 0, end = 0; /* end: of what was there at first; a busy daemon goes on */
    int r;

    printf("%s\n", TRACE_HEADER);
    for (;;) {
        l->request.op = WIRE_EVENTS;
        l->request.u.events.cursor = cursor;
        l->request.u.events.wait = is_following;
        r = ctl_call(l, is_following ? FOREVER_NS : 0);
        if (r != CTL_EXIT_OK)
            return r;
        if (l->reply.body != WIRE_EVENTS_PAGE) {
            fprintf(stderr, "dlo-ctl: the daemon's events cannot be read\n");
            return CTL_EXIT_FAILURE;
        }
        r = print_page(&l->reply.u.events);
        if (end == 0)
            end = l->reply.u.events.end;
        if (r == CTL_EXIT_OK && !is_following && l->reply.u.events.cursor <= cursor &&
            l->reply.u.events.cursor < end) {
            fprintf(stderr, "dlo-ctl: the daemon's events do not go on\n");
            return CTL_EXIT_FAILURE;
        }
        cursor = l->reply.u.events.cursor;
        if (r != CTL_EXIT_OK || (!is_following && cursor >= end))
            return r;
    }
}

int ctl_events(int argc, char **argv)
{
    enum { OPT_FOLLOW = OPT_VERB };
    static const struct option options[] = {
        CTL_COMMON_OPTIONS, {"follow", no_argument, NULL, OPT_FOLLOW}, {NULL, 0, NULL, 0}};
    struct ctl_options o;
    struct ctl_link *l;
    bool is_following = false;
    int option, r = CTL_EXIT_OK;

    ctl_options_init(&o);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == OPT_FOLLOW)
            is_following = true;
        else if (!ctl_option(&o, option, &r))
            return ctl_usage("events", "%s", "");
    }
    if (r != CTL_EXIT_OK)
        return r;
    if (o.has_help)
        return ctl_print_help("events");
    if (optind < argc)
        return ctl_usage("events", "it takes no argument");
    l = ctl_connect(&o, NULL, &r);
    if (!l)
        return r;
    r = pull(l, is_following);
    ctl_disconnect(l);
    return r;
}
