/* SPDX-License-Identifier: Apache-2.0 */
/* Owns all parts of the daemon and starts, reloads and stops them in one visible order. */
#pragma once

/* Runs until SIGTERM or SIGINT. argv is read again on SIGHUP. config is the one of that argv.
 * Returns the exit code of the process. */
struct config;
int daemon_run(struct config *config, int argc, char *const argv[]);
