/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "daemon/config.h"
#include "daemon/log.h"
#include "daemon/room.h"
#include "daemon/server.h"
#include "daemon/service.h"
#include "daemon/session.h"
#include "daemon/socket.h"
#include "proto/base/error.h"

#define DESCRIPTORS_SPARE                                                                          \
    64 /* beside two a connection: loop, journal, probe, log, refused peers                        \
        */

#define NS_PER_MS 1000000u

struct daemon {
    uv_loop_t loop;
    uv_signal_t sigterm, sigint, sighup;
    uv_prepare_t before_poll; /* after timers, which a loop turn begins with */
    uv_timer_t room_timer;    /* a deadline of the arbiter */
    uv_check_t after_poll;    /* after packets, signals and children */
    struct config *config;
    int argc;
    char *const *argv;
    struct service service;
    struct listener listener;
    struct server *server;
    char uuid[LIMIT_UUID_SIZE]; /* of the device that was identified last */
    int exit_code;
    bool is_stopping;
};

static void stop(struct daemon *d, int exit_code, const char *cause);

/* ---- socket ---- */

/* The path that clients expect for this device; false while it is not known yet. */
static bool default_path(const struct daemon *d, char out[CONFIG_TEXT_SIZE])
{
    const struct device_info *info = sampler_device(d->service.sampler);
    const char *gpu = d->config->gpu;
    char folder[CONFIG_TEXT_SIZE];
    int n;

    if (runtime_dir(folder) < 0) {
        log_line(LOG_LEVEL_ERROR, "", "XDG_RUNTIME_DIR is not set: set socket = PATH");
        return false;
    }
    if (strncmp(gpu, "minor:", 6) == 0)
        n = snprintf(out, CONFIG_TEXT_SIZE, "%s/gpu%s.sock", folder, gpu + 6);
    else if (strncasecmp(gpu, "MIG-", 4) == 0)
        n = snprintf(out, CONFIG_TEXT_SIZE, "%s/%s.sock", folder, gpu);
    else if (info->known && info->minor.has)
        n = snprintf(out, CONFIG_TEXT_SIZE, "%s/gpu%u.sock", folder, (unsigned)info->minor.v);
    else if (info->known)
        n = snprintf(out, CONFIG_TEXT_SIZE, "%s/%s.sock", folder, info->uuid);
    else
        return false;
    return n < CONFIG_TEXT_SIZE;
}

static int serve(struct daemon *d)
{
    d->server = server_new(&d->loop, &d->service, d->listener.fd);
    if (!d->server) {
        log_line(LOG_LEVEL_ERROR, "", "cannot serve %s", d->listener.path);
        return ERR_IO;
    }
    log_line(LOG_LEVEL_INFO, "", "serving on %s%s", d->listener.path,
             d->listener.is_activated ? " (from the service manager)" : "");
    return 0;
}

/* 0: serving, or waiting to learn the path. */
static int open_socket(struct daemon *d)
{
    const struct config *c = d->config;
    char error[SOCKET_ERROR_SIZE], path[CONFIG_TEXT_SIZE];
    int r = listener_take(&d->listener, error);

    if (r == 0) {
        if (*c->socket) {
            snprintf(path, sizeof(path), "%s", c->socket);
        } else if (!default_path(d, path)) {
            log_line(LOG_LEVEL_NOTICE, "",
                     "the socket's name needs the device, which is not known yet; waiting for it "
                     "(set socket = PATH to serve at once)");
            return 0;
        }
        r = listener_make(&d->listener, path, c->socket_mode, c->socket_group, error);
    }
    if (r < 0) {
        log_line(LOG_LEVEL_ERROR, "", "%s", error);
        return r;
    }
    return serve(d);
}

/* ---- sampler ---- */

static void on_device(void *arg, const struct device_info *info)
{
    struct daemon *d = arg;
    char error[SOCKET_ERROR_SIZE];

    d->service.now_ns = uv_hrtime();
    if (strcmp(d->uuid, info->uuid) != 0)
        log_line(LOG_LEVEL_INFO, "", "device %s %s pci=%s", info->uuid, info->name, info->pci);
    snprintf(d->uuid, sizeof(d->uuid), "%s", info->uuid);
    if (d->is_stopping)
        return;
    if (!d->server && open_socket(d) < 0) {
        stop(d, EXIT_FAILURE, "no socket");
        return;
    }
    if (listener_lock_uuid(&d->listener, info->uuid, error) < 0) {
        log_line(LOG_LEVEL_ERROR, "", "%s", error);
        stop(d, EXIT_FAILURE, "the device cannot be served");
    }
}

/* A driver that comes late, at boot: without a device there may be no socket, and without a socket
 * nobody would ever want the probe again. The sampler's back-off is between the tries. */
static void on_idle(void *arg)
{
    struct daemon *d = arg;

    if (!d->server && !d->is_stopping)
        sampler_identify(d->service.sampler);
}

static void on_sample(void *arg, const struct sample *sample)
{
    struct daemon *d = arg;
    struct service *v = &d->service;
    struct sample aged = *sample;

    v->now_ns = uv_hrtime();
    if (sample->free.has && sample->total.has)
        sampler_newest(v->sampler, v->now_ns, &aged);
    journal_reserve(v->journal);
    service_journal_sample(v, &aged, v->journal);
    room_sampled(v, &aged);
    list_for_each(pos, tmp, &v->sessions)
        proof_sampled(&list_entry(pos, struct session, link)->proof, &aged, v->now_ns);
}

/* ---- signals and turns ---- */

static void on_room_timer(uv_timer_t *timer)
{
    (void)timer; /* it only ends the poll: room_act comes after each */
}

/* What the turn led to among the sessions, and when to look again without another event. */
static void make_room(struct daemon *d)
{
    struct service *v = &d->service;
    uint64_t due_ns;

    v->now_ns = uv_hrtime();
    room_act(v);
    due_ns = room_due(v);
    if (due_ns == UINT64_MAX)
        uv_timer_stop(&d->room_timer);
    else
        uv_timer_start(&d->room_timer, on_room_timer,
                       due_ns > v->now_ns ? (due_ns - v->now_ns) / NS_PER_MS + 1 : 0, 0);
}

/* Events go to those who wait for them and to the file after the answers have been sent. */
static void pass_on_events(struct daemon *d)
{
    list_for_each(pos, tmp, &d->service.watchers)
        session_wake_watcher(list_entry(pos, struct session, watch_link));
    journal_flush(d->service.journal);
}

static void on_prepare(uv_prepare_t *handle)
{
    make_room(handle->data);
    pass_on_events(handle->data);
}

static void on_check(uv_check_t *handle)
{
    make_room(handle->data);
    pass_on_events(handle->data);
}

static void on_stop_signal(uv_signal_t *handle, int number)
{
    stop(handle->data, EXIT_SUCCESS, number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* Two descriptors a connection; says so when the limit of the system is lower. */
static void raise_descriptor_limit(const struct config *c)
{
    rlim_t needed = 2 * (rlim_t)c->max_sessions + DESCRIPTORS_SPARE;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= needed)
        return;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < needed)
        log_line(LOG_LEVEL_WARNING, "",
                 "max_sessions = %u needs %llu descriptors, the limit is %llu (LimitNOFILE=)",
                 c->max_sessions, (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
}

/* R11: good settings or the former ones. */
static void on_reload_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;
    struct config fresh;
    enum config_action action;
    char error[CONFIG_ERROR_SIZE];
    const char *waiting;

    (void)number;
    d->service.now_ns = uv_hrtime();
    if (config_from_argv(&fresh, d->argc, d->argv, &action, error) < 0 ||
        config_validate(&fresh, error) < 0) {
        log_line(LOG_LEVEL_ERROR, "", "reload: %s; keeping the former settings", error);
        return;
    }
    waiting = config_apply_reload(d->config, &fresh);
    if (waiting)
        log_line(LOG_LEVEL_WARNING, "", "reload: %s changed; it counts from the next start on",
                 waiting);
    log_set_level(d->config->log_level);
    raise_descriptor_limit(d->config);
    journal_set_file_max(d->service.journal, d->config->journal_file_max);
    service_apply_config(&d->service);
    if (d->service.sampler)
        sampler_reload(d->service.sampler);
    if (d->server)
        server_reload(d->server);
    if (d->config->mode == MODE_OFF && d->server)
        server_end_workers(d->server, "mode = off");
    list_for_each(pos, tmp, &d->service.sessions)
        session_welcome_again(list_entry(pos, struct session, link));
    log_line(LOG_LEVEL_INFO, "", "reloaded: mode=%s policy=%s", mode_word((int)d->config->mode),
             policy_word((int)d->config->policy));
}

static void stop(struct daemon *d, int exit_code, const char *cause)
{
    if (d->is_stopping)
        return;
    d->is_stopping = true;
    d->exit_code = exit_code;
    log_line(LOG_LEVEL_INFO, "", "stopping: %s", cause);
    server_close(d->server, cause);
    d->server = NULL;
    sampler_close(d->service.sampler);
    d->service.sampler = NULL;
    uv_close((uv_handle_t *)&d->sigterm, NULL);
    uv_close((uv_handle_t *)&d->sigint, NULL);
    uv_close((uv_handle_t *)&d->sighup, NULL);
    uv_close((uv_handle_t *)&d->room_timer, NULL);
    uv_close((uv_handle_t *)&d->before_poll, NULL);
    uv_close((uv_handle_t *)&d->after_poll, NULL);
}

static void start_handles(struct daemon *d)
{
    uv_signal_init(&d->loop, &d->sigterm);
    uv_signal_init(&d->loop, &d->sigint);
    uv_signal_init(&d->loop, &d->sighup);
    uv_timer_init(&d->loop, &d->room_timer);
    uv_prepare_init(&d->loop, &d->before_poll);
    uv_check_init(&d->loop, &d->after_poll);
    d->sigterm.data = d->sigint.data = d->sighup.data = d;
    d->before_poll.data = d->after_poll.data = d;
    uv_signal_start(&d->sigterm, on_stop_signal, SIGTERM);
    uv_signal_start(&d->sigint, on_stop_signal, SIGINT);
    uv_signal_start(&d->sighup, on_reload_signal, SIGHUP);
    uv_prepare_start(&d->before_poll, on_prepare);
    uv_check_start(&d->after_poll, on_check);
}

/* ---- start ---- */

static void read_boot_id(char *out, size_t size)
{
    _cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : -1;

    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

static int start_parts(struct daemon *d)
{
    const struct sampler_callbacks callbacks = {on_device, on_sample, on_idle, d};
    const struct config *c = d->config;
    struct service *v = &d->service;
    char boot_id[64], self[CONFIG_TEXT_SIZE];
    size_t length = sizeof(self);

    service_init(v, c, uv_hrtime());
    read_boot_id(boot_id, sizeof(boot_id));
    if (uv_exepath(self, &length) < 0)
        return ERR_IO;
    v->sampler = sampler_new(&d->loop, c, self, &callbacks);
    v->journal = journal_new(c->journal_ring, c->journal_file, c->journal_file_max, boot_id,
                             service_preamble, v);
    if (!v->sampler || !v->journal)
        return ERR_NO_MEMORY;
    return 0;
}

int daemon_run(struct config *config, int argc, char *const argv[])
{
    struct daemon *d =
        calloc(1, sizeof(*d)); /* holds the scratch of a loop turn: not for a stack */
    int exit_code = EXIT_FAILURE;

    if (!d || uv_loop_init(&d->loop) < 0) {
        log_line(LOG_LEVEL_ERROR, "", "cannot start the event loop");
        free(d);
        return EXIT_FAILURE;
    }
    d->config = config;
    d->argc = argc;
    d->argv = argv;
    listener_init(&d->listener);
    raise_descriptor_limit(config);
    start_handles(d);
    if (start_parts(d) < 0)
        stop(d, EXIT_FAILURE, "out of memory");
    else if (open_socket(d) < 0)
        stop(d, EXIT_FAILURE, "no socket");
    else
        sampler_identify(d->service.sampler);
    uv_run(&d->loop, UV_RUN_DEFAULT);
    exit_code = d->exit_code;
    uv_loop_close(&d->loop);
    listener_done(&d->listener);
    journal_free(d->service.journal);
    service_done(&d->service);
    free(d);
    log_line(LOG_LEVEL_INFO, "", "stopped");
    return exit_code;
}
