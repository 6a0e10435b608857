/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/wire/convert.h"

#include <string.h>

#include "proto/base/name.h"

ProtobufCBinaryData text_bytes(const char *text, size_t size)
{
    return (ProtobufCBinaryData){.len = strnlen(text, size), .data = (uint8_t *)(uintptr_t)text};
}

bool name_parse(protobuf_c_boolean has, const ProtobufCBinaryData *bytes, char out[LIMIT_NAME_SIZE])
{
    out[0] = '\0';
    if (!has)
        return true;
    if (!name_valid((const char *)bytes->data, bytes->len))
        return false;
    memcpy(out, bytes->data, bytes->len);
    out[bytes->len] = '\0';
    return true;
}

void text_parse(const ProtobufCBinaryData *bytes, char *out, size_t out_size)
{
    size_t length = bytes->len < out_size ? bytes->len : out_size - 1;

    for (size_t i = 0; i < bytes->len; i++) {
        if (bytes->data[i] < 0x20 || bytes->data[i] > 0x7e) {
            text_escape((const char *)bytes->data, bytes->len, out, out_size);
            return;
        }
    }
    if (length > 0)
        memcpy(out, bytes->data, length);
    out[length] = '\0';
}

bool term_known(const struct term *table, uint32_t value)
{
    return term_or_none(table, value) == value;
}

uint32_t term_or_none(const struct term *table, uint32_t value)
{
    for (; table->word; table++)
        if ((uint32_t)table->value == value)
            return value;
    return 0;
}

/* A list by number of the cause: what a newer peer has more is not read. */
static void list_parse(const uint64_t *from, size_t from_count, uint64_t *to, size_t to_count)
{
    for (size_t i = 0; i < to_count; i++)
        to[i] = i < from_count ? from[i] : 0;
}

static void counts_parse(const Dlo__Wire__Counts *m, struct counts *ret)
{
    ret->retained = m->retained;
    ret->cold_start_releases = m->cold_start_releases;
    ret->serving_releases = m->serving_releases;
    ret->uncovered = m->uncovered;
    list_parse(m->forced, m->n_forced, ret->forced, FORCE_MAX);
    list_parse(m->local, m->n_local, ret->local, CAUSE_MAX);
}

bool state_parse(const Dlo__Wire__State *m, struct resume *ret)
{
    *ret = (struct resume){
        .peak = m->peak,
        .n = m->n,
        .in_warmup = m->in_warmup != 0,
        .warmup_ended = m->warmup_ended != 0,
        .busy = m->busy != 0,
        .residue = GET_OPT(m, residue),
        .reserved = GET_OPT(m, reserved),
        .allocated = GET_OPT(m, allocated),
        .announced = GET_OPT(m, announced),
        .operator.cap_bytes = GET_OPT(m, cap),
        .operator.pin_bytes = GET_OPT(m, pin),
        .operator.priority = m->priority,
        .operator.revision = m->revision,
    };
    if (m->counts)
        counts_parse(m->counts, &ret->counts);
    return ret->operator.priority >= - PRIORITY_MAX && ret->operator.priority <= PRIORITY_MAX;
}

/* The length of a list without the zeros at its end. */
static size_t list_length(const uint64_t *list, size_t count)
{
    while (count > 0 && list[count - 1] == 0)
        count--;
    return count;
}

static void counts_fill(Dlo__Wire__Counts *m, const struct counts *counts)
{
    dlo__wire__counts__init(m);
    PUT(m, retained, counts->retained);
    PUT(m, cold_start_releases, counts->cold_start_releases);
    PUT(m, serving_releases, counts->serving_releases);
    PUT(m, uncovered, counts->uncovered);
    m->n_forced = list_length(counts->forced, FORCE_MAX);
    m->forced = (uint64_t *)(uintptr_t)counts->forced;
    m->n_local = list_length(counts->local, CAUSE_MAX);
    m->local = (uint64_t *)(uintptr_t)counts->local;
}

void state_fill(Dlo__Wire__State *m, Dlo__Wire__Counts *counts, const struct resume *state)
{
    dlo__wire__state__init(m);
    PUT(m, peak, state->peak);
    PUT(m, n, state->n);
    PUT(m, in_warmup, state->in_warmup);
    PUT(m, warmup_ended, state->warmup_ended);
    PUT(m, busy, state->busy);
    PUT_OPT(m, residue, state->residue);
    PUT_OPT(m, reserved, state->reserved);
    PUT_OPT(m, allocated, state->allocated);
    PUT_OPT(m, announced, state->announced);
    PUT_OPT(m, cap, state->operator.cap_bytes);
    PUT_OPT(m, pin, state->operator.pin_bytes);
    PUT(m, priority, state->operator.priority);
    PUT(m, revision, state->operator.revision);
    counts_fill(counts, &state->counts);
    m->counts = counts;
}

bool answer_parse(const Dlo__Wire__Answer *m, struct answer *ret)
{
    uint32_t would = m->has_would ? m->would : m->decision;

    *ret = (struct answer){
        .decision = (enum decision)m->decision,
        .would = (enum decision)term_or_none(decision_terms, would),
        .reason = (enum reason)term_or_none(reason_terms, m->reason),
        .cached = GET_OPT(m, cached),
        .free = GET_OPT(m, free),
        .total = GET_OPT(m, total),
        .age_ns = GET_OPT(m, age_ns),
        .floor = GET_OPT(m, floor),
        .cap = GET_OPT(m, cap),
        .budget = GET_OPT(m, budget),
        .capped = m->has_capped ? opt_u64(m->capped != 0) : opt_none(),
        .peak = m->peak,
        .learned = m->learned,
        .staged_bytes = m->staged,
        .stager_count = m->stagers,
        .warmup = m->warmup != 0,
        .session = m->session,
        .n = m->n,
    };
    return m->decision != DECISION_NONE && term_known(decision_terms, m->decision);
}

void answer_fill(Dlo__Wire__Answer *m, const struct answer *answer)
{
    dlo__wire__answer__init(m);
    PUT(m, decision, answer->decision);
    m->would = answer->would;
    m->has_would = answer->would != answer->decision;
    PUT(m, reason, answer->reason);
    PUT_OPT(m, cached, answer->cached);
    PUT_OPT(m, free, answer->free);
    PUT_OPT(m, total, answer->total);
    PUT_OPT(m, age_ns, answer->age_ns);
    PUT_OPT(m, floor, answer->floor);
    PUT_OPT(m, cap, answer->cap);
    PUT_OPT(m, budget, answer->budget);
    m->has_capped = answer->capped.has;
    m->capped = answer->capped.v != 0;
    PUT(m, peak, answer->peak);
    PUT(m, learned, answer->learned);
    PUT(m, staged, answer->staged_bytes);
    PUT(m, stagers, answer->stager_count);
    PUT(m, warmup, answer->warmup);
    PUT(m, session, answer->session);
    PUT(m, n, answer->n);
}
