/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/attr.h"

#define LINE_SIZE 1024 /* a quarter of PIPE_BUF: a pipe takes a line whole or not at all */
#define MSG_SIZE  1024 /* before escaping; what does not fit is cut like a long line */
#define TAIL_SIZE 64   /* room for ` cut=true dropped=N` and the newline */
#define TIME_SIZE 40

static struct {
    int fd;
    enum log_level level;
    bool journal;
    uint64_t dropped; /* lines since the last one that stderr took */
} sink = {.fd = STDERR_FILENO, .level = LOG_LEVEL_INFO};

static const struct {
    int priority; /* of syslog(3) */
    const char *word;
} levels[] = {
    [LOG_LEVEL_ERROR] = {3, "error"},   [LOG_LEVEL_WARNING] = {4, "warning"},
    [LOG_LEVEL_NOTICE] = {5, "notice"}, [LOG_LEVEL_INFO] = {6, "info"},
    [LOG_LEVEL_DEBUG] = {7, "debug"},
};

/* systemd sets JOURNAL_STREAM to "device:inode" of the stream; a redirected stderr differs. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char mine[64];
    struct stat st;

    if (!stream || fstat(fd, &st) < 0)
        return false;
    snprintf(mine, sizeof mine, "%llu:%llu", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino);
    return strcmp(stream, mine) == 0;
}

void log_init(int fd, enum log_level level)
{
    sink.fd = fd;
    sink.level = level;
    sink.journal = is_journal(fd);
    sink.dropped = 0;
}

void log_set_level(enum log_level level)
{
    sink.level = level;
}

bool log_enabled(enum log_level level)
{
    return level <= sink.level;
}

/* A line under construction; full once something did not fit. */
struct line {
    char text[LINE_SIZE];
    size_t n, room; /* room: what may be used now */
    bool cut;
};

static void put(struct line *l, const char *bytes, size_t n)
{
    if (l->cut || n > l->room - l->n) {
        l->cut = true;
        return;
    }
    memcpy(l->text + l->n, bytes, n);
    l->n += n;
}

static void put_text(struct line *l, const char *text)
{
    put(l, text, strlen(text));
}

/* One byte of user text: printable ASCII stays, everything else becomes an escape (T16). */
static void put_escaped(struct line *l, unsigned char c)
{
    char escaped[8];

    if (c == '"' || c == '\\')
        snprintf(escaped, sizeof escaped, "\\%c", c);
    else if (c == '\n')
        snprintf(escaped, sizeof escaped, "\\n");
    else if (c < 0x20 || c >= 0x7f)
        snprintf(escaped, sizeof escaped, "\\x%02x", c);
    else
        snprintf(escaped, sizeof escaped, "%c", c);
    put_text(l, escaped);
}

static void put_head(struct line *l, enum log_level level)
{
    char head[TIME_SIZE + 32], when[TIME_SIZE];
    struct timespec now;
    struct tm utc;

    if (sink.journal) {
        snprintf(head, sizeof head, "<%d>level=%s", levels[level].priority, levels[level].word);
    } else {
        clock_gettime(CLOCK_REALTIME, &now);
        if (!gmtime_r(&now.tv_sec, &utc) || !strftime(when, sizeof when, "%FT%T", &utc))
            when[0] = '\0';
        snprintf(head, sizeof head, "ts=%s.%03ldZ level=%s", when, now.tv_nsec / 1000000,
                 levels[level].word);
    }
    put_text(l, head);
}

/* The descriptor may be a pipe that nobody reads: such a line is counted, not waited for. */
static void write_line(const char *text, size_t n)
{
    struct pollfd p = {.fd = sink.fd, .events = POLLOUT};

    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && write(sink.fd, text, n) == (ssize_t)n)
        sink.dropped = 0;
    else
        sink.dropped++;
}

void log_line(enum log_level level, const char *fields, const char *msg_format, ...)
{
    struct line l = {.room = LINE_SIZE - TAIL_SIZE};
    char msg[MSG_SIZE], tail[TAIL_SIZE];
    size_t fields_size = fields ? strlen(fields) : 0;
    int before = errno, n;
    bool cut;
    va_list ap;

    if (!log_enabled(level))
        return;
    va_start(ap, msg_format);
    n = vsnprintf(msg, sizeof msg, msg_format, ap);
    va_end(ap);
    cut = n < 0 || n >= (int)sizeof msg;
    if (n < 0)
        msg[0] = '\0';

    put_head(&l, level);
    put_text(&l, " msg=\"");
    if (fields_size >
        LINE_SIZE / 2) { /* callers' fields are short; the message is never crowded out */
        fields_size = 0;
        cut = true;
    }
    l.room -= fields_size + 2; /* the quote and a space */
    for (const char *p = msg; *p && !l.cut; p++)
        put_escaped(&l, (unsigned char)*p);
    cut |= l.cut;
    l.cut = false;
    l.room += fields_size + 2;
    put_text(&l, "\"");
    if (fields_size > 0) {
        put_text(&l, " ");
        for (size_t i = 0; i < fields_size; i++)
            put(&l, fields[i] >= 0x20 && fields[i] < 0x7f ? fields + i : "?", 1);
    }
    l.room = LINE_SIZE;
    if (cut)
        put_text(&l, " cut=true");
    if (sink.dropped > 0) {
        snprintf(tail, sizeof tail, " dropped=%llu", (unsigned long long)sink.dropped);
        put_text(&l, tail);
    }
    put_text(&l, "\n");
    write_line(l.text, l.n);
    errno = before;
}
