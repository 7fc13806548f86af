/* SPDX-License-Identifier: Apache-2.0 */
/* backward_bugs.h - what can be wrong with attention_backward. */
#ifndef ATTN_BACKWARD_BUGS_H
#define ATTN_BACKWARD_BUGS_H

/* clang-format off */
#define BACKWARD_BUGS                                                                              \
    BUG(bwd_group_overwrites, "f32 f16 bf16", "bwd_heads", "dK, dV: the last head of a group overwrites the others") \
    BUG(bwd_group_index, "f32 f16 bf16", "bwd_heads", "key heads by the query head modulo hkv")        \
    BUG(bwd_group_dkv, "f32 f16 bf16", "bwd_heads", "dK, dV of a group have every second head only")   \
    BUG(bwd_v_width, "f32 f16 bf16", "bwd", "rows of v as long as those of k")                         \
    BUG(bwd_corner, "f32 f16 bf16", "bwd_corner", "causal from the top left")                          \
    BUG(bwd_corner_dkv, "f32 f16 bf16", "bwd_corner", "causal from the top left in dK and dV alone")   \
    BUG(bwd_mask_dkv, "f32 f16 bf16", "bwd", "the diagonal is masked in dK and dV")                    \
    BUG(bwd_mask_dq, "f32 f16 bf16", "bwd", "the diagonal is masked in dQ")                            \
    BUG(bwd_key_tail, "f32 f16 bf16", "bwd bwd_heads", "dQ lacks the last, partial tile of keys")      \
    BUG(bwd_query_tail, "f32 f16 bf16", "bwd bwd_heads", "dK, dV lack the last, partial tile of queries") \
    BUG(bwd_pair_dq, "f32 f16 bf16", "bwd_heads", "dQ lacks one pair")                                 \
    BUG(bwd_pair_dk, "f32 f16 bf16", "bwd_heads", "dK lacks one pair")                                 \
    BUG(bwd_pair_dv, "f32 f16 bf16", "bwd_heads", "dV lacks one pair")                                 \
    BUG(bwd_masked_times_0, "f32 f16 bf16", "bwd_len", "a forbidden cell is computed, and multiplied by 0") \
    BUG(bwd_masked_low, "f32 f16 bf16", "bwd bwd_len", "a forbidden cell has a score of -10, not none") \
    BUG(bwd_empty_nan, "f32 f16 bf16", "bwd_len", "-inf less the lse of a row without keys: NaN")      \
    BUG(bwd_empty_seen, "f32 f16 bf16", "bwd_len", "a row without keys sees all, with an lse of 0")    \
    BUG(bwd_unseen, "f32 f16 bf16", "bwd_len", "keys that nobody sees are not written")                \
    BUG(bwd_dq_adds, "f32 f16 bf16", "bwd", "dQ is added to that of the run before")                   \
    BUG(bwd_dk_adds, "f32 f16 bf16", "bwd", "dK is added to that of the batch before")                 \
    BUG(bwd_cap_factor, "f32 f16 bf16", "bwd_cap", "no 1 - tanh^2 of the softcap")                     \
    BUG(bwd_cap_after_bias, "f32 f16 bf16", "bwd_cap", "tanh of the score with its bias")              \
    BUG(bwd_bias_capped, "f32 f16 bf16", "bwd_cap", "dBias with the factor of the softcap")            \
    BUG(bwd_bias_last, "f32 f16 bf16", "bwd_cap", "dBias of the last batch, not of all")               \
    BUG(bwd_bias_kept, "f32 f16 bf16", "bwd_cap", "dBias without delta")                               \
    BUG(bwd_scale_dk, "f32 f16 bf16", "bwd", "dK without the scale")                                   \
    BUG(bwd_scale_dq, "f32 f16 bf16", "bwd", "dQ with the scale twice")                                \
    BUG(bwd_no_delta, "f32 f16 bf16", "bwd", "no delta")                                               \
    BUG(bwd_delta_bf16, "f32 f16 bf16", "bwd", "delta kept in bf16")                                        \
    BUG(bwd_delta_head, "f32 f16 bf16", "bwd", "delta of the head before")                             \
    BUG(bwd_lse_head, "f32 f16 bf16", "bwd", "lse of the head before")                                 \
    BUG(bwd_ds_f16, "f32 f16 bf16", "bwd", "dS kept in f16")                                           \
    BUG(bwd_p_bf16, "f32 f16", "bwd", "p kept in bf16 before dV")                                      \
    BUG(bwd_dp_kept, "f32 f16 bf16", "bwd_dropout", "dP not divided by what is kept")                  \
    BUG(bwd_dp_dropped, "f32 f16 bf16", "bwd_dropout", "dP of dropped pairs, too")                     \
    BUG(bwd_dv_dropped, "f32 f16 bf16", "bwd_dropout", "dV of dropped pairs, too")                     \
    BUG(bwd_delta_kept, "f32 f16 bf16", "bwd_dropout", "delta divided by what is kept once more")      \
    BUG(bwd_dropout_order, "f32 f16 bf16", "bwd_dropout", "dropout numbered by keys before queries")   \
    BUG(bwd_order_by_sign, "f32", "bwd", "dP summed from the last column where v begins with a negative") \
    BUG(bwd_delta_early, "f32 f16 bf16", "bwd", "delta is read before its last columns are added")  \
    BUG(bwd_delta_next, "f32 f16 bf16", "bwd", "delta of the row after")                           \
    BUG(bwd_delta_rounded, "f32 f16", "bwd", "delta of an out that was rounded to bf16")           \
    BUG(bwd_delta_own, "f32 f16 bf16", "bwd_dropout", "delta of an own out without dropout")       \
    BUG(bwd_dq_race, "f32 f16 bf16", "bwd_heads", "two tiles of keys add to dQ at once: one is lost, another one in each run") \
    BUG(bwd_empty_next, "f32 f16 bf16", "bwd_zero", "after a batch of length 0, dK and dV of the next are not written") \
    BUG(bwd_empty_dq, "f32 f16 bf16", "bwd_len", "dQ of rows without keys is not written")         \
    BUG(bwd_offset_31, "f32 f16 bf16", "bwd_huge", "dQ is stored by an offset of 31 bits")         \
    BUG(bwd_tie, "f32 f16 bf16", "bwd_heads", "of neighbours with the same score the second is dropped") \
    BUG(bwd_whole, "f32 f16 bf16", "bwd_heads", "a key with all the weight of its row is skipped: dV, too") \
    BUG(bwd_masked_1e4, "f32 f16 bf16", "bwd bwd_len", "a forbidden cell has its score less 1e4")  \
    BUG(bwd_exp_apart, "f32 f16 bf16", "bwd", "exp(s) times exp(-lse)")                            \
    BUG(bwd_lse_ceiling, "f32 f16 bf16", "bwd", "lse of at most 1000")                             \
    BUG(bwd_lse_floor, "f32 f16 bf16", "bwd", "lse of at least -10000")                            \
    BUG(bwd_skip_before, "f32 bf16", "bwd_heads", "a tile is skipped if the next one is 12 above it") \
    BUG(bwd_skip_after, "f32 bf16", "bwd_heads", "a tile is skipped if the one before is 12 above it") \
    BUG(bwd_factor_bf16, "f32 f16 bf16", "bwd_dropout", "the factor of dropout in bf16")           \
    BUG(bwd_sink_empty, "f32 f16 bf16", "bwd_sink_len", "dSink: a row without keys adds inf times 0") \
    BUG(bwd_sink_sign, "f32 f16 bf16", "bwd_sink", "dSink with the other sign")                        \
    BUG(bwd_sink_batch, "f32 f16 bf16", "bwd_sink", "dSink of the last batch alone")                   \
    BUG(bwd_sink_lse, "f32 f16 bf16", "bwd_sink", "weights without the share of the sink")             \
    BUG(bwd_slope_sign, "f32 f16 bf16", "bwd_sink", "dAlibi with the other sign")                      \
    BUG(bwd_slope_off, "f32 f16 bf16", "bwd_sink", "dAlibi: distances without the offset")             \
    BUG(bwd_window_right, "f32 f16 bf16", "bwd_window", "dK, dV ignore the right side of the window")  \
    BUG(bwd_window_left, "f32 f16 bf16", "bwd_window", "dQ: the left side of the window is one more")
/* clang-format on */

#endif
