/* SPDX-License-Identifier: Apache-2.0 */
#include "client/lib/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/base/name.h"

/* A caller's struct into ours: members that it has, the rest as it is. */
static int take_struct(void *ours, size_t our_size, const void *theirs)
{
    size_t size;

    memcpy(&size, theirs, sizeof(size));
    if (size < sizeof(size))
        return ERR_INVALID;
    memcpy(ours, theirs, size < our_size ? size : our_size);
    memcpy(ours, &our_size, sizeof(our_size));
    return 0;
}

static int give_struct(void *theirs, const void *ours, size_t our_size)
{
    size_t size;

    memcpy(&size, theirs, sizeof(size));
    if (size < sizeof(size))
        return ERR_INVALID;
    memcpy((char *)theirs + sizeof(size), (const char *)ours + sizeof(size),
           (size < our_size ? size : our_size) - sizeof(size));
    return 0;
}

bool options_name_ok(const char *text)
{
    return text && name_valid(text, strnlen(text, LIMIT_NAME_SIZE));
}

static bool is_uuid(const char *text)
{
    size_t length = strnlen(text, LIMIT_UUID_SIZE);

    if (length == 0 || length == LIMIT_UUID_SIZE)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] != '/' && !name_valid(text + i, 1))
            return false;
    return true;
}

/* R30: the environment wins, so that an operator can always switch it off. */
static int read_mode(int32_t mode, enum mode *ret, char *text, size_t text_size)
{
    const char *word = getenv("DLO_MODE");

    if (word && word[0]) {
        int value = term_value(mode_terms, word);
        char safe[64];

        if (value == 0) {
            snprintf(text, text_size, "DLO_MODE is '%s', not off, shadow or on",
                     text_escape(word, strlen(word), safe, sizeof(safe)));
            return ERR_INVALID;
        }
        *ret = (enum mode)value;
        return 0;
    }
    if (mode < 0 || mode > MODE_ON) {
        snprintf(text, text_size, "options.mode is %d, not off, shadow or on", mode);
        return ERR_INVALID;
    }
    *ret = mode == 0 ? MODE_ON : (enum mode)mode;
    return 0;
}

/* What is wrong with the texts, NULL where nothing is. */
static const char *read_texts(const struct dlo_options *in, struct options *o, int *ret_code)
{
    *ret_code = ERR_INVALID;
    if (!in->name)
        name_sanitize(program_invocation_short_name, o->name);
    else if (options_name_ok(in->name))
        strcpy(o->name, in->name);
    else
        return "options.name is not 1 to 63 characters of A-Z a-z 0-9 . _ : -";
    if (in->group && !options_name_ok(in->group))
        return "options.group is not 1 to 63 characters of A-Z a-z 0-9 . _ : -";
    if (in->group)
        strcpy(o->group, in->group);
    if (in->gpu_uuid && !is_uuid(in->gpu_uuid))
        return "options.gpu_uuid is not a UUID";
    if (in->gpu_uuid)
        strcpy(o->uuid, in->gpu_uuid);
    if (in->socket && !in->socket[0])
        return "options.socket is empty";
    if (in->socket && strlen(in->socket) >= sizeof(o->socket)) {
        *ret_code = ERR_TOO_LONG;
        return "options.socket is longer than a socket path can be";
    }
    if (in->socket)
        strcpy(o->socket, in->socket);
    return NULL;
}

static const char *read_numbers(const struct dlo_options *in, struct options *o)
{
    if (in->deadline_ms > OPTIONS_DEADLINE_MAX_MS)
        return "options.deadline_ms is above 60000";
    if (in->policy < 0 || in->policy > POLICY_DEMAND)
        return "options.policy is not one of DLO_POLICY_*";
    if (in->stage_end < 0 || in->stage_end > STAGE_END_ADVISE)
        return "options.stage_end is not one of DLO_STAGE_END_*";
    if (!(in->min_free <= 1.0)) /* NaN too */
        return "options.min_free is above 1 or not a number";
    if (in->world == 0 ? in->rank != 0 : in->rank >= in->world)
        return "options.rank is not below options.world";
    o->deadline_ns = 1000000ull * (in->deadline_ms ? in->deadline_ms : DLO_DEADLINE_MS_DEFAULT);
    o->policy = (enum policy)in->policy;
    o->stage_end = (enum stage_end)in->stage_end;
    o->has_min_free = in->min_free >= 0.0;
    o->min_free = o->has_min_free ? in->min_free : 0.0;
    return NULL;
}

int options_read(const struct dlo_options *in, struct options *ret, char *text, size_t text_size)
{
    struct dlo_options all = DLO_OPTIONS_INIT;
    struct options o = {0};
    const char *wrong;
    int r = 0;

    if (in && take_struct(&all, sizeof(all), in) < 0) {
        snprintf(text, text_size, "options.size is not set");
        return ERR_INVALID;
    }
    r = read_mode(all.mode, &o.mode, text, text_size);
    if (r < 0)
        return r;
    wrong = read_texts(&all, &o, &r);
    if (!wrong) {
        r = ERR_INVALID;
        wrong = read_numbers(&all, &o);
    }
    if (wrong) {
        snprintf(text, text_size, "%s", wrong);
        return r;
    }
    o.features = all.features;
    o.rank = all.rank;
    o.world = all.world;
    o.read_memory = all.read_memory;
    o.read_memory_arg = all.read_memory_arg;
    o.release = all.release;
    o.release_arg = all.release_arg;
    o.log = all.log;
    o.log_arg = all.log_arg;
    *ret = o;
    return 0;
}

bool options_is_forced(enum stage_end stage_end, enum force force)
{
    if (force == FORCE_STAGE_END && stage_end == STAGE_END_ADVISE)
        return false;
    return force != FORCE_NONE;
}

static struct opt_u64 number(uint64_t v)
{
    return v == DLO_MISSING ? opt_none() : opt_u64(v);
}

int options_boundary(const struct dlo_boundary *in, struct boundary *ret)
{
    struct dlo_boundary all = DLO_BOUNDARY_INIT;

    if (!in || take_struct(&all, sizeof(all), in) < 0 || all.force < 0 || all.force >= FORCE_MAX)
        return ERR_INVALID;
    *ret = (struct boundary){
        .force = (enum force)all.force,
        .reserved = number(all.reserved),
        .allocated = number(all.allocated),
        .releasable = number(all.releasable),
        .free = number(all.free),
        .total = number(all.total),
    };
    if (all.component && all.component[0])
        name_sanitize(all.component, ret->component);
    return 0;
}

int options_report(const struct dlo_report *in, struct dlo_report *ret)
{
    struct dlo_report all = DLO_REPORT_INIT;

    if (in && take_struct(&all, sizeof(all), in) < 0)
        return ERR_INVALID;
    *ret = all;
    return 0;
}

static uint64_t show(struct opt_u64 v, uint64_t bit, uint64_t *fields)
{
    if (!v.has)
        return DLO_MISSING;
    *fields |= bit;
    return v.v;
}

int options_give_answer(const struct answer *a, enum cause cause, struct dlo_answer *ret)
{
    uint64_t fields = 0;
    struct dlo_answer out = {
        .size = sizeof(out),
        .decision = (int32_t)a->decision,
        .would = (int32_t)a->would,
        .reason = (int32_t)a->reason,
        .cause = (int32_t)cause,
        .cached = show(a->cached, DLO_FIELD_CACHED, &fields),
        .free = show(a->free, DLO_FIELD_FREE, &fields),
        .total = show(a->total, DLO_FIELD_TOTAL, &fields),
        .age_ns = show(a->age_ns, DLO_FIELD_AGE, &fields),
        .floor = show(a->floor, DLO_FIELD_FLOOR, &fields),
        .cap = show(a->cap, DLO_FIELD_CAP, &fields),
        .budget = show(a->budget, DLO_FIELD_BUDGET, &fields),
        .capped = show(a->capped, DLO_FIELD_CAPPED, &fields),
        .peak = a->peak,
        .learned = a->learned,
        .staged_bytes = a->staged_bytes,
        .stager_count = a->stager_count,
        .warmup = a->warmup,
        .session = a->session,
        .n = a->n,
    };

    out.fields = fields;
    return give_struct(ret, &out, sizeof(out));
}

int options_give_room(const struct wire_wait_end *end, struct dlo_room *ret)
{
    const struct dlo_room room = {
        .size = sizeof(room),
        .end = (int32_t)end->end,
        .freed = end->freed,
        .free = end->free.has ? end->free.v : DLO_MISSING,
    };

    return give_struct(ret, &room, sizeof(room));
}

int options_give_info(const struct dlo_info *info, struct dlo_info *ret)
{
    return give_struct(ret, info, sizeof(*info));
}

void options_log(const struct options *o, const char *format, ...)
{
    char line[2 * LIMIT_TEXT_SIZE];
    va_list args;

    if (!o->log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    o->log(o->log_arg, DLO_LOG_DEBUG, line);
}
