/* SPDX-License-Identifier: Apache-2.0 */
/* totals.c - gradients that add up whole rows: of a bias, a sink, and slopes. */
#include <string.h>

#include "reference/ops/attention_backward/work.h"

static double error_of_cell(const struct ref_backward_work *work,
                            const struct ref_backward_row *row, int64_t t)
{
    if (!work->job.bounds)
        return 0.0;
    return row->e_ds[t] < REF_UNKNOWN ? row->e_ds[t] + row->t_ds[t] : INFINITY;
}

static void store_bias(const struct ref_backward_work *work, const struct ref_backward_row *row,
                       double *bias)
{
    memset(bias, 0, 2 * (size_t)ref_backward_problem(work)->sk * sizeof(*bias));
    for (int64_t t = 0; t < row->n; t++) {
        bias[2 * row->scratch->key[t]] = row->ds[t];
        bias[2 * row->scratch->key[t] + 1] = error_of_cell(work, row, t);
    }
}

static struct ref_backward_total slope_of(const struct ref_backward_work *work,
                                          const struct ref_backward_row *row)
{
    const int64_t diagonal = row->i + ref_offset(&work->job.operands, work->group.b);
    struct ref_backward_total total = {.terms = (double)row->n};

    for (int64_t t = 0; t < row->n; t++) {
        const double far = fabs((double)(diagonal - row->scratch->key[t]));
        const double error = error_of_cell(work, row, t);
        const double off = error < INFINITY ? far * error : error;
        total.value -= far * row->ds[t];
        total.off += off;
        total.size += fabs(far * row->ds[t]) + off;
    }
    return total;
}

/* A row without keys has a weight of its sink only if there is a gradient of lse. */
static struct ref_backward_total sink_of(const struct ref_backward_work *work,
                                         const struct ref_backward_row *row)
{
    const struct ref_arithmetic *a = &work->group.arithmetic;
    struct ref_backward_total total = {.terms = 1.0};

    if (!row->sink || (row->n == 0 && row->sink_p == 0.0))
        return total;
    total.value = -row->sink_p * row->delta;
    if (work->job.bounds) {
        const double ds = ref_growth(a, 2.0) * fabs(row->sink_logit);
        const double w = ref_backward_weight_error(&work->group, row, row->sink_logit, ds);
        const double e_p = row->sink_p * w + a->omega;
        total.off = e_p * fabs(row->delta) + (row->sink_p + e_p) * row->e_delta + a->omega;
        if (!(w < REF_UNKNOWN && row->e_delta < REF_UNKNOWN))
            total.off = INFINITY;
    }
    total.size = fabs(total.value) + total.off;
    return total;
}

void ref_backward_note(const struct ref_backward_work *work, const struct ref_backward_row *row,
                       int64_t r)
{
    if (work->bias)
        store_bias(work, row, work->bias + 2 * r * ref_backward_problem(work)->sk);
    if (work->sinks)
        work->sinks[r] = sink_of(work, row);
    if (work->slopes)
        work->slopes[r] = slope_of(work, row);
}

static void add(struct ref_backward_total *to, const struct ref_backward_total *from)
{
    to->value += from->value;
    to->off += from->off;
    to->size += from->size;
    to->terms += from->terms;
}

/* Adds the cells of a row to the unit of dBias that it belongs to, and within it to their key. */
static void add_bias(const struct ref_backward_work *work, const double *bias, int64_t h, int64_t i)
{
    const struct ref_shape *shape = &work->job.shape;
    const int64_t w = ref_extent(shape, 'W'), x = ref_extent(shape, 'X');
    const int64_t y = ref_extent(shape, 'Y'), z = ref_extent(shape, 'Z');
    const int64_t unit = ((w > 1 ? work->group.b : 0) * x + (x > 1 ? h : 0)) * y + (y > 1 ? i : 0);
    const int64_t entry = work->bias_entry[unit];

    for (int64_t j = 0; entry >= 0 && j < ref_backward_problem(work)->sk; j++) {
        const struct ref_backward_total cell = {bias[2 * j], bias[2 * j + 1],
                                                fabs(bias[2 * j]) + bias[2 * j + 1], 1.0};
        add(&work->bias_totals[entry * z + (z > 1 ? j : 0)], &cell);
    }
}

void ref_backward_gather(const struct ref_backward_work *work, int64_t count)
{
    const int64_t sq = ref_backward_problem(work)->sq;

    for (int64_t r = 0; r < count; r++) {
        const int64_t place = work->begin + r;
        const int64_t h = work->group.g * work->group.heads + place / sq;
        if (work->bias)
            add_bias(work, work->bias + 2 * r * ref_backward_problem(work)->sk, h, place % sq);
        if (work->sinks && work->sink_entry[h] >= 0)
            add(&work->sink_totals[work->sink_entry[h]], &work->sinks[r]);
        if (work->slopes && work->slope_entry[h] >= 0)
            add(&work->slope_totals[work->slope_entry[h]], &work->slopes[r]);
    }
}

/* The results of an output that is one sum each. */
static void finish_totals(const struct ref_backward_work *work, int output, uint32_t role,
                          const struct ref_backward_total *totals, int64_t count)
{
    const struct ref_values *values = &work->job.result->output[output];
    const struct ref_arithmetic *a = &work->group.arithmetic;

    for (int64_t n = 0; values->value && n < count; n++) {
        const struct ref_backward_total *t = &totals[n];
        values->value[n] = t->value;
        if (!work->job.bounds || !values->bound)
            continue;
        const double growth = ref_growth(a, t->terms + 3.0);
        const double e = t->off + growth * t->size + (t->terms + 1.0) * 2.0 * a->omega;
        const bool fits = t->size * (1.0 + growth) <= a->largest && isfinite(t->value);
        values->bound[n] = ref_bound_final(a, ref_wide_type(&work->job, role), t->value,
                                           fits || isnan(t->value) ? e : INFINITY);
    }
}

void ref_backward_finish(const struct ref_backward_work *work)
{
    const struct ref_units *units = work->job.request->units;
    const int64_t width =
        work->bias ? ref_output_width(ref_backward_problem(work), REF_GRAD_BIAS) : 0;

    finish_totals(work, REF_GRAD_BIAS, ATTN_GRAD_BIAS, work->bias_totals,
                  units[REF_GRAD_BIAS].count * width);
    finish_totals(work, REF_GRAD_SINK, ATTN_GRAD_SINK, work->sink_totals,
                  units[REF_GRAD_SINK].count);
    finish_totals(work, REF_GRAD_ALIBI, ATTN_GRAD_ALIBI, work->slope_totals,
                  units[REF_GRAD_ALIBI].count);
}
