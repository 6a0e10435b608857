/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

#define ARENA_ALIGN 16

_Static_assert(WIRE_ARENA_BYTES % ARENA_ALIGN == 0, "what is left must be aligned too");

/* NULL when the arena is used up: protobuf-c then gives up on the message. */
static void *arena_take(void *data, size_t size)
{
    struct wire_arena *arena = data;
    void *p = arena->memory + arena->used;

    if (size > sizeof(arena->memory) - arena->used)
        return NULL;
    arena->used += (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
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
