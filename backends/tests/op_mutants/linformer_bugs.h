/* SPDX-License-Identifier: Apache-2.0 */
/* linformer_bugs.h - what can be wrong with linformer. */
#ifndef ATTN_LINFORMER_BUGS_H
#define ATTN_LINFORMER_BUGS_H

/* clang-format off */
#define LINFORMER_BUGS                                                                             \
    BUG(lin_f_ignored, "f32 bf16", "lin", "v is projected by E, too")                              \
    BUG(lin_exchanged, "f32 bf16", "lin", "E and F exchanged")                                     \
    BUG(lin_transposed, "f32 bf16", "lin lin_square", "E and F read as [Sk,r]")                    \
    BUG(lin_scale_r, "f32 bf16", "lin", "scale 1/sqrt(r)")                                         \
    BUG(lin_len_ignored, "f32 bf16", "lin_len", "the lengths are ignored")                         \
    BUG(lin_len_zeroed, "f32 bf16", "lin_len", "keys beyond a length times 0, not left out")       \
    BUG(lin_len_batch_0, "f32 bf16", "lin_len", "the length of batch 0 for all")                   \
    BUG(lin_len_mean, "f32 bf16", "lin_len", "projected rows divided by the share of valid keys")  \
    BUG(lin_head_0, "f32 bf16", "lin", "E and F of head 0 for all heads")                          \
    BUG(lin_head_query, "f32 bf16", "lin", "heads of E and F tiled over query heads, not blocked") \
    BUG(lin_batch_0, "f32 bf16", "lin", "the projection of batch 0 for all")                       \
    BUG(lin_last_key, "f32 bf16", "lin", "the last key is not projected")                          \
    BUG(lin_last_row, "f32 bf16", "lin", "the last projected row is left out")                     \
    BUG(lin_padded, "f32 bf16", "lin", "rows of zeros up to a multiple of 8 join the softmax")     \
    BUG(lin_keys_bf16, "f32", "lin", "projected keys stored in bf16")                              \
    BUG(lin_sum_bf16, "f32 bf16", "lin", "projections summed in bf16")                             \
    BUG(lin_lse_log2, "f32 bf16", "lin", "lse in base 2")
/* clang-format on */

#endif
