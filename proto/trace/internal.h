/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of proto/trace share: the value that is missing and the forms of values. */
#pragma once

#include <stddef.h>

#include "proto/base/attr.h"
#include "proto/base/terms.h"

/* A bare "-" points here; a quoted one is text like any other. */
extern const char trace_missing[];

/* Checks a value that is not missing against the form of its letter (see trace.h). 0 or
 * ERR_INVALID / ERR_OVERFLOW with *ret_problem saying what is wrong, without the value. */
int trace_check_form(char form, const char *value, const char **ret_problem) _must_check_;

/* Offset of the first byte that may not stand in a line: a control character or what is not UTF-8;
 * `length` where there is none. */
size_t trace_find_bad_byte(const char *text, size_t length);
