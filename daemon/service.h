/* SPDX-License-Identifier: Apache-2.0 */
/* What the sessions of one daemon share: settings, the table of sessions with its quotas, sampler
 * and journal, and the time of this loop turn. daemon.c owns it and wires it; sessions and their
 * handlers borrow it. No uv types. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/config.h"
#include "daemon/journal.h"
#include "daemon/policy/arbiter.h"
#include "daemon/sampler.h"
#include "proto/base/list.h"
#include "proto/wire/wire.h"

/* Who is at the other end, from the kernel. */
struct peer {
    pid_t pid; /* 0: in a pid namespace we cannot see */
    uid_t uid;
    gid_t gid;
    bool is_admin; /* R31: root, the daemon's own user, or of the admin group */
};

/* What one user holds, for quotas. Lives while it holds anything. */
struct holder {
    struct list link;
    uid_t uid;
    uint32_t connections, stagers;
};

/* Bounds how many lines peers can make us write: so many at once, then some a second. */
struct log_bucket {
    uint64_t burst, tokens, refilled_ns, dropped;
};

struct service {
    const struct config *config;     /* borrowed; reloads show through it */
    struct policy_settings settings; /* made of config by service_apply_config */
    struct sampler *sampler;         /* NULL only in tests of sessions alone */
    struct journal *journal;
    uint64_t now_ns; /* monotonic, read by the loop at each event */
    uint64_t started_ns;

    struct arbiter arbiter;         /* R20 to R24a, see room.h */
    struct sample_wait room_sample; /* wanted by it */
    bool is_room_sample_due, is_acting;
    struct tenant operator;      /* of the arbiter: for who has caches released */
    struct session *operated_by; /* NULL: nobody does now */

    struct list sessions; /* session::link, registered workers in order of number */
    struct list watchers; /* session::watch_link, those that wait for events */
    struct list holders;  /* holder::link */
    uint32_t connection_count, session_count, stager_count;
    uint64_t last_number;                 /* of a session */
    uint64_t rejected;                    /* connections and messages refused since the start */
    struct log_bucket mistakes, arrivals; /* lines about errors; about sessions that come and go */

    struct wire_arena arena; /* decoding scratch of this loop turn */
    struct wire_request request;
    struct wire_reply reply;
};

/* settings from config, which config_validate has passed; journals the config line. */
void service_init(struct service *v, const struct config *config, uint64_t now_ns);
void service_apply_config(struct service *v);
void service_done(struct service *v);

/* Quotas of connections. ERR_BUSY when one is reached; each success is undone by
 * service_drop_connection. The holder is borrowed until then. */
int service_add_connection(struct service *v, const struct peer *peer,
                           struct holder **ret_holder) _must_check_;
void service_drop_connection(struct service *v, struct holder *h);

/* A stager of that session's owner: ERR_LIMIT where a quota is reached. */
struct session;
int service_add_stager(struct service *v, const struct session *s) _must_check_;
void service_drop_stager(struct service *v, struct session *s);

/* R29: true for resume_window after the start. */
bool service_is_resuming(const struct service *v);

/* May one more line of that kind (service::mistakes, ::arrivals) be logged now? */
bool service_may_log(const struct service *v, struct log_bucket *kind);

/* The journal's preamble: config, clock, and every session with its stagers (a
 * journal_preamble_fn; arg is the service). */
void service_preamble(void *arg, struct journal *j);

/* A reading of the device for the journal, with its age as of now: what came, or that none came. */
void service_journal_sample(const struct service *v, const struct sample *sample,
                            struct journal *j);

/* The device's total where it is known: by identity, else by the newest sample. */
struct opt_u64 service_device_total(const struct service *v);
