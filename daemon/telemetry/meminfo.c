/* SPDX-License-Identifier: Apache-2.0 */
/* Parts whose memory is the host's: the correction of every reading, and the backend of a part that
 * has no other. proto/base/meminfo.h says why. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/telemetry/backend.h"
#include "proto/base/error.h"
#include "proto/base/meminfo.h"

int telemetry_meminfo_read(const char *path, uint64_t *ret_bytes, struct telemetry_error *ret_error)
{
    const char *why;
    int r = meminfo_read(path, ret_bytes, &why);

    if (r < 0)
        return telemetry_fail(ret_error, PROBE_EXIT_FAILED, r == ERR_IO ? errno : 0, "%s: %s", path,
                              why);
    return 0;
}

void telemetry_meminfo_correct(struct telemetry_reading *io, uint64_t available_bytes,
                               uint64_t total_bytes)
{
    const uint64_t free_bytes = io->free.has ? io->free.v : 0;

    io->free = opt_u64(meminfo_correct(free_bytes, available_bytes, total_bytes));
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
