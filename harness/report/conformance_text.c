/* SPDX-License-Identifier: Apache-2.0 */
/* conformance_text.c - a statement as Markdown and as a badge, from its object alone. */
#include "report/conformance_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "results/status.h"

static json_int_t count_of(const json_t *object, const char *path)
{
    return json_integer_value(attn_field_at(object, path));
}

/* "25 pass, 5 skip" */
static void put_counts(FILE *out, const json_t *counts)
{
    const char *between = "";
    for (int s = 0; s < ATTN_STATUS_COUNT; s++) {
        const char *name = attn_status_name((enum attn_status)s);
        if (count_of(counts, name) == 0)
            continue;
        fprintf(out, "%s%" JSON_INTEGER_FORMAT " %s", between, count_of(counts, name), name);
        between = ", ";
    }
}

static void put_operators(FILE *out, const json_t *list)
{
    size_t i;
    json_t *line;
    json_array_foreach(list, i, line)
    {
        fprintf(out, i ? "; " : "");
        attn_put_markdown(out, attn_field_text(line, "op"));
        fprintf(out, " %s (", attn_field_text(line, "dtype"));
        put_counts(out, json_object_get(line, "counts"));
        fputc(')', out);
    }
}

static json_int_t sum_of(const json_t *list, const char *field)
{
    json_int_t sum = 0;
    size_t i;
    json_t *line;
    json_array_foreach(list, i, line) sum += count_of(line, field);
    return sum;
}

static void put_share(FILE *out, const char *head, const json_t *list, const char *part,
                      const char *whole, const char *tail)
{
    fprintf(out, "| %s | %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT "%s |\n", head,
            sum_of(list, part), sum_of(list, whole), tail);
}

static void put_features(FILE *out, const json_t *list)
{
    size_t i;
    json_t *name;
    fputs("| features in passed cases | ", out);
    json_array_foreach(list, i, name)
    {
        fputs(i ? ", " : "", out);
        attn_put_markdown(out, json_string_value(name) ? json_string_value(name) : "");
    }
    fputs(json_array_size(list) ? " |\n" : "none |\n", out);
}

/* The suite in words: "the standard suite", "3 cases that its author chose". */
static const char *suite_words(const json_t *statement)
{
    const char *name = attn_field_text(statement, "suite.name");
    return strcmp(name, "standard") == 0 ? "the standard suite"
           : strcmp(name, "full") == 0   ? "the full suite"
                                         : "cases that its author chose, no suite";
}

static void put_backend(FILE *out, const json_t *s, const json_t *b)
{
    const json_t *operators = json_object_get(b, "operators");
    char figure[2][ATTN_FIGURE_MAX];
    fputs("**", out);
    attn_put_markdown(out, attn_field_text(b, "name"));
    if (*attn_field_text(b, "options")) {
        fputs(" with ", out);
        attn_put_markdown(out, attn_field_text(b, "options"));
    }
    fprintf(out, " %s**: ", attn_field_true(b, "conforms") ? "conforms" : "does not conform");
    put_counts(out, json_object_get(b, "counts"));
    fprintf(out, " of %" JSON_INTEGER_FORMAT " cases (%s)", count_of(s, "suite.cases"),
            suite_words(s));
    if (count_of(b, "unexpected_skips"))
        fprintf(out, "; %" JSON_INTEGER_FORMAT " skips are on no list",
                count_of(b, "unexpected_skips"));
    fputs(".\n\n| | |\n|---|---|\n| operators and types | ", out);
    put_operators(out, operators);
    fputs(" |\n", out);
    put_features(out, json_object_get(b, "features"));
    put_share(out, "checks made", operators, "checks_made", "checks_apply", " that apply");
    put_share(out, "power", operators, "power_refused", "power_of",
              " usual mistakes would have been refused");
    fprintf(out, "| largest error over its bound; grade | %s; %s |\n",
            attn_figure(attn_field_number(b, "max_ratio"), figure[0]),
            attn_figure(attn_field_number(b, "grade"), figure[1]));
    fputs("| plugin | ", out);
    attn_put_markdown(out, attn_field_text(b, "plugin"));
    if (*attn_field_text(b, "version")) {
        fputs(", ", out);
        attn_put_markdown(out, attn_field_text(b, "version"));
    }
    fputs(", sha256 ", out);
    attn_put_markdown(out, attn_field_text(b, "plugin_sha256"));
    fputs(" |\n", out);
    if (*attn_field_text(b, "source_sha256")) {
        fputs("| file in Python | sha256 ", out);
        attn_put_markdown(out, attn_field_text(b, "source_sha256"));
        fputs(" |\n", out);
    }
}

/* A '>' would end the comment. In JSON it stands in strings only. */
static int put_object(FILE *out, const json_t *statement)
{
    char *text = json_dumps(statement, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    if (!text)
        return -1;
    fputs(ATTN_STATEMENT_OBJECT, out);
    for (const char *c = text; *c; c++) {
        if (*c == '>')
            fputs("\\u003e", out);
        else
            fputc(*c, out);
    }
    fputs(" -->\n", out);
    free(text);
    return 0;
}

int attn_conformance_put_markdown(FILE *out, const json_t *s)
{
    size_t i;
    json_t *b;
    fputs(ATTN_STATEMENT_BEGIN, out);
    json_array_foreach(json_object_get(s, "backends"), i, b)
    {
        put_backend(out, s, b);
        fputc('\n', out);
    }
    fputs("attnbench ", out);
    attn_put_markdown(out, attn_field_text(s, "attnbench.version"));
    fputs(", commit ", out);
    attn_put_markdown(out, attn_field_text(s, "attnbench.commit"));
    fprintf(out,
            ", which refuses %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " planted bugs; ",
            count_of(s, "mutation_score.refused"), count_of(s, "mutation_score.planted"));
    attn_put_markdown(out, attn_field_text(s, "machine.cpu"));
    fprintf(out, ", %" JSON_INTEGER_FORMAT " thread(s); ", count_of(s, "machine.threads"));
    attn_put_markdown(out, attn_field_text(s, "date"));
    fprintf(out, "; cases sha256 %.12s. `attnbench statement check` with this file repeats it.\n\n",
            attn_field_text(s, "suite.sha256"));
    const int status = put_object(out, s);
    fputs(ATTN_STATEMENT_END, out);
    return status;
}

/* ---- the badge ---- */

/* Of a character in DejaVu Sans or Verdana of 11 pixels, about. */
#define CHARACTER_WIDTH 6.6

static void put_half(FILE *out, double x, double width, const char *colour, const char *text)
{
    fprintf(out,
            "<rect x=\"%.1f\" width=\"%.1f\" height=\"20\" fill=\"%s\"/>"
            "<text x=\"%.1f\" y=\"14\" fill=\"#fff\" text-anchor=\"middle\">",
            x, width, colour, x + width / 2);
    attn_put_html(out, text);
    fputs("</text>\n", out);
}

int attn_conformance_put_badge(FILE *out, const json_t *s)
{
    bool conforms = json_array_size(json_object_get(s, "backends")) > 0;
    const bool suite = strcmp(attn_field_text(s, "suite.name"), "cases") != 0;
    json_int_t passed = 0;
    size_t i;
    json_t *b;
    char text[128];
    json_array_foreach(json_object_get(s, "backends"), i, b)
    {
        conforms = conforms && attn_field_true(b, "conforms");
        passed += count_of(b, "counts.pass");
    }
    /* Chosen cases are no suite: the badge says so, and is grey. */
    snprintf(text, sizeof text, "%s: %" JSON_INTEGER_FORMAT " pass%s",
             conforms ? "conforms" : "does not conform", passed, suite ? "" : ", chosen cases");
    const double left = CHARACTER_WIDTH * (double)strlen("attnbench") + 12;
    const double right = CHARACTER_WIDTH * (double)strlen(text) + 12;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.1f\" height=\"20\" role=\"img\" "
            "aria-label=\"attnbench: %s\">\n<title>attnbench: %s; statement %.12s</title>\n"
            "<g font-family=\"DejaVu Sans,Verdana,sans-serif\" font-size=\"11\">\n",
            left + right, text, text, attn_field_text(s, "sha256"));
    put_half(out, 0, left, "#3b3b3b", "attnbench");
    put_half(out, left, right, !conforms ? "#b3261e" : suite ? "#1b6e3c" : "#5f6368", text);
    fputs("</g>\n</svg>\n", out);
    return ferror(out) ? -1 : 0;
}
