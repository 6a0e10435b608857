/* SPDX-License-Identifier: Apache-2.0 */
/* proto/wire: what goes in comes out, and pages that do not fit lose their end. */
#include "proto/wire/wire.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/wire_bytes.h"
#include "tests/unit/wire_samples.h"

#define GUARD         0xa5
#define GUARD_BYTES   64
#define HONEST_MEMORY 32768 /* half of the arena: no valid message comes near the limit */

/* ---- comparison, member by member ---- */

#define SAME(m)      ck_assert_msg(a->m == b->m, #m " differs")
#define SAME_OPT(m)  ck_assert_msg(a->m.has == b->m.has && a->m.v == b->m.v, #m " differs")
#define SAME_TEXT(m) ck_assert_str_eq(a->m, b->m)
#define SAME_REAL(m) ck_assert_double_eq(a->m, b->m)

static void same_state(const struct resume *a, const struct resume *b)
{
    SAME(peak);
    SAME(n);
    SAME(in_warmup);
    SAME(warmup_ended);
    SAME(busy);
    SAME_OPT(residue);
    SAME_OPT(reserved);
    SAME_OPT(allocated);
    SAME_OPT(announced);
    SAME_OPT(operator.cap_bytes);
    SAME_OPT(operator.pin_bytes);
    SAME(operator.priority);
    SAME(operator.revision);
    SAME(counts.retained);
    SAME(counts.cold_start_releases);
    SAME(counts.serving_releases);
    SAME(counts.uncovered);
    ck_assert_mem_eq(a->counts.forced, b->counts.forced, sizeof(a->counts.forced));
    ck_assert_mem_eq(a->counts.local, b->counts.local, sizeof(a->counts.local));
}

static void same_answer(const struct answer *a, const struct answer *b)
{
    SAME(decision);
    SAME(would);
    SAME(reason);
    SAME_OPT(cached);
    SAME_OPT(free);
    SAME_OPT(total);
    SAME_OPT(age_ns);
    SAME_OPT(floor);
    SAME_OPT(cap);
    SAME_OPT(budget);
    SAME_OPT(capped);
    SAME(peak);
    SAME(learned);
    SAME(staged_bytes);
    SAME(stager_count);
    SAME(warmup);
    SAME(session);
    SAME(n);
}

static void same_hello(const struct wire_hello *a, const struct wire_hello *b)
{
    SAME(min_version);
    SAME(max_version);
    SAME(features);
    SAME(observer);
    SAME_TEXT(name);
    SAME(policy);
    SAME(has_min_free);
    SAME_REAL(min_free);
    SAME(stage_end);
    SAME(mode);
    SAME_TEXT(group);
    SAME(rank);
    SAME(world);
    SAME(has_state);
    same_state(&a->state, &b->state);
}

static void same_ask(const struct boundary *a, const struct boundary *b)
{
    SAME(force);
    SAME_OPT(reserved);
    SAME_OPT(allocated);
    SAME_OPT(releasable);
    SAME_OPT(free);
    SAME_OPT(total);
    SAME_TEXT(component);
}

static void same_request(const struct wire_request *a, const struct wire_request *b)
{
    SAME(seq);
    SAME(op);
    switch (a->op) {
    case WIRE_HELLO:
        same_hello(&a->u.hello, &b->u.hello);
        break;
    case WIRE_ATTACH:
        SAME_TEXT(u.attach.id);
        SAME(u.attach.staged_bytes);
        break;
    case WIRE_DETACH:
        SAME_TEXT(u.detach.id);
        break;
    case WIRE_SET_PEAK:
        SAME(u.set_peak.peak);
        break;
    case WIRE_WARMUP:
        SAME(u.warmup.phase);
        break;
    case WIRE_BUSY:
        SAME(u.busy.phase);
        SAME_OPT(u.busy.need);
        SAME_OPT(u.busy.reserved);
        SAME_OPT(u.busy.allocated);
        SAME_OPT(u.busy.wait_ns);
        break;
    case WIRE_ASK:
        same_ask(&a->u.ask, &b->u.ask);
        break;
    case WIRE_RELEASED:
        SAME(u.released.reserved);
        SAME(u.released.allocated);
        SAME(u.released.us);
        break;
    case WIRE_RESUME:
        same_state(&a->u.resume.state, &b->u.resume.state);
        break;
    case WIRE_STATUS:
        SAME(u.status.cursor);
        SAME_OPT(u.status.session);
        break;
    case WIRE_EVENTS:
        SAME(u.events.cursor);
        SAME(u.events.wait);
        break;
    case WIRE_IDLE:
        SAME(u.idle.phase);
        SAME(u.idle.background);
        break;
    case WIRE_OOM:
        SAME(u.oom.need);
        SAME_OPT(u.oom.reserved);
        SAME_OPT(u.oom.allocated);
        break;
    case WIRE_SET:
        SAME(u.set.session);
        SAME(u.set.change.revision);
        SAME(u.set.change.has_cap);
        SAME(u.set.change.has_pin);
        SAME(u.set.change.has_priority);
        SAME_OPT(u.set.change.cap_bytes);
        SAME_OPT(u.set.change.pin_bytes);
        SAME(u.set.change.priority);
        break;
    case WIRE_LEASE:
        SAME(u.lease.bytes);
        SAME(u.lease.wait_ns);
        SAME(u.lease.term_ns);
        SAME(u.lease.kind);
        break;
    case WIRE_UNLEASE:
        SAME(u.lease.kind);
        break;
    case WIRE_VACATE:
        SAME(u.vacate.bytes);
        SAME(u.vacate.session);
        SAME(u.vacate.only_ready);
        break;
    case WIRE_RECLAIMED:
        SAME(u.reclaimed.call);
        SAME(u.reclaimed.refusal);
        SAME_OPT(u.reclaimed.reserved);
        SAME_OPT(u.reclaimed.allocated);
        SAME(u.reclaimed.us);
        break;
    default:
        break;
    }
}

static void same_row(const struct wire_row *a, const struct wire_row *b)
{
    SAME(session);
    SAME_TEXT(name);
    SAME(pid);
    SAME(uid);
    SAME(features);
    SAME(policy);
    SAME_REAL(min_free);
    same_state(&a->state, &b->state);
    same_answer(&a->last, &b->last);
    SAME_TEXT(component);
    SAME(room.readiness);
    SAME(room.claim_bytes);
    SAME(room.asked_event);
    SAME(room.is_late);
    SAME(room.need_bytes);
    SAME(room.waits_bytes);
    SAME(room.held_bytes);
    SAME(room.term_ns);
    SAME(last_age_ns);
    SAME(staged_bytes);
    SAME(stager_count);
    SAME_OPT(budget);
    SAME(habit);
    SAME(cure);
    SAME(proof.releases);
    SAME(proof.empty);
    SAME(proof.bytes);
    SAME(proof.us);
    SAME_OPT(proof.cached);
    SAME_OPT(proof.freed);
    SAME_OPT(proof.sampled);
    SAME_OPT(proof.residue);
    SAME(proof.last_us);
    SAME(proof.age_ns);
}

static void same_status(const struct wire_status *a, const struct wire_status *b)
{
    SAME(has_daemon);
    SAME_TEXT(daemon.version);
    SAME(daemon.pid);
    SAME(daemon.uptime_ns);
    SAME(daemon.mode);
    SAME(daemon.policy);
    SAME_REAL(daemon.margin);
    SAME_REAL(daemon.cap_fraction);
    SAME_REAL(daemon.min_free);
    SAME(daemon.sessions);
    SAME(daemon.stagers);
    SAME(daemon.resuming);
    SAME(daemon.rejected);
    SAME_TEXT(device.uuid);
    SAME_TEXT(device.name);
    SAME_TEXT(device.pci);
    SAME_TEXT(device.probe);
    SAME_OPT(device.minor);
    SAME_OPT(device.free);
    SAME_OPT(device.total);
    SAME_OPT(device.age_ns);
    SAME_OPT(device.floor);
    SAME_OPT(device.cap);
    SAME(device.source);
    SAME(row_count);
    SAME(cursor);
    SAME(more);
    for (uint32_t i = 0; i < a->row_count; i++)
        same_row(&a->rows[i], &b->rows[i]);
}

static void same_events(const struct wire_events *a, const struct wire_events *b)
{
    SAME(line_count);
    SAME(cursor);
    SAME(lost);
    SAME(end);
    for (uint32_t i = 0; i < a->line_count; i++) {
        SAME(lines[i].length);
        ck_assert_int_eq(memcmp(a->lines[i].text, b->lines[i].text, a->lines[i].length), 0);
    }
}

static void same_welcome(const struct wire_welcome *a, const struct wire_welcome *b)
{
    SAME(version);
    SAME(features);
    SAME(session);
    SAME(mode);
    SAME_TEXT(daemon);
    SAME_TEXT(uuid);
    SAME_REAL(margin);
    SAME_REAL(cap_fraction);
    SAME_REAL(min_free);
    SAME(policy);
    SAME(allow_never);
}

static void same_reply(const struct wire_reply *a, const struct wire_reply *b)
{
    SAME(seq);
    SAME(body);
    if (a->body == WIRE_ERROR) {
        SAME(u.error.code);
        SAME_TEXT(u.error.text);
    } else if (a->body == WIRE_WELCOME) {
        same_welcome(&a->u.welcome, &b->u.welcome);
    } else if (a->body == WIRE_LEDGER) {
        SAME(u.ledger.staged_bytes);
        SAME(u.ledger.stager_count);
        SAME(u.ledger.peak);
    } else if (a->body == WIRE_ANSWER) {
        same_answer(&a->u.answer, &b->u.answer);
    } else if (a->body == WIRE_DONE) {
        SAME(u.done.reason);
    } else if (a->body == WIRE_RECLAIM) {
        SAME(u.reclaim.event);
        SAME(u.reclaim.call);
        SAME(u.reclaim.bytes);
        SAME(u.reclaim.timeout_ns);
    } else if (a->body == WIRE_WAIT_END) {
        SAME(u.wait_end.end);
        SAME(u.wait_end.freed);
        SAME_OPT(u.wait_end.free);
    } else if (a->body == WIRE_REVISION) {
        SAME(u.revision.revision);
    } else if (a->body == WIRE_HELD) {
        SAME(u.held.timeout_ns);
    } else if (a->body == WIRE_STATUS_PAGE) {
        same_status(&a->u.status, &b->u.status);
    } else if (a->body == WIRE_EVENTS_PAGE) {
        same_events(&a->u.events, &b->u.events);
    }
}

/* ---- round trips ---- */

static void request_comes_back(enum wire_op op, bool full)
{
    struct wire_request in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    const char *field = NULL;
    size_t length;

    fill_request(&in, op, full);
    length = wire_encode_request(&in, data);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_le(length, LIMIT_MESSAGE_BYTES);
    memset(&out, GUARD, sizeof(out));
    ck_assert_int_eq(decode_request(data, length, &out, &field), 0);
    same_request(&in, &out);
    ck_assert_uint_lt(wire_test_arena()->used, HONEST_MEMORY);
}

static void reply_comes_back(enum wire_body body, bool full)
{
    struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    size_t length;

    fill_reply(&in, body, full);
    length = wire_encode_reply(&in, data);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_le(length, LIMIT_MESSAGE_BYTES);
    memset(&out, GUARD, sizeof(out));
    ck_assert_int_eq(decode_reply(data, length, &out), 0);
    same_reply(&in, &out);
    ck_assert_uint_lt(wire_test_arena()->used, HONEST_MEMORY);
}

START_TEST(every_request_with_extreme_values_comes_back)
{
    request_comes_back((enum wire_op)_i, true);
}
END_TEST

START_TEST(every_request_without_its_optional_members_comes_back)
{
    request_comes_back((enum wire_op)_i, false);
}
END_TEST

START_TEST(every_reply_with_extreme_values_comes_back)
{
    reply_comes_back((enum wire_body)_i, true);
}
END_TEST

START_TEST(every_reply_without_its_optional_members_comes_back)
{
    reply_comes_back((enum wire_body)_i, false);
}
END_TEST

START_TEST(zero_that_was_read_is_not_absent)
{
    struct wire_request in = {.seq = 1, .op = WIRE_ASK}, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    const char *field;

    in.u.ask.reserved = in.u.ask.free = opt_u64(0);
    ck_assert_int_eq(decode_request(data, wire_encode_request(&in, data), &out, &field), 0);
    same_request(&in, &out);
    ck_assert(out.u.ask.free.has && !out.u.ask.total.has);
}
END_TEST

START_TEST(would_is_absent_where_it_equals_the_decision)
{
    struct wire_reply in = {.seq = 1, .body = WIRE_ANSWER}, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];

    in.u.answer.decision = in.u.answer.would = DECISION_RELEASE;
    ck_assert_uint_eq(wire_encode_reply(&in, data), 6); /* seq, answer, decision */
    ck_assert_int_eq(decode_reply(data, 6, &out), 0);
    ck_assert_int_eq(out.u.answer.would, DECISION_RELEASE);
}
END_TEST

START_TEST(words_of_operations_are_those_of_the_schema)
{
    ck_assert_str_eq(wire_op_word(WIRE_HELLO), "hello");
    ck_assert_str_eq(wire_op_word(WIRE_SET_PEAK), "set_peak");
    ck_assert_str_eq(wire_op_word(WIRE_EVENTS), "events");
    ck_assert_str_eq(wire_op_word(WIRE_OP_UNKNOWN), "unknown");
    ck_assert_str_eq(wire_op_word(WIRE_OP_MAX), "unknown");
    ck_assert_str_eq(wire_op_word((enum wire_op) - 1), "unknown");
}
END_TEST

/* ---- pages ---- */

START_TEST(page_with_one_row_of_maximal_size_fits)
{
    struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    size_t length;

    fill_reply(&in, WIRE_STATUS_PAGE, true);
    memset(in.u.status.device.probe, 'p', LIMIT_TEXT_SIZE); /* full, without a NUL */
    length = wire_encode_reply(&in, data);
    ck_assert_uint_eq(in.u.status.row_count, 1);
    ck_assert_uint_lt(length, LIMIT_MESSAGE_BYTES / 2); /* room for the fields of later versions */
    ck_assert_int_eq(decode_reply(data, length, &out), 0);
    ck_assert_uint_eq(strlen(out.u.status.device.probe), LIMIT_TEXT_SIZE - 1);
}
END_TEST

START_TEST(page_of_maximal_rows_loses_the_last_and_says_so)
{
    struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES + GUARD_BYTES];
    uint32_t kept;
    size_t length;

    fill_reply(&in, WIRE_STATUS_PAGE, true);
    fill_status(&in.u.status, WIRE_ROWS_MAX);
    for (uint32_t i = 0; i < WIRE_ROWS_MAX; i++)
        in.u.status.rows[i].session = UINT64_MAX - WIRE_ROWS_MAX + i;
    in.u.status.cursor = UINT64_MAX - 1;
    in.u.status.more = false;
    memset(data, GUARD, sizeof(data));
    length = wire_encode_reply(&in, data);
    ck_assert_uint_le(length, LIMIT_MESSAGE_BYTES);
    for (size_t i = length; i < sizeof(data); i++)
        ck_assert_uint_eq(data[i], GUARD);
    kept = in.u.status.row_count;
    ck_assert(kept >= 2 && kept < WIRE_ROWS_MAX);
    ck_assert(in.u.status.more);
    ck_assert_uint_eq(in.u.status.cursor, in.u.status.rows[kept - 1].session);
    ck_assert_int_eq(decode_reply(data, length, &out), 0);
    same_reply(&in, &out);
}
END_TEST

/* Sizes around the limit: a line is dropped only where the page would be longer than a message. */
START_TEST(page_is_filled_to_the_last_byte)
{
    struct wire_reply in;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    size_t longest = 0, length;

    for (uint32_t pad = 0; pad < 2 * LIMIT_NAME_CHARS; pad++) {
        memset(&in, 0, sizeof(in));
        in.seq = 1;
        in.body = WIRE_EVENTS_PAGE;
        in.u.events.cursor = 100;
        in.u.events.line_count = 33;
        for (uint32_t i = 0; i < 33; i++) {
            in.u.events.lines[i].text = (const char *)wire_test_arena()->memory;
            in.u.events.lines[i].length = i == 0 ? 60 + pad : 120;
        }
        length = wire_encode_reply(&in, data);
        ck_assert_uint_le(length, LIMIT_MESSAGE_BYTES);
        if (in.u.events.line_count == 33 && length > longest)
            longest = length;
        ck_assert_uint_eq(in.u.events.cursor, 100 - (33 - in.u.events.line_count));
    }
    ck_assert_uint_eq(longest, LIMIT_MESSAGE_BYTES);
}
END_TEST

START_TEST(rows_that_were_dropped_are_on_the_next_page)
{
    enum { SESSIONS = 40 };
    struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    uint64_t cursor = 0, next = 1;
    bool more = true;

    while (more) {
        memset(&in, 0, sizeof(in));
        in.seq = 1;
        in.body = WIRE_STATUS_PAGE;
        while (in.u.status.row_count < WIRE_ROWS_MAX && cursor < SESSIONS) {
            struct wire_row *row = &in.u.status.rows[in.u.status.row_count++];

            fill_row(row);
            row->session = ++cursor;
        }
        in.u.status.cursor = cursor;
        in.u.status.more = cursor < SESSIONS;
        ck_assert_int_eq(decode_reply(data, wire_encode_reply(&in, data), &out), 0);
        ck_assert_uint_gt(out.u.status.row_count, 0);
        for (uint32_t i = 0; i < out.u.status.row_count; i++)
            ck_assert_uint_eq(out.u.status.rows[i].session, next++);
        cursor = out.u.status.cursor;
        more = out.u.status.more;
    }
    ck_assert_uint_eq(next, SESSIONS + 1);
}
END_TEST

START_TEST(page_of_many_small_rows_leaves_half_of_the_arena)
{
    static struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];

    in.seq = 1;
    in.body = WIRE_STATUS_PAGE;
    in.u.status.row_count = WIRE_ROWS_MAX;
    for (uint32_t i = 0; i < WIRE_ROWS_MAX; i++) {
        struct wire_row *row = &in.u.status.rows[i];

        row->session = i + 1;
        strcpy(row->name, "w");
        strcpy(row->component, "c");
        row->last.decision = row->last.would = DECISION_RETAIN;
        row->last.n = 1;
        row->state.counts.forced[FORCE_MAX - 1] = 1;
        row->state.counts.local[CAUSE_MAX - 1] = 1;
    }
    ck_assert_int_eq(decode_reply(data, wire_encode_reply(&in, data), &out), 0);
    ck_assert_uint_eq(out.u.status.row_count, WIRE_ROWS_MAX);
    ck_assert_uint_lt(wire_test_arena()->used, HONEST_MEMORY);
    same_reply(&in, &out);
}
END_TEST

START_TEST(page_of_long_lines_loses_the_last_and_steps_back)
{
    struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];
    char line[300];
    uint32_t kept;

    memset(line, 'l', sizeof(line));
    memset(&in, 0, sizeof(in));
    in.seq = 1;
    in.body = WIRE_EVENTS_PAGE;
    in.u.events.line_count = WIRE_LINES_MAX;
    in.u.events.cursor = 1000;
    for (uint32_t i = 0; i < WIRE_LINES_MAX; i++) {
        in.u.events.lines[i].text = line;
        in.u.events.lines[i].length = sizeof(line);
    }
    ck_assert_int_eq(decode_reply(data, wire_encode_reply(&in, data), &out), 0);
    kept = out.u.events.line_count;
    ck_assert_uint_eq(kept, 13);
    ck_assert_uint_eq(out.u.events.cursor, 1000 - (WIRE_LINES_MAX - kept));
    same_reply(&in, &out);
}
END_TEST

START_TEST(line_that_no_page_can_hold_is_cut)
{
    static char line[3 * LIMIT_MESSAGE_BYTES];
    struct wire_reply in, out;
    uint8_t data[LIMIT_MESSAGE_BYTES];

    memset(line, 'l', sizeof(line));
    for (size_t length = 4060; length < sizeof(line); length += length < 4200 ? 1 : 1000) {
        memset(&in, 0, sizeof(in));
        in.seq = UINT32_MAX;
        in.body = WIRE_EVENTS_PAGE;
        in.u.events.line_count = 2;
        in.u.events.cursor = in.u.events.lost = in.u.events.end = UINT64_MAX;
        for (uint32_t i = 0; i < 2; i++) {
            in.u.events.lines[i].text = line;
            in.u.events.lines[i].length = length;
        }
        ck_assert_int_eq(decode_reply(data, wire_encode_reply(&in, data), &out), 0);
        ck_assert_uint_eq(out.u.events.line_count, 1);
        ck_assert_uint_eq(out.u.events.cursor, UINT64_MAX - 1);
        ck_assert_uint_gt(out.u.events.lines[0].length, 4000);
        same_reply(&in, &out);
    }
}
END_TEST

START_TEST(longer_page_of_a_newer_daemon_is_read_as_far_as_it_goes)
{
    struct wire_reply reply;
    struct bytes b = {.length = 0}, row;

    for (uint32_t i = 1; i <= WIRE_ROWS_MAX + 4; i++) {
        row.length = 0;
        put_number(&row, 1, i);
        put_bytes(&b, 3, row.data, row.length);
    }
    put_number(&b, 4, WIRE_ROWS_MAX + 4);
    ck_assert_int_eq(decode_body(7, &b, &reply), 0);
    ck_assert_uint_eq(reply.u.status.row_count, WIRE_ROWS_MAX);
    ck_assert_uint_eq(reply.u.status.cursor, WIRE_ROWS_MAX);
    ck_assert(reply.u.status.more);
    b.length = 0;
    for (uint32_t i = 0; i < WIRE_LINES_MAX + 6; i++)
        put_bytes(&b, 1, "line", 4);
    put_number(&b, 2, 500);
    ck_assert_int_eq(decode_body(8, &b, &reply), 0);
    ck_assert_uint_eq(reply.u.events.line_count, WIRE_LINES_MAX);
    ck_assert_uint_eq(reply.u.events.cursor, 494);
}
END_TEST

static TCase *round_trip_case(void)
{
    TCase *tc = tcase_create("round trips");

    tcase_add_loop_test(tc, every_request_with_extreme_values_comes_back, 0, WIRE_OP_MAX);
    tcase_add_loop_test(tc, every_request_without_its_optional_members_comes_back, 0, WIRE_OP_MAX);
    tcase_add_loop_test(tc, every_reply_with_extreme_values_comes_back, 0, BODY_COUNT);
    tcase_add_loop_test(tc, every_reply_without_its_optional_members_comes_back, 0, BODY_COUNT);
    tcase_add_test(tc, zero_that_was_read_is_not_absent);
    tcase_add_test(tc, would_is_absent_where_it_equals_the_decision);
    tcase_add_test(tc, words_of_operations_are_those_of_the_schema);
    return tc;
}

static TCase *page_case(void)
{
    TCase *tc = tcase_create("pages");

    tcase_add_test(tc, page_with_one_row_of_maximal_size_fits);
    tcase_add_test(tc, page_of_maximal_rows_loses_the_last_and_says_so);
    tcase_add_test(tc, page_is_filled_to_the_last_byte);
    tcase_add_test(tc, rows_that_were_dropped_are_on_the_next_page);
    tcase_add_test(tc, page_of_many_small_rows_leaves_half_of_the_arena);
    tcase_add_test(tc, page_of_long_lines_loses_the_last_and_steps_back);
    tcase_add_test(tc, line_that_no_page_can_hold_is_cut);
    tcase_add_test(tc, longer_page_of_a_newer_daemon_is_read_as_far_as_it_goes);
    return tc;
}

int main(void)
{
    Suite *suite = suite_create("wire");
    SRunner *sr;
    int failed;

    suite_add_tcase(suite, round_trip_case());
    suite_add_tcase(suite, page_case());
    sr = srunner_create(suite);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
