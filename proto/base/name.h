/* SPDX-License-Identifier: Apache-2.0 */
/* Names that users choose (workers, stagers, components), and user text made safe to print. */
#pragma once

#include "proto/base/limits.h"

#include <stdbool.h>
#include <stddef.h>

/* Is it 1 to LIMIT_NAME_CHARS characters of [A-Za-z0-9._:-]? length without a NUL. */
bool name_valid(const char *text, size_t length);

/* Makes a valid name of any text: other characters become '_', the rest is cut. */
void name_sanitize(const char *text, char out[LIMIT_NAME_SIZE]);

/* Copies text with every byte that is not printable ASCII, and each `"`, `\` and `%`, as %XX, cut
 * where it no longer fits, always NUL-terminated. Returns out. */
char *text_escape(const char *text, size_t length, char *out, size_t out_size);
