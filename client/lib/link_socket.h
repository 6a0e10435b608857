/* SPDX-License-Identifier: Apache-2.0 */
/* Between link_socket.c, what a session tells its daemon, and link_room.c, what it has to do with
 * room on the device. */
#pragma once

#include "client/lib/link.h"
#include "client/lib/link_sync.h"
#include "proto/base/attr.h"

struct link_socket {
    struct link link;
    struct local *local;
    struct sync sync;
    bool is_idle;             /* R21: the host is in an idle wait */
    uint64_t idle_connection; /* the one that knows it (reconnect.successes); 0: none */
};

static inline struct link_socket *socket_of(struct link *l)
{
    return container_of(l, struct link_socket, link);
}

/* The error in the reply with its text for dlo_last_error; 0 for any other reply. */
int socket_reply_error(struct link_socket *k);

/* ---- link_room.c; see link.h ---- */
int socket_oom(struct link *l, uint64_t need_bytes, uint64_t deadline_ns, uint64_t *ret_wait_ns);
int socket_reserve(struct link *l, uint64_t bytes, uint64_t wait_ns, uint64_t term_ns,
                   uint64_t deadline_ns);
int socket_unreserve(struct link *l, uint64_t deadline_ns);
void socket_abandon(struct link *l);
void socket_idle(struct link *l, enum phase phase, uint64_t deadline_ns);
void socket_look(struct link *l, struct link_look *ret);
void socket_reclaimed(struct link *l, uint64_t call, enum refusal refusal, uint64_t reserved,
                      uint64_t allocated, uint64_t us);
