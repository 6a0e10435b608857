/* SPDX-License-Identifier: Apache-2.0 */
/* How an operator names a device (config key gpu), and the numbers behind a PCI id. Text of the
 * three libraries differs in case and in the digits of the domain, so ids are compared as numbers
 * and UUIDs in one spelling. Knows no vendor library; the kernel module's /proc files only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/attr.h"
#include "proto/base/limits.h"

#define PCI_TEXT_SIZE sizeof("00000000:00:00.0")

struct pci_id {
    uint32_t domain, bus, device, function;
};

enum gpu_kind {
    GPU_INDEX = 1, /* in PCI order */
    GPU_MINOR,     /* the N of /dev/nvidiaN */
    GPU_UUID,      /* GPU-... */
    GPU_MIG,       /* MIG-..., or the older MIG-GPU-.../gi/ci */
    GPU_PCI,
};

struct gpu_spec {
    enum gpu_kind kind;
    uint32_t number; /* of INDEX and MINOR */
    struct pci_id pci;
    char uuid[LIMIT_UUID_SIZE]; /* "GPU-" or "MIG-" and lower-case digits */
};

/* 0, or ERR_INVALID where text names a device in none of these ways. A UUID must be whole. */
int gpu_spec_parse(const char *text, struct gpu_spec *ret) _must_check_;

/* "bb:dd.f" with nothing, a 4- or an 8-digit domain before it, in any case. */
int pci_id_parse(const char *text, struct pci_id *ret) _must_check_;
bool pci_id_equal(const struct pci_id *a, const struct pci_id *b);

/* "0000:0a:00.0"; 8 digits of domain where 4 are too few. */
void pci_id_format(const struct pci_id *id, char out[PCI_TEXT_SIZE]);

/* The device with this minor number, and the minor number of a device, from the kernel module's
 * folder gpus_path (GPU_PROC_PATH but in tests). 0, or ERR_IO where it does not tell. */
#define GPU_PROC_PATH "/proc/driver/nvidia/gpus"
int gpu_proc_find_minor(const char *gpus_path, uint32_t minor, struct pci_id *ret) _must_check_;
int gpu_proc_minor_of(const char *gpus_path, const struct pci_id *id, uint32_t *ret) _must_check_;
