/* SPDX-License-Identifier: Apache-2.0 */
/* html.c - index.html: the template with its placeholders filled, in one file without outside
 * references. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/limit.h"
#include "report/matrix.h"
#include "report/summary.h"
#include "report/text.h"
#include "report/writers.h"

/* What a placeholder's writer gets. */
struct page {
    const struct attn_report_parts *parts;
    const char *out_dir;
    char *why;
    size_t size;
};

static void put_fact(FILE *out, const char *name, const char *text)
{
    fprintf(out, "<dt>%s</dt><dd>", name);
    attn_put_html(out, text);
    fputs("</dd>\n", out);
}

/* How times, rates and shares were found. */
static void put_timing_facts(FILE *out, const struct page *page)
{
    const json_t *machine = page->parts->run->machine;
    char line[320], ceilings[640];
    attn_ceilings_text(machine, ceilings, sizeof ceilings);
    put_fact(out, "Ceilings, measured in this run", ceilings);
    attn_protocol_text(page->parts->view, machine, line, sizeof line);
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, "; times are medians of one run; %s",
             attn_interval_text(page->parts->view));
    put_fact(out, "Protocol", line);
    put_fact(out, "Rates",
             "GFLOP/s from the median; " ATTN_FLOP_CONVENTION ". GB/s: each operand once");
    put_fact(out, "Shares", ATTN_SHARE_CONVENTION);
}

static int put_facts(FILE *out, const struct page *page)
{
    const json_t *machine = page->parts->run->machine;
    char line[320];
    fputs("<dl class=\"facts\">\n", out);
    attn_machine_text(machine, line, sizeof line);
    put_fact(out, "Machine", line);
    if (attn_view_timed(page->parts->view))
        put_timing_facts(out, page);
    attn_build_text(machine, line, sizeof line);
    put_fact(out, "Build and run", line);
    attn_system_text(machine, line, sizeof line);
    put_fact(out, "System", line);
    if (*page->parts->run->lacking)
        put_fact(out, "Not whole", page->parts->run->lacking);
    attn_html_put_files(out, page->out_dir, page->parts->run->path);
    fputs("</dl>\n", out);
    return 0;
}

static int put_tiles(FILE *out, const struct page *page)
{
    const struct attn_view *view = page->parts->view;
    fputs("<div class=\"tiles\">\n", out);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++) {
        size_t count = attn_verdict_count(view, (enum attn_status)s);
        const char *name = attn_status_name((enum attn_status)s);
        if (count > 0)
            fprintf(out, "<div class=\"tile %s\"><b>%zu</b>%s</div>\n", name, count, name);
    }
    fputs("</div>\n", out);
    return 0;
}

static int put_troubles(FILE *out, const struct page *page)
{
    const struct attn_view *view = page->parts->view;
    size_t found = 0;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!row->first || !attn_row_is_trouble(row))
            continue;
        if (!found++)
            fputs("<h2>Needs attention</h2>\n<div class=\"wide\"><table>\n<thead><tr>"
                  "<th>verdict</th><th>backend</th><th>case</th><th>reason</th>"
                  "<th>to see it again</th></tr></thead>\n<tbody>\n",
                  out);
        fputs("<tr>", out);
        const char *verdict = attn_status_name(row->status);
        attn_html_put_cell(out, verdict, verdict);
        attn_html_put_cell(out, "backend", view->backends[row->backend].label);
        attn_html_put_case(out, row);
        attn_html_put_cell(out, "why", row->reason);
        fputs("<td><code>", out);
        attn_put_html(out, *row->repro ? row->repro : ATTN_DASH);
        fputs("</code></td></tr>\n", out);
    }
    fputs(found ? "</tbody></table></div>\n" : "", out);
    return 0;
}

/* Columns of what never happened would push the figures out of the page. */
static bool is_shown(const struct attn_view *view, int status)
{
    return status <= ATTN_SKIP || attn_verdict_count(view, (enum attn_status)status) > 0;
}

static void put_backend_head(FILE *out, const struct attn_view *view)
{
    fputs("<div class=\"wide\"><table>\n<thead><tr><th>backend</th><th>version</th>", out);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        if (is_shown(view, s))
            fprintf(out, "<th class=\"n\">%s</th>", attn_status_name((enum attn_status)s));
    fputs("<th class=\"n\">worst error/bound</th><th class=\"n\">worst grade</th>"
          "<th class=\"n\">median slack</th></tr></thead>\n<tbody>\n",
          out);
}

/* What the last columns of the table of backends are; harness/judge measures them. */
#define GRADES                                                                                     \
    "Error/bound: over 1 fails. Worst grade: the largest error over what the best arithmetic of "  \
    "the type may lose. It has no limit: units are usual with p in bf16, hundreds in tf32. "       \
    "Median slack: how many times as much as that the backend's declared arithmetic is allowed"

static int put_backends(FILE *out, const struct page *page)
{
    const struct attn_view *view = page->parts->view;
    char figure[ATTN_FIGURE_MAX];
    int shown = 0;
    fputs("<p class=\"soft\">" GRADES ".</p>\n", out);
    put_backend_head(out, view);
    for (int s = 0; s < ATTN_STATUS_COUNT; s++)
        shown += is_shown(view, s);
    for (size_t b = 0; b < view->n_backends; b++) {
        const struct attn_view_backend *backend = &view->backends[b];
        const char *reason = attn_field_text(backend->info, "reason");
        if (!backend->cases && !*reason)
            continue;
        fputs("<tr>", out);
        attn_html_put_cell(out, "backend", backend->label);
        if (!backend->cases || !backend->counted) {
            /* No verdicts: why there are none takes the row. */
            fprintf(out, "<td class=\"skip\" colspan=\"%d\">", shown + 4);
            fputs(backend->cases ? "computes nothing: measures the harness" : "not available: ",
                  out);
            attn_put_html(out, backend->cases ? "" : reason);
            fputs("</td></tr>\n", out);
            continue;
        }
        attn_html_put_cell(out, "why", attn_field_text(backend->info, "version"));
        for (int s = 0; s < ATTN_STATUS_COUNT; s++)
            if (is_shown(view, s))
                fprintf(out, "<td class=\"n %s\" data-v=\"%zu\">%zu</td>",
                        backend->counts[s] ? attn_status_name((enum attn_status)s) : "zero",
                        backend->counts[s], backend->counts[s]);
        const double figures[] = {attn_worst_ratio(view, b), attn_worst_grade(view, b),
                                  backend->slack};
        for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
            attn_html_put_figure(out, "n", figures[f], attn_figure(figures[f], figure));
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    return 0;
}

/* Writes text as part of a URL. RFC 3986: characters that may not stand in a URL are written in
 * hexadecimal. Blanks stay, because every browser accepts them. Browsers drop line breaks from
 * URLs, so a line break becomes a blank. */
void attn_html_put_url(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '\n' || c == '\t' || c == '\r')
            fputc(' ', out);
        else if (c < 0x20 || c >= 0x7f || strchr("%#<>&\"", c))
            fprintf(out, "%%%02X", c);
        else
            fputc(c, out);
    }
}

/* Writes a picture as a data: image, not as elements of the page. Two pictures of one page would
 * share the ids of their markers and clipping paths. Nothing inside an image can run or fetch. */
int attn_html_put_picture(FILE *out, const char *out_dir, const struct attn_plot *plot, char *why,
                          size_t size)
{
    char path[4352];
    size_t length;
    snprintf(path, sizeof path, "%s/plots/%s.svg", out_dir, plot->name);
    char *svg = attn_file_read(path, &length, why, size);
    if (!svg)
        return -1;
    if (plot->folded) {
        fputs("<details><summary>", out);
        attn_put_html(out, plot->title);
        fputs("</summary>\n", out);
    }
    fprintf(out, "<figure class=\"%s\"><div class=\"picture\"><img alt=\"", plot->name);
    attn_put_html(out, plot->title);
    fputs("\" src=\"data:image/svg+xml,", out);
    attn_html_put_url(out, svg);
    free(svg);
    fputs("\"></div>\n<figcaption>", out);
    attn_put_html(out, plot->caption);
    attn_html_put_picture_files(out, out_dir, plot->name);
    fputs("</figcaption></figure>\n", out);
    fputs(plot->folded ? "</details>\n" : "", out);
    return 0;
}

static int put_pictures(FILE *out, const struct page *page)
{
    const struct attn_plots *plots = page->parts->plots;
    if (*page->parts->note) {
        fputs("<p class=\"soft\">", out);
        attn_html_put_linked(out, page->out_dir, page->parts->note);
        fputs("</p>\n", out);
    } else if (plots->count == 0) {
        fputs("<p class=\"soft\">No sweep of at least three sizes was timed.</p>\n", out);
    }
    for (size_t p = 0; p < plots->count; p++)
        if (plots->items[p].drawn &&
            attn_html_put_picture(out, page->out_dir, &plots->items[p], page->why, page->size) != 0)
            return -1;
    return 0;
}

static int put_heatmaps(FILE *out, const struct page *page)
{
    const struct attn_report_parts *parts = page->parts;
    return attn_html_put_heatmaps(out, page->out_dir, parts->view, parts->heatmaps, page->why,
                                  page->size);
}

static int put_skips(FILE *out, const struct page *page)
{
    if (attn_html_put_skips(out, page->parts->view) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the table of skips");
    return -1;
}

static int put_power(FILE *out, const struct page *page)
{
    if (attn_html_put_power(out, page->parts->view) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the table of power");
    return -1;
}

static int put_approximations(FILE *out, const struct page *page)
{
    if (attn_html_put_approximations(out, page->parts->view) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the table of approximations");
    return -1;
}

static int put_growth(FILE *out, const struct page *page)
{
    if (attn_html_put_growth(out, page->parts->view) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the table of the growth of memory");
    return -1;
}

static int put_passes(FILE *out, const struct page *page)
{
    if (attn_html_put_passes(out, page->parts->view) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the table of both passes");
    return -1;
}

static int put_results(FILE *out, const struct page *page)
{
    if (attn_html_put_results(out, page->parts->view) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the tables of results");
    return -1;
}

static int put_verdict(FILE *out, const struct page *page)
{
    attn_verdict_put_html(out, page->parts->verdict);
    return 0;
}

static int put_ranking(FILE *out, const struct page *page)
{
    attn_html_put_ranking(out, page->parts);
    return 0;
}

static int put_speedup(FILE *out, const struct page *page)
{
    attn_html_put_speedup(out, page->parts->speedup);
    return 0;
}

static int put_support(FILE *out, const struct page *page)
{
    if (attn_matrix_put_html(out, page->parts->run->matrix) == 0)
        return 0;
    snprintf(page->why, page->size, "no memory for the support matrix");
    return -1;
}

/* Stands where the contents go until all headings are known. */
#define CONTENTS "<!--contents-->"

static int put_contents_mark(FILE *out, const struct page *page)
{
    (void)page;
    fputs(CONTENTS, out);
    return 0;
}

static const struct {
    const char *name;
    int (*put)(FILE *out, const struct page *page);
} placeholders[] = {
    {"FACTS", put_facts},
    {"TILES", put_tiles},
    {"TROUBLES", put_troubles},
    {"BACKENDS", put_backends},
    {"SKIPS", put_skips},
    {"PICTURES", put_pictures},
    {"RESULTS", put_results},
    {"SPEEDUP", put_speedup},
    {"SUPPORT", put_support},
    {"HEATMAPS", put_heatmaps},
    {"POWER", put_power},
    {"FASTEST", put_ranking},
    {"VERDICT", put_verdict},
    {"CONTENTS", put_contents_mark},
    {"APPROXIMATIONS", put_approximations},
    {"GROWTH", put_growth},
    {"PASSES", put_passes},
};

static int put_placeholder(FILE *out, const struct page *page, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof placeholders / sizeof placeholders[0]; i++)
        if (strlen(placeholders[i].name) == length &&
            memcmp(placeholders[i].name, name, length) == 0)
            return placeholders[i].put(out, page);
    snprintf(page->why, page->size, "template.html: unknown placeholder {{%.*s}}",
             length < 40 ? (int)length : 40, name);
    return -1;
}

enum { HEADINGS = 32, SLUG = 48 };

/* A heading and its anchor, which is the same in every report. */
struct heading {
    const char *text; /* in the page */
    size_t length;
    char slug[SLUG];
};

/* "Speed-up over numpy" -> "speed-up": a backend's name changes from run to run. */
static void name_slug(struct heading *heading)
{
    size_t n = 0;
    for (size_t i = 0; i < heading->length && n + 1 < SLUG; i++) {
        const char c = heading->text[i];
        if (strncmp(heading->text + i, " over ", strlen(" over ")) == 0)
            break;
        heading->slug[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == ' ' ? '-' : c;
    }
    heading->slug[n] = '\0';
}

/* Gives the headings of a page their anchors, and links to them in its contents. */
static void put_anchored(FILE *out, const char *text)
{
    static const char open[] = "<h2>", close[] = "</h2>";
    struct heading headings[HEADINGS];
    size_t n = 0;
    for (const char *at = text; n < HEADINGS && (at = strstr(at, open));) {
        const char *begin = at + strlen(open), *end = strstr(begin, close);
        if (!end)
            break;
        headings[n] = (struct heading){.text = begin, .length = (size_t)(end - begin)};
        name_slug(&headings[n++]);
        at = end;
    }
    const char *mark = strstr(text, CONTENTS), *from = text;
    if (mark) {
        fwrite(text, 1, (size_t)(mark - text), out);
        fputs("<nav class=\"contents\" aria-label=\"Contents\">", out);
        for (size_t h = 0; h < n; h++)
            fprintf(out, "<a href=\"#%s\">%.*s</a>\n", headings[h].slug, (int)headings[h].length,
                    headings[h].text);
        fputs("</nav>", out);
        from = mark + strlen(CONTENTS);
    }
    for (size_t h = 0; h < n; h++) {
        if (headings[h].text < from)
            continue;
        fwrite(from, 1, (size_t)(headings[h].text - strlen(open) - from), out);
        fprintf(out, "<h2 id=\"%s\">", headings[h].slug);
        from = headings[h].text;
    }
    fputs(from, out);
}

static int put_filled(FILE *out, const struct page *page, const char *text)
{
    const char *at = text;
    for (;;) {
        const char *open = strstr(at, "{{"), *close = open ? strstr(open, "}}") : NULL;
        if (!close)
            break;
        fwrite(at, 1, (size_t)(open - at), out);
        if (put_placeholder(out, page, open + 2, (size_t)(close - open - 2)) != 0)
            return -1;
        at = close + 2;
    }
    fputs(at, out);
    return 0;
}

int attn_html_put(FILE *out, const char *page_text, const char *out_dir,
                  const struct attn_report_parts *parts, char *why, size_t size)
{
    const struct page page = {parts, out_dir, why, size};
    char *text = NULL;
    size_t length = 0;
    FILE *filled = attn_text_open(&text, &length);
    int status = -1;
    snprintf(why, size, "no memory for the page");
    if (filled) {
        why[0] = '\0';
        status = put_filled(filled, &page, page_text);
        if (fclose(filled) != 0 && status == 0) {
            snprintf(why, size, "no memory for the page");
            status = -1;
        }
    }
    if (status == 0)
        put_anchored(out, text);
    free(text);
    return status;
}
