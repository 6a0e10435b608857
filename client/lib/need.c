/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/need.h"

#include "proto/base/bytes.h"

void need_shown(struct need *n, uint64_t reserved_bytes)
{
    n->open_bytes = bytes_max(n->open_bytes, reserved_bytes);
}

void need_bracket_end(struct need *n)
{
    n->past[n->next] = n->open_bytes;
    n->next = (n->next + 1) % NEED_BRACKETS;
    n->count += n->count < NEED_BRACKETS;
    n->open_bytes = 0;
}

uint64_t need_largest(const struct need *n)
{
    uint64_t largest = n->open_bytes;

    for (uint32_t i = 0; i < n->count; i++)
        largest = bytes_max(largest, n->past[i]);
    return largest;
}
