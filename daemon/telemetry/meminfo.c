/* SPDX-License-Identifier: Apache-2.0 */
/* Parts whose memory is the host's. There the driver's "free" is the kernel's MemFree: reading a
 * file of 60 GB made 103 GB free into 41 GB on a GB10 while nothing was in use, and NVML answers
 * NOT_SUPPORTED. So free is what the kernel says it could give, and total the driver's. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/telemetry/backend.h"
#include "proto/base/error.h"
#include "proto/base/parse.h"

#define MEMINFO_BYTES_MAX 16384 /* about 1.5 KiB in practice */

struct meminfo {
    struct opt_u64 available, huge_bytes, huge_pages, huge_page_bytes;
};

static int bad(struct telemetry_error *error, const char *path, const char *what)
{
    return telemetry_fail(error, PROBE_EXIT_FAILED, 0, "%s: %s", path, what);
}

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

int telemetry_meminfo_read(const char *path, uint64_t *ret_bytes, struct telemetry_error *ret_error)
{
    char buffer[MEMINFO_BYTES_MAX + 1];
    struct meminfo m = {0};
    uint64_t huge;
    ssize_t n = read_file(path, buffer, MEMINFO_BYTES_MAX);

    if (n < 0)
        return telemetry_fail(ret_error, PROBE_EXIT_FAILED, errno, "%s: %s", path, strerror(errno));
    buffer[n] = '\0';
    for (char *line = buffer, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (!parse_line(line, &m))
            return bad(ret_error, path, "a line that is not a number of kB");
    }
    if (!m.available.has)
        return bad(ret_error, path, "no MemAvailable");
    if (!huge_pool(&m, &huge))
        return bad(ret_error, path, "huge pages without their size");
    *ret_bytes = bytes_sub_sat(m.available.v, huge);
    return 0;
}

void telemetry_meminfo_correct(struct telemetry_reading *io, uint64_t available_bytes,
                               uint64_t total_bytes)
{
    uint64_t free_bytes = available_bytes;

    if (io->free.has)
        free_bytes = bytes_max(free_bytes, io->free.v);
    io->free = opt_u64(bytes_min(free_bytes, total_bytes));
    io->total = opt_u64(total_bytes);
    io->source = SOURCE_MEMINFO;
}

/* The backend of an integrated part that has no other reading: the target is all its state. */
static int meminfo_open(const struct telemetry_target *target, void **ret_state,
                        struct telemetry_error *ret_error)
{
    struct telemetry_target *state;

    if (!target->known || !target->known->integrated || !target->known->total.has)
        return telemetry_fail(ret_error, PROBE_EXIT_NO_DEVICE, 0,
                              "meminfo: the device has memory of its own");
    state = malloc(sizeof(*state));
    if (!state)
        return telemetry_fail(ret_error, PROBE_EXIT_FAILED, ENOMEM, "out of host memory");
    *state = *target;
    *ret_state = state;
    return 0;
}

static int meminfo_identify(void *state, struct telemetry_identity *io,
                            struct telemetry_error *ret_error)
{
    (void)state;
    (void)io;
    (void)ret_error;
    return 0;
}

/* No reading of its own: the correction that follows for every integrated part is all of it. */
static int meminfo_sample(void *state, struct telemetry_reading *ret,
                          struct telemetry_error *ret_error)
{
    (void)state;
    (void)ret_error;
    *ret = (struct telemetry_reading){.source = SOURCE_MEMINFO};
    return 0;
}

static void meminfo_close(void *state)
{
    free(state);
}

const struct telemetry_backend telemetry_meminfo = {
    .name = "meminfo",
    .open = meminfo_open,
    .identify = meminfo_identify,
    .sample = meminfo_sample,
    .close = meminfo_close,
};
