/* SPDX-License-Identifier: Apache-2.0 */
/* masks.c - which keys a query may see, what is added to their scores, and what dropout keeps. */
#include <math.h>

#include "onednn.h"

/* Any offset or window beyond this reaches past every key there can be; clamping to it keeps the
 * sums below from overflowing. */
#define FAR ((int64_t)1 << 60)

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t valid_keys(const struct attn_problem *problem, const struct attn_onednn_view *len,
                          int64_t b, int64_t i)
{
    if (!len->dtype)
        return problem->sk;
    int64_t at = b * len->stride[0] + (len->rank == 2 ? i * len->stride[1] : 0);
    return clamp(((const int32_t *)len->data)[at], 0, problem->sk);
}

/* The offset that causal, window and alibi use in batch b. */
static int64_t offset(const struct attn_problem *problem,
                      const struct attn_onednn_operands *operands, int64_t b)
{
    if (problem->flags & ATTN_FLAG_OFF_BR) /* never with lengths per query: see supports */
        return valid_keys(problem, &operands->view[ATTN_LEN], b, 0) - problem->sq;
    return clamp(problem->off, -FAR, FAR);
}

struct attn_onednn_range attn_onednn_keys(const struct attn_problem *problem,
                                          const struct attn_onednn_operands *operands, int64_t b,
                                          int64_t i)
{
    int64_t first = 0, last = valid_keys(problem, &operands->view[ATTN_LEN], b, i);
    int64_t diagonal = i + offset(problem, operands, b);
    if (problem->flags & ATTN_FLAG_CAUSAL)
        last = clamp(diagonal + 1, 0, last);
    if (problem->flags & ATTN_FLAG_WINDOW) {
        if (problem->window_right >= 0)
            last = clamp(diagonal + clamp(problem->window_right, 0, FAR) + 1, 0, last);
        if (problem->window_left >= 0)
            first = clamp(diagonal - clamp(problem->window_left, 0, FAR), 0, last);
    }
    return (struct attn_onednn_range){first, last};
}

void attn_onednn_addend(const struct attn_problem *problem,
                        const struct attn_onednn_operands *operands, int64_t b, int64_t h,
                        int64_t i, float *row)
{
    const struct attn_onednn_view *bias = &operands->view[ATTN_BIAS];
    const struct attn_onednn_view *mask = &operands->view[ATTN_MASK];
    const struct attn_onednn_view *alibi = &operands->view[ATTN_ALIBI];
    struct attn_onednn_range keys = attn_onednn_keys(problem, operands, b, i);
    int64_t bias_at = b * bias->stride[0] + h * bias->stride[1] + i * bias->stride[2];
    int64_t mask_at = b * mask->stride[0] + h * mask->stride[1] + i * mask->stride[2];
    for (int64_t j = 0; j < problem->sk; j++)
        row[j] = j >= keys.first && j < keys.last ? 0 : -INFINITY;
    if (bias->dtype)
        for (int64_t j = keys.first; j < keys.last; j++)
            row[j] = attn_onednn_load(bias, bias_at + j * bias->stride[3]);
    if (alibi->dtype) {
        float slope = attn_onednn_load(alibi, h * alibi->stride[0]);
        int64_t diagonal = i + offset(problem, operands, b);
        for (int64_t j = keys.first; j < keys.last; j++)
            row[j] -= slope * (float)(diagonal < j ? j - diagonal : diagonal - j);
    }
    if (mask->dtype)
        for (int64_t j = keys.first; j < keys.last; j++)
            if (!mask->data[mask_at + j * mask->stride[3]])
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
static float *fill_norms(const struct attn_problem *p, const struct attn_onednn_view *view,
                         int64_t heads, int64_t rows, float *norms)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t r = 0; r < rows; r++) {
                int64_t at = b * view->stride[0] + h * view->stride[1] + r * view->stride[2];
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
                            const struct attn_onednn_operands *operands, float *norms)
{
    norms = fill_norms(problem, &operands->view[ATTN_K], problem->hkv, problem->sk, norms);
    fill_norms(problem, &operands->view[ATTN_Q], problem->hq, problem->sq, norms);
}

size_t attn_onednn_mask_plan(const struct attn_problem *problem,
                             const struct attn_onednn_operands *operands,
                             struct attn_onednn_mask *mask)
{
    const struct attn_onednn_view *len = &operands->view[ATTN_LEN];
    const struct attn_onednn_view *alibi = &operands->view[ATTN_ALIBI];
    const struct attn_onednn_view *full[] = {&operands->view[ATTN_MASK],
                                             &operands->view[ATTN_BIAS]};
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

void attn_onednn_mask_fill(const struct attn_problem *problem,
                           const struct attn_onednn_operands *operands,
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
                    attn_onednn_store(mask->dtype, mask->data, at + j, row[j]);
            }
}

/* Word 0 of Philox4x32-10 for counter {low, high, 0, 0} and key {low, high}. */
static uint32_t philox_word0(uint64_t counter, uint64_t seed)
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xd2511f53u * c[0], p1 = (uint64_t)0xcd9e8d57u * c[2];
        c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ key0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ key1;
        c[3] = (uint32_t)p0;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return c[0];
}

int attn_onednn_kept(const struct attn_problem *problem,
                     const struct attn_onednn_operands *operands, int64_t b, int64_t h, int64_t i,
                     int64_t j)
{
    const struct attn_onednn_view *keep = &operands->view[ATTN_KEEP];
    if (keep->dtype)
        return keep->data[b * keep->stride[0] + h * keep->stride[1] + i * keep->stride[2] +
                          j * keep->stride[3]] != 0;
    uint64_t index = (uint64_t)(((b * problem->hq + h) * problem->sq + i) * problem->sk + j);
    return (philox_word0(index, problem->dropout_seed) >> 8) * 0x1p-24 >= problem->dropout_p;
}
