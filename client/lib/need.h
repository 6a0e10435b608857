/* SPDX-License-Identifier: Apache-2.0 */
/* R24a: what a worker's requests need, learned from what it showed: the largest reserved of its
 * last brackets, which it has or would have had in them. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define NEED_BRACKETS 16

struct need {
    uint64_t past[NEED_BRACKETS]; /* a ring, next is the oldest */
    uint32_t next, count;
    uint64_t open_bytes; /* of the bracket that runs */
};

/* Inside a bracket the worker held so much, or would have. */
void need_shown(struct need *n, uint64_t reserved_bytes);

/* A bracket has ended. */
void need_bracket_end(struct need *n);

/* What it will hold at most; 0: nothing is known. */
uint64_t need_largest(const struct need *n);
