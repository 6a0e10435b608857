/* SPDX-License-Identifier: Apache-2.0 */
/* `replay --compare`: the same traces under each policy, one row a policy. */
#include <inttypes.h>

#include "client/ctl/replay_json.h"

static const enum policy compared[] = {POLICY_LEARNED, POLICY_FIXED, POLICY_ALWAYS, POLICY_NEVER};

/* Plays one file and adds to the summary. */
static int play(const struct replay_options *o, struct replay_file *f, struct replay_summary *s)
{
    char error[TRACE_ERROR_SIZE];
    struct replay_result result;
    struct trace_line line, output;
    struct engine *e = engine_new(o);
    int r = e ? 1 : -1;

    if (!e)
        snprintf(error, sizeof(error), "out of memory");
    replay_file_rewind(f);
    while (r > 0) {
        r = replay_file_next(f, &line, error);
        if (r > 0 && engine_is_output(e, &line)) {
            engine_let_pass(e, &line);
            continue;
        }
        if (r > 0 && engine_step(e, &line, &result, error) < 0)
            r = -1;
        if (r > 0)
            replay_count(s, &line, &result);
        while (engine_next_output(e, &output))
            ; /* carried out by whom the trace says */
    }
    engine_free(e);
    if (r < 0)
        fprintf(stderr, "%s:%zu: %s\n", f->name, f->line, error);
    return r;
}

static void print_row(enum policy policy, const struct replay_summary *s, bool exact)
{
    char given_back[40], retained[40];

    printf("%-8s %10" PRIu64 " %10" PRIu64 " %22s %22s\n", policy_word((int)policy), s->asks,
           replay_releases(s), replay_bytes_text(s->given_back_bytes, exact, given_back),
           replay_bytes_text(s->largest_retained_bytes, exact, retained));
}

static json_t *json_row(enum policy policy, const struct replay_summary *s)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "policy", policy_word((int)policy), "asks",
                     replay_json_u64(s->asks), "releases", replay_json_u64(replay_releases(s)),
                     "given_back_bytes", replay_json_u64(s->given_back_bytes),
                     "largest_retained_bytes", replay_json_u64(s->largest_retained_bytes));
}

int replay_policies(const struct replay_options *o, struct replay_file *files, size_t count)
{
    json_t *rows = o->json ? json_array() : NULL;
    int status = 0;

    if (!o->json)
        printf("%-8s %10s %10s %22s %22s\n", "policy", "asks", "releases", "given back",
               "largest retained");
    for (size_t i = 0; i < ARRAY_SIZE(compared) && status == 0; i++) {
        struct replay_options under = *o;
        struct replay_summary s = {0};

        under.policy = compared[i];
        under.close_loop = true;
        for (size_t f = 0; f < count && status == 0; f++)
            if (play(&under, &files[f], &s) < 0)
                status = 1;
        if (status == 0 && !o->json)
            print_row(compared[i], &s, o->bytes);
        else if (status == 0 && json_array_append_new(rows, json_row(compared[i], &s)) < 0)
            status = 1;
    }
    if (o->json && status == 0) {
        json_t *root = json_pack("{s:i, s:O}", "schema", 1, "policies", rows);

        if (json_dumpf(root, stdout, JSON_INDENT(2)) < 0)
            status = 1;
        putchar('\n');
        json_decref(root);
    }
    json_decref(rows);
    return status;
}
