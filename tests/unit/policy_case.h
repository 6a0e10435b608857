/* SPDX-License-Identifier: Apache-2.0 */
/* One session and one boundary at a time, for the tests of daemon/policy. */
#pragma once

#include <check.h>
#include <stdio.h>

#include "daemon/policy/policy.h"
#include "proto/base/error.h"

#define MAX UINT64_MAX

static struct policy_settings settings;
static struct policy_session session;
static struct policy_choice choice;
static struct policy_notice notice;
static struct answer got;
static struct stager nodes[QUOTA_STAGERS_SESSION];
static size_t used;

static inline void start(const struct resume *resume)
{
    policy_session_init(&session, 7, &choice, resume);
}

static inline void fresh(void)
{
    settings = (struct policy_settings){
        .margin = 1.25,
        .cap_fraction = 0.25,
        .min_free = 0.05,
        .policy = POLICY_LEARNED,
        .mode = MODE_ON,
    };
    choice = (struct policy_choice){0};
    used = 0;
    start(NULL);
}

static inline int attach(const char *id, uint64_t bytes)
{
    struct stager *node = &nodes[used++];

    snprintf(node->id, sizeof(node->id), "%s", id);
    node->staged_bytes = bytes;
    return policy_attach(&session, node);
}

static inline struct boundary at(uint64_t cached, uint64_t free_bytes, uint64_t total)
{
    return (struct boundary){.reserved = opt_u64(cached),
                             .allocated = opt_u64(0),
                             .free = opt_u64(free_bytes),
                             .total = opt_u64(total)};
}

static inline enum reason decide(struct boundary b)
{
    policy_decide(&settings, &session, &b, NULL, NULL, &got, &notice);
    ck_assert_uint_eq(got.session, 7);
    return got.reason;
}

static inline enum reason ask(uint64_t cached, uint64_t free_bytes, uint64_t total)
{
    return decide(at(cached, free_bytes, total));
}

static inline enum reason force(enum force cause)
{
    struct boundary b = at(90, 400, 400);

    b.force = cause;
    return decide(b);
}

/* Both succeed. */
static inline void window(enum phase phase)
{
    ck_assert_int_eq(policy_warmup(&session, phase), 0);
}

static inline void detach(const char *id)
{
    ck_assert_ptr_nonnull(policy_detach(&session, id));
}

/* Runs the cases that add() adds. Returns the exit status. */
static inline int run_cases(const char *name, void (*add)(TCase *t))
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create(name);
    SRunner *r = srunner_create(s);
    int failed;

    suite_add_tcase(s, t);
    tcase_add_checked_fixture(t, fresh, NULL);
    add(t);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
