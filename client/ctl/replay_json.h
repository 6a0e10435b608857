/* SPDX-License-Identifier: Apache-2.0 */
/* What `replay --json` prints, piece by piece. Each function returns a new reference, or NULL when
 * out of memory. */
#pragma once

#include <jansson.h>

#include "client/ctl/replay_play.h"

/* A string where the number does not fit an integer of JSON. */
json_t *replay_json_u64(uint64_t v);
json_t *replay_json_event(const struct replay_file *f, const struct trace_line *line,
                          const struct trace_line *answer);
json_t *replay_json_difference(const struct replay_file *f, const char *key, const char *expected,
                               const char *got);
json_t *replay_json_summary(const char *name, const struct replay_summary *s);
