/* SPDX-License-Identifier: Apache-2.0 */
/* Past events as lines of the trace format: a bounded ring in memory, optionally a bounded file.
 *
 * The ring is two segments of fixed size, allocated and touched at the start. When the current one
 * is full the older is forgotten and a new one begins with a preamble (config, clock, and for each
 * session its open and its stagers), so what the ring holds always begins with a state that
 * replays. A new file begins alike. Records are numbered from 1 and never change.
 *
 * Not thread-safe; knows nothing of sessions but the preamble callback. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/base/attr.h"

struct journal;

/* Appends the lines of a preamble with journal_append. */
typedef void (*journal_preamble_fn)(void *arg, struct journal *j);

/* ring_bytes: of both segments together. path: "" for no file; file_max: size at which a file is
 * kept as PATH.1 and a new one begins (checked by journal_reserve). boot_id: a file of another boot
 * is rotated away, since its times have another origin. NULL when there is no memory. A file that
 * cannot be opened is logged once and tried again. */
struct journal *journal_new(size_t ring_bytes, const char *path, uint64_t file_max,
                            const char *boot_id, journal_preamble_fn preamble, void *arg);
void journal_free(struct journal *j);

/* On reload. */
void journal_set_file_max(struct journal *j, uint64_t file_max);

/* Makes room in ring and file, with a new preamble where that is needed. Called before an event
 * changes any state, so that a preamble never holds an event whose line still follows. */
void journal_reserve(struct journal *j);

/* One line without its newline; copied. */
void journal_append(struct journal *j, const char *line, size_t length);

/* Writes what was appended since the last call to the file: after the answers have been sent. */
void journal_flush(struct journal *j);

/* Numbers of the oldest record that is still there and of the next one to come. */
uint64_t journal_first(const struct journal *j);
uint64_t journal_next(const struct journal *j);

/* Text of a record, borrowed until the next append. NULL where there is none of that number. */
const char *journal_record(const struct journal *j, uint64_t number, size_t *ret_length);

/* Lines that a full or broken disk has cost. */
uint64_t journal_lost(const struct journal *j);
