/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: one table (config.def), one struct, three sources in this order: defaults, the
 * file of --config, the command line. Knows no other part of the daemon. Errors are sentences that
 * name key, value, file and line; nothing is taken from a file that has one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/attr.h"
#include "proto/base/terms.h"

#define CONFIG_TEXT_SIZE  256 /* a path must also fit sun_path where it names a socket */
#define CONFIG_ERROR_SIZE 512

enum backend { BACKEND_AUTO, BACKEND_NVML, BACKEND_CUDA, BACKEND_WORKER };

enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_NOTICE,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

typedef double config_FRACTION;
typedef double config_MARGIN;
typedef uint64_t config_BYTES;
typedef uint64_t config_DURATION; /* ns */
typedef uint32_t config_COUNT;
typedef bool config_BOOL;
typedef char config_PATH[CONFIG_TEXT_SIZE];
typedef char config_TEXT[CONFIG_TEXT_SIZE];
typedef enum mode config_MODE;
typedef enum policy config_POLICY;
typedef enum backend config_BACKEND;
typedef enum log_level config_LEVEL;
typedef uint32_t config_PERMISSIONS;

struct config {
#define KEY(name, type, dflt, reload, doc) config_##type name;
#include "daemon/config.def"
#undef KEY
};

/* What the command line asks for beside keys. */
enum config_action {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_PRINT, /* --print-config */
    CONFIG_CHECK, /* --check-config */
};

void config_defaults(struct config *c);

/* Sets one key from text. where says where the text stands ("--set", "FILE:12"). 0 or ERR_INVALID,
 * ERR_OVERFLOW with the sentence in ret_error. */
int config_set(struct config *c, const char *key, const char *value, const char *where,
               char ret_error[CONFIG_ERROR_SIZE]) _must_check_;

/* Reads an INI file (section [dlod] or none). *c changes only when the whole file is good. */
int config_read_file(struct config *c, const char *path,
                     char ret_error[CONFIG_ERROR_SIZE]) _must_check_;

/* Defaults, then --config FILE, then options in order (--key VALUE, --key=VALUE,
 * --set key=value, --set=key=value; '-' and '_' are alike in option names). Called again on
 * SIGHUP with the same argv. */
int config_from_argv(struct config *c, int argc, char *const argv[], enum config_action *ret_action,
                     char ret_error[CONFIG_ERROR_SIZE]) _must_check_;

/* What single keys cannot say: the policy settings together, sample_timeout below the client's
 * deadline, interval limits, a gpu where one is needed. */
int config_validate(const struct config *c, char ret_error[CONFIG_ERROR_SIZE]) _must_check_;

/* On reload: copies RELOAD keys from fresh to *c. Returns the name of the first RESTART key that
 * differs (its change waits for a restart), NULL if none. */
const char *config_apply_reload(struct config *c, const struct config *fresh);

/* All keys as a file that config_read_file reads back to the same values. */
void config_print(const struct config *c, FILE *out);

/* Options with their docs and defaults, for --help. */
void config_print_options(FILE *out);
