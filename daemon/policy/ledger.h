/* SPDX-License-Identifier: Apache-2.0 */
/* The set of attached stagers of one session and the total of their bytes (R1, R2).
 * Pure: nodes belong to the caller, who allocates one per attach and gets it back at detach. */
#pragma once

#include <stdint.h>

#include "proto/base/attr.h"
#include "proto/base/limits.h"

/* 4,096 stagers make chains of 64: an attach stays below a microsecond for what models really have
 */
#define LEDGER_BUCKETS 64

struct stager {
    struct stager *next;
    uint64_t staged_bytes;
    char id[LIMIT_NAME_SIZE];
};

struct ledger {
    struct stager *buckets[LEDGER_BUCKETS];
    uint64_t staged_bytes;
    uint32_t count;
};

void ledger_init(struct ledger *l);

/* The attached stager with that id, or NULL. Borrowed. */
struct stager *ledger_find(const struct ledger *l, const char *id);

/* Adds a node whose id is not attached. ERR_OVERFLOW when the total would pass 2^64-1; nothing
 * changes then. The node stays linked until ledger_remove gives it back. */
int ledger_add(struct ledger *l, struct stager *node) _must_check_;

/* Unlinks and returns the node, NULL where the id is unknown. */
struct stager *ledger_remove(struct ledger *l, const char *id) _must_check_;

/* Unlinks any one node, NULL when empty: for tearing a session down. */
struct stager *ledger_pop(struct ledger *l) _must_check_;

/* The node after `prev` (the first where prev is NULL), NULL at the end. Order is arbitrary. */
struct stager *ledger_next(const struct ledger *l, const struct stager *prev);
