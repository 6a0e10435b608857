/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/log.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/trace/trace.h"

/* A file that was given up is tried again after so much was dropped: about 150 decisions. */
#define RETRY_BYTES 65536

int journal_file_init(struct journal_file *f, const char *path, const char *boot_id)
{
    f->fd = -1;
    snprintf(f->boot_id, sizeof(f->boot_id), "%s", boot_id);
    if (!*path)
        return 0;
    f->path = strdup(path);
    return f->path ? 0 : ERR_NO_MEMORY;
}

static void close_file(struct journal_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}

void journal_file_done(struct journal_file *f)
{
    journal_file_flush(f);
    close_file(f);
    free(f->path);
    f->path = NULL;
}

static void give_up(struct journal_file *f, const char *why)
{
    if (!f->is_broken)
        log_line(LOG_LEVEL_WARNING, "", "journal file %s: %s; events stay in memory, ignoring",
                 f->path, why);
    f->is_broken = true;
    f->is_beginning = false;
    f->dropped_bytes = 0;
}

static void give_up_errno(struct journal_file *f, const char *what)
{
    char why[128];

    snprintf(why, sizeof(why), "%s: %s", what, strerror(errno));
    give_up(f, why);
}

static size_t count_lines(const char *text, size_t length)
{
    size_t lines = 0;

    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

void journal_file_flush(struct journal_file *f)
{
    size_t length = f->pending_used;
    ssize_t n;

    f->pending_used = 0;
    if (length == 0 || f->fd < 0)
        return;
    n = write(f->fd, f->pending, length);
    if (n == (ssize_t)length) {
        f->bytes += length;
        return;
    }
    if (n >= 0)
        errno = ENOSPC;
    f->lost += count_lines(f->pending, length);
    give_up_errno(f, "write");
    if (n > 0 && ftruncate(f->fd, (off_t)f->bytes) < 0) /* half a line would spoil the file */
        log_line(LOG_LEVEL_WARNING, "",
                 "journal file %s: truncate: %s; its last line is cut, ignoring", f->path,
                 strerror(errno));
}

void journal_file_put(struct journal_file *f, const char *line, size_t length)
{
    if (!f->path)
        return;
    if (f->is_broken && !f->is_beginning) {
        f->lost++;
        f->dropped_bytes += length + 1;
        return;
    }
    if (f->pending_used + length + 1 > sizeof(f->pending))
        journal_file_flush(f);
    memcpy(f->pending + f->pending_used, line, length);
    f->pending[f->pending_used + length] = '\n';
    f->pending_used += length + 1;
}

bool journal_file_is_due(const struct journal_file *f, uint64_t max_bytes)
{
    if (!f->path)
        return false;
    if (f->is_broken)
        return f->dropped_bytes >= RETRY_BYTES;
    return f->fd < 0 || f->bytes + f->pending_used >= bytes_max(max_bytes, 2 * f->settled_bytes);
}

/* The first lines of a file. Times count from the boot, so a file of another one is left alone. */
static int format_header(const struct journal_file *f, char *out, size_t size)
{
    return snprintf(out, size, "%s\n# boot %s", TRACE_HEADER, f->boot_id);
}

enum kind { NO_JOURNAL, OF_ANOTHER_BOOT, OF_THIS_BOOT };

static enum kind kind_of_file(const struct journal_file *f)
{
    char want[160], have[160];
    int length = format_header(f, want, sizeof(want));
    _cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, have, (size_t)length) : -1;

    if (n < (ssize_t)strlen(TRACE_HEADER) || memcmp(want, have, strlen(TRACE_HEADER)) != 0)
        return NO_JOURNAL;
    return n == length && memcmp(want, have, (size_t)length) == 0 ? OF_THIS_BOOT : OF_ANOTHER_BOOT;
}

/* What a crash left of its last line is cut off: the next line would be written behind it. */
static int cut_half_line(int fd, uint64_t *io_bytes)
{
    char tail[TRACE_LINE_MAX + 2];
    size_t length = *io_bytes < sizeof(tail) ? (size_t)*io_bytes : sizeof(tail);
    ssize_t n = pread(fd, tail, length, (off_t)(*io_bytes - length));
    size_t kept = n > 0 ? (size_t)n : 0;

    if (n != (ssize_t)length)
        return -1;
    while (kept > 0 && tail[kept - 1] != '\n')
        kept--;
    if (kept == length)
        return 0;
    *io_bytes -= length - kept;
    return ftruncate(fd, (off_t)*io_bytes);
}

static bool rotate(struct journal_file *f)
{
    _cleanup_free_ char *old = NULL;

    if (asprintf(&old, "%s.1", f->path) < 0) {
        old = NULL;
        give_up(f, error_text(ERR_NO_MEMORY));
        return false;
    }
    if (rename(f->path, old) == 0)
        return true;
    give_up_errno(f, "rename");
    return false;
}

/* The file that is there makes room where it is not to be gone on with. false: it was given up. */
static bool take_over(struct journal_file *f, const struct stat *st, uint64_t max_bytes)
{
    enum kind kind;

    if (!S_ISREG(st->st_mode)) {
        give_up(f, "it is there and is not a regular file; name another one");
        return false;
    }
    if (st->st_size == 0)
        return true;
    kind = kind_of_file(f);
    if (kind == NO_JOURNAL) {
        give_up(f, "it is there and is no journal; name another one");
        return false;
    }
    return (kind == OF_THIS_BOOT && (uint64_t)st->st_size < max_bytes) || rotate(f);
}

bool journal_file_begin(struct journal_file *f, uint64_t max_bytes)
{
    char header[160];
    struct stat st;

    if (!f->path)
        return false;
    journal_file_flush(f);
    close_file(f);
    f->dropped_bytes = 0;
    if (lstat(f->path, &st) == 0 && !take_over(f, &st, max_bytes))
        return false;
    f->fd = open(f->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (f->fd < 0 || fstat(f->fd, &st) < 0) {
        give_up_errno(f, "open");
        return false;
    }
    if (flock(f->fd, LOCK_EX | LOCK_NB) < 0) {
        give_up(f, "another daemon writes it; give each its own");
        close_file(f);
        return false;
    }
    f->bytes = (uint64_t)st.st_size;
    if (cut_half_line(f->fd, &f->bytes) < 0) {
        give_up_errno(f, "its last line");
        close_file(f);
        return false;
    }
    f->is_beginning = true;
    f->begun_bytes = f->bytes;
    if (f->bytes == 0)
        journal_file_put(f, header, (size_t)format_header(f, header, sizeof(header)));
    return true;
}

void journal_file_settle(struct journal_file *f)
{
    journal_file_flush(f);
    if (!f->is_beginning)
        return; /* it failed on the way */
    f->is_beginning = false;
    f->settled_bytes = f->bytes - f->begun_bytes;
    if (f->is_broken)
        log_line(LOG_LEVEL_NOTICE, "", "journal file %s is written again", f->path);
    f->is_broken = false;
}
