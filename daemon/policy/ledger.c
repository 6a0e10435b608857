/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/ledger.h"

#include <stddef.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

/* Compares ids itself: the policy core may call nothing but mem* (docs/architecture.md, purity). */
static int same_id(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static uint32_t bucket_of(const char *id)
{
    uint32_t hash = 2166136261u; /* FNV-1a; ids are not secret and chains are bounded by limits.h */

    for (; *id; id++)
        hash = (hash ^ (uint8_t)*id) * 16777619u;
    return hash % LEDGER_BUCKETS;
}

void ledger_init(struct ledger *l)
{
    *l = (struct ledger){0};
}

struct stager *ledger_find(const struct ledger *l, const char *id)
{
    for (struct stager *s = l->buckets[bucket_of(id)]; s; s = s->next)
        if (same_id(s->id, id))
            return s;
    return NULL;
}

/* R1 */
int ledger_add(struct ledger *l, struct stager *node)
{
    struct stager **bucket = &l->buckets[bucket_of(node->id)];
    uint64_t total;

    if (!bytes_add(l->staged_bytes, node->staged_bytes, &total))
        return ERR_OVERFLOW;
    node->next = *bucket;
    *bucket = node;
    l->staged_bytes = total;
    l->count++;
    return 0;
}

/* R2 */
struct stager *ledger_remove(struct ledger *l, const char *id)
{
    struct stager **link = &l->buckets[bucket_of(id)];

    for (; *link; link = &(*link)->next) {
        struct stager *node = *link;

        if (!same_id(node->id, id))
            continue;
        *link = node->next;
        l->staged_bytes -= node->staged_bytes;
        l->count--;
        return node;
    }
    return NULL;
}

struct stager *ledger_pop(struct ledger *l)
{
    struct stager *any = ledger_next(l, NULL);

    return any ? ledger_remove(l, any->id) : NULL;
}

struct stager *ledger_next(const struct ledger *l, const struct stager *prev)
{
    uint32_t bucket = 0;

    if (prev) {
        if (prev->next)
            return prev->next;
        bucket = bucket_of(prev->id) + 1;
    }
    for (; bucket < LEDGER_BUCKETS; bucket++)
        if (l->buckets[bucket])
            return l->buckets[bucket];
    return NULL;
}
