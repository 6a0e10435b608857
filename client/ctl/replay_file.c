/* SPDX-License-Identifier: Apache-2.0 */
/* A trace file in memory, line by line. */
#include "client/ctl/replay_play.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/parse.h"

#define FILE_MAX (1u << 30) /* a journal file has 64 MiB; this stops at /dev/zero */

int replay_file_load(struct replay_file *f, const char *name)
{
    FILE *in = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    size_t size = 0, got;
    char *grown;
    int error = 0;

    *f = (struct replay_file){.name = name};
    if (!in) {
        fprintf(stderr, "%s: %s\n", name, strerror(errno));
        return -1;
    }
    do {
        if (f->length == size) {
            size = size ? 2 * size : 65536;
            grown = size <= FILE_MAX ? realloc(f->text, size) : NULL;
            if (!grown) {
                error = size <= FILE_MAX ? ENOMEM : EFBIG;
                break;
            }
            f->text = grown;
        }
        errno = 0;
        got = fread(f->text + f->length, 1, size - f->length, in);
        f->length += got;
    } while (got > 0);
    if (!error && ferror(in))
        error = errno ? errno : EIO;
    if (in != stdin)
        fclose(in);
    if (!error)
        return 0;
    fprintf(stderr, "%s: %s\n", name, strerror(error));
    replay_file_done(f);
    return -1;
}

void replay_file_done(struct replay_file *f)
{
    free(f->text);
    f->text = NULL;
    f->length = 0;
}

void replay_file_rewind(struct replay_file *f)
{
    f->at = f->line = 0;
}

static int check_header(const char *line, size_t length, char ret_error[TRACE_ERROR_SIZE])
{
    if (length == strlen(TRACE_HEADER) && memcmp(line, TRACE_HEADER, length) == 0)
        return 0;
    snprintf(ret_error, TRACE_ERROR_SIZE, "a trace begins with \"%s\"", TRACE_HEADER);
    return -1;
}

int replay_file_next(struct replay_file *f, struct trace_line *ret,
                     char ret_error[TRACE_ERROR_SIZE])
{
    while (f->at < f->length) {
        const char *line = f->text + f->at;
        size_t left = f->length - f->at, length;
        const char *end = memchr(line, '\n', left);

        length = end ? (size_t)(end - line) : left;
        f->at += length + (end != NULL);
        f->line++;
        if (f->line == 1 && check_header(line, length, ret_error) < 0)
            return -1;
        if (trace_parse(line, length, ret, ret_error) < 0)
            return -1;
        if (ret->verb != TRACE_NONE)
            return 1;
    }
    if (f->line == 0) {
        f->line = 1;
        return check_header("", 0, ret_error);
    }
    return 0;
}

uint64_t replay_features(const char *text)
{
    char item[LIMIT_NAME_SIZE];
    uint64_t bits = 0;

    if (parse_u64(text, &bits) == 0)
        return bits;
    for (bits = 0; *text;) {
        size_t length = strcspn(text, ",");

        if (length < sizeof(item)) {
            memcpy(item, text, length);
            item[length] = '\0';
            bits |= (uint64_t)term_value(feature_terms, item);
        }
        text += length;
        text += *text == ',';
    }
    return bits;
}

int replay_no_session(const struct trace_line *line, uint64_t number,
                      char ret_error[TRACE_ERROR_SIZE])
{
    snprintf(ret_error, TRACE_ERROR_SIZE, "%s: s: no session %" PRIu64 " is open",
             trace_verb_word(line->verb), number);
    return -1;
}
