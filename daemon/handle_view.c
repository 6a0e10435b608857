/* SPDX-License-Identifier: Apache-2.0 */
/* What dlo-ctl pulls: status and events, one message a request, with a cursor. */
#include <stdio.h>
#include <string.h>

#include "daemon/dispatch.h"
#include "daemon/room.h"
#include "proto/base/error.h"

static void fill_daemon(const struct service *v, struct wire_daemon *d)
{
    *d = (struct wire_daemon){
        .pid = (uint32_t)getpid(),
        .uptime_ns = v->now_ns - v->started_ns,
        .mode = v->settings.mode,
        .policy = v->settings.policy,
        .margin = v->settings.margin,
        .cap_fraction = v->settings.cap_fraction,
        .min_free = v->settings.min_free,
        .sessions = v->session_count,
        .stagers = v->stager_count,
        .resuming = service_is_resuming(v),
        .rejected = v->rejected,
    };
    snprintf(d->version, sizeof(d->version), "%s", DLO_VERSION);
}

static void fill_device(const struct service *v, struct wire_device *d)
{
    struct opt_u64 total = service_device_total(v);
    const struct device_info *info;
    struct sample sample = {0};

    *d = (struct wire_device){0};
    if (total.has) {
        d->total = total;
        d->floor = opt_u64(policy_product(total.v, v->settings.min_free));
        d->cap = opt_u64(policy_product(total.v, v->settings.cap_fraction));
    }
    if (!v->sampler)
        return;
    info = sampler_device(v->sampler);
    sampler_describe(v->sampler, d->probe, sizeof(d->probe));
    if (info->known) {
        snprintf(d->uuid, sizeof(d->uuid), "%s", info->uuid);
        snprintf(d->name, sizeof(d->name), "%s", info->name);
        snprintf(d->pci, sizeof(d->pci), "%s", info->pci);
        d->minor = info->minor;
    }
    if (sampler_newest(v->sampler, v->now_ns, &sample)) {
        d->free = sample.free;
        d->total = sample.total;
        d->age_ns = opt_u64(sample.age_ns);
        d->source = sample.source;
    }
}

static void fill_row(const struct session *s, struct wire_row *row)
{
    const struct service *v = s->service;
    const struct policy_session *p = &s->policy;
    struct opt_u64 total = p->last.total;

    if (!total.has)
        total = service_device_total(v);
    *row = (struct wire_row){
        .session = p->number,
        .pid = (uint32_t)s->peer.pid,
        .uid = s->peer.uid,
        .features = s->features,
        .policy = policy_effective(&v->settings, p),
        .min_free = p->choice.has_min_free ? p->choice.min_free : v->settings.min_free,
        .state = p->state,
        .last = p->last,
        .last_age_ns = p->last.n > 0 ? v->now_ns - s->decided_ns : 0,
        .staged_bytes = p->ledger.staged_bytes,
        .stager_count = p->ledger.count,
        .proof = s->proof.shown,
        .habit = p->habit.kind,
        .cure = p->habit.cure,
        .room = room_of(s),
    };
    if (row->proof.releases > 0)
        row->proof.age_ns = v->now_ns - s->proof.last_ns;
    if (total.has)
        row->budget = opt_u64(policy_budget(&v->settings, p, total.v));
    memcpy(row->name, s->name, sizeof(row->name));
    memcpy(row->component, s->component, sizeof(row->component));
}

int handle_status(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;
    struct wire_status *page = &reply->u.status;
    struct opt_u64 only = request->u.status.session;
    uint64_t cursor = request->u.status.cursor;

    reply->body = WIRE_STATUS_PAGE;
    page->row_count = 0;
    page->more = false;
    page->cursor = cursor;
    page->has_daemon = cursor == 0;
    if (page->has_daemon)
        fill_daemon(v, &page->daemon);
    fill_device(v, &page->device);
    list_for_each(pos, tmp, &v->sessions)
    {
        const struct session *row = list_entry(pos, struct session, link);

        if (only.has ? row->policy.number != only.v : row->policy.number <= cursor)
            continue;
        if (page->row_count == WIRE_ROWS_MAX) {
            page->more = true;
            break;
        }
        fill_row(row, &page->rows[page->row_count++]);
        page->cursor = row->policy.number;
    }
    return only.has && page->row_count == 0 ? ERR_UNKNOWN_SESSION : 0;
}

bool view_events(struct service *v, uint64_t cursor, struct wire_reply *reply)
{
    struct wire_events *page = &reply->u.events;
    uint64_t first = journal_first(v->journal), next = journal_next(v->journal);
    size_t bytes = 0;

    /* 0 asks for the oldest; a cursor of a former daemon may lie ahead of ours */
    page->lost = cursor > 0 && cursor < first ? first - cursor : 0;
    if (cursor < first || cursor > next)
        cursor = first;
    page->end = next;
    page->line_count = 0;
    while (cursor < next && page->line_count < WIRE_LINES_MAX && bytes < LIMIT_MESSAGE_BYTES) {
        page->lines[page->line_count].text =
            journal_record(v->journal, cursor, &page->lines[page->line_count].length);
        bytes += page->lines[page->line_count++].length;
        cursor++;
    }
    page->cursor = cursor;
    reply->body = WIRE_EVENTS_PAGE;
    return page->line_count > 0;
}

int handle_events(struct session *s, const struct wire_request *request, struct wire_reply *reply)
{
    struct service *v = s->service;

    if (view_events(v, request->u.events.cursor, reply) || !request->u.events.wait)
        return 0;
    s->watch_seq = request->seq;
    s->watch_cursor = request->u.events.cursor;
    list_append(&v->watchers, &s->watch_link);
    return HANDLED_LATER;
}
