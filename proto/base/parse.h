/* SPDX-License-Identifier: Apache-2.0 */
/* Text to numbers and back, the same in every locale. Parsers accept the whole string or nothing;
 * they return 0 or ERR_INVALID (not a number of that form) or ERR_OVERFLOW (does not fit), and
 * write the result only on success. */
#pragma once

#include "proto/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for any formatted number here, with its NUL. */
#define PARSE_TEXT_MAX 40

/* Decimal digits only: no sign, no space, no base prefix. */
int parse_u64(const char *text, uint64_t *ret) _must_check_;

/* Decimal digits with an optional '-'. */
int parse_i64(const char *text, int64_t *ret) _must_check_;

/* Bytes: digits, then nothing, K M G T or KiB MiB GiB TiB (1024), or kB MB GB TB (1000). */
int parse_size(const char *text, uint64_t *ret) _must_check_;

/* Time in nanoseconds: digits, then ns us ms s min h. Only 0 may stand without a unit. */
int parse_duration(const char *text, uint64_t *ret_ns) _must_check_;

/* Seconds with up to 9 decimals ("12.000000001"), as nanoseconds. */
int parse_seconds(const char *text, uint64_t *ret_ns) _must_check_;

/* A decimal double with a point, as strtod reads it in the C locale; no NaN, infinity or hex. */
int parse_double(const char *text, double *ret) _must_check_;

/* true/false, yes/no, on/off, 1/0 */
int parse_bool(const char *text, bool *ret) _must_check_;

/* Decimal digits; returns their count. By hand, since a line of the journal has twenty numbers and
 * snprintf took nine tenths of the time of an ask. */
size_t format_u64(uint64_t v, char out[PARSE_TEXT_MAX]);

/* The shortest of up to 17 digits that reads back to the same double, with a point. */
void format_double(double v, char out[PARSE_TEXT_MAX]);

/* Seconds with up to 9 decimals, without trailing zeros. */
void format_seconds(uint64_t ns, char out[PARSE_TEXT_MAX]);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" of 16 bytes; prefix is "GPU" or "MIG". */
#define UUID_TEXT_SIZE 41
void format_uuid(const char *prefix, const char bytes[16], char out[UUID_TEXT_SIZE]);

/* For people: "17.95 GB", decimal units, two decimals, rounded down; "512 B" below 1000. */
void format_human(uint64_t bytes, char out[PARSE_TEXT_MAX]);

/* Exact, in the largest unit of 1024 that divides it: "64M", "1000". */
void format_size(uint64_t bytes, char out[PARSE_TEXT_MAX]);

/* Exact, in the largest unit that divides it: "50ms", "2s". */
void format_duration(uint64_t ns, char out[PARSE_TEXT_MAX]);
