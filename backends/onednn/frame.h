/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - the stages around attention. frame.c plans them, frame_run.c runs them. */
#ifndef ATTN_ONEDNN_FRAME_H
#define ATTN_ONEDNN_FRAME_H

#include "onednn.h"

/* The stages: copies and projections of x_q, x_k and x_v, q M, output projection, copy of out.
 * There is one more result, the heads before their projection. */
enum { ATTN_ONEDNN_STAGES = 9, ATTN_ONEDNN_BUFFERS = ATTN_ONEDNN_STAGES + 1 };

struct attn_onednn_stage {
    uint32_t from, to; /* an operand: a role, or ATTN_ROLE_USER + a buffer */
    int64_t batches, heads, rows, columns;
    struct attn_onednn_product *product; /* NULL: the stage is a copy */
    uint32_t weights, bias;              /* roles */
};

struct attn_onednn_frame {
    struct attn_onednn_library library;
    const struct attn_problem *problem;
    struct attn_operands operands; /* without data */
    struct attn_tensor buffer[ATTN_ONEDNN_BUFFERS];
    struct attn_onednn_stage stages[ATTN_ONEDNN_STAGES];
    int n_buffers, n, n_before;
    uint32_t q, k, v, out; /* operands as attention sees them */
};

struct attn_onednn_framed {
    const struct attn_onednn_frame *frame;
    struct attn_operands operands;
    struct attn_onednn_weights weights[ATTN_ONEDNN_STAGES];
};

/* An operand of the caller, or a buffer. */
const struct attn_tensor *attn_onednn_frame_find(const struct attn_onednn_frame *f,
                                                 const struct attn_operands *operands, uint32_t id);

/* The operands as attention sees them. */
void attn_onednn_frame_see(const struct attn_onednn_frame *f, const struct attn_operands *operands,
                           struct attn_operands *seen);

#endif
