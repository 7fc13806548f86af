/* SPDX-License-Identifier: Apache-2.0 */
/* power.c - the usual mistakes that verdicts would have refused, by operator and type. */
#include "report/power.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"

static size_t count_of(const json_t *record, const char *path)
{
    const double value = attn_field_number(record, path);
    return value >= 0 && value <= 1e6 ? (size_t)value : 0;
}

/* The line of an operator and type, added when new; NULL without memory. */
static struct attn_power_line *line_of(struct attn_power_table *table, const json_t *sizes)
{
    char op[sizeof table->lines->op], dtype[sizeof table->lines->dtype];
    snprintf(op, sizeof op, "%s", attn_field_text(sizes, "op"));
    snprintf(dtype, sizeof dtype, "%s", attn_field_text(sizes, "dtype"));
    for (size_t n = 0; n < table->count; n++)
        if (!strcmp(table->lines[n].op, op) && !strcmp(table->lines[n].dtype, dtype))
            return &table->lines[n];
    struct attn_power_line *more =
        reallocarray(table->lines, table->count + 1, sizeof *table->lines);
    if (!more)
        return NULL;
    table->lines = more;
    struct attn_power_line *line = &table->lines[table->count];
    *line = (struct attn_power_line){.least = NAN, .missed = json_object()};
    memcpy(line->op, op, sizeof op);
    memcpy(line->dtype, dtype, sizeof dtype);
    if (!line->missed)
        return NULL;
    table->count++;
    return line;
}

static void add(struct attn_power_line *line, const json_t *verify)
{
    size_t i;
    json_t *name;
    const size_t of = count_of(verify, "power.of"), refused = count_of(verify, "power.refused");
    line->verdicts++;
    line->checks_made += count_of(verify, "checks_made");
    line->checks_apply += count_of(verify, "checks_apply");
    if (of == 0 || refused > of)
        return;
    line->of += of;
    line->refused += refused;
    line->least = fmin(line->least, (double)refused / (double)of);
    json_array_foreach(attn_field_at(verify, "power.missed"), i, name)
    {
        const char *text = json_string_value(name);
        const json_t *had = text ? json_object_get(line->missed, text) : NULL;
        if (text)
            json_object_set_new(line->missed, text, json_integer(json_integer_value(had) + 1));
    }
}

/* "scale_1.02 (3), out_1.05 (1)": what was missed most often, up to five. */
static void name_missed(struct attn_power_line *line)
{
    size_t used = 0;
    for (int k = 0; k < 5; k++) {
        const char *name, *best = NULL;
        json_int_t most = 0;
        json_t *n;
        json_object_foreach(line->missed, name, n)
        {
            if (json_integer_value(n) > most) {
                most = json_integer_value(n);
                best = name;
            }
        }
        if (!best || used >= sizeof line->text)
            return;
        used += (size_t)snprintf(line->text + used, sizeof line->text - used, "%s%.48s (%lld)",
                                 k ? ", " : "", best, (long long)most);
        json_object_del(line->missed, best);
    }
}

int attn_power_table_create(const struct attn_view *view, struct attn_power_table *table)
{
    *table = (struct attn_power_table){0};
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!row->first || !row->verify || !view->backends[row->backend].counted ||
            count_of(row->verify, "checks_apply") == 0)
            continue;
        struct attn_power_line *line = line_of(table, attn_field_at(row->verify, "sizes"));
        if (!line) {
            attn_power_table_free(table);
            return -1;
        }
        add(line, row->verify);
    }
    for (size_t n = 0; n < table->count; n++)
        name_missed(&table->lines[n]);
    return 0;
}

void attn_power_table_free(struct attn_power_table *table)
{
    for (size_t n = 0; n < table->count; n++)
        json_decref(table->lines[n].missed);
    free(table->lines);
    *table = (struct attn_power_table){0};
}

static const char explained[] =
    "Checks made of those that apply, and usual mistakes that the verdicts would have refused of "
    "those that apply, all cases and backends together. Least: of one verdict.";

static void format(const struct attn_power_line *line, char checks[48], char power[64],
                   char least[16])
{
    snprintf(checks, 48, "%zu of %zu", line->checks_made, line->checks_apply);
    if (line->of)
        snprintf(power, 64, "%zu of %zu (%.1f %%)", line->refused, line->of,
                 100.0 * (double)line->refused / (double)line->of);
    else
        snprintf(power, 64, ATTN_DASH);
    if (isfinite(line->least))
        snprintf(least, 16, "%.0f %%", 100 * line->least);
    else
        snprintf(least, 16, ATTN_DASH);
}

int attn_markdown_put_power(FILE *out, const struct attn_view *view)
{
    struct attn_power_table table;
    char checks[48], power[64], least[16];
    if (attn_power_table_create(view, &table) != 0)
        return -1;
    if (table.count)
        fprintf(out,
                "\n## Power\n\n%s\n\n| op | type | verdicts | checks | refused | least | missed "
                "most |\n|---|---|---:|---:|---:|---:|---|\n",
                explained);
    for (size_t n = 0; n < table.count; n++) {
        const struct attn_power_line *line = &table.lines[n];
        format(line, checks, power, least);
        fputs("| ", out);
        attn_put_markdown(out, line->op);
        fputs(" | ", out);
        attn_put_markdown(out, line->dtype);
        fprintf(out, " | %zu | %s | %s | %s | ", line->verdicts, checks, power, least);
        attn_put_markdown(out, line->text);
        fputs(" |\n", out);
    }
    attn_power_table_free(&table);
    return 0;
}

int attn_html_put_power(FILE *out, const struct attn_view *view)
{
    struct attn_power_table table;
    char checks[48], power[64], least[16];
    if (attn_power_table_create(view, &table) != 0)
        return -1;
    if (table.count)
        fprintf(out,
                "<h2>Power</h2>\n<p class=\"soft\">%s</p>\n<div class=\"wide\"><table>\n<thead>"
                "<tr><th>op</th><th>type</th><th class=\"n\">verdicts</th><th class=\"n\">checks"
                "</th><th class=\"n\">refused</th><th class=\"n\">least</th><th>missed most</th>"
                "</tr></thead>\n<tbody>\n",
                explained);
    for (size_t n = 0; n < table.count; n++) {
        const struct attn_power_line *line = &table.lines[n];
        format(line, checks, power, least);
        fputs("<tr>", out);
        attn_html_put_cell(out, "case", line->op);
        attn_html_put_cell(out, "", line->dtype);
        fprintf(out, "<td class=\"n\" data-v=\"%zu\">%zu</td>", line->verdicts, line->verdicts);
        attn_html_put_figure(out, "n", (double)line->checks_made, checks);
        attn_html_put_figure(
            out, "n", line->of ? (double)line->refused / (double)line->of : (double)NAN, power);
        attn_html_put_figure(out, "n", line->least, least);
        attn_html_put_cell(out, "why", line->text);
        fputs("</tr>\n", out);
    }
    fputs(table.count ? "</tbody></table></div>\n" : "", out);
    attn_power_table_free(&table);
    return 0;
}
