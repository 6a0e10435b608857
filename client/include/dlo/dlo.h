/* SPDX-License-Identifier: Apache-2.0 */
/* libdlo-client: a worker's side of dlod, the daemon that decides when an allocator cache of device
 * memory is released. A worker opens one handle for each allocator cache, attaches its stagers, and
 * asks at each component boundary whether to release. docs/policy.md holds the rules (R1, R2, ...).
 *
 * The library never harms its host. Every call is bounded by the deadline of the handle (250 ms by
 * default), locks included. With no daemon, a hung one or a broken connection the same policy runs
 * inside the worker. It starts no thread, raises no signal, never exits, keeps errno, and is silent
 * unless a log function is set.
 *
 * Threads: a handle is locked inside, so several threads may share it. dlo_close must be the last
 * call on its handle.
 * Fork: in the child of a fork a handle is inert. Calls return DLO_ERR_FORKED, the connection stays
 * the parent's, and only dlo_close is of use there. A child that wants to ask opens its own handle.
 * Ownership: every pointer that is passed in is borrowed until the call returns, and what is needed
 * longer is copied. The exceptions are the two callbacks and their arguments: they must stay valid
 * until dlo_close.
 * Growth: structs begin with `size`, which the caller sets to its own sizeof (the *_INIT macros
 * do). An older caller with a smaller struct keeps working: what it does not know has its default.
 * Members are only ever added at the end.
 * Numbers: bytes are uint64_t. A number that was not read is DLO_MISSING. */
#ifndef DLO_DLO_H
#define DLO_DLO_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DLO_API __attribute__((visibility("default")))
#else
#define DLO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A number that was not read or is not known. */
#define DLO_MISSING UINT64_MAX

/* The deadline of a handle whose options name none, in milliseconds: long enough for a daemon that
 * has to take a sample (100 ms), short enough not to be noticed between two components. */
#define DLO_DEADLINE_MS_DEFAULT 250

/* What functions return: 0, or one of these. dlo_strerror explains them. */
enum {
    DLO_ERR_INVALID = -1,
    DLO_ERR_MALFORMED = -2,
    DLO_ERR_TOO_LONG = -3,
    DLO_ERR_UNSUPPORTED = -4,
    DLO_ERR_VERSION = -5,
    DLO_ERR_BAD_STATE = -6,
    DLO_ERR_PERMISSION = -7,
    DLO_ERR_UNKNOWN_STAGER = -8,
    DLO_ERR_OVERFLOW = -9,
    DLO_ERR_LIMIT = -10,
    DLO_ERR_BUSY = -11,
    DLO_ERR_POLICY_NOT_ALLOWED = -12,
    DLO_ERR_UNKNOWN_SESSION = -13,
    DLO_ERR_NO_MEMORY = -14,
    DLO_ERR_IO = -15,
    DLO_ERR_NO_DAEMON = -16,
    DLO_ERR_TIMEOUT = -17,
    DLO_ERR_FORKED = -18,
    DLO_ERR_NOT_TRUSTED = -19,
    DLO_ERR_STALE = -20,
    DLO_ERR_HELLO_TIMEOUT = -21,
    DLO_ERR_SHUTDOWN = -22
};

/* What the worker is to do with its allocator cache. */
enum {
    DLO_DECISION_RETAIN = 1,
    DLO_DECISION_RELEASE = 2,
    DLO_DECISION_KEEP = 3 /* what it would do without dlod: modes shadow and off (R30) */
};

/* Why (R7). */
enum {
    DLO_REASON_FORCED = 1,
    DLO_REASON_TELEMETRY_UNAVAILABLE = 2,
    DLO_REASON_QUIET = 3,
    DLO_REASON_RECLAIM = 4,
    DLO_REASON_POLICY_ALWAYS = 5,
    DLO_REASON_POLICY_NEVER = 6,
    DLO_REASON_CACHED_OVER_BUDGET = 7,
    DLO_REASON_LOW_FREE_MEMORY = 8,
    DLO_REASON_NEIGHBOUR_NEED = 9,
    DLO_REASON_WITHIN_BUDGET = 10
};

/* Why a worker forces a release (R4). 0: it does not, it asks. */
enum {
    DLO_FORCE_FAILURE = 1,   /* a component or a load failed */
    DLO_FORCE_OOM_RETRY = 2, /* before the single retry of a load that ran out of memory */
    DLO_FORCE_STAGE_END = 3, /* a stage ends and must leave nothing mapped */
    DLO_FORCE_OPERATOR = 4   /* a person asked for it */
};

/* Which policy decides (R11a). 0: the daemon's. */
enum {
    DLO_POLICY_LEARNED = 1,
    DLO_POLICY_FIXED = 2,
    DLO_POLICY_ALWAYS = 3,
    DLO_POLICY_NEVER = 4, /* only where the daemon allows it; decided as LEARNED until it has */
    DLO_POLICY_DEMAND = 5 /* planned: DLO_ERR_UNSUPPORTED */
};

/* R30. 0: on. */
enum { DLO_MODE_OFF = 1, DLO_MODE_SHADOW = 2, DLO_MODE_ON = 3 };

/* What DLO_FORCE_STAGE_END means for this worker (R4). 0: force. */
enum { DLO_STAGE_END_FORCE = 1, DLO_STAGE_END_ADVISE = 2 };

/* Why the library answered by itself (R28). 0: the daemon answered, or the answer needs none. */
enum {
    DLO_CAUSE_NO_DAEMON = 1, /* nobody listens, or nobody has answered yet */
    DLO_CAUSE_DEADLINE = 2,  /* the daemon did not answer in time */
    DLO_CAUSE_BACK_OFF = 3,  /* after a miss or a break, until the session is resumed */
    DLO_CAUSE_BROKEN = 4,    /* the connection broke during this call */
    DLO_CAUSE_REFUSED = 5,   /* the daemon refused, or its socket cannot be trusted */
    DLO_CAUSE_LOCKED = 6     /* other threads held the handle until the deadline */
};

/* Bits of dlo_options.features. */
enum {
    DLO_FEATURE_BRACKETS = 1, /* the worker marks its requests with dlo_busy_begin and _end (R21) */
    DLO_FEATURE_RECLAIM = 2,  /* of a daemon: it can ask for room and be asked (R20 to R24) */
    DLO_FEATURE_BACKGROUND = 4, /* planned */
    DLO_FEATURE_PARTIAL = 8     /* its release function can give back a part of the cache (R31) */
};

/* Levels of the log function, as in syslog. This version logs at DEBUG only. */
enum {
    DLO_LOG_ERR = 3,
    DLO_LOG_WARNING = 4,
    DLO_LOG_NOTICE = 5,
    DLO_LOG_INFO = 6,
    DLO_LOG_DEBUG = 7
};

/* Bits of dlo_answer.fields: which of its numbers were read. */
enum {
    DLO_FIELD_CACHED = 1,
    DLO_FIELD_FREE = 2,
    DLO_FIELD_TOTAL = 4,
    DLO_FIELD_AGE = 8,
    DLO_FIELD_FLOOR = 16,
    DLO_FIELD_CAP = 32,
    DLO_FIELD_BUDGET = 64,
    DLO_FIELD_CAPPED = 128
};

/* One handle: one session with the daemon, one allocator cache. */
struct dlo_client;

/* Reads the device's free and total memory as this worker sees them (cuMemGetInfo_v2 or
 * torch.cuda.mem_get_info): 0 with both written, anything else where they cannot be read. Called
 * inside dlo_ask, on the thread that asks, before the handle is locked and before its deadline
 * starts to run; threads that share a handle may be in it at the same time. It must not call the
 * library with the same handle. */
typedef int32_t (*dlo_read_memory_fn)(void *arg, uint64_t *ret_free, uint64_t *ret_total);

/* Empties the worker's allocator cache, or, where the worker can give back a part
 * (DLO_FEATURE_PARTIAL), at least so many bytes of it: 0 with what the allocator holds afterwards
 * written, anything else where it could not. Called inside dlo_idle_wait and dlo_oom, on the thread
 * that called them, with the handle not locked. */
typedef int32_t (*dlo_release_fn)(void *arg, uint64_t bytes, uint64_t *ret_reserved,
                                  uint64_t *ret_allocated);

/* Takes one line of the log: printable ASCII without a line end, valid during the call. Called with
 * the handle locked: it must not call the library with the same handle. */
typedef void (*dlo_log_fn)(void *arg, int32_t level, const char *text);

/* Start from DLO_OPTIONS_INIT: zeroes are not the default of min_free. Text may be NULL. */
struct dlo_options {
    size_t size;
    const char *name;     /* of this worker, [A-Za-z0-9._:-]{1,63}; NULL: that of the program */
    const char *socket;   /* of the daemon; NULL: looked for, see dlo_open */
    const char *gpu_uuid; /* "GPU-..." or "MIG-..."; NULL: the only daemon there is */
    int32_t mode;         /* DLO_MODE_*; the environment variable DLO_MODE wins over it */
    uint32_t deadline_ms; /* of each call, 1 to 60000; 0: DLO_DEADLINE_MS_DEFAULT */
    int32_t policy;       /* DLO_POLICY_*; 0: the daemon's */
    int32_t stage_end;    /* DLO_STAGE_END_* */
    double min_free;      /* fraction of total kept free, 0 to 1; negative: the daemon's */
    uint64_t features;    /* DLO_FEATURE_* */
    const char *group;    /* of workers that act together, a name like `name`; NULL: none */
    uint32_t rank, world; /* within the group */
    dlo_read_memory_fn read_memory; /* NULL: only boundaries that carry a pair have one */
    void *read_memory_arg;
    dlo_log_fn log; /* NULL: silent */
    void *log_arg;
    dlo_release_fn release; /* NULL: the worker cannot be asked between its boundaries (R23) */
    void *release_arg;
};

#define DLO_OPTIONS_INIT                                                                           \
    {                                                                                              \
        sizeof(struct dlo_options), NULL, NULL, NULL, 0, 0, 0, 0, -1.0, 0, NULL, 0, 0, NULL, NULL, \
            NULL, NULL, NULL, NULL                                                                 \
    }

/* What a worker knows at a component boundary. Start from DLO_BOUNDARY_INIT: all missing.
 * `free` and `total` are the worker's own reading (R11b); a pair with a missing member is none. */
struct dlo_boundary {
    size_t size;
    int32_t force;         /* DLO_FORCE_*, 0 for an unforced boundary */
    int32_t unused;        /* 0 */
    const char *component; /* that was offloaded, for log and status; NULL or other characters than
                              those of a name are fine */
    uint64_t reserved;     /* what the allocator holds from the driver, bytes */
    uint64_t allocated;    /* what of it is in use */
    uint64_t releasable;   /* what a release would really give back, where the worker can tell */
    uint64_t free;         /* of the device */
    uint64_t total;        /* of the device */
};

#define DLO_BOUNDARY_INIT                                                                          \
    {                                                                                              \
        sizeof(struct dlo_boundary), 0, 0, NULL, DLO_MISSING, DLO_MISSING, DLO_MISSING,            \
            DLO_MISSING, DLO_MISSING                                                               \
    }

/* An answer and all its inputs (R8). A number whose bit is not set in `fields` is DLO_MISSING. (The
 * bits tell a missing budget from that of policy `never`, which is 2^64-1.) */
struct dlo_answer {
    size_t size;
    int32_t decision; /* DLO_DECISION_*: what to do */
    int32_t would;    /* what mode `on` would have said; else the same */
    int32_t reason;   /* DLO_REASON_*; 0 in mode off */
    int32_t cause;    /* DLO_CAUSE_* where the library answered by itself, else 0 */
    uint64_t fields;  /* DLO_FIELD_* */
    uint64_t cached;  /* the value compared: reserved - allocated, or releasable */
    uint64_t free;    /* the reading that decided */
    uint64_t total;   /* of the same reading */
    uint64_t age_ns;  /* of that reading; 0 for the worker's own */
    uint64_t floor;   /* total x min_free */
    uint64_t cap;     /* total x cap_fraction, or what an operator set */
    uint64_t budget;  /* min(learned, cap) of before this boundary */
    uint64_t capped;  /* 1: within what was learned, but over the cap */
    uint64_t peak;    /* of after this boundary */
    uint64_t learned; /* peak x margin, of after */
    uint64_t staged_bytes;
    uint32_t stager_count;
    int32_t warmup;   /* 1: inside a warm-up window */
    uint64_t session; /* its number at the daemon, 0 where it never had one */
    uint64_t n;       /* decisions of this session, from 1 */
};

#define DLO_ANSWER_INIT                                                                            \
    {                                                                                              \
        sizeof(struct dlo_answer), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0      \
    }

/* What a worker may report when its request begins or ends (R21, R24a). */
struct dlo_report {
    size_t size;
    uint64_t need;      /* what the work will map beyond `reserved` */
    uint64_t reserved;  /* what the allocator holds now */
    uint64_t allocated; /* what of it is in use */
};

#define DLO_REPORT_INIT                                                                            \
    {                                                                                              \
        sizeof(struct dlo_report), DLO_MISSING, DLO_MISSING, DLO_MISSING                           \
    }

/* Sizes of dlo_info; the counts have room for words that later versions add. */
#define DLO_INFO_PATH   112
#define DLO_INFO_TEXT   80
#define DLO_INFO_COUNTS 16

/* The state of a handle. Text is NUL-terminated and empty where it is not known. */
struct dlo_info {
    size_t size;
    int32_t mode;                     /* DLO_MODE_* in force: the lower of worker and daemon */
    int32_t connected;                /* 1: the daemon answers for this session now */
    int32_t last_link_error;          /* DLO_ERR_* of the last broken or failed connection, or 0 */
    uint32_t protocol_version;        /* agreed with the daemon last, 0: none yet */
    uint64_t session;                 /* number at the daemon, 0: never had one */
    uint64_t decisions;               /* of this session, with those before a reconnect */
    uint64_t peak;                    /* R3 */
    uint64_t learned;                 /* peak x margin */
    uint64_t staged_bytes;            /* of all attached stagers */
    uint32_t stager_count;            /* attached stagers */
    int32_t in_warmup;                /* 1: between dlo_warmup_begin and _end */
    int32_t is_busy;                  /* 1: between dlo_busy_begin and _end */
    int32_t policy;                   /* DLO_POLICY_* in force */
    uint64_t retained;                /* unforced boundaries that retained */
    uint64_t cold_start_releases;     /* unforced releases inside a warm-up window (R12) */
    uint64_t serving_releases;        /* unforced releases outside */
    uint64_t uncovered;               /* R13 */
    uint64_t forced[DLO_INFO_COUNTS]; /* forced releases; index: DLO_FORCE_* */
    uint64_t local[DLO_INFO_COUNTS];  /* answers by the library itself; index: DLO_CAUSE_* */
    uint64_t reconnects;              /* sessions resumed */
    char socket[DLO_INFO_PATH];       /* last tried */
    char uuid[DLO_INFO_TEXT];         /* of the daemon's device */
    char daemon_version[DLO_INFO_TEXT];
    char last_link_text[256]; /* last_link_error in words, with the daemon's own */
};

#define DLO_INFO_INIT                                                                              \
    {                                                                                              \
        sizeof(struct dlo_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}, {0}, 0,   \
            {0}, {0}, {0},                                                                         \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Opens a handle. Without a daemon that is a success too: the policy then runs in this process, and
 * a daemon that appears later is used from the next call on. options may be NULL for all defaults.
 * The daemon is looked for at options->socket, else $DLO_SOCKET, else by UUID in /run/dlo, by UUID
 * in $XDG_RUNTIME_DIR/dlo, and with no UUID given the only socket there. A socket is trusted when
 * its folder belongs to root or to this user and nobody else may write to it.
 * $DLO_MODE (off, shadow, on) wins over options->mode. In mode off the handle is inert: no socket
 * is opened, every call succeeds and dlo_ask answers KEEP. Ownership: *ret is the caller's, to be
 * freed with dlo_close; nothing is written after an error. Errors: DLO_ERR_INVALID (a value out of
 * range, an unknown word in $DLO_MODE), DLO_ERR_TOO_LONG (a socket path), DLO_ERR_UNSUPPORTED
 * (policy demand), DLO_ERR_NO_MEMORY. dlo_last_error(NULL) has the text of this thread's last
 * failed dlo_open. Blocks: for connect and greeting, at most the deadline. Threads: any. Fork: see
 * above. */
DLO_API int32_t dlo_open(const struct dlo_options *options, struct dlo_client **ret);

/* Closes a handle and frees it; NULL is fine. The daemon forgets the session with its stagers.
 * In the child of a fork it frees the child's copy alone and leaves the session untouched (where
 * another thread was inside a call at the moment of the fork, the copy is not freed but left).
 * Blocks: never. Threads: no other call on this handle may run or follow. */
DLO_API void dlo_close(struct dlo_client *c);

/* R1. Attaches a stager: `bytes` are the total of its unique host storages. An id that is attached
 * already changes nothing. id: [A-Za-z0-9._:-]{1,63}, copied.
 * Errors: DLO_ERR_INVALID, DLO_ERR_LIMIT (4096 stagers, or the daemon's quota), DLO_ERR_OVERFLOW,
 * DLO_ERR_NO_MEMORY, DLO_ERR_TIMEOUT (other threads held the handle), DLO_ERR_FORKED; nothing has
 * changed after an error. With no daemon, or one that does not answer in time, it is a success: the
 * stager is registered when the session is resumed. Blocks: at most the deadline. Threads: any. */
DLO_API int32_t dlo_attach(struct dlo_client *c, const char *id, uint64_t bytes);

/* R2, R3. Detaches a stager; when no bytes are left the learned peak is reset to 0.
 * Errors: DLO_ERR_UNKNOWN_STAGER, and those of dlo_attach. Blocks: at most the deadline. */
DLO_API int32_t dlo_detach(struct dlo_client *c, const char *id);

/* R11c. Sets the learned peak of this session; the daemon clamps it to the device's total.
 * Errors: DLO_ERR_TIMEOUT, DLO_ERR_FORKED, or the daemon's. Blocks: at most the deadline. */
DLO_API int32_t dlo_set_peak(struct dlo_client *c, uint64_t peak_bytes);

/* R12. Marks a warm-up window; releases inside it are counted apart.
 * Errors: DLO_ERR_BAD_STATE (windows do not nest; an end needs a begin), DLO_ERR_TIMEOUT,
 * DLO_ERR_FORKED. Blocks: at most the deadline. Threads: any; the window is the handle's. */
DLO_API int32_t dlo_warmup_begin(struct dlo_client *c);
DLO_API int32_t dlo_warmup_end(struct dlo_client *c);

/* R21. Brackets one request, for handles with DLO_FEATURE_BRACKETS. report may be NULL.
 * The end of a request is a boundary too: where ret is not NULL it is filled like that of dlo_ask.
 * decision 0 means that there is nothing to do; DLO_DECISION_RELEASE, with reason reclaim or
 * neighbour_need, that another worker needs what this one keeps: release, then dlo_released. Pass
 * ret where you can do that.
 * The begin makes room before the work starts (R24a): where what this worker's requests need, which
 * the library learns from its reports, is not free, others are asked, for at most 200 ms and 4/5 of
 * the deadline. report->need and the rest may be left out: then what was learned and the last
 * report count.
 * Errors: DLO_ERR_BAD_STATE (no brackets declared, a second begin, an end without one),
 * DLO_ERR_INVALID, DLO_ERR_TIMEOUT, DLO_ERR_FORKED. Blocks: at most the deadline. */
DLO_API int32_t dlo_busy_begin(struct dlo_client *c, const struct dlo_report *report);
DLO_API int32_t dlo_busy_end(struct dlo_client *c, const struct dlo_report *report,
                             struct dlo_answer *ret);

/* R4 to R8. Asks what to do at a component boundary, on the worker's own thread after its own
 * synchronize. Set ret->size first (DLO_ANSWER_INIT). There is always an answer:
 * - the daemon's; or within the deadline the local one, by the same policy and the same inputs,
 * with ret->cause saying why; if the handle stays locked by other threads, RELEASE with reason
 *   telemetry_unavailable and cause DLO_CAUSE_LOCKED, which learns nothing (R6);
 * - with b->force set RELEASE at once, without waiting for the daemon, which is told (R4); except
 *   DLO_FORCE_STAGE_END of a handle with DLO_STAGE_END_ADVISE, which is decided like an unforced
 * one. Figures: reserved and allocated are the worker's. free and total are the pair in b, else
 * that of options.read_memory, else a fresh sample of the daemon; else R6. Errors: DLO_ERR_INVALID
 * (nothing written), DLO_ERR_FORKED (ret is RELEASE, telemetry_unavailable). Blocks: at most the
 * deadline, plus what options.read_memory takes. Threads: any. */
DLO_API int32_t dlo_ask(struct dlo_client *c, const struct dlo_boundary *b, struct dlo_answer *ret);

/* R4. Tells, after the worker has released by itself, that it did and why. component may be NULL.
 * Errors: DLO_ERR_INVALID, DLO_ERR_BAD_STATE (DLO_FORCE_STAGE_END of a handle with
 * DLO_STAGE_END_ADVISE: ask instead), DLO_ERR_TIMEOUT, DLO_ERR_FORKED.
 * Blocks: never for the daemon; for other threads at most the deadline. */
DLO_API int32_t dlo_forced(struct dlo_client *c, int32_t force, const char *component);

/* R26. Reports what the allocator holds after a release, and how many microseconds that took.
 * Errors: DLO_ERR_INVALID (DLO_MISSING: then there is nothing to report), DLO_ERR_TIMEOUT,
 * DLO_ERR_FORKED. Blocks: as dlo_forced. */
DLO_API int32_t dlo_released(struct dlo_client *c, uint64_t reserved, uint64_t allocated,
                             uint64_t us);

/* Sets the release function of a handle, or takes it away (NULL), as dlo_options.release does: for
 * allocator caches that are made after the handle. dlo_cuda.h's caches do so by themselves. Errors:
 * DLO_ERR_INVALID, DLO_ERR_TIMEOUT, DLO_ERR_FORKED. Blocks: as dlo_forced. Threads: not while a
 * call of dlo_idle_wait or dlo_oom runs that may be using the former one. */
DLO_API int32_t dlo_set_release(struct dlo_client *c, dlo_release_fn release, void *arg);

/* How a call that waited for memory ended (R24). */
enum {
    DLO_END_COVERED = 1,    /* a fresh sample shows that it fits now */
    DLO_END_NOBODY = 2,     /* nobody is left who could make room */
    DLO_END_DEADLINE = 3,   /* others did not make it in time */
    DLO_END_UNVERIFIED = 4, /* the daemon has no sample of the device */
    DLO_END_SHADOW = 5,     /* R30: nobody is asked */
    DLO_END_LOCAL = 6       /* no daemon to ask, or it went away */
};

struct dlo_room {
    size_t size;
    int32_t end;    /* DLO_END_* */
    int32_t unused; /* 0 */
    uint64_t freed; /* bytes, for this call, by the other workers' reports */
    uint64_t free;  /* of the device, by the sample that decided; DLO_MISSING: none */
};

#define DLO_ROOM_INIT                                                                              \
    {                                                                                              \
        sizeof(struct dlo_room), 0, 0, 0, DLO_MISSING                                              \
    }

/* R24, R24b. Asks the other workers of the device to make room for `need_bytes`, at a boundary of
 * this worker: after a load has failed for lack of memory, was undone and the cache was released,
 * or before a load that does not fit. Then the load is tried (again), once, whatever the answer
 * says. ret may be NULL; set ret->size first (DLO_ROOM_INIT). Meanwhile options.release may be
 * called, for somebody else's need. Errors: DLO_ERR_INVALID, DLO_ERR_TIMEOUT, DLO_ERR_FORKED. That
 * nobody can help is no error. Blocks: not at all without a daemon, or where the room is there or
 * nobody could make it; else until there is room, at most what the daemon's oom_wait says (5 s) and
 * 250 ms, or, while a dead worker's memory is still held or a slow release is waited for, its
 * dead_wait (20 s). Threads: any; the handle is not locked while it waits, and a second call at the
 * same time is answered at once. */
DLO_API int32_t dlo_oom(struct dlo_client *c, uint64_t need_bytes, struct dlo_room *ret);

#define DLO_RESERVE_WAIT_MS_MAX     600000
#define DLO_RESERVE_TERM_MS_DEFAULT 120000
#define DLO_RESERVE_TERM_MS_MAX     86400000

/* R25. Has so many bytes of the device kept for this process: others make room for them, and
 * neither an out-of-memory load nor another reservation counts on them. What the sessions of this
 * process map from then on is taken off. It lasts for term_ms (0: the default), until
 * dlo_unreserve, or as long as the handle; asking again replaces it. In this version it does not
 * outlive a daemon that restarts. ret may be NULL; set ret->size first. It is granted where
 * ret->end is DLO_END_COVERED; UNVERIFIED, SHADOW and LOCAL mean that nobody keeps anything, or can
 * say that there is room, and the host goes on as without us; DLO_END_DEADLINE: there was no room
 * in wait_ms. Meanwhile options.release may be called. Errors: DLO_ERR_INVALID, DLO_ERR_TIMEOUT,
 * DLO_ERR_FORKED. Blocks: at most wait_ms and 250 ms; not at all without a daemon. Threads: as
 * dlo_oom. */
DLO_API int32_t dlo_reserve(struct dlo_client *c, uint64_t bytes, uint32_t wait_ms,
                            uint32_t term_ms, struct dlo_room *ret);

/* R25. Gives the reservation up; where there is none, too, it is a success. Errors:
 * DLO_ERR_TIMEOUT, DLO_ERR_FORKED, DLO_ERR_INVALID. Blocks: at most the deadline. */
DLO_API int32_t dlo_unreserve(struct dlo_client *c);

/* R21. Waits until the descriptor is readable (or at its end), or for timeout_ms (-1: for ever),
 * as poll(2) does; meanwhile, and only then, the worker may be asked to release its cache, which is
 * done by options.release on this thread. Call it where the worker waits for its next work, with
 * nothing of its own running on the device. fd -1: only the time. *ret_ready (may be NULL) is 1
 * where fd is readable. Without a release function, a daemon, or in mode off it is poll alone.
 * Errors: DLO_ERR_INVALID (no handle), DLO_ERR_IO (poll failed; errno says why). A signal ends the
 * wait early, with *ret_ready 0. Blocks: as said, plus what options.release takes, plus the
 * deadline for telling the daemon. Threads: one at a time per handle. Fork: in a child it is poll
 * alone. */
DLO_API int32_t dlo_idle_wait(struct dlo_client *c, int32_t fd, int64_t timeout_ms,
                              int32_t *ret_ready);

/* The state of the handle, from this process alone: the daemon is not asked, but a reconnect takes
 * its step as in every call. Set ret->size first (DLO_INFO_INIT).
 * Errors: DLO_ERR_INVALID, DLO_ERR_TIMEOUT, DLO_ERR_FORKED (nothing written). Blocks: as
 * dlo_forced. */
DLO_API int32_t dlo_get_info(struct dlo_client *c, struct dlo_info *ret);

/* R5. The cap of this session on a device of so many bytes, by the settings in force: what a
 * driver's own threshold may be set to (dlo_cuda.h does). DLO_MISSING in mode off. Errors:
 * DLO_ERR_INVALID, DLO_ERR_TIMEOUT, DLO_ERR_FORKED. Blocks: as dlo_forced. */
DLO_API int32_t dlo_get_cap(struct dlo_client *c, uint64_t total_bytes, uint64_t *ret_cap);

/* One line on the last error that a call on this handle returned, "" before the first; a call that
 * never got the lock (DLO_ERR_TIMEOUT) or was given an unusable struct leaves the former text.
 * Borrowed: valid until the next call on the handle by any thread. With NULL: on the last failed
 * dlo_open of this thread. Blocks: never. */
DLO_API const char *dlo_last_error(const struct dlo_client *c);

/* Where the daemon's socket is, by the order that dlo_open has; whether anybody listens there is
 * not tried. gpu_uuid may be NULL. Errors: DLO_ERR_NO_DAEMON (there is none), DLO_ERR_INVALID (more
 * than one and no UUID to choose by), DLO_ERR_TOO_LONG (also where ret_size, of at most 108 bytes
 * that a path can take, is too small). Blocks: never, but for the file system. No state, any
 * thread. */
DLO_API int32_t dlo_find_socket(const char *gpu_uuid, char *ret, size_t ret_size);

/* R11b. On a device whose memory is the host's (attribute INTEGRATED of the driver), what is free:
 * the larger of the driver's figure and of what /proc/meminfo could give, at most total. For a
 * read_memory of the host's own; dlo_cuda_read_memory does it by itself. free_bytes where
 * /proc/meminfo cannot be read. No state, any thread. */
DLO_API uint64_t dlo_host_memory_free(uint64_t free_bytes, uint64_t total_bytes);

/* Words for numbers; static text, never NULL: "-" for a number without a word. No state, any
 * thread, any process. dlo_strerror gives a sentence, "success" for 0. */
DLO_API const char *dlo_strerror(int32_t code);
DLO_API const char *dlo_decision_name(int32_t decision);
DLO_API const char *dlo_reason_name(int32_t reason);
DLO_API const char *dlo_cause_name(int32_t cause);
DLO_API const char *dlo_end_name(int32_t end);

/* The version of this library, "0.1.0". */
DLO_API const char *dlo_version(void);

#ifdef __cplusplus
}
#endif

#endif
