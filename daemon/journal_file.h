/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind the journal: whole lines appended, bounded by rotation to PATH.1. A disk that is
 * full, or a path that cannot be written, costs lines and never the daemon: the file is given up
 * until some more lines were dropped, and then begins again with a preamble, so that each piece of
 * it still replays. Not thread-safe; knows nothing of what the lines mean. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/attr.h"

/* Lines wait for the end of the loop turn; above it they are written at once. */
#define JOURNAL_PENDING_BYTES 65536

struct journal_file {
    char *path; /* NULL: no file; then every call does nothing */
    int fd;
    char boot_id[64];
    uint64_t bytes, lost;
    uint64_t begun_bytes, settled_bytes; /* its size before the last preamble; the preamble's */
    uint64_t dropped_bytes;              /* since it was given up */
    bool is_broken;                      /* given up, and said so */
    bool is_beginning;                   /* between begin and settle */
    size_t pending_used;
    char pending[JOURNAL_PENDING_BYTES];
};

/* path: "" for none. ERR_NO_MEMORY. */
int journal_file_init(struct journal_file *f, const char *path, const char *boot_id) _must_check_;
void journal_file_done(struct journal_file *f);

/* Must it begin anew: too big, or worth another try? It may grow to twice its preamble, however
 * small max_bytes is: else a large state would rotate all history away. */
bool journal_file_is_due(const struct journal_file *f, uint64_t max_bytes);

/* Rotates what is of another boot or too big, opens, writes the header of an empty file. true: the
 * caller puts a preamble and then calls journal_file_settle. */
bool journal_file_begin(struct journal_file *f, uint64_t max_bytes);
void journal_file_settle(struct journal_file *f);

/* One line without its newline. */
void journal_file_put(struct journal_file *f, const char *line, size_t length);
void journal_file_flush(struct journal_file *f);
