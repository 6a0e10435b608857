/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/policy/habit.h"

/* What would have let this boundary retain; the other reasons never count. */
static enum cure cure_of(const struct answer *a, const struct boundary *b)
{
    if (a->would != DECISION_RELEASE)
        return CURE_NONE;
    switch (a->reason) {
    case REASON_CACHED_OVER_BUDGET:
        return CURE_CAP;
    case REASON_LOW_FREE_MEMORY:
        return CURE_FLOOR;
    case REASON_TELEMETRY_UNAVAILABLE:
        return b->reserved.has && b->allocated.has ? CURE_TELEMETRY : CURE_ALLOCATOR;
    default:
        return CURE_NONE;
    }
}

static void add(struct habit_window *w, enum cure cure)
{
    if (!w->has_boundary)
        w->every = (uint8_t)cure;
    else if (w->every != cure)
        w->every = CURE_NONE;
    w->has_boundary = true;
    if (cure != CURE_NONE)
        w->some |= (uint8_t)(1u << cure);
}

static void judge(struct habit *h)
{
    enum habit_kind kind = HABIT_NONE;
    enum cure cure = CURE_NONE;
    uint8_t every = h->past[0].every, some = UINT8_MAX;

    if (h->count == HABIT_WINDOWS) {
        for (uint32_t i = 0; i < HABIT_WINDOWS; i++) {
            every = every == h->past[i].every ? every : CURE_NONE;
            some &= h->past[i].some;
        }
        if (every != CURE_NONE) {
            kind = HABIT_INERT;
            cure = (enum cure)every;
        } else if (some != 0) {
            kind = HABIT_FLAPPING;
            cure = (enum cure)__builtin_ctz(some);
        }
    }
    h->is_news = kind != HABIT_NONE && (h->is_news || kind != h->kind || cure != h->cure);
    h->kind = kind;
    h->cure = cure;
}

static void push(struct habit *h, const struct habit_window *w)
{
    h->past[h->next] = *w;
    h->next = (h->next + 1) % HABIT_WINDOWS;
    h->count += h->count < HABIT_WINDOWS;
    judge(h);
}

void habit_boundary(struct habit *h, const struct answer *a, const struct boundary *b,
                    bool is_bracketed, bool is_busy)
{
    struct habit_window alone = {0};

    if (is_bracketed && is_busy) {
        add(&h->open, cure_of(a, b));
    } else if (!is_bracketed) {
        add(&alone, cure_of(a, b));
        push(h, &alone);
    }
}

void habit_bracket_end(struct habit *h)
{
    if (h->open.has_boundary)
        push(h, &h->open);
    h->open = (struct habit_window){0};
}

bool habit_take_news(struct habit *h)
{
    bool is_news = h->is_news;

    h->is_news = false;
    return is_news;
}
