/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/dl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/error.h"

static void put(void *calls, const struct dl_symbol *symbol, void *address)
{
    /* every member is a function pointer, and those are as wide as void * wherever dlsym is */
    memcpy((char *)calls + symbol->offset, &address, sizeof(address));
}

/* Appends a name to the list of the missing; false where there is no room for it and a tail. */
static bool list_missing(char error[DL_ERROR_SIZE], const char *name, size_t missing)
{
    const size_t tail = sizeof(" and 99999 more");
    size_t used = strlen(error);

    if (used + strlen(name) + 2 + tail > DL_ERROR_SIZE)
        return false;
    snprintf(error + used, DL_ERROR_SIZE - used, "%s %s", missing ? "," : "", name);
    return true;
}

static size_t bind_symbols(const struct dl_library *library, void *handle, void *calls,
                           char error[DL_ERROR_SIZE])
{
    size_t missing = 0, listed = 0;

    for (size_t i = 0; i < library->symbol_count; i++) {
        const struct dl_symbol *symbol = &library->symbols[i];
        void *address = dlsym(handle, symbol->name);

        put(calls, symbol, address);
        if (address || !symbol->required)
            continue;
        if (listed == missing && list_missing(error, symbol->name, missing))
            listed++;
        missing++;
    }
    if (missing > listed) {
        size_t used = strlen(error);

        snprintf(error + used, DL_ERROR_SIZE - used, " and %zu more", missing - listed);
    }
    return missing;
}

int dl_load(const struct dl_library *library, void *calls, void **ret_handle,
            char error[DL_ERROR_SIZE])
{
    /* not for a process with raised privileges: there the variable would run anybody's code */
    const char *other = library->env ? secure_getenv(library->env) : NULL;
    const char *path = other && *other ? other : library->soname;
    void *handle;

    for (size_t i = 0; i < library->symbol_count; i++)
        put(calls, &library->symbols[i], NULL);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *why = dlerror();

        snprintf(error, DL_ERROR_SIZE, "%s", why ? why : "dlopen failed");
        return ERR_IO;
    }
    snprintf(error, DL_ERROR_SIZE, "%.100s lacks", path);
    if (bind_symbols(library, handle, calls, error)) {
        for (size_t i = 0; i < library->symbol_count; i++)
            put(calls, &library->symbols[i], NULL);
        dlclose(handle);
        return ERR_UNSUPPORTED;
    }
    error[0] = '\0';
    *ret_handle = handle;
    return 0;
}
