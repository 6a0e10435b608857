/* SPDX-License-Identifier: Apache-2.0 */
/* The types of configuration values: each reads text into a field, saying why it cannot, and prints
 * the field so that it reads back. For config.c alone. */
#pragma once

#include "daemon/config.h"

#define CONFIG_VALUE_CHARS_MAX 170 /* with the longest key it fits a line of inih */

struct config_type {
    const char *name; /* in --help */
    int (*set)(void *field, const char *value, const char **ret_why);
    void (*print)(const void *field, FILE *out);
};

extern const struct config_type config_type_FRACTION, config_type_MARGIN, config_type_BYTES,
    config_type_DURATION, config_type_COUNT, config_type_BOOL, config_type_PATH, config_type_TEXT,
    config_type_MODE, config_type_POLICY, config_type_BACKEND, config_type_LEVEL,
    config_type_PERMISSIONS;
