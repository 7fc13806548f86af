/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_mha.h - multi-head attention at real sizes: what its wide bounds hid. */
#ifndef ATTN_ROGUE_BUGS_MHA_H
#define ATTN_ROGUE_BUGS_MHA_H

/* clang-format off */
#define ROGUE_BUGS_MHA \
    BUG(mha_uniform, weights, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "q and k are ignored: all weights alike", "") \
    BUG(mha_scale_10, weights, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "the scale 10 % off", "") \
    BUG(mha_scale_2, weights, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "the scale 2 % off", "") \
    BUG(mha_one_row, row, mha, "f32 bf16", "hq=12 d=64 s=512,1024", "one row in the middle of the last head has twice the scale", "") \
    BUG(mha_last_key, weights, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "the last key is left out", "") \
    BUG(mha_first_key, weights, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "the first key is left out", "") \
    BUG(mha_w_q_w_k, projection, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "W_q and W_k exchanged", "") \
    BUG(mha_w_o_transposed, projection, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "W_o transposed where it is square", "") \
    BUG(mha_heads_reversed, heads, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "heads concatenated in reverse", "") \
    BUG(mha_slice_q, heads, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "slices of q begin one column late", "") \
    BUG(mha_slice_v, heads, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024", "slices of v begin one column late", "") \
    BUG(mha_kv_head, heads, mha, "f32 f16 bf16", "hq=12 hkv=4 d=64 s=128,197,512,1024", "key/value head h % hkv", "") \
    BUG(mha_kv_neighbour, heads, mha, "f32 f16 bf16", "hq=12 hkv=4 d=64 s=128,197,512,1024", "v of the next group for the last head of a group", "") \
    BUG(mha_pruned_renormalised, heads, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 prune=1/5", "remaining heads scaled up for those that are pruned", "") \
    BUG(mha_pruned_last, heads, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 prune=11", "a pruned last head is kept", "") \
    BUG(mha_b_q_b_k, bias, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 proj_bias=1", "biases of q and k exchanged", "") \
    BUG(mha_b_k_b_v, bias, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 proj_bias=1", "biases of k and v exchanged", "") \
    BUG(mha_b_v_twice, bias, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 proj_bias=1", "the bias of v added twice", "") \
    BUG(mha_b_q_scaled, bias, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 proj_bias=1", "the bias of q added after the scale", "") \
    BUG(mha_b_o_missing, bias, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 proj_bias=1", "the output bias forgotten", "") \
    BUG(mha_residual_before_w_o, residual, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 residual=1", "the residual added before W_o", "") \
    BUG(mha_residual_heads, residual, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 residual=1", "the residual taken from the first row of the tile", "") \
    BUG(mha_x_q_for_x_k, cross, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 kv=cross", "keys projected from x_q", "") \
    BUG(mha_x_q_for_x_v, cross, mha, "f32 f16 bf16", "hq=12 d=64 s=128,197,512,1024 kv=cross", "values projected from x_q", "") \
    BUG(mha_x_v_for_x_k, cross, mha, "f32 bf16", "pack=x_v", "keys projected from x_v", "") \
    BUG(mha_x_k_for_x_v, cross, mha, "f32 bf16", "pack=x_v", "values projected from x_k", "")
/* clang-format on */

#endif
