/* SPDX-License-Identifier: Apache-2.0 */
/* approximations_put.c - the section on approximations: a line a variant, a line a case. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/approximations.h"
#include "report/table.h"
#include "report/text.h"
#include "report/writers.h"

static const char title[] = "Approximations";
/* So many variants, those with the longest sequences, are open; more are folded, and left out on
 * paper. */
enum { UNFOLDED = 20 };
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

static struct attn_table_line family_line(const struct attn_approximation_family *f)
{
    const struct attn_approximation *last = &f->cases[f->count - 1];
    struct attn_table_line line = {0};
    char text[ATTN_TABLE_CELL];
    attn_table_add_text(&line, last->variant);
    attn_table_add_text(&line, last->input);
    attn_table_add_figure(&line, attn_field_number(last->error, "flops_ratio"));
    attn_table_add_figure(&line, attn_field_number(last->error, "bytes_ratio"));
    snprintf(text, sizeof text, isfinite(f->order) ? "S^%.1f" : ATTN_DASH, f->order);
    attn_table_add_number(&line, f->order, text);
    snprintf(text, sizeof text,
             isnan(f->crossover)   ? ATTN_DASH
             : isinf(f->crossover) ? "not up to %.0f"
                                   : "%.0f",
             isinf(f->crossover) ? last->s : f->crossover);
    attn_table_add_number(&line, f->crossover, text);
    return line;
}

static struct attn_table_line case_line(const struct attn_view *view,
                                        const struct attn_approximation *a)
{
    static const char *const errors[] = {"rel_fro", "max_row", "cosine_median", "tv_mean",
                                         "mass_kept"};
    struct attn_table_line line = {0};
    char text[ATTN_TABLE_CELL];
    attn_table_add_text(&line, a->variant);
    attn_table_add_text(&line, a->input);
    snprintf(text, sizeof text, "%.0f", a->s);
    attn_table_add_number(&line, a->s, text);
    attn_table_add_text(&line, a->row ? view->backends[a->row->backend].label : ATTN_DASH);
    attn_table_add_time(&line, a->row ? a->row->median : (double)NAN);
    attn_table_add_time(&line, a->exact ? a->exact->median : (double)NAN);
    attn_table_add_figure(&line, a->ratio);
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        attn_table_add_figure(&line, attn_field_number(a->error, errors[e]));
    return line;
}

int attn_markdown_put_approximations(FILE *out, const struct attn_view *view)
{
    struct attn_approximations all;
    if (attn_approximations_create(view, &all) != 0)
        return -1;
    if (all.n_cases) {
        fprintf(out, "\n## %s\n\n%s\n", title, explained);
        attn_markdown_put_heads(out, family_heads, 2);
    }
    for (size_t f = 0; f < all.n_families; f++) {
        const struct attn_table_line line = family_line(&all.families[f]);
        attn_markdown_put_line(out, &line);
    }
    if (all.n_cases)
        attn_markdown_put_heads(out, case_heads, 2);
    for (size_t i = 0; i < all.n_cases; i++) {
        const struct attn_table_line line = case_line(view, &all.cases[i]);
        attn_markdown_put_line(out, &line);
    }
    attn_approximations_free(&all);
    return 0;
}

int attn_html_put_approximations(FILE *out, const struct attn_view *view)
{
    struct attn_approximations all;
    if (attn_approximations_create(view, &all) != 0)
        return -1;
    if (all.n_cases)
        fprintf(out, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n", title, explained);
    for (size_t first = 0, end; first < all.n_families; first = end) {
        end = first == 0 && all.n_families > UNFOLDED ? UNFOLDED : all.n_families;
        fprintf(out, "<details%s><summary>By variant: %zu%s</summary>\n", first ? "" : " open",
                end - first, first ? " more, shorter" : "");
        attn_html_put_heads(out, family_heads, 2);
        for (size_t f = first; f < end; f++) {
            const struct attn_table_line line = family_line(&all.families[f]);
            attn_html_put_line(out, &line);
        }
        attn_html_end_table(out);
        fputs("</details>\n", out);
    }
    if (all.n_cases) {
        fprintf(out, "<details><summary>By case: %zu</summary>\n", all.n_cases);
        attn_html_put_heads(out, case_heads, 2);
    }
    for (size_t i = 0; i < all.n_cases; i++) {
        const struct attn_table_line line = case_line(view, &all.cases[i]);
        attn_html_put_line(out, &line);
    }
    if (all.n_cases) {
        attn_html_end_table(out);
        fputs("</details>\n", out);
    }
    attn_approximations_free(&all);
    return 0;
}
