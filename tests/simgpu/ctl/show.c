/* SPDX-License-Identifier: Apache-2.0 */
/* The verb show: the ledger as text for people and as JSON for tests. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simgpu/ctl/ctl.h"

static const char *const action_names[LEDGER_FAULT_MAX] = {"none", "error", "sticky", "slow",
                                                           "hang"};

/* ---- text ---- */

static void show_device_text(const struct ledger *ledger, unsigned int index)
{
    const struct ledger_device *device = &ledger->devices[index];
    char uuid[LEDGER_UUID_TEXT_SIZE];

    ledger_uuid_text(device, uuid);
    printf("device %u: %s, %s, pci 0000:%02X:00.0, minor %u%s%s\n", index, device->name, uuid,
           device->pci_bus, device->minor, device->is_integrated ? ", integrated" : "",
           device->is_lost ? ", LOST" : "");
    printf("    total %" PRIu64 " free %" PRIu64 " foreign %" PRIu64 " page_cache %" PRIu64
           " compute_mode %u generation %u oom %" PRIu64 "\n",
           device->total_bytes, ledger_free_bytes(ledger, index), device->foreign_bytes,
           device->page_cache_bytes, device->compute_mode, device->generation, device->oom_count);
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        const struct ledger_process *process = &ledger->processes[i];

        if (process->pid)
            printf("    pid %d bytes %" PRIu64 " context %s open %s%s%s\n", (int)process->pid,
                   process->bytes[index], process->has_context[index] ? "yes" : "no",
                   process->cuda_opens ? "cuda" : "",
                   process->cuda_opens && process->nvml_opens ? "," : "",
                   process->nvml_opens ? "nvml" : "");
    }
}

static void show_text(const struct ledger *ledger)
{
    for (unsigned int i = 0; i < ledger->device_count; i++)
        show_device_text(ledger, i);
    for (unsigned int i = 0; i < LEDGER_FAULTS_MAX; i++) {
        const struct ledger_fault *fault = &ledger->faults[i];

        if (fault->action != LEDGER_FAULT_NONE)
            printf("fault %s nth %u (0: every) %s %u, %u calls so far\n", fault->call, fault->nth,
                   action_names[fault->action], fault->value, fault->calls);
    }
}

/* ---- JSON ---- */

static const char *boolean(uint32_t value)
{
    return value ? "true" : "false";
}

static void show_device_json(const struct ledger *ledger, unsigned int index)
{
    const struct ledger_device *device = &ledger->devices[index];
    char uuid[LEDGER_UUID_TEXT_SIZE];

    ledger_uuid_text(device, uuid);
    printf("{\"index\":%u,\"minor\":%u,\"uuid\":\"%s\",\"pci\":\"0000:%02X:00.0\",\"name\":\"%s\",",
           index, device->minor, uuid, device->pci_bus, device->name);
    printf("\"total_bytes\":%" PRIu64 ",\"free_bytes\":%" PRIu64 ",\"used_bytes\":%" PRIu64 ",",
           device->total_bytes, ledger_free_bytes(ledger, index), ledger_used_bytes(ledger, index));
    printf("\"foreign_bytes\":%" PRIu64 ",\"page_cache_bytes\":%" PRIu64
           ",\"context_bytes\":%" PRIu64 ",\"nvml_reserved_bytes\":%" PRIu64
           ",\"oom_count\":%" PRIu64 ",",
           device->foreign_bytes, device->page_cache_bytes, device->context_bytes,
           device->nvml_reserved_bytes, device->oom_count);
    printf("\"compute_mode\":%u,\"generation\":%u,\"is_lost\":%s,\"is_integrated\":%s}",
           device->compute_mode, device->generation, boolean(device->is_lost),
           boolean(device->is_integrated));
}

static void show_process_json(const struct ledger *ledger, const struct ledger_process *process)
{
    printf("{\"pid\":%d,\"cuda_open\":%s,\"nvml_open\":%s,\"bytes\":[", (int)process->pid,
           boolean(process->cuda_opens), boolean(process->nvml_opens));
    for (unsigned int d = 0; d < ledger->device_count; d++)
        printf("%s%" PRIu64, d ? "," : "", process->bytes[d]);
    fputs("],\"has_context\":[", stdout);
    for (unsigned int d = 0; d < ledger->device_count; d++)
        printf("%s%s", d ? "," : "", boolean(process->has_context[d]));
    fputs("]}", stdout);
}

static void show_json(const struct ledger *ledger)
{
    const char *separator = "";

    fputs("{\"devices\":[", stdout);
    for (unsigned int i = 0; i < ledger->device_count; i++) {
        fputs(i ? "," : "", stdout);
        show_device_json(ledger, i);
    }
    fputs("],\"processes\":[", stdout);
    for (unsigned int i = 0; i < LEDGER_PROCESSES_MAX; i++) {
        if (!ledger->processes[i].pid)
            continue;
        fputs(separator, stdout);
        separator = ",";
        show_process_json(ledger, &ledger->processes[i]);
    }
    fputs("],\"faults\":[", stdout);
    separator = "";
    for (unsigned int i = 0; i < LEDGER_FAULTS_MAX; i++) {
        const struct ledger_fault *fault = &ledger->faults[i];

        if (fault->action == LEDGER_FAULT_NONE)
            continue;
        printf("%s{\"call\":\"%s\",\"nth\":%u,\"action\":\"%s\",\"value\":%u,\"calls\":%u}",
               separator, fault->call, fault->nth, action_names[fault->action], fault->value,
               fault->calls);
        separator = ",";
    }
    puts("]}");
}

int verb_show(int argc, char **argv)
{
    int is_json = argc == 1 && strcmp(argv[0], "--json") == 0;
    struct ledger *ledger;
    struct ledger *copy;

    if (argc > 1 || (argc == 1 && !is_json))
        return ctl_usage_error("show: the only option is --json");
    ledger = ctl_open_ledger();
    copy = malloc(sizeof(*copy));
    if (!ledger || !copy) {
        free(copy);
        return CTL_EXIT_FAILED;
    }

    /* A copy, so that a reader of our output who stops reading does not stop the GPU. */
    ledger_lock(ledger);
    ledger_reap(ledger, LEDGER_REAP_NOW);
    memcpy(copy, ledger, sizeof(*copy));
    ledger_unlock(ledger);
    if (is_json)
        show_json(copy);
    else
        show_text(copy);
    free(copy);
    return 0;
}
