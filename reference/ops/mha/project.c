/* SPDX-License-Identifier: Apache-2.0 */
/* project.c - one projection of multi-head attention, with the error that comes along. */
#include <math.h>
#include <string.h>

#include "reference/ops/mha/mha.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Rows that a thread projects at a time, and rows of w^T that go through all of them while they are
 * in a cache. */
#define ROWS  8
#define TERMS 32

/* The sum of the absolute terms of column c, which bounds every partial sum. */
static double column_size(const struct ref_projection *p, const double *x, const double *x_error,
                          int64_t c)
{
    double size = fabs(p->bias[c]);

    for (int64_t i = 0; i < p->in; i++)
        size += (fabs(x[i]) + (x_error ? x_error[i] : 0.0)) * fabs(p->wt[i * p->out + c]);
    return size;
}

/* |x| (g + u_in) |w| + xe |w| over TERMS rows of w^T, from row `i` on. */
static void add_error(const struct ref_projection *p, int64_t r, int64_t i, int64_t terms,
                      double rounded)
{
    double relative[TERMS];

    for (int64_t t = 0; t < terms; t++) {
        int64_t x = r * p->in + i + t;
        double error = p->x_error ? p->x_error[x] : 0.0;
        relative[t] = rounded * (fabs(p->x[x]) + error) + error;
    }
    ref_add_magnitudes(relative, p->wt + i * p->out, p->out, NULL, terms, p->out,
                       p->y_error + r * p->out);
}

/* Is no sum towards column c rounded? `size` is that of its products. */
static bool is_exact(const struct ref_projection *p, int64_t c, double size, double unit)
{
    const double own = ref_exact_unit(&p->exactness, &p->bias[c], 1, 1);

    return ref_exact_sum(&p->exactness, size + fabs(p->bias[c]), fmin(unit * p->unit_w[c], own));
}

void ref_mha_store(const struct ref_projection *p, int64_t at)
{
    const struct ref_arithmetic *a = p->a;
    const double y = fabs(p->y[at]);
    double *e = &p->y_error[at];

    *e += a->u_proj * (y + *e) + a->eta_proj;
    *e = ref_mha_error_within(*e, y + *e, a->proj_largest);
}

/* What does not depend on w column by column, and the store. `rounded` is what add_error took. */
static void finish_error(const struct ref_projection *p, int64_t r, double rounded)
{
    const struct ref_arithmetic *a = p->a;
    const double *x = p->x + r * p->in;
    const double *xe = p->x_error ? p->x_error + r * p->in : NULL;
    double *e = p->y_error + r * p->out, g = ref_growth(a, (double)(p->in + 2));
    /* Underflow costs omega (2 + |w| + big) a product: the sum of 2 + big is the same in every
     * column.
     */
    double flush = (double)(2 * p->in);
    const double unit = xe || p->inexact ? 0.0 : ref_exact_unit(&p->exactness, x, 1, p->in);

    for (int64_t i = 0; i < p->in; i++)
        flush += fabs(x[i]) + (xe ? xe[i] : 0.0);
    for (int64_t c = 0; c < p->out; c++) {
        if (unit * p->unit_w[c] > 0.0 && is_exact(p, c, e[c] / rounded, unit)) {
            e[c] = p->folded ? ref_mha_fold(p) * (e[c] / rounded + fabs(p->bias[c])) : 0.0;
            e[c] += p->folded ? a->omega * (flush + p->sum_w[c]) : 0.0;
            continue;
        }
        e[c] += g * fabs(p->bias[c]);
        /* As e >= g size, most columns are known to fit without their size. */
        if (!(e[c] * (1.0 + g) <= g * a->largest))
            e[c] = ref_mha_error_within(e[c], column_size(p, x, xe, c) * (1.0 + g), a->largest);
        e[c] += a->omega * (flush + p->sum_w[c]);
        if (p->stored)
            ref_mha_store(p, r * p->out + c);
    }
}

/* Rows [begin, end), by all weights. */
static void project_rows(const struct ref_projection *p, int64_t begin, int64_t end)
{
    size_t bytes = (size_t)p->out * sizeof(double);
    double rounded = p->y_error ? ref_growth_rounded(p->a, (double)(p->in + 2)) : 0.0;

    for (int64_t r = begin; r < end; r++) {
        memcpy(p->y + r * p->out, p->bias, bytes);
        if (p->y_error)
            memset(p->y_error + r * p->out, 0, bytes);
    }
    for (int64_t i = 0; i < p->in; i += TERMS) {
        int64_t terms = p->in - i < TERMS ? p->in - i : TERMS;
        for (int64_t r = begin; r < end; r++) {
            ref_add_rows(p->x + r * p->in + i, p->wt + i * p->out, p->out, NULL, terms, p->out,
                         p->y + r * p->out);
            if (p->y_error)
                add_error(p, r, i, terms, rounded);
        }
    }
    for (int64_t r = begin; p->y_error && r < end; r++)
        finish_error(p, r, rounded);
}

static void project_part(void *context, int64_t begin, int64_t end)
{
    const struct ref_projection *p = context;

    if (!p->few.start)
        project_rows(p, begin, end);
    for (int64_t r = begin; p->few.start && r < end; r++) {
        const double *xe = p->x_error ? p->x_error + r * p->in : NULL;
        if (ref_few_usable(&p->few, p->x + r * p->in, xe, p->in))
            ref_few_project(p, r);
        else
            project_rows(p, r, r + 1);
    }
}

void ref_mha_project(const struct ref_job *job, uint32_t weight, uint32_t bias, int64_t first,
                     struct ref_projection *p)
{
    const struct attn_tensor *const *t = job->operands.by_role;

    p->a = &job->arithmetic;
    if (p->y_error)
        p->exactness = ref_exactness_of(job, p->stored);
    for (int64_t c = 0; c < p->out; c++) {
        double *w = p->w + c * p->in;
        ref_load_vector(t[weight], (const int64_t[]){first + c, 0}, p->in, w);
        p->sum_w[c] = 0.0;
        for (int64_t i = 0; i < p->in; i++)
            p->sum_w[c] += fabs(w[i]);
        p->bias[c] = t[bias] ? ref_load(t[bias], (const int64_t[]){first + c}) : 0.0;
    }
    ref_transpose(p->w, p->out, p->in, 0, p->out, p->wt);
    for (int64_t c = 0; p->y_error && c < p->out; c++)
        p->unit_w[c] = ref_exact_unit(&p->exactness, p->w + c * p->in, 1, p->in);
    ref_few_create(&p->few, p->w, p->out, p->in);
    attn_parallel_for(job->threads, p->rows, ROWS, project_part, p);
    ref_few_free(&p->few);
}
