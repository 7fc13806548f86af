/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - what a run says, a line for each group of cases and for each question. */
#include "report/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "report/paired.h"
#include "report/summary.h"
#include "report/text.h"

/* Groups with a line of their own, failures and kinds of skip that are shown, backends that are
 * named one by one, and those of the last line of groups. */
enum { GROUPS = 5, FAILURES = 3, REASONS = 2, NAMES = 4, WINNERS = 3 };

/* What groups of cases have in their lines: one line in a terminal of 80 columns. */
static const char groups_head[] =
    "Fastest exact backend, and how many times as fast as the next (95 % interval):";
/* The width of a label about the whole run. */
enum { ABOUT_RUN = 10 };

/* A ratio that may be 1 is a tie as long as it is not wider than this either way. */
#define TIE_WIDEST 1.1

static struct attn_verdict_line *add(struct attn_verdict *verdict, const char *label)
{
    struct attn_verdict_line *line = &verdict->lines[verdict->n];
    verdict->n += verdict->n + 1 < ATTN_VERDICT_LINES;
    *line = (struct attn_verdict_line){.text = ""};
    snprintf(line->label, sizeof line->label, "%s", label);
    return line;
}

__attribute__((format(printf, 2, 3))) static void say(struct attn_verdict_line *line,
                                                      const char *format, ...)
{
    const size_t used = strlen(line->text);
    va_list list;
    va_start(list, format);
    vsnprintf(line->text + used, sizeof line->text - used, format, list);
    va_end(list);
}

/* What is said before item `at` of a list of n. */
static const char *between(size_t at, size_t n)
{
    return at == 0 ? "" : at + 1 == n ? " and " : ", ";
}

static void say_names(struct attn_verdict_line *line, const struct attn_view *view,
                      const struct attn_ranking *ranking, const struct attn_family *family)
{
    const size_t all = ranking->grid->n_columns;
    size_t n = 1, at = 0;
    for (size_t c = 0; c < all; c++)
        n += family->ties[c];
    const size_t named = n > NAMES ? NAMES - 1 : n;
    for (size_t c = 0; c < all; c++)
        if ((c == family->first || family->ties[c]) && at++ < named)
            say(line, "%s%s", between(at - 1, n), view->backends[ranking->grid->columns[c]].label);
    if (n > named)
        say(line, " and %zu more", n - named);
}

/* Who else is first, most often, unless it is the second that is named: ", ort in 1". */
static void say_other_winner(struct attn_verdict_line *line, const struct attn_view *view,
                             const struct attn_ranking *ranking, const struct attn_family *family)
{
    const size_t none = ranking->grid->n_columns;
    size_t other = none;
    for (size_t c = 0; c < none; c++)
        if (c != family->first && family->wins[c] > (other == none ? 0 : family->wins[other]))
            other = c;
    if (other != none && other != family->second)
        say(line, ", %s in %zu", view->backends[ranking->grid->columns[other]].label,
            family->wins[other]);
}

/* "avx512, 1.42 times avx2 (1.38 to 1.46), clear in 7 of 8" */
static void say_group(struct attn_verdict_line *line, const struct attn_view *view,
                      const struct attn_ranking *ranking, const struct attn_family *family)
{
    const size_t none = ranking->grid->n_columns, *columns = ranking->grid->columns;
    const char *first = view->backends[columns[family->first]].label;
    struct attn_ratio ratio = family->ratio;
    char figure[ATTN_FIGURE_MAX], lo[ATTN_FIGURE_MAX], hi[ATTN_FIGURE_MAX];
    if (family->second == none) {
        say(line, "%s", first);
        return;
    }
    const char *second = view->backends[columns[family->second]].label;
    const bool known = isfinite(ratio.hi);
    const bool may_be_one = known && family->ties[family->second];
    const bool fastest = !may_be_one && !attn_family_no_one(family, none);
    if (may_be_one) {
        const bool tie = ratio.hi <= TIE_WIDEST && ratio.lo >= 1 / TIE_WIDEST;
        say(line, tie ? "a tie of " : "not told apart: ");
        say_names(line, view, ranking, family);
        say(line, ": %s is ", first);
    } else if (!fastest) {
        /* First in most cases, and behind in the mean: that is not the fastest. */
        say(line, "no one: in the mean %s is ", second);
        ratio =
            (struct attn_ratio){.ratio = 1 / ratio.ratio, .lo = 1 / ratio.hi, .hi = 1 / ratio.lo};
        second = first;
    } else {
        say(line, "%s, ", first);
    }
    say(line, "%s times %s", attn_figure(ratio.ratio, figure), second);
    if (known)
        say(line, " (%s to %s)", attn_figure(ratio.lo, lo), attn_figure(ratio.hi, hi));
    else
        say(line, " (no interval)");
    if (known && family->shared < family->cases && family->shared != family->clear)
        say(line, ", from %zu of %zu", family->shared, family->cases);
    const bool all_first = family->wins[family->first] == family->cases;
    const bool some_clear =
        known && family->clear < family->cases && !(may_be_one && family->cases == 1);
    if (!all_first)
        say(line, "%s%s first in %zu", fastest ? "," : ", ", fastest ? "" : first,
            family->wins[family->first]);
    if (some_clear)
        say(line, "%s clear in %zu", all_first ? "," : " and", family->clear);
    if (!all_first || some_clear)
        say(line, " of %zu", family->cases);
    if (!all_first)
        say_other_winner(line, view, ranking, family);
}

static void add_groups(const struct attn_view *view, const struct attn_ranking *ranking,
                       struct attn_verdict *verdict)
{
    char label[112];
    const size_t n = ranking->n_families, shown = n > GROUPS ? GROUPS : n;
    size_t cases = 0, *wins = calloc(ranking->grid->n_columns + 1, sizeof *wins);
    for (size_t f = 0; f < shown; f++) {
        attn_family_label(&ranking->families[f], label, sizeof label);
        struct attn_verdict_line *line = add(verdict, label);
        line->of_group = true;
        say_group(line, view, ranking, &ranking->families[f]);
    }
    for (size_t f = shown; f < n && wins; f++) {
        cases += ranking->families[f].cases;
        for (size_t c = 0; c < ranking->grid->n_columns; c++)
            wins[c] += ranking->families[f].wins[c];
    }
    if (cases > 0) {
        snprintf(label, sizeof label, "%zu more, smaller", n - shown);
        struct attn_verdict_line *line = add(verdict, label);
        size_t named = 0, left = cases;
        line->of_group = true;
        for (size_t most = cases; most > 0 && named < WINNERS; most--)
            for (size_t c = 0; c < ranking->grid->n_columns && named < WINNERS; c++)
                if (wins[c] == most) {
                    say(line, "%s%s%s %zu", named > 0 ? ", " : "",
                        view->backends[ranking->grid->columns[c]].label,
                        named > 0 ? "" : " first in", most);
                    named++;
                    left -= most;
                }
        if (left > 0)
            say(line, ", others %zu", left);
        say(line, " of %zu", cases);
    }
    free(wins);
}

/* Ratios that are known worse than this in the median cannot settle what is worth knowing: the
 * margin of compare within one run. */
#define RATIOS_KNOWN 0.03
/* Of rounds in which half was disturbed nobody says that the machine was quiet. */
#define DISTURBED_MOST 0.5

static void add_noise(const struct attn_run_data *run, const struct attn_view *view,
                      const struct attn_ranking *ranking, struct attn_verdict *verdict)
{
    static const char *const names[] = {"quiet", "shared", "contended"};
    const struct attn_paired_widths widths = attn_paired_widths_of(ranking->grid);
    size_t counts[3] = {0}, all = 0, timed = 0, few = 0, middle = 0;
    double load = 0;
    for (size_t r = 0; r < view->n_rows; r++) {
        const char *noise = attn_field_text(view->rows[r].bench, "live.noise");
        if (attn_row_timed(&view->rows[r]) && view->backends[view->rows[r].backend].counted) {
            timed++;
            few += view->rows[r].rounds > 0 && view->rows[r].rounds < ATTN_INTERVAL_ROUNDS;
        }
        for (size_t k = 0; k < 3; k++)
            if (strcmp(noise, names[k]) == 0) {
                counts[k]++;
                all++;
                load = fmax(load, attn_field_number(view->rows[r].bench, "live.load"));
            }
    }
    if (timed == 0)
        return;
    struct attn_verdict_line *line = add(verdict, "Noise");
    if (all == 0) {
        load = attn_field_number(run->machine, "load");
        say(line, "not known: no backends took turns");
        if (isfinite(load))
            say(line, "; load at the end %.1f", load);
        line->warns = few > 0;
        if (line->warns)
            say(line,
                "; %zu of %zu timings have fewer than 4 rounds and no interval: --budget or "
                "--rounds makes more",
                few, timed);
        return;
    }
    /* That of the median timing. */
    for (size_t below = counts[0]; middle < 2 && 2 * below < all; below += counts[middle])
        middle++;
    if (middle == 0 && widths.ratios > 0 && widths.disturbed >= DISTURBED_MOST)
        middle = 1;
    say(line, "%s: of %zu timing%s in turns", names[middle], all, all == 1 ? "" : "s");
    const char *separator = "";
    for (size_t k = 0; k < 3; k++)
        if (counts[k] > 0) {
            say(line, "%s %zu %s", separator, counts[k], names[k]);
            separator = ",";
        }
    say(line, "; load up to %.1f", load);
    if (widths.ratios > 0)
        say(line, ", %.0f %% of rounds disturbed; ratios known to %.2g %% in the median",
            100 * widths.disturbed, 100 * widths.median);
    line->warns = widths.median > RATIOS_KNOWN;
    if (line->warns)
        say(line, " (to %.0f %% with more --budget or less noise)", 100 * RATIOS_KNOWN);
}

/* Cases whose fastest backend has had no turns, though they were wanted, and why. */
static void add_turnless(const struct attn_ranking *ranking, struct attn_verdict *verdict)
{
    const char *first = NULL;
    size_t timed = 0, n = 0, others = 0;
    for (size_t i = 0; i < ranking->grid->n_lines; i++) {
        const size_t fastest = ranking->lines[i].first;
        if (fastest == ranking->grid->n_columns)
            continue;
        timed++;
        const json_t *bench = ranking->grid->lines[i].cells[fastest]->bench;
        const char *reason = attn_field_text(bench, "live.reason");
        if (!*reason || attn_field_at(bench, "live.in_rounds"))
            continue;
        first = first ? first : reason;
        n++;
        others += strcmp(first, reason) != 0;
    }
    if (n == 0)
        return;
    struct attn_verdict_line *line = add(verdict, "No turns");
    say(line, "%zu of %zu timed cases: %s", n, timed, first);
    if (others > 0)
        say(line, "; %zu for other reasons, which results.ndjson has", others);
}

/* The first results that are mistrusted, or else wrong or cut short. Returns how many there are. */
static size_t add_troubles(const struct attn_view *view, bool mistrusted,
                           struct attn_verdict *verdict)
{
    size_t n = 0;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!row->first || !attn_row_is_trouble(row) ||
            (row->status == ATTN_MISTRUSTED) != mistrusted || ++n > FAILURES)
            continue;
        const char *status = attn_status_name(row->status);
        const bool said = mistrusted || row->status == ATTN_FAIL; /* by the label */
        say(add(verdict, n > 1        ? ""
                         : mistrusted ? "Mistrusted"
                                      : "Failed"),
            "%s%s%s on %s: %s", said ? "" : status, said ? "" : ": ",
            view->backends[row->backend].label, *row->name ? row->name : row->line, row->reason);
    }
    if (n > FAILURES)
        say(add(verdict, ""), "and %zu more", n - FAILURES);
    return n;
}

static void add_verdicts(const struct attn_view *view, struct attn_verdict *verdict)
{
    struct attn_verdict_line *line = add(verdict, "Verified");
    const char *separator = "";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++) {
        const size_t count = attn_verdict_count(view, (enum attn_status)s);
        if (count > 0) {
            say(line, "%s%zu %s", separator, count, attn_status_name((enum attn_status)s));
            separator = ", ";
        }
    }
    if (!*separator)
        say(line, "nothing");
    if (add_troubles(view, false, verdict) == 0)
        say(line, "%s", *separator ? "; nothing failed" : "");
    add_troubles(view, true, verdict); /* a pass that proves too little is no failure */
}

/* "mine 14, yours 12", "26 on 5 backends", or "6 on each of 5 backends" */
static void say_counts(struct attn_verdict_line *line, const struct attn_view *view,
                       const size_t *counts)
{
    const char *separator = "";
    size_t all = 0, backends = 0, most = 0;
    for (size_t b = 0; b < view->n_backends; b++) {
        all += counts[b];
        backends += counts[b] > 0;
        most = counts[b] > most ? counts[b] : most;
    }
    if (backends > NAMES) {
        const bool alike = all == most * backends;
        say(line, "%zu on %s%zu backends", alike ? most : all, alike ? "each of " : "", backends);
        return;
    }
    for (size_t b = 0; b < view->n_backends; b++)
        if (counts[b] > 0) {
            say(line, "%s%s %zu", separator, view->backends[b].label, counts[b]);
            separator = ", ";
        }
}

/* Verified results of a run with timings that have none, by reason, the most frequent first. */
static int add_untimed(const struct attn_view *view, struct attn_verdict *verdict)
{
    struct attn_skips skips;
    if (attn_untimed_create(view, &skips) != 0)
        return -1;
    size_t rest = 0;
    for (size_t i = 0; i < skips.count; i++) {
        if (i + 1 >= REASONS && skips.count > REASONS) {
            rest += skips.items[i].total;
            continue;
        }
        struct attn_verdict_line *line = add(verdict, i == 0 ? "Not timed" : "");
        say_counts(line, view, skips.items[i].counts);
        say(line, ": %s", skips.items[i].reason);
    }
    if (rest > 0)
        say(add(verdict, ""), "%zu more for %zu other reasons, which results.ndjson has", rest,
            skips.count - REASONS + 1);
    attn_skips_free(&skips);
    return 0;
}

/* Results whose peak memory is not known, and why the first is not. */
static void add_peakless(const struct attn_view *view, struct attn_verdict *verdict)
{
    size_t n = 0, timed = 0;
    const char *reason = "";
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!row->first || !attn_row_timed(row) || !view->backends[row->backend].counted)
            continue;
        const char *why = attn_field_text(row->bench, "peak_reason");
        timed++;
        if (*why && n++ == 0)
            reason = why;
    }
    if (n > 0)
        say(add(verdict, "No peaks"), "of memory, for %zu of %zu results: %s", n, timed, reason);
}

/* Timings that Ctrl-C cut off. */
static void add_cut(const struct attn_view *view, struct attn_verdict *verdict)
{
    size_t cut = 0;
    for (size_t r = 0; r < view->n_rows; r++)
        cut += attn_field_true(view->rows[r].bench, "cut");
    if (cut > 0)
        say(add(verdict, "Cut off"),
            "%zu timings have fewer rounds than asked for; --resume makes them", cut);
}

/* Backends that could not take part. */
static void add_absent(const struct attn_run_data *run, struct attn_verdict *verdict)
{
    size_t i, n = 0;
    json_t *backend;
    struct attn_verdict_line names = {.text = ""}, *line;
    json_array_foreach(attn_field_at(run->matrix, "backends"), i, backend)
    {
        if (json_is_false(json_object_get(backend, "available")) && n++ < NAMES)
            say(&names, "%s%s", n > 1 ? ", " : "", attn_field_text(backend, "name"));
    }
    if (n == 0)
        return;
    line = add(verdict, "Left out");
    if (n > NAMES)
        say(line, "%zu backends cannot run here", n);
    else
        say(line, "%s: cannot run here", names.text);
    say(line, "; 'attnbench doctor' says why");
}

int attn_verdict_make(const struct attn_run_data *run, const struct attn_view *view,
                      const struct attn_ranking *ranking, struct attn_verdict *verdict)
{
    *verdict = (struct attn_verdict){.n = 0};
    add_groups(view, ranking, verdict);
    add_noise(run, view, ranking, verdict);
    add_turnless(ranking, verdict);
    add_verdicts(view, verdict);
    if (add_untimed(view, verdict) != 0)
        return -1;
    add_peakless(view, verdict);
    add_cut(view, verdict);
    add_absent(run, verdict);
    return 0;
}

void attn_verdict_add(struct attn_verdict *verdict, const char *label, const char *text)
{
    say(add(verdict, label), "%s", text);
}

void attn_verdict_put_text(FILE *out, const struct attn_verdict *verdict, int columns)
{
    int width = 0;
    for (size_t i = 0; i < verdict->n; i++)
        if ((int)strlen(verdict->lines[i].label) > width && verdict->lines[i].of_group)
            width = (int)strlen(verdict->lines[i].label);
    if (verdict->n > 0 && verdict->lines[0].of_group)
        attn_put_wrapped(out, groups_head, 0, columns);
    for (size_t i = 0; i < verdict->n; i++) {
        const struct attn_verdict_line *line = &verdict->lines[i];
        const int room = line->of_group ? 2 + width : ABOUT_RUN;
        fprintf(out, "%s%-*s  ", line->of_group ? "  " : "", line->of_group ? width : room,
                line->label);
        attn_put_wrapped(out, line->text, room + 2, columns);
    }
}

void attn_verdict_put_html(FILE *out, const struct attn_verdict *verdict)
{
    fputs("<h2>Verdict</h2>\n", out);
    /* Above, so that nothing stands between the head of the groups and their lines. */
    for (size_t i = 0; i < verdict->n; i++)
        if (verdict->lines[i].warns) {
            fputs("<p class=\"warning\"><b>", out);
            attn_put_html(out, verdict->lines[i].label);
            fputs(":</b> ", out);
            attn_put_html(out, verdict->lines[i].text);
            fputs("</p>\n", out);
        }
    if (verdict->n > 0 && verdict->lines[0].of_group)
        fprintf(out, "<p>%s</p>\n", groups_head);
    fputs("<dl class=\"facts verdict\">\n", out);
    for (size_t i = 0; i < verdict->n; i++) {
        const struct attn_verdict_line *line = &verdict->lines[i];
        if (line->warns)
            continue;
        fprintf(out, "<dt%s>", line->of_group ? " class=\"group\"" : "");
        attn_put_html(out, line->label);
        fputs("</dt><dd>", out);
        attn_put_html(out, line->text);
        fputs("</dd>\n", out);
    }
    fputs("</dl>\n", out);
}

void attn_verdict_put_markdown(FILE *out, const struct attn_verdict *verdict)
{
    const bool groups = verdict->n > 0 && verdict->lines[0].of_group;
    fprintf(out, "\n## Verdict\n\n%s%s| | |\n|---|---|\n", groups ? groups_head : "",
            groups ? "\n\n" : "");
    for (size_t i = 0; i < verdict->n; i++) {
        fputs("| ", out);
        attn_put_markdown(out, verdict->lines[i].label);
        fputs(" | ", out);
        attn_put_markdown(out, verdict->lines[i].text);
        fputs(" |\n", out);
    }
}
