/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/journal.h"

#include <stdio.h>
#include <string.h>

#include "daemon/journal_file.h"
#include "proto/trace/trace.h"

/* Our shortest lines have about 20 characters, asks 450: more records than this rotate early. */
#define BYTES_PER_RECORD 64
/* What one event may append before the next journal_reserve: a line or two of at most 700
 * characters. (The lines of a resumed session may be many; they can be repeated in a preamble
 * without harm.) An eighth of the smallest segment is 1 KiB. */
#define RESERVED_PART 8

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

    struct journal_file file;
    uint64_t file_max;

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

/* Every start and rotation gets a preamble of the live state. */
static void file_begin(struct journal *j)
{
    if (!journal_file_begin(&j->file, j->file_max))
        return;
    j->target = TO_FILE;
    j->preamble(j->arg, j);
    j->target = TO_BOTH;
    journal_file_settle(&j->file);
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
                      "note cut=%zu text=\"lines of the preamble found no room in the ring\"",
                      j->preamble_cut);
    put_ring(j, note, (size_t)length);
}

struct journal *journal_new(size_t ring_bytes, const char *path, uint64_t file_max,
                            const char *boot_id, journal_preamble_fn preamble, void *arg)
{
    struct journal *j = calloc(1, sizeof(*j));

    if (!j)
        return NULL;
    j->next = 1;
    j->preamble = preamble;
    j->arg = arg;
    j->file_max = file_max;
    j->segment_bytes = ring_bytes / 2;
    j->segment_records = (uint32_t)(j->segment_bytes / BYTES_PER_RECORD);
    if (!segment_init(&j->segments[0], j->segment_bytes, j->segment_records) ||
        !segment_init(&j->segments[1], j->segment_bytes, j->segment_records) ||
        journal_file_init(&j->file, path, boot_id) < 0) {
        journal_free(j);
        return NULL;
    }
    j->segments[0].first = j->segments[1].first = 1;
    file_begin(j);
    ring_begin(j);
    return j;
}

void journal_free(struct journal *j)
{
    if (!j)
        return;
    journal_file_done(&j->file);
    for (size_t i = 0; i < ARRAY_SIZE(j->segments); i++) {
        free(j->segments[i].text);
        free(j->segments[i].ends);
    }
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
    if (journal_file_is_due(&j->file, j->file_max))
        file_begin(j);
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
        journal_file_put(&j->file, line, length);
}

void journal_flush(struct journal *j)
{
    journal_file_flush(&j->file);
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
    return j->file.lost;
}
