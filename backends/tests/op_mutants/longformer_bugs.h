/* SPDX-License-Identifier: Apache-2.0 */
/* longformer_bugs.h - what can be wrong with windows, steps and global tokens. */
#ifndef ATTN_LONGFORMER_BUGS_H
#define ATTN_LONGFORMER_BUGS_H

/* clang-format off */
#define LONGFORMER_BUGS                                                                            \
    BUG(sparse_counted_twice, "f32 bf16", "sparse", "a global key within the window counts twice") \
    BUG(sparse_border_twice, "f32 bf16", "sparse", "keys at the borders of chunks count twice")    \
    BUG(sparse_row_is_local, "f32 bf16", "sparse", "global rows see their window only")            \
    BUG(sparse_key_is_local, "f32 bf16", "sparse", "global keys outside the window are not seen")  \
    BUG(sparse_row_projection, "f32 bf16", "sparse_own", "global rows use q, k and v")             \
    BUG(sparse_key_projection, "f32 bf16", "sparse_own", "local rows use k_global of global keys") \
    BUG(sparse_value_projection, "f32 bf16", "sparse_own", "global rows use k_global with v")      \
    BUG(sparse_batch_projection, "f32 bf16", "sparse_own", "k_global of batch 0 for all")          \
    BUG(sparse_dilated_global, "f32 bf16", "sparse_steps", "global keys are seen in steps only")   \
    BUG(sparse_dilation_0, "f32 bf16", "sparse_steps", "the steps of head 0 for all heads")        \
    BUG(sparse_steps_are_keys, "f32 bf16", "sparse_steps", "the window counts keys, not steps")    \
    BUG(sparse_steps_from_0, "f32 bf16", "sparse_steps", "steps count from key 0, not from the query") \
    BUG(sparse_len_global, "f32 bf16", "sparse_len", "len does not hold for global keys")          \
    BUG(sparse_causal_global, "f32 bf16", "sparse_causal", "causal does not hold for global keys") \
    BUG(sparse_batch_0, "f32 bf16", "sparse sparse_own", "the global tokens of batch 0 for all")   \
    BUG(sparse_first_tokens, "f32 bf16", "sparse", "as many first tokens instead of the global ones") \
    BUG(sparse_two_softmaxes, "f32 bf16", "sparse", "window and global keys have a softmax each")  \
    BUG(sparse_zero_times_v, "f32 bf16", "sparse_len", "keys that are not seen are multiplied by 0")
/* clang-format on */

#endif
