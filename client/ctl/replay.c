/* SPDX-License-Identifier: Apache-2.0 */
/* `dlo-ctl replay`: plays trace files through the policy engine, or through a running daemon, and
 * prints, checks or compares the answers. Needs no daemon and no device unless --live is given. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/ctl.h"
#include "client/ctl/replay_json.h"
#include "proto/base/parse.h"

/* One run over all files. */
struct replay {
    const struct replay_options *options;
    struct live *live;
    struct replay_file *file; /* the current one */
    size_t compared, differences, failures;
    int live_status;                    /* why no daemon could be reached */
    json_t *events, *found, *summaries; /* with --json */
};

static void print_usage(FILE *out)
{
    fputs(
        "usage: dlo-ctl replay [OPTION]... FILE...\n"
        "Plays traces (\"-\": standard input) and prints each event with its answer and a "
        "summary.\n"
        "\n"
        "  --check             compare with the answers in the trace; print the differences only\n"
        "  --compare           one row for each policy: learned, fixed, always, never\n"
        "  --policy POLICY     learned, fixed, always or never, whatever the trace says\n"
        "  --margin NUMBER     learned = peak x margin\n"
        "  --cap-fraction F    cap = total x F\n"
        "  --min-free F        floor = total x F\n"
        "  --live              play through a running daemon: a connection for each open;\n"
        "                      for traces without sample and config lines and without times\n"
        "  --socket PATH       socket of that daemon\n"
        "  --bytes             exact numbers; what is printed is a trace again\n"
        "  --json              for programs\n"
        "  --help              this text\n"
        "\n"
        "Exit status: 0; 1 a difference, or a file that cannot be played (FILE:LINE: why);\n"
        "2 wrong usage, or --check found nothing to compare.\n",
        out);
}

static void report(struct replay *r, const char *text)
{
    r->failures++;
    fprintf(stderr, "%s:%zu: %s\n", r->file->name, r->file->line, text);
}

static void tell_difference(void *context, const char *key, const char *expected, const char *got)
{
    struct replay *r = context;

    r->differences++;
    if (r->options->json)
        json_array_append_new(r->found, replay_json_difference(r->file, key, expected, got));
    else
        printf("%s:%zu: %s: expected %s, got %s\n", r->file->name, r->file->line, key, expected,
               got);
}

/* R20 to R32 are planned: what they answer cannot be checked, and reclaim lines are answers. */
static void check_planned(struct replay *r, const struct trace_line *line)
{
    char text[TRACE_ERROR_SIZE];

    if (line->outcome == TRACE_NO_ANSWER && line->verb != TRACE_RECLAIM)
        return;
    snprintf(text, sizeof(text), "verb %s is not built yet (planned)", trace_verb_word(line->verb));
    report(r, text);
}

static void take_result(struct replay *r, const struct trace_line *line,
                        const struct replay_result *result)
{
    struct trace_line answer;

    if (r->options->check && result->kind == REPLAY_PLANNED) {
        check_planned(r, line);
        return;
    }
    if (r->options->check && (line->outcome == TRACE_NO_ANSWER || result->kind == REPLAY_UNKNOWN ||
                              result->kind == REPLAY_TAKEN))
        return;
    if (result->kind == REPLAY_TAKEN)
        answer = *line;
    else
        replay_answer_line(line, result, &answer);
    if (r->options->check)
        r->compared += replay_compare_answer(line, &answer, tell_difference, r);
    else if (r->options->json)
        json_array_append_new(r->events, replay_json_event(r->file, line, &answer));
    else
        replay_print_event(stdout, line, &answer, r->options->bytes);
}

/* The key by which two outputs differ before ->, NULL where they do not. Calls are numbered by who
 * makes them, but for those that a line of the trace has begun. */
static const char *differing_key(const struct trace_line *expected, const struct trace_line *got)
{
    static const char *const reclaim_keys[] = {"s", "event", NULL}, *const end_keys[] = {"call",
                                                                                         NULL};
    const char *const *keys = expected->verb == TRACE_RECLAIM ? reclaim_keys : end_keys;

    if (expected->verb != got->verb)
        return "verb";
    for (; *keys; keys++)
        if (trace_get_u64(expected, *keys).v != trace_get_u64(got, *keys).v)
            return *keys;
    return NULL;
}

static void compare_output(struct replay *r, const struct trace_line *expected,
                           const struct trace_line *got)
{
    const char *key = differing_key(expected, got);

    r->compared++;
    if (key && strcmp(key, "verb") == 0)
        tell_difference(r, key, trace_verb_word(expected->verb), trace_verb_word(got->verb));
    else if (key)
        tell_difference(r, key, trace_get(expected, key), trace_get(got, key));
    else
        r->compared += replay_compare_answer(expected, got, tell_difference, r);
}

/* What the arbiter does that the trace does not have, before the line that was read. */
static void take_own_outputs(struct replay *r, struct engine *e)
{
    struct trace_line got;

    while (engine_next_output(e, &got)) {
        if (!r->options->check && r->options->json)
            json_array_append_new(r->events, replay_json_event(r->file, &got, &got));
        else if (!r->options->check)
            replay_print_event(stdout, &got, &got, r->options->bytes);
        else if (!engine_is_torn(e))
            tell_difference(r, trace_verb_word(got.verb), "nothing",
                            trace_get(&got, got.verb == TRACE_RECLAIM ? "s" : "call"));
    }
}

/* A line that the arbiter answers. */
static void take_output(struct replay *r, struct engine *e, const struct trace_line *line)
{
    struct trace_line got;

    engine_let_pass(e, line);
    if (!r->options->check)
        return; /* its own are printed before the next line */
    if (engine_next_output(e, &got)) {
        if (!engine_is_torn(e))
            compare_output(r, line, &got);
    } else if (!engine_is_torn(e)) {
        tell_difference(r, trace_verb_word(line->verb),
                        trace_get(line, line->verb == TRACE_RECLAIM ? "s" : "call"), "nothing");
    }
}

static int step(struct replay *r, struct engine *e, const struct trace_line *line,
                struct replay_summary *s, char error[TRACE_ERROR_SIZE])
{
    struct replay_result result;

    if (e && engine_is_output(e, line)) {
        take_output(r, e, line);
        return 0;
    }
    if (e)
        take_own_outputs(r, e);
    if ((r->live ? live_step(r->live, line, &result, error)
                 : engine_step(e, line, &result, error)) < 0)
        return -1;
    replay_count(s, line, &result);
    take_result(r, line, &result);
    return 0;
}

/* All lines of a file before the first goes to a daemon: a refused file changes nothing there. */
static int check_live(struct replay *r)
{
    char error[TRACE_ERROR_SIZE];
    struct trace_line line;
    int n;

    while ((n = replay_file_next(r->file, &line, error)) > 0) {
        n = live_check(&line, error);
        if (n < 0)
            break;
    }
    if (n < 0)
        report(r, error);
    replay_file_rewind(r->file);
    return n;
}

static void play_lines(struct replay *r, struct engine *e, struct replay_summary *s)
{
    char error[TRACE_ERROR_SIZE];
    struct trace_line line;
    int n;

    while ((n = replay_file_next(r->file, &line, error)) > 0) {
        n = step(r, e, &line, s, error);
        if (n < 0)
            break;
    }
    if (n < 0)
        report(r, error);
    else if (e)
        take_own_outputs(r, e);
}

static void play_file(struct replay *r)
{
    struct replay_summary s = {0};
    struct engine *e = NULL;
    char error[TRACE_ERROR_SIZE];

    if (r->options->live) {
        if (check_live(r) < 0)
            return;
        r->live = live_new(r->options->socket, &r->live_status, error);
    } else {
        e = engine_new(r->options);
        snprintf(error, sizeof(error), "out of memory");
    }
    if (!e && !r->live) {
        r->failures++;
        fprintf(stderr, "%s\n", error);
        return;
    }
    if (!r->options->check && !r->options->json)
        printf("%s\n# %s\n", TRACE_HEADER, r->file->name);
    play_lines(r, e, &s);
    if (!r->options->check && !r->options->json)
        replay_print_summary(stdout, &s, r->options->bytes);
    else if (!r->options->check)
        json_array_append_new(r->summaries, replay_json_summary(r->file->name, &s));
    engine_free(e);
    live_free(r->live);
    r->live = NULL;
}

static void print_json(const struct replay *r, size_t file_count)
{
    json_t *root;

    if (r->options->check)
        root =
            json_pack("{s:i, s:o, s:o, s:O}", "schema", 1, "compared", replay_json_u64(r->compared),
                      "files", replay_json_u64(file_count), "differences", r->found);
    else
        root = json_pack("{s:i, s:O, s:O}", "schema", 1, "events", r->events, "summaries",
                         r->summaries);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(root);
}

static int run(const struct replay_options *o, struct replay_file *files, size_t count)
{
    struct replay r = {.options = o};

    if (o->json) {
        r.events = json_array();
        r.found = json_array();
        r.summaries = json_array();
    }
    for (size_t i = 0; i < count; i++) {
        r.file = &files[i];
        play_file(&r);
    }
    if (o->json)
        print_json(&r, count);
    else if (o->check)
        printf("compared %zu keys in %zu %s, %zu %s\n", r.compared, count,
               count == 1 ? "file" : "files", r.differences,
               r.differences == 1 ? "difference" : "differences");
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "dlo-ctl: the output cannot be written: %s\n", strerror(errno));
        r.failures++;
    }
    json_decref(r.events);
    json_decref(r.found);
    json_decref(r.summaries);
    if (r.live_status != CTL_EXIT_OK)
        return r.live_status;
    if (r.differences || r.failures)
        return CTL_EXIT_FAILURE;
    return o->check && r.compared == 0 ? CTL_EXIT_USAGE : CTL_EXIT_OK;
}

static int take_fraction(const char *name, const char *text, bool *ret_has, double *ret)
{
    if (parse_double(text, ret) < 0) {
        fprintf(stderr, "dlo-ctl replay: --%s: not a number: %s\n", name, text);
        return -1;
    }
    *ret_has = true;
    return 0;
}

static int take_option(struct replay_options *o, int c, const char *name)
{
    switch (c) {
    case 'c':
        o->check = true;
        return 0;
    case 'r':
        o->compare = true;
        return 0;
    case 'j':
        o->json = true;
        return 0;
    case 'b':
        o->bytes = true;
        return 0;
    case 'l':
        o->live = true;
        return 0;
    case 's':
        o->socket = optarg;
        return 0;
    case 'm':
        return take_fraction(name, optarg, &o->has_margin, &o->margin);
    case 'f':
        return take_fraction(name, optarg, &o->has_cap_fraction, &o->cap_fraction);
    case 'n':
        return take_fraction(name, optarg, &o->has_min_free, &o->min_free);
    case 'p':
        o->policy = (enum policy)term_value(policy_terms, optarg);
        if (o->policy != POLICY_NONE && o->policy != POLICY_DEMAND)
            return 0;
        fprintf(stderr, "dlo-ctl replay: --policy: %s: %s\n",
                o->policy == POLICY_DEMAND ? "planned, not built yet" : "unknown policy", optarg);
        return -1;
    default: /* getopt has said what is wrong */
        return -1;
    }
}

/* What single options cannot say. */
static int check_options(const struct replay_options *o)
{
    bool overrides =
        o->has_margin || o->has_cap_fraction || o->has_min_free || o->policy != POLICY_NONE;
    const char *key = engine_check_options(o), *problem = NULL;

    if (key)
        problem = key;
    else if (o->live && overrides)
        problem = "--live takes the daemon's own settings: no --policy, --margin, --cap-fraction "
                  "or --min-free";
    else if (o->compare && (o->check || o->live || o->policy != POLICY_NONE))
        problem = "--compare goes with neither --check nor --live nor --policy";
    else if (o->socket && !o->live)
        problem = "--socket needs --live";
    if (!problem)
        return 0;
    fprintf(stderr, "dlo-ctl replay: %s%s\n", problem, key ? ": out of range" : "");
    return -1;
}

/* 0: play; 1: the help was printed; -1: wrong usage. */
static int take_options(struct replay_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"check", no_argument, NULL, 'c'},          {"compare", no_argument, NULL, 'r'},
        {"json", no_argument, NULL, 'j'},           {"bytes", no_argument, NULL, 'b'},
        {"live", no_argument, NULL, 'l'},           {"socket", required_argument, NULL, 's'},
        {"policy", required_argument, NULL, 'p'},   {"margin", required_argument, NULL, 'm'},
        {"min-free", required_argument, NULL, 'n'}, {"cap-fraction", required_argument, NULL, 'f'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
    };
    int c, index = 0;

    optind = 0; /* the caller may have parsed options of its own */
    while ((c = getopt_long(argc, argv, "h", options, &index)) != -1) {
        if (c == 'h') {
            print_usage(stdout);
            return 1;
        }
        if (take_option(o, c, options[index].name) < 0)
            return -1;
    }
    if (optind >= argc) {
        fputs("dlo-ctl replay: no FILE\n", stderr);
        return -1;
    }
    return check_options(o);
}

int ctl_replay(int argc, char **argv)
{
    struct replay_options o = {0};
    struct replay_file *files;
    size_t count = 0;
    int status = CTL_EXIT_OK, r = take_options(&o, argc, argv);

    if (r != 0) {
        if (r < 0)
            fputs("Try 'dlo-ctl replay --help'.\n", stderr);
        return r < 0 ? CTL_EXIT_USAGE : CTL_EXIT_OK;
    }
    files = calloc((size_t)(argc - optind), sizeof(*files));
    if (!files) {
        fputs("dlo-ctl replay: out of memory\n", stderr);
        return CTL_EXIT_FAILURE;
    }
    for (int i = optind; i < argc; i++) {
        if (replay_file_load(&files[count], argv[i]) < 0)
            status = CTL_EXIT_FAILURE;
        else
            count++;
    }
    if (count > 0) {
        r = o.compare ? replay_policies(&o, files, count) : run(&o, files, count);
        if (status == CTL_EXIT_OK)
            status = r;
    }
    for (size_t i = 0; i < count; i++)
        replay_file_done(&files[i]);
    free(files);
    return status;
}
