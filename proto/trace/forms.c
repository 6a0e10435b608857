/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/trace/internal.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/error.h"
#include "proto/base/name.h"
#include "proto/base/parse.h"

const char trace_missing[] = "-";

struct word_form {
    char letter;
    const struct term *terms;
    const char *problem;
};

static const struct word_form word_forms[] = {
    {'p', policy_terms, "unknown policy"},
    {'m', mode_terms, "unknown mode"},
    {'e', stage_end_terms, "unknown word"},
    {'r', force_terms, "unknown cause of a forced release"},
    {'h', phase_terms, "not begin or end"},
    {'o', source_terms, "unknown source"},
    {'k', lease_terms, "unknown kind of lease"},
};

/* Splits at commas. false where an item is empty, longer than a name, or not of that kind. */
static bool check_list(const char *value, bool (*is_item)(const char *item))
{
    char item[LIMIT_NAME_SIZE];

    for (;;) {
        size_t length = strcspn(value, ",");

        if (length >= sizeof(item))
            return false;
        memcpy(item, value, length);
        item[length] = '\0';
        if (!is_item(item))
            return false;
        if (!value[length])
            return true;
        value += length + 1;
    }
}

static bool is_number(const char *item)
{
    uint64_t v;

    return parse_u64(item, &v) == 0;
}

static bool is_feature(const char *item)
{
    return term_value(feature_terms, item) != 0;
}

/* "2026-01-31T12:00:00Z", with decimals of a second and an offset where there is one: the form
 * alone, not the calendar. */
static bool is_wall(const char *value)
{
    static const char pattern[] = "dddd-dd-ddTdd:dd:dd";
    size_t i;

    for (i = 0; pattern[i]; i++) {
        bool is_digit = value[i] >= '0' && value[i] <= '9';

        if (pattern[i] == 'd' ? !is_digit : value[i] != pattern[i])
            return false;
    }
    if (value[i] == '.') {
        size_t n = strspn(value + i + 1, "0123456789");

        if (n == 0)
            return false;
        i += 1 + n;
    }
    if (strcmp(value + i, "Z") == 0)
        return true;
    if (value[i] != '+' && value[i] != '-')
        return false;
    value += i + 1;
    return strlen(value) == 5 && strspn(value, "0123456789") == 2 && value[2] == ':' &&
           strspn(value + 3, "0123456789") == 2;
}

static int check_number(char form, const char *value)
{
    uint64_t u;
    int64_t i;
    double d;
    int r;

    switch (form) {
    case 'u':
        return parse_u64(value, &u);
    case 't':
        return parse_seconds(value, &u);
    case 'd':
        r = parse_double(value, &d);
        return r == 0 && *value == '-' ? ERR_INVALID : r;
    default: /* 'i': 32 bits */
        r = parse_i64(value, &i);
        return r == 0 && (i < INT32_MIN || i > INT32_MAX) ? ERR_OVERFLOW : r;
    }
}

static bool check_other(char form, const char *value, const char **ret_problem)
{
    bool flag;

    switch (form) {
    case 'b':
        *ret_problem = "not 0 or 1";
        return strcmp(value, "0") == 0 || strcmp(value, "1") == 0;
    case 'B':
        *ret_problem = "not true or false";
        return parse_bool(value, &flag) == 0;
    case 'n':
        *ret_problem = "not a name of 1 to 63 of A-Z a-z 0-9 . _ : -";
        return name_valid(value, strlen(value));
    case 'w':
        *ret_problem = "not a time of RFC 3339";
        return is_wall(value);
    case 'l':
        *ret_problem = "not a list of numbers";
        return check_list(value, is_number);
    case 'f':
        *ret_problem = "unknown feature";
        return is_number(value) || check_list(value, is_feature);
    default:
        return true; /* 's' */
    }
}

int trace_check_form(char form, const char *value, const char **ret_problem)
{
    if (strchr("utdi", form)) {
        int r = check_number(form, value);

        if (r == 0)
            return 0;
        *ret_problem = r == ERR_OVERFLOW ? "does not fit" : "not a number";
        if (r == ERR_INVALID && form != 'i' && value[0] == '-' && strchr("0123456789", value[1]))
            *ret_problem = "negative";
        return r == ERR_OVERFLOW ? r : ERR_INVALID;
    }
    for (size_t i = 0; i < ARRAY_SIZE(word_forms); i++) {
        if (word_forms[i].letter != form)
            continue;
        if (term_value(word_forms[i].terms, value) != 0)
            return 0;
        *ret_problem = word_forms[i].problem;
        return ERR_INVALID;
    }
    return check_other(form, value, ret_problem) ? 0 : ERR_INVALID;
}

/* Length of the character at p, 0 where it is not one of UTF-8 that may be printed. */
static size_t char_length(const unsigned char *p, size_t left)
{
    uint32_t code;
    size_t n;

    if (p[0] < 0x80)
        return p[0] >= 0x20 && p[0] != 0x7f;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        n = 2;
    else if ((p[0] & 0xf0) == 0xe0)
        n = 3;
    else if (p[0] >= 0xf0 && p[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (left < n)
        return 0;
    code = p[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if ((n == 3 && code < 0x800) || (n == 4 && code < 0x10000) || code > 0x10ffff)
        return 0; /* longer than it must be, or no character */
    if ((code >= 0xd800 && code <= 0xdfff) || code < 0xa0 || code == 0x2028 || code == 0x2029)
        return 0; /* surrogates, controls of C1, separators of lines */
    return n;
}

size_t trace_find_bad_byte(const char *text, size_t length)
{
    size_t at = 0;

    while (at < length) {
        size_t n = char_length((const unsigned char *)text + at, length - at);

        if (n == 0)
            break;
        at += n;
    }
    return at;
}
