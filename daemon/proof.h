/* SPDX-License-Identifier: Apache-2.0 */
/* R26: what a release gave back, by the worker's own report and by the probe's samples. One struct
 * a session, fed with three events: a decision, the report that follows it, and samples. Knows no
 * session, clock or message. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/answer.h"

/* A sample before a release that is older says nothing about it (R22 takes the same figure). */
#define PROOF_SAMPLE_MAX_AGE_NS 1000000000u

struct proof_state {
    struct proof shown;
    struct opt_u64 reserved, cached; /* when the worker was last told to release, by its boundary */
    struct opt_u64 free;             /* what the newest sample said then */
    uint64_t last_ns;                /* of the last report */
    bool awaits_sample;              /* that report */
};

/* The worker was answered. newest: the probe's newest sample, NULL where there is none that is at
 * most a second old. */
void proof_decided(struct proof_state *p, const struct answer *a, const struct boundary *b,
                   const struct sample *newest);

/* It was told to release outside a boundary, when it held so much by its last report. */
void proof_asked(struct proof_state *p, struct opt_u64 reserved, struct opt_u64 allocated);

/* It has released. True when that gave nothing back, although there was something cached. */
bool proof_reported(struct proof_state *p, uint64_t reserved, uint64_t allocated, uint64_t us,
                    uint64_t now_ns);

/* A sample came; its age is as of now_ns. */
void proof_sampled(struct proof_state *p, const struct sample *sample, uint64_t now_ns);
