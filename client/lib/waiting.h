/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon says about room between its answers: the end of a call that waits, and what it asks
 * this worker for (R23, R24). Pure; kept until somebody looks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/wire/wire.h"

struct waiting {
    uint32_t seq; /* of the request that is answered later, 0: none */
    bool has_ended;
    struct wire_wait_end ended;  /* where has_ended */
    struct wire_reclaim reclaim; /* what this worker is asked for; call 0: nothing */
    uint64_t reclaim_until_ns;
    uint64_t held_ns; /* the call may take so long, as of when that came; 0: not told */
};

/* A reply that answers no call in progress: true where it was about room, and is taken. */
bool waiting_take(struct waiting *w, const struct wire_reply *reply, uint64_t now_ns);

/* A request was sent whose answer comes later. */
void waiting_begin(struct waiting *w, uint32_t seq);

/* The connection is gone: what waits ends without the daemon, and nothing is asked for any more. */
void waiting_break(struct waiting *w);
