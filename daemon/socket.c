/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "proto/base/error.h"
#include "proto/base/parse.h"

#define ACTIVATION_FD 3 /* sd_listen_fds(3): descriptors begin there */

void listener_init(struct listener *l)
{
    *l = (struct listener){.fd = -1, .lock_fd = -1, .uuid_lock_fd = -1};
}

int runtime_dir(char out[CONFIG_TEXT_SIZE])
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    int n;

    if (geteuid() == 0)
        n = snprintf(out, CONFIG_TEXT_SIZE, "/run/dlo");
    else if (base && *base == '/')
        n = snprintf(out, CONFIG_TEXT_SIZE, "%s/dlo", base);
    else
        return ERR_INVALID;
    return n < CONFIG_TEXT_SIZE ? 0 : ERR_TOO_LONG;
}

static bool is_listening_seqpacket(int fd)
{
    int type = 0, domain = 0, accepts = 0;
    socklen_t length = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &length) == 0 &&
           type == SOCK_SEQPACKET && domain == AF_UNIX && accepts;
}

int listener_take(struct listener *l, char ret_error[SOCKET_ERROR_SIZE])
{
    const char *pid_text = getenv("LISTEN_PID"), *count_text = getenv("LISTEN_FDS");
    struct sockaddr_un address = {0};
    socklen_t length = sizeof(address) - 1;
    uint64_t pid, count;

    if (!pid_text || !count_text || parse_u64(pid_text, &pid) < 0 ||
        parse_u64(count_text, &count) < 0 || pid != (uint64_t)getpid() || count == 0)
        return 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (count != 1 || !is_listening_seqpacket(ACTIVATION_FD)) {
        snprintf(ret_error, SOCKET_ERROR_SIZE,
                 "the service manager passed %s descriptors, the first %s a listening SEQPACKET "
                 "socket; one such socket is needed (ListenSequentialPacket=)",
                 count_text, is_listening_seqpacket(ACTIVATION_FD) ? "is" : "is not");
        return ERR_INVALID;
    }
    if (getsockname(ACTIVATION_FD, (struct sockaddr *)&address, &length) == 0)
        snprintf(l->path, sizeof(l->path), "%s", address.sun_path);
    fcntl(ACTIVATION_FD, F_SETFD, FD_CLOEXEC);
    l->fd = ACTIVATION_FD;
    l->is_activated = true;
    return 1;
}

static int fail(char *ret_error, int code, const char *what, const char *path)
{
    snprintf(ret_error, SOCKET_ERROR_SIZE, "%s %s: %s", what, path, strerror(errno));
    return code;
}

/* The folder must not let others put a socket of theirs in our place. */
static int prepare_folder(const char *path, char *ret_error)
{
    char copy[CONFIG_TEXT_SIZE];
    const char *folder;
    struct stat st;

    snprintf(copy, sizeof(copy), "%s", path);
    folder = dirname(copy);
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return fail(ret_error, ERR_IO, "cannot make the folder", folder);
    if (stat(folder, &st) < 0)
        return fail(ret_error, ERR_IO, "cannot use the folder", folder);
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        snprintf(ret_error, SOCKET_ERROR_SIZE,
                 "the folder %s belongs to uid %u with mode %04o: it must belong to root or to uid "
                 "%u and not be writable by group or others, or clients will not trust the socket",
                 folder, st.st_uid, st.st_mode & 07777, geteuid());
        return ERR_NOT_TRUSTED;
    }
    return 0;
}

/* An exclusive lock that lives as long as the descriptor; the file holds the pid of its owner. */
static int take_lock(const char *path, const char *what, int *ret_fd, char *ret_error)
{
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    char pid[32] = "";
    int n;

    if (fd < 0)
        return fail(ret_error, ERR_IO, "cannot open the lock file", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return fail(ret_error, ERR_IO, "cannot lock", path);
        n = (int)read(fd, pid, sizeof(pid) - 1);
        pid[strcspn(pid, "\n")] = '\0';
        snprintf(ret_error, SOCKET_ERROR_SIZE, "another dlod (pid %s) serves %s; stop it first",
                 n > 0 ? pid : "unknown", what);
        return ERR_BUSY;
    }
    n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n)
        return fail(ret_error, ERR_IO, "cannot write", path);
    *ret_fd = fd;
    fd = -1;
    return 0;
}

static int set_owner(const char *path, uint32_t mode, const char *group, char *ret_error)
{
    if (*group) {
        const struct group *g = getgrnam(group);

        if (!g) {
            snprintf(ret_error, SOCKET_ERROR_SIZE,
                     "socket_group = %s: no such group; make it with: groupadd --system %s", group,
                     group);
            return ERR_INVALID;
        }
        if (chown(path, (uid_t)-1, g->gr_gid) < 0)
            return fail(ret_error, ERR_IO, "cannot give the group to", path);
    }
    if (chmod(path, mode) < 0)
        return fail(ret_error, ERR_IO, "cannot set the mode of", path);
    return 0;
}

/* Binds beside the path and moves the socket there, so that clients see the old or the new one. */
static int bind_new(const char *path, uint32_t mode, const char *group, int *ret_fd,
                    char *ret_error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct stat st;
    int r;

    if (fd < 0)
        return fail(ret_error, ERR_IO, "cannot make a socket for", path);
    if (snprintf(address.sun_path, sizeof(address.sun_path), "%s.new", path) >=
        (int)sizeof(address.sun_path)) {
        snprintf(ret_error, SOCKET_ERROR_SIZE,
                 "the socket path %s is too long: at most %zu characters", path,
                 sizeof(address.sun_path) - sizeof(".new"));
        return ERR_TOO_LONG;
    }
    if (lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode) && !S_ISLNK(st.st_mode)) {
        snprintf(ret_error, SOCKET_ERROR_SIZE,
                 "%s is there and is not a socket; remove it, or name another path", path);
        return ERR_INVALID;
    }
    unlink(address.sun_path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return fail(ret_error, ERR_IO, "cannot bind", address.sun_path);
    r = set_owner(address.sun_path, mode, group, ret_error);
    /* listening before it can be found: nobody is ever refused by a path that is there */
    if (r == 0 && (listen(fd, SOMAXCONN) < 0 || rename(address.sun_path, path) < 0))
        r = fail(ret_error, ERR_IO, "cannot publish", path);
    if (r < 0) {
        unlink(address.sun_path);
        return r;
    }
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int listener_make(struct listener *l, const char *path, uint32_t mode, const char *group,
                  char ret_error[SOCKET_ERROR_SIZE])
{
    char lock[CONFIG_TEXT_SIZE + 8];
    int r = prepare_folder(path, ret_error);

    if (r < 0)
        return r;
    snprintf(lock, sizeof(lock), "%s.lock", path);
    r = take_lock(lock, path, &l->lock_fd, ret_error);
    if (r < 0)
        return r;
    r = bind_new(path, mode, group, &l->fd, ret_error);
    if (r < 0)
        return r;
    snprintf(l->path, sizeof(l->path), "%s", path);
    return 0;
}

static int link_by_uuid(struct listener *l, const char *folder, const char *uuid, char *ret_error)
{
    char by_uuid[CONFIG_TEXT_SIZE * 2], link[sizeof(l->uuid_link)], target[CONFIG_TEXT_SIZE * 2];
    const char *name = strrchr(l->path, '/');

    snprintf(by_uuid, sizeof(by_uuid), "%s/by-uuid", folder);
    snprintf(link, sizeof(link), "%s/%s.sock", by_uuid, uuid);
    snprintf(target, sizeof(target), "../%s", name ? name + 1 : l->path);
    if (mkdir(by_uuid, 0755) < 0 && errno != EEXIST)
        return fail(ret_error, ERR_IO, "cannot make the folder", by_uuid);
    unlink(link);
    if (symlink(target, link) < 0)
        return fail(ret_error, ERR_IO, "cannot make the link", link);
    memcpy(l->uuid_link, link, sizeof(link));
    return 0;
}

int listener_lock_uuid(struct listener *l, const char *uuid, char ret_error[SOCKET_ERROR_SIZE])
{
    char copy[CONFIG_TEXT_SIZE], lock[CONFIG_TEXT_SIZE * 2];
    const char *folder;
    int r;

    if (l->is_activated || l->uuid_lock_fd >= 0)
        return 0; /* the service manager runs one instance a device */
    snprintf(copy, sizeof(copy), "%s", l->path);
    folder = dirname(copy);
    snprintf(lock, sizeof(lock), "%s/%s.lock", folder, uuid);
    r = take_lock(lock, uuid, &l->uuid_lock_fd, ret_error);
    if (r < 0)
        return r;
    return link_by_uuid(l, folder, uuid, ret_error);
}

void listener_done(struct listener *l)
{
    if (l->fd >= 0 && !l->is_activated)
        unlink(l->path);
    if (l->uuid_link[0])
        unlink(l->uuid_link);
    if (l->lock_fd >= 0)
        close(l->lock_fd);
    if (l->uuid_lock_fd >= 0)
        close(l->uuid_lock_fd);
    listener_init(l);
}
