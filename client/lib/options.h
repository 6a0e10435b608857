/* SPDX-License-Identifier: Apache-2.0 */
/* struct dlo_options of any version, checked and copied into one of ours; and the other structs of
 * the public header between their versions. Immutable once read, so threads need no lock for it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dlo/dlo.h>

#include "client/lib/conn.h"
#include "proto/base/answer.h"
#include "proto/base/attr.h"

/* Deadlines above are slips: nothing here is worth a minute of a worker. */
#define OPTIONS_DEADLINE_MAX_MS 60000

struct options {
    char name[LIMIT_NAME_SIZE], group[LIMIT_NAME_SIZE]; /* group "": none */
    char socket[CONN_PATH_SIZE], uuid[LIMIT_UUID_SIZE]; /* "": none */
    enum mode mode;                                     /* never NONE */
    uint64_t deadline_ns;
    enum policy policy;
    enum stage_end stage_end;
    bool has_min_free;
    double min_free;
    uint64_t features;
    uint32_t rank, world;
    dlo_read_memory_fn read_memory;
    void *read_memory_arg;
    dlo_log_fn log;
    void *log_arg;
    dlo_release_fn release;
    void *release_arg;
};

/* Checks and copies; in may be NULL. DLO_MODE is read here. 0, or a DLO_ERR_* with a sentence in
 * text. */
int options_read(const struct dlo_options *in, struct options *ret, char *text,
                 size_t text_size) _must_check_;

/* A name that may go on the wire? NULL is none. */
bool options_name_ok(const char *text);

/* R4 */
bool options_is_forced(enum stage_end stage_end, enum force force);

/* ERR_INVALID for a struct without a usable size or with a force that does not exist. */
int options_boundary(const struct dlo_boundary *in, struct boundary *ret) _must_check_;
int options_report(const struct dlo_report *in, struct dlo_report *ret) _must_check_;

/* Writes what the caller's size has room for, and leaves that size. ERR_INVALID as above. */
int options_give_answer(const struct answer *a, enum cause cause,
                        struct dlo_answer *ret) _must_check_;
int options_give_room(const struct wire_wait_end *end, struct dlo_room *ret) _must_check_;
int options_give_info(const struct dlo_info *info, struct dlo_info *ret) _must_check_;

/* One line to the host's log function, where there is one. */
void options_log(const struct options *o, const char *format, ...) _printf_(2, 3);
