/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver, continued: planted faults, special devices, identity, NVML. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simgpu/harness.h"
#include "tests/simgpu/shared/ledger.h"

/* ---- planted faults ---- */

START_TEST(planted_error_hits_the_nth_call_or_all)
{
    size_t bytes;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_int_eq(simgpu("fault cuMemGetInfo_v2:2 error=999"), 0);
    free_bytes();
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &bytes), 999);
    free_bytes();
    ck_assert_int_eq(simgpu("fault cuMemGetInfo_v2 error=2"), 0);
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &bytes), 2);
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &bytes), 2);
    ck_assert_int_eq(simgpu("fault cuMemGetInfo_v2 clear"), 0);
    free_bytes();
    ck_assert_int_eq(simgpu("fault cuMemGetInfo error=2 >/dev/null"), 2); /* no such symbol */
}
END_TEST

START_TEST(planted_sticky_error_finishes_the_process)
{
    unsigned long long address;
    size_t bytes;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_int_eq(simgpu("fault cuMemAlloc_v2:1 sticky=719"), 0);
    ck_assert_uint_eq(cu.mem_alloc(&address, MIB), CUABI_ERROR_LAUNCH_FAILED);
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &bytes), CUABI_ERROR_LAUNCH_FAILED);
    ck_assert_uint_eq(cu.ctx_synchronize(), CUABI_ERROR_LAUNCH_FAILED);
}
END_TEST

START_TEST(planted_delay_slows_a_call_of_either_library)
{
    struct nvmlDevice_st *device = start_nvml();
    struct nvmlMemory_st memory;
    int64_t before_ms;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_int_eq(simgpu("fault cuMemGetInfo_v2:1 slow=120"), 0);
    ck_assert_int_eq(simgpu("fault nvmlDeviceGetMemoryInfo:1 slow=120"), 0);
    before_ms = now_ms();
    free_bytes();
    ck_assert_int_ge(now_ms() - before_ms, 119);
    before_ms = now_ms();
    ck_assert_uint_eq(nv.device_get_memory_info(device, &memory), NVABI_SUCCESS);
    ck_assert_int_ge(now_ms() - before_ms, 119);
}
END_TEST

START_TEST(planted_hang_blocks_a_process_that_can_be_killed)
{
    struct pollfd answer = {.events = POLLIN};
    struct peer peer;

    peer = peer_start();
    ck_assert_int_eq(answer_of(&peer), CUABI_SUCCESS);
    ck_assert_int_eq(simgpu("fault cuMemAlloc_v2 hang"), 0);
    tell(&peer, "alloc", 1);
    WAIT_FOR(shows("1 calls so far"));
    answer.fd = fileno(peer.answers);
    ck_assert_int_eq(poll(&answer, 1, 50), 0); /* silence is what is expected */
    ck_assert(shows("open cuda"));             /* and nobody else is held up */
    ck_assert_int_eq(simgpu("fault clear"), 0);
    ck_assert_int_eq(answer_of(&peer), CUABI_SUCCESS);

    ck_assert_int_eq(simgpu("fault cuMemAlloc_v2 hang"), 0);
    tell(&peer, "alloc", 1);
    WAIT_FOR(shows("1 calls so far"));
    peer_kill(&peer);
    ck_assert(!shows("open cuda"));
}
END_TEST

/* Takes the lock of the ledger, leaves a sum wrong and dies. */
static void die_with_the_lock(void)
{
    int fd = open(getenv("SIMGPU"), O_RDWR);
    struct ledger *ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (ledger == MAP_FAILED)
        _exit(1);
    pthread_mutex_lock(&ledger->mutex);
    ledger->devices[0].held_bytes += 100 * MIB;
    kill(getpid(), SIGKILL);
}

START_TEST(process_killed_with_the_lock_stops_nobody)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        die_with_the_lock();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), TOTAL - CONTEXT);
}
END_TEST

START_TEST(lost_device_fails_in_both_libraries)
{
    struct nvmlDevice_st *device = start_nvml();
    struct nvmlMemory_st memory;
    size_t bytes;

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_int_eq(simgpu("set lost=1"), 0);
    ck_assert_uint_eq(cu.mem_get_info(&bytes, &bytes), CUABI_ERROR_UNKNOWN);
    ck_assert_uint_eq(nv.device_get_memory_info(device, &memory), NVABI_ERROR_GPU_IS_LOST);
    ck_assert_int_eq(simgpu("set lost=0"), 0);
    free_bytes();
    ck_assert_uint_eq(nv.device_get_memory_info(device, &memory), NVABI_SUCCESS);
}
END_TEST

/* ---- integrated parts, identity, NVML ---- */

START_TEST(integrated_part_has_page_cache_that_gives_way)
{
    struct nvmlDevice_st *device = start_nvml();
    struct nvmlMemory_v2_st memory = {.version = NVABI_MEMORY_V2};
    unsigned long long address;
    int is_integrated = 0;

    ck_assert_int_eq(simgpu("set integrated=1 page_cache=600Mi"), 0);
    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.device_get_attribute(&is_integrated, CUABI_DEVICE_ATTRIBUTE_INTEGRATED, 0),
                      CUABI_SUCCESS);
    ck_assert_int_eq(is_integrated, 1);
    ck_assert_uint_eq(free_bytes(), 124 * MIB);
    ck_assert_uint_eq(cu.mem_alloc(&address, 500 * MIB), CUABI_SUCCESS);
    ck_assert_uint_eq(free_bytes(), 0);
    ck_assert_uint_eq(nv.device_get_memory_info_v2(device, &memory), NVABI_ERROR_NOT_SUPPORTED);
}
END_TEST

/* Writes the UUID as NVML spells it. */
static void spell_uuid(const struct CUuuid_st *uuid, char text[48])
{
    char *end = text + sprintf(text, "GPU-");

    for (int i = 0; i < 16; i++)
        end += sprintf(end, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                       (unsigned int)(unsigned char)uuid->bytes[i]);
}

START_TEST(both_libraries_agree_who_a_device_is)
{
    ck_assert_int_eq(simgpu("create --devices 3 --total 1Gi"), 0);
    start_nvml();
    load_cuda();
    ck_assert_uint_eq(cu.init(0), CUABI_SUCCESS);
    for (unsigned int i = 0; i < 3; i++) {
        struct nvmlDevice_st *by_pci;
        struct nvmlDevice_st *by_uuid;
        struct nvmlDevice_st *by_index;
        struct CUuuid_st uuid;
        unsigned int minor;
        char cuda_text[48];
        char nvml_text[48];
        char pci[32];

        ck_assert_uint_eq(cu.device_get_uuid(&uuid, (int)i), CUABI_SUCCESS);
        ck_assert_uint_eq(cu.device_get_pci_bus_id(pci, sizeof(pci), (int)i), CUABI_SUCCESS);
        spell_uuid(&uuid, cuda_text);
        ck_assert_uint_eq(nv.device_get_handle_by_index(i, &by_index), NVABI_SUCCESS);
        ck_assert_uint_eq(nv.device_get_handle_by_pci_bus_id(pci, &by_pci), NVABI_SUCCESS);
        ck_assert_uint_eq(nv.device_get_handle_by_uuid(cuda_text, &by_uuid), NVABI_SUCCESS);
        ck_assert_ptr_eq(by_pci, by_index);
        ck_assert_ptr_eq(by_uuid, by_index);
        ck_assert_uint_eq(nv.device_get_uuid(by_pci, nvml_text, sizeof(nvml_text)), NVABI_SUCCESS);
        ck_assert_str_eq(nvml_text, cuda_text);
        ck_assert_uint_eq(nv.device_get_minor_number(by_pci, &minor), NVABI_SUCCESS);
        ck_assert_uint_ne(minor, i);
    }
}
END_TEST

START_TEST(visible_devices_rename_ordinals_in_cuda_only)
{
    struct CUuuid_st uuid;
    unsigned int nvml_count;
    int count;

    ck_assert_int_eq(simgpu("create --devices 3"), 0);
    setenv("CUDA_VISIBLE_DEVICES", "2,GPU-d0d7dee5,7,1", 1);
    start_nvml();
    load_cuda();
    ck_assert_uint_eq(cu.init(0), CUABI_SUCCESS);
    ck_assert_uint_eq(cu.device_get_count(&count), CUABI_SUCCESS);
    ck_assert_int_eq(count, 2); /* the list ends at the first bad entry */
    ck_assert_uint_eq(cu.device_get_uuid(&uuid, 1), CUABI_SUCCESS);
    ck_assert_uint_eq((unsigned char)uuid.bytes[0], 0xd0);
    ck_assert_uint_eq(nv.device_get_count(&nvml_count), NVABI_SUCCESS);
    ck_assert_uint_eq(nvml_count, 3);
}
END_TEST

START_TEST(nvml_sees_the_same_memory_without_a_context)
{
    struct nvmlDevice_st *device = start_nvml();
    struct nvmlMemory_v2_st memory = {.version = 2};
    struct nvmlMemory_st old;
    struct nvmlProcessInfo_v2_st processes[2];
    unsigned int count = 0;

    ck_assert_uint_eq(nv.device_get_memory_info_v2(device, &memory),
                      NVABI_ERROR_ARGUMENT_VERSION_MISMATCH);
    memory.version = NVABI_MEMORY_V2;
    ck_assert_uint_eq(nv.device_get_memory_info_v2(device, &memory), NVABI_SUCCESS);
    ck_assert_uint_eq(memory.used, 0);
    ck_assert_uint_eq(memory.total, TOTAL);

    ck_assert_uint_eq(start_cuda(), CUABI_SUCCESS);
    ck_assert_int_eq(simgpu("set nvml_reserved=10Mi"), 0);
    ck_assert_uint_eq(nv.device_get_memory_info_v2(device, &memory), NVABI_SUCCESS);
    ck_assert_uint_eq(memory.total, TOTAL + 10 * MIB);
    ck_assert_uint_eq(memory.used, CONTEXT);
    ck_assert_uint_eq(memory.free, free_bytes());
    ck_assert_uint_eq(nv.device_get_memory_info(device, &old), NVABI_SUCCESS);
    ck_assert_uint_eq(old.used, CONTEXT + 10 * MIB); /* the old call counts what is reserved */

    ck_assert_uint_eq(nv.device_get_compute_running_processes(device, &count, NULL),
                      NVABI_ERROR_INSUFFICIENT_SIZE);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(nv.device_get_compute_running_processes(device, &count, processes),
                      NVABI_SUCCESS);
    ck_assert_int_eq((int)processes[0].pid, getpid());
    ck_assert_uint_eq(processes[0].usedGpuMemory, CONTEXT);
}
END_TEST

static void add_cases(TCase *tcase)
{
    tcase_add_test(tcase, planted_error_hits_the_nth_call_or_all);
    tcase_add_test(tcase, planted_sticky_error_finishes_the_process);
    tcase_add_test(tcase, planted_delay_slows_a_call_of_either_library);
    tcase_add_test(tcase, planted_hang_blocks_a_process_that_can_be_killed);
    tcase_add_test(tcase, process_killed_with_the_lock_stops_nobody);
    tcase_add_test(tcase, lost_device_fails_in_both_libraries);
    tcase_add_test(tcase, integrated_part_has_page_cache_that_gives_way);
    tcase_add_test(tcase, both_libraries_agree_who_a_device_is);
    tcase_add_test(tcase, visible_devices_rename_ordinals_in_cuda_only);
    tcase_add_test(tcase, nvml_sees_the_same_memory_without_a_context);
}

int main(int argc, char **argv)
{
    return harness_main(argc, argv, "simgpu_faults", add_cases);
}
