/* SPDX-License-Identifier: Apache-2.0 */
/* The local engine: the daemon's own policy core for this one session, inside the worker. It
 * mirrors everything at all times, so that it can answer at once when the daemon does not (R28),
 * and it holds what is registered again after a reconnect (R29). It knows no socket, clock or lock.
 * Its .c file is the only one of the library that sees daemon/policy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/lib/options.h"
#include "proto/base/answer.h"
#include "proto/base/list.h"
#include "proto/wire/wire.h"

struct local;

/* A stager as the link sees it. One that is detached while the daemon knows it stays as a tombstone
 * (not wanted, but known) until the daemon was told. */
struct replica {
    struct list link;
    const char *id;
    uint64_t staged_bytes;
    uint32_t seq;    /* of the attach that is under way, 0: none */
    bool is_wanted;  /* attached here */
    bool is_known;   /* its attach was sent on this connection, its detach not */
    bool is_refused; /* the daemon refused it on this connection */
};

/* ERR_INVALID, ERR_UNSUPPORTED for a choice that no daemon would accept; ERR_NO_MEMORY. options are
 * copied. */
int local_new(const struct options *options, struct local **ret) _must_check_;
void local_free(struct local *l); /* NULL is fine */

/* The daemon accepted the session: its settings hold from now on, here too. */
void local_welcome(struct local *l, const struct wire_welcome *w);

/* It has other settings since a reload. */
void local_settings(struct local *l, const struct wire_welcome *w);

/* The daemon refused the session: a policy that needs its permission is not used any longer. */
void local_refused(struct local *l);

/* R1. *ret is the new replica; NULL, with 0, where the id was attached already. */
int local_attach(struct local *l, const char *id, uint64_t staged_bytes,
                 struct replica **ret) _must_check_;

/* Takes an attach back that the daemon refused: the peak stays as it is. */
void local_undo_attach(struct local *l, struct replica *r);

/* R2, R3. ERR_UNKNOWN_STAGER. *ret is a tombstone, to be dropped once the daemon was told; NULL
 * where the daemon does not know that stager. */
int local_detach(struct local *l, const char *id, struct replica **ret) _must_check_;
void local_drop(struct local *l, struct replica *tombstone);

/* The connection is gone: no stager is known, and tombstones are dropped. */
void local_forget_known(struct local *l);

/* Head of all replicas, oldest first. */
struct list *local_replicas(struct local *l);

/* R12, R21: ERR_BAD_STATE. */
int local_warmup(struct local *l, enum phase phase) _must_check_;

/* What a request reports when it begins or ends; members that the host left out are filled in from
 * what the session has shown (R24a). */
int local_busy(struct local *l, enum phase phase, struct opt_u64 *need, struct opt_u64 *reserved,
               struct opt_u64 *allocated) _must_check_;
/* The daemon says that the end of the request releases. */
void local_vacated(struct local *l);
/* R24a: an allocation of so many bytes did not fit. */
void local_lacked(struct local *l, uint64_t bytes);

void local_set_peak(struct local *l, uint64_t peak);                         /* R11c */
void local_released(struct local *l, uint64_t reserved, uint64_t allocated); /* R26 */

/* Does that boundary release without asking (R4)? */
bool local_is_forced(const struct local *l, const struct boundary *b);

/* R4 to R13. cause is counted where it is not CAUSE_NONE. */
void local_decide(struct local *l, const struct boundary *b, enum cause cause, struct answer *ret);

/* The mode in force: the lower of the worker's and the daemon's (R30). */
enum mode local_mode(const struct local *l);

/* The daemon decided: state and counts follow its answer. */
void local_follow(struct local *l, const struct boundary *b, const struct answer *answer);

/* The state that a hello or a resume carries. Borrowed; restore takes a change back. */
const struct resume *local_state(const struct local *l);
void local_restore(struct local *l, const struct resume *state);

/* R5, with the settings in force. */
uint64_t local_cap(const struct local *l, uint64_t total_bytes);

/* For showing. */
struct local_view {
    uint64_t session, learned, staged_bytes;
    uint32_t stager_count;
    enum policy policy; /* in force */
};
struct local_view local_view(const struct local *l);
