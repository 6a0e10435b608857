/* SPDX-License-Identifier: Apache-2.0 */
/* Inside proto/wire only: the arena as an allocator of protobuf-c, and the parts that requests and
 * replies share. Readers (parse) copy out of a decoded message; writers (fill) let a message point
 * into the caller's struct, which must outlive the packing. */
#pragma once

#include "proto/wire/wire.h"

#include <protobuf-c/protobuf-c.h>

#include "proto/dlo.pb-c.h"

/* A number that is absent in the message <-> a number without `has`. */
#define GET_OPT(m, field) ((m)->has_##field ? opt_u64((m)->field) : opt_none())
#define PUT_OPT(m, field, opt)                                                                     \
    do {                                                                                           \
        (m)->has_##field = (opt).has;                                                              \
        (m)->field = (opt).v;                                                                      \
    } while (0)

/* A number whose absence means 0 is left out when it is 0: pages hold more rows then. */
#define PUT(m, name, value)                                                                        \
    do {                                                                                           \
        (m)->name = (value);                                                                       \
        (m)->has_##name = (m)->name != 0;                                                          \
    } while (0)

/* A number that the reader insists on. */
#define PUT_ALWAYS(m, name, value)                                                                 \
    do {                                                                                           \
        (m)->name = (value);                                                                       \
        (m)->has_##name = 1;                                                                       \
    } while (0)

/* Text; "" is left out. The array may be full, without a NUL. */
#define PUT_TEXT(m, name, text)                                                                    \
    do {                                                                                           \
        (m)->name = text_bytes((text), sizeof(text));                                              \
        (m)->has_##name = (m)->name.len != 0;                                                      \
    } while (0)

/* protobuf-c over the arena, which is emptied here. free does nothing. */
ProtobufCAllocator arena_allocator(struct wire_arena *arena);

/* Borrows text of at most size bytes. */
ProtobufCBinaryData text_bytes(const char *text, size_t size);

/* A name that a worker chose; absent gives "". false where it breaks the rules of names. */
bool name_parse(protobuf_c_boolean has, const ProtobufCBinaryData *bytes,
                char out[LIMIT_NAME_SIZE]) _must_check_;

/* Text of the daemon, cut to fit; text_escape is applied where something is not printable ASCII. */
void text_parse(const ProtobufCBinaryData *bytes, char *out, size_t out_size);

/* Is the number in the table, or 0? */
bool term_known(const struct term *table, uint32_t value) _must_check_;

/* The number, 0 where the table lacks it: for words that only describe, so that a newer daemon may
 * have more of them. */
uint32_t term_or_none(const struct term *table, uint32_t value);

/* false where a member is out of range: only the priority can be. */
bool state_parse(const Dlo__Wire__State *m, struct resume *ret) _must_check_;

/* counts is the memory of a submessage; both are initialised here. */
void state_fill(Dlo__Wire__State *m, Dlo__Wire__Counts *counts, const struct resume *state);

/* false where the decision is none that this build knows. */
bool answer_parse(const Dlo__Wire__Answer *m, struct answer *ret) _must_check_;
void answer_fill(Dlo__Wire__Answer *m, const struct answer *answer);
