/* SPDX-License-Identifier: Apache-2.0 */
/* proto/wire: what breaks a rule is refused by name, what is new is ignored, no bytes do harm. */
#include "proto/wire/wire.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/wire_bytes.h"
#include "tests/unit/wire_samples.h"

#define GUARD       0xa5
#define GUARD_BYTES 64
#define MUTANTS     100000

/* ---- limits ---- */

START_TEST(message_of_4096_bytes_is_read_and_of_4097_is_too_long)
{
    struct wire_request request;
    struct wire_reply reply;
    struct bytes b = {.length = 0};
    const char *field = NULL;

    put_number(&b, 1, 9);
    put_bytes(&b, 100, NULL, 0); /* an unknown field that fills the message */
    b.length -= 1;
    put_varint(&b, LIMIT_MESSAGE_BYTES - b.length - 2);
    memset(b.data + b.length, 0, sizeof(b.data) - b.length);
    ck_assert_int_eq(decode_request(b.data, LIMIT_MESSAGE_BYTES, &request, &field), 0);
    ck_assert_uint_eq(request.seq, 9);
    ck_assert_int_eq(decode_reply(b.data, LIMIT_MESSAGE_BYTES, &reply), 0);
    ck_assert_int_eq(decode_request(b.data, LIMIT_MESSAGE_BYTES + 1, &request, &field),
                     ERR_TOO_LONG);
    ck_assert_uint_eq(request.seq, 0);
    ck_assert_int_eq(decode_reply(b.data, LIMIT_MESSAGE_BYTES + 1, &reply), ERR_TOO_LONG);
}
END_TEST

/* Is a name accepted in each place that has one? The id of an attach has its bytes too. */
static void try_name(const char *name, size_t length, bool fine)
{
    static const struct {
        uint32_t op, field;
        const char *word;
    } places[] = {{F_HELLO, 5, "hello.name"},
                  {F_HELLO, 10, "hello.group"},
                  {F_ATTACH, 1, "attach.id"},
                  {F_DETACH, 1, "detach.id"},
                  {F_ASK, 7, "ask.component"}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct bytes op = {.length = 0};

        if (places[i].op == F_HELLO)
            op = hello_bytes();
        if (places[i].op == F_ATTACH)
            put_number(&op, 2, 0);
        put_bytes(&op, places[i].field, name, length);
        if (fine)
            expect_fine(places[i].op, &op);
        else
            expect_field(places[i].op, &op, places[i].word);
    }
}

START_TEST(name_has_1_to_63_characters_of_its_alphabet)
{
    char text[LIMIT_NAME_CHARS + 1];

    memset(text, 'n', sizeof(text));
    try_name(text, LIMIT_NAME_CHARS, true);
    try_name(text, LIMIT_NAME_CHARS + 1, false);
    try_name("", 0, false);
    try_name("Az09._:-", 8, true);
    try_name("a\0b", 3, false);
    try_name("a\0", 2, false);
    try_name("a\nb", 3, false);
    try_name("\x1b[31m", 5, false);
    try_name("a b", 3, false);
    try_name("a/b", 3, false);
    try_name("\xc3\xa9", 2, false);
    try_name("\x7f", 1, false);
}
END_TEST

START_TEST(number_that_is_no_word_is_refused_by_name)
{
    static const struct {
        uint32_t field, max;
        const char *word;
    } hello[] = {{6, POLICY_DEMAND, "hello.policy"},
                 {8, STAGE_END_ADVISE, "hello.stage_end"},
                 {9, MODE_ON, "hello.mode"}};
    struct bytes op;

    for (size_t i = 0; i < 3; i++) {
        op = hello_bytes();
        put_number(&op, hello[i].field, hello[i].max);
        expect_fine(F_HELLO, &op);
        op = hello_bytes();
        put_number(&op, hello[i].field, hello[i].max + 1);
        expect_field(F_HELLO, &op, hello[i].word);
        op = hello_bytes();
        put_number(&op, hello[i].field, UINT32_MAX);
        expect_field(F_HELLO, &op, hello[i].word);
    }
    op.length = 0;
    put_number(&op, 6, FORCE_MAX);
    expect_field(F_ASK, &op, "ask.force");
    op.length = 0;
    put_number(&op, 1, PHASE_END + 1);
    expect_field(F_WARMUP, &op, "warmup.phase");
    expect_field(F_BUSY, &op, "busy.phase");
}
END_TEST

START_TEST(member_without_which_a_message_means_nothing_is_required)
{
    struct bytes none = {.length = 0}, op = {.length = 0};

    expect_field(F_HELLO, &none, "hello.min_version");
    put_number(&op, 1, 1);
    expect_field(F_HELLO, &op, "hello.max_version");
    expect_field(F_RELEASED, &op, "released.allocated");
    expect_field(F_RELEASED, &none, "released.reserved");
    expect_field(F_ATTACH, &none, "attach.id");
    expect_field(F_DETACH, &none, "detach.id");
    expect_field(F_SET_PEAK, &none, "set_peak.peak");
    expect_field(F_WARMUP, &none, "warmup.phase");
    expect_field(F_BUSY, &none, "busy.phase");
    expect_field(F_RESUME, &none, "resume.state");
    op.length = 0;
    put_bytes(&op, 1, "a", 1);
    expect_field(F_ATTACH, &op, "attach.bytes");
    expect_fine(F_DETACH, &op);
    expect_fine(F_ASK, &none);
}
END_TEST

START_TEST(min_free_is_a_fraction)
{
    static const double wrong[] = {NAN, -NAN, -0.001, 1.001, INFINITY, -INFINITY};
    struct bytes op;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        op = hello_bytes();
        put_double(&op, 7, wrong[i]);
        expect_field(F_HELLO, &op, "hello.min_free");
    }
    op = hello_bytes();
    put_double(&op, 7, 1.0);
    expect_fine(F_HELLO, &op);
}
END_TEST

START_TEST(rank_is_below_the_world_size)
{
    static const struct {
        uint32_t rank, world;
        bool fine;
    } cases[] = {{0, 0, true}, {0, 1, true}, {3, 4, true}, {4, 4, false}, {1, 0, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes op = hello_bytes();

        put_number(&op, 11, cases[i].rank);
        put_number(&op, 12, cases[i].world);
        if (cases[i].fine)
            expect_fine(F_HELLO, &op);
        else
            expect_field(F_HELLO, &op, "hello.rank");
    }
}
END_TEST

START_TEST(priority_is_within_100_of_0)
{
    static const struct {
        int value;
        bool fine;
    } cases[] = {{100, true}, {-100, true}, {101, false}, {-101, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bytes state = {.length = 0}, hello = hello_bytes(), resume = {.length = 0};
        int v = cases[i].value;

        put_number(&state, 11, (uint64_t)(v < 0 ? -2 * v - 1 : 2 * v)); /* zigzag */
        put_bytes(&hello, 13, state.data, state.length);
        put_bytes(&resume, 1, state.data, state.length);
        if (cases[i].fine) {
            expect_fine(F_HELLO, &hello);
            expect_fine(F_RESUME, &resume);
        } else {
            expect_field(F_HELLO, &hello, "hello.state.priority");
            expect_field(F_RESUME, &resume, "resume.state.priority");
        }
    }
}
END_TEST

START_TEST(version_range_is_a_range)
{
    struct bytes op = {.length = 0};

    put_number(&op, 1, 2);
    put_number(&op, 2, 1);
    expect_field(F_HELLO, &op, "hello.max_version");
    op.length = 0;
    put_number(&op, 1, 0);
    put_number(&op, 2, 1);
    expect_field(F_HELLO, &op, "hello.min_version");
}
END_TEST

START_TEST(request_number_0_and_none_are_refused)
{
    static const uint8_t zero[] = {0x08, 0x00, 0x1a, 0x00}, none[] = {0x1a, 0x00};
    struct wire_request request;
    struct wire_reply reply;
    const char *field = NULL;

    ck_assert_int_eq(decode_request(zero, sizeof(zero), &request, &field), ERR_INVALID);
    ck_assert_str_eq(field, "seq");
    ck_assert_int_eq(decode_request(none, sizeof(none), &request, &field), ERR_MALFORMED);
    ck_assert_uint_eq(request.seq, 0);
    reply.seq = 1;
    ck_assert_int_eq(decode_reply(none, sizeof(none), &reply), ERR_MALFORMED);
    ck_assert_uint_eq(reply.seq, 0);
}
END_TEST

START_TEST(longer_lists_of_counts_are_cut_and_shorter_ones_end_in_zeros)
{
    struct bytes b = {.length = 0}, resume = {.length = 0}, state = {.length = 0},
                 counts = {.length = 0};
    uint8_t list[CAUSE_MAX + 20];
    struct wire_request request;
    const char *field;

    for (size_t i = 0; i < sizeof(list); i++)
        list[i] = (uint8_t)(i + 1);
    put_bytes(&counts, 5, list, 2);
    put_bytes(&counts, 6, list, sizeof(list));
    put_bytes(&state, 13, counts.data, counts.length);
    put_bytes(&resume, 1, state.data, state.length);
    put_number(&b, 1, 1);
    put_bytes(&b, F_RESUME, resume.data, resume.length);
    memset(&request, GUARD, sizeof(request));
    ck_assert_int_eq(decode_request(b.data, b.length, &request, &field), 0);
    ck_assert_uint_eq(request.u.resume.state.counts.forced[1], 2);
    ck_assert_uint_eq(request.u.resume.state.counts.forced[2], 0);
    ck_assert_uint_eq(request.u.resume.state.counts.local[CAUSE_MAX - 1], CAUSE_MAX);
}
END_TEST

/* ---- what a newer or a hostile peer sends ---- */

START_TEST(unknown_fields_are_ignored)
{
    struct wire_request request;
    struct bytes b = {.length = 0}, ask = {.length = 0};
    const char *field;

    put_number(&ask, 1, 77);
    put_number(&ask, 500, 1);
    put_bytes(&ask, 501, "future", 6);
    put_double(&ask, 502, 1.0);
    put_number(&b, 100, 5);
    put_number(&b, 1, 3);
    put_bytes(&b, F_ASK, ask.data, ask.length);
    put_bytes(&b, 101, "future", 6);
    ck_assert_int_eq(decode_request(b.data, b.length, &request, &field), 0);
    ck_assert_uint_eq(request.seq, 3);
    ck_assert_int_eq(request.op, WIRE_ASK);
    ck_assert_uint_eq(request.u.ask.reserved.v, 77);
}
END_TEST

START_TEST(operation_of_a_newer_peer_is_unknown_with_its_number)
{
    struct wire_request request;
    struct wire_reply reply;
    struct bytes b = {.length = 0};
    const char *field;

    put_number(&b, 1, 8);
    ck_assert_int_eq(decode_request(b.data, b.length, &request, &field), 0);
    ck_assert_int_eq(request.op, WIRE_OP_UNKNOWN);
    put_bytes(&b, 20, "\x08\x01", 2);
    ck_assert_int_eq(decode_request(b.data, b.length, &request, &field), 0);
    ck_assert_int_eq(request.op, WIRE_OP_UNKNOWN);
    ck_assert_uint_eq(request.seq, 8);
    ck_assert_int_eq(decode_reply(b.data, b.length, &reply), 0);
    ck_assert_int_eq(reply.body, WIRE_BODY_UNKNOWN);
    ck_assert_uint_eq(reply.seq, 8);
}
END_TEST

START_TEST(bomb_of_unknown_fields_is_malformed)
{
    struct wire_request request;
    struct wire_reply reply;
    struct bytes b = {.length = 0};
    const char *field = NULL;

    put_number(&b, 1, 1);
    while (b.length < LIMIT_MESSAGE_BYTES)
        put_number(&b, 15, 1);
    ck_assert_int_eq(decode_request(b.data, b.length, &request, &field), ERR_MALFORMED);
    ck_assert_int_eq(decode_reply(b.data, b.length, &reply), ERR_MALFORMED);
    ck_assert_uint_le(wire_test_arena()->used, WIRE_ARENA_BYTES);
}
END_TEST

START_TEST(empty_packet_is_malformed)
{
    struct wire_request request;
    struct wire_reply reply;
    const char *field = NULL;
    uint8_t byte = 0;

    ck_assert_int_eq(decode_request(&byte, 0, &request, &field), ERR_MALFORMED);
    ck_assert_int_eq(decode_reply(&byte, 0, &reply), ERR_MALFORMED);
}
END_TEST

START_TEST(reply_that_would_mislead_a_worker_is_malformed)
{
    struct wire_reply reply;
    struct bytes none = {.length = 0}, b = {.length = 0};

    ck_assert_int_eq(decode_body(2, &none, &reply), ERR_MALFORMED); /* an error without a code */
    put_number(&b, 1, 4);                                           /* as zigzag: 2 */
    ck_assert_int_eq(decode_body(2, &b, &reply), ERR_MALFORMED);
    ck_assert_int_eq(decode_body(5, &b, &reply), ERR_MALFORMED); /* decision 4 */
    ck_assert_int_eq(decode_body(5, &none, &reply), ERR_MALFORMED);
    b.length = 0;
    put_number(&b, 4, MODE_ON + 1);
    ck_assert_int_eq(decode_body(3, &b, &reply), ERR_MALFORMED);
    b.length = 0;
    put_double(&b, 7, NAN);
    ck_assert_int_eq(decode_body(3, &b, &reply), ERR_MALFORMED);
}
END_TEST

START_TEST(word_that_only_describes_may_be_of_a_newer_daemon)
{
    struct wire_reply reply;
    struct bytes b = {.length = 0};

    put_number(&b, 1, DECISION_RETAIN);
    put_number(&b, 3, 1000);
    ck_assert_int_eq(decode_body(5, &b, &reply), 0);
    ck_assert_int_eq(reply.u.answer.decision, DECISION_RETAIN);
    ck_assert_int_eq(reply.u.answer.reason, REASON_NONE);
}
END_TEST

START_TEST(text_of_the_daemon_is_cut_and_made_printable)
{
    struct wire_reply reply;
    struct bytes b = {.length = 0};
    char text[LIMIT_TEXT_SIZE + 10];

    put_number(&b, 1, 1); /* -1 */
    put_bytes(&b, 2, "50 % of \"it\"", 12);
    ck_assert_int_eq(decode_body(2, &b, &reply), 0);
    ck_assert_str_eq(reply.u.error.text, "50 % of \"it\"");
    b.length = 2;
    put_bytes(&b, 2, "a\0\x1b[b", 5);
    ck_assert_int_eq(decode_body(2, &b, &reply), 0);
    ck_assert_str_eq(reply.u.error.text, "a%00%1B[b");
    memset(text, 't', sizeof(text));
    b.length = 2;
    put_bytes(&b, 2, text, sizeof(text));
    ck_assert_int_eq(decode_body(2, &b, &reply), 0);
    ck_assert_uint_eq(strlen(reply.u.error.text), LIMIT_TEXT_SIZE - 1);
    memset(text, '\n', sizeof(text));
    b.length = 2;
    put_bytes(&b, 2, text, sizeof(text));
    ck_assert_int_eq(decode_body(2, &b, &reply), 0);
    ck_assert_uint_eq(strlen(reply.u.error.text), (LIMIT_TEXT_SIZE - 1) / 3 * 3);
    b.length = 0;
    put_bytes(&b, 1, "o~\x1b[31m\n", 8);
    put_bytes(&b, 1, NULL, 0);
    ck_assert_int_eq(decode_body(8, &b, &reply), 0);
    ck_assert_uint_eq(reply.u.events.lines[0].length, 8);
    ck_assert_int_eq(memcmp(reply.u.events.lines[0].text, "o~?[31m?", 8), 0);
    ck_assert_ptr_nonnull(reply.u.events.lines[1].text);
}
END_TEST

/* ---- hostile bytes ---- */

struct sample_set {
    uint8_t data[2 * WIRE_OP_MAX + 2 * BODY_COUNT][LIMIT_MESSAGE_BYTES];
    size_t length[2 * WIRE_OP_MAX + 2 * BODY_COUNT];
    size_t count;
};

static void make_samples(struct sample_set *set)
{
    struct wire_request request;
    struct wire_reply reply;

    set->count = 0;
    for (int i = 0; i < 2 * WIRE_OP_MAX; i++, set->count++) {
        fill_request(&request, (enum wire_op)(i / 2), i % 2);
        set->length[set->count] = wire_encode_request(&request, set->data[set->count]);
    }
    for (int i = 0; i < 2 * BODY_COUNT; i++, set->count++) {
        fill_reply(&reply, (enum wire_body)(i / 2), i % 2);
        set->length[set->count] = wire_encode_reply(&reply, set->data[set->count]);
    }
}

static struct {
    uint8_t before[GUARD_BYTES];
    struct wire_request request;
    uint8_t between[GUARD_BYTES];
    struct wire_reply reply;
    uint8_t after[GUARD_BYTES];
    uint8_t out[LIMIT_MESSAGE_BYTES];
    uint8_t end[GUARD_BYTES];
} fenced;

static void check_fences(void)
{
    uint8_t guard[GUARD_BYTES];

    memset(guard, GUARD, sizeof(guard));
    ck_assert(memcmp(fenced.before, guard, GUARD_BYTES) == 0);
    ck_assert(memcmp(fenced.between, guard, GUARD_BYTES) == 0);
    ck_assert(memcmp(fenced.after, guard, GUARD_BYTES) == 0);
    ck_assert(memcmp(fenced.end, guard, GUARD_BYTES) == 0);
    ck_assert_uint_le(wire_test_arena()->used, WIRE_ARENA_BYTES);
}

/* Both decoders read the bytes; what they accept survives another trip byte for byte. */
static void feed(const uint8_t *data, size_t length)
{
    uint8_t first[LIMIT_MESSAGE_BYTES];
    const char *field = NULL;
    size_t n;

    if (decode_request(data, length, &fenced.request, &field) == 0) {
        n = wire_encode_request(&fenced.request, first);
        ck_assert_int_eq(decode_request(first, n, &fenced.request, &field), 0);
        ck_assert_uint_eq(wire_encode_request(&fenced.request, fenced.out), n);
        ck_assert_mem_eq(fenced.out, first, n);
    } else {
        ck_assert_ptr_nonnull(field);
    }
    if (decode_reply(data, length, &fenced.reply) == 0) {
        n = wire_encode_reply(&fenced.reply, first);
        ck_assert_int_eq(decode_reply(first, n, &fenced.reply), 0);
        ck_assert_uint_eq(wire_encode_reply(&fenced.reply, fenced.out), n);
        ck_assert_mem_eq(fenced.out, first, n);
    }
}

START_TEST(no_prefix_of_a_valid_message_does_harm)
{
    static struct sample_set set;

    make_samples(&set);
    memset(&fenced, GUARD, sizeof(fenced));
    for (size_t i = 0; i < set.count; i++)
        for (size_t length = 0; length <= set.length[i]; length++)
            feed(set.data[i], length);
    check_fences();
}
END_TEST

static uint64_t xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void mutate(struct bytes *b, const struct sample_set *set, uint64_t *rng)
{
    uint64_t r = xorshift(rng);
    size_t at = b->length ? (size_t)(r >> 32) % b->length : 0,
           other = (size_t)(r >> 8) % set->count;
    size_t rest = b->length - at, piece = rest < 40 ? rest : 40;

    switch (r % 6) {
    case 0:
        b->data[at] ^= (uint8_t)(1U << (r >> 16 & 7));
        break;
    case 1:
        b->data[at] = (uint8_t)(r >> 24);
        break;
    case 2:
        b->length = at;
        break;
    case 3: /* a piece leaves */
        piece = piece > 1 ? 1 + (size_t)(r >> 16) % (piece - 1) : piece;
        memmove(b->data + at, b->data + at + piece, rest - piece);
        b->length -= piece;
        break;
    case 4: /* a piece comes twice */
        memmove(b->data + at + piece, b->data + at, rest);
        b->length += piece;
        break;
    default: /* goes on as another message */
        memcpy(b->data + at, set->data[other], set->length[other]);
        b->length = at + set->length[other];
    }
    if (b->length > LIMIT_MESSAGE_BYTES)
        b->length = LIMIT_MESSAGE_BYTES;
}

START_TEST(mutated_packets_do_no_harm)
{
    static struct sample_set set;
    static struct bytes b;
    uint64_t rng = 0x9e3779b97f4a7c15;

    make_samples(&set);
    memset(&fenced, GUARD, sizeof(fenced));
    for (int i = 0; i < MUTANTS; i++) {
        size_t base = (size_t)xorshift(&rng) % set.count;

        b.length = set.length[base];
        memcpy(b.data, set.data[base], b.length);
        for (uint64_t n = 1 + xorshift(&rng) % 6; n > 0; n--)
            mutate(&b, &set, &rng);
        feed(b.data, b.length);
    }
    check_fences();
}
END_TEST

static TCase *limit_case(void)
{
    TCase *tc = tcase_create("limits");

    tcase_add_test(tc, message_of_4096_bytes_is_read_and_of_4097_is_too_long);
    tcase_add_test(tc, name_has_1_to_63_characters_of_its_alphabet);
    tcase_add_test(tc, number_that_is_no_word_is_refused_by_name);
    tcase_add_test(tc, member_without_which_a_message_means_nothing_is_required);
    tcase_add_test(tc, min_free_is_a_fraction);
    tcase_add_test(tc, rank_is_below_the_world_size);
    tcase_add_test(tc, priority_is_within_100_of_0);
    tcase_add_test(tc, version_range_is_a_range);
    tcase_add_test(tc, request_number_0_and_none_are_refused);
    tcase_add_test(tc, longer_lists_of_counts_are_cut_and_shorter_ones_end_in_zeros);
    return tc;
}

static TCase *peer_case(void)
{
    TCase *tc = tcase_create("peers");

    tcase_set_timeout(tc, 120); /* under valgrind */
    tcase_add_test(tc, unknown_fields_are_ignored);
    tcase_add_test(tc, operation_of_a_newer_peer_is_unknown_with_its_number);
    tcase_add_test(tc, bomb_of_unknown_fields_is_malformed);
    tcase_add_test(tc, empty_packet_is_malformed);
    tcase_add_test(tc, reply_that_would_mislead_a_worker_is_malformed);
    tcase_add_test(tc, word_that_only_describes_may_be_of_a_newer_daemon);
    tcase_add_test(tc, text_of_the_daemon_is_cut_and_made_printable);
    tcase_add_test(tc, no_prefix_of_a_valid_message_does_harm);
    tcase_add_test(tc, mutated_packets_do_no_harm);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("wire peers");
    SRunner *sr;
    int failed;

    suite_add_tcase(suite, limit_case());
    suite_add_tcase(suite, peer_case());
    sr = srunner_create(suite);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
