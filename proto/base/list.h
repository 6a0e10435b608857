/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list. A head is a node too; an initialised node that is in no list
 * points to itself, so removing it twice does nothing. */
#pragma once

#include <stdbool.h>

#include "proto/base/attr.h"

struct list {
    struct list *prev, *next;
};

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_append(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

#define list_entry(node, type, member) container_of(node, type, member)

/* The body may remove the current node. */
#define list_for_each(pos, tmp, head)                                                              \
    for (struct list *pos = (head)->next, *tmp = pos->next; pos != (head);                         \
         pos = tmp, tmp = pos->next)
