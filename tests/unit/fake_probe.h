/* SPDX-License-Identifier: Apache-2.0 */
/* A probe for tests of the sampler: the environment says how it behaves (FAKE_PROBE, FAKE_SLOW_MS),
 * and it notes each start and each request in the file FAKE_NOTES, a character each. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/telemetry/telemetry.h"

#define TOTAL UINT64_C(1000000000) /* bytes of its device */

static inline void note(char event)
{
    int fd = open(getenv("FAKE_NOTES"), O_WRONLY | O_APPEND | O_CLOEXEC);

    if (fd < 0 || write(fd, &event, 1) != 1)
        _exit(99);
    close(fd);
}

static inline bool mode(const char *word)
{
    return strcmp(getenv("FAKE_PROBE"), word) == 0;
}

static inline void be_slow(void)
{
    const char *ms = getenv("FAKE_SLOW_MS");
    struct timespec t = {.tv_nsec = (ms ? atol(ms) : 0) * 1000000};

    nanosleep(&t, NULL); /* the device's latency */
}

static inline void fail_reply(struct probe_reply *reply)
{
    reply->status = 100;
    snprintf(reply->text, sizeof(reply->text), "cuInit: no driver here");
}

static inline void fill(struct probe_reply *reply)
{
    static unsigned int samples;

    if (reply->op == PROBE_IDENTIFY) {
        snprintf(reply->uuid, sizeof(reply->uuid), "GPU-fake");
        snprintf(reply->name, sizeof(reply->name), "Fake\n\x01GPU");
        reply->has_minor = reply->has_total = 1;
        reply->minor = 7;
        reply->total_bytes = TOTAL;
        return;
    }
    be_slow();
    reply->source = SOURCE_NVML;
    reply->has_free = reply->has_total = 1;
    reply->free_bytes = ++samples;
    reply->total_bytes = TOTAL;
    if (mode("wrong_magic"))
        reply->magic++;
    if (mode("wrong_seq"))
        reply->seq++;
    if (mode("fail_sample"))
        fail_reply(reply);
}

static inline int fake_probe(int argc, char **argv)
{
    struct {
        struct probe_reply reply;
        char more[8];
    } out;
    struct probe_request request;

    if (argc != 6 || strcmp(argv[2], "--gpu") || strcmp(argv[3], "0") ||
        strcmp(argv[4], "--telemetry") || strcmp(argv[5], "auto"))
        return 98;
    note('+');
    while (recv(PROBE_FD, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
        size_t size = sizeof(out.reply);

        note(request.op == PROBE_IDENTIFY ? 'i' : 's');
        memset(&out, 0, sizeof(out));
        out.reply = (struct probe_reply){PROBE_MAGIC, .seq = request.seq, .op = request.op};
        if (mode("die"))
            return PROBE_EXIT_LOST;
        if (mode("hang_start") || (mode("hang") && request.op == PROBE_SAMPLE))
            pause();
        fill(&out.reply);
        if (mode("no_driver"))
            fail_reply(&out.reply);
        if (mode("short") && request.op == PROBE_SAMPLE)
            size = 10;
        if (mode("long") && request.op == PROBE_SAMPLE)
            size = sizeof(out.reply) + 1;
        if (send(PROBE_FD, &out, size, MSG_NOSIGNAL) < 0)
            return 97;
        if (out.reply.status)
            return PROBE_EXIT_NO_DRIVER;
    }
    if (mode("stays"))
        pause();
    if (mode("lingers"))
        be_slow();
    note('-');
    return 0;
}
