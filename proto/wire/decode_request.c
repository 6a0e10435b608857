/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

#include <string.h>

#include "proto/base/error.h"

const char *wire_op_word(enum wire_op op)
{
    static const char *const words[WIRE_OP_MAX] = {
        [WIRE_OP_UNKNOWN] = "unknown",  [WIRE_HELLO] = "hello",
        [WIRE_ATTACH] = "attach",       [WIRE_DETACH] = "detach",
        [WIRE_SET_PEAK] = "set_peak",   [WIRE_WARMUP] = "warmup",
        [WIRE_BUSY] = "busy",           [WIRE_ASK] = "ask",
        [WIRE_RELEASED] = "released",   [WIRE_RESUME] = "resume",
        [WIRE_STATUS] = "status",       [WIRE_EVENTS] = "events",
        [WIRE_IDLE] = "idle",           [WIRE_OOM] = "oom",
        [WIRE_RECLAIMED] = "reclaimed", [WIRE_SET] = "set",
        [WIRE_VACATE] = "vacate",       [WIRE_LEASE] = "lease",
        [WIRE_UNLEASE] = "unlease",
    };

    return (unsigned int)op < WIRE_OP_MAX ? words[op] : words[WIRE_OP_UNKNOWN];
}

/* The readers below return NULL, or the name of the field that breaks a rule. */

static const char *hello_check(const Dlo__Wire__Hello *m)
{
    if (m->min_version == 0)
        return "hello.min_version";
    if (m->max_version < m->min_version)
        return "hello.max_version";
    if (!term_known(policy_terms, m->policy))
        return "hello.policy";
    if (!(m->min_free >= 0 && m->min_free <= 1)) /* NaN too */
        return "hello.min_free";
    if (!term_known(stage_end_terms, m->stage_end))
        return "hello.stage_end";
    if (!term_known(mode_terms, m->mode))
        return "hello.mode";
    if (m->rank > 0 && m->rank >= m->world)
        return "hello.rank";
    return NULL;
}

static const char *hello_parse(const Dlo__Wire__Hello *m, struct wire_hello *ret)
{
    const char *bad = hello_check(m);

    if (bad)
        return bad;
    memset(ret, 0, sizeof(*ret));
    ret->min_version = m->min_version;
    ret->max_version = m->max_version;
    ret->features = m->features;
    ret->observer = m->observer != 0;
    ret->policy = (enum policy)m->policy;
    ret->has_min_free = m->has_min_free != 0;
    ret->min_free = m->min_free;
    ret->stage_end = (enum stage_end)m->stage_end;
    ret->mode = (enum mode)m->mode;
    ret->rank = m->rank;
    ret->world = m->world;
    if (!name_parse(m->has_name, &m->name, ret->name))
        return "hello.name";
    if (!name_parse(m->has_group, &m->group, ret->group))
        return "hello.group";
    ret->has_state = m->state != NULL;
    if (m->state && !state_parse(m->state, &ret->state))
        return "hello.state.priority";
    return NULL;
}

static const char *attach_parse(const Dlo__Wire__Attach *m, struct wire_request *ret)
{
    if (!m->has_id || !name_parse(m->has_id, &m->id, ret->u.attach.id))
        return "attach.id";
    if (!m->has_bytes)
        return "attach.bytes";
    ret->u.attach.staged_bytes = m->bytes;
    return NULL;
}

static const char *detach_parse(const Dlo__Wire__Detach *m, struct wire_request *ret)
{
    return m->has_id && name_parse(m->has_id, &m->id, ret->u.detach.id) ? NULL : "detach.id";
}

static const char *set_peak_parse(const Dlo__Wire__SetPeak *m, struct wire_request *ret)
{
    ret->u.set_peak.peak = m->peak;
    return m->has_peak ? NULL : "set_peak.peak";
}

static const char *warmup_parse(const Dlo__Wire__Warmup *m, struct wire_request *ret)
{
    ret->u.warmup.phase = (enum phase)term_or_none(phase_terms, m->phase);
    return ret->u.warmup.phase != PHASE_NONE ? NULL : "warmup.phase";
}

static const char *busy_parse(const Dlo__Wire__Busy *m, struct wire_request *ret)
{
    ret->u.busy.phase = (enum phase)term_or_none(phase_terms, m->phase);
    ret->u.busy.need = GET_OPT(m, need);
    ret->u.busy.reserved = GET_OPT(m, reserved);
    ret->u.busy.allocated = GET_OPT(m, allocated);
    ret->u.busy.wait_ns = GET_OPT(m, wait_ns);
    return ret->u.busy.phase != PHASE_NONE ? NULL : "busy.phase";
}

static const char *ask_parse(const Dlo__Wire__Ask *m, struct boundary *ret)
{
    if (!term_known(force_terms, m->force))
        return "ask.force";
    ret->force = (enum force)m->force;
    ret->reserved = GET_OPT(m, reserved);
    ret->allocated = GET_OPT(m, allocated);
    ret->releasable = GET_OPT(m, releasable);
    ret->free = GET_OPT(m, free);
    ret->total = GET_OPT(m, total);
    return name_parse(m->has_component, &m->component, ret->component) ? NULL : "ask.component";
}

static const char *released_parse(const Dlo__Wire__Released *m, struct wire_request *ret)
{
    if (!m->has_reserved)
        return "released.reserved";
    if (!m->has_allocated)
        return "released.allocated";
    ret->u.released.reserved = m->reserved;
    ret->u.released.allocated = m->allocated;
    ret->u.released.us = m->us;
    return NULL;
}

static const char *idle_parse(const Dlo__Wire__Idle *m, struct wire_request *ret)
{
    ret->u.idle.phase = (enum phase)term_or_none(phase_terms, m->phase);
    ret->u.idle.background = m->background != 0;
    return ret->u.idle.phase != PHASE_NONE ? NULL : "idle.phase";
}

static const char *oom_parse(const Dlo__Wire__Oom *m, struct wire_request *ret)
{
    ret->u.oom.need = m->need;
    ret->u.oom.reserved = GET_OPT(m, reserved);
    ret->u.oom.allocated = GET_OPT(m, allocated);
    return m->has_need ? NULL : "oom.need";
}

/* A refusal may be one that only a newer peer knows. */
static const char *reclaimed_parse(const Dlo__Wire__Reclaimed *m, struct wire_request *ret)
{
    ret->u.reclaimed.call = m->call;
    ret->u.reclaimed.refusal = (enum refusal)term_or_none(refusal_terms, m->refusal);
    if (m->refusal != 0 && ret->u.reclaimed.refusal == REFUSAL_NONE)
        ret->u.reclaimed.refusal = REFUSAL_FAILED;
    ret->u.reclaimed.reserved = GET_OPT(m, reserved);
    ret->u.reclaimed.allocated = GET_OPT(m, allocated);
    ret->u.reclaimed.us = m->us;
    if (!m->has_call)
        return "reclaimed.call";
    return m->refusal != 0 || (m->has_reserved && m->has_allocated) ? NULL : "reclaimed.reserved";
}

static const char *set_parse(const Dlo__Wire__Set *m, struct wire_request *ret)
{
    struct operator_change *c = &ret->u.set.change;

    ret->u.set.session = m->session;
    *c = (struct operator_change){
        .revision = m->revision,
        .has_cap = m->has_cap || m->no_cap,
        .has_pin = m->has_pin || m->no_pin,
        .has_priority = m->has_priority != 0,
        .cap_bytes = m->no_cap ? opt_none() : GET_OPT(m, cap),
        .pin_bytes = m->no_pin ? opt_none() : GET_OPT(m, pin),
        .priority = m->priority,
    };
    if (!m->has_session)
        return "set.session";
    if (!m->has_revision)
        return "set.revision";
    return c->priority >= -PRIORITY_MAX && c->priority <= PRIORITY_MAX ? NULL : "set.priority";
}

static const char *resume_parse(const Dlo__Wire__Resume *m, struct wire_request *ret)
{
    if (!m->state)
        return "resume.state";
    return state_parse(m->state, &ret->u.resume.state) ? NULL : "resume.state.priority";
}

/* The op is set before its members are looked at, so that a log line can name it. */
static const char *op_parse(const Dlo__Wire__Request *m, struct wire_request *ret)
{
    switch (m->op_case) {
    case DLO__WIRE__REQUEST__OP_HELLO:
        ret->op = WIRE_HELLO;
        return hello_parse(m->hello, &ret->u.hello);
    case DLO__WIRE__REQUEST__OP_ATTACH:
        ret->op = WIRE_ATTACH;
        return attach_parse(m->attach, ret);
    case DLO__WIRE__REQUEST__OP_DETACH:
        ret->op = WIRE_DETACH;
        return detach_parse(m->detach, ret);
    case DLO__WIRE__REQUEST__OP_SET_PEAK:
        ret->op = WIRE_SET_PEAK;
        return set_peak_parse(m->set_peak, ret);
    case DLO__WIRE__REQUEST__OP_WARMUP:
        ret->op = WIRE_WARMUP;
        return warmup_parse(m->warmup, ret);
    case DLO__WIRE__REQUEST__OP_BUSY:
        ret->op = WIRE_BUSY;
        return busy_parse(m->busy, ret);
    case DLO__WIRE__REQUEST__OP_ASK:
        ret->op = WIRE_ASK;
        return ask_parse(m->ask, &ret->u.ask);
    case DLO__WIRE__REQUEST__OP_RELEASED:
        ret->op = WIRE_RELEASED;
        return released_parse(m->released, ret);
    case DLO__WIRE__REQUEST__OP_RESUME:
        ret->op = WIRE_RESUME;
        return resume_parse(m->resume, ret);
    case DLO__WIRE__REQUEST__OP_STATUS:
        ret->op = WIRE_STATUS;
        ret->u.status.cursor = m->status->cursor;
        ret->u.status.session = GET_OPT(m->status, session);
        return NULL;
    case DLO__WIRE__REQUEST__OP_EVENTS:
        ret->op = WIRE_EVENTS;
        ret->u.events.cursor = m->events->cursor;
        ret->u.events.wait = m->events->wait != 0;
        return NULL;
    case DLO__WIRE__REQUEST__OP_IDLE:
        ret->op = WIRE_IDLE;
        return idle_parse(m->idle, ret);
    case DLO__WIRE__REQUEST__OP_OOM:
        ret->op = WIRE_OOM;
        return oom_parse(m->oom, ret);
    case DLO__WIRE__REQUEST__OP_RECLAIMED:
        ret->op = WIRE_RECLAIMED;
        return reclaimed_parse(m->reclaimed, ret);
    case DLO__WIRE__REQUEST__OP_SET:
        ret->op = WIRE_SET;
        return set_parse(m->set, ret);
    case DLO__WIRE__REQUEST__OP_LEASE:
        ret->op = WIRE_LEASE;
        ret->u.lease.kind = (enum lease)term_or_none(lease_terms, m->lease->kind);
        ret->u.lease.bytes = m->lease->bytes;
        ret->u.lease.wait_ns = m->lease->wait_ns;
        ret->u.lease.term_ns = m->lease->term_ns;
        ret->u.lease.quiet_ns = m->lease->quiet_ns;
        return ret->u.lease.kind != LEASE_NONE ? NULL : "lease.kind";
    case DLO__WIRE__REQUEST__OP_UNLEASE:
        ret->op = WIRE_UNLEASE;
        ret->u.lease.kind = (enum lease)term_or_none(lease_terms, m->unlease->kind);
        return ret->u.lease.kind != LEASE_NONE ? NULL : "unlease.kind";
    case DLO__WIRE__REQUEST__OP_VACATE:
        ret->op = WIRE_VACATE;
        ret->u.vacate.bytes = m->vacate->has_bytes ? m->vacate->bytes : UINT64_MAX;
        ret->u.vacate.session = m->vacate->session;
        ret->u.vacate.only_ready = m->vacate->only_ready != 0;
        return NULL;
    default:
        return NULL; /* from a newer peer */
    }
}

int wire_decode_request(struct wire_arena *arena, const uint8_t *bytes, size_t length,
                        struct wire_request *ret, const char **ret_field)
{
    ProtobufCAllocator allocator = arena_allocator(arena);
    Dlo__Wire__Request *m;
    const char *bad;

    ret->seq = 0;
    ret->op = WIRE_OP_UNKNOWN;
    *ret_field = "message";
    if (length > LIMIT_MESSAGE_BYTES)
        return ERR_TOO_LONG;
    m = dlo__wire__request__unpack(&allocator, length, bytes);
    if (!m)
        return ERR_MALFORMED;
    ret->seq = m->seq;
    bad = m->seq == 0 ? "seq" : op_parse(m, ret);
    if (bad) {
        *ret_field = bad;
        return ERR_INVALID;
    }
    return 0;
}
