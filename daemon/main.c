/* SPDX-License-Identifier: Apache-2.0 */
/* dlod: argv -> configuration -> run -> exit code. The only place that may exit. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/telemetry/telemetry.h"

#define EXIT_USAGE 2

static void print_help(void)
{
    printf(
        "dlod - decides, for the inference workers of one GPU, when to release cached memory\n\n"
        "usage: dlod [--config FILE] [--KEY VALUE]... [--set KEY=VALUE]...\n"
        "       dlod --print-config | --check-config | --version | --help\n\n"
        "SIGTERM stops it, SIGHUP reads the configuration again. Exit codes: 0 stopped, 1 could\n"
        "not start or go on, 2 wrong usage or configuration.\n\n"
        "Keys, on the command line, in the file and with --set (sizes like 64M, times like "
        "50ms):\n");
    config_print_options(stdout);
}

/* dlod --probe --gpu SPEC --telemetry BACKEND: what the sampler starts, nobody else. */
static int run_probe(int argc, char **argv)
{
    const char *gpu = NULL, *backend = NULL;

    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--gpu") == 0)
            gpu = argv[i + 1];
        else if (strcmp(argv[i], "--telemetry") == 0)
            backend = argv[i + 1];
    }
    if (!gpu || !backend) {
        fprintf(stderr, "dlod --probe is started by dlod itself\n");
        return EXIT_USAGE;
    }
    return probe_main(gpu, backend);
}

/* Descriptors 0 to 2 that were closed would be given to the loop, and the log written into it. */
static int open_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct config config;
    enum config_action action;
    char error[CONFIG_ERROR_SIZE];

    if (argc > 1 && strcmp(argv[1], "--probe") == 0)
        return run_probe(argc, argv);
    if (open_standard_files() < 0)
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN); /* a peer that goes away is an error of write */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    if (config_from_argv(&config, argc, argv, &action, error) < 0) {
        fprintf(stderr, "dlod: %s\n", error);
        return EXIT_USAGE;
    }
    if (action == CONFIG_HELP) {
        print_help();
        return EXIT_SUCCESS;
    }
    if (action == CONFIG_VERSION) {
        printf("dlod %s\n", DLO_VERSION);
        return EXIT_SUCCESS;
    }
    if (action == CONFIG_PRINT) {
        config_print(&config, stdout);
        return EXIT_SUCCESS;
    }
    if (config_validate(&config, error) < 0) {
        fprintf(stderr, "dlod: %s\n", error);
        return EXIT_USAGE;
    }
    if (action == CONFIG_CHECK) {
        printf("the configuration is good\n");
        return EXIT_SUCCESS;
    }
    log_init(STDERR_FILENO, config.log_level);
    return daemon_run(&config, argc, argv);
}
