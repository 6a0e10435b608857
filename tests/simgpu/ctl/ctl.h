/* SPDX-License-Identifier: Apache-2.0 */
/* simgpu, the tool that makes, shows and disturbs the simulated GPUs of a test: one file a verb. */
#ifndef TESTS_SIMGPU_CTL_CTL_H
#define TESTS_SIMGPU_CTL_CTL_H

#include <stdint.h>

#include "tests/simgpu/shared/ledger.h"

#define CTL_EXIT_FAILED 1 /* understood, but it could not be done */
#define CTL_EXIT_USAGE  2 /* not understood */

/* Each verb gets the words after its name and returns the exit status. */
int verb_create(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_set(int argc, char **argv);
int verb_reset(int argc, char **argv);
int verb_fault(int argc, char **argv);
int verb_hold(int argc, char **argv);

/* Prints "simgpu: ..." on stderr. Returns CTL_EXIT_USAGE, CTL_EXIT_FAILED. */
int ctl_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
int ctl_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The ledger of the environment, or NULL after a message. */
struct ledger *ctl_open_ledger(void);

/* Takes "--device N" off the front of the words if it is there; the default is device 0. 0, or
 * CTL_EXIT_USAGE after a message. */
int ctl_take_device(const struct ledger *ledger, int *argc, char ***argv, unsigned int *ret_device);

/* A plain number of 32 bits. 0, or -1. */
int ctl_parse_number(const char *text, uint32_t *ret_number);

#endif
