/* SPDX-License-Identifier: Apache-2.0 */
/* flags.c - the table of options, and what each takes. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "run/checks.h"
#include "run/drift.h"

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
    TIMES = BENCH | RUN,
    WORKS = VERIFY | TIMES,
    ALL = 255
};

enum option_id {
    O_BACKEND = 'b',
    O_OUT = 'o',
    O_HELP = 'h',
    O_PLUGIN = 256,
    O_FILTER,
    O_SHARD,
    O_SEED,
    O_BUDGET,
    O_THREADS,
    O_TIMEOUT,
    O_MEMORY,
    O_RUN_LIMIT,
    O_FILLS,
    O_CHECKS,
    O_ROUNDS,
    O_SAMPLES,
    O_MIN_TIME,
    O_CACHE,
    O_RESUME,
    O_DRY_RUN,
    O_JSON,
    O_JUNIT,
    O_STRICT,
    O_DEBUG,
    O_SHRINK,
    O_REPRODUCER,
    O_FUZZ,
    O_ACCURACY,
    O_DRIFT,
    O_MARGIN,
    O_BACKENDS,
    O_BASELINE,
    O_MAP,
    O_MATRIX
};

const struct attn_flag attn_flags[ATTN_FLAGS + 1] = {
    {"backend", "NAME[:key=value,...]", O_BACKEND, WORKS | LIST,
     "this backend only, with options; may be repeated"},
    {"out", "DIR", O_OUT, WORKS | REPORT | NEW_BACKEND, "where results go"},
    {"plugin", "FILE", O_PLUGIN, WORKS | LIST | DOCTOR,
     "a plugin from outside the plugin folder; without -b, only plugins so named take part"},
    {"filter", "GLOB", O_FILTER, WORKS | LIST, "cases whose name or id matches"},
    {"shard", "I/N", O_SHARD, WORKS | LIST, "every N-th case, from the I-th on"},
    {"seed", "N", O_SEED, WORKS | LIST, "replaces the seed of every case"},
    {"budget", "TIME", O_BUDGET, WORKS,
     "rounds, and then cases, are given up so that it ends in time (10m, 90s)"},
    {"threads", "N", O_THREADS, WORKS, "threads of a backend, on as many processors (default 1)"},
    {"timeout", "TIME", O_TIMEOUT, WORKS, "watchdog of one request (default 60s)"},
    {"memory", "SIZE", O_MEMORY, WORKS,
     "of a case and of a worker (512M, 8G; default: what is available)"},
    {"run-limit", "TIME", O_RUN_LIMIT, WORKS,
     "a run predicted to take longer is skipped (default 5s, 0: none)"},
    {"fills", "all|none|NAME,...", O_FILLS, WORKS,
     "what else to fill each case with ('list fills'; default: verify all, bench and run none)"},
    {"checks", "all|none|NAME,...", O_CHECKS, WORKS,
     "what to hold each backend to against itself ('list checks'; default as of --fills)"},
    {"rounds", "N", O_ROUNDS, TIMES, "rounds, the unit of replication (default 5)"},
    {"samples", "N", O_SAMPLES, TIMES, "samples of a case in a round (default 3)"},
    {"min-time", "TIME", O_MIN_TIME, TIMES, "least time of a sample (default 5ms)"},
    {"cache", "hot|cold|both", O_CACHE, TIMES, "state of the caches (default both)"},
    {"resume", NULL, O_RESUME, TIMES, "continue a run that was cut off"},
    {"dry-run", NULL, O_DRY_RUN, WORKS, "print the cases that would run, and stop"},
    {"json", NULL, O_JSON, ALL, "what goes to stdout, as JSON"},
    {"junit", "FILE", O_JUNIT, VERIFY, "verdicts as JUnit XML"},
    {"strict", NULL, O_STRICT, WORKS | COMPARE,
     "a mistrusted result fails; an unclear comparison is inconclusive"},
    {"debug", NULL, O_DEBUG, VERIFY,
     "worker in the foreground, without watchdog; says what to attach gdb to"},
    {"shrink", NULL, O_SHRINK, VERIFY,
     "reduce what fails to the smallest case that still fails so"},
    {"reproducer", "FILE", O_REPRODUCER, VERIFY,
     "--shrink, and the first such case as a C program that needs only the plugin"},
    {"fuzz", "N", O_FUZZ, VERIFY,
     "N random cases over the whole language, drawn from --seed (default 1), with --shrink"},
    {"baseline", "FILE", O_ACCURACY, VERIFY,
     "verify: results.ndjson or folder of an earlier run; exit 3 where errors have grown since"},
    {"drift", "FACTOR", O_DRIFT, VERIFY,
     "with --baseline: what error over bound may grow by (default 2)"},
    {"margin", "PERCENT", O_MARGIN, COMPARE, "what still counts as equal (default 3)"},
    {"backends", "A,B", O_BACKENDS, COMPARE, "B against A, within one run"},
    {"baseline", "NAME", O_BASELINE, REPORT | RUN,
     "report, run: what speed-ups are over (default: the slowest exact backend)"},
    {"map", "A=B", O_MAP, COMPARE, "hold A of BASE or NEW against B of the other"},
    {"matrix", NULL, O_MATRIX, LIST, "backends: what each supports, asked of it over a grid"},
    {"help", NULL, O_HELP, ALL, "what the command takes"},
    {NULL, NULL, 0, 0, NULL},
};

bool attn_flag_belongs(const struct attn_flag *flag, const struct attn_verb *verb)
{
    return flag->verbs & 1u << (verb - attn_verbs);
}

double attn_duration_parse(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value >= 0) || isinf(value))
        return -1;
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"m", 60}, {"h", 3600}};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (!strcmp(end, units[u].unit))
            return value * units[u].seconds;
    return -1;
}

static bool integer(const char *text, long long least, long long most, long long *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return *text && !*end && errno == 0 && *value >= least && *value <= most;
}

static enum attn_exit bad_value(const struct attn_flag *flag, const char *text, const char *wanted,
                                char *why, size_t size)
{
    snprintf(why, size, "--%s: '%s' is not %s", flag->name, text, wanted);
    return ATTN_EXIT_USAGE;
}

static enum attn_exit take_count(const struct attn_flag *flag, const char *text, long long most,
                                 int *value, char *why, size_t size)
{
    long long n;
    if (!integer(text, 1, most, &n)) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "a number from 1 to %lld", most);
        return bad_value(flag, text, wanted, why, size);
    }
    *value = (int)n;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_time(const struct attn_flag *flag, const char *text, double *value,
                                char *why, size_t size)
{
    double seconds = attn_duration_parse(text);
    if (seconds < 0)
        return bad_value(flag, text, "a duration (10m, 90s, 250ms)", why, size);
    *value = seconds;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_size(const struct attn_flag *flag, const char *text, uint64_t *bytes,
                                char *why, size_t size)
{
    static const char units[] = "KMGT";
    char *end;
    const double number = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const double value = unit ? ldexp(number, 10 * (int)(unit - units + 1)) : number;
    /* Less than 64 MiB is not enough for a worker and the libraries that it loads. */
    if (end == text || (*end && !unit) || (unit && end[1]) || !(value >= 0x1p26 && value < 0x1p62))
        return bad_value(flag, text, "a size of at least 64M (512M, 8G)", why, size);
    *bytes = (uint64_t)value;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_list(const struct attn_flag *flag, const char *text, const char **list,
                                size_t *n, char *why, size_t size)
{
    if (*n == ATTN_ARGS_MAX) {
        snprintf(why, size, "--%s: given more than %d times", flag->name, ATTN_ARGS_MAX);
        return ATTN_EXIT_USAGE;
    }
    list[(*n)++] = text;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_shard(const struct attn_flag *flag, const char *text,
                                 struct attn_suite_wish *wish, char *why, size_t size)
{
    char first[16];
    const char *slash = strchr(text, '/');
    long long i = 0, n = 0;
    if (slash && (size_t)(slash - text) < sizeof first) {
        snprintf(first, sizeof first, "%.*s", (int)(slash - text), text);
        if (integer(slash + 1, 1, 1000000, &n) && integer(first, 1, n, &i)) {
            wish->shard = (int)i;
            wish->shards = (int)n;
            return ATTN_EXIT_OK;
        }
    }
    return bad_value(flag, text, "I/N with 1 <= I <= N", why, size);
}

static enum attn_exit take_pair(const struct attn_flag *flag, char *text, char separator,
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

static enum attn_exit take_cache(const struct attn_flag *flag, const char *text,
                                 struct attn_settings *s, char *why, size_t size)
{
    s->hot = !strcmp(text, "hot") || !strcmp(text, "both");
    s->cold = !strcmp(text, "cold") || !strcmp(text, "both");
    return s->hot || s->cold ? ATTN_EXIT_OK : bad_value(flag, text, "hot, cold or both", why, size);
}

/* A list of words to a set of bits: word n is bit n. `names` has room for two words more. */
static enum attn_exit take_set(const struct attn_flag *flag, const char *text, const char **names,
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
            snprintf(why, size, "--%s: there is no '%s'%s%s%s", flag->name, word,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
            return ATTN_EXIT_USAGE;
        }
        *set |= n == all ? ~0u : n == none ? 0u : 1u << n;
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return ATTN_EXIT_OK;
}

static enum attn_exit take_fills(const struct attn_flag *flag, const char *text, unsigned *fills,
                                 char *why, size_t size)
{
    const char *names[ATTN_FILL_COUNT + 2];
    for (enum attn_fill f = 0; f < ATTN_FILL_COUNT; f++)
        names[f] = attn_fill_name(f);
    return take_set(flag, text, names, ATTN_FILL_COUNT, fills, why, size);
}

static enum attn_exit take_checks(const struct attn_flag *flag, const char *text, unsigned *checks,
                                  char *why, size_t size)
{
    const char *names[ATTN_CHECK_CHOICES + 2];
    for (enum attn_check k = 0; k < ATTN_CHECK_CHOICES; k++)
        names[k] = attn_check_name(k);
    return take_set(flag, text, names, ATTN_CHECK_CHOICES, checks, why, size);
}

static enum attn_exit take_seed(const struct attn_flag *flag, const char *text,
                                struct attn_suite_wish *wish, char *why, size_t size)
{
    char *end;
    errno = 0;
    wish->seed = strtoull(text, &end, 10);
    wish->seed_given = true;
    if (!*text || *end || errno || *text == '-')
        return bad_value(flag, text, "a number from 0 to 2^64-1", why, size);
    return ATTN_EXIT_OK;
}

static enum attn_exit take_margin(const struct attn_flag *flag, const char *text, double *margin,
                                  char *why, size_t size)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || (*end && strcmp(end, "%") != 0) || !(percent >= 0 && percent < 100))
        return bad_value(flag, text, "a percentage from 0 to 100", why, size);
    *margin = percent / 100;
    return ATTN_EXIT_OK;
}

static enum attn_exit take_drift(const struct attn_flag *flag, const char *text, double *factor,
                                 char *why, size_t size)
{
    char *end;
    *factor = strtod(text, &end);
    if (end == text || *end || !(*factor >= 1 && *factor <= 1e6))
        return bad_value(flag, text, "a factor from 1 to 1e6", why, size);
    return ATTN_EXIT_OK;
}

enum attn_exit attn_flag_take(const struct attn_flag *flag, char *text, struct attn_command *c,
                              char *why, size_t size)
{
    struct attn_settings *s = &c->settings;
    switch (flag->id) {
    case O_BACKEND:
        return take_list(flag, text, c->backends, &c->n_backends, why, size);
    case O_PLUGIN:
        return take_list(flag, text, c->plugins, &c->n_plugins, why, size);
    case O_OUT:
        c->out = text;
        break;
    case O_JUNIT:
        c->junit = text;
        break;
    case O_FILTER:
        c->suite.filter = text;
        break;
    case O_SHARD:
        return take_shard(flag, text, &c->suite, why, size);
    case O_SEED:
        return take_seed(flag, text, &c->suite, why, size);
    case O_BUDGET:
        return take_time(flag, text, &s->budget_s, why, size);
    case O_TIMEOUT:
        return take_time(flag, text, &s->timeout_s, why, size);
    case O_MEMORY:
        return take_size(flag, text, &s->memory, why, size);
    case O_RUN_LIMIT:
        return take_time(flag, text, &s->run_limit_s, why, size);
    case O_FILLS:
        return take_fills(flag, text, &s->fills, why, size);
    case O_CHECKS:
        return take_checks(flag, text, &s->checks, why, size);
    case O_MIN_TIME:
        return take_time(flag, text, &s->min_time_s, why, size);
    case O_THREADS:
        return take_count(flag, text, 4096, &s->threads, why, size);
    case O_ROUNDS:
        return take_count(flag, text, 64, &s->rounds, why, size);
    case O_SAMPLES:
        return take_count(flag, text, ATTN_SAMPLES_MAX, &s->samples, why, size);
    case O_CACHE:
        return take_cache(flag, text, s, why, size);
    case O_MARGIN:
        return take_margin(flag, text, &c->compare.margin, why, size);
    case O_BACKENDS:
        return take_pair(flag, text, ',', c->compare.backends, why, size);
    case O_BASELINE:
        c->report.baseline = text;
        break;
    case O_MAP:
        if (c->compare.n_map == 16)
            return bad_value(flag, text, "one of at most 16", why, size);
        return take_pair(flag, text, '=', c->compare.map[c->compare.n_map++], why, size);
    case O_MATRIX:
        c->matrix = true;
        break;
    case O_RESUME:
        c->resume = true;
        break;
    case O_DRY_RUN:
        c->dry_run = true;
        break;
    case O_JSON:
        c->json = true;
        break;
    case O_STRICT:
        s->strict = true;
        c->compare.strict = 1;
        break;
    case O_DEBUG:
        s->debug = true;
        break;
    case O_REPRODUCER:
        s->reproducer = text;
        s->shrink = true;
        break;
    case O_SHRINK:
        s->shrink = true;
        break;
    case O_FUZZ:
        s->shrink = true;
        return take_count(flag, text, 100000, &c->suite.fuzz, why, size);
    case O_ACCURACY:
        c->baseline = text;
        break;
    case O_DRIFT:
        return take_drift(flag, text, &c->drift, why, size);
    default:
        c->help = true;
        break;
    }
    return ATTN_EXIT_OK;
}
