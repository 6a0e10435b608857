/* SPDX-License-Identifier: Apache-2.0 */
/* Mode off (R30): every call succeeds and does nothing. */
#include "client/lib/link.h"

#include <stdlib.h>

#include "proto/base/error.h"

static void null_free(struct link *l)
{
    free(l);
}

static int null_attach(struct link *l, const char *id, uint64_t bytes, uint64_t deadline_ns)
{
    (void)l, (void)id, (void)bytes, (void)deadline_ns;
    return 0;
}

static int null_detach(struct link *l, const char *id, uint64_t deadline_ns)
{
    (void)l, (void)id, (void)deadline_ns;
    return 0;
}

static int null_set_peak(struct link *l, uint64_t peak_bytes, uint64_t deadline_ns)
{
    (void)l, (void)peak_bytes, (void)deadline_ns;
    return 0;
}

static int null_warmup(struct link *l, enum phase phase, uint64_t deadline_ns)
{
    (void)l, (void)phase, (void)deadline_ns;
    return 0;
}

static int null_busy(struct link *l, enum phase phase, const struct dlo_report *report,
                     uint64_t deadline_ns, struct answer *ret)
{
    (void)l, (void)phase, (void)report, (void)deadline_ns;
    *ret = (struct answer){0};
    return 0;
}

static void null_ask(struct link *l, const struct boundary *b, uint64_t deadline_ns,
                     struct answer *ret, enum cause *ret_cause)
{
    (void)l, (void)b, (void)deadline_ns;
    *ret = (struct answer){.decision = DECISION_KEEP, .would = DECISION_KEEP};
    *ret_cause = CAUSE_NONE;
}

static int null_forced(struct link *l, const struct boundary *b)
{
    (void)l, (void)b;
    return 0;
}

static int null_released(struct link *l, uint64_t reserved, uint64_t allocated, uint64_t us)
{
    (void)l, (void)reserved, (void)allocated, (void)us;
    return 0;
}

static int null_oom(struct link *l, uint64_t need_bytes, uint64_t deadline_ns,
                    uint64_t *ret_wait_ns)
{
    (void)l, (void)need_bytes, (void)deadline_ns, (void)ret_wait_ns;
    return ERR_NO_DAEMON;
}

static int null_reserve(struct link *l, uint64_t bytes, uint64_t wait_ns, uint64_t term_ns,
                        uint64_t deadline_ns)
{
    (void)l, (void)bytes, (void)wait_ns, (void)term_ns, (void)deadline_ns;
    return ERR_NO_DAEMON;
}

static int null_unreserve(struct link *l, uint64_t deadline_ns)
{
    (void)l, (void)deadline_ns;
    return 0;
}

static void null_abandon(struct link *l)
{
    (void)l;
}

static void null_idle(struct link *l, enum phase phase, uint64_t deadline_ns)
{
    (void)l, (void)phase, (void)deadline_ns;
}

static void null_look(struct link *l, struct link_look *ret)
{
    (void)l;
    *ret = (struct link_look){.fd = -1, .next_ns = UINT64_MAX};
}

static void null_reclaimed(struct link *l, uint64_t call, enum refusal refusal, uint64_t reserved,
                           uint64_t allocated, uint64_t us)
{
    (void)l, (void)call, (void)refusal, (void)reserved, (void)allocated, (void)us;
}

static uint64_t null_cap(struct link *l, uint64_t total_bytes)
{
    (void)l, (void)total_bytes;
    return DLO_MISSING;
}

static void null_describe(struct link *l, struct dlo_info *info)
{
    (void)l;
    info->mode = MODE_OFF;
}

static const struct link_ops null_ops = {
    .free = null_free,
    .attach = null_attach,
    .detach = null_detach,
    .set_peak = null_set_peak,
    .warmup = null_warmup,
    .busy = null_busy,
    .ask = null_ask,
    .forced = null_forced,
    .released = null_released,
    .oom = null_oom,
    .reserve = null_reserve,
    .unreserve = null_unreserve,
    .abandon = null_abandon,
    .idle = null_idle,
    .look = null_look,
    .reclaimed = null_reclaimed,
    .cap = null_cap,
    .describe = null_describe,
};

struct link *link_null_new(void)
{
    struct link *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    l->ops = &null_ops;
    atomic_init(&l->mode, MODE_OFF);
    return l;
}
