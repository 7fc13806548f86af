/* SPDX-License-Identifier: Apache-2.0 */
/* chunked_bugs.h - what can be wrong with chunked. */
#ifndef ATTN_CHUNKED_BUGS_H
#define ATTN_CHUNKED_BUGS_H

/* clang-format off */
#define CHUNKED_BUGS                                                                               \
    BUG(chunked_inclusive, "f32 bf16", "chunked_causal", "the own chunk is in the state, too")     \
    BUG(chunked_late, "f32 bf16", "chunked_causal", "the state lacks the chunk before")            \
    BUG(chunked_last_lost, "f32 bf16", "chunked", "the state lacks the last chunk")                \
    BUG(chunked_linear_len, "f32 bf16", "chunked_len chunked_causal_len", "the linear part ignores len") \
    BUG(chunked_own_len, "f32 bf16", "chunked_len chunked_causal_len", "the chunk ignores len")    \
    BUG(chunked_crosses, "f32 bf16", "chunked chunked_causal", "the chunk has the key before it, too") \
    BUG(chunked_tail_full, "f32 bf16", "chunked chunked_bias", "the last chunk is read in full")   \
    BUG(chunked_tail_lost, "f32 bf16", "chunked chunked_causal", "the last chunk has no quadratic part") \
    BUG(chunked_by_s, "f32 bf16", "chunked_causal", "divides by S where it is causal")             \
    BUG(chunked_by_len, "f32 bf16", "chunked_len", "divides by len instead of S")                  \
    BUG(chunked_lin_scale, "f32 bf16", "chunked_scales", "a given lin_scale is ignored")           \
    BUG(chunked_bias_distance, "f32 bf16", "chunked_bias", "the bias by the distance of the keys") \
    BUG(chunked_bias_turned, "f32 bf16", "chunked_bias", "the bias is read transposed")            \
    BUG(chunked_bias_head_0, "f32 bf16", "chunked_bias", "the bias of head 0 for all heads")       \
    BUG(chunked_bias_scaled, "f32 bf16", "chunked_bias", "the bias is scaled, too")                \
    BUG(chunked_state_kept, "f32 bf16", "chunked chunked_causal", "a head begins with the state of the one before") \
    BUG(chunked_sees_later, "f32 bf16", "chunked_causal", "no causal mask in the chunk")           \
    BUG(chunked_no_relu, "f32 bf16", "chunked chunked_causal", "the square of negative scores")    \
    BUG(chunked_no_square, "f32 bf16", "chunked chunked_causal", "relu without its square")        \
    BUG(chunked_scale_late, "f32 bf16", "chunked chunked_causal", "scaled after the square")       \
    BUG(chunked_gate_own, "f32 bf16", "chunked_gate", "the gate on the quadratic part only")       \
    BUG(chunked_gate_missing, "f32 bf16", "chunked_gate", "no gate")                               \
    BUG(chunked_one_query, "f32 bf16", "chunked chunked_causal", "q in the place of lin_q")        \
    BUG(chunked_state_bf16, "f32", "chunked chunked_causal", "the state is kept in bf16")          \
    BUG(chunked_weight_bf16, "f32", "chunked chunked_causal", "weights are kept in bf16")
/* clang-format on */

#endif
