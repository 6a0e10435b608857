/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peer.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5; Debian 12's headers are older */
#endif

int peer_read(int fd, struct peer *ret)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0)
        return ERR_IO;
    *ret = (struct peer){.pid = cred.pid, .uid = cred.uid, .gid = cred.gid};
    return 0;
}

int peer_pidfd(int fd, const struct peer *peer)
{
    int pidfd = -1;
    socklen_t length = sizeof(pidfd);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0)
        return pidfd;
    if (peer->pid <= 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer->pid, 0);
}
