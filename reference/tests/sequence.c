/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.c - see sequence.h */
#include "reference/tests/sequence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "reference/philox.h"

const struct attn_numerics sequence_f32 = {
    .struct_size = sizeof(struct attn_numerics), .acc_type = ATTN_F32, .e_exp = 4 * 0x1p-24};

double sequence_normal(uint64_t seed, uint64_t index)
{
    double sum = -6;
    for (uint64_t n = 0; n < 3; n++) {
        const uint32_t counter[4] = {(uint32_t)index, (uint32_t)n}, key[2] = {(uint32_t)seed};
        uint32_t words[4];
        attn_philox4x32(counter, key, words);
        for (int w = 0; w < 4; w++)
            sum += (double)words[w] * 0x1p-32;
    }
    return sum;
}

void sequence_begin(struct sequence *s, uint32_t op, uint32_t dtype, int64_t steps, int64_t dk,
                    int64_t dv, float *floats)
{
    s->floats = floats;
    s->problem = (struct attn_problem){.struct_size = sizeof s->problem,
                                       .op = op,
                                       .score = ATTN_SCORE_SCALED_DOT,
                                       .dtype = dtype,
                                       .b = 1,
                                       .hq = 1,
                                       .hkv = 1,
                                       .sq = steps,
                                       .sk = steps,
                                       .dq = dk,
                                       .dk = dk,
                                       .dv = dv,
                                       .scale = 1,
                                       .tensors = s->tensors};
}

/* The tensor that comes next, dense. Returns how many elements it has. */
static int64_t dense(struct sequence *s, uint32_t role, const int64_t *shape, uint32_t rank)
{
    struct attn_tensor *t = &s->tensors[s->problem.n_tensors++];
    int64_t count = 1;
    *t = (struct attn_tensor){.role = role, .dtype = s->problem.dtype, .rank = rank};
    for (uint32_t a = rank; a-- > 0; count *= shape[a]) {
        t->shape[a] = shape[a];
        t->stride[a] = count;
    }
    return count;
}

void sequence_add(struct sequence *s, uint32_t role, double *data, const int64_t *shape,
                  uint32_t rank)
{
    const int64_t count = dense(s, role, shape, rank);
    struct attn_tensor *t = &s->tensors[s->problem.n_tensors - 1];
    t->data = data;
    if (s->problem.dtype == ATTN_F64)
        return;
    for (int64_t n = 0; n < count; n++)
        data[n] = s->floats[n] = (float)data[n];
    t->data = s->floats;
    s->floats += count;
}

void sequence_ask(struct sequence *s, uint32_t role, const int64_t *shape, uint32_t rank)
{
    static double unread[1];
    dense(s, role, shape, rank);
    s->tensors[s->problem.n_tensors - 1].data = unread;
}

void sequence_compute(const struct sequence *s, const struct attn_numerics *numerics,
                      enum ref_fill_kind fill, struct ref_result *result)
{
    struct ref_request request = {.numerics = numerics, .fill = fill, .threads = 2};
    char why[256] = "";
    ref_request_all(&s->problem, &request);
    if (ref_compute(&s->problem, &request, result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

void sequence_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.17g and %.17g differ", a, b);
}

double sequence_rounded(uint32_t dtype, double x)
{
    double stored;
    if (dtype == ATTN_F32 || dtype == ATTN_F64)
        return dtype == ATTN_F32 ? (float)x : x;
    attn_dtype_store(dtype, &stored, 0, x);
    return attn_dtype_load(dtype, &stored, 0);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void sequence_sort(double *x, size_t count)
{
    qsort(x, count, sizeof *x, ascending);
}
