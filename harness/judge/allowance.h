/* SPDX-License-Identifier: Apache-2.0 */
/* allowance.h - how far a result may be from the true one, computed only from the operands' norms.
 * It is the bound of reference/BOUND.md, but every quantity that would need a reference is replaced
 * by one that is at least as large. It is wider than that bound, and cheap at any size.
 *
 * With S, B the largest |score| and |bias| that norms allow (Cauchy-Schwarz, row by row), V the
 * largest |v| of the head, n = Sk, and W not below any w_ij:
 *   x_ij <= max(2 (S + B), S + B + |sink|) + 2 (ds + tau)   scores lie in [-S-B, S+B]
 *   sum_j P_ij <= exp(2W)                                   sum p exp(w) <= exp(W), D >= exp(-W)
 *   A <= V exp(2W),  E1 <= 2V expm1(W) exp(W),  rho <= 2V (u_P exp(2W) + n eta_P exp(W))
 * since |ref| <= V and l >= 1. If v is constant, E1 = 0.
 *
 * Without a softmax (BOUND.md 7), w and p are those of the score at which f is steepest, and of the
 * largest score: E from n V (w + t), A <= n V (p + w + t). A gate counts as its largest element in
 * the row. */
#ifndef ATTN_ALLOWANCE_H
#define ATTN_ALLOWANCE_H

#include "reference/bound.h"
#include "reference/score.h"
#include "tensor/instance.h"

struct attn_allowance {
    const struct attn_problem *problem;
    const struct ref_score *score;
    struct ref_arithmetic arithmetic;
    double *keys;   /* [B,Hkv] largest |k| (Euclidean) */
    double *values; /* [B,Hkv] largest |v_jc|, after dropout's factor */
    double *scores; /* [Hq, REF_SCORE_PARTS] norms of score parameters */
    double bias;    /* largest |bias| */
    bool constant;  /* v is the same for all keys */
    /* Multi-head attention: [B,Hq,Sq] norm of what the sum of each column of q adds up in absolute
     * values. A scale that is folded into w_q costs two roundings of each term, so ds grows by
     * G(2) of it times the longest key. NULL: q is given. */
    const double *q_size;
};

/* For operators with q, k, v and a softmax (REF_QKV | REF_SOFTMAX), with finite operands. Returns
 * 0, or -1: no memory. */
int attn_allowance_create(const struct attn_instance *instance,
                          const struct attn_numerics *numerics, enum ref_fill_kind kind,
                          bool constant, struct attn_allowance *allowance);
void attn_allowance_free(struct attn_allowance *allowance);

/* The allowance of any element of a row of out, and of its lse, before rounding to the output type.
 */
void attn_allowance_row(const struct attn_allowance *allowance, int64_t b, int64_t h, int64_t i,
                        double *out, double *lse);

#endif
