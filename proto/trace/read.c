/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a line that trace_parse has accepted, as what the daemon and replay work with. */
#include <string.h>

#include "proto/base/parse.h"
#include "proto/trace/trace.h"

struct opt_u64 trace_get_u64(const struct trace_line *line, const char *key)
{
    const char *text = trace_get(line, key);
    uint64_t v;

    return text && parse_u64(text, &v) == 0 ? opt_u64(v) : opt_none();
}

struct opt_u64 trace_get_time(const struct trace_line *line, const char *key)
{
    const char *text = trace_get(line, key);
    uint64_t ns;

    return text && parse_seconds(text, &ns) == 0 ? opt_u64(ns) : opt_none();
}

void trace_get_boundary(const struct trace_line *line, struct boundary *ret)
{
    const char *force = trace_get(line, "force"), *component = trace_get(line, "component");

    *ret = (struct boundary){
        .force = force ? (enum force)term_value(force_terms, force) : FORCE_NONE,
        .reserved = trace_get_u64(line, "reserved"),
        .allocated = trace_get_u64(line, "allocated"),
        .releasable = trace_get_u64(line, "releasable"),
        .free = trace_get_u64(line, "free"),
        .total = trace_get_u64(line, "total"),
    };
    if (component && strlen(component) < sizeof(ret->component))
        memcpy(ret->component, component, strlen(component) + 1);
}

static bool get_flag(const struct trace_line *line, const char *key)
{
    const char *text = trace_get(line, key);

    return text && strcmp(text, "1") == 0;
}

/* "3,0,1" into counts[1..]: index 0 is the cause "none" and never counted. What a newer writer
 * counts beside them is dropped. */
static void get_counts(const struct trace_line *line, const char *key, uint64_t *counts, size_t max)
{
    const char *text = trace_get(line, key);
    char item[PARSE_TEXT_MAX];

    for (size_t i = 1; text && i < max; i++) {
        size_t length = strcspn(text, ",");

        if (length >= sizeof(item))
            return;
        memcpy(item, text, length);
        item[length] = '\0';
        if (parse_u64(item, &counts[i]) < 0)
            return;
        text = text[length] ? text + length + 1 : NULL;
    }
}

void trace_get_resume(const struct trace_line *line, struct resume *ret)
{
    const char *priority = trace_get(line, "priority");
    int64_t number;

    /* a missing number reads as 0, which is what a fresh session has */
    *ret = (struct resume){
        .peak = trace_get_u64(line, "peak").v,
        .n = trace_get_u64(line, "n").v,
        .in_warmup = get_flag(line, "warmup"),
        .warmup_ended = get_flag(line, "warmup_ended"),
        .busy = get_flag(line, "busy"),
        .residue = trace_get_u64(line, "residue"),
        .reserved = trace_get_u64(line, "reserved"),
        .allocated = trace_get_u64(line, "allocated"),
        .announced = trace_get_u64(line, "announced"),
        .operator.cap_bytes = trace_get_u64(line, "cap"),
        .operator.pin_bytes = trace_get_u64(line, "pin"),
        .operator.revision = trace_get_u64(line, "rev").v,
        .counts.retained = trace_get_u64(line, "retained").v,
        .counts.cold_start_releases = trace_get_u64(line, "cold").v,
        .counts.serving_releases = trace_get_u64(line, "serving").v,
        .counts.uncovered = trace_get_u64(line, "uncovered").v,
    };
    if (priority && parse_i64(priority, &number) == 0)
        ret->operator.priority =(int32_t) number;
    get_counts(line, "forced", ret->counts.forced, FORCE_MAX);
    get_counts(line, "local", ret->counts.local, CAUSE_MAX);
}
