/* SPDX-License-Identifier: Apache-2.0 */
/* spread.c - errors of projections on generic fills, where they add in squares: how far they spread
 * times lambda. Derived in OP.md. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/mha/mha.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Rows that a thread takes at a time. */
#define ROWS 8

/* lambda times the spread of the error of y. Of `error` the store is one rounding, bounded by
 * itself; the rest is a sum of many. `grown`: what stands in `error` may be the worst case, which
 * is less for short chains; and each rounding is that of a sum with its error. */
static double spread_of(const struct ref_arithmetic *a, double grown, double y, double error)
{
    const double once = a->u_proj * fabs(y) + a->eta_proj;
    const double chain = fmax(error - once, 0.0) + 0x1p-50 * error;
    const double store = fmin(once + a->u_proj * error, error);

    return sqrt(grown * grown * chain * chain + a->lambda * a->lambda * store * store);
}

void ref_mha_spread(const struct ref_arithmetic *a, const struct ref_projection *p, double *spread)
{
    const double length = (double)(p->in + 2);
    const double likely = ref_growth_likely(a, length), worst = ref_growth_worst(a, length);
    const double grown = fmax(likely / worst, 1.0) * (1.0 + fmin(likely, worst));

    for (int64_t x = 0; x < p->rows * p->out; x++)
        spread[x] = spread_of(a, grown, p->y[x], p->y_error[x]);
}

void ref_mha_spread_keys(const struct ref_arithmetic *a, const struct ref_projection *p,
                         const struct ref_keys *keys, double *spread)
{
    ref_mha_spread(a, p, spread);
    for (int64_t x = 0; x < p->rows * p->out; x++)
        spread[x] *= spread[x];
    ref_transpose(spread, keys->sk, keys->dk, 0, keys->sk, keys->k_spread_t);
    for (int64_t x = 0; x < keys->dk * keys->sk; x++) {
        const double most = fabs(keys->kt[x]) + keys->kt_error[x];
        keys->k_most_t[x] = keys->q_squares ? most * most : most;
    }
}

/* ---- through W_o ---- */

/* What threads share. */
struct joining {
    const struct ref_projection *p;
    const struct ref_keys *keys;
    const struct ref_mha_joining *m;
    const double *error; /* [rows, in]: of the heads */
    float *square_t;     /* [in, out]: squares of w, transposed */
    float *square;       /* [rows, out] */
};

bool ref_mha_joins(const struct ref_job *job, const struct ref_keys *keys)
{
    const struct attn_problem *p = job->operands.problem;

    return keys->k_spread_t && job->operands.by_role[ATTN_W_O] && p->sk > 0 &&
           !(p->flags & ATTN_FLAG_SOFTCAP) && ref_squares(&job->arithmetic, p->hq * p->dv);
}

int ref_mha_joining_create(const struct ref_job *job, int64_t rows, struct ref_mha_joining *m)
{
    const struct attn_problem *p = job->operands.problem;
    const int64_t width = ref_extent(&job->shape, 'o'), heads = p->hq * p->dv;
    struct ref_joined *x = &m->joined;

    *m = (struct ref_mha_joining){0};
    x->width = width;
    x->value = (float *)ref_alloc_doubles(p->sk, (width + 1) / 2);
    x->most = (float *)ref_alloc_doubles(rows, (width + 1) / 2);
    x->weight = (float *)ref_alloc_doubles(p->dv, (width + 1) / 2);
    x->stays = ref_alloc_doubles(rows, 1);
    x->rest = ref_alloc_doubles(rows, heads);
    x->own = ref_alloc_doubles(rows, heads);
    m->row = ref_alloc_doubles(p->dv, 1);
    m->squares = ref_alloc_doubles(rows, width);
    m->stays = ref_alloc_doubles(rows, width);
    return x->value && x->most && x->weight && x->stays && x->rest && x->own && m->row &&
                   m->squares && m->stays
               ? ATTN_OK
               : ATTN_OUT_OF_MEMORY;
}

void ref_mha_joining_free(struct ref_mha_joining *m)
{
    free(m->joined.value);
    free(m->joined.most);
    free(m->joined.weight);
    free(m->joined.stays);
    free(m->joined.rest);
    free(m->joined.own);
    free(m->row);
    free(m->squares);
    free(m->stays);
}

static void load_values(void *context, int64_t begin, int64_t end)
{
    const struct joining *x = context;
    const struct ref_joined *joined = &x->m->joined;
    const int64_t dv = x->keys->dv;

    for (int64_t j = begin; j < end; j++) {
        const double *v = x->keys->v + j * dv;
        const double off = ref_float_error(dv) * ref_length(v, dv) * joined->longest;
        float *value = joined->value + j * joined->width;
        memset(value, 0, (size_t)joined->width * sizeof(*value));
        ref_add_floats(v, joined->weight, joined->width, NULL, dv, joined->width, value);
        for (int64_t c = 0; c < joined->width; c++)
            value[c] = fabsf(value[c]) + (float)off;
    }
}

void ref_mha_joining_load(const struct ref_job *job, const struct ref_keys *keys, int64_t h,
                          int64_t rows, struct ref_mha_joining *m)
{
    const struct attn_tensor *w_o = job->operands.by_role[ATTN_W_O];
    const int64_t dv = keys->dv;
    struct ref_joined *x = &m->joined;
    struct joining joining = {.keys = keys, .m = m};

    if (h == 0) {
        memset(m->squares, 0, (size_t)(rows * x->width) * sizeof(double));
        memset(m->stays, 0, (size_t)(rows * x->width) * sizeof(double));
    }
    x->longest = 0.0;
    for (int64_t c = 0; c < x->width; c++) {
        ref_load_vector(w_o, (const int64_t[]){c, h * dv}, dv, m->row);
        x->longest = fmax(x->longest, ref_length(m->row, dv));
        for (int64_t d = 0; d < dv; d++)
            x->weight[d * x->width + c] = (float)m->row[d];
    }
    attn_parallel_for(job->threads, keys->sk, ROWS, load_values, &joining);
    for (int64_t r = 0; r < rows; r++)
        x->stays[r] = -1.0; /* not joined */
}

void ref_mha_joining_add(struct ref_mha_joining *m, int64_t r)
{
    const struct ref_joined *x = &m->joined;

    for (int64_t c = 0; c < x->width && x->stays[r] >= 0.0; c++) {
        const double most = (double)x->most[r * x->width + c];
        m->squares[r * x->width + c] += most * most;
        m->stays[r * x->width + c] += x->stays[r] * most;
    }
}

static void join_rows(void *context, int64_t begin, int64_t end)
{
    const struct joining *x = context;
    const struct ref_projection *p = x->p;
    const struct ref_arithmetic *a = p->a;
    /* The roundings of the projection meet the heads with their errors. */
    const double rounded = ref_growth_rounded(a, (double)(p->in + 2)) * sqrt((double)p->in);
    const double wide = 1.0 + ref_float_error(p->in);
    const double of_rest = a->lambda * a->lambda, of_error = rounded * rounded;

    for (int64_t r = begin; r < end; r++) {
        const double *error = x->error + r * p->in;
        const double *rest = x->m->joined.rest + r * p->in;
        double *own = x->m->joined.own + r * p->in;
        float *square = x->square + r * p->out;
        /* (x + y + z)^2 <= 2 x^2 + 4 (y^2 + z^2) */
        for (int64_t i = 0; i < p->in; i++)
            own[i] =
                2.0 * own[i] + 4.0 * (of_rest * rest[i] * rest[i] + of_error * error[i] * error[i]);
        memset(square, 0, (size_t)p->out * sizeof(*square));
        ref_add_floats(own, x->square_t, p->out, NULL, p->in, p->out, square);
        for (int64_t c = 0; c < p->out; c++) {
            const int64_t at = r * p->out + c;
            const double e = p->y_error[at] + wide * sqrt((double)square[c]) +
                             sqrt(x->m->squares[at]) + x->m->stays[at];
            p->y_error[at] = isnan(e) ? INFINITY : e;
        }
    }
}

void ref_mha_join(const struct ref_job *job, const struct ref_projection *p,
                  struct ref_mha_joining *m, const double *error, double *square)
{
    /* Twice the room that floats take. */
    struct joining joining = {
        .p = p, .m = m, .error = error, .square_t = (float *)p->w, .square = (float *)square};

    for (int64_t x = 0; x < p->in * p->out; x++)
        joining.square_t[x] = (float)(p->wt[x] * p->wt[x]);
    attn_parallel_for(job->threads, p->rows, ROWS, join_rows, &joining);
}
