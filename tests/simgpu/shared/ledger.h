/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPUs of one test: a file that all processes of the test map. It says how much
 * memory each device has and which process holds how much of it, which faults are planted, and
 * nothing about the contents of the memory.
 *
 * Every member is read and written under ledger_lock(), but for those marked (atomic). A process
 * that dies while it holds the lock stops nobody: the next one repairs the sums and goes on.
 * Dead processes are found lazily, see ledger_reap().
 */
#ifndef TESTS_SIMGPU_SHARED_LEDGER_H
#define TESTS_SIMGPU_SHARED_LEDGER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_DEVICES_MAX   8
#define LEDGER_PROCESSES_MAX 1200 /* tests start 1,024 workers at once, and a few helpers */
#define LEDGER_FAULTS_MAX    32

/* Where the libraries and the tool find the file. */
#define LEDGER_PATH_ENV "SIMGPU"

/* The minor number (the N of /dev/nvidiaN) is not the index: mixing them up must show. */
#define LEDGER_MINOR_OFFSET 3

struct ledger_device {
    uint64_t total_bytes;
    uint64_t foreign_bytes;       /* held by nobody we track: other users of the GPU */
    uint64_t page_cache_bytes;    /* integrated parts: not free, but gives way to allocations */
    uint64_t context_bytes;       /* what one context costs */
    uint64_t nvml_reserved_bytes; /* NVML's total is this much larger than CUDA's */
    uint64_t held_bytes;          /* the sum over all processes */
    uint64_t oom_count;           /* allocations refused */
    uint32_t generation; /* (atomic) bumped by a simulated reset: older contexts are dead */
    uint32_t is_lost;    /* (atomic) "fallen off the bus" */
    uint32_t is_integrated;
    uint32_t compute_mode; /* CUABI_COMPUTEMODE_* */
    uint32_t minor;
    uint32_t pci_bus;
    uint8_t uuid[16];
    char name[64];
};

struct ledger_process {
    int32_t pid;         /* 0: the slot is free */
    uint32_t cuda_opens; /* 1 after cuInit: only the end of the process closes it */
    uint32_t nvml_opens; /* nvmlInit minus nvmlShutdown */
    uint32_t has_context[LEDGER_DEVICES_MAX];
    uint64_t start_ticks; /* with pid: this process and no later one of the same number */
    uint64_t image;       /* with pid: this program and not one that it exec'd */
    uint64_t bytes[LEDGER_DEVICES_MAX];
};

enum ledger_fault_action {
    LEDGER_FAULT_NONE, /* the slot is free */
    LEDGER_FAULT_ERROR,
    LEDGER_FAULT_STICKY, /* as an error, and every later call of the process gets it too */
    LEDGER_FAULT_SLOW,
    LEDGER_FAULT_HANG,
    LEDGER_FAULT_MAX
};

struct ledger_fault {
    char call[56];   /* exported symbol, such as cuMemGetInfo_v2 */
    uint32_t action; /* enum ledger_fault_action */
    uint32_t value;  /* code, or milliseconds */
    uint32_t nth;    /* hits the nth call after it was set; 0: every call */
    uint32_t calls;  /* counted over all processes */
    uint64_t serial; /* (atomic) tells a fault from an earlier one in the same slot */
};

struct ledger {
    uint32_t magic; /* written last by ledger_create() */
    uint32_t size_bytes;
    uint32_t device_count;
    uint32_t fault_count; /* (atomic) 0: calls need not look at the table */
    uint64_t fault_serial;
    uint64_t reap_due_ns; /* no need to look for dead processes before this */
    pthread_mutex_t mutex;
    struct ledger_device devices[LEDGER_DEVICES_MAX];
    struct ledger_fault faults[LEDGER_FAULTS_MAX];
    struct ledger_process processes[LEDGER_PROCESSES_MAX];
};

struct ledger_options {
    uint32_t device_count;
    uint64_t total_bytes;
    uint64_t context_bytes;
    int is_integrated;
};

/* Makes the file at path, in place of an older one (which stays with those who have it mapped).
 * 0, or -1 with errno set. */
int ledger_create(const char *path, const struct ledger_options *options);

/* Maps the file at path (NULL: the one that the environment names). It stays mapped to the end of
 * the process. NULL on failure, then *ret_why is a sentence. */
struct ledger *ledger_open(const char *path, const char **ret_why);

void ledger_lock(struct ledger *ledger);
void ledger_unlock(struct ledger *ledger);

/* ---- everything below wants the lock held ---- */

/* The slot of the calling process, claimed at the first call. NULL: all are taken. */
struct ledger_process *ledger_self(struct ledger *ledger);

/* The slot of the calling process if it has one, else NULL. */
struct ledger_process *ledger_find_self(struct ledger *ledger);

/* Gives all that the process holds back and frees its slot. */
void ledger_drop(struct ledger *ledger, struct ledger_process *process);

/* Takes bytes for the process, looking for dead processes before it refuses. 0, or -1: there is
 * not that much free. */
int ledger_charge(struct ledger *ledger, struct ledger_process *process, unsigned int device,
                  uint64_t bytes);
void ledger_refund(struct ledger *ledger, struct ledger_process *process, unsigned int device,
                   uint64_t bytes);

/* What a query of free memory answers: page cache does not count as free. */
uint64_t ledger_free_bytes(const struct ledger *ledger, unsigned int device);
uint64_t ledger_used_bytes(const struct ledger *ledger, unsigned int device);

enum ledger_reap_when { LEDGER_REAP_IF_DUE, LEDGER_REAP_NOW };

/*
 * Gives the memory of dead processes back, zombies included. That costs some microseconds a
 * process, so IF_DUE does it at most every 10 ms, and less often when there are so many processes
 * that it would take more than a tenth of the time.
 */
void ledger_reap(struct ledger *ledger, enum ledger_reap_when when);

/* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
#define LEDGER_UUID_TEXT_SIZE 41
void ledger_uuid_text(const struct ledger_device *device, char text[LEDGER_UUID_TEXT_SIZE]);

/* Monotonic nanoseconds. */
uint64_t ledger_now_ns(void);

#endif
