/* SPDX-License-Identifier: Apache-2.0 */
/* The two sources of keys: a file in the INI form of inih, and the command line. */
#include "daemon/config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/error.h"

#define FILE_BYTES_MAX 65536 /* a file with each key and its docs has 4 KiB */
#define LINE_CHARS_MAX 198   /* inih reads lines into 200 bytes and would split a longer one */
#define WHERE_SIZE     220

static const char *const key_names[] = {
#define KEY(name, type, dflt, reload, doc) #name,
#include "daemon/config.def"
#undef KEY
};

/* ---- file ---- */

struct file {
    const char *path;
    char text[FILE_BYTES_MAX + 1];
    size_t size, at;
    int line;
    int first_line[ARRAY_SIZE(key_names)]; /* where a key was set, 0: not yet */
    struct config *config;
    int r;
    char *error;
};

static int fail_at(struct file *f, int line, const char *why)
{
    if (line > 0)
        snprintf(f->error, CONFIG_ERROR_SIZE, "%.190s:%d: %s", f->path, line, why);
    else
        snprintf(f->error, CONFIG_ERROR_SIZE, "%.190s: %s", f->path, why);
    f->r = ERR_INVALID;
    return f->r;
}

static int slurp(struct file *f)
{
    _cleanup_close_ int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    char why[128];

    if (fd < 0 || fstat(fd, &st) < 0) {
        snprintf(why, sizeof why, "cannot be read: %s", strerror(errno));
        return fail_at(f, 0, why);
    }
    if (!S_ISREG(st.st_mode))
        return fail_at(f, 0, "is not a file");
    for (;;) {
        ssize_t n = read(fd, f->text + f->size, sizeof f->text - f->size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            snprintf(why, sizeof why, "cannot be read: %s", strerror(errno));
            return fail_at(f, 0, why);
        }
        if (n == 0)
            return 0;
        f->size += (size_t)n;
        if (f->size > FILE_BYTES_MAX)
            return fail_at(f, 0, "is longer than 64 KiB (is it a configuration file?)");
    }
}

/* What inih would cut or misread without a word. */
static int check_lines(struct file *f)
{
    size_t start = 0;
    int line = 1;

    for (size_t i = 0; i <= f->size; i++) {
        if (i < f->size && f->text[i] == '\0')
            return fail_at(f, line, "has a NUL byte (is it a text file?)");
        if (i < f->size && f->text[i] != '\n')
            continue;
        if (i - start > LINE_CHARS_MAX)
            return fail_at(f, line, "the line is longer than 198 characters (shorten it)");
        start = i + 1;
        line++;
    }
    return 0;
}

/* One line for inih, without its indent: an indented line is no continuation here. */
static char *next_line(char *out, int size, void *stream)
{
    struct file *f = stream;
    size_t n = 0;

    if (f->r < 0 || f->at >= f->size)
        return NULL;
    f->line++;
    while (f->at < f->size && (f->text[f->at] == ' ' || f->text[f->at] == '\t'))
        f->at++;
    while (f->at < f->size && f->text[f->at] != '\n' && n < (size_t)size - 2)
        out[n++] = f->text[f->at++];
    f->at++; /* the newline */
    out[n++] = '\n';
    out[n] = '\0';
    return out;
}

static int take_pair(void *user, const char *section, const char *name, const char *value)
{
    struct file *f = user;
    char where[WHERE_SIZE], why[128];

    if (f->r < 0)
        return 0;
    if (section[0] && strcmp(section, "dlod") != 0) {
        fail_at(f, f->line, "is in a section that is not [dlod] (keys belong into [dlod])");
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(key_names); i++) {
        if (strcmp(key_names[i], name) != 0)
            continue;
        if (f->first_line[i]) {
            snprintf(why, sizeof why, "%s is set a second time (line %d sets it too; remove one)",
                     name, f->first_line[i]);
            fail_at(f, f->line, why);
            return 0;
        }
        f->first_line[i] = f->line;
    }
    snprintf(where, sizeof where, "%.190s:%d", f->path, f->line);
    f->r = config_set(f->config, name, value, where, f->error);
    return f->r == 0;
}

static int parse_file(struct file *f)
{
    int r = slurp(f);

    if (r < 0)
        return r;
    r = check_lines(f);
    if (r < 0)
        return r;
    r = ini_parse_stream(next_line, f, take_pair, f);
    if (f->r < 0)
        return f->r;
    if (r < 0)
        return fail_at(f, 0, "cannot be read: out of memory");
    if (r > 0) /* inih names the line of a pair that is none */
        return fail_at(f, r,
                       "is neither key = value, [dlod] nor a comment (a comment begins with #)");
    return 0;
}

int config_read_file(struct config *c, const char *path, char ret_error[CONFIG_ERROR_SIZE])
{
    struct config fresh = *c;
    _cleanup_free_ struct file *f = calloc(1, sizeof *f);
    int r;

    if (!f) {
        snprintf(ret_error, CONFIG_ERROR_SIZE, "%.190s: out of memory", path);
        return ERR_NO_MEMORY;
    }
    f->path = path;
    f->config = &fresh;
    f->error = ret_error;
    r = parse_file(f);
    if (r == 0)
        *c = fresh;
    return r;
}

/* ---- command line ---- */

#define NAME_SIZE 64

struct option {
    char name[NAME_SIZE]; /* without "--", '-' as '_' */
    const char *value;    /* behind '=', NULL without one */
};

static int bad_option(char ret_error[CONFIG_ERROR_SIZE], const char *option, const char *why)
{
    snprintf(ret_error, CONFIG_ERROR_SIZE, "%.190s: %s", option, why);
    return ERR_INVALID;
}

static int split_option(const char *arg, struct option *ret, char ret_error[CONFIG_ERROR_SIZE])
{
    const char *equals;
    size_t n;

    if (strcmp(arg, "-h") == 0)
        arg = "--help";
    equals = strchr(arg, '=');
    n = equals ? (size_t)(equals - arg) : strlen(arg);
    if (strncmp(arg, "--", 2) != 0 || n == 2 || n - 2 >= NAME_SIZE)
        return bad_option(ret_error, arg, "is not an option (--help shows all)");
    memcpy(ret->name, arg + 2, n - 2);
    ret->name[n - 2] = '\0';
    for (char *p = ret->name; *p; p++)
        if (*p == '-')
            *p = '_';
    ret->value = equals ? equals + 1 : NULL;
    return 0;
}

static const struct {
    const char *name;
    enum config_action action;
} actions[] = {
    {"help", CONFIG_HELP},
    {"version", CONFIG_VERSION},
    {"print_config", CONFIG_PRINT},
    {"check_config", CONFIG_CHECK},
};

static bool take_action(const char *name, enum config_action *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(actions); i++) {
        if (strcmp(actions[i].name, name) == 0) {
            *ret = actions[i].action;
            return true;
        }
    }
    return false;
}

/* --set key=value */
static int set_pair(struct config *c, const char *pair, char ret_error[CONFIG_ERROR_SIZE])
{
    const char *equals = strchr(pair, '=');
    struct option key;
    char text[NAME_SIZE + 2];
    int r;

    if (!equals || equals - pair >= NAME_SIZE)
        return bad_option(ret_error, pair, "--set needs key=value");
    snprintf(text, sizeof text, "--%.*s", (int)(equals - pair), pair);
    r = split_option(text, &key, ret_error);
    if (r < 0)
        return r;
    return config_set(c, key.name, equals + 1, "--set", ret_error);
}

/* One walk over the options: the first looks for the file alone, the second sets the keys. */
static int walk(struct config *c, int argc, char *const argv[], const char **ret_path,
                enum config_action *ret_action, char ret_error[CONFIG_ERROR_SIZE])
{
    bool want_path = ret_path;

    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        struct option o;
        int r = split_option(arg, &o, ret_error);

        if (r < 0)
            return r;
        if (take_action(o.name, ret_action)) {
            if (o.value)
                return bad_option(ret_error, arg, "takes no value");
            if (*ret_action == CONFIG_HELP || *ret_action == CONFIG_VERSION)
                return 0;
            continue;
        }
        if (!o.value && i + 1 < argc)
            o.value = argv[++i];
        if (!o.value)
            return bad_option(ret_error, arg, "needs a value (--help shows all options)");
        if (strcmp(o.name, "config") == 0) {
            if (want_path && *ret_path)
                return bad_option(ret_error, arg, "is given twice (name one file)");
            if (want_path)
                *ret_path = o.value;
            continue;
        }
        if (want_path)
            continue;
        if (strcmp(o.name, "set") == 0)
            r = set_pair(c, o.value, ret_error);
        else
            r = config_set(c, o.name, o.value, "command line", ret_error);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_from_argv(struct config *c, int argc, char *const argv[], enum config_action *ret_action,
                     char ret_error[CONFIG_ERROR_SIZE])
{
    enum config_action action = CONFIG_RUN;
    struct config fresh;
    const char *path = NULL;
    int r;

    config_defaults(&fresh);
    r = walk(&fresh, argc, argv, &path, &action, ret_error);
    if (r == 0 && (action == CONFIG_HELP || action == CONFIG_VERSION)) {
        *c = fresh;
        *ret_action = action;
        return 0;
    }
    if (r == 0 && path)
        r = config_read_file(&fresh, path, ret_error);
    if (r == 0)
        r = walk(&fresh, argc, argv, NULL, &action, ret_error);
    if (r < 0)
        return r;
    *c = fresh;
    *ret_action = action;
    return 0;
}
