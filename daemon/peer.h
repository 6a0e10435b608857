/* SPDX-License-Identifier: Apache-2.0 */
/* Who connected, from the kernel alone: never from a message. */
#pragma once

#include "daemon/service.h"

/* Credentials of the process that connected, fixed at connect(2). admin_group: its members are
 * admins too; "" for none, and one that does not exist has none. ERR_IO. */
int peer_read(int fd, const char *admin_group, struct peer *ret) _must_check_;

/* A descriptor that becomes readable when that process is gone, also while a forked child still
 * holds the socket: SO_PEERPIDFD, else pidfd_open(2). <0 where neither is to be had: then only the
 * end of the connection tells. */
int peer_pidfd(int fd, const struct peer *peer);
