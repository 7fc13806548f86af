/* SPDX-License-Identifier: Apache-2.0 */
/* inner.h - the attention inside multi-head attention: its q, k, v and, where W_o lets one see
 * them, its outputs. */
#ifndef ATTN_INNER_H
#define ATTN_INNER_H

#include "tensor/types.h"

/* Where element o of a row of out comes from: one column of the concatenated heads. */
struct attn_inner_source {
    int64_t column; /* of the concatenated heads; -1: none, or several */
    double weight;  /* of W_o; 1 without W_o */
};

struct attn_inner {
    /* A problem of op=attention over the operands that the two have in common, and over q, k, v and
     * out in f64. Nothing else of the instance is set, except its case. */
    struct attn_instance instance;
    double *q, *k, *v, *out; /* [B,Hq,Sq,Dq], [B,Hkv,Sk,Dk], [B,Hkv,Sk,Dv], [B,Hq,Sq,Dv] */
    double *q_size;          /* [B,Hq,Sq]: norm of sum |x||w| + |b|, column by column */
    struct attn_inner_source *sources; /* of every element of a row of out */
    bool visible;  /* each column of the heads is an element of out, alone; pruned heads aside */
    double beside; /* the largest |b_o| + |x| that is added to one of them */
    bool exact;    /* no type rounds a sum of the projections: see attn_inner_create */
};

/* Projects with the weights that are not 0: cheap where these are few. `exact`: every sum of
 * absolute terms is at most 2^8 of a power of two, from 2^-14 on, of which all terms are whole
 * multiples, as are x and w of at most 2^8; so no order of summation is rounded in any floating
 * type, subnormals flushed or not (reference/ops/mha/OP.md). Returns 0, or -1: no memory. `mha`
 * must outlive the inner problem; both may be freed in any order otherwise. */
int attn_inner_create(const struct attn_instance *mha, struct attn_inner *inner);
void attn_inner_free(struct attn_inner *inner);

/* Reads out of `mha` through W_o into `inner->out`, bias and residual taken off. Columns that are
 * not visible become NaN. */
void attn_inner_read(const struct attn_instance *mha, struct attn_inner *inner);

/* Is a query head pruned? */
bool attn_inner_pruned(const struct attn_problem *p, int64_t h);

#endif
