/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted faults: a table in the ledger that every call of both libraries looks at first. `simgpu
 * fault` fills it, at any time, for all processes of the ledger at once.
 */
#ifndef TESTS_SIMGPU_SHARED_FAULT_H
#define TESTS_SIMGPU_SHARED_FAULT_H

#include "tests/simgpu/shared/ledger.h"

struct fault_outcome {
    int is_error; /* the call must return code */
    int is_sticky;
    unsigned int code;
};

/*
 * Counts this call of the exported symbol and does what is planted: sleeps here, or tells the
 * caller what to return. Cheap when nothing is planted. The lock must not be held.
 */
struct fault_outcome fault_pass(struct ledger *ledger, const char *call);

/* Plants a fault in place of an equal call and nth. 0, or -1: the table is full. Takes the lock. */
int fault_set(struct ledger *ledger, const char *call, uint32_t nth,
              enum ledger_fault_action action, uint32_t value);

/* Takes all faults of the call away (NULL: of every call); those who hang go on. Takes the lock. */
void fault_clear(struct ledger *ledger, const char *call);

#endif
