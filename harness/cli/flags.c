/* SPDX-License-Identifier: Apache-2.0 */
/* flags.c - the table of options. One row says everything about an option, with a function that
 * reads its argument. A new option is one row. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/number.h"
#include "cli/shard.h"
#include "history/history.h"
#include "host/confine.h"
#include "report/export.h"
#include "run/checks.h"
#include "run/drift.h"
#include "run/entry.h"

/* Verbs as bits, for the options that belong to them. */
enum {
    LIST = 1,
    VERIFY = 2,
    BENCH = 4,
    REPORT = 8,
    RUN = 16,
    COMPARE = 32,
    DOCTOR = 64,
    NEW_BACKEND = 128,
    HISTORY = 256,
    MERGE = 512,
    EXPORT = 1024,
    IMPORT = 2048,
    STATEMENT = 4096,
    TIMES = BENCH | RUN,
    WORKS = VERIFY | TIMES,
    ALL = 8191
};

static enum attn_exit bad_value(const struct attn_flag *flag, const char *text, const char *wanted,
                                char *why, size_t size)
{
    snprintf(why, size, "--%s: '%s' is not %s", flag->name, text, wanted);
    return ATTN_EXIT_USAGE;
}

/* ---- functions of the rows: each stores the option at the offset of its row ---- */

static void *place(const struct attn_flag *flag, struct attn_command *c)
{
    return (char *)c + flag->at;
}

/* bool */
static enum attn_exit take_switch(const struct attn_flag *flag, char *text, struct attn_command *c,
                                  char *why, size_t size)
{
    (void)text, (void)why, (void)size;
    *(bool *)place(flag, c) = true;
    return ATTN_EXIT_OK;
}

/* const char * */
static enum attn_exit take_text(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    (void)why, (void)size;
    *(const char **)place(flag, c) = text;
    return ATTN_EXIT_OK;
}

/* int, from 1 to the row's most */
static enum attn_exit take_count(const struct attn_flag *flag, char *text, struct attn_command *c,
                                 char *why, size_t size)
{
    long long n;
    if (!attn_integer_parse(text, 1, flag->most, &n)) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a number from 1 to %d", flag->most);
        return bad_value(flag, text, wanted, why, size);
    }
    *(int *)place(flag, c) = (int)n;
    return ATTN_EXIT_OK;
}

/* double, seconds */
static enum attn_exit take_time(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    double seconds = attn_duration_parse(text);
    if (seconds < 0)
        return bad_value(flag, text, "a duration (10m, 90s, 250ms)", why, size);
    *(double *)place(flag, c) = seconds;
    return ATTN_EXIT_OK;
}

/* uint64_t, bytes */
static enum attn_exit take_size(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    const double bytes = attn_size_parse(text);
    /* Less than 64 MiB is not enough for a worker and the libraries that it loads. */
    if (!(bytes >= 0x1p26 && bytes < 0x1p62))
        return bad_value(flag, text, "a size of at least 64M (512M, 8G)", why, size);
    *(uint64_t *)place(flag, c) = (uint64_t)bytes;
    return ATTN_EXIT_OK;
}

static enum attn_exit append(const struct attn_flag *flag, const char *text, const char **list,
                             size_t *n, char *why, size_t size)
{
    if (*n == ATTN_ARGS_MAX) {
        snprintf(why, size, "--%s: given more than %d times", flag->name, ATTN_ARGS_MAX);
        return ATTN_EXIT_USAGE;
    }
    list[(*n)++] = text;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_backend(const struct attn_flag *flag, char *text, struct attn_command *c,
                                   char *why, size_t size)
{
    if (strchr(text, ':')) /* commas are between options */
        return append(flag, text, c->backends, &c->n_backends, why, size);
    enum attn_exit code = ATTN_EXIT_OK;
    for (char *name; code == ATTN_EXIT_OK && (name = strsep(&text, ","));)
        code = append(flag, name, c->backends, &c->n_backends, why, size);
    return code;
}

static enum attn_exit take_plugin(const struct attn_flag *flag, char *text, struct attn_command *c,
                                  char *why, size_t size)
{
    return append(flag, text, c->plugins, &c->n_plugins, why, size);
}

static enum attn_exit take_suite(const struct attn_flag *flag, char *text, struct attn_command *c,
                                 char *why, size_t size)
{
    c->suite.full = strcmp(text, "full") == 0;
    if (!c->suite.full && strcmp(text, "standard") != 0)
        return bad_value(flag, text, "standard or full", why, size);
    return ATTN_EXIT_OK;
}

static enum attn_exit take_shard(const struct attn_flag *flag, char *text, struct attn_command *c,
                                 char *why, size_t size)
{
    (void)flag;
    return attn_shard_parse(text, &c->suite.shard, why, size) ? ATTN_EXIT_USAGE : ATTN_EXIT_OK;
}

static enum attn_exit part(const struct attn_flag *flag, char *text, char separator,
                           const char *pair[2], char *why, size_t size)
{
    char *at = strchr(text, separator);
    if (!at || at == text || !at[1])
        return bad_value(flag, text, separator == ',' ? "A,B" : "A=B", why, size);
    *at = '\0';
    pair[0] = text;
    pair[1] = at + 1;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_pair(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    return part(flag, text, ',', c->compare.backends, why, size);
}

static enum attn_exit take_map(const struct attn_flag *flag, char *text, struct attn_command *c,
                               char *why, size_t size)
{
    if (c->compare.n_map == ATTN_MAP_MAX)
        return bad_value(flag, text, "one of at most 16", why, size);
    return part(flag, text, '=', c->compare.map[c->compare.n_map++], why, size);
}

static enum attn_exit take_cache(const struct attn_flag *flag, char *text, struct attn_command *c,
                                 char *why, size_t size)
{
    struct attn_settings *s = &c->settings;
    s->hot = !strcmp(text, "hot") || !strcmp(text, "both");
    s->cold = s->cold_asked = !strcmp(text, "cold") || !strcmp(text, "both");
    return s->hot || s->cold ? ATTN_EXIT_OK : bad_value(flag, text, "hot, cold or both", why, size);
}

/* Reads a list of words as a set of bits: word n is bit n. `names` has room for two more words. */
static enum attn_exit name_set(const struct attn_flag *flag, const char *text, const char **names,
                               size_t count, unsigned *set, char *why, size_t size)
{
    const size_t all = count, none = count + 1;
    names[all] = "all";
    names[none] = "none";
    *set = 0;
    while (*text) {
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ","), text);
        size_t n = 0;
        while (n <= none && strcmp(word, names[n]) != 0)
            n++;
        if (n > none) {
            const char *near = attn_nearest(word, names, count + 2);
            snprintf(why, size, "--%s: there is no '%s'; %s%s%s", flag->name, word,
                     near ? "did you mean '" : "'attnbench list ", near ? near : flag->name,
                     near ? "'?" : "' names them");
            return ATTN_EXIT_USAGE;
        }
        *set |= n == all ? ~0u : n == none ? 0u : 1u << n;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return ATTN_EXIT_OK;
}

static enum attn_exit take_fills(const struct attn_flag *flag, char *text, struct attn_command *c,
                                 char *why, size_t size)
{
    const char *names[ATTN_FILL_COUNT + 2];
    for (enum attn_fill f = 0; f < ATTN_FILL_COUNT; f++)
        names[f] = attn_fill_name(f);
    return name_set(flag, text, names, ATTN_FILL_COUNT, &c->settings.fills, why, size);
}

static enum attn_exit take_checks(const struct attn_flag *flag, char *text, struct attn_command *c,
                                  char *why, size_t size)
{
    const char *names[ATTN_CHECK_CHOICES + 2];
    for (enum attn_check k = 0; k < ATTN_CHECK_CHOICES; k++)
        names[k] = attn_check_name(k);
    return name_set(flag, text, names, ATTN_CHECK_CHOICES, &c->settings.checks, why, size);
}

static enum attn_exit take_seed(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    struct attn_suite_wish *wish = &c->suite;
    char *end;
    errno = 0;
    wish->seed = strtoull(text, &end, 10);
    wish->seed_given = true;
    if (!*text || *end || errno || *text == '-')
        return bad_value(flag, text, "a number from 0 to 2^64-1", why, size);
    return ATTN_EXIT_OK;
}

static enum attn_exit take_sample_seed(const struct attn_flag *flag, char *text,
                                       struct attn_command *c, char *why, size_t size)
{
    long long seed;
    if (!attn_integer_parse(text, 0, INT64_MAX, &seed))
        return bad_value(flag, text, "a number from 0 to 2^63-1", why, size);
    c->settings.sample_seed = (uint64_t)seed;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_language(const struct attn_flag *flag, char *text,
                                    struct attn_command *c, char *why, size_t size)
{
    if (strcmp(text, "c") != 0 && strcmp(text, "c++") != 0 && strcmp(text, "python") != 0)
        return bad_value(flag, text, "c, c++ or python", why, size);
    return take_text(flag, text, c, why, size);
}

static int level_of(const char *name)
{
    for (int level = ATTN_CONFINE_OFF; level <= ATTN_CONFINE_STRICT; level++)
        if (strcmp(name, attn_confine_level_name((enum attn_confine)level)) == 0)
            return level;
    return 0;
}

/* A level, or those of A and B. */
static enum attn_exit take_confine(const struct attn_flag *flag, char *text, struct attn_command *c,
                                   char *why, size_t size)
{
    char *comma = strchr(text, ',');
    if (comma)
        *comma = 0;
    c->confine[0] = level_of(text);
    c->confine[1] = comma ? level_of(comma + 1) : 0;
    if (comma)
        *comma = ',';
    if (!c->confine[0] || (comma && !c->confine[1]))
        return bad_value(flag, text, "off, limits or strict", why, size);
    return ATTN_EXIT_OK;
}

static enum attn_exit take_margin(const struct attn_flag *flag, char *text, struct attn_command *c,
                                  char *why, size_t size)
{
    const double percent = attn_percentage_parse(text);
    if (percent < 0)
        return bad_value(flag, text, "a percentage from 0 to 100", why, size);
    c->compare.margin = percent / 100;
    c->compare.margin_given = true;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_discoveries(const struct attn_flag *flag, char *text,
                                       struct attn_command *c, char *why, size_t size)
{
    const double percent = attn_percentage_parse(text);
    if (!(percent > 0))
        return bad_value(flag, text, "a percentage above 0 and below 100", why, size);
    c->compare.discoveries = percent / 100;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_drift(const struct attn_flag *flag, char *text, struct attn_command *c,
                                 char *why, size_t size)
{
    char *end;
    c->drift = strtod(text, &end);
    if (end == text || *end || !(c->drift >= 1 && c->drift <= 1e6))
        return bad_value(flag, text, "a factor from 1 to 1e6", why, size);
    return ATTN_EXIT_OK;
}

static enum attn_exit take_name(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    const size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (text[length] || length == 0 || length > 31 || text[0] < 'a')
        return bad_value(flag, text, "a name of a backend: a-z, 0-9 and _", why, size);
    c->name = text;
    return ATTN_EXIT_OK;
}

/* --reproducer and --fuzz imply --shrink. */
static enum attn_exit take_reproducer(const struct attn_flag *flag, char *text,
                                      struct attn_command *c, char *why, size_t size)
{
    (void)flag, (void)why, (void)size;
    c->settings.reproducer = text;
    c->settings.shrink = true;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_fuzz(const struct attn_flag *flag, char *text, struct attn_command *c,
                                char *why, size_t size)
{
    c->settings.shrink = true;
    return take_count(flag, text, c, why, size);
}

#define AT(field) offsetof(struct attn_command, field)

const struct attn_flag attn_flags[] = {
    {"backend", 'b', "NAME[:key=value,...]", WORKS | LIST | DOCTOR | HISTORY, take_backend, 0, 0,
     "use only this backend, with options, or NAME,NAME,...; may be repeated"},
    {"name", 0, "NAME", IMPORT, take_name, 0, 0,
     "what the imported backend is called (default: as the program that made the file)"},
    {"format", 0, ATTN_EXPORT_FORMATS, EXPORT, take_text, AT(format), 0, "the format to write"},
    {"out", 'o', "DIR", WORKS | REPORT | NEW_BACKEND | MERGE | IMPORT, take_text, AT(out), 0,
     "where results go"},
    {"plugin", 0, "FILE", WORKS | LIST | DOCTOR | COMPARE | STATEMENT, take_plugin, 0, 0,
     "a plugin outside the plugin folder (NAME=FILE: call its backend NAME, or each of several "
     "NAME_BACKEND); without -b, only plugins named this way take part"},
    {"suite", 0, "standard|full", WORKS | LIST, take_suite, 0, 0,
     "without CASES: the standard suite (default), or that with the longest sequences and the "
     "largest sizes"},
    {"filter", 0, "GLOB", WORKS | LIST, take_text, AT(suite.filter), 0,
     "only cases whose name or id matches"},
    {"shard", 0, "I/N|auto", WORKS | LIST, take_shard, 0, 0,
     "only the I-th of N parts, by a hash of the case's id; auto: from the variables of a Slurm "
     "array, Kubernetes, MPI or CI"},
    {"seed", 0, "N", WORKS | LIST, take_seed, 0, 0, "replaces the seed of every case"},
    {"sample-seed", 0, "N", WORKS, take_sample_seed, 0, 0,
     "decides which rows are judged where not all are (default: fresh; a record has it)"},
    {"budget", 0, "TIME", WORKS | COMPARE, take_time, AT(settings.budget_s), 0,
     "give up rounds, and then cases, to end in this time (10m, 90s; a plain number is seconds; "
     "default, and 0: take the time it needs)"},
    {"threads", 0, "N", WORKS | COMPARE, take_count, AT(settings.threads), 4096,
     "threads of a backend, on as many processors (default 1)"},
    {"timeout", 0, "TIME", WORKS | COMPARE | STATEMENT, take_time, AT(settings.timeout_s), 0,
     "watchdog of one request (default 60s)"},
    {"memory", 0, "SIZE", WORKS | COMPARE | STATEMENT, take_size, AT(settings.memory), 0,
     "memory limit of a case and of a worker (512M, 8G; default: what is available)"},
    {"confine", 0, "off|limits|strict", WORKS | LIST | COMPARE | DOCTOR, take_confine, 0, 0,
     "what workers are kept from (default strict; limits where there is a GPU; doctor says what "
     "this kernel gives; compare --live: off,strict of A and B)"},
    {"run-limit", 0, "TIME", WORKS, take_time, AT(settings.run_limit_s), 0,
     "a run predicted to take longer is skipped (default 5s, 0: none)"},
    {"fills", 0, "all|none|NAME,...", WORKS, take_fills, 0, 0,
     "further fills of each case ('list fills'; default: verify all, bench and run none)"},
    {"checks", 0, "all|none|NAME,...", WORKS, take_checks, 0, 0,
     "checks that compare a backend with itself ('list checks'; default as for --fills)"},
    {"rounds", 0, "N", TIMES, take_count, AT(settings.rounds), ATTN_ROUNDS_MAX,
     "rounds, the unit of replication (default 5)"},
    {"samples", 0, "N", TIMES, take_count, AT(settings.samples), ATTN_SAMPLES_MAX,
     "samples per case and round (default 3)"},
    {"min-time", 0, "TIME", TIMES, take_time, AT(settings.min_time_s), 0,
     "least time of a sample (default 5ms)"},
    {"cache", 0, "hot|cold|both", TIMES | HISTORY, take_cache, 0, 0,
     "state of the caches (default both; with --budget for over 8 cases, cold only where a run "
     "is mostly reading)"},
    {"count", 0, NULL, TIMES, take_switch, AT(settings.count), 0,
     "count the instructions of a run, too, by valgrind: one thread, AVX2 at most"},
    {"rows", 0, NULL, TIMES | REPORT, take_switch, AT(rows), 0,
     "list every timing on stdout (bench and run: also without it if there are 40 at most)"},
    {"resume", 0, NULL, TIMES, take_switch, AT(resume), 0, "continue a run that was cut off"},
    {"cross", 0, NULL, TIMES, take_switch, AT(compare.cross), 0,
     "with --resume: although machine, commit, rounds or settings differ"},
    {"salvage", 0, NULL, TIMES | REPORT | COMPARE | EXPORT, take_switch, AT(salvage), 0,
     "of damaged records, use those before the damage (bench, run: with --resume)"},
    {"dry-run", 0, NULL, WORKS, take_switch, AT(dry_run), 0,
     "print the cases that would run, and stop"},
    {"json", 0, NULL, ALL & ~EXPORT, take_switch, AT(json), 0, "write JSON to stdout"},
    {"junit", 0, "FILE", VERIFY, take_text, AT(junit), 0, "verdicts as JUnit XML"},
    {"statement", 0, "FILE", VERIFY, take_text, AT(statement), 0,
     "a statement of conformance (FILE.md or FILE.json), and a badge beside it (FILE.svg)"},
    {"strict", 0, NULL, WORKS | COMPARE | DOCTOR, take_switch, AT(settings.strict), 0,
     "a mistrusted result fails; an unclear comparison, or a machine with warnings, is "
     "inconclusive"},
    {"debug", 0, NULL, VERIFY, take_switch, AT(settings.debug), 0,
     "worker in the foreground, without watchdog; says which process to attach gdb to"},
    {"shrink", 0, NULL, VERIFY, take_switch, AT(settings.shrink), 0,
     "reduce a failing case to the smallest case that still fails in the same way"},
    {"reproducer", 0, "FILE", VERIFY, take_reproducer, 0, 0,
     "--shrink, and write the first such case as a C program that needs only the plugin"},
    {"fuzz", 0, "N", VERIFY | LIST, take_fuzz, AT(suite.fuzz), 100000,
     "N random cases over the whole language, drawn from --seed (default 1); verify: N that a "
     "backend takes, with --shrink"},
    {"baseline", 0, "FILE", VERIFY, take_text, AT(baseline), 0,
     "verify: results.ndjson or folder of an earlier run; exit 3 if errors have grown"},
    {"drift", 0, "FACTOR", VERIFY | COMPARE, take_drift, 0, 0,
     "with --baseline or --gate: error over bound may grow by this factor (default 2)"},
    {"margin", 0, "PERCENT", COMPARE | REPORT | HISTORY, take_margin, 0, 0,
     "differences up to this count as equal (default 10 between two runs, else 3)"},
    {"anchor", 0, "NAME", COMPARE | REPORT | HISTORY, take_text, AT(compare.anchor), 0,
     "times relative to those of this backend, in the same rounds of a run (history has a "
     "default)"},
    {"index", 0, "FILE", HISTORY, take_text, AT(index), 0,
     "the index of runs (default: " ATTN_HISTORY_INDEX ")"},
    {"markdown", 0, NULL, COMPARE, take_switch, AT(compare.markdown), 0,
     "the table as Markdown, a section for each verdict"},
    {"gate", 0, NULL, COMPARE, take_switch, AT(compare.gate), 0,
     "BASE gates memory, accuracy and counts (bench --count), too: exit 4 if peaks, their order or "
     "instructions grew, 3 if errors did"},
    {"live", 0, NULL, COMPARE, take_switch, AT(live), 0,
     "run A and B in alternation now, in place of reading runs"},
    {"pair-time", 0, "TIME", COMPARE | DOCTOR, take_time, AT(pair_s), 0,
     "with --live or --calibrate: least time of a pair, of which 6 to 32 are made (default 300ms)"},
    {"calibrate", 0, NULL, DOCTOR, take_switch, AT(calibrate), 0,
     "how often is compare --live right here and now, and what does it resolve (-b: by which "
     "backend)"},
    {"time", 0, "TIME", DOCTOR, take_time, AT(calibrate_s), 0,
     "with --calibrate: end in this time (default 2m)"},
    {"within", 0, "DIR", COMPARE, take_text, AT(within), 0,
     "compare --within RUN A B: two backends of one run, by their turns (--plugin A=FILE of bench "
     "gives a build its name; of several backends A_x goes with B_x)"},
    {"backends", 0, "A,B", COMPARE, take_pair, 0, 0, "the same, as compare RUN --backends A,B"},
    {"baseline", 0, "NAME", REPORT | RUN, take_text, AT(report.baseline), 0,
     "report, run: the backend that speed-ups refer to (default: the slowest exact one)"},
    {"against", 0, "BASE", REPORT, take_text, AT(against), 0,
     "report: a page that compares RUN with BASE, a run folder; takes the options of compare"},
    {"discoveries", 0, "PERCENT", COMPARE | REPORT, take_discoveries, 0, 0,
     "of all slower and faster, so many may be false (Benjamini-Hochberg; default: each by "
     "itself)"},
    {"cross", 0, NULL, COMPARE | REPORT | STATEMENT, take_switch, AT(compare.cross), 0,
     "compare runs although their machines, builds or protocols differ; check a statement of "
     "another machine"},
    {"map", 0, "A=B", COMPARE | REPORT, take_map, 0, 0,
     "compare A of BASE or NEW with B of the other"},
    {"matrix", 0, NULL, LIST, take_switch, AT(matrix), 0,
     "list backends: what each one supports, over a grid of problems"},
    {"lang", 0, "c|c++|python", NEW_BACKEND, take_language, AT(language), 0,
     "the language of the skeleton (default c)"},
    {"help", 'h', NULL, ALL, take_switch, AT(help), 0, "print this help"},
    {0},
};
_Static_assert(sizeof attn_flags / sizeof *attn_flags <= ATTN_FLAGS_MAX, "raise ATTN_FLAGS_MAX");

bool attn_flag_belongs(const struct attn_flag *flag, const struct attn_verb *verb)
{
    return flag->verbs & 1u << (verb - attn_verbs);
}
