/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of status: bytes and counts as integers, times in seconds, what is missing as null. */
#include <jansson.h>

#include "client/ctl/ctl.h"
#include "proto/base/terms.h"

#define SCHEMA 1

static void put(json_t *o, const char *key, json_t *value)
{
    json_object_set_new(o, key, value); /* a NULL value fails here and shows as a missing key */
}

/* JSON's integers are signed: above 2^63-1 (the budget of policy never) the number is null. */
static json_t *number(uint64_t v)
{
    return v <= INT64_MAX ? json_integer((json_int_t)v) : json_null();
}

static json_t *optional(struct opt_u64 v)
{
    return v.has ? number(v.v) : json_null();
}

static json_t *seconds(uint64_t ns)
{
    return json_real((double)ns / 1e9);
}

static json_t *text(const char *t)
{
    return t[0] ? json_string(t) : json_null();
}

static json_t *daemon_object(const struct wire_daemon *d)
{
    json_t *o = json_object();

    put(o, "version", text(d->version));
    put(o, "pid", number(d->pid));
    put(o, "uptime_seconds", seconds(d->uptime_ns));
    put(o, "mode", json_string(mode_word((int)d->mode)));
    put(o, "policy", json_string(policy_word((int)d->policy)));
    put(o, "margin", json_real(d->margin));
    put(o, "cap_fraction", json_real(d->cap_fraction));
    put(o, "min_free", json_real(d->min_free));
    put(o, "sessions", number(d->sessions));
    put(o, "stagers", number(d->stagers));
    put(o, "resuming", json_boolean(d->resuming));
    put(o, "refused", number(d->rejected));
    return o;
}

static json_t *device_object(const struct wire_device *d)
{
    json_t *o = json_object();

    put(o, "uuid", text(d->uuid));
    put(o, "name", text(d->name));
    put(o, "pci", text(d->pci));
    put(o, "minor", optional(d->minor));
    put(o, "free", optional(d->free));
    put(o, "total", optional(d->total));
    put(o, "sample_age_seconds", d->age_ns.has ? seconds(d->age_ns.v) : json_null());
    put(o, "source", json_string(source_word((int)d->source)));
    put(o, "floor", optional(d->floor));
    put(o, "cap", optional(d->cap));
    put(o, "probe", text(d->probe));
    return o;
}

static json_t *counts_object(const struct term *terms, const uint64_t *counts)
{
    json_t *o = json_object();

    for (; terms->word; terms++)
        put(o, terms->word, number(counts[terms->value]));
    return o;
}

static json_t *answer_object(const struct wire_row *row)
{
    const struct answer *a = &row->last;
    json_t *o;

    if (a->n == 0)
        return json_null();
    o = json_object();
    put(o, "decision", json_string(decision_word((int)a->decision)));
    put(o, "would", json_string(decision_word((int)a->would)));
    put(o, "reason", json_string(reason_word((int)a->reason)));
    put(o, "component", text(row->component));
    put(o, "seconds_ago", seconds(row->last_age_ns));
    put(o, "cached", optional(a->cached));
    put(o, "free", optional(a->free));
    put(o, "total", optional(a->total));
    put(o, "age_seconds", a->age_ns.has ? seconds(a->age_ns.v) : json_null());
    put(o, "floor", optional(a->floor));
    put(o, "cap", optional(a->cap));
    put(o, "budget", optional(a->budget));
    put(o, "capped", a->capped.has ? json_boolean(a->capped.v) : json_null());
    put(o, "peak", number(a->peak));
    put(o, "learned", number(a->learned));
    put(o, "staged", number(a->staged_bytes));
    put(o, "stagers", number(a->stager_count));
    put(o, "warmup", json_boolean(a->warmup));
    put(o, "n", number(a->n));
    return o;
}

static void put_state(json_t *o, const struct resume *st)
{
    put(o, "peak", number(st->peak));
    put(o, "decisions", number(st->n));
    put(o, "in_warmup", json_boolean(st->in_warmup));
    put(o, "warmup_ended", json_boolean(st->warmup_ended));
    put(o, "busy", json_boolean(st->busy));
    put(o, "reserved", optional(st->reserved));
    put(o, "allocated", optional(st->allocated));
    put(o, "cached",
        st->reserved.has && st->allocated.has
            ? number(bytes_sub_sat(st->reserved.v, st->allocated.v))
            : json_null());
    put(o, "residue", optional(st->residue));
    put(o, "retained", number(st->counts.retained));
    put(o, "cold_start_releases", number(st->counts.cold_start_releases));
    put(o, "serving_releases", number(st->counts.serving_releases));
    put(o, "uncovered", number(st->counts.uncovered));
    put(o, "forced", counts_object(force_terms, st->counts.forced));
    put(o, "local", counts_object(cause_terms, st->counts.local));
}

/* R26; null before the first report */
static json_t *proof_object(const struct proof *p)
{
    json_t *o, *last;

    if (p->releases == 0)
        return json_null();
    o = json_object();
    put(o, "releases", number(p->releases));
    put(o, "empty", number(p->empty));
    put(o, "released_bytes", number(p->bytes));
    put(o, "release_us", number(p->us));
    last = json_object();
    put(last, "cached", optional(p->cached));
    put(last, "freed", optional(p->freed));
    put(last, "sampled", optional(p->sampled));
    put(last, "residue", optional(p->residue));
    put(last, "us", number(p->last_us));
    put(last, "age_ns", number(p->age_ns));
    put(o, "last", last);
    return o;
}

/* R20 to R24a */
static void put_room(json_t *o, const struct room *r)
{
    put(o, "readiness", json_string(readiness_word((int)r->readiness)));
    put(o, "claim", number(r->claim_bytes));
    put(o, "asked", r->asked_event ? number(r->asked_event) : json_null());
    put(o, "late", json_boolean(r->is_late));
    put(o, "need", number(r->need_bytes));
    put(o, "waits", number(r->waits_bytes));
    put(o, "held", number(r->held_bytes));
    put(o, "term_seconds", r->held_bytes ? seconds(r->term_ns) : json_null());
    put(o, "lease", r->lease ? json_string(lease_word((int)r->lease)) : json_null());
    put(o, "lease_term_seconds", r->lease ? seconds(r->lease_term_ns) : json_null());
    put(o, "quiet_seconds", r->quiet_ns ? seconds(r->quiet_ns) : json_null());
    put(o, "waits_for", r->waits_for ? json_string(lease_word((int)r->waits_for)) : json_null());
    put(o, "wait_seconds", r->wait_ns ? seconds(r->wait_ns) : json_null());
}

/* R31 */
static void put_operator(json_t *o, const struct operator_settings *s)
{
    put(o, "cap", optional(s->cap_bytes));
    put(o, "pin", optional(s->pin_bytes));
    put(o, "priority", json_integer(s->priority));
    put(o, "revision", number(s->revision));
}

static json_t *row_object(const struct wire_row *row)
{
    json_t *o = json_object();

    put(o, "session", number(row->session));
    put(o, "name", text(row->name));
    put(o, "pid", number(row->pid));
    put(o, "uid", number(row->uid));
    put(o, "policy", json_string(policy_word((int)row->policy)));
    put(o, "min_free", json_real(row->min_free));
    put(o, "stagers", number(row->stager_count));
    put(o, "staged", number(row->staged_bytes));
    put(o, "budget", optional(row->budget));
    put_state(o, &row->state);
    put(o, "proof", proof_object(&row->proof));
    put(o, "habit", row->habit ? json_string(habit_word((int)row->habit)) : json_null());
    put(o, "cure", row->cure ? json_string(cure_word((int)row->cure)) : json_null());
    put_room(o, &row->room);
    put_operator(o, &row->state.operator);
    put(o, "last", answer_object(row));
    return o;
}

int ctl_print_status_json(const struct ctl_status *st)
{
    json_t *root = json_object(), *rows = json_array();
    int r;

    put(root, "schema", json_integer(SCHEMA));
    put(root, "daemon", daemon_object(&st->daemon));
    put(root, "device", device_object(&st->device));
    for (size_t i = 0; i < st->row_count; i++)
        json_array_append_new(rows, row_object(&st->rows[i]));
    put(root, "sessions", rows);
    r = json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(root);
    printf("\n");
    return r < 0 ? CTL_EXIT_FAILURE : CTL_EXIT_OK;
}
