/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: both decoders read the bytes, and what they accept must come back byte for byte
 * from its second encoding (the first drops what this build does not know). protobuf-c shifts
 * negative numbers, so link the system's library, which is not instrumented, and build the
 * generated code without -fsanitize=shift. */
#include "proto/wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wire_arena arena;

static void require(bool fact, const char *what)
{
    if (fact)
        return;
    fprintf(stderr, "fuzz_wire: %s\n", what);
    abort();
}

static void check_length(size_t length)
{
    require(length > 0 && length <= LIMIT_MESSAGE_BYTES, "a message of 0 or of too many bytes");
}

static void try_request(const uint8_t *data, size_t size)
{
    static struct wire_request request;
    uint8_t first[LIMIT_MESSAGE_BYTES], second[LIMIT_MESSAGE_BYTES];
    const char *field = NULL;
    size_t length;

    if (wire_decode_request(&arena, data, size, &request, &field) < 0) {
        require(field != NULL, "an error without a field");
        return;
    }
    length = wire_encode_request(&request, first);
    check_length(length);
    require(wire_decode_request(&arena, first, length, &request, &field) == 0,
            "our own request is refused");
    require(wire_encode_request(&request, second) == length && !memcmp(first, second, length),
            "a request does not come back");
}

static void try_reply(const uint8_t *data, size_t size)
{
    static struct wire_reply reply;
    uint8_t first[LIMIT_MESSAGE_BYTES], second[LIMIT_MESSAGE_BYTES];
    size_t length;

    if (wire_decode_reply(&arena, data, size, &reply) < 0)
        return;
    length = wire_encode_reply(&reply, first);
    check_length(length);
    require(wire_decode_reply(&arena, first, length, &reply) == 0, "our own reply is refused");
    require(wire_encode_reply(&reply, second) == length && !memcmp(first, second, length),
            "a reply does not come back");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_request(data, size);
    try_reply(data, size);
    require(arena.used <= sizeof(arena.memory), "the arena is used beyond its end");
    return 0;
}
