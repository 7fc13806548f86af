/* SPDX-License-Identifier: Apache-2.0 */
/* scores.c - steps 1 to 3 of the operator for one query row: scale, softcap, bias. */
#include <math.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/job.h"
#include "reference/sums.h"
#include "reference/tanh.h"

/* Keys whose sums stay in the first-level cache while all columns pass. */
#define KEYS 512

/* s_j = t.k_j */
static void score_dot(const struct ref_keys *keys, const double *t, int64_t begin, int64_t end,
                      double *s)
{
    memset(s + begin, 0, (size_t)(end - begin) * sizeof(*s));
    ref_add_rows(t, keys->kt + begin, keys->sk, NULL, keys->dk, end - begin, s + begin);
}

/* t = q^T M, then a dot product */
static void score_bilinear(const struct ref_keys *keys, const double *q, int64_t begin, int64_t end,
                           struct ref_scratch *scratch)
{
    double *t = scratch->query[0];

    memset(t, 0, (size_t)keys->dk * sizeof(*t));
    ref_add_rows(q, keys->m, keys->dk, NULL, keys->dq, keys->dk, t);
    score_dot(keys, t, begin, end, scratch->score[0]);
}

ATTN_CLONES("avx2", "avx512f")
static void score_gaussian(const struct ref_keys *keys, const double *q, int64_t begin, int64_t end,
                           double *restrict s)
{
    for (int64_t from = begin; from < end; from += KEYS) {
        int64_t to = from + KEYS < end ? from + KEYS : end;
        for (int64_t j = from; j < to; j++)
            s[j] = 0.0;
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk, qc = q[c];
            for (int64_t j = from; j < to; j++)
                s[j] += (qc - k[j]) * (qc - k[j]);
        }
        for (int64_t j = from; j < to; j++)
            s[j] *= -0.5;
    }
}

/* Step 3. A bias of -inf forbids its cell whatever the score is, so it must win over a NaN. */
static void add_bias(const struct ref_block *block, int64_t i, int64_t begin, int64_t end,
                     struct ref_scratch *scratch)
{
    const struct ref_operands *operands = &block->job->operands;
    const struct attn_tensor *bias = operands->by_role[ATTN_BIAS];
    const struct attn_tensor *alibi = operands->by_role[ATTN_ALIBI];
    double slope = alibi ? ref_load(alibi, &block->h) : 0.0;
    int64_t diagonal = i + ref_offset(operands, block->b);
    double *s = scratch->score[2], *b = scratch->bias;

    if (bias)
        ref_load_vector(bias, (const int64_t[]){block->b, block->h, i, begin}, end - begin,
                        b + begin);
    for (int64_t j = begin; alibi && j < end; j++)
        s[j] -= slope * fabs((double)(diagonal - j));
    for (int64_t j = begin; bias && j < end; j++)
        s[j] = b[j] == -INFINITY ? -INFINITY : s[j] + b[j];
}

void ref_scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    const struct attn_problem *problem = block->job->operands.problem;
    double *const *s = scratch->score;

    switch (problem->score) {
    case ATTN_SCORE_BILINEAR:
        score_bilinear(block->keys, q, begin, end, scratch);
        break;
    case ATTN_SCORE_GAUSSIAN:
        score_gaussian(block->keys, q, begin, end, s[0]);
        break;
    case ATTN_SCORE_ADDITIVE:
        ref_scores_additive(block, q, q_error, begin, end, scratch);
        break;
    default:
        score_dot(block->keys, q, begin, end, s[0]);
    }
    for (int64_t j = begin; j < end; j++)
        s[0][j] *= problem->scale;
    memcpy(s[1] + begin, s[0] + begin, (size_t)(end - begin) * sizeof(double));
    if (problem->flags & ATTN_FLAG_SOFTCAP) {
        for (int64_t j = begin; j < end; j++)
            s[1][j] /= problem->softcap;
        ref_tanh(s[1] + begin, end - begin, s[1] + begin);
        for (int64_t j = begin; j < end; j++)
            s[1][j] *= problem->softcap;
    }
    memcpy(s[2] + begin, s[1] + begin, (size_t)(end - begin) * sizeof(double));
    add_bias(block, i, begin, end, scratch);
}
