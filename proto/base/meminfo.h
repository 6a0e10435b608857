/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs whose memory is the host's. There the driver's "free" is the kernel's MemFree: reading a
 * file of 60 GB made 103 GB free into 41 GB on a GB10 while nothing was in use, and NVML answers
 * NOT_SUPPORTED. So free is what the kernel says it could give, and total the driver's. */
#pragma once

#include <stdint.h>

#include "proto/base/attr.h"

#define MEMINFO_PATH "/proc/meminfo"

/* Bytes that the kernel could give: MemAvailable without the pool of huge pages. Returns 0, ERR_IO
 * or ERR_INVALID with *ret_why, which is valid until the next call of strerror. */
int meminfo_read(const char *path, uint64_t *ret_bytes, const char **ret_why) _must_check_;

/* What is free: the larger of both readings, never more than total. free_bytes is 0 where the
 * driver gave none. */
uint64_t meminfo_correct(uint64_t free_bytes, uint64_t available_bytes, uint64_t total_bytes);
