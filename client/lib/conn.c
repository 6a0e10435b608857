/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/conn.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/error.h"

_Static_assert(CONN_PATH_SIZE == sizeof(((struct sockaddr_un *)0)->sun_path), "of sockaddr_un");

#define SYSTEM_DIR "/run/dlo"
#define NS_PER_S   1000000000ull

static void cleanup_closedir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

uint64_t conn_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool is_socket(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int copy_path(const char *path, char out[CONN_PATH_SIZE])
{
    size_t length = strlen(path);

    if (length == 0)
        return ERR_INVALID;
    if (length >= CONN_PATH_SIZE)
        return ERR_TOO_LONG;
    memcpy(out, path, length + 1);
    return 0;
}

/* dir/by-uuid/UUID.sock or, as for a MIG instance, dir/UUID.sock */
static int find_uuid(const char *dir, const char *uuid, char out[CONN_PATH_SIZE])
{
    char path[CONN_PATH_SIZE];

    for (int form = 0; form < 2; form++) {
        int n = form == 0 ? snprintf(path, sizeof(path), "%s/by-uuid/%s.sock", dir, uuid)
                          : snprintf(path, sizeof(path), "%s/%s.sock", dir, uuid);

        if (n < 0 || (size_t)n >= sizeof(path))
            return ERR_TOO_LONG;
        if (is_socket(path))
            return copy_path(path, out);
    }
    return ERR_NO_DAEMON;
}

/* The only socket of a folder, by names that end in ".sock". */
static int find_only(const char *dir, char out[CONN_PATH_SIZE])
{
    _cleanup_(cleanup_closedir) DIR *d = opendir(dir);
    char path[CONN_PATH_SIZE], found[CONN_PATH_SIZE] = "";

    if (!d)
        return ERR_NO_DAEMON;
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t length = strlen(entry->d_name);
        int n;

        if (length < 6 || strcmp(entry->d_name + length - 5, ".sock") != 0)
            continue;
        n = snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (n < 0 || (size_t)n >= sizeof(path) || !is_socket(path))
            continue;
        if (found[0])
            return ERR_INVALID;
        memcpy(found, path, sizeof(found));
    }
    return found[0] ? copy_path(found, out) : ERR_NO_DAEMON;
}

static int find_in(const char *dir, const char *uuid, char out[CONN_PATH_SIZE])
{
    return uuid ? find_uuid(dir, uuid, out) : find_only(dir, out);
}

int conn_find(const char *path, const char *uuid, char out[CONN_PATH_SIZE])
{
    const char *socket_path = path ? path : secure_getenv("DLO_SOCKET");
    const char *runtime_dir = secure_getenv("XDG_RUNTIME_DIR");
    char name[LIMIT_UUID_SIZE], user_dir[CONN_PATH_SIZE];
    int n, r;

    if (socket_path && (path || socket_path[0]))
        return copy_path(socket_path, out);
    if (uuid) {
        if (strlen(uuid) >= sizeof(name))
            return ERR_TOO_LONG;
        strcpy(name, uuid);
        for (char *slash; (slash = strchr(name, '/'));) /* an older form of MIG has slashes */
            *slash = '_';
        uuid = name;
    }
    r = find_in(SYSTEM_DIR, uuid, out);
    if (r != ERR_NO_DAEMON || !runtime_dir || !runtime_dir[0])
        return r;
    n = snprintf(user_dir, sizeof(user_dir), "%s/dlo", runtime_dir);
    if (n < 0 || (size_t)n >= sizeof(user_dir))
        return ERR_TOO_LONG;
    return find_in(user_dir, uuid, out);
}

/* The owner of the folder that a path is in, where only root, we and that owner could replace it.
 */
static int check_folder(const char *path, uid_t *ret_owner)
{
    char dir[CONN_PATH_SIZE];
    char *slash;
    struct stat st;

    strcpy(dir, path);
    slash = strrchr(dir, '/');
    if (!slash)
        strcpy(dir, ".");
    else
        slash[slash == dir ? 1 : 0] = '\0';
    if (stat(dir, &st) < 0)
        return ERR_NO_DAEMON;
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
        return ERR_NOT_TRUSTED;
    *ret_owner = st.st_uid;
    return 0;
}

int conn_connect(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = -1;
    struct ucred peer;
    socklen_t length = sizeof(peer);
    uid_t owner;
    int r = copy_path(path, address.sun_path);

    if (r < 0)
        return r;
    r = check_folder(address.sun_path, &owner);
    if (r < 0)
        return r;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return ERR_IO;
    /* EAGAIN: the backlog is full. All else means that no daemon can be reached there now. */
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return ERR_NO_DAEMON;
    /* Who called listen(): with socket activation the service manager, so root or ourselves. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        return ERR_IO;
    if (peer.uid != 0 && peer.uid != owner && peer.uid != geteuid())
        return ERR_NOT_TRUSTED;
    *ret_fd = fd;
    fd = -1;
    return 0;
}

int conn_send(int fd, const struct wire_request *request)
{
    uint8_t bytes[LIMIT_MESSAGE_BYTES];
    size_t length = wire_encode_request(request, bytes);

    for (;;) {
        if (send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
            return ERR_LIMIT;
        if (errno != EINTR)
            return ERR_IO;
    }
}

/* 0 when there is something to read, also an end of file. */
static int wait_readable(int fd, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (;;) {
        uint64_t now = conn_now_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / NS_PER_S),
                                   .tv_nsec = (long)(left % NS_PER_S)};
        int n = ppoll(&p, 1, &timeout, NULL);

        if (n > 0)
            return 0;
        if (n == 0)
            return ERR_TIMEOUT;
        if (errno != EINTR)
            return ERR_IO;
    }
}

/* One packet: its length; 0 for end of file; -errno. */
static ssize_t read_packet(int fd, uint8_t *bytes, size_t size)
{
    bool was_reset = false;

    for (;;) {
        ssize_t n = recv(fd, bytes, size, MSG_DONTWAIT);

        if (n >= 0)
            return n;
        if (errno == ECONNRESET && !was_reset)
            was_reset = true; /* what the peer said before it closed comes on the next read */
        else if (errno != EINTR)
            return -errno;
    }
}

int conn_receive(int fd, struct wire_arena *arena, struct wire_reply *ret, uint64_t deadline_ns)
{
    uint8_t bytes[LIMIT_MESSAGE_BYTES + 1];
    ssize_t n;
    int r;

    do {
        if (deadline_ns != 0) {
            r = wait_readable(fd, deadline_ns);
            if (r < 0)
                return r;
        }
        n = read_packet(fd, bytes, sizeof(bytes));
    } while (n == -EAGAIN && deadline_ns != 0);
    if (n == -EAGAIN)
        return ERR_TIMEOUT;
    if (n <= 0)
        return ERR_IO;
    if (n > LIMIT_MESSAGE_BYTES)
        return ERR_MALFORMED;
    return wire_decode_reply(arena, bytes, (size_t)n, ret) < 0 ? ERR_MALFORMED : 0;
}

int conn_call(int fd, struct wire_arena *arena, uint32_t *seq, struct wire_request *request,
              struct wire_reply *ret, uint64_t deadline_ns)
{
    int r;

    if (++*seq == 0)
        ++*seq; /* 0 marks replies that nobody asked for */
    request->seq = *seq;
    r = conn_send(fd, request);
    if (r == ERR_LIMIT)
        return r;
    do { /* after ERR_IO too: a refusal may wait to be read */
        r = conn_receive(fd, arena, ret, deadline_ns);
        if (r < 0)
            return r;
        if (ret->seq == request->seq || (ret->seq == 0 && ret->body == WIRE_ERROR))
            return 0; /* the second is about the connection, not about a request */
    } while (conn_now_ns() < deadline_ns);
    return ERR_TIMEOUT;
}
