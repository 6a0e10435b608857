/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/protocol.md, between its markers, is what the text beside it says. Run from
 * the root of the repository. */
#include "proto/wire/wire.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/wire_bytes.h"

struct example {
    struct bytes bytes;
    char names[32][32], values[32][48];
    size_t field_count;
};

/* One line: bytes in hex, then what they say; "name = value" is kept. */
static void example_line(struct example *e, char *line)
{
    char *p = line, *equals;
    unsigned int byte;
    int used;

    line[strcspn(line, "\n")] = '\0';
    while (sscanf(p, " %2x%n", &byte, &used) == 1 && (p[used] == ' ' || p[used] == '\0')) {
        e->bytes.data[e->bytes.length++] = (uint8_t)byte;
        p += used;
        if (strncmp(p, "  ", 2) == 0)
            break;
    }
    p += strspn(p, " ");
    equals = strstr(p, " = ");
    if (!equals)
        return;
    ck_assert_uint_lt(e->field_count, 32);
    *equals = '\0';
    snprintf(e->names[e->field_count], sizeof(e->names[0]), "%s", p);
    snprintf(e->values[e->field_count++], sizeof(e->values[0]), "%s", equals + 3);
}

static void example_read(const char *marker, struct example *e)
{
    FILE *f = fopen("docs/protocol.md", "re");
    char line[200];
    bool inside = false, seen = false;

    ck_assert_msg(f != NULL, "no docs/protocol.md: run me from the root of the repository");
    memset(e, 0, sizeof(*e));
    while (fgets(line, sizeof(line), f)) {
        if (strncmp(line, "<!-- ", 5) == 0) {
            inside = strstr(line, marker) != NULL;
            seen = seen || inside;
        } else if (inside && strncmp(line, "    ", 4) == 0) {
            example_line(e, line);
        }
    }
    fclose(f);
    ck_assert_msg(seen, "no marker %s", marker);
}

static void example_expect(const struct example *e, const char *name, const char *value)
{
    for (size_t i = 0; i < e->field_count; i++) {
        if (strcmp(e->names[i], name) == 0) {
            ck_assert_str_eq(e->values[i], value);
            return;
        }
    }
    ck_abort_msg("the example does not name %s", name);
}

static void example_number(const struct example *e, const char *name, uint64_t v, const char *word)
{
    char text[48];

    snprintf(text, sizeof(text), word ? "%llu, %s" : "%llu", (unsigned long long)v, word);
    example_expect(e, name, text);
}

START_TEST(example_request_of_the_manual_says_what_it_says)
{
    struct example e;
    struct wire_request r;
    const char *field = NULL;
    uint8_t again[LIMIT_MESSAGE_BYTES];

    example_read("example: request", &e);
    ck_assert_int_eq(decode_request(e.bytes.data, e.bytes.length, &r, &field), 0);
    ck_assert_int_eq(r.op, WIRE_ASK);
    example_number(&e, "seq", r.seq, NULL);
    example_number(&e, "ask.reserved", r.u.ask.reserved.v, NULL);
    example_number(&e, "ask.allocated", r.u.ask.allocated.v, NULL);
    example_number(&e, "ask.free", r.u.ask.free.v, NULL);
    example_number(&e, "ask.total", r.u.ask.total.v, NULL);
    example_expect(&e, "ask.component", r.u.ask.component);
    ck_assert_uint_eq(e.field_count, 6);
    ck_assert_uint_eq(wire_encode_request(&r, again), e.bytes.length);
    ck_assert_mem_eq(again, e.bytes.data, e.bytes.length);
}
END_TEST

START_TEST(example_reply_of_the_manual_says_what_it_says)
{
    static struct wire_reply r;
    struct example e;
    const struct answer *a = &r.u.answer;
    uint8_t again[LIMIT_MESSAGE_BYTES];

    example_read("example: reply", &e);
    ck_assert_int_eq(decode_reply(e.bytes.data, e.bytes.length, &r), 0);
    ck_assert_int_eq(r.body, WIRE_ANSWER);
    example_number(&e, "seq", r.seq, NULL);
    example_number(&e, "answer.decision", a->decision, decision_word((int)a->decision));
    example_number(&e, "answer.reason", a->reason, reason_word((int)a->reason));
    example_number(&e, "answer.cached", a->cached.v, NULL);
    example_number(&e, "answer.free", a->free.v, NULL);
    example_number(&e, "answer.total", a->total.v, NULL);
    example_number(&e, "answer.age_ns", a->age_ns.v, NULL);
    example_number(&e, "answer.floor", a->floor.v, NULL);
    example_number(&e, "answer.cap", a->cap.v, NULL);
    example_number(&e, "answer.budget", a->budget.v, NULL);
    example_number(&e, "answer.capped", a->capped.v, NULL);
    example_number(&e, "answer.peak", a->peak, NULL);
    example_number(&e, "answer.learned", a->learned, NULL);
    example_number(&e, "answer.staged", a->staged_bytes, NULL);
    example_number(&e, "answer.stagers", a->stager_count, NULL);
    example_number(&e, "answer.session", a->session, NULL);
    example_number(&e, "answer.n", a->n, NULL);
    ck_assert_uint_eq(e.field_count, 17);
    ck_assert_uint_eq(wire_encode_reply(&r, again), e.bytes.length);
    ck_assert_mem_eq(again, e.bytes.data, e.bytes.length);
}
END_TEST

static TCase *example_case(void)
{
    TCase *tc = tcase_create("example");

    tcase_add_test(tc, example_request_of_the_manual_says_what_it_says);
    tcase_add_test(tc, example_reply_of_the_manual_says_what_it_says);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("wire manual");
    SRunner *sr;
    int failed;

    suite_add_tcase(suite, example_case());
    sr = srunner_create(suite);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
