/* SPDX-License-Identifier: Apache-2.0 */
/* The verb fault: plants faults for the calls of both libraries. */
#include <string.h>

#include "proto/abi/cuda_abi.h"
#include "proto/abi/nvml_abi.h"
#include "tests/simgpu/ctl/ctl.h"
#include "tests/simgpu/shared/fault.h"

/* A misspelt name would plant a fault that never happens. */
static int is_known_call(const char *name)
{
    static const char *const known[] = {
#define CUDA_NAME(field, symbol, since, need, args) #symbol,
        CUABI_FUNCS(CUDA_NAME)
#define NVML_NAME(field, symbol, need, result, args) #symbol,
            NVABI_FUNCS(NVML_NAME)};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i], name) == 0)
            return 1;
    }
    return 0;
}

/* Splits CALL[:NTH|:*]; nth 0 stands for every call. 0, or CTL_EXIT_USAGE after a message. */
static int parse_call(const char *text, char *name, size_t size, uint32_t *ret_nth)
{
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);

    if (length >= size)
        return ctl_usage_error("fault: \"%s\" is too long", text);
    memcpy(name, text, length);
    name[length] = '\0';
    if (!is_known_call(name))
        return ctl_usage_error("fault: no call \"%s\" (exported names, such as cuMemAlloc_v2)",
                               name);
    *ret_nth = 0;
    if (!colon || strcmp(colon, ":*") == 0)
        return 0;
    if (ctl_parse_number(colon + 1, ret_nth) || *ret_nth == 0)
        return ctl_usage_error("fault: \"%s\" is neither a count from 1 nor *", colon + 1);
    return 0;
}

static int parse_action(const char *text, enum ledger_fault_action *ret_action, uint32_t *ret_value)
{
    static const struct {
        const char *prefix;
        enum ledger_fault_action action;
    } actions[] = {
        {"error=", LEDGER_FAULT_ERROR},
        {"sticky=", LEDGER_FAULT_STICKY},
        {"slow=", LEDGER_FAULT_SLOW},
    };

    *ret_value = 0;
    if (strcmp(text, "hang") == 0) {
        *ret_action = LEDGER_FAULT_HANG;
        return 0;
    }
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        size_t length = strlen(actions[i].prefix);

        if (strncmp(text, actions[i].prefix, length) != 0)
            continue;
        if (ctl_parse_number(text + length, ret_value))
            return ctl_usage_error("fault: \"%s\" wants a number", text);
        *ret_action = actions[i].action;
        return 0;
    }
    return ctl_usage_error("fault: no action \"%s\" (error=, sticky=, slow=, hang, clear)", text);
}

int verb_fault(int argc, char **argv)
{
    struct ledger *ledger = ctl_open_ledger();
    enum ledger_fault_action action = LEDGER_FAULT_NONE;
    char name[sizeof(((struct ledger_fault *)0)->call)];
    uint32_t value;
    uint32_t nth;
    int status;

    if (!ledger)
        return CTL_EXIT_FAILED;
    if (argc == 1 && strcmp(argv[0], "clear") == 0) {
        fault_clear(ledger, NULL);
        return 0;
    }
    if (argc != 2)
        return ctl_usage_error("fault: wants CALL and ACTION, or clear");
    status = parse_call(argv[0], name, sizeof(name), &nth);
    if (status)
        return status;
    if (strcmp(argv[1], "clear") == 0) {
        fault_clear(ledger, name);
        return 0;
    }
    status = parse_action(argv[1], &action, &value);
    if (status)
        return status;
    if (fault_set(ledger, name, nth, action, value))
        return ctl_failure("fault: all %d places are taken", LEDGER_FAULTS_MAX);
    return 0;
}
