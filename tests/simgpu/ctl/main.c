/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simgpu/ctl/ctl.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} verbs[] = {
    {"create", verb_create,
     "[--devices N] [--total BYTES] [--context BYTES] [--integrated] [PATH]\n"
     "        make the ledger at PATH, or at $SIMGPU (1 device of 8Gi, 300Mi a context)"},
    {"show", verb_show, "[--json]\n        devices, who has them open, planted faults"},
    {"set", verb_set,
     "[--device N] KEY=VALUE...\n"
     "        lost=0|1 integrated=0|1 foreign=BYTES total=BYTES page_cache=BYTES\n"
     "        context=BYTES nvml_reserved=BYTES compute_mode=0|2|3"},
    {"reset", verb_reset,
     "[--device N]\n        a new generation, no longer lost; refused while a process has it open"},
    {"fault", verb_fault,
     "CALL[:NTH|:*] ACTION | clear\n"
     "        ACTION: error=CODE, sticky=CODE, slow=MS, hang, clear; every call without :NTH"},
    {"hold", verb_hold,
     "[--device N] BYTES\n"
     "        make a context, take BYTES, keep both until SIGTERM or the end of stdin"},
};

static void print_help(FILE *out)
{
    fputs("usage: simgpu VERB ...\n"
          "The ledger file is named by the environment variable SIMGPU.\n"
          "BYTES may end in K, M, G, T (thousands) or Ki, Mi, Gi, Ti (1,024s).\n\n",
          out);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        fprintf(out, "    %s %s\n", verbs[i].name, verbs[i].help);
    fputs("\nexit status: 0 done, 1 could not be done, 2 bad arguments\n", out);
}

__attribute__((format(printf, 1, 0))) static void print_message(const char *format,
                                                                va_list arguments)
{
    fputs("simgpu: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int ctl_usage_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    return CTL_EXIT_USAGE;
}

int ctl_failure(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    return CTL_EXIT_FAILED;
}

struct ledger *ctl_open_ledger(void)
{
    const char *why = NULL;
    struct ledger *ledger = ledger_open(NULL, &why);

    if (!ledger)
        ctl_failure("%s", why);
    return ledger;
}

int ctl_parse_number(const char *text, uint32_t *ret_number)
{
    unsigned long number;
    char *end;

    errno = 0;
    number = strtoul(text, &end, 10);
    if (errno || end == text || *end != '\0' || *text == '-' || number > UINT32_MAX)
        return -1;
    *ret_number = (uint32_t)number;
    return 0;
}

int ctl_take_device(const struct ledger *ledger, int *argc, char ***argv, unsigned int *ret_device)
{
    uint32_t device;

    *ret_device = 0;
    if (*argc == 0 || strcmp((*argv)[0], "--device") != 0)
        return 0;
    if (*argc < 2 || ctl_parse_number((*argv)[1], &device))
        return ctl_usage_error("--device wants a number");
    if (device >= ledger->device_count)
        return ctl_usage_error("no device %u: the ledger has %u", device, ledger->device_count);
    *argc -= 2;
    *argv += 2;
    *ret_device = device;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CTL_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argc - 2, argv + 2);
    }
    return ctl_usage_error("no verb \"%s\", see simgpu --help", argv[1]);
}
