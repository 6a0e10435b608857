/* SPDX-License-Identifier: Apache-2.0 */
/* The probe process (`dlod --probe`) and what it says to the sampler over a SEQPACKET socketpair on
 * its fd 3: one fixed-size record asked, one answered, both ends the same binary. It is a process
 * of its own because vendor calls can hang, crash, or hold the device open; its exit is what gives
 * the device back. Backends stand behind one vtable; a new vendor is one file and one table row. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/limits.h"
#include "proto/base/terms.h"

#define PROBE_FD    3
#define PROBE_MAGIC 0x31626f72u /* "rob1": both ends come from one build */

enum probe_op { PROBE_IDENTIFY = 1, PROBE_SAMPLE = 2 };

struct probe_request {
    uint32_t magic, seq, op, reserved;
};

struct probe_reply {
    uint32_t magic, seq, op;
    int32_t status;  /* 0, or the driver's error number; see text */
    uint32_t source; /* enum source */
    uint32_t has_free, has_total, has_minor, integrated;
    uint32_t minor, compute_mode, reserved;
    uint64_t free_bytes, total_bytes;
    char uuid[LIMIT_UUID_SIZE], name[LIMIT_NAME_SIZE], pci[LIMIT_NAME_SIZE];
    char text[LIMIT_TEXT_SIZE]; /* what failed, one sentence; "" */
};

/* Exit codes of the probe; the sampler logs the word and backs off. */
#define PROBE_EXIT_MAP(X)                                                                          \
    X(OK, 0, "closed")                                                                             \
    X(USAGE, 2, "usage")                                                                           \
    X(NO_DRIVER, 10, "no_driver")      /* no library, or a stub */                                 \
    X(NO_DEVICE, 11, "no_device")      /* none, or none of that name */                            \
    X(MISMATCH, 12, "driver_mismatch") /* upgraded under us: reboot or reload */                   \
    X(UNAVAILABLE, 13, "unavailable")  /* exclusive mode, fabric manager, MPS: try later */        \
    X(LOST, 14, "lost")                /* fallen off the bus, needs a reset */                     \
    X(DEAD, 15, "context_dead")        /* sticky error: this process is finished */                \
    X(FAILED, 16, "failed")

enum {
#define X(name, code, word) PROBE_EXIT_##name = code,
    PROBE_EXIT_MAP(X)
#undef X
};

const char *probe_exit_word(int code);

/* Runs the probe until its peer closes: the whole of `dlod --probe --gpu SPEC --telemetry B`.
 * Returns an exit code. Blocks in vendor calls; no thread, no loop. */
int probe_main(const char *gpu, const char *backend);
