/* SPDX-License-Identifier: Apache-2.0 */
/* When the library tries its daemon again (R28). Pure: time and what happened are inputs, what to
 * do is the output, and jitter comes from a seed; no clock, socket or memory of its own. The owner
 * calls reconnect_poll once in every call of the library, does what it says, and reports what came
 * of it.
 *
 * DOWN -- poll after the back-off: CONNECT --> HANDSHAKE -- reconnect_synced --> UP
 * HANDSHAKE, UP -- reconnect_failed, or no welcome in time: ABANDON --> DOWN */
#pragma once

#include <stdint.h>

#include "proto/base/attr.h"
#include "proto/base/terms.h"

/* First pause: a daemon that restarts is back within it. Doubles up to the longest, so that a
 * machine without a daemon pays one refused connect in half a minute. */
#define RECONNECT_FIRST_NS 100000000ull
#define RECONNECT_LAST_NS  30000000000ull

/* A daemon that took the connection but says nothing for so long is hung, or is a backlog that
 * nobody reads: long enough for a slow start under socket activation. */
#define RECONNECT_HANDSHAKE_NS 10000000000ull

enum reconnect_state { RECONNECT_DOWN = 1, RECONNECT_HANDSHAKE, RECONNECT_UP };

enum reconnect_action {
    RECONNECT_WAIT = 1, /* not yet: nothing to do */
    RECONNECT_CONNECT,  /* connect and say hello, without blocking; the state is HANDSHAKE now */
    RECONNECT_CONTINUE, /* read and send what the handshake still needs, without blocking */
    RECONNECT_ABANDON,  /* close the connection; the state is DOWN now */
    RECONNECT_USE,      /* the link is up */
};

struct reconnect {
    enum reconnect_state state;
    enum cause cause;   /* why answers are local while the state is not UP */
    uint64_t next_ns;   /* DOWN: when to connect; HANDSHAKE: when to give up */
    uint64_t pause_ns;  /* the next pause, before jitter */
    uint64_t random;    /* state of the jitter */
    uint64_t successes; /* times it was up */
};

/* Starts DOWN with the first connect due at once. */
void reconnect_init(struct reconnect *r, uint64_t seed);

enum reconnect_action reconnect_poll(struct reconnect *r, uint64_t now_ns) _must_check_;

/* R28: a host that waits is to be found again soon: the next connect comes within so long. */
void reconnect_hasten(struct reconnect *r, uint64_t within_ns, uint64_t now_ns);

/* The handshake is complete. */
void reconnect_synced(struct reconnect *r);

/* It failed, in any state; the next connect comes after a pause: the longest where the daemon
 * refused, since what it refuses now it refuses in a moment too. Why says what calls in the pause
 * give as their cause: NO_DAEMON (nobody listens), REFUSED, else BACK_OFF. */
void reconnect_failed(struct reconnect *r, enum cause why, uint64_t now_ns);
