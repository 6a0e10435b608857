/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/service.h"

#include <stdlib.h>
#include <time.h>

#include "daemon/log.h"
#include "daemon/room.h"
#include "daemon/session.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"
#include "proto/trace/trace.h"

/* A person can follow 20 lines a second; a hundred errors tell a storm from a slip, and all
 * sessions of a node may come, go and come back at once. */
#define LOG_RATE       20
#define MISTAKES_BURST 100
#define ARRIVALS_BURST 4096
#define NS_PER_S       1000000000ull

void service_init(struct service *v, const struct config *config, uint64_t now_ns)
{
    *v = (struct service){.config = config, .now_ns = now_ns, .started_ns = now_ns};
    list_init(&v->sessions);
    list_init(&v->watchers);
    list_init(&v->holders);
    v->mistakes = (struct log_bucket){MISTAKES_BURST, MISTAKES_BURST, now_ns, 0};
    v->arrivals = (struct log_bucket){ARRIVALS_BURST, ARRIVALS_BURST, now_ns, 0};
    service_apply_config(v);
    room_init(v);
}

static void put_config(const struct service *v, struct trace_writer *w)
{
    const struct policy_settings *s = &v->settings;

    trace_put_double(w, "margin", s->margin);
    trace_put_double(w, "cap_fraction", s->cap_fraction);
    trace_put_double(w, "min_free", s->min_free);
    trace_put_text(w, "policy", policy_word((int)s->policy));
    trace_put_u64(w, "allow_never", s->allow_never);
    trace_put_text(w, "mode", mode_word((int)s->mode));
    trace_put_time(w, "oom_wait", v->arbiter.limits.oom_wait_ns);
    trace_put_time(w, "dead_wait", v->arbiter.limits.dead_wait_ns);
    trace_put_time(w, "busy_wait", v->arbiter.limits.busy_wait_ns);
    trace_put_time(w, "sample_timeout", v->arbiter.limits.sample_timeout_ns);
    trace_put_u64(w, "quiet_reserve", v->arbiter.limits.quiet_reserve);
}

static void journal_config(const struct service *v, struct journal *j)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, line, sizeof(line), TRACE_CONFIG);
    put_config(v, &w);
    journal_append(j, line, trace_finish(&w));
}

void service_journal_sample(const struct service *v, const struct sample *sample, struct journal *j)
{
    char line[TRACE_LINE_MAX + 1];
    struct trace_writer w;

    trace_begin(&w, line, sizeof(line), TRACE_SAMPLE);
    trace_put_opt(&w, "free", sample->free);
    trace_put_opt(&w, "total", sample->total);
    if (sample->source != SOURCE_NONE)
        trace_put_text(&w, "source", source_word((int)sample->source));
    trace_put_time(&w, "t", v->now_ns);
    trace_put_time(&w, "age", sample->age_ns);
    journal_append(j, line, trace_finish(&w));
}

/* The sample that counts now (R9); that none does, too: the line before may be of an earlier run.
 */
static void journal_newest_sample(const struct service *v, struct journal *j)
{
    struct sample sample = {0};

    if (v->sampler && sampler_newest(v->sampler, v->now_ns, &sample) &&
        sample.age_ns > v->config->sample_max_age)
        sample = (struct sample){0};
    service_journal_sample(v, &sample, j);
}

void service_apply_config(struct service *v)
{
    const struct config *c = v->config;

    v->settings = (struct policy_settings){
        .margin = c->margin,
        .cap_fraction = c->cap_fraction,
        .min_free = c->min_free,
        .policy = c->policy,
        .mode = c->mode,
        .allow_never = c->allow_never,
    };
    v->arbiter.limits = room_limits(c);
    if (v->journal) {
        journal_reserve(v->journal);
        journal_config(v, v->journal);
        journal_newest_sample(v, v->journal); /* it may count again, by another sample_max_age */
    }
}

void service_done(struct service *v)
{
    list_for_each(pos, tmp, &v->holders)
    {
        struct holder *h = list_entry(pos, struct holder, link);

        list_remove(&h->link);
        free(h);
    }
}

static struct holder *find_holder(struct service *v, uid_t uid)
{
    list_for_each(pos, tmp, &v->holders)
    {
        struct holder *h = list_entry(pos, struct holder, link);

        if (h->uid == uid)
            return h;
    }
    return NULL;
}

int service_add_connection(struct service *v, const struct peer *peer, struct holder **ret_holder)
{
    const struct config *c = v->config;
    struct holder *h = find_holder(v, peer->uid);
    uint32_t limit = peer->uid == 0 ? c->max_sessions : c->max_sessions - c->root_sessions;

    if (v->connection_count >= limit)
        return ERR_BUSY;
    if (peer->uid != 0 && h && h->connections >= c->max_sessions_uid)
        return ERR_BUSY;
    if (!h) {
        h = calloc(1, sizeof(*h));
        if (!h)
            return ERR_NO_MEMORY;
        h->uid = peer->uid;
        list_append(&v->holders, &h->link);
    }
    h->connections++;
    v->connection_count++;
    *ret_holder = h;
    return 0;
}

void service_drop_connection(struct service *v, struct holder *h)
{
    v->connection_count--;
    if (--h->connections > 0)
        return;
    list_remove(&h->link);
    free(h);
}

int service_add_stager(struct service *v, const struct session *s)
{
    const struct config *c = v->config;

    if (s->policy.ledger.count >= c->max_stagers_session ||
        s->holder->stagers >= c->max_stagers_uid || v->stager_count >= c->max_stagers)
        return ERR_LIMIT;
    s->holder->stagers++;
    v->stager_count++;
    return 0;
}

void service_drop_stager(struct service *v, struct session *s)
{
    s->holder->stagers--;
    v->stager_count--;
}

bool service_is_resuming(const struct service *v)
{
    return v->now_ns - v->started_ns < v->config->resume_window;
}

bool service_may_log(const struct service *v, struct log_bucket *kind)
{
    uint64_t seconds = (v->now_ns - kind->refilled_ns) / NS_PER_S;

    if (seconds > 0) {
        kind->tokens = bytes_min(kind->burst, kind->tokens + seconds * LOG_RATE);
        kind->refilled_ns += seconds * NS_PER_S;
        if (kind->dropped > 0)
            log_line(LOG_LEVEL_WARNING, "", "%llu lines about peers were not written",
                     (unsigned long long)kind->dropped);
        kind->dropped = 0;
    }
    if (kind->tokens == 0) {
        kind->dropped++;
        return false;
    }
    kind->tokens--;
    return true;
}

void service_preamble(void *arg, struct journal *j)
{
    struct service *v = arg;
    char line[TRACE_LINE_MAX + 1], wall[32];
    struct trace_writer w;
    time_t now = time(NULL);
    struct tm tm;

    journal_config(v, j);
    gmtime_r(&now, &tm);
    strftime(wall, sizeof(wall), "%Y-%m-%dT%H:%M:%SZ", &tm);
    trace_begin(&w, line, sizeof(line), TRACE_CLOCK);
    trace_put_text(&w, "wall", wall);
    trace_put_time(&w, "t", v->now_ns);
    journal_append(j, line, trace_finish(&w));
    journal_newest_sample(v, j);
    room_journal(v, j);
    list_for_each(pos, tmp, &v->sessions)
        session_journal_state(list_entry(pos, struct session, link), j);
}

struct opt_u64 service_device_total(const struct service *v)
{
    struct sample sample = {0};

    if (!v->sampler)
        return opt_none();
    if (sampler_device(v->sampler)->known && sampler_device(v->sampler)->total.has)
        return sampler_device(v->sampler)->total;
    if (sampler_newest(v->sampler, v->now_ns, &sample))
        return sample.total;
    return opt_none();
}
