/* SPDX-License-Identifier: Apache-2.0 */
/* verb_report.c - attnbench report and compare: the verbs that read run folders. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "live/cycles.h"
#include "report/against.h"
#include "report/report.h"
#include "report/text.h"
#include "run/drift.h"

/* Two stored runs were not measured side by side: their times differ by more than the noise in
 * each. */
#define STORED_MARGIN 0.1

enum attn_exit attn_command_read(const struct attn_command *c, const char *path,
                                 struct attn_run_data *run)
{
    char why[1024], line[sizeof why + 96];
    const bool turns = c->compare.backends[0];
    const int status = c->verb->run == attn_verb_compare
                           ? attn_run_read_lean(path, c->salvage, turns, run, why, sizeof why)
                           : attn_run_read(path, c->salvage, run, why, sizeof why);
    const bool damaged = status == ATTN_RUN_DAMAGED;
    if (status) {
        snprintf(line, sizeof line, "%s%s", why,
                 damaged && !c->salvage ? "; --salvage uses the lines before it" : "");
        return attn_complain(damaged ? ATTN_EXIT_INCOMPLETE : ATTN_EXIT_USAGE, line);
    }
    if (run->old)
        fprintf(stderr,
                "attnbench: %s is of an earlier version, which did not mark the end of a run: what "
                "is missing there does not show\n",
                path);
    return ATTN_EXIT_OK;
}

/* The exit code of what was made of a run: if that is not whole, it says so. */
static enum attn_exit code_with(const struct attn_run_data *run, enum attn_exit code)
{
    char line[sizeof run->path + sizeof run->lacking + 32], exit[16] = "";
    if (!*run->lacking)
        return code;
    if (attn_run_exit(run, code) == ATTN_EXIT_INCOMPLETE)
        snprintf(exit, sizeof exit, "exit %d: ", ATTN_EXIT_INCOMPLETE);
    snprintf(line, sizeof line, "%s%s is %s", exit, run->path, run->lacking);
    attn_complain(ATTN_EXIT_INCOMPLETE, line);
    return attn_run_exit(run, code);
}

/* Writes the page that compares the run with an earlier one. */
static enum attn_exit write_against(const struct attn_command *c, const struct attn_run_data *run,
                                    const struct attn_report_options *options)
{
    struct attn_run_data base;
    struct attn_compare_options compare = c->compare;
    char why[1024], note[512];
    if (!compare.margin_given)
        compare.margin = STORED_MARGIN;
    enum attn_exit code = attn_command_read(c, c->against, &base);
    if (code)
        return code;
    int status = attn_against_write(&base, run, &compare, options, &code, note, sizeof note, why,
                                    sizeof why);
    if (status == 0 && *note)
        fprintf(stderr, "attnbench: %s\n", note);
    if (status == 0 && !c->json)
        fprintf(stderr, "comparison: %s/against.html\n", options->out_dir);
    if (status)
        code = ATTN_EXIT_INTERNAL;
    if (code)
        attn_complain(code, why);
    code = code_with(&base, code);
    attn_run_release(&base);
    return code;
}

/* On stdout as an object: where the report is, and its page against another run. */
static void print_paths(const struct attn_command *c, const char *out)
{
    char against[ATTN_PATH_MAX];
    json_t *paths = json_pack("{s:s}", "report", out);
    if (c->against && !attn_path_join(against, out, "against.html"))
        json_object_set_new(paths, "against", json_string(against));
    attn_print_json(paths);
}

enum attn_exit attn_report_of(const struct attn_command *c, const char *run, const char *out,
                              const struct attn_paths *paths)
{
    struct attn_run_data data;
    char why[1024], note[512] = "", folder[ATTN_PATH_MAX];
    enum attn_exit code = attn_command_read(c, run, &data);
    if (code)
        return code;
    if (!out) {
        if (attn_path_join(folder, run, "report"))
            code = attn_complain(ATTN_EXIT_USAGE, "the run's path is too long");
        out = folder;
    }
    const bool made = !code && attn_make_folder(out) == 0;
    if (!code && (!made || access(out, W_OK) != 0)) {
        snprintf(why, sizeof why, "folder '%s' cannot be %s: %m", out, made ? "written" : "made");
        code = attn_complain(ATTN_EXIT_USAGE, why);
    }
    struct attn_report_options options = c->report;
    options.script_dir = paths->reports;
    options.out_dir = out;
    int status = code ? 0 : attn_report_write(&data, &options, note, sizeof note, why, sizeof why);
    if (status == 1 || status < 0)
        code = attn_complain(status > 0 ? ATTN_EXIT_USAGE : ATTN_EXIT_INTERNAL, why);
    if (!code && *note)
        fprintf(stderr, "attnbench: %s%s\n", status == 2 ? "exit 6: " : "", note);
    const bool only = c->verb->run == attn_verb_report; /* `run` says where the report is */
    if (!code && only && c->json)
        print_paths(c, out);
    else if (!code && (only || c->json))
        fprintf(stderr, "report: %s/index.html\n", out);
    if (!code && only && c->rows && !c->json) {
        const struct attn_screen screen = {
            .rows = true, .counts = true, .columns = attn_terminal_columns(100), .report = out};
        if (attn_screen_put(&data, &screen, stdout, why, sizeof why))
            code = attn_complain(ATTN_EXIT_INTERNAL, why);
    }
    if (!code && c->against)
        code = write_against(c, &data, &options);
    if (!code && status == 2)
        code = ATTN_EXIT_INCOMPLETE;
    code = code_with(&data, code);
    attn_run_release(&data);
    return code;
}

enum attn_exit attn_verb_report(struct attn_command *c, const struct attn_paths *paths)
{
    if (c->n_arguments != 1)
        return attn_complain(ATTN_EXIT_USAGE, "report needs one run folder");
    const struct attn_compare_options *compare = &c->compare;
    if (!c->against && (compare->margin_given || compare->anchor || compare->cross ||
                        compare->n_map || compare->discoveries > 0))
        return attn_complain(ATTN_EXIT_USAGE, "--margin, --anchor, --cross, --map and "
                                              "--discoveries need --against BASE");
    return attn_report_of(c, c->arguments[0], c->out, paths);
}

/* Whether the errors of a run have grown since the base; the lines say where, and are the caller's.
 * Returns 0, or -1: no memory. */
static int judge_accuracy(const struct attn_command *c, const struct attn_run_data *base,
                          const struct attn_run_data *next, struct attn_accuracy *accuracy,
                          char **lines)
{
    struct attn_drift drift;
    size_t length;
    json_t *earlier = attn_drift_passed(base->records);
    FILE *out = earlier ? attn_text_open(lines, &length) : NULL;
    int status = out ? attn_drift_judge(earlier, next->records, c->drift, out, &drift) : -1;
    if (out && fclose(out) != 0)
        status = -1;
    json_decref(earlier);
    if (status == 0)
        *accuracy = (struct attn_accuracy){drift.compared - drift.unmatched, drift.unmatched,
                                           drift.drifted, *lines};
    return status;
}

/* --within RUN A B is RUN --backends A,B. */
static int take_within(struct attn_command *c, char *why, size_t size)
{
    if (c->compare.backends[0] || c->n_arguments != 2) {
        snprintf(why, size, "compare --within %s needs two backends of that run, A and B%s",
                 c->within, c->compare.backends[0] ? ", and no --backends" : "");
        return -1;
    }
    for (size_t b = 0; b < 2; b++)
        c->compare.backends[b] = c->arguments[b];
    c->arguments[0] = c->within;
    c->n_arguments = 1;
    return 0;
}

enum attn_exit attn_verb_compare(struct attn_command *c, const struct attn_paths *paths)
{
    char why[1024];
    if (c->live && c->compare.markdown)
        return attn_complain(ATTN_EXIT_USAGE, "--markdown is for finished runs, not for --live");
    if (c->live)
        return attn_verb_compare_live(c, paths);
    if (c->n_plugins || c->settings.budget_s > 0 || c->pair_s != ATTN_PAIR_LEAST_S)
        return attn_complain(ATTN_EXIT_USAGE, "--plugin, --budget and --pair-time need --live: "
                                              "without it, compare reads finished runs");
    if (c->within && take_within(c, why, sizeof why))
        return attn_complain(ATTN_EXIT_USAGE, why);
    bool within = c->compare.backends[0] != NULL;
    if (c->n_arguments != (within ? 1u : 2u))
        return attn_complain(
            ATTN_EXIT_USAGE,
            "compare needs BASE and NEW, or --within RUN A B, or --live A B CASES");
    struct attn_run_data base, next;
    enum attn_exit code = attn_command_read(c, c->arguments[0], &base);
    if (code)
        return code;
    if (!within && (code = attn_command_read(c, c->arguments[1], &next))) {
        attn_run_release(&base);
        return code;
    }
    struct attn_compare_options options = c->compare;
    struct attn_accuracy accuracy = {.lines = ""};
    char *lines = NULL;
    options.json = c->json;
    options.strict = c->settings.strict;
    options.accuracy = &accuracy;
    if (!within && !options.margin_given)
        options.margin = STORED_MARGIN;
    if (within && options.gate)
        code = attn_complain(ATTN_EXIT_USAGE, "--gate needs BASE and NEW");
    else if (options.gate && judge_accuracy(c, &base, &next, &accuracy, &lines))
        code = attn_complain(ATTN_EXIT_INTERNAL, "no memory to compare the errors of both runs");
    else if (attn_compare(&base, within ? &base : &next, &options, stdout, &code, why, sizeof why))
        code = attn_complain(ATTN_EXIT_INTERNAL, why);
    else if (code == ATTN_EXIT_BASELINE || code == ATTN_EXIT_NOTHING)
        attn_complain(code, why);
    free(lines);
    code = code_with(&base, code);
    if (!within) {
        code = code_with(&next, code);
        attn_run_release(&next);
    }
    attn_run_release(&base);
    return attn_complain_compared(code, false);
}
