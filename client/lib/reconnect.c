/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/reconnect.h"

#include "proto/base/bytes.h"

void reconnect_init(struct reconnect *r, uint64_t seed)
{
    *r = (struct reconnect){.state = RECONNECT_DOWN,
                            .cause = CAUSE_NO_DAEMON,
                            .pause_ns = RECONNECT_FIRST_NS,
                            .random = seed};
}

/* splitmix64: any seed will do, 0 too */
static uint64_t next_random(struct reconnect *r)
{
    uint64_t z = r->random += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

enum reconnect_action reconnect_poll(struct reconnect *r, uint64_t now_ns)
{
    switch (r->state) {
    case RECONNECT_UP:
        return RECONNECT_USE;
    case RECONNECT_HANDSHAKE:
        if (now_ns < r->next_ns)
            return RECONNECT_CONTINUE;
        reconnect_failed(r, CAUSE_BACK_OFF, now_ns);
        return RECONNECT_ABANDON;
    default:
        if (now_ns < r->next_ns)
            return RECONNECT_WAIT;
        r->state = RECONNECT_HANDSHAKE;
        r->next_ns = now_ns + RECONNECT_HANDSHAKE_NS;
        return RECONNECT_CONNECT;
    }
}

void reconnect_hasten(struct reconnect *r, uint64_t within_ns, uint64_t now_ns)
{
    if (r->state == RECONNECT_DOWN)
        r->next_ns = bytes_min(r->next_ns, now_ns + within_ns);
}

void reconnect_synced(struct reconnect *r)
{
    r->state = RECONNECT_UP;
    r->pause_ns = RECONNECT_FIRST_NS;
    r->successes++;
}

void reconnect_failed(struct reconnect *r, enum cause why, uint64_t now_ns)
{
    uint64_t pause = why == CAUSE_REFUSED ? RECONNECT_LAST_NS : r->pause_ns;

    r->state = RECONNECT_DOWN;
    r->cause = why == CAUSE_NO_DAEMON || why == CAUSE_REFUSED ? why : CAUSE_BACK_OFF;
    /* between half and all of it, so that the workers of a machine do not come back at once */
    r->next_ns = now_ns + pause / 2 + next_random(r) % (pause / 2 + 1);
    r->pause_ns = bytes_min(r->pause_ns * 2, RECONNECT_LAST_NS);
}
