/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the arbiter: claim.c reads, pressure.c moves events on, arbiter.c takes
 * events in and actions out. */
#pragma once

#include "daemon/policy/arbiter.h"

/* ---- claim.c ---- */

/* R30: does it take part? */
bool tenant_is_on(const struct arbiter *a, const struct tenant *t);
/* R31: what a reclaim may ask of it, nothing below its pin. */
uint64_t tenant_reclaimable(const struct tenant *t);
bool tenant_is_late(const struct arbiter *a, const struct tenant *t);
/* R23: how long a request to it may take. */
uint64_t tenant_reclaim_ns(const struct tenant *t);
/* Its call waits, and its event has not ended. */
bool wait_is_active(const struct wait *w);
/* R22: the newest sample, where it is young enough. */
bool arbiter_has_sample(const struct arbiter *a);
/* Is it one that the wait may be judged by? */
bool wait_has_sample(const struct arbiter *a, const struct wait *w);
/* What all sessions of that process hold. */
uint64_t arbiter_process_bytes(const struct arbiter *a, const struct tenant *t);
/* R22: bytes that the call of t lacks, beside what is freed for others. */
uint64_t arbiter_missing(const struct arbiter *a, const struct tenant *t);
/* R24a: is there another session whose need does not fit what is free? */
bool arbiter_has_neighbour_need(const struct arbiter *a, const struct tenant *t);

/* R24a: was it busy lately? */
bool tenant_is_active(const struct arbiter *a, const struct tenant *t);

/* ---- lease.c ---- */

/* R25: may what t waits for not be granted because of what others have, or ask before it? */
bool lease_is_held_up(const struct arbiter *a, const struct tenant *t);
/* R25: others are to keep quiet while t, which waits for a lease, has it. */
bool lease_wants_quiet(const struct wait *w);
/* R25: must nobody be asked to release for the wait of t now? */
bool lease_forbids_asking(const struct arbiter *a, const struct tenant *t);
/* R25: must a boundary of t answer quiet? free: its own reading, for where there is no sample. */
bool lease_is_quiet_for(const struct arbiter *a, const struct tenant *t, struct opt_u64 own_free);
/* R25: looks who settles by now, and whether that was in vain. */
void lease_settle(struct arbiter *a);
/* R25: takes the newest sample in. */
void lease_sampled(struct arbiter *a);
/* R25: has the device come to rest for t? */
bool lease_has_settled(const struct arbiter *a, const struct tenant *t);
/* Is a sample due for that? */
bool lease_wants_sample(const struct arbiter *a);
/* When lease_settle or a lease of t has something to do next. */
uint64_t lease_settle_due(const struct arbiter *a);
uint64_t lease_due(const struct arbiter *a, const struct tenant *t);
/* t reports at a boundary of its own. */
void lease_reported(const struct arbiter *a, struct tenant *t);
/* t is gone. */
void lease_forget(struct arbiter *a, struct tenant *t);

/* ---- pressure.c ---- */

/* Begins a call that waits; the caller has checked that none does. */
void pressure_begin(struct arbiter *a, struct tenant *t, const struct wait *w);
/* The session was asked and has released, or will not: freed by its report, which now says
 * reserved. */
void pressure_answered(struct arbiter *a, struct tenant *t, uint64_t freed,
                       struct opt_u64 reserved);
/* Ends the call of t, and what others are asked for it, without an answer. */
void pressure_forget(struct arbiter *a, struct tenant *t);
/* Nobody waits any longer for what t was asked. */
void pressure_cancel(struct tenant *t);
/* R23: requests whose deadline is over are missed: shown, and those sessions come last for a while.
 */
void pressure_miss(struct arbiter *a);
/* Asks, ends and answers whatever can be by now. */
void pressure_run(struct arbiter *a);
/* A sample that was wanted did not come. */
void pressure_unverified(struct arbiter *a);

/* Appends an action of t that is not there yet. */
void arbiter_queue(struct arbiter *a, struct tenant *t, enum action_kind kind);
