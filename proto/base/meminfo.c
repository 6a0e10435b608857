/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/meminfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "proto/base/attr.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

#define MEMINFO_BYTES_MAX 16384 /* about 1.5 KiB in practice */

struct meminfo {
    struct opt_u64 available, huge_bytes, huge_pages, huge_page_bytes;
};

/* "   123 kB" or "   12": the number, in bytes where it has the unit. false: neither. */
static bool parse_value(const char *text, struct opt_u64 *ret)
{
    char digits[PARSE_TEXT_MAX];
    uint64_t v, bytes;
    size_t n;

    text += strspn(text, " \t");
    n = strspn(text, "0123456789");
    if (n == 0 || n >= sizeof(digits))
        return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (parse_u64(digits, &v))
        return false;
    if (strcmp(text + n, " kB") == 0) {
        if (__builtin_mul_overflow(v, (uint64_t)1024, &bytes))
            return false;
        v = bytes;
    } else if (text[n]) {
        return false;
    }
    *ret = opt_u64(v);
    return true;
}

/* false where the line is one of ours and broken */
static bool parse_line(char *line, struct meminfo *io)
{
    const struct {
        const char *key;
        struct opt_u64 *value;
    } rows[] = {
        {"MemAvailable", &io->available},
        {"Hugetlb", &io->huge_bytes}, /* all page sizes together, since Linux 4.18 */
        {"HugePages_Total", &io->huge_pages},
        {"Hugepagesize", &io->huge_page_bytes},
    };
    char *colon = strchr(line, ':');

    if (!colon)
        return true;
    *colon = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strcmp(line, rows[i].key) == 0)
            return parse_value(colon + 1, rows[i].value);
    }
    return true;
}

/* Bytes that the kernel set aside for huge pages. A kernel without them has no such lines. */
static bool huge_pool(const struct meminfo *m, uint64_t *ret)
{
    *ret = 0;
    if (m->huge_bytes.has)
        *ret = m->huge_bytes.v;
    else if (m->huge_pages.has && m->huge_pages.v)
        return m->huge_page_bytes.has &&
               !__builtin_mul_overflow(m->huge_pages.v, m->huge_page_bytes.v, ret);
    return true;
}

static ssize_t read_file(const char *path, char *buffer, size_t size)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;

    if (fd < 0)
        return -1;
    while (used < size) {
        ssize_t n = read(fd, buffer + used, size - used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

int meminfo_read(const char *path, uint64_t *ret_bytes, const char **ret_why)
{
    char buffer[MEMINFO_BYTES_MAX + 1];
    struct meminfo m = {0};
    uint64_t huge;
    ssize_t n = read_file(path, buffer, MEMINFO_BYTES_MAX);

    if (n < 0) {
        *ret_why = strerror(errno);
        return ERR_IO;
    }
    buffer[n] = '\0';
    for (char *line = buffer, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (!parse_line(line, &m)) {
            *ret_why = "a line that is not a number of kB";
            return ERR_INVALID;
        }
    }
    *ret_why = !m.available.has ? "no MemAvailable" : "huge pages without their size";
    if (!m.available.has || !huge_pool(&m, &huge))
        return ERR_INVALID;
    *ret_bytes = bytes_sub_sat(m.available.v, huge);
    return 0;
}

uint64_t meminfo_correct(uint64_t free_bytes, uint64_t available_bytes, uint64_t total_bytes)
{
    return bytes_min(bytes_max(free_bytes, available_bytes), total_bytes);
}
