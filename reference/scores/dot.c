/* SPDX-License-Identifier: Apache-2.0 */
/* dot.c - q.k, with a scale by the width or without. */
#include <math.h>
#include <string.h>

#include "reference/scores/products.h"

static void scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    (void)i, (void)q_error;
    ref_score_dot(block->keys, q, begin, end, scratch->score[0]);
}

static void errors(const struct ref_score_span *x)
{
    double *abs_t = x->scratch->query[0], *t_error = x->scratch->query[1];

    for (int64_t c = 0; c < x->keys->dk; c++) {
        abs_t[c] = fabs(x->q[c]);
        t_error[c] = ref_score_error_of(x->q_error, c);
    }
    memcpy(x->scratch->flush + x->begin, x->keys->k_size + x->begin,
           (size_t)(x->end - x->begin) * sizeof(double));
    ref_score_dot_errors(x, abs_t, t_error, (double)(x->keys->dk + 3));
}

static void norm(const struct attn_problem *p, const struct ref_arithmetic *x, const double *part,
                 double q, double k, struct ref_score_norm *s)
{
    const double dk = (double)p->dk;

    (void)part;
    s->most = q * k;
    s->lost = 2 * dk + sqrt((double)p->dq) * q + sqrt(dk) * k;
    ref_score_norm_partial(x, ref_growth_rounded(x, dk + 3), dk, s);
    s->size = 2 * s->most;
}

static const uint32_t params[] = {0};

const struct ref_score ref_score_scaled_dot = {
    .score = ATTN_SCORE_SCALED_DOT,
    .name = "scaled_dot",
    .meaning = "q.k, scaled by 1/sqrt(dk) unless told otherwise",
    .traits = REF_SCORE_PRODUCT | REF_SCORE_PARTIAL | REF_SCORE_COLUMNS,
    .by_width = true,
    .params = params,
    .scores = scores,
    .errors = errors,
    .norm = norm,
};

const struct ref_score ref_score_plain_dot = {
    .score = ATTN_SCORE_DOT,
    .name = "dot",
    .meaning = "q.k",
    .traits = REF_SCORE_PRODUCT | REF_SCORE_PARTIAL | REF_SCORE_COLUMNS,
    .params = params,
    .scores = scores,
    .errors = errors,
    .norm = norm,
};
