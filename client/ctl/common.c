/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl/ctl.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "proto/base/error.h"
#include "proto/base/name.h"
#include "proto/base/parse.h"

#define TIMEOUT_NS 2000000000ull /* a daemon that is well answers in a millisecond */

void ctl_options_init(struct ctl_options *o)
{
    *o = (struct ctl_options){.timeout_ns = TIMEOUT_NS};
}

bool ctl_option(struct ctl_options *o, int option, int *ret)
{
    switch (option) {
    case OPT_SOCKET:
        o->socket = optarg;
        return true;
    case OPT_TIMEOUT:
        if (parse_duration(optarg, &o->timeout_ns) == 0 && o->timeout_ns > 0)
            return true;
        fprintf(stderr, "dlo-ctl: --timeout %s: not a duration above 0; say for example 500ms\n",
                optarg);
        *ret = CTL_EXIT_USAGE;
        return true;
    case OPT_JSON:
        o->json = true;
        return true;
    case OPT_BYTES:
        o->bytes = true;
        return true;
    case OPT_HELP:
        o->has_help = true;
        return true;
    default:
        return false;
    }
}

static const struct ctl_verb *find_verb(const char *name)
{
    const struct ctl_verb *v = ctl_verbs;

    while (v->name && strcmp(v->name, name) != 0)
        v++;
    return v;
}

int ctl_print_help(const char *verb)
{
    const struct ctl_verb *v = find_verb(verb);

    printf("usage: dlo-ctl %s\n\n%s\n", v->usage, v->summary);
    return CTL_EXIT_OK;
}

int ctl_usage(const char *verb, const char *problem_format, ...)
{
    va_list args;

    if (*problem_format) {
        fprintf(stderr, "dlo-ctl %s: ", verb);
        va_start(args, problem_format);
        vfprintf(stderr, problem_format, args);
        va_end(args);
        fputc('\n', stderr);
    }
    fprintf(stderr, "usage: dlo-ctl %s\n", find_verb(verb)->usage);
    return CTL_EXIT_USAGE;
}

static int exit_of_error(int code)
{
    switch (code) {
    case ERR_NO_DAEMON:
    case ERR_IO:
        return CTL_EXIT_NO_DAEMON;
    case ERR_NOT_TRUSTED:
    case ERR_PERMISSION:
        return CTL_EXIT_PERMISSION;
    case ERR_TIMEOUT:
        return CTL_EXIT_TIMEOUT;
    case ERR_VERSION:
        return CTL_EXIT_VERSION;
    default:
        return CTL_EXIT_FAILURE;
    }
}

static int fail(int code, const char *what)
{
    fprintf(stderr, "dlo-ctl: %s: %s (%s)\n", what, error_text(code), error_word(code));
    return exit_of_error(code);
}

int ctl_call(struct ctl_link *l, uint64_t wait_ns)
{
    uint64_t deadline = bytes_add_sat(conn_now_ns(), wait_ns ? wait_ns : l->timeout_ns);
    int r = conn_call(l->fd, &l->arena, &l->seq, &l->request, &l->reply, deadline);

    if (r < 0)
        return fail(r, "the daemon");
    if (l->reply.body != WIRE_ERROR)
        return CTL_EXIT_OK;
    fprintf(stderr, "dlo-ctl: the daemon answers: ");
    ctl_print_safe(stderr, l->reply.u.error.text, strlen(l->reply.u.error.text));
    fprintf(stderr, " (%s)\n", error_word(l->reply.u.error.code));
    return exit_of_error(l->reply.u.error.code);
}

static int find_socket(const struct ctl_options *o, char path[CONN_PATH_SIZE])
{
    int r = conn_find(o->socket, NULL, path);

    if (r == 0)
        return CTL_EXIT_OK;
    if (r == ERR_INVALID) {
        fprintf(stderr, "dlo-ctl: several daemons run here: name one with --socket PATH\n");
        return CTL_EXIT_USAGE;
    }
    if (r == ERR_NO_DAEMON) {
        fprintf(stderr, "dlo-ctl: no daemon's socket in the runtime directories; "
                        "is dlod running? Name its socket with --socket PATH or DLO_SOCKET\n");
        return CTL_EXIT_NO_DAEMON;
    }
    return fail(r, o->socket ? o->socket : "socket");
}

struct ctl_link *ctl_connect(const struct ctl_options *o, const struct wire_hello *hello,
                             int *ret_exit)
{
    char path[CONN_PATH_SIZE];
    struct ctl_link *l;
    int r;

    *ret_exit = find_socket(o, path);
    if (*ret_exit != CTL_EXIT_OK)
        return NULL;
    l = calloc(1, sizeof(*l));
    if (!l) {
        *ret_exit = fail(ERR_NO_MEMORY, "dlo-ctl");
        return NULL;
    }
    l->timeout_ns = o->timeout_ns;
    r = conn_connect(path, &l->fd);
    if (r < 0) {
        l->fd = -1;
        *ret_exit = fail(r, path);
        ctl_disconnect(l);
        return NULL;
    }
    l->request.op = WIRE_HELLO;
    l->request.u.hello = hello ? *hello : (struct wire_hello){.observer = true};
    l->request.u.hello.min_version = WIRE_VERSION_MIN;
    l->request.u.hello.max_version = WIRE_VERSION_MAX;
    *ret_exit = ctl_call(l, 0);
    if (*ret_exit == CTL_EXIT_OK &&
        (l->reply.body != WIRE_WELCOME || l->reply.u.welcome.version < WIRE_VERSION_MIN ||
         l->reply.u.welcome.version > WIRE_VERSION_MAX)) {
        fprintf(stderr, "dlo-ctl: %s: no dlod of a version that this dlo-ctl knows\n", path);
        *ret_exit = CTL_EXIT_VERSION;
    }
    if (*ret_exit == CTL_EXIT_OK)
        return l;
    ctl_disconnect(l);
    return NULL;
}

void ctl_disconnect(struct ctl_link *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l);
}

void ctl_print_safe(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c >= 0x20 && c < 0x7f)
            fputc(c, out);
        else
            fprintf(out, "\\x%02x", c);
    }
}

const char *ctl_size(const struct ctl_options *o, struct opt_u64 bytes, char out[CTL_SIZE_TEXT])
{
    if (!bytes.has)
        snprintf(out, CTL_SIZE_TEXT, "-");
    else if (o->bytes)
        snprintf(out, CTL_SIZE_TEXT, "%" PRIu64, bytes.v);
    else if (bytes.v == UINT64_MAX)
        snprintf(out, CTL_SIZE_TEXT, "no limit");
    else
        format_human(bytes.v, out);
    return out;
}

const char *ctl_microseconds(uint64_t us, char out[CTL_SIZE_TEXT])
{
    if (us >= 1000)
        return ctl_age(us > UINT64_MAX / 1000 ? UINT64_MAX : us * 1000, out);
    snprintf(out, CTL_SIZE_TEXT, "%" PRIu64 " us", us);
    return out;
}

const char *ctl_age(uint64_t ns, char out[CTL_SIZE_TEXT])
{
    uint64_t ms = ns / 1000000;

    if (ms < 1000)
        snprintf(out, CTL_SIZE_TEXT, "%" PRIu64 " ms", ms);
    else if (ms < 60000)
        snprintf(out, CTL_SIZE_TEXT, "%" PRIu64 ".%" PRIu64 " s", ms / 1000, ms % 1000 / 100);
    else if (ms < 120 * 60000)
        snprintf(out, CTL_SIZE_TEXT, "%" PRIu64 " min", ms / 60000);
    else
        snprintf(out, CTL_SIZE_TEXT, "%" PRIu64 " h", ms / 3600000);
    return out;
}
