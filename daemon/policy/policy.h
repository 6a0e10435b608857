/* SPDX-License-Identifier: Apache-2.0 */
/* Rules R1 to R13 for one session (docs/policy.md): what the daemon, replay and the library's
 * local fallback all run. Pure: no clock, allocation, I/O or logging; memory is the caller's, and
 * the same inputs give the same answers bit for bit. One thread at a time per session.
 *
 * The arbiter for many sessions (R20 to R24a) stands beside this file, in arbiter.[ch]: it sees
 * every boundary before policy_decide, which takes what others need as an input. */
#pragma once

#include "daemon/policy/habit.h"
#include "daemon/policy/ledger.h"
#include "proto/base/answer.h"

/* Settings of the daemon that decisions read; checked by policy_check_settings. */
struct policy_settings {
    double margin;       /* learned = peak x margin */
    double cap_fraction; /* cap = total x cap_fraction */
    double min_free;     /* floor = total x min_free */
    enum policy policy;
    enum mode mode;
    bool allow_never;
};

/* What a session chose in its hello; members that are none follow the settings. */
struct policy_choice {
    enum policy policy;
    bool has_min_free;
    double min_free;
    enum stage_end stage_end; /* ADVISE: stage_end requests are unforced boundaries (R4) */
    bool brackets;            /* R21 */
    bool partial;             /* R31: can give back a part of its cache */
    enum mode mode;           /* R30: the lower of this and the daemon's counts; NONE is on */
};

struct policy_session {
    uint64_t number;
    struct policy_choice choice;
    struct ledger ledger;
    struct resume state; /* everything that survives a reconnect */
    struct answer last;  /* last.n == 0: nothing was decided yet in this connection */
    struct habit habit;  /* R27 */
};

/* R13: tells the caller that a notice is due. */
struct policy_notice {
    bool uncovered;
    uint64_t old_peak, new_peak;
};

/* What others on the device make of a boundary of this session. */
struct others {
    bool quiet;          /* R25: no memory is to become free now; then the others are false */
    bool reclaims;       /* R23: it is asked to release */
    bool neighbour_need; /* R24a: another one needs more than is free; at the end of a bracket */
};

/* The published figures, for who has no daemon to ask: the library before its first welcome, and
 * replay. The daemon's own defaults stand in daemon/config.def; a test keeps the two alike. */
void policy_default_settings(struct policy_settings *s);

/* R11: 0, or ERR_INVALID with *ret_key naming the setting that is out of range. */
int policy_check_settings(const struct policy_settings *s, const char **ret_key) _must_check_;

/* R11, R11a: may a session have that choice under these settings? 0, ERR_INVALID,
 * ERR_UNSUPPORTED (demand is planned) or ERR_POLICY_NOT_ALLOWED. */
int policy_check_choice(const struct policy_settings *s,
                        const struct policy_choice *choice) _must_check_;

/* Starts a session; resume may be NULL for a fresh one, and is copied. */
void policy_session_init(struct policy_session *p, uint64_t number,
                         const struct policy_choice *choice, const struct resume *resume);

/* R1. 1: attached (the node is linked), 0: that id was attached already (the node is unused),
 * ERR_OVERFLOW: nothing changed. */
int policy_attach(struct policy_session *p, struct stager *node) _must_check_;

/* R2, R3. Returns the node to free, NULL for an unknown id. */
struct stager *policy_detach(struct policy_session *p, const char *id) _must_check_;

/* R11c. The caller clamps to the device where it knows the total. */
void policy_set_peak(struct policy_session *p, uint64_t peak_bytes);

/* R12, R21: ERR_BAD_STATE for a second begin or an end without one; a busy phase of a session
 * without brackets is ERR_BAD_STATE too. */
int policy_warmup(struct policy_session *p, enum phase phase) _must_check_;
int policy_busy(struct policy_session *p, enum phase phase) _must_check_;

/* R31. 0; ERR_STALE, and nothing has changed, where the settings have another revision by now. */
int policy_set(struct policy_session *p, const struct operator_change *change) _must_check_;

/* What it holds now; a member that is missing leaves both as they are. */
void policy_report(struct policy_session *p, struct opt_u64 reserved, struct opt_u64 allocated);

/* R26: what the worker's allocator holds after a release; cached becomes the residue. */
void policy_released(struct policy_session *p, uint64_t reserved, uint64_t allocated);

/* R4 to R8, R10 to R13. newest is the probe's sample, NULL where there is none that is fresh;
 * others is NULL for a session that is alone. */
void policy_decide(const struct policy_settings *s, struct policy_session *p,
                   const struct boundary *b, const struct sample *newest,
                   const struct others *others, struct answer *ret,
                   struct policy_notice *ret_notice);

/* R4: does that boundary release without being decided? */
bool policy_is_forced(const struct policy_session *p, const struct boundary *b);

/* R21: the end of a bracket may be answered RELEASE too, which is counted and teaches nothing.
 * Returns the reason, NONE where there is nothing to do. */
enum reason policy_bracket_end(struct policy_session *p, const struct others *others);
/* For a mirror: the daemon has answered so. */
void policy_follow_bracket_end(struct policy_session *p);

/* Takes in what another engine decided for this session, by settings that may be others: state and
 * counts are then as if it had been decided here. For a mirror; a is unforced. */
void policy_follow(struct policy_session *p, const struct boundary *b, const struct answer *a);

/* The three products of docs/policy.md, and nothing else in floating point: bytes x fraction in
 * IEEE doubles, truncated, saturating at 2^64-1. */
uint64_t policy_product(uint64_t bytes, double fraction);

/* R5 before an observation, for showing: learned, and what budget a session has on that total. */
uint64_t policy_learned(const struct policy_settings *s, const struct policy_session *p);
uint64_t policy_cap(const struct policy_settings *s, const struct policy_session *p,
                    uint64_t total_bytes);
uint64_t policy_budget(const struct policy_settings *s, const struct policy_session *p,
                       uint64_t total_bytes);
uint64_t policy_floor(const struct policy_settings *s, const struct policy_session *p,
                      uint64_t total_bytes);

/* R30: the lower of the session's mode and the daemon's. */
enum mode policy_mode(const struct policy_settings *s, const struct policy_session *p);

/* The policy in force for this session. */
enum policy policy_effective(const struct policy_settings *s, const struct policy_session *p);
