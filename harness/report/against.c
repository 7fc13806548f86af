/* SPDX-License-Identifier: Apache-2.0 */
/* against.c - against.html, written from the JSON of attn_compare. */
#include "report/against.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"
#include "report/writers.h"

/* The verdicts in the order of the page, each with the class that colours it. */
static const struct {
    const char *name, *class;
} verdicts[] = {{"broke", "fail"},   {"slower", "fail"}, {"unclear", "mistrusted"},
                {"faster", "pass"},  {"same", ""},       {"only base", "skip"},
                {"only new", "skip"}};
#define VERDICTS (sizeof verdicts / sizeof verdicts[0])

struct against {
    const struct attn_run_data *base, *next;
    const struct attn_compare_options *options;
    json_t *found;
    struct attn_plots plots;
};

static void put_run(FILE *out, const char *name, const struct attn_run_data *run)
{
    char machine[320], build[320], system[448];
    attn_machine_text(run->machine, machine, sizeof machine);
    attn_build_text(run->machine, build, sizeof build);
    fprintf(out, "<dt>%s</dt><dd>", name);
    attn_put_html(out, run->path);
    fputs(": ", out);
    attn_put_html(out, machine);
    fputs("; ", out);
    attn_put_html(out, build);
    attn_system_text(run->machine, system, sizeof system);
    fputs("; ", out);
    attn_put_html(out, system);
    fputs("</dd>\n", out);
}

/* Runs that were compared although a difference stands against it. */
static void put_warning(FILE *out, const struct against *a)
{
    const json_t *list = json_object_get(a->found, "differences");
    size_t i, stopping = 0;
    json_t *item;
    json_array_foreach(list, i, item) stopping += json_is_true(json_object_get(item, "stops"));
    if (stopping > 0)
        fprintf(out,
                "<p class=\"warning\"><b>Not comparable:</b> %zu difference%s between the runs, "
                "listed below, may change times%s.</p>\n",
                stopping, stopping == 1 ? "" : "s",
                a->options->cross ? "; they were compared nevertheless, by --cross" : "");
}

static void put_facts(FILE *out, const struct against *a)
{
    fputs("<h1>attnbench comparison</h1>\n", out);
    put_warning(out, a);
    fputs("<dl class=\"facts\">\n", out);
    put_run(out, "Base", a->base);
    put_run(out, "New", a->next);
    fputs("<dt>Ratios</dt><dd>time of new over time of base, by round medians", out);
    if (a->options->anchor) {
        fputs(", each relative to ", out);
        attn_put_html(out, a->options->anchor);
        fputs(" in the same round", out);
    } else {
        fputs("; the times are absolute: they hold for this machine in the state of both runs",
              out);
    }
    fprintf(out, "; above 1 is slower; margin %g %%</dd>\n</dl>\n", 100 * a->options->margin);
}

static void put_differences(FILE *out, const struct against *a)
{
    const json_t *list = json_object_get(a->found, "differences");
    size_t i;
    json_t *item;
    fputs("<h2>What differs between the runs</h2>\n", out);
    if (!json_array_size(list)) {
        fputs("<p>Nothing: processor, threads, build, protocol, versions and ceilings agree.</p>\n",
              out);
        return;
    }
    fputs("<div class=\"wide\"><table>\n<thead><tr><th>what</th><th>base</th><th>new</th>"
          "<th>comparable</th></tr></thead>\n<tbody>\n",
          out);
    json_array_foreach(list, i, item)
    {
        const bool stops = attn_field_true(item, "stops");
        fputs("<tr>", out);
        attn_html_put_cell(out, "", attn_field_text(item, "what"));
        attn_html_put_cell(out, "why", attn_field_text(item, "base"));
        attn_html_put_cell(out, "why", attn_field_text(item, "new"));
        attn_html_put_cell(out, stops ? "fail" : "pass", stops ? "no" : "yes: what was changed");
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_tiles(FILE *out, const struct against *a)
{
    char figure[ATTN_FIGURE_MAX];
    const double mean = attn_field_number(a->found, "geometric_mean");
    const json_t *counts = json_object_get(a->found, "counts");
    fputs("<h2>Verdicts</h2>\n<div class=\"tiles\">\n", out);
    for (size_t v = 0; v < VERDICTS; v++) {
        const double count = attn_field_number(counts, verdicts[v].name);
        if (count > 0)
            fprintf(out, "<div class=\"tile %s\"><b>%.0f</b>%s</div>\n", verdicts[v].class, count,
                    verdicts[v].name);
    }
    fputs("</div>\n", out);
    if (isfinite(mean))
        fprintf(out, "<p>Geometric mean of new over base: %s.</p>\n", attn_figure(mean, figure));
}

static bool is_of(const json_t *result, const char *backend, const char *next)
{
    return strcmp(attn_field_text(result, "backend"), backend) == 0 &&
           strcmp(attn_field_text(result, "new_backend"), next) == 0;
}

static void put_backend(FILE *out, const json_t *results, const char *backend, const char *next)
{
    size_t i, counts[VERDICTS] = {0}, rated = 0;
    double logs = 0;
    char figure[ATTN_FIGURE_MAX];
    json_t *result;
    json_array_foreach(results, i, result)
    {
        const double ratio = attn_field_number(result, "ratio");
        if (!is_of(result, backend, next))
            continue;
        for (size_t v = 0; v < VERDICTS; v++)
            counts[v] += strcmp(attn_field_text(result, "verdict"), verdicts[v].name) == 0;
        if (ratio > 0 && isfinite(ratio)) {
            logs += log(ratio);
            rated++;
        }
    }
    const double mean = rated ? exp(logs / (double)rated) : (double)NAN;
    fputs("<tr><td class=\"case\">", out);
    attn_put_html(out, backend);
    if (strcmp(backend, next) != 0) {
        fputs(" \xe2\x86\x92 ", out);
        attn_put_html(out, next);
    }
    fputs("</td>", out);
    attn_html_put_figure(out, "b", mean, attn_figure(mean, figure));
    for (size_t v = 0; v < VERDICTS; v++)
        fprintf(out, "<td class=\"%s\" data-v=\"%zu\">%zu</td>",
                counts[v] ? verdicts[v].class : "zero", counts[v], counts[v]);
    fputs("</tr>\n", out);
}

static void put_backends(FILE *out, const struct against *a)
{
    const json_t *results = json_object_get(a->found, "results");
    size_t i;
    json_t *result;
    fputs("<div class=\"wide\"><table class=\"grid\">\n<thead><tr><th>backend</th>"
          "<th class=\"b\">new/base, mean</th>",
          out);
    for (size_t v = 0; v < VERDICTS; v++)
        fprintf(out, "<th>%s</th>", verdicts[v].name);
    fputs("</tr></thead>\n<tbody>\n", out);
    json_array_foreach(results, i, result)
    {
        const char *backend = attn_field_text(result, "backend");
        const char *next = attn_field_text(result, "new_backend");
        size_t first = 0;
        while (!is_of(json_array_get(results, first), backend, next))
            first++;
        if (first == i)
            put_backend(out, results, backend, next);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_result(FILE *out, const json_t *result)
{
    const char *verdict = attn_field_text(result, "verdict"), *class = "";
    const double ratio = attn_field_number(result, "ratio"), hi = attn_field_number(result, "hi");
    const double times[] = {attn_field_number(result, "base_ns"),
                            attn_field_number(result, "new_ns")};
    const bool cold = strcmp(attn_field_text(result, "cache"), "cold") == 0;
    char figure[ATTN_FIGURE_MAX], ends[64] = "";
    for (size_t v = 0; v < VERDICTS; v++)
        class = strcmp(verdict, verdicts[v].name) == 0 ? verdicts[v].class : class;
    fputs("<tr><td class=\"case\">", out);
    attn_put_html(out, attn_field_text(result, "label"));
    fputs(cold ? " (cold)" : "", out);
    if (*attn_field_text(result, "reason")) {
        fputs("<small>", out);
        attn_put_html(out, attn_field_text(result, "reason"));
        fputs("</small>", out);
    }
    fputs("</td>", out);
    attn_html_put_cell(out, "b", attn_field_text(result, "new_backend"));
    attn_html_put_cell(out, class, verdict);
    if (isfinite(hi))
        snprintf(ends, sizeof ends, "%.3f\xe2\x80\x93%.3f", attn_field_number(result, "lo"), hi);
    snprintf(figure, sizeof figure, isfinite(ratio) ? "%.3f" : ATTN_DASH, ratio);
    attn_html_put_noted(out, "b", ratio, figure, ends);
    for (size_t t = 0; t < 2; t++)
        attn_html_put_figure(out, "", times[t], attn_figure_time(times[t], figure));
    fputs("</tr>\n", out);
}

static void put_results(FILE *out, const struct against *a)
{
    const json_t *results = json_object_get(a->found, "results");
    size_t i;
    json_t *result;
    fputs("<h2>Results</h2>\n<p class=\"soft\">Slower or faster: the whole 95 % interval of the "
          "ratio lies beyond the margin; same: within it; unclear: it crosses it. Results that one "
          "run alone has are counted above.</p>\n<div class=\"wide\"><table "
          "class=\"grid\">\n<thead><tr>"
          "<th>case</th>"
          "<th class=\"b\">backend</th><th>verdict</th><th class=\"b\">new/base</th><th>base</th>"
          "<th>new</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t v = 0; v < VERDICTS; v++) {
        const char *name = verdicts[v].name;
        const double count = attn_field_number(json_object_get(a->found, "counts"), name);
        if (!(count > 0) || strncmp(name, "only", strlen("only")) == 0)
            continue;
        fprintf(out,
                "<tr class=\"group\"><th class=\"group\" colspan=\"6\"><span>%s (%.0f)</span></th>"
                "</tr>\n",
                name, count);
        json_array_foreach(results, i, result)
        {
            if (strcmp(attn_field_text(result, "verdict"), name) == 0)
                put_result(out, result);
        }
    }
    fputs("</tbody></table></div>\n", out);
}

/* What stands between <main> and </main>. */
static int put_body(FILE *out, const struct against *a, const char *out_dir, const char *note,
                    char *why, size_t size)
{
    const char *reason = attn_field_text(a->found, "reason");
    put_facts(out, a);
    put_differences(out, a);
    if (*reason) {
        fputs("<h2>No verdicts</h2>\n<p>", out);
        attn_put_html(out, reason);
        fputs(".</p>\n", out);
        return 0;
    }
    put_tiles(out, a);
    put_backends(out, a);
    if (*note) {
        fputs("<p class=\"soft\">", out);
        attn_put_html(out, note);
        fputs("</p>\n", out);
    }
    fputs("<h2>Ratios</h2>\n", out);
    for (size_t p = 0; p < a->plots.count; p++)
        if (a->plots.items[p].drawn &&
            attn_html_put_picture(out, out_dir, &a->plots.items[p], why, size) != 0)
            return -1;
    put_results(out, a);
    return 0;
}

/* The template with another body: its style and its script serve both pages. */
static int write_page(const struct against *a, const struct attn_report_options *report,
                      const char *note, char *why, size_t size)
{
    char path[4352], *text = NULL;
    size_t length;
    snprintf(path, sizeof path, "%s/template.html", report->script_dir);
    char *page = attn_file_read(path, &length, why, size);
    char *body = page ? strstr(page, "<main>\n") : NULL,
         *end = body ? strstr(body, "</main>") : NULL;
    if (!page)
        return -1;
    FILE *out = end ? attn_text_open(&text, &length) : NULL;
    int status = -1;
    if (!end)
        snprintf(why, size, "%s: no <main> and </main>", path);
    else if (!out)
        snprintf(why, size, "no memory for the page of the comparison");
    if (out) {
        fwrite(page, 1, (size_t)(body - page) + strlen("<main>\n"), out);
        status = put_body(out, a, report->out_dir, note, why, size);
        fputs(end, out);
        if (fclose(out) != 0 && status == 0) {
            snprintf(why, size, "no memory for the page of the comparison");
            status = -1;
        }
        snprintf(path, sizeof path, "%s/against.html", report->out_dir);
        if (status == 0)
            status = attn_file_write(path, text, length, why, size);
    }
    free(text);
    free(page);
    return status;
}

/* What attn_compare says, as JSON; NULL with the reason. */
static json_t *compare(const struct against *a, enum attn_exit *code, char *why, size_t size)
{
    struct attn_compare_options options = *a->options;
    char *text = NULL;
    size_t length;
    json_t *found = NULL;
    FILE *out = attn_text_open(&text, &length);
    options.json = true;
    options.gate = false;
    int status = out ? attn_compare(a->base, a->next, &options, out, code, why, size) : -1;
    if (out && fclose(out) == 0 && status == 0)
        found = json_loads(text, 0, NULL);
    if (!found && (!out || status == 0))
        snprintf(why, size, "no memory for the comparison");
    free(text);
    return found;
}

static int draw(struct against *a, const struct attn_report_options *report, char *note,
                size_t note_size, char *why, size_t size)
{
    struct attn_view view;
    struct attn_plot plot = {0};
    if (attn_view_create(a->next->records, a->next->machine, &view, why, size) != 0)
        return -1;
    const struct attn_canvas canvas = {.view = &view,
                                       .machine = a->next->machine,
                                       .out_dir = report->out_dir,
                                       .why = why,
                                       .size = size};
    int status = attn_plots_begin(&canvas, &a->plots, note);
    if (status == 0)
        status = attn_plot_against(&canvas, a->found, &plot);
    if (status > 0)
        status = attn_plots_draw(&canvas, report->script_dir, &a->plots, &plot, "against.gp", note,
                                 note_size);
    attn_view_free(&view);
    return status;
}

int attn_against_write(const struct attn_run_data *base, const struct attn_run_data *next,
                       const struct attn_compare_options *options,
                       const struct attn_report_options *report, enum attn_exit *code, char *note,
                       size_t note_size, char *why, size_t size)
{
    struct against a = {.base = base, .next = next, .options = options};
    enum attn_exit verdict = ATTN_EXIT_OK;
    char reason[768] = "";
    int status = -1;
    note[0] = '\0';
    if (strlen(report->out_dir) > 4096 || strlen(report->script_dir) > 4096) {
        snprintf(why, size, "the path of the report is too long");
        return -1;
    }
    a.found = compare(&a, &verdict, why, size);
    if (a.found) {
        snprintf(reason, sizeof reason, "%s", attn_field_text(a.found, "reason"));
        status = *reason ? 0 : draw(&a, report, note, note_size, why, size);
    }
    if (status == 0)
        status = write_page(&a, report, note, why, size);
    json_decref(a.found);
    if (status != 0)
        return -1;
    const bool none = verdict == ATTN_EXIT_BASELINE || verdict == ATTN_EXIT_NOTHING;
    *code = none ? verdict : ATTN_EXIT_OK;
    snprintf(why, size, "%s", none ? reason : "");
    return 0;
}
