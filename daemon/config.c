/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "daemon/policy/policy.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

#define MS 1000000ull /* ns */

/* Each has a test that crosses it. */
#define VALUE_CHARS_MAX     170     /* with the longest key it fits a line of inih */
#define SOCKET_CHARS_MAX    107     /* sun_path without its NUL */
#define COUNT_MAX           1000000 /* sessions or stagers: gigabytes of host memory */
#define DURATION_MAX_NS     (24ull * 3600 * 1000 * MS) /* above a day it is a slip */
#define BYTES_MAX           (1ull << 40)               /* above 1T it is a slip */
#define CLIENT_DEADLINE_NS  (250 * MS)   /* of an ask; R9: a sample must be waited for less */
#define SAMPLE_INTERVAL_MIN (250 * MS)   /* at most 4 samples a second that no ask needs */
#define RING_MIN            4096u        /* one long event fits */
#define RING_MAX            (1ull << 30) /* it is allocated at the start */

static const struct term backend_terms[] = {
    {BACKEND_AUTO, "auto"},
    {BACKEND_NVML, "nvml"},
    {BACKEND_CUDA, "cuda"},
    {BACKEND_WORKER, "worker"},
    {0, NULL},
};

static const struct term level_terms[] = {
    {LOG_LEVEL_ERROR, "error"}, {LOG_LEVEL_WARNING, "warning"}, {LOG_LEVEL_NOTICE, "notice"},
    {LOG_LEVEL_INFO, "info"},   {LOG_LEVEL_DEBUG, "debug"},     {0, NULL},
};

/* ---- types: each reads text into a field, saying why it cannot, and prints the field ---- */

#define WHY_FRACTION    "must be from 0 to 1 (for example 0.25)"
#define WHY_MARGIN      "must be 1 or more (for example 1.25)"
#define WHY_BYTES       "is not a size (write for example 64M; at most 1T)"
#define WHY_DURATION    "is not a time (write for example 50ms or 2s; at most 24h)"
#define WHY_COUNT       "must be a number from 1 to 1000000"
#define WHY_BOOL        "must be true or false"
#define WHY_PERMISSIONS "must be four octal digits (for example 0660)"
#define WHY_TEXT        "must not have control characters, ';', or spaces at its ends"

static int set_fraction(void *field, const char *value, const char **ret_why)
{
    double v;
    int r = parse_double(value, &v);

    *ret_why = WHY_FRACTION;
    if (r < 0)
        return r;
    if (!(v >= 0 && v <= 1))
        return ERR_INVALID;
    *(config_FRACTION *)field = v;
    return 0;
}

static int set_margin(void *field, const char *value, const char **ret_why)
{
    double v;
    int r = parse_double(value, &v);

    *ret_why = WHY_MARGIN;
    if (r < 0)
        return r;
    if (!(v >= 1))
        return ERR_INVALID;
    *(config_MARGIN *)field = v;
    return 0;
}

static int set_within(uint64_t *field, int r, uint64_t v, uint64_t max)
{
    if (r < 0)
        return r;
    if (v > max)
        return ERR_OVERFLOW;
    *field = v;
    return 0;
}

static int set_bytes(void *field, const char *value, const char **ret_why)
{
    uint64_t v = 0;
    int r = parse_size(value, &v);

    *ret_why = WHY_BYTES;
    return set_within(field, r, v, BYTES_MAX);
}

static int set_duration(void *field, const char *value, const char **ret_why)
{
    uint64_t v = 0;
    int r = parse_duration(value, &v);

    *ret_why = WHY_DURATION;
    return set_within(field, r, v, DURATION_MAX_NS);
}

/* 0 passes here; config_set refuses it for all counts but root_sessions. */
static int set_count(void *field, const char *value, const char **ret_why)
{
    uint64_t v = 0;
    int r = parse_u64(value, &v);

    *ret_why = WHY_COUNT;
    r = set_within(&v, r, v, COUNT_MAX);
    if (r == 0)
        *(config_COUNT *)field = (config_COUNT)v;
    return r;
}

static int set_bool(void *field, const char *value, const char **ret_why)
{
    *ret_why = WHY_BOOL;
    return parse_bool(value, field);
}

static int set_permissions(void *field, const char *value, const char **ret_why)
{
    config_PERMISSIONS v = 0;

    *ret_why = WHY_PERMISSIONS;
    if (strlen(value) != 4 || value[0] != '0' || strspn(value, "01234567") != 4)
        return ERR_INVALID;
    for (const char *p = value; *p; p++)
        v = v * 8 + (config_PERMISSIONS)(*p - '0');
    *(config_PERMISSIONS *)field = v;
    return 0;
}

/* What --print-config writes must read back alike, so what inih would strip is refused. */
static int set_text(void *field, const char *value, const char **ret_why)
{
    size_t n = strlen(value);

    *ret_why = WHY_TEXT;
    if (n > VALUE_CHARS_MAX) {
        *ret_why = "is longer than 170 characters";
        return ERR_OVERFLOW;
    }
    if (n > 0 && (value[0] == ' ' || value[n - 1] == ' '))
        return ERR_INVALID;
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if (*p < 0x20 || *p == 0x7f || *p == ';')
            return ERR_INVALID;
    memset(field, 0, CONFIG_TEXT_SIZE);
    memcpy(field, value, n);
    return 0;
}

static int set_mode(void *field, const char *value, const char **ret_why)
{
    int v = term_value(mode_terms, value);

    *ret_why = "must be on, shadow or off";
    if (v == MODE_NONE)
        return ERR_INVALID;
    *(config_MODE *)field = (config_MODE)v;
    return 0;
}

static int set_policy(void *field, const char *value, const char **ret_why)
{
    int v = term_value(policy_terms, value);

    *ret_why = "must be learned, fixed, always or never";
    if (v == POLICY_DEMAND)
        *ret_why = "is planned, not built yet (use learned, fixed, always or never)";
    if (v == POLICY_NONE || v == POLICY_DEMAND)
        return ERR_INVALID;
    *(config_POLICY *)field = (config_POLICY)v;
    return 0;
}

/* Tables in which 0 is a value. */
static const struct term *find_word(const struct term *table, const char *word)
{
    for (; table->word; table++)
        if (strcmp(table->word, word) == 0)
            return table;
    return NULL;
}

static int set_backend(void *field, const char *value, const char **ret_why)
{
    const struct term *t = find_word(backend_terms, value);

    *ret_why = "must be auto, nvml, cuda or worker";
    if (!t)
        return ERR_INVALID;
    *(config_BACKEND *)field = (config_BACKEND)t->value;
    return 0;
}

static int set_level(void *field, const char *value, const char **ret_why)
{
    const struct term *t = find_word(level_terms, value);

    *ret_why = "must be error, warning, notice, info or debug";
    if (!t)
        return ERR_INVALID;
    *(config_LEVEL *)field = (config_LEVEL)t->value;
    return 0;
}

static void print_double(const void *field, FILE *out)
{
    char text[PARSE_TEXT_MAX];

    format_double(*(const double *)field, text);
    fputs(text, out);
}

static void print_bytes(const void *field, FILE *out)
{
    char text[PARSE_TEXT_MAX];

    format_size(*(const config_BYTES *)field, text);
    fputs(text, out);
}

static void print_duration(const void *field, FILE *out)
{
    char text[PARSE_TEXT_MAX];

    format_duration(*(const config_DURATION *)field, text);
    fputs(text, out);
}

static void print_count(const void *field, FILE *out)
{
    fprintf(out, "%" PRIu32, *(const config_COUNT *)field);
}

static void print_bool(const void *field, FILE *out)
{
    fputs(*(const bool *)field ? "true" : "false", out);
}

static void print_permissions(const void *field, FILE *out)
{
    fprintf(out, "%04" PRIo32, *(const config_PERMISSIONS *)field);
}

static void print_text(const void *field, FILE *out)
{
    fputs(field, out);
}

static void print_mode(const void *field, FILE *out)
{
    fputs(mode_word((int)*(const config_MODE *)field), out);
}

static void print_policy(const void *field, FILE *out)
{
    fputs(policy_word((int)*(const config_POLICY *)field), out);
}

static void print_backend(const void *field, FILE *out)
{
    fputs(term_word(backend_terms, (int)*(const config_BACKEND *)field), out);
}

static void print_level(const void *field, FILE *out)
{
    fputs(term_word(level_terms, (int)*(const config_LEVEL *)field), out);
}

struct type {
    const char *name; /* in --help */
    int (*set)(void *field, const char *value, const char **ret_why);
    void (*print)(const void *field, FILE *out);
};

static const struct type type_FRACTION = {"FRACTION", set_fraction, print_double};
static const struct type type_MARGIN = {"NUMBER", set_margin, print_double};
static const struct type type_BYTES = {"SIZE", set_bytes, print_bytes};
static const struct type type_DURATION = {"TIME", set_duration, print_duration};
static const struct type type_COUNT = {"COUNT", set_count, print_count};
static const struct type type_BOOL = {"BOOL", set_bool, print_bool};
static const struct type type_PATH = {"PATH", set_text, print_text};
static const struct type type_TEXT = {"TEXT", set_text, print_text};
static const struct type type_MODE = {"MODE", set_mode, print_mode};
static const struct type type_POLICY = {"POLICY", set_policy, print_policy};
static const struct type type_BACKEND = {"BACKEND", set_backend, print_backend};
static const struct type type_LEVEL = {"LEVEL", set_level, print_level};
static const struct type type_PERMISSIONS = {"MODE", set_permissions, print_permissions};

/* ---- keys ---- */

enum reload { RELOAD, RESTART };

struct key {
    const char *name;
    const struct type *type;
    size_t offset, size;
    const char *dflt;
    enum reload reload;
    const char *doc;
};

static const struct key keys[] = {
#define KEY(name, type, dflt, reload, doc)                                                         \
    {#name, &type_##type, offsetof(struct config, name), sizeof(config_##type), dflt, reload, doc},
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
    if (r == 0 && k->type == &type_COUNT && strcmp(key, "root_sessions") != 0 &&
        *(config_COUNT *)field_of(&scratch, k) == 0)
        r = ERR_INVALID;
    if (r == 0 && strcmp(key, "socket") == 0 && strlen(value) > SOCKET_CHARS_MAX) {
        why = "is longer than the 107 characters of a socket path";
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

    if (policy_check_settings(&s, &key) < 0) {
        why = "is out of range";
        if (c->policy == POLICY_NEVER && !c->allow_never)
            why = "policy = never needs allow_never = true";
        else if (strcmp(key, "margin") == 0)
            why = "must be from 1 to 1000000";
    } else if (c->sample_timeout == 0 || c->sample_timeout >= CLIENT_DEADLINE_NS) {
        key = "sample_timeout";
        why = "must be above 0 and below 250ms, the deadline of an ask";
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
        why = "must be from 4K to 1G";
    } else if (c->telemetry != BACKEND_WORKER && !c->gpu[0]) {
        key = "gpu";
        why = "is needed (set gpu, or telemetry = worker)";
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

void config_print_options(FILE *out)
{
    fputs("  --config FILE        keys from an INI file; options win over it\n"
          "  --set KEY=VALUE      the same as --KEY VALUE\n"
          "  --print-config       print all keys as a file, and exit\n"
          "  --check-config       say whether the configuration is good, and exit\n"
          "  --help, --version\n"
          "\n"
          "Keys, each also an option:\n",
          out);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const struct key *k = &keys[i];

        fputs("  --", out);
        for (const char *p = k->name; *p; p++)
            fputc(*p == '_' ? '-' : *p, out);
        fprintf(out, " %s%s%s%s\n        %s\n", k->type->name, k->dflt[0] ? " (default " : "",
                k->dflt, k->dflt[0] ? ")" : "", k->doc);
    }
}
