/* SPDX-License-Identifier: Apache-2.0 */
/* One SEQPACKET connection to a daemon, shared by the library and dlo-ctl: find the socket, check
 * that it can be trusted, send and receive whole messages with deadlines. Never raises SIGPIPE,
 * never blocks past a deadline, keeps no state but the descriptor. Not thread-safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/base/attr.h"
#include "proto/wire/wire.h"

#define CONN_PATH_SIZE 108 /* of sockaddr_un */

/* Monotonic nanoseconds, the clock of all deadlines here. */
uint64_t conn_now_ns(void);

/* Where a daemon is looked for, in this order: explicit path, DLO_SOCKET, by UUID in /run/dlo, by
 * UUID in $XDG_RUNTIME_DIR/dlo, the only socket there. path and uuid may be NULL. 0 with the path
 * in out; ERR_NO_DAEMON, ERR_TOO_LONG, ERR_INVALID (more than one daemon and none named). */
int conn_find(const char *path, const char *uuid, char out[CONN_PATH_SIZE]) _must_check_;

/* Connects without blocking. Refuses (ERR_NOT_TRUSTED) a socket whose folder does not belong to
 * root or to our effective uid, or is writable by others (a sticky folder such as /tmp is
 * writable by others). ERR_NO_DAEMON when nobody listens or the backlog is full. */
int conn_connect(const char *path, int *ret_fd) _must_check_;

/* Sends one request without blocking. 0, ERR_LIMIT (the buffer is full), ERR_IO (broken). */
int conn_send(int fd, const struct wire_request *request) _must_check_;

/* Receives one reply; waits until deadline_ns (0: does not wait). 0; ERR_TIMEOUT; ERR_IO (end of
 * file or broken); ERR_MALFORMED. Reads once more after ECONNRESET, since the answer to a refused
 * message lies behind it. */
int conn_receive(int fd, struct wire_arena *arena, struct wire_reply *ret,
                 uint64_t deadline_ns) _must_check_;

/* Sends and waits for the reply with the same seq; others are dropped. The seq is set here, from
 * *seq which is advanced. An error reply is a success here: look at ret->body. */
int conn_call(int fd, struct wire_arena *arena, uint32_t *seq, struct wire_request *request,
              struct wire_reply *ret, uint64_t deadline_ns) _must_check_;
