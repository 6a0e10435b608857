/* SPDX-License-Identifier: Apache-2.0 */
/* Vendor libraries at run time: one dlopen by versioned name, one table of symbols, everything
 * that is missing told in one sentence. No second name is tried and no older symbol is taken for
 * a missing one: what is optional is the table's to say and the caller's to cope with. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/attr.h"

#define DL_ERROR_SIZE 256

struct dl_symbol {
    const char *name; /* exported symbol, with its version suffix */
    size_t offset;    /* of the function pointer in the caller's struct */
    bool required;
};

struct dl_library {
    const char *soname; /* versioned ("libcuda.so.1"): the bare name may be a toolkit's stub */
    const char *env;    /* variable that names another file, for tests and odd installs; or NULL */
    const struct dl_symbol *symbols;
    size_t symbol_count;
};

/* Opens the library and writes its symbols into the struct at calls, NULL for an optional one that
 * is missing. Returns 0, ERR_IO (it does not open) or ERR_UNSUPPORTED (required symbols are
 * missing) with a sentence in error; then all pointers are NULL. *ret_handle is the caller's to
 * dlclose. Runs the library's constructors, so it may block as long as they do. */
int dl_load(const struct dl_library *library, void *calls, void **ret_handle,
            char error[DL_ERROR_SIZE]) _must_check_;
