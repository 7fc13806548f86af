/* SPDX-License-Identifier: Apache-2.0 */
/* masks.c - what is added to the scores of a query's keys: bias, alibi, -infinity, norms. */
#include <math.h>

#include "onednn.h"

void attn_onednn_addend(const struct attn_problem *problem, const struct attn_operands *operands,
                        int64_t b, int64_t h, int64_t i, float *row)
{
    const struct attn_tensor *bias = &operands->bias;
    const struct attn_tensor *mask = &operands->mask;
    const struct attn_tensor *alibi = &operands->alibi;
    struct attn_keys keys = attn_keys_seen(problem, &operands->len, b, i);
    const uint8_t *allowed = attn_mask_row(mask, b, h, i);
    int64_t bias_at = attn_row_start(bias, b, h, i);
    for (int64_t j = 0; j < problem->sk; j++)
        row[j] = j >= keys.first && j < keys.end ? 0 : -INFINITY;
    if (bias->dtype)
        for (int64_t j = keys.first; j < keys.end; j++)
            row[j] = attn_onednn_load(bias, bias_at + j * bias->stride[3]);
    if (alibi->dtype) {
        float slope = attn_onednn_load(alibi, h * alibi->stride[0]);
        int64_t diagonal = i + attn_keys_offset(problem, &operands->len, b);
        for (int64_t j = keys.first; j < keys.end; j++)
            row[j] -= slope * (float)(diagonal < j ? j - diagonal : diagonal - j);
    }
    for (int64_t j = keys.first; j < keys.end && allowed; j++)
        if (!allowed[j * mask->stride[3]])
            row[j] = -INFINITY;
}

size_t attn_onednn_norms_bytes(const struct attn_problem *problem)
{
    size_t keys, queries, bytes;
    if (__builtin_mul_overflow((size_t)problem->hkv, (size_t)problem->sk, &keys) ||
        __builtin_mul_overflow((size_t)problem->hq, (size_t)problem->sq, &queries) ||
        __builtin_add_overflow(keys, queries, &bytes) ||
        __builtin_mul_overflow(bytes, (size_t)problem->b, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof(float), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* In double, rounded once. */
static float *fill_norms(const struct attn_problem *p, const struct attn_tensor *view,
                         int64_t heads, int64_t rows, float *norms)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++) {
                int64_t at = attn_row_start(view, b, h, r);
                double sum = 0;
                for (int64_t d = 0; d < p->dk; d++, at += view->stride[3]) {
                    double x = (double)attn_onednn_load(view, at);
                    sum += x * x;
                }
                *norms++ = (float)(-0.5 * p->scale * sum);
            }
    return norms;
}

void attn_onednn_norms_fill(const struct attn_problem *problem,
                            const struct attn_operands *operands, float *norms)
{
    norms = fill_norms(problem, &operands->k, problem->hkv, problem->sk, norms);
    fill_norms(problem, &operands->q, problem->hq, problem->sq, norms);
}

size_t attn_onednn_mask_plan(const struct attn_problem *problem,
                             const struct attn_operands *operands, struct attn_onednn_mask *mask)
{
    const struct attn_tensor *len = &operands->len;
    const struct attn_tensor *alibi = &operands->alibi;
    const struct attn_tensor *full[] = {&operands->mask, &operands->bias};
    int position = (problem->flags & (ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW)) != 0;
    int by_b = len->dtype && len->stride[0] != 0, by_h = alibi->dtype && alibi->stride[0] != 0;
    int by_i = position || alibi->dtype || (len->dtype && len->rank == 2 && len->stride[1] != 0);
    int gaussian = problem->score == ATTN_SCORE_GAUSSIAN;
    int data = len->dtype || alibi->dtype || gaussian;
    for (int t = 0; t < 2; t++) {
        data |= full[t]->dtype != 0;
        by_b |= full[t]->dtype && full[t]->stride[0] != 0;
        by_h |= full[t]->dtype && full[t]->stride[1] != 0;
        by_i |= full[t]->dtype && full[t]->stride[2] != 0;
    }
    *mask = (struct attn_onednn_mask){.needed = data || position,
                                      .constant = !data,
                                      .dtype = ATTN_F32,
                                      /* by head and not by row: the library's slow path */
                                      .b = by_b || gaussian ? problem->b : 1,
                                      .h = by_h || gaussian ? problem->hq : 1,
                                      .i = by_i || by_h || gaussian ? problem->sq : 1};
    if (mask->b == 1 && mask->h == 1 && mask->i > 1 && problem->dtype == ATTN_BF16 &&
        attn_onednn_uses_tiles()) { /* see onednn.h */
        mask->b = problem->b <= problem->hq ? problem->b : 1;
        mask->h = problem->b <= problem->hq ? 1 : problem->hq;
    }
    size_t bytes = sizeof(float);
    const int64_t extents[] = {mask->b, mask->h, mask->i, problem->sk};
    for (int a = 0; a < 4; a++)
        if (__builtin_mul_overflow(bytes, (size_t)extents[a], &bytes))
            return SIZE_MAX;
    return mask->needed ? bytes : 0;
}

static void add_key_norms(const struct attn_problem *p, const float *norms, int64_t b, int64_t h,
                          float *row)
{
    const float *keys = norms + (b * p->hkv + h / (p->hq / p->hkv)) * p->sk;
    for (int64_t j = 0; j < p->sk; j++)
        row[j] = row[j] == -INFINITY ? -INFINITY : row[j] + keys[j];
}

void attn_onednn_mask_fill(const struct attn_problem *problem, const struct attn_operands *operands,
                           const struct attn_onednn_mask *mask, float *row)
{
    int64_t at = 0;
    for (int64_t b = 0; b < mask->b; b++)
        for (int64_t h = 0; h < mask->h; h++)
            for (int64_t i = 0; i < mask->i; i++, at += problem->sk) {
                float *to = mask->dtype == ATTN_F32 ? (float *)mask->data + at : row;
                attn_onednn_addend(problem, operands, b, h, i, to);
                if (mask->norms)
                    add_key_norms(problem, mask->norms, b, h, to);
                for (int64_t j = 0; j < problem->sk && to == row; j++)
                    attn_element_write(mask->dtype, mask->data, at + j, row[j]);
            }
}
