/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/proof.h"

#include "proto/base/bytes.h"

void proof_decided(struct proof_state *p, const struct answer *a, const struct boundary *b,
                   const struct sample *newest)
{
    p->reserved = p->cached = p->free = opt_none();
    p->awaits_sample = false;
    if (a->decision == DECISION_RETAIN)
        return;
    if (b->reserved.has && b->allocated.has) { /* a forced release is told without them */
        p->reserved = b->reserved;
        p->cached = opt_u64(bytes_sub_sat(b->reserved.v, b->allocated.v));
    }
    if (newest)
        p->free = newest->free;
}

void proof_asked(struct proof_state *p, struct opt_u64 reserved, struct opt_u64 allocated)
{
    p->reserved = p->cached = p->free = opt_none();
    if (!reserved.has || !allocated.has)
        return;
    p->reserved = reserved;
    p->cached = opt_u64(bytes_sub_sat(reserved.v, allocated.v));
}

bool proof_reported(struct proof_state *p, uint64_t reserved, uint64_t allocated, uint64_t us,
                    uint64_t now_ns)
{
    struct proof *s = &p->shown;
    bool is_empty = false;

    s->releases++;
    s->us = bytes_add_sat(s->us, us);
    s->last_us = us;
    s->cached = p->cached;
    s->residue = opt_u64(bytes_sub_sat(reserved, allocated));
    s->freed = s->sampled = opt_none();
    if (p->reserved.has) {
        s->freed = opt_u64(bytes_sub_sat(p->reserved.v, reserved));
        s->bytes = bytes_add_sat(s->bytes, s->freed.v);
        is_empty = proof_is_empty(s);
        s->empty += is_empty;
    }
    p->last_ns = now_ns;
    p->awaits_sample = p->free.has;
    p->reserved = p->cached = opt_none();
    return is_empty;
}

void proof_sampled(struct proof_state *p, const struct sample *sample, uint64_t now_ns)
{
    if (!p->awaits_sample || !sample->free.has || now_ns - p->last_ns < sample->age_ns)
        return; /* the third: it was taken before the report */
    p->shown.sampled = opt_u64(bytes_sub_sat(sample->free.v, p->free.v));
    p->awaits_sample = false;
}
