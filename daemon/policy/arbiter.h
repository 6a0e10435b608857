/* SPDX-License-Identifier: Apache-2.0 */
/* The arbiter for the sessions of one device (R20 to R25a, docs/policy.md): who could make room
 * for whom, who is asked, and what a call that waits for memory is answered. Pure as all of the
 * policy: events come in with their time, actions are taken out of a queue, memory is the caller's
 * and bounded by what it registers. The daemon and replay drive the same code.
 *
 * Each call that takes an event first sets arbiter::now_ns by its argument; afterwards the caller
 * takes all actions out (arbiter_next), asks for a sample if one is wanted (arbiter_wants_sample)
 * and calls arbiter_tick at arbiter_due. Whether a boundary or the end of a bracket releases for
 * somebody else is returned to the caller, who passes it on to policy_decide. */
#pragma once

#include "daemon/policy/policy.h"
#include "proto/base/list.h"

/* So many events are served at once; those beyond wait, with their deadline running. */
#define ARBITER_EVENTS 64
/* Dead workers whose bytes are still held; more at once share the last place. */
#define ARBITER_GHOSTS 16

#define ARBITER_S 1000000000ull
/* R22: an older sample says nothing about room. */
#define ARBITER_SAMPLE_MAX_AGE_NS ARBITER_S
/* R23: the deadline of a request to a session that can release now. */
#define ARBITER_RECLAIM_MIN_NS (2 * ARBITER_S)
#define ARBITER_RECLAIM_MAX_NS (20 * ARBITER_S)
/* R23: a session that missed one comes last for so long. */
#define ARBITER_LATE_NS (60 * ARBITER_S)
/* R24: a retry has so long until the next one is granted. */
#define ARBITER_GRANT_NS (2 * ARBITER_S)
/* R25: a reservation that waits raises an event that often. */
#define ARBITER_LEASE_REST_NS (2 * ARBITER_S)
/* R25: nothing is granted on an older sample. */
#define ARBITER_LEASE_AGE_NS (ARBITER_S / 10)
/* R25: the longest that a lease or a reservation may be asked to wait, and to last. */
#define ARBITER_LEASE_WAIT_MAX_NS (600 * ARBITER_S)
#define ARBITER_LEASE_TERM_MAX_NS (24 * 3600 * ARBITER_S)
/* R25: the device settles for so long at most, then it rests as long. */
#define ARBITER_SETTLE_NS (30 * ARBITER_S)
/* R25: two samples so far apart differ by less. */
#define ARBITER_CALM_NS    (ARBITER_S / 4)
#define ARBITER_CALM_BYTES (UINT64_C(64) << 20)
/* R25: a release that was answered and not reported is waited for so long. */
#define ARBITER_TOLD_NS (20 * ARBITER_S)
/* R25: who reported within that time is expected to hold the largest of its last reports. */
#define ARBITER_REPORTED_NS (60 * ARBITER_S)
#define ARBITER_REPORTS     48
/* R24a: who was busy within that time will be again. */
#define ARBITER_ACTIVE_NS (600 * ARBITER_S)

/* How long calls wait; config keys of the daemon. */
struct arbiter_limits {
    uint64_t oom_wait_ns;  /* R24: 5 s */
    uint64_t busy_wait_ns; /* R24a: 200 ms */
    uint64_t dead_wait_ns; /* R24: 20 s */
    uint64_t sample_timeout_ns;
    uint64_t quiet_reserve; /* R25: bytes, 512 MiB */
};

enum wait_kind {
    WAIT_NONE,
    WAIT_OOM,      /* R24: a load has failed, or does not fit (R24b) */
    WAIT_BUSY,     /* R24a: a bracket begins with a need that is not there */
    WAIT_LEASE,    /* R25: bytes are to be kept for it, or others to keep off */
    WAIT_OPERATOR, /* somebody asks for the caches of others; bytes says how much */
};

/* A call that waits, and the event that it raised (R22). */
struct wait {
    enum wait_kind kind;
    uint64_t call;  /* the caller's, shown in `end` */
    uint64_t event; /* 0: has none yet, all places are taken; or it has ended */
    uint64_t turn;  /* its first event: retries are granted in this order (R24) */
    uint32_t slot;
    uint64_t bytes, begun_ns, deadline_ns;
    enum lease lease;   /* WAIT_LEASE */
    uint64_t term_ns;   /* of it */
    uint64_t quiet_ns;  /* of it, for bytes */
    uint64_t rests_ns;  /* of it: no event before that */
    bool is_unverified; /* of it: there is no sample to grant it by */
    bool is_renewal;    /* of it: it has as much already, and goes on */
    uint64_t target;    /* WAIT_OPERATOR: only this session, 0: any */
    bool only_ready;    /* WAIT_OPERATOR: leave out those that answer at their next boundary */
    bool needs_sample;  /* one that is younger than sample_ns and sample_count */
    uint64_t sample_ns; /* a sample counts that was taken since */
    uint64_t samples;   /* and came after so many */
    uint64_t freed;     /* for it, by the workers' reports */
    bool has_ended;     /* the event; the answer waits for its turn (R24) */
    bool had_to_queue;  /* R24: another retry came first */
    bool is_told_held;  /* the `held` notice was sent */
    enum wait_end end;
};

/* R25: bytes that are kept for one. */
struct hold {
    uint64_t bytes;         /* 0: none */
    uint64_t ends_ns;       /* its term */
    uint64_t quiet_ends_ns; /* until then others keep quiet; 0: they need not */
    uint64_t before_bytes;  /* what the holder's process had when it was granted */
};

/* R25: what a session held at its last boundaries, by its own reports. */
struct reports {
    uint64_t reserved[ARBITER_REPORTS];
    uint32_t count, next;
    uint64_t last_ns;    /* when the newest one came */
    uint64_t changed_ns; /* when one came last that differed from the one before */
};

/* R25: before a quiet time begins, memory comes to rest. */
struct settling {
    struct tenant *by; /* whom it is for, NULL: nobody */
    uint64_t since_ns;
    uint64_t rests_until_ns;   /* it was in vain: not again before that */
    struct opt_u64 first_free; /* of the first of two samples */
    uint64_t first_ns;         /* when that was taken */
    uint64_t calm_ns;          /* when the second was, if they are alike; 0: they are not */
};

/* A release that a session was asked for (R23). */
struct reclaim {
    uint64_t serves; /* bits of the events that wait for it; 0: none is asked */
    uint64_t event;  /* the oldest of them, which is charged */
    uint64_t call;
    bool is_pushed; /* to one who can release now; else its next boundary answers it */
    bool is_told;   /* a boundary has answered RELEASE; its report is due */
    uint64_t asked_ns, deadline_ns; /* deadline 0: that of its events */
    uint64_t claim, reserved;       /* of when it was asked */
};

enum action_kind {
    ACTION_RECLAIM, /* tell the session to release now */
    ACTION_HELD,    /* tell one who waits that it takes up to dead_wait */
    ACTION_END,     /* answer a call that waits */
    ACTION_KINDS
};

struct action_node {
    struct list link;
    struct tenant *tenant;
    enum action_kind kind;
};

/* One who takes part: a session, or somebody who only asks for memory. Embedded in what the caller
 * keeps for it. */
struct tenant {
    struct list link;              /* of arbiter::tenants, by number */
    struct policy_session *policy; /* borrowed; NULL for one that holds no cache of ours */
    uint64_t number;
    struct opt_u64 releasable; /* of its last report */
    uint64_t pid;              /* of its process, 0: not known */
    struct hold hold;          /* R25 */
    enum lease lease;          /* R25: shared or exclusive, none where its term is over */
    uint64_t lease_ends_ns;
    struct reports reports;
    uint64_t told_ns;            /* when it was answered RELEASE and has not reported; 0: it has */
    uint64_t charge;             /* R24: freed for it, until its next report */
    bool is_idle, is_background; /* R21: in an idle wait; R23: its background thread listens */
    bool was_busy;
    uint64_t last_busy_ns;
    uint64_t late_until_ns;      /* R23: missed a deadline */
    uint64_t slowest_ns;         /* of the releases it has shown */
    struct opt_u64 unreleasable; /* R23: reserved of when a release gave nothing */
    uint64_t asked;              /* bits of the events that it was asked for */
    struct reclaim reclaim;
    struct wait wait;
    struct action_node actions[ACTION_KINDS];
};

struct ghost {
    uint64_t bytes, free_bytes, died_ns; /* bytes 0: none */
};

struct arbiter {
    const struct policy_settings *settings;
    struct arbiter_limits limits;
    uint64_t now_ns;   /* steps through what is due before an event ... */
    uint64_t event_ns; /* ... up to this */
    struct list tenants, actions;
    struct tenant *events[ARBITER_EVENTS]; /* whose wait has that slot */
    uint64_t last_event, last_call;
    uint32_t waiting;     /* calls */
    struct sample newest; /* free.has: there is one */
    uint64_t newest_ns;   /* when it was taken */
    uint64_t samples;     /* that came */
    bool wants_sample;
    uint64_t resumes_ns; /* R29: until then no reservation and no exclusive lease is granted */
    struct settling settling;
    struct tenant *granted; /* R24 */
    uint64_t granted_ns;
    struct ghost ghosts[ARBITER_GHOSTS];
};

/* What to do. */
struct action {
    enum action_kind kind;
    struct tenant *tenant;
    uint64_t event, call;
    uint64_t bytes;      /* RECLAIM: what is missing, to be released at least */
    uint64_t timeout_ns; /* RECLAIM, HELD: from now on */
    enum wait_end end;
    uint64_t freed;      /* END: for this call, by reports */
    struct opt_u64 free; /* END: what a sample shows */
};

void arbiter_init(struct arbiter *a, const struct policy_settings *settings,
                  const struct arbiter_limits *limits);

/* policy may be NULL; it is borrowed until arbiter_remove. */
void arbiter_add(struct arbiter *a, struct tenant *t, struct policy_session *policy,
                 uint64_t number);
/* R25a: it is gone; its calls end without an answer, and its bytes are free when a sample shows
 * that. */
void arbiter_remove(struct arbiter *a, struct tenant *t, uint64_t now_ns);

/* A boundary, before policy_decide: what the worker reports counts from here on, in
 * policy_session::state too. Not for a forced
 * one, which is arbiter_reported. */
void arbiter_boundary(struct arbiter *a, struct tenant *t, const struct boundary *b,
                      uint64_t now_ns, struct others *ret);
/* That boundary, or the end of a bracket, was answered RELEASE: its report is due (R25). */
void arbiter_told(struct arbiter *a, struct tenant *t, uint64_t now_ns);
/* The session's last report (policy_session::state) has changed; is_release: since it released,
 * in `us` microseconds. */
void arbiter_reported(struct arbiter *a, struct tenant *t, bool is_release, uint64_t us,
                      uint64_t now_ns);

/* A number for a call that may wait, unique in this arbiter; replay brings its own. */
uint64_t arbiter_new_call(struct arbiter *a);

/* R21, R24a; policy_busy has accepted it. need: none was announced where it has no value. begin:
 * true when the call waits, for at most wait_ns, and ends by an ACTION_END. */
bool arbiter_busy_begin(struct arbiter *a, struct tenant *t, struct opt_u64 need, uint64_t wait_ns,
                        uint64_t call, uint64_t now_ns) _must_check_;
void arbiter_busy_end(struct arbiter *a, struct tenant *t, struct opt_u64 need, uint64_t now_ns,
                      struct others *ret);

/* R21: an idle wait begins or ends: ERR_BAD_STATE for a second begin or an end without one. */
int arbiter_idle(struct arbiter *a, struct tenant *t, enum phase phase, bool is_background,
                 uint64_t now_ns) _must_check_;

/* R24. The call ends by an ACTION_END, which may be there at once. ERR_BAD_STATE: it waits
 * already. */
int arbiter_oom(struct arbiter *a, struct tenant *t, uint64_t need, uint64_t call,
                uint64_t now_ns) _must_check_;

/* What a lease or a reservation is asked for (R25). */
struct lease_wish {
    enum lease kind;
    uint64_t bytes;    /* LEASE_BYTES: to be kept for it; else 0 */
    uint64_t quiet_ns; /* LEASE_BYTES: from the grant on, at most term_ns; else 0 */
    uint64_t wait_ns;
    uint64_t term_ns; /* from the grant on */
};

/* R25. What t has of that kind already is renewed, at once where it is no less than this; else this
 * replaces it when it is granted. Ends by an ACTION_END:
 * granted where that says covered, unverified or shadow. ERR_BAD_STATE: it waits already;
 * ERR_INVALID: no bytes, or times beyond the limits above. */
int arbiter_lease(struct arbiter *a, struct tenant *t, const struct lease_wish *wish, uint64_t call,
                  uint64_t now_ns) _must_check_;
/* BYTES: its reservation; else its lease of either kind. ERR_BAD_STATE: it has none. */
int arbiter_unlease(struct arbiter *a, struct tenant *t, enum lease kind,
                    uint64_t now_ns) _must_check_;

/* An operator asks that so many bytes be made free, or, with UINT64_MAX, for all there is. target:
 * a session's number, 0 for all. ERR_BAD_STATE, ERR_UNKNOWN_SESSION. */
int arbiter_operator(struct arbiter *a, struct tenant *t, uint64_t bytes, uint64_t target,
                     bool only_ready, uint64_t call, uint64_t now_ns) _must_check_;

/* A session that was told by ACTION_RECLAIM has answered that call. did: it released; its report
 * is in policy_session::state already. ERR_BAD_STATE: that call is over, which is no fault. */
int arbiter_reclaimed(struct arbiter *a, struct tenant *t, uint64_t call, bool did, uint64_t us,
                      uint64_t now_ns) _must_check_;

/* A reading came, taken at now minus its age; or, with NULL, one that was asked for did not. */
void arbiter_sample(struct arbiter *a, const struct sample *sample, uint64_t now_ns);

void arbiter_tick(struct arbiter *a, uint64_t now_ns);
/* When arbiter_tick has something to do; UINT64_MAX: nothing is due. */
uint64_t arbiter_due(const struct arbiter *a);
/* Is a sample wanted that is taken from now on? */
bool arbiter_wants_sample(const struct arbiter *a);

/* The oldest action; false where there is none. Pointers are valid until the next event. */
bool arbiter_next(struct arbiter *a, struct action *ret) _must_check_;

/* ---- for showing ---- */

/* R20: bytes that it could give back, and whether it can do so now. */
uint64_t tenant_claim(const struct tenant *t);
enum readiness tenant_readiness(const struct arbiter *a, const struct tenant *t);
/* R25: bytes that are kept for it and that it has not taken yet. */
uint64_t arbiter_held(const struct arbiter *a, const struct tenant *t);
/* R25: the lease that it has now. */
enum lease arbiter_leased(const struct arbiter *a, const struct tenant *t);
/* R25: the largest that it held at its last boundaries. */
uint64_t reports_most(const struct reports *r);
/* R25: does it have others keep quiet now? */
bool arbiter_is_quiet(const struct arbiter *a, const struct tenant *t);
/* R24a: what it will map beyond what it holds. */
uint64_t tenant_unmet_need(const struct tenant *t);
