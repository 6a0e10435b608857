/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_types.h"

#include <inttypes.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/base/parse.h"

#define COUNT_MAX       1000000 /* sessions or stagers: gigabytes of host memory */
#define DURATION_MAX_NS (24ull * 3600 * 1000000000) /* above a day it is a slip */
#define BYTES_MAX       (1ull << 40)                /* above 1T it is a slip */

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
    if (n > CONFIG_VALUE_CHARS_MAX) {
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

const struct config_type config_type_FRACTION = {"FRACTION", set_fraction, print_double};
const struct config_type config_type_MARGIN = {"NUMBER", set_margin, print_double};
const struct config_type config_type_BYTES = {"SIZE", set_bytes, print_bytes};
const struct config_type config_type_DURATION = {"TIME", set_duration, print_duration};
const struct config_type config_type_COUNT = {"COUNT", set_count, print_count};
const struct config_type config_type_BOOL = {"BOOL", set_bool, print_bool};
const struct config_type config_type_PATH = {"PATH", set_text, print_text};
const struct config_type config_type_TEXT = {"TEXT", set_text, print_text};
const struct config_type config_type_MODE = {"MODE", set_mode, print_mode};
const struct config_type config_type_POLICY = {"POLICY", set_policy, print_policy};
const struct config_type config_type_BACKEND = {"BACKEND", set_backend, print_backend};
const struct config_type config_type_LEVEL = {"LEVEL", set_level, print_level};
const struct config_type config_type_PERMISSIONS = {"MODE", set_permissions, print_permissions};
