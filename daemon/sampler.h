/* SPDX-License-Identifier: Apache-2.0 */
/* Readings of device memory for the daemon (R9): runs the probe process while it is wanted, shares
 * one sample among all who wait for it, bounds every wait. Owns the probe child, its timers and the
 * newest sample; knows nothing of sessions. One thread, the loop's. A hung probe is killed; one
 * that cannot be killed is abandoned, and no other is started until it is gone.
 * With telemetry = worker there is no probe and every wait ends at once without a sample. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/config.h"
#include "proto/base/answer.h"
#include "proto/base/list.h"

struct sampler;
struct uv_loop_s;

/* What the probe found out about the device, without a context on it. */
struct device_info {
    bool known;
    char uuid[LIMIT_UUID_SIZE], name[LIMIT_NAME_SIZE], pci[LIMIT_NAME_SIZE];
    struct opt_u64 minor, total;
    bool integrated;
};

struct sampler_callbacks {
    void (*device)(void *arg, const struct device_info *info); /* each time it is (re)identified */
    /* Each reading that came, and each that was asked for and did not (both members missing),
     * before those who waited for it are told. age_ns is the time it took to arrive. */
    void (*sample)(void *arg, const struct sample *sample);
    void (*idle)(void *arg); /* the probe is gone and not wanted; may be NULL */
    void *arg;
};

/* One who waits. Embedded in the waiter; done is called exactly once per sampler_wait unless it is
 * cancelled, never from inside sampler_wait. sample is NULL where none came in time. */
struct sample_wait {
    struct list link;
    uint64_t deadline_ns;
    void (*done)(struct sample_wait *w, const struct sample *sample);
};

/* probe_path: the program to run with --probe (our own /proc/self/exe). config is borrowed and must
 * outlive the sampler; reloads show through it. NULL when there is no memory. */
struct sampler *sampler_new(struct uv_loop_s *loop, const struct config *config,
                            const char *probe_path, const struct sampler_callbacks *callbacks);

/* Kills the probe (without waiting for it), cancels all waits, closes the handles; the memory goes
 * when the loop has closed them. */
void sampler_close(struct sampler *s);

/* Identifies the device once, then lets the probe exit unless it is wanted. */
void sampler_identify(struct sampler *s);

/* While wanted the probe runs and samples every sample_interval. */
void sampler_set_wanted(struct sampler *s, bool wanted);

/* After a reload: sample_interval may be shorter now. */
void sampler_reload(struct sampler *s);

/* The newest complete reading with its age at now_ns (uv_hrtime); false where there is none. */
bool sampler_newest(const struct sampler *s, uint64_t now_ns, struct sample *ret);

/* Asks for a reading younger than now; the wait ends within sample_timeout. */
void sampler_wait(struct sampler *s, struct sample_wait *w, uint64_t now_ns);
void sampler_cancel(struct sample_wait *w);

const struct device_info *sampler_device(const struct sampler *s);

/* For status: "off", "running", "starting", "hung", "waiting 4s: CUDA_ERROR_NO_DEVICE". */
void sampler_describe(const struct sampler *s, char *out, size_t size);
