/* SPDX-License-Identifier: Apache-2.0 */
/* dlo-ctl: what an operator types. */
#include <stdio.h>
#include <string.h>

#include "client/ctl/ctl.h"

static void print_help(FILE *out)
{
    fprintf(out,
            "dlo-ctl - asks dlod, the daemon that decides when cached GPU memory is released\n\n"
            "usage: dlo-ctl VERB [OPTION]...\n\n");
    for (const struct ctl_verb *v = ctl_verbs; v->name; v++)
        fprintf(out, "  %-8s  %s\n", v->name, v->summary);
    fprintf(out,
            "\n`dlo-ctl VERB --help` shows its options. The daemon is found by --socket PATH,\n"
            "DLO_SOCKET, or as the only one in /run/dlo and $XDG_RUNTIME_DIR/dlo.\n\n"
            "Exit codes:\n");
#define X(name, code, text) fprintf(out, "  %2d  %s\n", code, text);
    EXIT_MAP(X)
#undef X
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CTL_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CTL_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("dlo-ctl %s\n", DLO_VERSION);
        return CTL_EXIT_OK;
    }
    for (const struct ctl_verb *v = ctl_verbs; v->name; v++)
        if (strcmp(v->name, argv[1]) == 0)
            return v->run(argc - 1, argv + 1);
    fprintf(stderr, "dlo-ctl: no verb \"");
    ctl_print_safe(stderr, argv[1], strlen(argv[1]));
    fprintf(stderr, "\"; dlo-ctl --help lists them\n");
    return CTL_EXIT_USAGE;
}
