/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/peer.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/error.h"

#define GROUPS_MAX 256 /* of a user, in one read */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5; Debian 12's headers are older */
#endif

/* Does the peer belong to that group, by its own group or one beside it? */
static bool is_member(int fd, const struct peer *peer, gid_t gid)
{
    gid_t groups[GROUPS_MAX];
    socklen_t length = sizeof(groups);

    if (peer->gid == gid)
        return true;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &length) < 0)
        return false; /* more groups than a user can have by default: then by its own group alone */
    for (size_t i = 0; i < length / sizeof(groups[0]); i++)
        if (groups[i] == gid)
            return true;
    return false;
}

static bool is_admin(int fd, const struct peer *peer, const char *admin_group)
{
    const struct group *g;

    if (peer->uid == 0 || peer->uid == geteuid())
        return true;
    g = *admin_group ? getgrnam(admin_group) : NULL;
    return g && is_member(fd, peer, g->gr_gid);
}

int peer_read(int fd, const char *admin_group, struct peer *ret)
{
    struct ucred cred;
    socklen_t length = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &length) < 0)
        return ERR_IO;
    *ret = (struct peer){.pid = cred.pid, .uid = cred.uid, .gid = cred.gid};
    ret->is_admin = is_admin(fd, ret, admin_group);
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
