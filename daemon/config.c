/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <stddef.h>
#include <string.h>

#include "daemon/config_types.h"
#include "daemon/policy/policy.h"
#include "daemon/telemetry/gpu.h"
#include "proto/base/error.h"

#define MS 1000000ull /* ns */

/* Each has a test that crosses it. */
#define SOCKET_CHARS_MAX    103 /* sun_path without ".new", under which it is made, and NUL */
#define CLIENT_DEADLINE_NS  (250 * MS) /* of an ask; R9: a sample must be waited for less */
#define SAMPLE_MAX_AGE_MIN  (1 * MS)
#define SAMPLE_INTERVAL_MIN (250 * MS)   /* at most 4 samples a second that no ask needs */
#define RING_MIN            16384u       /* a segment has room for the longest lines of one event */
#define RING_MAX            (1ull << 30) /* it is allocated at the start */

enum reload { RELOAD, RESTART };

struct key {
    const char *name;
    const struct config_type *type;
    size_t offset, size;
    const char *dflt;
    enum reload reload;
    const char *doc;
};

static const struct key keys[] = {
#define KEY(name, type, dflt, reload, doc)                                                         \
    {                                                                                              \
        #name,                                                                                     \
        &config_type_##type,                                                                       \
        offsetof(struct config, name),                                                             \
        sizeof(config_##type),                                                                     \
        dflt,                                                                                      \
        reload,                                                                                    \
        doc},
#include "daemon/config.def"
#undef KEY
};

static void *field_of(struct config *c, const struct key *k)
{
    return (char *)c + k->offset;
}

static const void *const_field_of(const struct config *c, const struct key *k)
{
    return (const char *)c + k->offset;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;

    return ab < c ? ab : c;
}

#define KEY_CHARS_MAX 31 /* longer words are not compared */

/* How many letters to add, drop or change to turn one word into the other. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[KEY_CHARS_MAX + 1], n = strlen(b);

    if (n > KEY_CHARS_MAX || strlen(a) > KEY_CHARS_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t up = row[j];

            row[j] = smallest(up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[n];
}

static const struct key *nearest_key(const char *name)
{
    const struct key *best = NULL;
    size_t best_distance = 1 + (strlen(name) + 2) / 4; /* one letter in four may be wrong */

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        size_t d = edit_distance(name, keys[i].name);

        if (d <= best_distance) {
            best = &keys[i];
            best_distance = d - (d > 0);
        }
    }
    return best;
}

/* User text in an error: what is not printable becomes '?', and it ends somewhere. */
static void copy_shown(char *out, size_t size, const char *text)
{
    size_t n = 0;

    for (; text[n] && n < size - 1; n++)
        out[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? '?' : text[n];
    out[n] = '\0';
}

#define SHOWN_SIZE 80

static int unknown_key(const char *key, const char *where, char ret_error[CONFIG_ERROR_SIZE])
{
    const struct key *near = nearest_key(key);
    char shown[SHOWN_SIZE];

    copy_shown(shown, sizeof shown, key);
    if (near)
        snprintf(ret_error, CONFIG_ERROR_SIZE, "%.200s: there is no key %s (did you mean %s?)",
                 where, shown, near->name);
    else
        snprintf(ret_error, CONFIG_ERROR_SIZE,
                 "%.200s: there is no key %s (--print-config shows all)", where, shown);
    return ERR_INVALID;
}

int config_set(struct config *c, const char *key, const char *value, const char *where,
               char ret_error[CONFIG_ERROR_SIZE])
{
    const struct key *k = NULL;
    struct config scratch = *c;
    const char *why = "";
    char shown[SHOWN_SIZE];
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(keys) && !k; i++)
        if (strcmp(keys[i].name, key) == 0)
            k = &keys[i];
    if (!k)
        return unknown_key(key, where, ret_error);

    r = k->type->set(field_of(&scratch, k), value, &why);
    if (r == 0 && k->type == &config_type_COUNT && strcmp(key, "root_sessions") != 0 &&
        *(config_COUNT *)field_of(&scratch, k) == 0)
        r = ERR_INVALID;
    if (r == 0 && strcmp(key, "socket") == 0 && strlen(value) > SOCKET_CHARS_MAX) {
        why = "is longer than the 103 characters that a socket path may have";
        r = ERR_OVERFLOW;
    }
    if (r == 0) {
        *c = scratch;
        return 0;
    }
    copy_shown(shown, sizeof shown, value);
    snprintf(ret_error, CONFIG_ERROR_SIZE, "%.200s: %s = %s: %s", where, key, shown, why);
    return r;
}

void config_defaults(struct config *c)
{
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const char *why;

        if (keys[i].type->set(field_of(c, &keys[i]), keys[i].dflt, &why) < 0)
            __builtin_trap(); /* a wrong row in config.def; test_config reads them all */
    }
}

int config_validate(const struct config *c, char ret_error[CONFIG_ERROR_SIZE])
{
    const struct policy_settings s = {
        .margin = c->margin,
        .cap_fraction = c->cap_fraction,
        .min_free = c->min_free,
        .policy = c->policy,
        .mode = c->mode,
        .allow_never = c->allow_never,
    };
    const char *key = NULL, *why = NULL;
    struct gpu_spec spec;

    if (policy_check_settings(&s, &key) < 0) {
        why = "is out of range";
        if (c->policy == POLICY_NEVER && !c->allow_never)
            why = "policy = never needs allow_never = true";
        else if (strcmp(key, "margin") == 0)
            why = "must be from 1 to 1000000";
    } else if (c->sample_timeout == 0 || c->sample_timeout >= CLIENT_DEADLINE_NS) {
        key = "sample_timeout";
        why = "must be above 0 and below 250ms, the deadline of an ask";
    } else if (c->sample_max_age < SAMPLE_MAX_AGE_MIN) {
        key = "sample_max_age";
        why = "must be 1ms or more: no reading is younger";
    } else if (c->sample_interval < SAMPLE_INTERVAL_MIN) {
        key = "sample_interval";
        why = "must be 250ms or more";
    } else if (c->probe_timeout == 0 || c->hello_timeout == 0) {
        key = c->probe_timeout == 0 ? "probe_timeout" : "hello_timeout";
        why = "must be above 0";
    } else if (c->root_sessions >= c->max_sessions) {
        key = "root_sessions";
        why = "must be below max_sessions, so that others find a place";
    } else if (c->journal_ring < RING_MIN || c->journal_ring > RING_MAX) {
        key = "journal_ring";
        why = "must be from 16K to 1G";
    } else if (c->telemetry != BACKEND_WORKER && !c->gpu[0]) {
        key = "gpu";
        why = "is needed (set gpu, or telemetry = worker)";
    } else if (c->gpu[0] && gpu_spec_parse(c->gpu, &spec) < 0) {
        key = "gpu";
        why = "must be an index, minor:N, a whole GPU-... or MIG-... UUID, or a PCI id";
    }
    if (!key)
        return 0;
    snprintf(ret_error, CONFIG_ERROR_SIZE, "%s: %s", key, why);
    return ERR_INVALID;
}

const char *config_apply_reload(struct config *c, const struct config *fresh)
{
    const char *first = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct key *k = &keys[i];

        if (k->reload == RELOAD)
            memcpy(field_of(c, k), const_field_of(fresh, k), k->size);
        else if (!first && memcmp(const_field_of(c, k), const_field_of(fresh, k), k->size) != 0)
            first = k->name;
    }
    return first;
}

void config_print(const struct config *c, FILE *out)
{
    fputs("[dlod]\n", out);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        fprintf(out, "\n# %s\n%s = ", keys[i].doc, keys[i].name);
        keys[i].type->print(const_field_of(c, &keys[i]), out);
        fputc('\n', out);
    }
}

#define DOC_COLUMNS 92 /* of a terminal of 100, behind the indent */

/* Prints words in lines of at most DOC_COLUMNS. */
static void print_wrapped(const char *text, FILE *out)
{
    size_t column = 0;

    while (*text) {
        size_t n = strcspn(text, " ");

        if (column == 0 || column + 1 + n > DOC_COLUMNS) {
            fprintf(out, "%s        %.*s", column ? "\n" : "", (int)n, text);
            column = n;
        } else {
            fprintf(out, " %.*s", (int)n, text);
            column += 1 + n;
        }
        text += n + (text[n] == ' ');
    }
    fputc('\n', out);
}

void config_print_options(FILE *out)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct key *k = &keys[i];

        fputs("  --", out);
        for (const char *p = k->name; *p; p++)
            fputc(*p == '_' ? '-' : *p, out);
        fprintf(out, " %s%s%s%s\n", k->type->name, k->dflt[0] ? " (default " : "", k->dflt,
                k->dflt[0] ? ")" : "");
        print_wrapped(k->doc, out);
    }
}
