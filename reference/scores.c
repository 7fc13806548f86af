/* SPDX-License-Identifier: Apache-2.0 */
/* scores.c - steps 1 to 3 of the operator for one query row: scale, softcap, bias. */
#include <math.h>
#include <string.h>

#include "reference/job.h"

/* Keys that are summed at a time, so that their partial sums stay in the first-level cache. */
#define KEY_BLOCK 512

/* s_j = sum_c t_c k_jc, the sum in order of c for every key. */
static void score_dot(const struct ref_keys *keys, const double *t, int64_t begin, int64_t end,
                      double *s)
{
    for (int64_t from = begin; from < end; from += KEY_BLOCK) {
        int64_t to = from + KEY_BLOCK < end ? from + KEY_BLOCK : end;
        memset(s + from, 0, (size_t)(to - from) * sizeof(*s));
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk, tc = t[c];
            for (int64_t j = from; j < to; j++)
                s[j] += tc * k[j];
        }
    }
}

static void score_bilinear(const struct ref_keys *keys, const double *q, int64_t begin, int64_t end,
                           struct ref_scratch *scratch)
{
    double *t = scratch->query[0];

    for (int64_t d = 0; d < keys->dk; d++)
        t[d] = 0.0;
    for (int64_t c = 0; c < keys->dq; c++)
        for (int64_t d = 0; d < keys->dk; d++)
            t[d] += q[c] * keys->m[c * keys->dk + d];
    score_dot(keys, t, begin, end, scratch->score[0]);
}

static void score_gaussian(const struct ref_keys *keys, const double *q, int64_t begin, int64_t end,
                           double *s)
{
    for (int64_t j = begin; j < end; j++)
        s[j] = 0.0;
    for (int64_t c = 0; c < keys->dk; c++) {
        const double *k = keys->kt + c * keys->sk;
        for (int64_t j = begin; j < end; j++)
            s[j] += (q[c] - k[j]) * (q[c] - k[j]);
    }
    for (int64_t j = begin; j < end; j++)
        s[j] *= -0.5;
}

static void score_additive(const struct ref_keys *keys, const double *q, int64_t begin, int64_t end,
                           double *s)
{
    for (int64_t j = begin; j < end; j++)
        s[j] = 0.0;
    for (int64_t x = 0; x < keys->dh; x++) {
        const double *hidden = keys->hidden + x * keys->sk;
        double z = 0.0;
        for (int64_t c = 0; c < keys->dq; c++)
            z += keys->w_q[x * keys->dq + c] * q[c];
        for (int64_t j = begin; j < end; j++)
            s[j] += keys->w_v[x] * tanh(z + hidden[j]);
    }
}

/* Step 3. A bias of -inf forbids its cell whatever the score is, so it must win over a NaN. */
static void add_bias(const struct ref_block *block, int64_t i, int64_t begin, int64_t end,
                     double *s)
{
    const struct ref_operands *operands = &block->job->operands;
    const struct attn_tensor *bias = operands->by_role[ATTN_BIAS];
    const struct attn_tensor *alibi = operands->by_role[ATTN_ALIBI];
    double slope = alibi ? ref_load(alibi, &block->h) : 0.0;
    int64_t diagonal = i + ref_offset(operands, block->b);

    for (int64_t j = begin; j < end; j++) {
        double b = bias ? ref_load(bias, (const int64_t[]){block->b, block->h, i, j}) : 0.0;
        if (b == -INFINITY) {
            s[j] = -INFINITY;
            continue;
        }
        if (bias)
            s[j] += b;
        if (alibi)
            s[j] -= slope * fabs((double)(diagonal - j));
    }
}

void ref_scores(const struct ref_block *block, int64_t i, const double *q, int64_t begin,
                int64_t end, struct ref_scratch *scratch)
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
        score_additive(block->keys, q, begin, end, s[0]);
        break;
    default:
        score_dot(block->keys, q, begin, end, s[0]);
    }
    for (int64_t j = begin; j < end; j++)
        s[0][j] *= problem->scale;
    for (int64_t j = begin; j < end; j++)
        s[1][j] = problem->flags & ATTN_FLAG_SOFTCAP
                      ? problem->softcap * tanh(s[0][j] / problem->softcap)
                      : s[0][j];
    for (int64_t j = begin; j < end; j++)
        s[2][j] = s[1][j];
    add_bias(block, i, begin, end, s[2]);
}
