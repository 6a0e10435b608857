/* SPDX-License-Identifier: Apache-2.0 */
/* R27: a session that releases all the time gains nothing from us, and its operator is told what
 * would change that. Looks at the last HABIT_WINDOWS brackets of a session, or, without brackets,
 * at its last unforced boundaries. Pure, as all of the policy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/answer.h"

#define HABIT_WINDOWS 8

struct habit_window {
    uint8_t every; /* enum cure of all its boundaries, 0 where they differ or one did not release */
    uint8_t some;  /* a bit (1 << cure) for each that was there */
    bool has_boundary;
};

struct habit {
    struct habit_window past[HABIT_WINDOWS]; /* a ring, next is the oldest */
    uint32_t next, count;
    struct habit_window open; /* the bracket that runs */
    enum habit_kind kind;
    enum cure cure;
    bool is_news; /* kind or cure became another one that is none no more: to be told once */
};

/* An unforced boundary was decided. is_bracketed: the session has brackets; is_busy: one runs. */
void habit_boundary(struct habit *h, const struct answer *a, const struct boundary *b,
                    bool is_bracketed, bool is_busy);

/* A bracket has ended. */
void habit_bracket_end(struct habit *h);

/* Is there something to tell? Once for each. */
bool habit_take_news(struct habit *h);
