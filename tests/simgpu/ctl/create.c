/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simgpu/ctl/ctl.h"
#include "tests/simgpu/shared/size.h"

/* One option. Returns how many words it took, or 0 after a message. */
static int parse_option(int argc, char **argv, struct ledger_options *options)
{
    int has_value = argc > 1;

    if (strcmp(argv[0], "--integrated") == 0) {
        options->is_integrated = 1;
        return 1;
    }
    if (strcmp(argv[0], "--devices") == 0) {
        if (has_value && !ctl_parse_number(argv[1], &options->device_count) &&
            options->device_count >= 1 && options->device_count <= LEDGER_DEVICES_MAX)
            return 2;
        ctl_usage_error("--devices wants a number from 1 to %d", LEDGER_DEVICES_MAX);
        return 0;
    }
    if (strcmp(argv[0], "--total") == 0 || strcmp(argv[0], "--context") == 0) {
        uint64_t *target = argv[0][2] == 't' ? &options->total_bytes : &options->context_bytes;

        if (has_value && !size_parse(argv[1], target))
            return 2;
        ctl_usage_error("%s wants a size such as 8Gi", argv[0]);
        return 0;
    }
    ctl_usage_error("create: no option \"%s\"", argv[0]);
    return 0;
}

int verb_create(int argc, char **argv)
{
    struct ledger_options options = {
        .device_count = 1, .total_bytes = (uint64_t)8 << 30, .context_bytes = (uint64_t)300 << 20};
    const char *path = getenv(LEDGER_PATH_ENV);

    while (argc > 0 && argv[0][0] == '-') {
        int taken = parse_option(argc, argv, &options);

        if (!taken)
            return CTL_EXIT_USAGE;
        argc -= taken;
        argv += taken;
    }
    if (argc > 1)
        return ctl_usage_error("create: too many words after the path");
    if (argc == 1)
        path = argv[0];
    if (!path || !*path)
        return ctl_usage_error("create: give a path or set " LEDGER_PATH_ENV);
    if (ledger_create(path, &options))
        return ctl_failure("%s: %s", path, strerror(errno));
    return 0;
}
