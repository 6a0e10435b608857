/* SPDX-License-Identifier: Apache-2.0 */
/* The vtable of the probe's backends and what they hand to it. A backend fails with one sentence
 * and the exit code that fits; it neither logs nor exits. One thread; every call may block for as
 * long as the vendor likes, which is why all this lives in a process of its own. */
#pragma once

#include <stdint.h>

#include "daemon/telemetry/gpu.h"
#include "daemon/telemetry/telemetry.h"
#include "proto/base/attr.h"
#include "proto/base/bytes.h"

struct telemetry_error {
    int exit_code;  /* PROBE_EXIT_* */
    int32_t status; /* the library's own number, 0 where it has none */
    char text[LIMIT_TEXT_SIZE];
};

/* What is known of the device; "" and missing where nobody could tell. */
struct telemetry_identity {
    char uuid[LIMIT_UUID_SIZE], name[LIMIT_NAME_SIZE], pci[LIMIT_NAME_SIZE];
    struct opt_u64 minor, total;
    bool integrated; /* its memory is the host's */
    uint32_t compute_mode;
    char note[LIMIT_TEXT_SIZE]; /* what is used instead of what; said once */
};

struct telemetry_target {
    struct gpu_spec spec;
    const struct telemetry_identity *known; /* what the backends before this one found */
    const char *meminfo_path, *gpus_path;   /* /proc/meminfo, GPU_PROC_PATH; others in tests */
};

/* free and total are one source's, or both missing: then the device has no such reading. */
struct telemetry_reading {
    struct opt_u64 free, total;
    enum source source;
};

struct telemetry_backend {
    const char *name;
    /* Loads the library and finds the device. target is borrowed until close. */
    int (*open)(const struct telemetry_target *target, void **ret_state,
                struct telemetry_error *ret_error);
    /* Fills what is still missing in *io. Makes no context. */
    int (*identify)(void *state, struct telemetry_identity *io, struct telemetry_error *ret_error);
    int (*sample)(void *state, struct telemetry_reading *ret, struct telemetry_error *ret_error);
    void (*close)(void *state); /* takes NULL */
};

extern const struct telemetry_backend telemetry_cuda, telemetry_nvml, telemetry_meminfo;

/* Fills *error and returns ERR_IO. */
int telemetry_fail(struct telemetry_error *error, int exit_code, int32_t status, const char *format,
                   ...) _printf_(4, 5);

/* Appends a sentence to a note or to an error's text, cut where it is full. */
void telemetry_append(char text[LIMIT_TEXT_SIZE], const char *sentence);

/* The exit code that fits a library's result; OK for 0. */
int telemetry_cuda_exit(unsigned int result);
int telemetry_nvml_exit(unsigned int result);

/* The PCI id of the device with this minor number, asked of NVML, which is closed again. */
int telemetry_nvml_find_minor(uint32_t minor, struct pci_id *ret) _must_check_;

/* What the host could still give to a device that shares its memory: MemAvailable without the
 * huge page pool. Takes whole lines only, so a cut file is an error and never a small number. */
int telemetry_meminfo_read(const char *path, uint64_t *ret_bytes,
                           struct telemetry_error *ret_error) _must_check_;

/* The integrated part's reading: page cache counts as free, nothing above total. */
void telemetry_meminfo_correct(struct telemetry_reading *io, uint64_t available_bytes,
                               uint64_t total_bytes);

/* Answers requests on fd until the peer closes: probe_main without its process-wide settings. */
struct probe_paths {
    const char *meminfo, *gpus;
};
int probe_serve(int fd, const char *gpu, const char *backend, const struct probe_paths *paths);
