/* SPDX-License-Identifier: Apache-2.0 */
/* Compiler attributes and the cleanup idiom. Knows nothing of the project. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define _must_check_                  __attribute__((warn_unused_result))
#define _printf_(f, a)                __attribute__((format(printf, f, a)))
#define _cleanup_(fn)                 __attribute__((cleanup(fn)))
#define ARRAY_SIZE(a)                 (sizeof(a) / sizeof((a)[0]))
#define container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

/* Hands a pointer on and forgets it here, so that the cleanup of its variable does nothing. */
#define TAKE_PTR(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) take_ = (p);                                                                 \
        (p) = NULL;                                                                                \
        take_;                                                                                     \
    })

static inline void cleanup_free(void *p)
{
    void **pp = p;

    free(*pp);
}

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

#define _cleanup_free_  _cleanup_(cleanup_free)
#define _cleanup_close_ _cleanup_(cleanup_close)
