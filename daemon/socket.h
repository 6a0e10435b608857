/* SPDX-License-Identifier: Apache-2.0 */
/* The listening socket: taken from the service manager, or made here under a lock so that a stale
 * one is replaced and a live one is not. Errors are sentences in ret_error. No uv types. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config.h"

#define SOCKET_ERROR_SIZE 1024

struct listener {
    int fd;      /* bound and listening; whoever serves it closes it; -1: none */
    int lock_fd; /* -1 where the socket is the service manager's */
    int uuid_lock_fd;
    bool is_activated;
    char path[CONFIG_TEXT_SIZE];          /* where clients find it */
    char uuid_link[3 * CONFIG_TEXT_SIZE]; /* that we made, "" for none */
};

void listener_init(struct listener *l);

/* Takes the descriptor of socket activation if there is one (LISTEN_PID, LISTEN_FDS, which are then
 * removed from the environment). 1: taken, 0: there is none, <0: it is not what we serve. */
int listener_take(struct listener *l, char ret_error[SOCKET_ERROR_SIZE]) _must_check_;

/* Makes the socket of that path: folder (0755, made where it is missing), lock PATH.lock, a new
 * socket with mode and group that replaces PATH in one step. ERR_BUSY when another daemon lives
 * there, ERR_IO, ERR_TOO_LONG. */
int listener_make(struct listener *l, const char *path, uint32_t mode, const char *group,
                  char ret_error[SOCKET_ERROR_SIZE]) _must_check_;

/* Second lock, by the device, in the socket's folder; and the link by-uuid/<UUID>.sock there unless
 * the service manager owns the socket. ERR_BUSY when another daemon serves that device. */
int listener_lock_uuid(struct listener *l, const char *uuid,
                       char ret_error[SOCKET_ERROR_SIZE]) _must_check_;

/* Removes the socket and the link that we made, gives the locks back. */
void listener_done(struct listener *l);

/* /run/dlo for root, $XDG_RUNTIME_DIR/dlo for others; ERR_INVALID where that is not set. */
int runtime_dir(char out[CONFIG_TEXT_SIZE]) _must_check_;
