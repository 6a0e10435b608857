/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simgpu/shared/size.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int size_parse(const char *text, uint64_t *ret_bytes)
{
    static const char prefixes[] = "KMGT";
    const char *prefix;
    uint64_t bytes;
    uint64_t base = 1000;
    char *rest;

    if (!isdigit((unsigned char)*text))
        return -1;
    errno = 0;
    bytes = strtoull(text, &rest, 10);
    if (errno)
        return -1;
    if (*rest != '\0') {
        prefix = strchr(prefixes, *rest++);
        if (!prefix)
            return -1;
        if (*rest == 'i') {
            base = 1024;
            rest++;
        }
        if (*rest != '\0')
            return -1;
        for (const char *p = prefixes; p <= prefix; p++) {
            if (__builtin_mul_overflow(bytes, base, &bytes))
                return -1;
        }
    }
    *ret_bytes = bytes;
    return 0;
}
