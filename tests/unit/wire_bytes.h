/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of proto/wire: messages built byte by byte, for what the encoder refuses to say,
 * and decoding of copies that end where the message ends. */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/wire/wire.h"

/* Numbers of the operations in dlo.proto. */
enum { F_HELLO = 2, F_ATTACH, F_DETACH, F_SET_PEAK, F_WARMUP, F_BUSY, F_ASK, F_RELEASED, F_RESUME };

/* The arena of all tests of one program. */
static inline struct wire_arena *wire_test_arena(void)
{
    static struct wire_arena arena;

    return &arena;
}

struct bytes {
    uint8_t data[2 * LIMIT_MESSAGE_BYTES];
    size_t length;
};

static inline void put_varint(struct bytes *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        b->data[b->length++] = (uint8_t)(v | 128);
    b->data[b->length++] = (uint8_t)v;
}

static inline void put_number(struct bytes *b, uint32_t field, uint64_t v)
{
    put_varint(b, field << 3);
    put_varint(b, v);
}

static inline void put_bytes(struct bytes *b, uint32_t field, const void *data, size_t length)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, length);
    if (length > 0)
        memcpy(b->data + b->length, data, length);
    b->length += length;
}

static inline void put_double(struct bytes *b, uint32_t field, double v)
{
    put_varint(b, field << 3 | 1);
    memcpy(b->data + b->length, &v, sizeof(v));
    b->length += sizeof(v);
}

/* Decodes from a copy of exactly that length, so that a sanitizer sees a read behind the end. */
static inline int decode_request(const uint8_t *data, size_t length, struct wire_request *ret,
                                 const char **ret_field)
{
    uint8_t *copy = malloc(length + (length == 0));
    int r;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, length);
    r = wire_decode_request(wire_test_arena(), copy, length, ret, ret_field);
    free(copy);
    return r;
}

static inline int decode_reply(const uint8_t *data, size_t length, struct wire_reply *ret)
{
    uint8_t *copy = malloc(length + (length == 0));
    int r;

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, data, length);
    r = wire_decode_reply(wire_test_arena(), copy, length, ret);
    free(copy);
    return r;
}

/* A request with seq 5 and that op; the error and, where it has one, the field. */
static inline int decode_op(uint32_t op_field, const struct bytes *op, const char **ret_field)
{
    struct bytes b = {.length = 0};
    struct wire_request request;
    int r;

    put_number(&b, 1, 5);
    put_bytes(&b, op_field, op->data, op->length);
    r = decode_request(b.data, b.length, &request, ret_field);
    ck_assert_uint_eq(request.seq, 5); /* an error can be answered */
    return r;
}

static inline void expect_field(uint32_t op_field, const struct bytes *op, const char *field)
{
    const char *named = NULL;
    int r = decode_op(op_field, op, &named);

    ck_assert_msg(r == ERR_INVALID, "%s: %d instead of invalid", field, r);
    ck_assert_str_eq(named, field);
}

static inline void expect_fine(uint32_t op_field, const struct bytes *op)
{
    const char *named = NULL;

    ck_assert_msg(decode_op(op_field, op, &named) == 0, "%s is refused", named);
}

/* A hello with the two versions, to which a test adds. */
static inline struct bytes hello_bytes(void)
{
    struct bytes b = {.length = 0};

    put_number(&b, 1, 1);
    put_number(&b, 2, 1);
    return b;
}

/* A reply with seq 1 and that body. */
static inline int decode_body(uint32_t body_field, const struct bytes *body, struct wire_reply *ret)
{
    struct bytes b = {.length = 0};

    put_number(&b, 1, 1);
    put_bytes(&b, body_field, body->data, body->length);
    return decode_reply(b.data, b.length, ret);
}
