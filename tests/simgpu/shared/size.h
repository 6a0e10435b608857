/* SPDX-License-Identifier: Apache-2.0 */
/* Byte counts as text: "300Mi", "8G", "4096". K, M, G, T count in thousands, Ki, Mi, Gi, Ti in
 * 1,024s. */
#ifndef TESTS_SIMGPU_SHARED_SIZE_H
#define TESTS_SIMGPU_SHARED_SIZE_H

#include <stdint.h>

/* 0, or -1: not such a text, or more than 64 bits. */
int size_parse(const char *text, uint64_t *ret_bytes);

#endif
