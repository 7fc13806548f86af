/* SPDX-License-Identifier: Apache-2.0 */
/* summary.c - protocol, machine and build in one line each, verdicts in one number each, for
 * footers and pages. */
#include "report/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"

void attn_protocol_text(const struct attn_view *view, const json_t *machine, char *text,
                        size_t size)
{
    /* The rounds that were made; of a run without timings those that were asked for. */
    double most = NAN, least = NAN;
    double samples = attn_field_number(machine, "protocol.samples");
    char l[ATTN_FIGURE_MAX + 4] = "", m[ATTN_FIGURE_MAX] = ATTN_DASH,
                             s[ATTN_FIGURE_MAX] = ATTN_DASH;
    for (size_t r = 0; r < view->n_rows; r++) {
        size_t rounds = json_array_size(attn_field_at(view->rows[r].bench, "samples_ns"));
        if (rounds) {
            least = fmin(least, (double)rounds);
            most = fmax(most, (double)rounds);
        }
    }
    if (!isfinite(most))
        least = most = attn_field_number(machine, "protocol.rounds");
    if (least < most)
        snprintf(l, sizeof l, "%.0f to ", least);
    if (isfinite(most))
        snprintf(m, sizeof m, "%.0f", most);
    if (isfinite(samples))
        snprintf(s, sizeof s, "%.0f", samples);
    snprintf(text, size, "%s%s round%s of %s samples", l, m, most == 1 ? "" : "s", s);
}

const char *attn_interval_text(const struct attn_view *view)
{
    for (size_t r = 0; r < view->n_rows; r++)
        if (isfinite(view->rows[r].hi))
            return "the 95 % interval of a time is that of the median over rounds";
    return "times of fewer than 4 rounds have no interval";
}

void attn_machine_text(const json_t *machine, char *text, size_t size)
{
    const char *model = attn_field_text(machine, "cpu.model");
    double threads = attn_field_number(machine, "threads");
    int used = snprintf(text, size, "%.80s", *model ? model : "CPU " ATTN_DASH);
    if (isfinite(threads) && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", %.0f thread%s", threads,
                 threads == 1 ? "" : "s");
}

void attn_build_text(const json_t *machine, char *text, size_t size)
{
    const char *version = attn_field_text(machine, "attnbench.version");
    const char *commit = attn_field_text(machine, "attnbench.commit");
    const char *build = attn_field_text(machine, "attnbench.build");
    const char *date = attn_field_text(machine, "date");
    const char *written = attn_field_text(machine, "attnbench.commit_date");
    snprintf(text, size, "attnbench%s%.16s%s%.24s%s%.10s%s%.16s%s%.25s", *version ? " " : "",
             version, *commit ? " commit " : "", commit, *written ? " of " : "", written,
             *build ? ", " : "", build, *date ? ", run on " : "", date);
}

void attn_system_text(const json_t *machine, char *text, size_t size)
{
    const char *kernel = attn_field_text(machine, "kernel");
    const char *compiler = attn_field_text(machine, "compiler");
    const char *flags = attn_field_text(machine, "compiler_flags");
    const char *built = attn_field_text(machine, "attnbench.built");
    const double bytes = attn_field_number(machine, "memory_bytes");
    char memory[ATTN_FIGURE_MAX];
    snprintf(text, size, "Linux %.40s, %s of memory, %.40s%s%.120s%s%s%.25s",
             *kernel ? kernel : ATTN_DASH, attn_figure_bytes(bytes, memory),
             *compiler ? compiler : ATTN_DASH, *flags ? " (" : "", flags, *flags ? ")" : "",
             *built ? ", built on " : "", built);
}

bool attn_row_is_trouble(const struct attn_view_row *row)
{
    return row->status != ATTN_PASS && row->status != ATTN_APPROX && row->status != ATTN_SKIP;
}

static double largest(const struct attn_view *view, size_t backend, const char *field)
{
    double worst = NAN;
    for (size_t r = 0; r < view->n_rows; r++)
        if (view->rows[r].backend == backend)
            worst = fmax(worst, attn_field_number(view->rows[r].verify, field));
    return worst;
}

double attn_worst_ratio(const struct attn_view *view, size_t backend)
{
    return largest(view, backend, "max_ratio");
}

double attn_worst_grade(const struct attn_view *view, size_t backend)
{
    return largest(view, backend, "grade");
}

size_t attn_verdict_count(const struct attn_view *view, enum attn_status status)
{
    size_t count = 0;
    for (size_t b = 0; b < view->n_backends; b++)
        count += view->backends[b].counted ? view->backends[b].counts[status] : 0;
    return count;
}
