/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/error.h"

#define NS_PER_SECOND 1000000000u

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},
    {"K", 1ull << 10},
    {"M", 1ull << 20},
    {"G", 1ull << 30},
    {"T", 1ull << 40},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
    {"kB", 1000ull},
    {"MB", 1000000ull},
    {"GB", 1000000000ull},
    {"TB", 1000000000000ull},
};

static const struct unit time_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"ms", 1000000},
    {"s", NS_PER_SECOND},
    {"min", 60ull * NS_PER_SECOND},
    {"h", 3600ull * NS_PER_SECOND},
};

/* Reads leading digits; *ret_end points behind them. */
static int digits(const char *text, uint64_t *ret, const char **ret_end)
{
    uint64_t v = 0;
    const char *p = text;

    if (!isdigit((unsigned char)*p))
        return ERR_INVALID;
    for (; isdigit((unsigned char)*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
            return ERR_OVERFLOW;
    }
    *ret = v;
    *ret_end = p;
    return 0;
}

int parse_u64(const char *text, uint64_t *ret)
{
    const char *end;
    uint64_t v;
    int r = digits(text, &v, &end);

    if (r < 0)
        return r;
    if (*end)
        return ERR_INVALID;
    *ret = v;
    return 0;
}

int parse_i64(const char *text, int64_t *ret)
{
    bool negative = *text == '-';
    uint64_t v;
    int r = parse_u64(text + negative, &v);

    if (r < 0)
        return r;
    if (v > (uint64_t)INT64_MAX)
        return ERR_OVERFLOW;
    *ret = negative ? -(int64_t)v : (int64_t)v;
    return 0;
}

static int with_unit(const char *text, const struct unit *units, size_t count, uint64_t *ret)
{
    const char *end;
    uint64_t v;
    int r = digits(text, &v, &end);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(units[i].suffix, end) != 0)
            continue;
        if (__builtin_mul_overflow(v, units[i].factor, &v))
            return ERR_OVERFLOW;
        *ret = v;
        return 0;
    }
    return ERR_INVALID;
}

int parse_size(const char *text, uint64_t *ret)
{
    return with_unit(text, size_units, ARRAY_SIZE(size_units), ret);
}

int parse_duration(const char *text, uint64_t *ret_ns)
{
    if (strcmp(text, "0") == 0) {
        *ret_ns = 0;
        return 0;
    }
    return with_unit(text, time_units, ARRAY_SIZE(time_units), ret_ns);
}

int parse_seconds(const char *text, uint64_t *ret_ns)
{
    const char *end;
    uint64_t seconds, ns = 0;
    int r = digits(text, &seconds, &end);

    if (r < 0)
        return r;
    if (*end == '.') {
        uint64_t scale = NS_PER_SECOND;

        if (!isdigit((unsigned char)end[1]))
            return ERR_INVALID;
        for (end++; isdigit((unsigned char)*end); end++) {
            scale /= 10;
            if (scale == 0)
                return ERR_INVALID; /* more than 9 decimals */
            ns += (uint64_t)(*end - '0') * scale;
        }
    }
    if (*end)
        return ERR_INVALID;
    if (__builtin_mul_overflow(seconds, NS_PER_SECOND, &seconds) ||
        __builtin_add_overflow(seconds, ns, &ns))
        return ERR_OVERFLOW;
    *ret_ns = ns;
    return 0;
}

/* Numbers are read and printed in the C locale whatever the host program has set. */
struct locale_guard {
    locale_t c, before;
};

static bool enter_c_locale(struct locale_guard *g)
{
    g->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (g->c == (locale_t)0)
        return false;
    g->before = uselocale(g->c);
    return true;
}

static void leave_c_locale(const struct locale_guard *g)
{
    uselocale(g->before);
    freelocale(g->c);
}

int parse_double(const char *text, double *ret)
{
    struct locale_guard guard;
    char *end;
    double v;

    if (strspn(text, "0123456789.eE+-") != strlen(text) || !*text)
        return ERR_INVALID;
    if (!enter_c_locale(&guard))
        return ERR_NO_MEMORY;
    v = strtod(text, &end);
    leave_c_locale(&guard);
    if (*end || end == text)
        return ERR_INVALID;
    if (!isfinite(v))
        return ERR_OVERFLOW;
    *ret = v;
    return 0;
}

int parse_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *ret = strcmp(text, yes[i]) == 0;
            return 0;
        }
    }
    return ERR_INVALID;
}

size_t format_u64(uint64_t v, char out[PARSE_TEXT_MAX])
{
    char digits_text[PARSE_TEXT_MAX];
    size_t n = 0;

    do {
        digits_text[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    for (size_t i = 0; i < n; i++)
        out[i] = digits_text[n - 1 - i];
    out[n] = '\0';
    return n;
}

void format_double(double v, char out[PARSE_TEXT_MAX])
{
    struct locale_guard guard;
    bool inside = enter_c_locale(&guard);

    if (v == 0)
        v = 0; /* not "-0", which reads as a negative number */
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(out, PARSE_TEXT_MAX, "%.*g", precision, v);
        if (strtod(out, NULL) == v)
            break;
    }
    if (inside)
        leave_c_locale(&guard);
}

void format_seconds(uint64_t ns, char out[PARSE_TEXT_MAX])
{
    uint64_t rest = ns % NS_PER_SECOND, scale = NS_PER_SECOND / 10;
    size_t n = format_u64(ns / NS_PER_SECOND, out);

    if (rest == 0)
        return;
    out[n++] = '.';
    for (; rest > 0; rest %= scale, scale /= 10) /* stops at the last digit that is not 0 */
        out[n++] = (char)('0' + rest / scale);
    out[n] = '\0';
}

void format_human(uint64_t bytes, char out[PARSE_TEXT_MAX])
{
    static const char units[] = "kMGTPE";
    uint64_t factor = 1000;
    size_t i = 0;

    if (bytes < 1000) {
        snprintf(out, PARSE_TEXT_MAX, "%" PRIu64 " B", bytes);
        return;
    }
    while (units[i + 1] && bytes / factor >= 1000) {
        factor *= 1000;
        i++;
    }
    snprintf(out, PARSE_TEXT_MAX, "%" PRIu64 ".%02u %cB", bytes / factor,
             (unsigned)(bytes % factor / (factor / 100)) % 100u, units[i]);
}

/* Tables run from small to large; takes the last of the first `count` that divides v. */
static void exact(uint64_t v, const struct unit *units, size_t count, char out[PARSE_TEXT_MAX])
{
    size_t best = 0;

    for (size_t i = 0; i < count; i++)
        if (v % units[i].factor == 0 && v != 0)
            best = i;
    snprintf(out, PARSE_TEXT_MAX, "%" PRIu64 "%s", v / units[best].factor, units[best].suffix);
}

void format_size(uint64_t bytes, char out[PARSE_TEXT_MAX])
{
    exact(bytes, size_units, 5, out);
}

void format_duration(uint64_t ns, char out[PARSE_TEXT_MAX])
{
    exact(ns, time_units, ARRAY_SIZE(time_units), out);
    if (ns == 0)
        memcpy(out, "0", 2);
}

void format_uuid(const char *prefix, const char bytes[16], char out[UUID_TEXT_SIZE])
{
    int n = snprintf(out, UUID_TEXT_SIZE, "%.3s-", prefix);

    for (int i = 0; i < 16; i++)
        n += snprintf(out + n, UUID_TEXT_SIZE - (size_t)n, "%s%02x",
                      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", (unsigned char)bytes[i]);
}
