/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simgpu/shared/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEDGER_MAGIC 0x53474c31u /* "SGL1": change it with the layout */

uint64_t ledger_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- making and opening the file ---- */

/* Identity follows from the index alone, so that a test can write it down. */
static void device_init(struct ledger_device *device, unsigned int index,
                        const struct ledger_options *options)
{
    static const uint8_t pci_buses[LEDGER_DEVICES_MAX] = {0x1b, 0x43, 0x52, 0x61,
                                                          0x9d, 0xc3, 0xd1, 0xdf};

    device->total_bytes = options->total_bytes;
    device->context_bytes = options->context_bytes;
    device->is_integrated = options->is_integrated ? 1 : 0;
    device->generation = 1;
    device->minor = index + LEDGER_MINOR_OFFSET;
    device->pci_bus = pci_buses[index];
    for (unsigned int i = 0; i < sizeof(device->uuid); i++)
        device->uuid[i] = (uint8_t)(0xd0 + 7 * i + 0x11 * index);
    snprintf(device->name, sizeof(device->name), "Simulated GPU %u", index);
}

static int mutex_init(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    int error;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    error = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return error;
}

static struct ledger *map_file(int fd)
{
    void *memory = mmap(NULL, sizeof(struct ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static int fill_file(int fd, const struct ledger_options *options)
{
    struct ledger *ledger;
    int error;

    if (ftruncate(fd, (off_t)sizeof(struct ledger)))
        return -1;
    ledger = map_file(fd);
    if (!ledger)
        return -1;

    error = mutex_init(&ledger->mutex);
    if (error) {
        munmap(ledger, sizeof(*ledger));
        errno = error;
        return -1;
    }
    ledger->size_bytes = (uint32_t)sizeof(*ledger);
    ledger->device_count = options->device_count;
    for (unsigned int i = 0; i < options->device_count; i++)
        device_init(&ledger->devices[i], i, options);
    ledger->magic = LEDGER_MAGIC;
    munmap(ledger, sizeof(*ledger));
    return 0;
}

int ledger_create(const char *path, const struct ledger_options *options)
{
    char *temporary = NULL;
    int result = -1;
    int saved;
    int fd;

    if (options->device_count < 1 || options->device_count > LEDGER_DEVICES_MAX) {
        errno = EINVAL;
        return -1;
    }
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return -1;
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd >= 0) {
        result = fill_file(fd, options);
        if (!result)
            result = rename(temporary, path);
        saved = errno;
        if (result)
            unlink(temporary);
        close(fd);
        errno = saved;
    }
    free(temporary);
    return result;
}

struct ledger *ledger_open(const char *path, const char **ret_why)
{
    struct ledger *ledger;
    struct stat status;
    int fd;

    if (!path)
        path = getenv(LEDGER_PATH_ENV);
    if (!path || !*path) {
        *ret_why = "the environment variable " LEDGER_PATH_ENV " does not name a ledger file";
        return NULL;
    }
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        *ret_why = "the ledger file cannot be opened: make it with `simgpu create`";
        return NULL;
    }
    if (fstat(fd, &status) || status.st_size != (off_t)sizeof(struct ledger)) {
        close(fd);
        *ret_why = "the ledger file has the wrong size: it is of another build";
        return NULL;
    }
    ledger = map_file(fd);
    close(fd);
    if (!ledger) {
        *ret_why = "the ledger file cannot be mapped";
        return NULL;
    }
    if (ledger->magic != LEDGER_MAGIC || ledger->size_bytes != sizeof(*ledger)) {
        munmap(ledger, sizeof(*ledger));
        *ret_why = "the ledger file is not a ledger";
        return NULL;
    }
    return ledger;
}

/* ---- the lock ---- */

/* The dead holder may have changed a process's bytes and not yet the sum. */
static void repair_sums(struct ledger *ledger)
{
    for (unsigned int d = 0; d < ledger->device_count; d++) {
        uint64_t sum = 0;

        for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
            if (ledger->processes[i].pid)
                sum += ledger->processes[i].bytes[d];
        }
        ledger->devices[d].held_bytes = sum;
    }
}

void ledger_lock(struct ledger *ledger)
{
    int error = pthread_mutex_lock(&ledger->mutex);

    if (error == EOWNERDEAD) {
        repair_sums(ledger);
        pthread_mutex_consistent(&ledger->mutex);
    } else if (error) {
        fprintf(stderr, "simgpu: the ledger's lock is broken: %s\n", strerror(error));
        abort();
    }
}

void ledger_unlock(struct ledger *ledger)
{
    pthread_mutex_unlock(&ledger->mutex);
}

/* ---- bytes ---- */

uint64_t ledger_used_bytes(const struct ledger *ledger, unsigned int device)
{
    return ledger->devices[device].held_bytes + ledger->devices[device].foreign_bytes;
}

uint64_t ledger_free_bytes(const struct ledger *ledger, unsigned int device)
{
    const struct ledger_device *d = &ledger->devices[device];
    uint64_t taken = ledger_used_bytes(ledger, device) + d->page_cache_bytes;

    return taken < d->total_bytes ? d->total_bytes - taken : 0;
}

static uint64_t allocatable_bytes(const struct ledger *ledger, unsigned int device)
{
    uint64_t used = ledger_used_bytes(ledger, device);
    uint64_t total = ledger->devices[device].total_bytes;

    return used < total ? total - used : 0;
}

int ledger_charge(struct ledger *ledger, struct ledger_process *process, unsigned int device,
                  uint64_t bytes)
{
    struct ledger_device *d = &ledger->devices[device];
    uint64_t left;

    if (bytes > allocatable_bytes(ledger, device))
        ledger_reap(ledger, LEDGER_REAP_NOW);
    if (bytes > allocatable_bytes(ledger, device)) {
        d->oom_count++;
        return -1;
    }
    process->bytes[device] += bytes;
    d->held_bytes += bytes;

    left = allocatable_bytes(ledger, device);
    if (d->page_cache_bytes > left)
        d->page_cache_bytes = left;
    return 0;
}

void ledger_refund(struct ledger *ledger, struct ledger_process *process, unsigned int device,
                   uint64_t bytes)
{
    if (bytes > process->bytes[device])
        bytes = process->bytes[device];
    process->bytes[device] -= bytes;
    ledger->devices[device].held_bytes -= bytes;
}

void ledger_uuid_text(const struct ledger_device *device, char text[LEDGER_UUID_TEXT_SIZE])
{
    const uint8_t *u = device->uuid;

    snprintf(text, LEDGER_UUID_TEXT_SIZE,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
}
