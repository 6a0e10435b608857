/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/waiting.h"

#include "proto/base/bytes.h"

static const struct wire_wait_end without = {.end = WAIT_END_LOCAL}; /* a daemon */

static void end(struct waiting *w, const struct wire_wait_end *how)
{
    w->seq = 0;
    w->has_ended = true;
    w->ended = *how;
}

bool waiting_take(struct waiting *w, const struct wire_reply *reply, uint64_t now_ns)
{
    if (reply->seq != 0 && reply->seq == w->seq) {
        end(w, reply->body == WIRE_WAIT_END ? &reply->u.wait_end : &without);
        return true;
    }
    if (reply->seq != 0)
        return false;
    if (reply->body == WIRE_RECLAIM) {
        w->reclaim = reply->u.reclaim;
        w->reclaim_until_ns = bytes_add_sat(now_ns, reply->u.reclaim.timeout_ns);
    } else if (reply->body == WIRE_HELD) {
        w->held_ns = reply->u.held.timeout_ns;
    }
    return reply->body == WIRE_RECLAIM || reply->body == WIRE_HELD;
}

void waiting_begin(struct waiting *w, uint32_t seq)
{
    w->seq = seq;
    w->has_ended = false;
    w->held_ns = 0;
}

void waiting_break(struct waiting *w)
{
    if (w->seq != 0)
        end(w, &without);
    w->reclaim.call = 0;
}
