/* SPDX-License-Identifier: Apache-2.0 */
/* bound_join.c - errors of the weights of one row and head, followed through W_o: ops/mha/OP.md. */
#include <math.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/job.h"
#include "reference/sums.h"

/* Columns of out that are made at a time: they stay in the first-level cache. */
#define CHUNK 1024

/* A sum of n floats is off by at most some n 2^-24 of the sum of their absolute values. */
#define FLOAT_ROUNDOFF 0x1p-24

ATTN_CLONES("avx2", "avx512f")
void ref_add_floats(const double *x, const float *a, int64_t stride, const int64_t *index,
                    int64_t rows, int64_t width, float *restrict y)
{
    int64_t t = 0;

    for (; t + 4 <= rows; t += 4) {
        const float x0 = (float)x[t], x1 = (float)x[t + 1];
        const float x2 = (float)x[t + 2], x3 = (float)x[t + 3];
        const float *restrict a0 = a + (index ? index[t] : t) * stride;
        const float *restrict a1 = a + (index ? index[t + 1] : t + 1) * stride;
        const float *restrict a2 = a + (index ? index[t + 2] : t + 2) * stride;
        const float *restrict a3 = a + (index ? index[t + 3] : t + 3) * stride;
        for (int64_t c = 0; c < width; c++)
            y[c] += (x0 * a0[c] + x1 * a1[c]) + (x2 * a2[c] + x3 * a3[c]);
    }
    for (; t < rows; t++)
        for (int64_t c = 0; c < width; c++)
            y[c] += (float)x[t] * a[(index ? index[t] : t) * stride + c];
}

double ref_float_error(int64_t terms)
{
    return 2.0 * FLOAT_ROUNDOFF * ((double)terms + 4.0);
}

/* The Euclidean norm. */
double ref_length(const double *x, int64_t n)
{
    double sum = 0.0;

    for (int64_t c = 0; c < n; c++)
        sum += x[c] * x[c];
    return sqrt(sum);
}

bool ref_bound_joins(const struct ref_arithmetic *a, const struct ref_softmax *row,
                     const struct ref_row_bound *bound)
{
    return ref_squares(a, row->n) && bound->stored < 0.5;
}

void ref_bound_join(const struct ref_softmax *row, const struct ref_row_bound *bound,
                    const struct ref_keys *keys, struct ref_scratch *x, const double *out,
                    const struct ref_joined *joined, int64_t r)
{
    /* A denominator that sums p as stored is wrong by the sum of the roundings. */
    const double over = (1.0 + ref_float_error(row->n)) / (1.0 - bound->stored);
    const double shared = over * (bound->shared + bound->stored);
    const double off = ref_float_error(keys->dv) * ref_length(out, keys->dv) * joined->longest;
    double *factor = x->weight, stays = 0.0;
    float *most = joined->most + r * joined->width;

    for (int64_t t = 0; t < row->n; t++) {
        const int64_t j = x->key[t];
        const double all = x->growth[t] + x->store[t];
        const double random = x->p[t] / bound->least * ref_spread_of(keys, x, j);
        if (all > 0.0)
            stays = fmax(stays, 1.0 - random / all);
        factor[t] = x->keep[t] * all * over;
    }
    for (int64_t from = 0; from < joined->width; from += CHUNK) {
        const int64_t width = joined->width - from < CHUNK ? joined->width - from : CHUNK;
        float *sum = most + from;
        memset(sum, 0, (size_t)width * sizeof(*sum));
        ref_add_floats(out, joined->weight + from, joined->width, NULL, keys->dv, width, sum);
        for (int64_t c = 0; c < width; c++)
            sum[c] = (float)(shared * (fabs((double)sum[c]) + off));
        ref_add_floats(factor, joined->value + from, joined->width, x->key, row->n, width, sum);
    }
    joined->stays[r] = fmin(stays, 1.0);
}
