/* SPDX-License-Identifier: Apache-2.0 */
/* One logfmt line per event on stderr, with the journal's <N> priorities where stderr is the
 * journal (JOURNAL_STREAM names it). User text must go through the _text fields, which escape it.
 * The level is the one mutable static besides the sink; both are written at start and reload. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config.h"

void log_init(int fd, enum log_level level);
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);

/* One line: `msg="..."` of the formatted text, `level=...` and what log_fields adds before it.
 * Written with one write(2); a line longer than 1 KiB is cut and says so. Example:
 *
 *     log_event(LOG_LEVEL_WARNING, "session=%llu pid=%d cause=%s", ..., "the peer does not read");
 *
 * fields is logfmt made by the caller of numbers and checked names only; user text belongs into
 * msg, which is escaped as a whole. */
void log_line(enum log_level level, const char *fields, const char *msg_format, ...)
    __attribute__((format(printf, 3, 4)));
