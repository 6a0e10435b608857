/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

/* One message of each kind on the stack: a request points to the one it carries. */
union op_memory {
    struct {
        Dlo__Wire__Hello hello;
        Dlo__Wire__State state;
        Dlo__Wire__Counts counts;
    } hello;
    Dlo__Wire__Attach attach;
    Dlo__Wire__Detach detach;
    Dlo__Wire__SetPeak set_peak;
    Dlo__Wire__Warmup warmup;
    Dlo__Wire__Busy busy;
    Dlo__Wire__Ask ask;
    Dlo__Wire__Released released;
    struct {
        Dlo__Wire__Resume resume;
        Dlo__Wire__State state;
        Dlo__Wire__Counts counts;
    } resume;
    Dlo__Wire__StatusRequest status;
    Dlo__Wire__EventsRequest events;
    Dlo__Wire__Idle idle;
    Dlo__Wire__Oom oom;
    Dlo__Wire__Reclaimed reclaimed;
    Dlo__Wire__Set set;
    Dlo__Wire__Vacate vacate;
    Dlo__Wire__Lease lease;
    Dlo__Wire__Unlease unlease;
};

static void hello_fill(union op_memory *op, const struct wire_hello *hello)
{
    Dlo__Wire__Hello *m = &op->hello.hello;

    dlo__wire__hello__init(m);
    PUT_ALWAYS(m, min_version, hello->min_version);
    PUT_ALWAYS(m, max_version, hello->max_version);
    PUT(m, features, hello->features);
    PUT(m, observer, hello->observer);
    PUT_TEXT(m, name, hello->name);
    PUT(m, policy, hello->policy);
    m->has_min_free = hello->has_min_free;
    m->min_free = hello->min_free;
    PUT(m, stage_end, hello->stage_end);
    PUT(m, mode, hello->mode);
    PUT_TEXT(m, group, hello->group);
    PUT(m, rank, hello->rank);
    PUT(m, world, hello->world);
    if (hello->has_state) {
        state_fill(&op->hello.state, &op->hello.counts, &hello->state);
        m->state = &op->hello.state;
    }
}

static void ask_fill(Dlo__Wire__Ask *m, const struct boundary *ask)
{
    dlo__wire__ask__init(m);
    PUT_OPT(m, reserved, ask->reserved);
    PUT_OPT(m, allocated, ask->allocated);
    PUT_OPT(m, releasable, ask->releasable);
    PUT_OPT(m, free, ask->free);
    PUT_OPT(m, total, ask->total);
    PUT(m, force, ask->force);
    PUT_TEXT(m, component, ask->component);
}

static void busy_fill(Dlo__Wire__Busy *m, const struct wire_request *request)
{
    dlo__wire__busy__init(m);
    PUT_ALWAYS(m, phase, request->u.busy.phase);
    PUT_OPT(m, need, request->u.busy.need);
    PUT_OPT(m, reserved, request->u.busy.reserved);
    PUT_OPT(m, allocated, request->u.busy.allocated);
    PUT_OPT(m, wait_ns, request->u.busy.wait_ns);
}

static void idle_fill(Dlo__Wire__Idle *m, const struct wire_request *request)
{
    dlo__wire__idle__init(m);
    PUT_ALWAYS(m, phase, request->u.idle.phase);
    PUT(m, background, request->u.idle.background);
}

static void oom_fill(Dlo__Wire__Oom *m, const struct wire_request *request)
{
    dlo__wire__oom__init(m);
    PUT_ALWAYS(m, need, request->u.oom.need);
    PUT_OPT(m, reserved, request->u.oom.reserved);
    PUT_OPT(m, allocated, request->u.oom.allocated);
}

static void reclaimed_fill(Dlo__Wire__Reclaimed *m, const struct wire_request *request)
{
    dlo__wire__reclaimed__init(m);
    PUT_ALWAYS(m, call, request->u.reclaimed.call);
    PUT(m, refusal, request->u.reclaimed.refusal);
    PUT_OPT(m, reserved, request->u.reclaimed.reserved);
    PUT_OPT(m, allocated, request->u.reclaimed.allocated);
    PUT(m, us, request->u.reclaimed.us);
}

static void released_fill(Dlo__Wire__Released *m, const struct wire_request *request)
{
    dlo__wire__released__init(m);
    PUT_ALWAYS(m, reserved, request->u.released.reserved);
    PUT_ALWAYS(m, allocated, request->u.released.allocated);
    PUT(m, us, request->u.released.us);
}

static void set_fill(Dlo__Wire__Set *m, const struct wire_request *request)
{
    const struct operator_change *c = &request->u.set.change;

    dlo__wire__set__init(m);
    PUT_ALWAYS(m, session, request->u.set.session);
    PUT_ALWAYS(m, revision, c->revision);
    if (c->has_cap)
        PUT_OPT(m, cap, c->cap_bytes);
    if (c->has_pin)
        PUT_OPT(m, pin, c->pin_bytes);
    m->has_priority = c->has_priority;
    m->priority = c->priority;
    PUT(m, no_cap, c->has_cap && !c->cap_bytes.has);
    PUT(m, no_pin, c->has_pin && !c->pin_bytes.has);
}

static void vacate_fill(Dlo__Wire__Vacate *m, const struct wire_request *request)
{
    dlo__wire__vacate__init(m);
    m->has_bytes = request->u.vacate.bytes != UINT64_MAX;
    m->bytes = request->u.vacate.bytes;
    PUT(m, session, request->u.vacate.session);
    PUT(m, only_ready, request->u.vacate.only_ready);
}

static void lease_fill(Dlo__Wire__Lease *m, const struct wire_request *request)
{
    dlo__wire__lease__init(m);
    PUT_ALWAYS(m, kind, request->u.lease.kind);
    PUT(m, bytes, request->u.lease.bytes);
    PUT(m, wait_ns, request->u.lease.wait_ns);
    PUT(m, term_ns, request->u.lease.term_ns);
    PUT(m, quiet_ns, request->u.lease.quiet_ns);
}

static void status_fill(Dlo__Wire__StatusRequest *m, const struct wire_request *request)
{
    dlo__wire__status_request__init(m);
    PUT(m, cursor, request->u.status.cursor);
    PUT_OPT(m, session, request->u.status.session);
}

static void events_fill(Dlo__Wire__EventsRequest *m, const struct wire_request *request)
{
    dlo__wire__events_request__init(m);
    PUT(m, cursor, request->u.events.cursor);
    PUT(m, wait, request->u.events.wait);
}

static void attach_fill(Dlo__Wire__Attach *m, const struct wire_request *request)
{
    dlo__wire__attach__init(m);
    PUT_TEXT(m, id, request->u.attach.id);
    PUT_ALWAYS(m, bytes, request->u.attach.staged_bytes);
}

/* Points the oneof of m to a filled message in op. */
#define SET_OP(m, NAME, member, message)                                                           \
    do {                                                                                           \
        (m)->op_case = DLO__WIRE__REQUEST__OP_##NAME;                                              \
        (m)->member = (message);                                                                   \
    } while (0)

static void more_op_fill(Dlo__Wire__Request *m, union op_memory *op, const struct wire_request *r)
{
    switch (r->op) {
    case WIRE_HELLO:
        hello_fill(op, &r->u.hello);
        SET_OP(m, HELLO, hello, &op->hello.hello);
        break;
    case WIRE_RESUME:
        dlo__wire__resume__init(&op->resume.resume);
        state_fill(&op->resume.state, &op->resume.counts, &r->u.resume.state);
        op->resume.resume.state = &op->resume.state;
        SET_OP(m, RESUME, resume, &op->resume.resume);
        break;
    case WIRE_IDLE:
        idle_fill(&op->idle, r);
        SET_OP(m, IDLE, idle, &op->idle);
        break;
    case WIRE_OOM:
        oom_fill(&op->oom, r);
        SET_OP(m, OOM, oom, &op->oom);
        break;
    case WIRE_RECLAIMED:
        reclaimed_fill(&op->reclaimed, r);
        SET_OP(m, RECLAIMED, reclaimed, &op->reclaimed);
        break;
    case WIRE_SET:
        set_fill(&op->set, r);
        SET_OP(m, SET, set, &op->set);
        break;
    case WIRE_VACATE:
        vacate_fill(&op->vacate, r);
        SET_OP(m, VACATE, vacate, &op->vacate);
        break;
    case WIRE_LEASE:
        lease_fill(&op->lease, r);
        SET_OP(m, LEASE, lease, &op->lease);
        break;
    case WIRE_UNLEASE:
        dlo__wire__unlease__init(&op->unlease);
        PUT_ALWAYS(&op->unlease, kind, r->u.lease.kind);
        SET_OP(m, UNLEASE, unlease, &op->unlease);
        break;
    default:
        break; /* a request without an op, which every daemon answers with unsupported */
    }
}

static void op_fill(Dlo__Wire__Request *m, union op_memory *op, const struct wire_request *r)
{
    switch (r->op) {
    case WIRE_ATTACH:
        attach_fill(&op->attach, r);
        SET_OP(m, ATTACH, attach, &op->attach);
        break;
    case WIRE_DETACH:
        dlo__wire__detach__init(&op->detach);
        PUT_TEXT(&op->detach, id, r->u.detach.id);
        SET_OP(m, DETACH, detach, &op->detach);
        break;
    case WIRE_SET_PEAK:
        dlo__wire__set_peak__init(&op->set_peak);
        PUT_ALWAYS(&op->set_peak, peak, r->u.set_peak.peak);
        SET_OP(m, SET_PEAK, set_peak, &op->set_peak);
        break;
    case WIRE_WARMUP:
        dlo__wire__warmup__init(&op->warmup);
        PUT_ALWAYS(&op->warmup, phase, r->u.warmup.phase);
        SET_OP(m, WARMUP, warmup, &op->warmup);
        break;
    case WIRE_BUSY:
        busy_fill(&op->busy, r);
        SET_OP(m, BUSY, busy, &op->busy);
        break;
    case WIRE_ASK:
        ask_fill(&op->ask, &r->u.ask);
        SET_OP(m, ASK, ask, &op->ask);
        break;
    case WIRE_RELEASED:
        released_fill(&op->released, r);
        SET_OP(m, RELEASED, released, &op->released);
        break;
    case WIRE_STATUS:
        status_fill(&op->status, r);
        SET_OP(m, STATUS, status, &op->status);
        break;
    case WIRE_EVENTS:
        events_fill(&op->events, r);
        SET_OP(m, EVENTS, events, &op->events);
        break;
    default:
        more_op_fill(m, op, r);
    }
}

size_t wire_encode_request(const struct wire_request *request, uint8_t *out)
{
    Dlo__Wire__Request m = DLO__WIRE__REQUEST__INIT;
    union op_memory op;

    m.seq = request->seq;
    op_fill(&m, &op, request);
    return dlo__wire__request__pack(&m, out);
}
