/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as plain structs, and their way to and from bytes. The only code that sees protobuf-c
 * types is in this folder. Decoding copies into the caller's struct and never touches the heap:
 * protobuf-c works in the caller's arena, and a message that does not fit it is malformed.
 * Everything a peer chose is validated here (lengths, characters, enums); what a value may be in
 * the state of a session is the business of daemon/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/answer.h"
#include "proto/base/attr.h"
#include "proto/base/limits.h"

/* Version range of this build. A hello names its own; the highest in common is used. */
#define WIRE_VERSION_MIN 1
#define WIRE_VERSION_MAX 1

/* 4 KiB of hostile bytes can become 56 times as much in protobuf-c (unknown fields); honest
 * messages need below 20 KiB. */
#define WIRE_ARENA_BYTES 65536

/* At most this many rows or lines fit a page; the encoder stops at the size of a message. */
#define WIRE_ROWS_MAX  16
#define WIRE_LINES_MAX 64

struct wire_arena {
    size_t used;
    _Alignas(16) uint8_t memory[WIRE_ARENA_BYTES];
};

enum wire_op {
    WIRE_OP_UNKNOWN = 0, /* from a newer peer: answer ERR_UNSUPPORTED */
    WIRE_HELLO,
    WIRE_ATTACH,
    WIRE_DETACH,
    WIRE_SET_PEAK,
    WIRE_WARMUP,
    WIRE_BUSY,
    WIRE_ASK,
    WIRE_RELEASED,
    WIRE_RESUME,
    WIRE_STATUS,
    WIRE_EVENTS,
    WIRE_IDLE,
    WIRE_OOM,
    WIRE_RECLAIMED,
    WIRE_SET,
    WIRE_VACATE,
    WIRE_LEASE,
    WIRE_UNLEASE,
    WIRE_OP_MAX
};

struct wire_hello {
    uint32_t min_version, max_version;
    uint64_t features; /* enum feature; unknown bits are kept */
    bool observer;
    char name[LIMIT_NAME_SIZE]; /* "" where none was given */
    enum policy policy;         /* NONE: the daemon's */
    bool has_min_free;
    double min_free;
    enum stage_end stage_end;
    enum mode mode; /* NONE: on */
    char group[LIMIT_NAME_SIZE];
    uint32_t rank, world;
    bool has_state;
    struct resume state;
};

struct wire_request {
    uint32_t seq;
    enum wire_op op;
    union {
        struct wire_hello hello;
        struct {
            char id[LIMIT_NAME_SIZE];
            uint64_t staged_bytes;
        } attach;
        struct {
            char id[LIMIT_NAME_SIZE];
        } detach;
        struct {
            uint64_t peak;
        } set_peak;
        struct {
            enum phase phase;
        } warmup;
        struct {
            enum phase phase;
            struct opt_u64 need, reserved, allocated;
            struct opt_u64 wait_ns;
        } busy;
        struct boundary ask;
        struct {
            uint64_t reserved, allocated, us;
        } released;
        struct {
            struct resume state;
        } resume;
        struct {
            uint64_t cursor;
            struct opt_u64 session;
        } status;
        struct {
            uint64_t cursor;
            bool wait;
        } events;
        struct {
            enum phase phase;
            bool background;
        } idle;
        struct {
            uint64_t need;
            struct opt_u64 reserved, allocated;
        } oom;
        struct {
            uint64_t call;
            enum refusal refusal; /* NONE: it released; else the rest may be missing */
            struct opt_u64 reserved, allocated;
            uint64_t us;
        } reclaimed;
        struct {
            uint64_t session;
            struct operator_change change;
        } set;
        struct {
            uint64_t bytes;   /* UINT64_MAX: all there is */
            uint64_t session; /* 0: any */
            bool only_ready;
        } vacate;
        struct {
            enum lease kind;
            uint64_t bytes, wait_ns, term_ns, quiet_ns;
        } lease; /* of unlease: its kind alone */
    } u;
};

enum wire_body {
    WIRE_BODY_UNKNOWN = 0,
    WIRE_ERROR,
    WIRE_WELCOME,
    WIRE_LEDGER,
    WIRE_ANSWER,
    WIRE_DONE,
    WIRE_STATUS_PAGE,
    WIRE_EVENTS_PAGE,
    WIRE_RECLAIM,
    WIRE_WAIT_END,
    WIRE_HELD,
    WIRE_REVISION,
};

struct wire_reclaim {
    uint64_t event, call, bytes, timeout_ns;
};

struct wire_wait_end {
    enum wait_end end;
    uint64_t freed;
    struct opt_u64 free;
};

struct wire_welcome {
    uint32_t version;
    uint64_t features, session;
    enum mode mode;
    char daemon[LIMIT_NAME_SIZE];
    char uuid[LIMIT_UUID_SIZE]; /* "" until it is known */
    double margin, cap_fraction, min_free;
    enum policy policy;
    bool allow_never;
    uint64_t oom_wait_ns;
    struct operator_settings operator; /* R31 */
};

struct wire_daemon {
    char version[LIMIT_NAME_SIZE];
    uint32_t pid;
    uint64_t uptime_ns;
    enum mode mode;
    enum policy policy;
    double margin, cap_fraction, min_free;
    uint32_t sessions, stagers;
    bool resuming;
    uint64_t rejected;
};

struct wire_device {
    char uuid[LIMIT_UUID_SIZE], name[LIMIT_NAME_SIZE], pci[LIMIT_NAME_SIZE];
    struct opt_u64 minor, free, total, age_ns, floor, cap;
    enum source source;
    char probe[LIMIT_TEXT_SIZE];
};

struct wire_row {
    uint64_t session;
    char name[LIMIT_NAME_SIZE];
    uint32_t pid, uid;
    uint64_t features;
    enum policy policy; /* in force */
    double min_free;    /* in force */
    struct resume state;
    struct answer last; /* last.n == 0: none yet */
    char component[LIMIT_NAME_SIZE];
    uint64_t last_age_ns;
    uint64_t staged_bytes;
    uint32_t stager_count;
    struct opt_u64 budget;
    struct proof proof; /* proof.releases == 0: none yet */
    enum habit_kind habit;
    enum cure cure; /* R27 */
    struct room room;
};

struct wire_status {
    bool has_daemon; /* on the first page */
    struct wire_daemon daemon;
    struct wire_device device;
    uint32_t row_count;
    struct wire_row rows[WIRE_ROWS_MAX];
    uint64_t cursor;
    bool more;
};

/* Lines are borrowed: from the journal when encoding, from the arena when decoded. */
struct wire_events {
    uint32_t line_count;
    struct {
        const char *text;
        size_t length;
    } lines[WIRE_LINES_MAX];
    uint64_t cursor, lost, end;
};

struct wire_reply {
    uint32_t seq;
    enum wire_body body;
    union {
        struct {
            int code;
            char text[LIMIT_TEXT_SIZE];
        } error;
        struct wire_welcome welcome;
        struct {
            uint64_t staged_bytes;
            uint32_t stager_count;
            uint64_t peak;
        } ledger;
        struct answer answer;
        struct {
            enum reason reason; /* of a busy end; NONE: nothing to do */
        } done;
        struct wire_reclaim reclaim;
        struct wire_wait_end wait_end;
        struct {
            uint64_t timeout_ns;
        } held;
        struct {
            uint64_t revision;
        } revision;
        struct wire_status status;
        struct wire_events events;
    } u;
};

/* "hello", "attach", ...; "unknown" */
const char *wire_op_word(enum wire_op op);

/* Bytes of a peer to a request. 0; ERR_TOO_LONG, ERR_MALFORMED (also when seq is unknown, which is
 * then 0), or ERR_INVALID for a field that breaks a rule, with *ret_field naming it and ret->seq
 * set so that the error can be answered. *ret is unspecified but for seq after an error. */
int wire_decode_request(struct wire_arena *arena, const uint8_t *bytes, size_t length,
                        struct wire_request *ret, const char **ret_field) _must_check_;
int wire_decode_reply(struct wire_arena *arena, const uint8_t *bytes, size_t length,
                      struct wire_reply *ret) _must_check_;

/* Into out of LIMIT_MESSAGE_BYTES; returns the length. Neither can fail for a struct that this
 * header allows: wire_status and wire_events that do not fit lose their last rows or lines, with
 * row_count, line_count, cursor and more adjusted in *reply. */
size_t wire_encode_request(const struct wire_request *request, uint8_t *out) _must_check_;
size_t wire_encode_reply(struct wire_reply *reply, uint8_t *out) _must_check_;
