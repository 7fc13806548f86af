/* SPDX-License-Identifier: Apache-2.0 */
/* tiny.c - a small problem, and its answer in double. */
#include "tiny.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { Q, K, V, OUT };

static void add(struct attn_instance *instance, uint32_t t, uint32_t role, int64_t rows, int64_t d,
                int64_t row)
{
    const int64_t elements = rows > 0 ? (rows - 1) * row + d : 0;
    float *data = malloc((size_t)(elements > 0 ? elements : 1) * sizeof(float));
    assert_non_null(data);
    for (int64_t i = 0; i < elements; i++)
        data[i] = (float)((i * 7 + (int64_t)t * 3) % 11) / 8 - 0.5f;
    instance->tensors[t] = (struct attn_tensor){
        .role = role,
        .dtype = ATTN_F32,
        .rank = 4,
        .shape = {1, 1, rows, d},
        .stride = {rows * row, rows * row, row, 1},
        .data = data,
    };
    instance->operands[t] = (struct attn_operand){
        .base = data, .span = (size_t)elements * sizeof(float), .output = role == ATTN_OUT};
}

struct attn_instance *tiny_create(int64_t sq, int64_t sk, int64_t d, int64_t gap)
{
    struct attn_instance *instance = calloc(1, sizeof(*instance));
    assert_non_null(instance);
    add(instance, Q, ATTN_Q, sq, d, d);
    add(instance, K, ATTN_K, sk, d, d);
    add(instance, V, ATTN_V, sk, d, d);
    add(instance, OUT, ATTN_OUT, sq, d, d + gap);
    instance->problem = (struct attn_problem){
        .struct_size = sizeof(struct attn_problem),
        .op = ATTN_OP_ATTENTION,
        .score = ATTN_SCORE_SCALED_DOT,
        .dtype = ATTN_F32,
        .b = 1,
        .hq = 1,
        .hkv = 1,
        .sq = sq,
        .sk = sk,
        .dq = d,
        .dk = d,
        .dv = d,
        .scale = 1 / sqrt((double)d),
        .n_tensors = 4,
        .tensors = instance->tensors,
    };
    return instance;
}

void tiny_free(struct attn_instance *instance)
{
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++)
        free(instance->operands[t].base);
    free(instance);
}

/* Output element c of query i. */
static double answer(const struct attn_instance *instance, int64_t i, int64_t c)
{
    const struct attn_problem *p = &instance->problem;
    const float *q = instance->tensors[Q].data, *k = instance->tensors[K].data,
                *v = instance->tensors[V].data;
    double sum = 0, out = 0;
    for (int64_t j = 0; j < p->sk; j++) {
        double s = 0;
        for (int64_t x = 0; x < p->dk; x++)
            s += (double)q[i * p->dk + x] * (double)k[j * p->dk + x];
        const double e = exp(s * p->scale);
        sum += e;
        out += e * (double)v[j * p->dv + c];
    }
    return out / sum;
}

double tiny_error(const struct attn_instance *instance)
{
    const struct attn_problem *p = &instance->problem;
    const float *out = instance->tensors[OUT].data;
    const int64_t row = instance->tensors[OUT].stride[2];
    double worst = 0;
    for (int64_t i = 0; i < p->sq; i++) {
        for (int64_t c = 0; c < p->dv; c++) {
            const double error = fabs((double)out[i * row + c] - answer(instance, i, c));
            if (!(error <= worst))
                worst = isnan(error) ? INFINITY : error;
        }
    }
    return worst;
}
