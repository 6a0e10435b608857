/* SPDX-License-Identifier: Apache-2.0 */
/* `dlod --probe`: chooses the backends, answers requests. The state is one struct on the stack of
 * probe_serve; what the kernel holds for us goes back when the process exits, and not before. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "daemon/telemetry/backend.h"
#include "daemon/telemetry/telemetry.h"
#include "proto/base/error.h"
#include "proto/base/meminfo.h"

struct probe {
    const char *gpu, *backend;
    struct telemetry_target target;
    struct telemetry_identity identity;
    void *cuda; /* who tells the identity; NULL without libcuda */
    const struct telemetry_backend *source;
    void *source_state; /* the same as cuda where that is the source */
};

/* What telemetry = WORD stands for. The word "worker" is not here: it has no probe. */
struct choice {
    const char *word;
    bool nvml, cuda; /* may be the source; nvml first */
};
static const struct choice choices[] = {
    {"auto", true, true},
    {"nvml", true, false},
    {"cuda", false, true},
};

const char *probe_exit_word(int code)
{
    switch (code) {
#define X(name, value, word)                                                                       \
    case value:                                                                                    \
        return word;
        PROBE_EXIT_MAP(X)
#undef X
    default:
        return "unknown";
    }
}

int telemetry_fail(struct telemetry_error *error, int exit_code, int32_t status, const char *format,
                   ...)
{
    va_list args;

    error->exit_code = exit_code;
    error->status = status;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return ERR_IO;
}

void telemetry_append(char text[LIMIT_TEXT_SIZE], const char *sentence)
{
    size_t used = strlen(text);

    snprintf(text + used, LIMIT_TEXT_SIZE - used, "%s%s", used ? "; " : "", sentence);
}

/* A minor number becomes a PCI id, which every library understands. */
static int settle_minor(struct telemetry_target *target, struct telemetry_error *error)
{
    uint32_t minor = target->spec.number;

    if (target->spec.kind != GPU_MINOR)
        return 0;
    if (telemetry_nvml_find_minor(minor, &target->spec.pci) &&
        gpu_proc_find_minor(target->gpus_path, minor, &target->spec.pci))
        return telemetry_fail(error, PROBE_EXIT_NO_DEVICE, 0,
                              "neither NVML nor %s knows a device with minor number %u",
                              target->gpus_path, minor);
    target->spec.kind = GPU_PCI;
    return 0;
}

/* The source that needs no context. Fails with *error; is_absent where another may be tried. */
static int open_nvml(struct probe *p, struct telemetry_error *error, bool *is_absent)
{
    int rc = telemetry_nvml.open(&p->target, &p->source_state, error);

    *is_absent = rc && (error->exit_code == PROBE_EXIT_NO_DRIVER ||
                        error->exit_code == PROBE_EXIT_NO_DEVICE);
    if (rc)
        return rc;
    p->source = &telemetry_nvml;
    return telemetry_nvml.identify(p->source_state, &p->identity, error);
}

/* Without NVML: the host's own numbers where they are the device's, else a context. */
static int open_instead(struct probe *p, struct telemetry_error *error)
{
    if (p->identity.integrated) {
        p->source = &telemetry_meminfo;
        return telemetry_meminfo.open(&p->target, &p->source_state, error);
    }
    p->source = &telemetry_cuda;
    p->source_state = p->cuda;
    return 0;
}

/* Identity from CUDA, without a context, where its library is there. */
static int open_cuda(struct probe *p, bool is_needed, struct telemetry_error *error)
{
    int rc = telemetry_cuda.open(&p->target, &p->cuda, error);

    if (!rc)
        return telemetry_cuda.identify(p->cuda, &p->identity, error);
    if (is_needed || error->exit_code != PROBE_EXIT_NO_DRIVER)
        return rc;
    telemetry_append(p->identity.note, error->text);
    return 0;
}

static int probe_open(struct probe *p, struct telemetry_error *error)
{
    const struct choice *choice = NULL;
    bool is_absent;
    int rc;

    for (size_t i = 0; i < ARRAY_SIZE(choices); i++) {
        if (strcmp(choices[i].word, p->backend) == 0)
            choice = &choices[i];
    }
    if (!choice)
        return telemetry_fail(error, PROBE_EXIT_USAGE, 0, "telemetry: no backend of that name");
    if (gpu_spec_parse(p->gpu, &p->target.spec))
        return telemetry_fail(error, PROBE_EXIT_USAGE, 0,
                              "gpu: not an index, minor:N, a GPU or MIG UUID or a PCI id");
    rc = settle_minor(&p->target, error);
    if (!rc)
        rc = open_cuda(p, !choice->nvml, error);
    if (rc)
        return rc;
    if (!choice->nvml) {
        p->source = &telemetry_cuda;
        p->source_state = p->cuda;
        return 0;
    }
    rc = open_nvml(p, error, &is_absent);
    if (rc && is_absent && choice->cuda && p->cuda) {
        telemetry_append(p->identity.note, error->text);
        rc = open_instead(p, error);
        if (!rc)
            telemetry_append(p->identity.note, p->source == &telemetry_cuda
                                                   ? "using a CUDA context instead"
                                                   : "using /proc/meminfo alone instead");
    } else if (rc && p->identity.note[0]) {
        telemetry_append(error->text, p->identity.note);
    }
    return rc;
}

static void probe_close(struct probe *p)
{
    if (p->source && p->source_state != p->cuda)
        p->source->close(p->source_state);
    telemetry_cuda.close(p->cuda);
}

static int identify(struct probe *p, struct probe_reply *reply)
{
    const struct telemetry_identity *id = &p->identity;

    reply->source = p->source == &telemetry_nvml   ? SOURCE_NVML
                    : p->source == &telemetry_cuda ? SOURCE_CUDA
                                                   : SOURCE_MEMINFO;
    if (id->integrated)
        reply->source = SOURCE_MEMINFO;
    reply->has_total = id->total.has;
    reply->total_bytes = id->total.v;
    reply->has_minor = id->minor.has;
    reply->minor = (uint32_t)id->minor.v;
    reply->integrated = id->integrated;
    reply->compute_mode = id->compute_mode;
    memcpy(reply->uuid, id->uuid, sizeof(reply->uuid));
    memcpy(reply->name, id->name, sizeof(reply->name));
    memcpy(reply->pci, id->pci, sizeof(reply->pci));
    memcpy(reply->text, id->note, sizeof(reply->text));
    return 0;
}

static int sample(struct probe *p, struct probe_reply *reply, struct telemetry_error *error)
{
    struct telemetry_reading reading;
    uint64_t available;
    int rc;

    if (!p->source)
        return telemetry_fail(error, PROBE_EXIT_FAILED, 0,
                              "asked for a sample before it knew its device");
    rc = p->source->sample(p->source_state, &reading, error);
    if (rc)
        return rc;
    if (p->identity.integrated) {
        rc = telemetry_meminfo_read(p->target.meminfo_path, &available, error);
        if (rc)
            return rc;
        telemetry_meminfo_correct(&reading, available, p->identity.total.v);
    }
    if (!reading.free.has || !reading.total.has)
        return telemetry_fail(error, PROBE_EXIT_FAILED, 0, "%s: no memory reading for this device",
                              p->source->name);
    reply->source = (uint32_t)reading.source;
    reply->has_free = reply->has_total = 1;
    reply->free_bytes = reading.free.v;
    reply->total_bytes = reading.total.v;
    return 0;
}

/* Fills the reply. Returns 0 or the exit code after it: what failed once in a vendor library is
 * left to a fresh process. */
static int answer(struct probe *p, const struct probe_request *request, struct probe_reply *reply)
{
    struct telemetry_error error = {0};
    int rc = p->source ? 0 : probe_open(p, &error);

    if (!rc)
        rc = request->op == PROBE_IDENTIFY ? identify(p, reply) : sample(p, reply, &error);
    if (!rc)
        return PROBE_EXIT_OK;
    /* a failure without a number of the library's still must not read as success */
    reply->status = error.status ? error.status : -1;
    memcpy(reply->text, error.text, sizeof(reply->text));
    return error.exit_code;
}

static int complain(const char *what)
{
    fprintf(stderr, "dlod --probe: %s\n", what);
    return PROBE_EXIT_USAGE;
}

static int serve(struct probe *p, int fd)
{
    for (;;) {
        struct probe_request request;
        struct probe_reply reply = {.magic = PROBE_MAGIC};
        ssize_t n = recv(fd, &request, sizeof(request), MSG_TRUNC);
        int code;

        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return PROBE_EXIT_OK;
        if (n < 0)
            return complain("fd 3 is not the socket of a sampler");
        if (n != sizeof(request) || request.magic != PROBE_MAGIC ||
            (request.op != PROBE_IDENTIFY && request.op != PROBE_SAMPLE))
            return complain("a request that is not of this build");
        reply.seq = request.seq;
        reply.op = request.op;
        code = answer(p, &request, &reply);
        if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) != (ssize_t)sizeof(reply))
            return PROBE_EXIT_OK; /* nobody is there to be told */
        if (code != PROBE_EXIT_OK)
            return code;
    }
}

int probe_serve(int fd, const char *gpu, const char *backend, const struct probe_paths *paths)
{
    struct probe p = {
        .gpu = gpu,
        .backend = backend,
        .target = {.meminfo_path = paths->meminfo, .gpus_path = paths->gpus},
    };
    int code;

    p.target.known = &p.identity;
    code = serve(&p, fd);
    probe_close(&p);
    return code;
}

int probe_main(const char *gpu, const char *backend)
{
    const struct probe_paths paths = {.meminfo = MEMINFO_PATH, .gpus = GPU_PROC_PATH};

    /* Even while a vendor call hangs: end of file alone would not be read then. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The daemon ends us by closing the socket; a ^C on its terminal must not look like a crash. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    return probe_serve(PROBE_FD, gpu, backend, &paths);
}
