/* SPDX-License-Identifier: Apache-2.0 */
/* weights_bugs.h - what can be wrong with attention whose weights are no softmax, and with its
 * gate. */
#ifndef ATTN_WEIGHTS_BUGS_H
#define ATTN_WEIGHTS_BUGS_H

/* clang-format off */
#define WEIGHTS_BUGS                                                                               \
    BUG(weights_row_sum, "f32 bf16", "weights_sigmoid weights_relu2", "divides by the sum of the row") \
    BUG(weights_no_bias, "f32 bf16", "weights_sigmoid weights_bias", "sigmoid of the score without its bias") \
    BUG(weights_mask_zero, "f32 bf16", "weights_sigmoid", "a forbidden key has a score of 0")      \
    BUG(weights_mask_late, "f32 bf16", "weights_relu2 weights_sigmoid", "the mask joins scores whose weights are made") \
    BUG(weights_mask_finite, "f32 bf16", "weights_sigmoid", "a forbidden key has a score of -10")  \
    BUG(weights_not_squared, "f32 bf16", "weights_relu2", "relu without its square")               \
    BUG(weights_not_clipped, "f32 bf16", "weights_relu2", "the square of scores below 0, too")     \
    BUG(weights_scale_late, "f32 bf16", "weights_relu2", "the scale multiplies the square")        \
    BUG(weights_bias_scaled, "f32 bf16", "weights_bias", "the scale multiplies the bias, too")     \
    BUG(weights_max_off, "f32 bf16", "weights_sigmoid weights_relu2", "the largest score of the row is taken off first") \
    BUG(weights_gate_early, "f32 bf16", "weights_gau", "the gate multiplies each v, before the sum over keys") \
    BUG(weights_gate_head_0, "f32 bf16", "weights_gate", "the gate of head 0 for all heads")       \
    BUG(weights_gate_squashed, "f32 bf16", "weights_gau weights_gate", "the gate goes through a sigmoid once more") \
    BUG(weights_gate_missing, "f32 bf16", "weights_gate", "no gate beside a softmax")              \
    BUG(weights_no_rescale, "f32 bf16", "weights_dropout", "kept weights are not divided by 1-p")  \
    BUG(weights_empty_nan, "f32 bf16", "weights_empty", "0/0 in a row without keys")               \
    BUG(weights_laplace_wide, "f32 bf16", "weights_laplace", "the variance taken as the deviation") \
    BUG(weights_laplace_mean, "f32 bf16", "weights_laplace", "the mean left out")                  \
    BUG(weights_tail_lost, "f32 bf16", "weights_sigmoid weights_relu2", "an incomplete tile of keys is left out") \
    BUG(weights_sum_bf16, "f32", "weights_sigmoid weights_relu2", "the sum over keys is kept in bf16")
/* clang-format on */

#endif
