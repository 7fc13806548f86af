/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - the table of verbs; parses a command line, and prints help. */
#include "cli/command.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "history/history.h"
#include "live/calibrate.h"
#include "live/cycles.h"
#include "report/text.h"
#include "run/drift.h"

const struct attn_verb attn_verbs[] = {
    {"list", "[backends|cases|fills|checks|ops] [CASES...]",
     "list backends, cases, fills, checks or operators",
     "Without an argument: backends. 'cases' prints the id, name and canonical form of every case\n"
     "of the standard suite, or of the CASES given; without them 'verify' adds the folder\n"
     "cases/covering and 'bench' cases/long, as their --dry-run shows. 'ops' prints the inputs, "
     "the\n"
     "outputs and the own keys of every operator.",
     attn_verb_list},
    {"verify", "[CASES...]", "check that the numbers are right",
     "Runs every case on every backend in guarded memory. Compares each output element with a\n"
     "double-precision reference, within a proven error bound. Prints one line per result: its\n"
     "status, the largest error over its bound, and how much that proves. checks: made, of those\n"
     "that apply. power: usual mistakes that would have been refused, of those that apply. grade:\n"
     "the largest error over the bound of the best arithmetic of the type. slack: how many times\n"
     "as wide the plan's declared bound is (median).",
     attn_verb_verify},
    {"bench", "[CASES...] -o RUN", "verify, then time what passed",
     "Results go to the folder RUN: one record per line in RUN/results.ndjson.", attn_verb_bench},
    {"report", "RUN [-o DIR]", "pictures and pages from a run",
     "Writes plots (SVG, PNG), index.html, report.md, results.csv and junit.xml to DIR, or to\n"
     "RUN/report. With --against BASE also against.html, which compares RUN with BASE case by\n"
     "case: what differs between the two runs stands first, and exit code 8 says that they cannot\n"
     "be compared.",
     attn_verb_report},
    {"run", "[CASES...] -o RUN", "bench, then report", "", attn_verb_run},
    {"compare", "BASE NEW | --within RUN A B | --live A B CASE...",
     "compare two runs, two backends of one run, or two live backends, case by case",
     "Times are geometric means over rounds, where bench prints medians. Exit code 4 if a\n"
     "whole interval is slower than the margin. --within RUN holds B against A, two\n"
     "backends that took turns in the rounds of one run. --live runs A and B (NAME or\n"
     "NAME:key=value) in alternation and compares processor time. It says slower only if fresh\n"
     "workers confirm it. Exit code 5 then means that no verdict was reached. --plugin, --budget,\n"
     "--threads, --timeout and --memory are for --live.",
     attn_verb_compare},
    {"doctor", "", "check that this machine is fit for measuring, and what each backend lacks",
     "--calibrate asks compare --live, now, what is known: a backend beside itself, and beside "
     "itself\n"
     "with 5 % of its work done twice. It prints how often the verdicts were right, and from "
     "which\n"
     "size on a slowdown would be found. Exit code 5: not as often as promised.",
     attn_verb_doctor},
    {"new-backend", "NAME [-o DIR] [--lang c|c++|python]",
     "a small backend that works, in DIR/NAME (default: backends/)",
     "It computes plain attention in f32 and refuses everything else. Prints the commands that\n"
     "build and verify it.",
     attn_verb_new_backend},
    {"history", "[add|rebuild|CASE] [RUN...]",
     "how a case's time relative to an anchor has changed from run to run",
     "'add RUN...' puts runs into an index. 'rebuild DIR...' makes it anew of all runs below.\n"
     "CASE is an id, a name or a case line: prints each run with the ratio of its time to that of\n"
     "the anchor, and the points at which the ratio has changed for good. Runs on different\n"
     "machines or with different protocols are separate series. Without arguments: the cases of\n"
     "the index. Exit code 6: rebuild has left out runs that cannot be read.",
     attn_verb_history},
    {"merge", "RUN... -o OUT", "one run of the shards of a run",
     "RUN is a run folder, or a folder of run folders. In whatever order and groups runs are "
     "merged,\n"
     "and whatever is in several of them, the result has the same bytes. Exit code 6: the new run\n"
     "lacks shards, which are named; merge them in later. 2: two runs have different records "
     "under\n"
     "one key. 8: machines, builds or protocols differ.",
     attn_verb_merge},
    {"export", "RUN --format FORMAT", "a run in the format of another tool, on stdout",
     "google-benchmark has one entry a sample, for compare.py of Google Benchmark.\n"
     "github-action-benchmark is a list for its tool customSmallerIsBetter. bencher is the "
     "Bencher\n"
     "Metric Format. All three have times in ns, of results with right numbers. junit and csv are\n"
     "those of a report. Exit code 7: the run has nothing of the kind.",
     attn_verb_export},
    {"import", "FILE -o RUN", "a run from the JSON of Google Benchmark, for compare and report",
     "The results are mistrusted: nobody has judged their numbers. Of another program's file each\n"
     "repetition counts as a round, and compare asks for --cross against runs of attnbench.",
     attn_verb_import},
    {"statement", "check FILE", "repeat what a statement of verify --statement is about",
     "Verifies the same cases on the same plugin (--plugin as it was named then) and compares "
     "what\n"
     "the statement says with what is found. Exit code 3: it says something else, is about "
     "another\n"
     "plugin, or was edited; 8: it is of another suite, version or machine (--cross: other "
     "machines\n"
     "may differ); 5: it says more of checks, power or accuracy than could be found.",
     attn_verb_statement},
    {NULL, NULL, NULL, NULL, NULL},
};

const char attn_purpose[] = "is this attention implementation right, how fast is it, how big is it";
const char attn_about_cases[] =
    "CASES are .cases files, packs (.safetensors), folders of these or quoted case lines; without\n"
    "any, the standard suite.";

const char *const attn_exit_meanings[ATTN_EXIT_CODES] = {
    [ATTN_EXIT_OK] = "ok",
    [ATTN_EXIT_INTERNAL] = "internal error",
    [ATTN_EXIT_USAGE] = "usage, or bad input",
    [ATTN_EXIT_NUMERICS] = "numbers are wrong, or a refusal that is on no list of expected skips",
    [ATTN_EXIT_REGRESSION] = "broke or slower, or more memory or instructions (compare --gate)",
    [ATTN_EXIT_INCONCLUSIVE] = "inconclusive (under --strict, --live or --calibrate)",
    [ATTN_EXIT_INCOMPLETE] =
        "incomplete (crash, timeout, out of memory, error; an unfinished or damaged run)",
    [ATTN_EXIT_NOTHING] = "nothing matched, or a backend that was named was checked on nothing",
    [ATTN_EXIT_BASELINE] = "not comparable with the baseline",
};

static enum attn_exit unknown_verb(const char *word, char *why, size_t size)
{
    const char *names[32];
    size_t n = 0;
    for (const struct attn_verb *v = attn_verbs; v->name; v++)
        names[n++] = v->name;
    const char *near = attn_nearest(word, names, n);
    snprintf(why, size, "there is no command '%s'; %s%s%s", word,
             near ? "did you mean '" : "'attnbench --help' lists them", near ? near : "",
             near ? "'?" : "");
    return ATTN_EXIT_USAGE;
}

static enum attn_exit unknown_option(const struct attn_verb *verb, const char *word, char *why,
                                     size_t size)
{
    const char *names[ATTN_FLAGS_MAX];
    size_t n = 0;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word + strspn(word, "-"), "="),
             word + strspn(word, "-"));
    for (const struct attn_flag *f = attn_flags; f->name; f++) {
        if (!strcmp(f->name, name)) {
            snprintf(why, size, "--%s does not belong to '%s'", name, verb->name);
            return ATTN_EXIT_USAGE;
        }
        if (attn_flag_belongs(f, verb))
            names[n++] = f->name;
    }
    const char *near = attn_nearest(name, names, n);
    snprintf(why, size, "'%s' has no option '%s'%s%s%s", verb->name, word,
             near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
    return ATTN_EXIT_USAGE;
}

/* The number of an option in getopt: its row, above the letters of short forms. */
enum { FIRST_ROW = 256 };

/* Makes getopt's table for one verb from ours. */
static void getopt_tables(const struct attn_verb *verb, struct option longs[ATTN_FLAGS_MAX],
                          char *shorts)
{
    size_t n = 0;
    char *s = shorts;
    *s++ = ':'; /* so that getopt tells a missing argument from an unknown option */
    for (const struct attn_flag *f = attn_flags; f->name; f++) {
        if (!attn_flag_belongs(f, verb))
            continue;
        longs[n++] = (struct option){f->name, f->argument ? required_argument : no_argument, NULL,
                                     FIRST_ROW + (int)(f - attn_flags)};
        if (f->letter) {
            *s++ = f->letter;
            if (f->argument)
                *s++ = ':';
        }
    }
    longs[n] = (struct option){0};
    *s = '\0';
}

/* The row of the option that getopt has found. */
static const struct attn_flag *flag_of(int id)
{
    const struct attn_flag *f = attn_flags;
    if (id >= FIRST_ROW)
        return f + (id - FIRST_ROW);
    while (f->letter != id)
        f++;
    return f;
}

enum attn_exit attn_command_parse(int argc, char **argv, struct attn_command *c, char *why,
                                  size_t size)
{
    memset(c, 0, sizeof *c);
    attn_settings_default(&c->settings);
    c->compare.margin = 0.03;
    c->drift = ATTN_DRIFT_FACTOR;
    c->pair_s = ATTN_PAIR_LEAST_S;
    c->index = ATTN_HISTORY_INDEX;
    c->language = "c";
    c->calibrate_s = ATTN_CALIBRATE_S;
    const char *word = argc < 2 ? "--help" : argv[1];
    c->version = !strcmp(word, "--version");
    c->help = !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
    if (c->help && argc > 2) /* help VERB */
        word = argv[2];
    else if (c->help || c->version)
        return ATTN_EXIT_OK;
    for (const struct attn_verb *v = attn_verbs; v->name; v++)
        if (!strcmp(v->name, word))
            c->verb = v;
    if (!c->verb)
        return unknown_verb(word, why, size);
    if (c->help)
        return ATTN_EXIT_OK;
    c->settings.all_checks = c->verb->run == attn_verb_verify;
    c->settings.fills = c->settings.checks = c->settings.all_checks ? ~0u : 0;

    struct option longs[ATTN_FLAGS_MAX];
    char shorts[2 * ATTN_FLAGS_MAX];
    getopt_tables(c->verb, longs, shorts);
    opterr = 0;
    optind = 2;
    for (int id; (id = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        const char *given = argv[optind - 1];
        if (id == ':') {
            snprintf(why, size, "'%s' needs an argument", given);
            return ATTN_EXIT_USAGE;
        }
        if (id == '?')
            return unknown_option(c->verb, given, why, size);
        const struct attn_flag *flag = flag_of(id);
        const enum attn_exit code = flag->take(flag, optarg, c, why, size);
        if (code)
            return code;
    }
    if (c->confine[1] && !c->live) {
        snprintf(why, size, "--confine: two levels are those of A and B in compare --live");
        return ATTN_EXIT_USAGE;
    }
    for (int a = optind; a < argc; a++) {
        if (c->n_arguments == ATTN_ARGS_MAX) {
            snprintf(why, size, "more than %d arguments", ATTN_ARGS_MAX);
            return ATTN_EXIT_USAGE;
        }
        c->arguments[c->n_arguments++] = argv[a];
    }
    return ATTN_EXIT_OK;
}

/* A line with an indented text beside what it is about, below it where there is no room. */
static void put_entry(const char *left, int width, const char *text, int columns)
{
    printf("  %-*s", width, left);
    if ((int)strlen(left) > width)
        printf("\n  %*s", width, "");
    printf("  ");
    attn_put_wrapped(stdout, text, width + 4, columns);
}

static void overview(int columns)
{
    printf("attnbench: %s\n\n", attn_purpose);
    for (const struct attn_verb *v = attn_verbs; v->name; v++) {
        char left[64];
        snprintf(left, sizeof left, "attnbench %s", v->name);
        put_entry(left, 21, v->summary, columns);
    }
    printf("\n'attnbench help VERB' says more about each, --version what this is.\n");
    attn_put_wrapped(stdout, attn_about_cases, 0, columns);
    printf("\nExit codes:\n");
    for (int code = 0; code < ATTN_EXIT_CODES; code++) {
        char left[16];
        snprintf(left, sizeof left, "%3d", code);
        put_entry(left, 3, attn_exit_meanings[code], columns);
    }
    put_entry("130", 3, "interrupted: " ATTN_EXIT_INTERRUPTED, columns);
}

void attn_command_help(const struct attn_verb *verb)
{
    const int columns = attn_terminal_columns(ATTN_COLUMNS);
    if (!verb) {
        overview(columns);
        return;
    }
    printf("attnbench %s%s%s\n\n%s\n", verb->name, *verb->arguments ? " " : "", verb->arguments,
           verb->summary);
    if (*verb->details)
        attn_put_wrapped(stdout, verb->details, 0, columns);
    printf("\n");
    for (const struct attn_flag *f = attn_flags; f->name; f++) {
        if (!attn_flag_belongs(f, verb))
            continue;
        char left[96];
        snprintf(left, sizeof left, "%c%c%s--%s%s%s", f->letter ? '-' : ' ',
                 f->letter ? f->letter : ' ', f->letter ? ", " : "  ", f->name,
                 f->argument ? " " : "", f->argument ? f->argument : "");
        put_entry(left, 24, f->help, columns);
    }
}

enum attn_exit attn_complain(enum attn_exit code, const char *text)
{
    fflush(stdout); /* in a log, after what was printed before */
    fprintf(stderr, "attnbench: %s\n", text);
    return code;
}

enum attn_exit attn_complain_compared(enum attn_exit code, bool live)
{
    static const char *const texts[][2] = {
        /* of stored results, of what was timed live */
        [ATTN_EXIT_NUMERICS] = {"exit 3: errors have grown, as said above",
                                "exit 3: a result is wrong, as said above; 'verify' shows where"},
        [ATTN_EXIT_REGRESSION] =
            {"exit 4: broke, slower, more memory or more instructions, as said above",
             "exit 4: slower, measured twice"},
        [ATTN_EXIT_INCONCLUSIVE] =
            {"exit 5: a result is unclear; more rounds, or 'compare --live', may tell",
             "exit 5: a result is unclear; a larger --pair-time, or less other work, may tell"},
        [ATTN_EXIT_INCOMPLETE] = {"", "exit 6: a worker failed, as said above"}};
    if (code >= ATTN_EXIT_NUMERICS && code <= ATTN_EXIT_INCOMPLETE && *texts[code][live])
        attn_complain(code, texts[code][live]);
    return code;
}
