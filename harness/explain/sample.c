/* SPDX-License-Identifier: Apache-2.0 */
/* sample.c - takes the sample, and compares trials with it. */
#include "explain/sample.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"

/* An explanation must explain this share of the elements. It is below 1 because a kernel may have a
 * second fault in some corner. */
static const double least_share = 0.99;
/* At most this many wrong and other rows are looked at, and one hypothesis may cost this many
 * multiply-adds. */
enum { MOST_ROWS = 24, MOST_HELD = 12 };
static const double budget = 2e6;

bool attn_sample_within(double got, double want, double bound)
{
    if (isnan(got) || isnan(want))
        return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= bound;
}

int64_t attn_sample_place(const struct attn_sample *s, int64_t row, int64_t c)
{
    const int64_t width = s->units.width;
    return attn_unit_offset(&s->units, row * s->units.followers + c / width, c % width);
}

static double got_at(const struct attn_sample *s, int64_t row, int64_t c)
{
    const int64_t width = s->units.width, unit = row * s->units.followers + c / width;
    return attn_unit_read(&s->units, attn_unit_base(&s->units, unit), c % width);
}

static bool is_right(const struct attn_sample *s, int64_t r)
{
    const struct ref_values *ref = &s->ref->output[s->output];
    const double *want = ref->value + r * s->width, *bound = ref->bound + r * s->width;
    const int64_t row = ref_unit_number(s->rows, r);
    bool ok = true;
    for (int64_t c = 0; c < s->width && ok; c++)
        ok = attn_sample_within(got_at(s, row, c), want[c], bound[c]);
    return ok;
}

/* An even sample of the `found` rows of the verdict in `from`. */
static bool rows_take(const struct attn_sample *s, struct attn_sample_rows *rows,
                      const int64_t *from, int64_t found, double most)
{
    rows->count = found < (int64_t)most ? found : (int64_t)most;
    const size_t n = (size_t)(rows->count * s->width);
    rows->index = calloc((size_t)rows->count + 1, sizeof *rows->index);
    rows->got = calloc(5 * n + 1, sizeof *rows->got);
    if (!rows->index || !rows->got)
        return false;
    rows->want = rows->got + n;
    rows->bound = rows->want + n;
    rows->trial = rows->bound + n;
    rows->trial_bound = rows->trial + n;
    for (int64_t k = 0; k < rows->count; k++) {
        const int64_t r = from[rows->count > 1 ? k * (found - 1) / (rows->count - 1) : 0];
        rows->index[k] = ref_unit_number(s->rows, r);
        const size_t to = (size_t)(k * s->width), bytes = (size_t)s->width * sizeof(double);
        memcpy(rows->want + to, s->ref->output[s->output].value + r * s->width, bytes);
        memcpy(rows->bound + to, s->ref->output[s->output].bound + r * s->width, bytes);
        for (int64_t c = 0; c < s->width; c++)
            rows->got[(int64_t)to + c] = got_at(s, rows->index[k], c);
    }
    return true;
}

static void look_at(struct attn_sample *s, int output)
{
    attn_units_of(&s->instance->problem, output, &s->units);
    s->output = output;
    s->role = s->units.output->role;
    s->rows = &s->request->units[s->units.output->leader];
    s->width = s->units.followers * s->units.width;
}

/* Finds the rows of the verdict that are wrong and those that are right. */
struct sorted {
    int64_t *wrong, *held;
    int64_t n_wrong, n_held;
};

static int sort_rows(const struct attn_sample *s, struct sorted *sorted)
{
    *sorted = (struct sorted){.wrong = calloc(2 * (size_t)s->rows->count + 1, sizeof(int64_t))};
    if (!sorted->wrong)
        return -1;
    sorted->held = sorted->wrong + s->rows->count;
    for (int64_t r = 0; r < s->rows->count; r++)
        if (is_right(s, r))
            sorted->held[sorted->n_held++] = r;
        else
            sorted->wrong[sorted->n_wrong++] = r;
    return 0;
}

bool attn_sample_take(struct attn_sample *s)
{
    const struct attn_problem *p = &s->instance->problem;
    const int outputs = ref_output_count(ref_op_find(p->op));
    struct sorted sorted = {0};
    for (int o = 0; o < outputs && sorted.n_wrong == 0; o++) {
        look_at(s, o);
        free(sorted.wrong);
        sorted = (struct sorted){0};
        if (s->units.tensor && sort_rows(s, &sorted) != 0)
            return false;
    }
    const double cost = ref_output_cost(p, s->units.output->leader);
    const double affordable = fmax(2, fmin(MOST_ROWS, budget / cost));
    const bool taken =
        sorted.n_wrong > 0 && rows_take(s, &s->wrong, sorted.wrong, sorted.n_wrong, affordable) &&
        rows_take(s, &s->held, sorted.held, sorted.n_held, fmin(MOST_HELD, affordable));
    free(sorted.wrong);
    return taken;
}

void attn_sample_free(struct attn_sample *s)
{
    free(s->wrong.index);
    free(s->wrong.got);
    free(s->held.index);
    free(s->held.got);
}

double attn_sample_share(const struct attn_sample *s, int64_t count)
{
    const struct attn_sample_rows *w = &s->wrong;
    const int64_t n = count * s->width;
    int64_t explained = 0, distinct = 0, wrong = 0, wrong_explained = 0;
    for (int64_t k = 0; k < n; k++) {
        const bool agrees = attn_sample_within(w->got[k], w->trial[k], w->trial_bound[k]);
        const bool is_wrong = !attn_sample_within(w->got[k], w->want[k], w->bound[k]);
        explained += agrees;
        wrong += is_wrong;
        wrong_explained += is_wrong && agrees;
        distinct += agrees && isfinite(w->got[k]) &&
                    !attn_sample_within(w->trial[k], w->want[k], w->bound[k] + w->trial_bound[k]);
    }
    if (count == w->count && distinct < ATTN_SAMPLE_DISTINCT)
        return 0;
    return fmin((double)explained / (double)n, wrong ? (double)wrong_explained / (double)wrong : 0);
}

bool attn_sample_answer(const struct attn_sample *s, const struct attn_sample_rows *rows,
                        const struct attn_problem *problem, int64_t count)
{
    char why[256];
    struct ref_request request = {.numerics = s->request->numerics,
                                  .fill = s->instance->kind,
                                  .threads = s->request->threads,
                                  .stored = s->request->stored,
                                  .given = true};
    request.units[s->units.output->leader] =
        (struct ref_units){.count = count, .index = rows->index};
    struct ref_result r = {0};
    r.output[s->output] = (struct ref_values){rows->trial, rows->trial_bound};
    return ref_compute(problem, &request, &r, why, sizeof why) == ATTN_OK;
}

void attn_sample_propose(struct attn_sample *s, double share, bool local, const char *format, ...)
{
    const double rank = share + !local;
    if (share < least_share || rank <= s->rank)
        return;
    s->rank = rank;
    const int n = snprintf(s->text, s->size, "explained: %.3g %% of %lld elements of wrong rows ",
                           100 * share, (long long)(s->wrong.count * s->width));
    va_list arguments;
    va_start(arguments, format);
    if (n > 0 && (size_t)n < s->size)
        vsnprintf(s->text + n, s->size - (size_t)n, format, arguments);
    va_end(arguments);
}
