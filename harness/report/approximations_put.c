/* SPDX-License-Identifier: Apache-2.0 */
/* approximations_put.c - the section on approximations: a line a variant, a line a case. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/approximations.h"
#include "report/text.h"
#include "report/writers.h"

enum { CELLS = 12, CELL = 160 };

/* A line of a table: texts, and the numbers that the page sorts by. */
struct line {
    size_t n;
    char text[CELLS][CELL];
    double value[CELLS]; /* NAN: a text */
};

static const char title[] = "Approximations";
static const char explained[] =
    "Verdicts hold each of these against its own formula. This table says how far that formula is "
    "from softmax attention of the same q, k, v, and when it is faster. Error: Frobenius norm of "
    "the difference over that of the exact rows. Variation: half the sum of absolute differences "
    "of a row's weights, mean. Kept: exact weight on keys that the formula sees, mean. Exact time: "
    "the fastest backend with the same sizes and type. Errors depend on the input; on random "
    "numbers (normal) every approximation is bad. Projections of linformer are drawn, not learned, "
    "unless a pack brings them.";

static const char *const family_heads[] = {
    "variant",       "input", "FLOPs over exact", "bytes over exact", "peak memory",
    "faster from S", NULL};
static const char *const case_heads[] = {"variant",    "input",    "S",     "backend",   "time",
                                         "exact time", "speed-up", "error", "worst row", "cosine",
                                         "variation",  "kept",     NULL};

static void add_text(struct line *line, const char *text)
{
    snprintf(line->text[line->n], CELL, "%s", text);
    line->value[line->n++] = NAN;
}

static void add_number(struct line *line, double value, const char *text)
{
    snprintf(line->text[line->n], CELL, "%s", text);
    line->value[line->n++] = value;
}

static void add_figure(struct line *line, double value)
{
    char text[ATTN_FIGURE_MAX];
    snprintf(text, sizeof text, isfinite(value) ? "%.3g" : ATTN_DASH, value);
    add_number(line, value, text);
}

static struct line family_line(const struct attn_approximation_family *f)
{
    const struct attn_approximation *last = &f->cases[f->count - 1];
    struct line line = {0};
    char text[CELL];
    add_text(&line, last->variant);
    add_text(&line, last->input);
    add_figure(&line, attn_field_number(last->error, "flops_ratio"));
    add_figure(&line, attn_field_number(last->error, "bytes_ratio"));
    snprintf(text, sizeof text, isfinite(f->order) ? "S^%.1f" : ATTN_DASH, f->order);
    add_number(&line, f->order, text);
    snprintf(text, sizeof text,
             isnan(f->crossover)   ? ATTN_DASH
             : isinf(f->crossover) ? "not up to %.0f"
                                   : "%.0f",
             isinf(f->crossover) ? last->s : f->crossover);
    add_number(&line, f->crossover, text);
    return line;
}

static void add_time(struct line *line, const struct attn_view_row *row)
{
    char text[ATTN_FIGURE_MAX];
    const double ns = row ? row->median : (double)NAN;
    add_number(line, ns, attn_figure_time(ns, text));
}

static struct line case_line(const struct attn_view *view, const struct attn_approximation *a)
{
    static const char *const errors[] = {"rel_fro", "max_row", "cosine_median", "tv_mean",
                                         "mass_kept"};
    struct line line = {0};
    char text[CELL];
    add_text(&line, a->variant);
    add_text(&line, a->input);
    snprintf(text, sizeof text, "%.0f", a->s);
    add_number(&line, a->s, text);
    add_text(&line, a->row ? view->backends[a->row->backend].label : ATTN_DASH);
    add_time(&line, a->row);
    add_time(&line, a->exact);
    add_figure(&line, a->ratio);
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        add_figure(&line, attn_field_number(a->error, errors[e]));
    return line;
}

static void put_markdown_line(FILE *out, const struct line *line)
{
    for (size_t c = 0; c < line->n; c++) {
        fputs("| ", out);
        attn_put_markdown(out, line->text[c]);
        fputc(' ', out);
    }
    fputs("|\n", out);
}

static void put_markdown_heads(FILE *out, const char *const *heads, size_t words)
{
    fputc('\n', out);
    for (const char *const *h = heads; *h; h++)
        fprintf(out, "| %s ", *h);
    fputs("|\n", out);
    for (size_t c = 0; heads[c]; c++)
        fputs(c < words ? "|---" : "|---:", out);
    fputs("|\n", out);
}

int attn_markdown_put_approximations(FILE *out, const struct attn_view *view)
{
    struct attn_approximations all;
    if (attn_approximations_create(view, &all) != 0)
        return -1;
    if (all.n_cases) {
        fprintf(out, "\n## %s\n\n%s\n", title, explained);
        put_markdown_heads(out, family_heads, 2);
    }
    for (size_t f = 0; f < all.n_families; f++) {
        const struct line line = family_line(&all.families[f]);
        put_markdown_line(out, &line);
    }
    if (all.n_cases)
        put_markdown_heads(out, case_heads, 2);
    for (size_t i = 0; i < all.n_cases; i++) {
        const struct line line = case_line(view, &all.cases[i]);
        put_markdown_line(out, &line);
    }
    attn_approximations_free(&all);
    return 0;
}

static void put_html_heads(FILE *out, const char *const *heads, size_t words)
{
    fputs("<div class=\"wide\"><table>\n<thead><tr>", out);
    for (size_t c = 0; heads[c]; c++)
        fprintf(out, "<th%s>%s</th>", c < words ? "" : " class=\"n\"", heads[c]);
    fputs("</tr></thead>\n<tbody>\n", out);
}

static void put_html_line(FILE *out, const struct line *line)
{
    fputs("<tr>", out);
    for (size_t c = 0; c < line->n; c++)
        if (isnan(line->value[c]))
            attn_html_put_cell(out, c == 0 ? "case" : c == 1 ? "" : "n", line->text[c]);
        else
            attn_html_put_figure(out, "n", line->value[c], line->text[c]);
    fputs("</tr>\n", out);
}

int attn_html_put_approximations(FILE *out, const struct attn_view *view)
{
    struct attn_approximations all;
    if (attn_approximations_create(view, &all) != 0)
        return -1;
    if (all.n_cases) {
        fprintf(out, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", title, explained);
        put_html_heads(out, family_heads, 2);
    }
    for (size_t f = 0; f < all.n_families; f++) {
        const struct line line = family_line(&all.families[f]);
        put_html_line(out, &line);
    }
    if (all.n_cases) {
        fputs("</tbody></table></div>\n", out);
        put_html_heads(out, case_heads, 2);
    }
    for (size_t i = 0; i < all.n_cases; i++) {
        const struct line line = case_line(view, &all.cases[i]);
        put_html_line(out, &line);
    }
    fputs(all.n_cases ? "</tbody></table></div>\n" : "", out);
    attn_approximations_free(&all);
    return 0;
}
