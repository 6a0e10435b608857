/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of a handle, for the files that have public functions (client.c, room.c). */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "client/lib/link.h"
#include "client/lib/options.h"

struct dlo_client {
    struct options options;      /* immutable */
    uint32_t generation;         /* of the process that opened it */
    pthread_mutex_t mutex;       /* protects what link points to, and error */
    atomic_bool is_held;         /* for the child of a fork, which must not touch the mutex */
    atomic_uint_fast64_t locked; /* answers that were given without the lock */
    struct link *link;
    dlo_release_fn release; /* R23; with its argument protected by the mutex */
    void *release_arg;
    char error[2 * LIMIT_TEXT_SIZE];
};

/* Does the handle belong to a parent of this process? */
bool handle_is_inherited(const struct dlo_client *c);

/* What each call begins with: 0 with the lock held and *ret_deadline_ns set; ERR_INVALID,
 * ERR_FORKED, ERR_TIMEOUT. */
int handle_enter(struct dlo_client *c, uint64_t *ret_deadline_ns) _must_check_;

/* Gives the lock back with the result of the call, of which dlo_last_error then tells. */
int32_t handle_leave(struct dlo_client *c, const char *what, int r);

/* The host's errno is not ours to change. */
void handle_restore_errno(const int *saved);
#define _keep_errno_                                                                               \
    __attribute__((unused)) _cleanup_(handle_restore_errno) const int saved_errno = errno
