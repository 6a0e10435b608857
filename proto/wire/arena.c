/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

#define ARENA_ALIGN 16

/* NULL when the arena is used up: protobuf-c then gives up on the message. */
static void *arena_take(void *data, size_t size)
{
    struct wire_arena *arena = data;
    size_t left = sizeof(arena->memory) - arena->used;
    void *p = arena->memory + arena->used;

    if (size > left)
        return NULL;
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    arena->used += size < left ? size : left;
    return p;
}

static void arena_leave(void *data, void *pointer)
{
    (void)data;
    (void)pointer;
}

ProtobufCAllocator arena_allocator(struct wire_arena *arena)
{
    arena->used = 0;
    return (ProtobufCAllocator){.alloc = arena_take, .free = arena_leave, .allocator_data = arena};
}
