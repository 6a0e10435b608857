/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that change a device: set and reset. */
#include <stddef.h>
#include <string.h>

#include "tests/simgpu/ctl/ctl.h"
#include "tests/simgpu/shared/size.h"

enum key_kind { KEY_BYTES, KEY_FLAG, KEY_MODE };

static const struct key {
    const char *name;
    enum key_kind kind;
    size_t offset; /* of the member: 64 bits of bytes, or 32 bits of flag or mode */
} keys[] = {
    {"total", KEY_BYTES, offsetof(struct ledger_device, total_bytes)},
    {"foreign", KEY_BYTES, offsetof(struct ledger_device, foreign_bytes)},
    {"page_cache", KEY_BYTES, offsetof(struct ledger_device, page_cache_bytes)},
    {"context", KEY_BYTES, offsetof(struct ledger_device, context_bytes)},
    {"nvml_reserved", KEY_BYTES, offsetof(struct ledger_device, nvml_reserved_bytes)},
    {"lost", KEY_FLAG, offsetof(struct ledger_device, is_lost)},
    {"integrated", KEY_FLAG, offsetof(struct ledger_device, is_integrated)},
    {"compute_mode", KEY_MODE, offsetof(struct ledger_device, compute_mode)},
};

static const struct key *find_key(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (strlen(keys[i].name) == length && strncmp(keys[i].name, name, length) == 0)
            return &keys[i];
    }
    return NULL;
}

/* 0, or -1: the text is no value for this key. */
static int parse_value(const struct key *key, const char *text, uint64_t *ret_value)
{
    uint32_t number;

    if (key->kind == KEY_BYTES)
        return size_parse(text, ret_value);
    if (ctl_parse_number(text, &number))
        return -1;
    if (key->kind == KEY_FLAG && number > 1)
        return -1;
    if (key->kind == KEY_MODE && number != 0 && number != 2 && number != 3)
        return -1;
    *ret_value = number;
    return 0;
}

static void store(struct ledger_device *device, const struct key *key, uint64_t value)
{
    char *member = (char *)device + key->offset;
    uint32_t narrow = (uint32_t)value;

    if (key->kind == KEY_BYTES)
        memcpy(member, &value, sizeof(value));
    else
        __atomic_store_n((uint32_t *)(void *)member, narrow, __ATOMIC_RELEASE);
}

static int set_one(struct ledger *ledger, unsigned int device, const char *word)
{
    const char *equals = strchr(word, '=');
    const struct key *key = equals ? find_key(word, (size_t)(equals - word)) : NULL;
    uint64_t value;

    if (!key)
        return ctl_usage_error("set: \"%s\" is no KEY=VALUE, see simgpu --help", word);
    if (parse_value(key, equals + 1, &value))
        return ctl_usage_error("set: \"%s\" is no value for %s", equals + 1, key->name);
    ledger_lock(ledger);
    store(&ledger->devices[device], key, value);
    ledger_unlock(ledger);
    return 0;
}

int verb_set(int argc, char **argv)
{
    struct ledger *ledger = ctl_open_ledger();
    unsigned int device;
    int status;

    if (!ledger)
        return CTL_EXIT_FAILED;
    status = ctl_take_device(ledger, &argc, &argv, &device);
    if (status)
        return status;
    if (argc == 0)
        return ctl_usage_error("set: nothing to set");
    for (int i = 0; i < argc && !status; i++)
        status = set_one(ledger, device, argv[i]);
    return status;
}

/* As on hardware: any process that has the driver open stands in the way. */
int verb_reset(int argc, char **argv)
{
    struct ledger *ledger = ctl_open_ledger();
    unsigned int device;
    int holder = 0;
    int status;

    if (!ledger)
        return CTL_EXIT_FAILED;
    status = ctl_take_device(ledger, &argc, &argv, &device);
    if (status)
        return status;
    if (argc > 0)
        return ctl_usage_error("reset: \"%s\" is one word too many", argv[0]);

    ledger_lock(ledger);
    ledger_reap(ledger, LEDGER_REAP_NOW);
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX && !holder; i++)
        holder = ledger->processes[i].pid;
    if (!holder) {
        __atomic_fetch_add(&ledger->devices[device].generation, 1, __ATOMIC_ACQ_REL);
        __atomic_store_n(&ledger->devices[device].is_lost, 0, __ATOMIC_RELEASE);
    }
    ledger_unlock(ledger);
    if (holder)
        return ctl_failure("reset: device %u is in use by process %d", device, holder);
    return 0;
}
