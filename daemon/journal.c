/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/log.h"
#include "proto/trace/trace.h"

/* Our shortest lines have about 20 characters, asks 450: more records than this rotate early. */
#define BYTES_PER_RECORD 64
/* What one event may append before the next journal_reserve: a line or two of at most 700
 * characters. (The lines of a resumed session may be many; they can be repeated in a preamble
 * without harm.) An eighth of the smallest segment is 1 KiB. */
#define RESERVED_PART 8
/* Lines wait here for the end of the loop turn; above it they are written at once. */
#define PENDING_BYTES 65536
/* A disk that is full takes a short line now and then: that is no recovery. */
#define RECOVERED_BYTES 65536

struct segment {
    char *text;
    uint32_t *ends; /* where each record ends */
    size_t used;
    uint32_t count;
    uint64_t first; /* number of its first record */
};

struct journal {
    struct segment segments[2];
    unsigned current;
    size_t segment_bytes;
    uint32_t segment_records;
    uint64_t next;
    enum { TO_BOTH, TO_RING, TO_FILE } target; /* of appended lines: TO_BOTH but in a preamble */
    size_t preamble_cut;                       /* its lines that found no room in the ring */

    int fd;
    char *path;
    char boot_id[64];
    uint64_t file_bytes, file_max, lost;
    uint64_t good_bytes; /* written since the last failure */
    bool is_broken;      /* said once, until so much was written again */
    char pending[PENDING_BYTES];
    size_t pending_used;

    journal_preamble_fn preamble;
    void *arg;
};

static bool segment_init(struct segment *s, size_t bytes, uint32_t records)
{
    s->text = malloc(bytes);
    s->ends = calloc(records, sizeof(*s->ends));
    if (!s->text || !s->ends)
        return false;
    /* touched now, so that memory does not grow while the daemon works */
    memset(s->text, ' ', bytes);
    memset(s->ends, 0xff, records * sizeof(*s->ends));
    return true;
}

static void file_mark_broken(struct journal *j, const char *what)
{
    j->good_bytes = 0;
    if (!j->is_broken)
        log_line(LOG_LEVEL_WARNING, "", "journal file %s: %s: %s; events stay in memory, ignoring",
                 j->path, what, strerror(errno));
    j->is_broken = true;
}

static void file_write(struct journal *j, const char *text, size_t length)
{
    ssize_t n;

    if (j->fd < 0)
        return;
    n = write(j->fd, text, length);
    if (n == (ssize_t)length) {
        j->file_bytes += length;
        j->good_bytes += length;
        if (j->is_broken && j->good_bytes >= RECOVERED_BYTES) {
            log_line(LOG_LEVEL_NOTICE, "", "journal file %s is written again", j->path);
            j->is_broken = false;
        }
        return;
    }
    if (n >= 0)
        errno = ENOSPC;
    /* half a line would make the file unreadable */
    if (n > 0 && ftruncate(j->fd, (off_t)j->file_bytes) < 0)
        file_mark_broken(j, "truncate");
    for (size_t i = 0; i < length; i++)
        j->lost += text[i] == '\n';
    file_mark_broken(j, "write");
}

static void file_flush(struct journal *j)
{
    if (j->pending_used > 0)
        file_write(j, j->pending, j->pending_used);
    j->pending_used = 0;
}

static void file_put(struct journal *j, const char *line, size_t length)
{
    if (!j->path)
        return;
    if (j->pending_used + length + 1 > sizeof(j->pending))
        file_flush(j);
    memcpy(j->pending + j->pending_used, line, length);
    j->pending[j->pending_used + length] = '\n';
    j->pending_used += length + 1;
}

/* Does the file begin with our header and the id of this boot? */
static bool file_is_of_this_boot(const struct journal *j)
{
    char want[160], have[160];
    int length = snprintf(want, sizeof(want), "%s\n# boot %s\n", TRACE_HEADER, j->boot_id);
    _cleanup_close_ int fd = open(j->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && read(fd, have, (size_t)length) == length &&
           memcmp(want, have, (size_t)length) == 0;
}

static void file_rotate(struct journal *j)
{
    _cleanup_free_ char *old = NULL;

    if (asprintf(&old, "%s.1", j->path) < 0) {
        old = NULL;
        return;
    }
    if (rename(j->path, old) < 0 && errno != ENOENT)
        file_mark_broken(j, "rename");
}

static bool file_open(struct journal *j)
{
    struct stat st;

    if (j->fd >= 0)
        close(j->fd);
    j->fd =
        open(j->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (j->fd < 0) {
        file_mark_broken(j, "open");
        return false;
    }
    if (fstat(j->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        file_mark_broken(j, "not a regular file");
        close(j->fd);
        j->fd = -1;
        return false;
    }
    j->file_bytes = (uint64_t)st.st_size;
    return true;
}

/* A new file gets the header, and every start and rotation a preamble. */
static void file_begin(struct journal *j)
{
    char header[160];
    int length;

    if (!file_open(j))
        return;
    if (j->file_bytes == 0) {
        length = snprintf(header, sizeof(header), "%s\n# boot %s", TRACE_HEADER, j->boot_id);
        file_put(j, header, (size_t)length);
    }
    j->target = TO_FILE;
    j->preamble(j->arg, j);
    j->target = TO_BOTH;
    file_flush(j);
}

static void put_ring(struct journal *j, const char *line, size_t length)
{
    struct segment *s = &j->segments[j->current];

    memcpy(s->text + s->used, line, length);
    s->used += length;
    s->ends[s->count++] = (uint32_t)s->used;
    j->next++;
}

/* Is there room in the part 1/divisor of the segment? The last record is kept for the note. */
static bool ring_has_room(const struct journal *j, size_t length, uint32_t divisor)
{
    const struct segment *s = &j->segments[j->current];

    return s->used + length <= j->segment_bytes / divisor &&
           s->count + 1 < j->segment_records / divisor;
}

static void ring_begin(struct journal *j)
{
    struct segment *s;
    char note[128];
    int length;

    j->current ^= 1;
    s = &j->segments[j->current];
    s->used = 0;
    s->count = 0;
    s->first = j->next;
    j->preamble_cut = 0;
    j->target = TO_RING;
    j->preamble(j->arg, j);
    j->target = TO_BOTH;
    if (j->preamble_cut == 0)
        return;
    length = snprintf(note, sizeof(note),
                      "note text=\"%zu lines of the preamble found no room in the ring\"",
                      j->preamble_cut);
    put_ring(j, note, (size_t)length);
}

struct journal *journal_new(size_t ring_bytes, const char *path, uint64_t file_max,
                            const char *boot_id, journal_preamble_fn preamble, void *arg)
{
    struct journal *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    j->fd = -1;
    j->next = 1;
    j->preamble = preamble;
    j->arg = arg;
    j->file_max = file_max;
    j->segment_bytes = ring_bytes / 2;
    j->segment_records = (uint32_t)(j->segment_bytes / BYTES_PER_RECORD);
    snprintf(j->boot_id, sizeof(j->boot_id), "%s", boot_id);
    if (!segment_init(&j->segments[0], j->segment_bytes, j->segment_records) ||
        !segment_init(&j->segments[1], j->segment_bytes, j->segment_records) ||
        (*path && !(j->path = strdup(path)))) {
        journal_free(j);
        return NULL;
    }
    j->segments[0].first = j->segments[1].first = 1;
    if (j->path) {
        if (!file_is_of_this_boot(j))
            file_rotate(j);
        file_begin(j);
    }
    ring_begin(j);
    return j;
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    file_flush(j);
    if (j->fd >= 0)
        close(j->fd);
    for (size_t i = 0; i < ARRAY_SIZE(j->segments); i++) {
        free(j->segments[i].text);
        free(j->segments[i].ends);
    }
    free(j->path);
    free(j);
}

void journal_set_file_max(struct journal *j, uint64_t file_max)
{
    j->file_max = file_max;
}

void journal_reserve(struct journal *j)
{
    const struct segment *s = &j->segments[j->current];

    if (s->used + j->segment_bytes / RESERVED_PART > j->segment_bytes ||
        s->count + j->segment_records / RESERVED_PART > j->segment_records)
        ring_begin(j);
    if (j->path && (j->fd < 0 || j->file_bytes + j->pending_used >= j->file_max)) {
        file_flush(j);
        if (j->fd >= 0)
            file_rotate(j);
        file_begin(j);
    }
}

void journal_append(struct journal *j, const char *line, size_t length)
{
    if (j->target != TO_FILE) {
        /* of a segment one half is kept for events */
        if (ring_has_room(j, length, j->target == TO_RING ? 2 : 1)) {
            put_ring(j, line, length);
        } else if (j->target == TO_RING) {
            j->preamble_cut++;
        } else {
            ring_begin(j);
            put_ring(j, line, length);
        }
    }
    if (j->target != TO_RING)
        file_put(j, line, length);
}

void journal_flush(struct journal *j)
{
    if (j->path)
        file_flush(j);
}

uint64_t journal_first(const struct journal *j)
{
    const struct segment *older = &j->segments[j->current ^ 1];

    return older->count > 0 ? older->first : j->segments[j->current].first;
}

uint64_t journal_next(const struct journal *j)
{
    return j->next;
}

const char *journal_record(const struct journal *j, uint64_t number, size_t *ret_length)
{
    for (size_t i = 0; i < ARRAY_SIZE(j->segments); i++) {
        const struct segment *s = &j->segments[i];

        if (number >= s->first && number - s->first < s->count) {
            size_t at = number - s->first;
            size_t start = at == 0 ? 0 : s->ends[at - 1];

            *ret_length = s->ends[at] - start;
            return s->text + start;
        }
    }
    return NULL;
}

uint64_t journal_lost(const struct journal *j)
{
    return j->lost;
}
