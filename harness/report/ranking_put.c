/* SPDX-License-Identifier: Apache-2.0 */
/* ranking_put.c - who is fastest where, by how much, how sure: as HTML and Markdown. */
#include <math.h>
#include <string.h>

#include "report/ranking.h"
#include "report/text.h"
#include "report/writers.h"

/* Families beyond these have less work than all of them, and are folded away. */
#define FAMILIES_OPEN 12

static const char explained[] =
    "Hot cache, exact backends that were timed and not wrong. First: the fastest of a case, by "
    "timings in turns where there are some. Clear: the 95 % interval of every other backend's time "
    "over the first's lies above 1. Fastest: first "
    "in most cases of a family; no one, if that one is behind the next in the mean. Times as fast: "
    "time of the next over its time, geometric mean over the cases in which both were timed, with "
    "its 95 % interval. Families with "
    "most work come first; small cases show the cost of a call more than speed.";

static const char *label_of(const struct attn_report_parts *parts, size_t column)
{
    return parts->view->backends[parts->ranking->grid->columns[column]].label;
}

/* "1.12-1.30", or "". */
static const char *ends_of(const struct attn_ratio *ratio, char *ends, size_t size)
{
    char lo[ATTN_FIGURE_MAX], hi[ATTN_FIGURE_MAX];
    ends[0] = '\0';
    if (isfinite(ratio->hi) && ratio->hi > 0)
        snprintf(ends, size, "%s\xe2\x80\x93%s", attn_figure(ratio->lo, lo),
                 attn_figure(ratio->hi, hi));
    return ends;
}

/* " avx2 5, blas 1": wins by backend, most first, but those of `except`. */
static void put_wins(FILE *out, const struct attn_report_parts *parts, const size_t *wins,
                     size_t except, void (*put)(FILE *out, const char *text))
{
    const size_t n = parts->ranking->grid->n_columns;
    const char *between = "";
    size_t most = 0;
    for (size_t c = 0; c < n; c++)
        most = wins[c] > most ? wins[c] : most;
    for (; most > 0; most--)
        for (size_t c = 0; c < n; c++) {
            if (wins[c] != most || c == except)
                continue;
            fputs(between, out);
            put(out, label_of(parts, c));
            fprintf(out, " %zu", wins[c]);
            between = ", ";
        }
    fputs(*between ? "" : ATTN_DASH, out);
}

static void put_sentence(FILE *out, const struct attn_report_parts *parts,
                         void (*put)(FILE *out, const char *text))
{
    const struct attn_ranking *ranking = parts->ranking;
    fprintf(out,
            "Of %zu case%s timed on two or more backends, the fastest is clear in %zu and unclear "
            "in %zu. Cases in which each is first: ",
            ranking->cases, ranking->cases == 1 ? "" : "s", ranking->clear,
            ranking->cases - ranking->clear);
    put_wins(out, parts, ranking->wins, ranking->grid->n_columns, put);
    fputc('.', out);
}

/* The fastest of a family, as far as there is one. */
static const char *fastest_of(const struct attn_report_parts *parts,
                              const struct attn_family *family, char *text, size_t size)
{
    const char *first = label_of(parts, family->first);
    if (!attn_family_no_one(family, parts->ranking->grid->n_columns))
        return first;
    snprintf(text, size, "no one; %s in most", first);
    return text;
}

static void put_html_family(FILE *out, const struct attn_report_parts *parts,
                            const struct attn_family *family)
{
    char name[112], text[128], figure[ATTN_FIGURE_MAX], ends[2 * ATTN_FIGURE_MAX + 4];
    attn_family_label(family, name, sizeof name);
    fputs("<tr>", out);
    attn_html_put_cell(out, "case", name);
    const char *fastest = fastest_of(parts, family, text, sizeof text);
    attn_html_put_cell(out, fastest == text ? "b unsure" : "b win", fastest);
    snprintf(text, sizeof text, "%zu of %zu", family->wins[family->first], family->cases);
    attn_html_put_figure(out, "", (double)family->wins[family->first] / (double)family->cases,
                         text);
    attn_html_put_cell(out, "b", label_of(parts, family->second));
    ends_of(&family->ratio, ends, sizeof ends);
    attn_html_put_noted(out, "", family->ratio.ratio, attn_figure(family->ratio.ratio, figure),
                        ends);
    fprintf(out, "<td class=\"b\" data-v=\"%zu\">%zu</td><td data-v=\"%zu\">%zu</td>",
            family->clear, family->clear, family->cases - family->clear,
            family->cases - family->clear);
    fputs("<td class=\"b\">", out);
    put_wins(out, parts, family->wins, family->first, attn_put_html);
    fputs("</td></tr>\n", out);
}

static void put_html_families(FILE *out, const struct attn_report_parts *parts, size_t from,
                              size_t end)
{
    fputs("<div class=\"wide\"><table class=\"grid ranking\">\n<thead><tr><th>cases</th>"
          "<th class=\"b\">fastest</th><th>first in</th><th class=\"b\">next</th>"
          "<th>times as fast</th><th class=\"b\">clear</th><th>unclear</th>"
          "<th class=\"b\">others first in</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t f = from; f < end; f++)
        put_html_family(out, parts, &parts->ranking->families[f]);
    fputs("</tbody></table></div>\n", out);
}

static void put_html_cases(FILE *out, const struct attn_report_parts *parts)
{
    const struct attn_ranking *ranking = parts->ranking;
    char figure[ATTN_FIGURE_MAX], ends[2 * ATTN_FIGURE_MAX + 4];
    fputs("<details><summary>Fastest by case</summary>\n<div class=\"wide\">"
          "<table class=\"grid ranking\">\n<thead><tr><th>case</th><th class=\"b\">fastest</th>"
          "<th class=\"b\">next</th><th>times as fast</th><th class=\"b\">order</th></tr></thead>\n"
          "<tbody>\n",
          out);
    for (size_t i = 0; i < ranking->grid->n_lines; i++) {
        const struct attn_rank *rank = &ranking->lines[i];
        if (rank->ranked < 2)
            continue;
        fputs("<tr>", out);
        attn_html_put_case(out, ranking->grid->lines[i].row);
        attn_html_put_cell(out, "b win", label_of(parts, rank->first));
        attn_html_put_cell(out, "b", label_of(parts, rank->second));
        attn_html_put_noted(out, "", rank->ratio.ratio, attn_figure(rank->ratio.ratio, figure),
                            ends_of(&rank->ratio, ends, sizeof ends));
        attn_html_put_cell(out, rank->clear ? "b" : "b unsure", rank->clear ? "clear" : "unclear");
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n</details>\n", out);
}

void attn_html_put_ranking(FILE *out, const struct attn_report_parts *parts)
{
    const struct attn_ranking *ranking = parts->ranking;
    const size_t n = ranking->n_families, open = n < FAMILIES_OPEN ? n : FAMILIES_OPEN;
    if (!n)
        return;
    fputs("<h2>Fastest</h2>\n<p>", out);
    put_sentence(out, parts, attn_put_html);
    fputs("</p>\n", out);
    put_html_families(out, parts, 0, open);
    fprintf(out, "<p class=\"soft\">%s</p>\n", explained);
    if (open < n) {
        fprintf(out, "<details><summary>%zu more, with less work</summary>\n", n - open);
        put_html_families(out, parts, open, n);
        fputs("</details>\n", out);
    }
    put_html_cases(out, parts);
}

static void put_cell(FILE *out, const char *text)
{
    fputs(" | ", out);
    attn_put_markdown(out, *text ? text : ATTN_DASH);
}

void attn_markdown_put_ranking(FILE *out, const struct attn_report_parts *parts)
{
    const struct attn_ranking *ranking = parts->ranking;
    char name[112], text[128], figure[ATTN_FIGURE_MAX], ends[2 * ATTN_FIGURE_MAX + 4];
    if (!ranking->n_families)
        return;
    fputs("\n## Fastest\n\n", out);
    put_sentence(out, parts, attn_put_markdown);
    fprintf(out,
            "\n\n%s\n\n| cases | fastest | first in | next | times as fast | clear | unclear | "
            "others first in |\n|---|---|---:|---|---:|---:|---:|---|\n",
            explained);
    for (size_t f = 0; f < ranking->n_families; f++) {
        const struct attn_family *family = &ranking->families[f];
        attn_family_label(family, name, sizeof name);
        fputs("| ", out);
        attn_put_markdown(out, name);
        put_cell(out, fastest_of(parts, family, text, sizeof text));
        fprintf(out, " | %zu of %zu", family->wins[family->first], family->cases);
        put_cell(out, label_of(parts, family->second));
        fprintf(out, " | %s", attn_figure(family->ratio.ratio, figure));
        if (*ends_of(&family->ratio, ends, sizeof ends))
            fprintf(out, " (%s)", ends);
        fprintf(out, " | %zu | %zu | ", family->clear, family->cases - family->clear);
        put_wins(out, parts, family->wins, family->first, attn_put_markdown);
        fputs(" |\n", out);
    }
}
