/* SPDX-License-Identifier: Apache-2.0 */
/* scores.c - steps 1 to 3 of attention for one query row: scale, softcap, bias. */
#include <math.h>
#include <string.h>

#include "reference/job.h"
#include "reference/score.h"
#include "reference/tanh.h"

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

    block->keys->score->scores(block, i, q, q_error, begin, end, scratch);
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
