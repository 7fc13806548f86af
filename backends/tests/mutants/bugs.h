/* SPDX-License-Identifier: Apache-2.0 */
/* bugs.h - the bugs of the mutant backend. Option bug=NAME plants one of them.
 *
 * BUG(name, class, types, cases, text). `class` is the kind of bug, from the list in README.md. The
 * bug can change results in the types of q that `types` names, on the lines of mutants.cases that
 * `cases` names. score.py reads this table too, so each entry is one line. */
#ifndef ATTN_MUTANT_BUGS_H
#define ATTN_MUTANT_BUGS_H

/* clang-format off */
#define MUTANT_BUGS                                                                                \
    BUG(causal_br_as_top_left, 1, "f32 bf16", "br", "bottom-right causal taken as top-left")       \
    BUG(causal_top_left_as_br, 1, "f32 bf16", "top", "top-left causal taken as bottom-right")      \
    BUG(causal_diagonal_plus, 2, "f32 bf16", "top br", "causal reads one key more")                \
    BUG(causal_diagonal_minus, 2, "f32 bf16", "top br", "causal leaves out the diagonal")          \
    BUG(tall_rows_skipped, 3, "f32 bf16", "tall", "rows from Sk on are not written")               \
    BUG(tall_rows_zero, 3, "f32 bf16", "tall", "rows from Sk on are 0")                            \
    BUG(causal_tile_skipped, 4, "f32 bf16", "past", "a tile that begins on the diagonal is left out") \
    BUG(causal_tile_included, 4, "f32 bf16", "past br", "a tile across the diagonal is taken whole") \
    BUG(window_left_plus, 5, "f32 bf16", "window", "window reaches one key too far left")          \
    BUG(window_left_minus, 5, "f32 bf16", "window window_left", "window one key short on the left") \
    BUG(window_right_plus, 5, "f32 bf16", "window", "window reaches one key too far right")        \
    BUG(window_right_minus, 5, "f32 bf16", "window", "window one key short on the right")          \
    BUG(window_swapped, 5, "f32 bf16", "window", "left and right of a window swapped")             \
    BUG(window_unbounded_literal, 5, "f32 bf16", "window_left", "-1 taken as a number")            \
    BUG(len_ignored, 6, "f32 bf16", "len", "valid lengths ignored")                                \
    BUG(len_minus_one, 6, "f32 bf16", "len", "the last valid key left out")                        \
    BUG(len_plus_one, 6, "f32 bf16", "len", "one key beyond the valid ones")                       \
    BUG(len_on_queries, 6, "f32 bf16", "len", "lengths applied to queries")                        \
    BUG(mask_inverted, 7, "f32 bf16", "bool", "true taken as masked")                              \
    BUG(mask_stride_b, 8, "f32 bf16", "bool", "mask of batch 0 for all batches")                   \
    BUG(mask_stride_h, 8, "f32 bf16", "bool", "mask of head 0 for all heads")                      \
    BUG(mask_stride_q, 8, "f32 bf16", "bool", "mask of query 0 for all queries")                   \
    BUG(mask_broadcast_ignored, 8, "f32 bf16", "bool_shared", "a mask broadcast over heads read as full") \
    BUG(bias_stride_b, 8, "f32 bf16", "bias", "bias of batch 0 for all batches")                   \
    BUG(bias_stride_h, 8, "f32 bf16", "bias", "bias of head 0 for all heads")                      \
    BUG(bias_stride_q, 8, "f32 bf16", "bias", "bias of query 0 for all queries")                   \
    BUG(mask_by_product, 9, "f32 bf16", "bool", "mask as (1 - m) * -inf: 0 * inf is NaN")          \
    BUG(mask_after_softmax, 9, "f32 bf16", "bool top", "weights multiplied by the mask after the sum") \
    BUG(mask_adds_1e4, 10, "f32 bf16", "bool top", "masked scores are lowered by 1e4")             \
    BUG(mask_adds_1e9, 10, "f32 bf16", "bool top", "masked scores are lowered by 1e9")             \
    BUG(mask_is_3e4, 10, "f32 bf16", "bool top", "masked scores are set to -3e4")                  \
    BUG(empty_row_nan, 11, "f32 bf16", "empty", "an empty row is 0/0")                             \
    BUG(empty_row_stale, 12, "f32 bf16", "empty", "an empty row is not written")                   \
    BUG(empty_row_garbage, 12, "f32 bf16", "empty", "an empty row is the last row")           \
    BUG(masked_nan_leaks, 13, "f32 bf16", "len top", "masked values are multiplied by 0")          \
    BUG(nan_swallowed, 14, "f32 bf16", "top nan_key", "a NaN score counts as masked")              \
    BUG(first_tile_masked, 15, "f32 bf16", "window_left", "exp(-inf + inf) in a first tile that is masked") \
    BUG(bool_is_one, 16, "f32 bf16", "bool", "only the byte 1 is true")                            \
    BUG(bool_low_bit, 16, "f32 bf16", "bool", "only the low bit of a boolean is read")             \
    BUG(bias_all_infinite, 17, "f32 bf16", "bias_inf", "a row whose bias is all -inf is NaN")      \
    BUG(tail_zero_counted, 18, "f32 bf16", "plain len", "keys of zeros beyond the last one counted") \
    BUG(tail_stale, 19, "f32 bf16", "plain", "keys of the tile before counted in the last tile")   \
    BUG(query_tail_skipped, 20, "f32 bf16", "odd", "an incomplete tile of queries is not computed") \
    BUG(query_tail_shifted, 20, "f32 bf16", "odd", "an incomplete tile of queries reads its rows too early") \
    BUG(lanes_dropped, 21, "f32 bf16", "width", "columns beyond the last full vector left out of q.k") \
    BUG(lanes_overrun, 21, "f32 bf16", "width", "columns beyond the width taken into q.k")         \
    BUG(out_lanes_dropped, 21, "f32 bf16", "width", "columns of out beyond the last full vector are 0") \
    BUG(seventeenth_key, 22, "f32 bf16", "odd", "last key lost where Sk % 16 is 1")                \
    BUG(one_key_of_many, 23, "f32 bf16", "many", "key 4097 dropped where there are 8192")          \
    BUG(value_of_neighbour, 24, "f32 bf16", "plain top", "two keys of a tile have their values swapped") \
    BUG(no_maximum, 25, "f32 bf16", "plain top", "exp without taking off the maximum")             \
    BUG(maximum_from_zero, 26, "f32 bf16", "plain top", "the maximum starts at 0")                 \
    BUG(maximum_from_1e5, 26, "f32 bf16", "plain top", "the maximum starts at -1e5")               \
    BUG(maximum_of_tile, 27, "f32 bf16", "plain long", "maximum of the tile for the running one, without rescaling") \
    BUG(maximum_of_tile_rescaled, 27, "f32 bf16", "long", "the same, rescaled: overflows where scores fall") \
    BUG(sum_not_rescaled, 28, "f32 bf16", "plain long", "the sum keeps the old maximum")           \
    BUG(out_not_rescaled, 29, "f32 bf16", "plain long", "the output keeps the old maximum")        \
    BUG(out_rescaled_twice, 30, "f32 bf16", "plain long", "the output is rescaled twice")          \
    BUG(sum_rescaled_twice, 30, "f32 bf16", "plain long", "the sum is rescaled twice")             \
    BUG(lazy_uncorrected, 31, "f32 bf16", "long", "lazy rescaling: the sum is corrected at the end, the output not") \
    BUG(lazy_lse, 31, "f32 bf16", "long", "lazy rescaling: lse from the true maximum and the lagging sum") \
    BUG(exp2_for_exp, 32, "f32 bf16", "plain top", "exp2 without log2 e")                          \
    BUG(bias_without_log2e, 32, "f32 bf16", "bias", "exp2 with log2 e on q.k but not on the bias") \
    BUG(sink_without_log2e, 32, "f32 bf16", "sink", "exp2 with log2 e on the scores but not on the sink") \
    BUG(exp_cubic, 33, "f32", "plain top", "exp by a cubic, 6e-4 wrong")                           \
    BUG(exp_of_bits, 33, "f32 bf16", "plain top", "exp by a linear mantissa, 3 % wrong")           \
    BUG(exp_of_minus_infinity, 34, "f32 bf16", "empty top", "exp(-inf) is exp(-87)")               \
    BUG(infinite_score_clamped, 35, "f32 bf16", "inf_key", "a score of +inf becomes the largest number") \
    BUG(scale_missing, 36, "f32 bf16", "plain top", "no scale")                                    \
    BUG(scale_twice, 36, "f32 bf16", "plain top", "the scale applied twice")                       \
    BUG(scale_inverse_d, 36, "f32 bf16", "plain top", "1/d for 1/sqrt(d)")                         \
    BUG(scale_from_dv, 36, "f32 bf16", "value_width", "1/sqrt(dv)")                                \
    BUG(scale_padded_d, 36, "f32 bf16", "width", "1/sqrt of the width padded to 8")                \
    BUG(scale_2_percent, 36, "f32 bf16", "plain top", "the scale 2 % off")                         \
    BUG(scale_sign, 36, "f32 bf16", "negative_scale", "sign of a negative scale lost")             \
    BUG(scale_given_ignored, 36, "f32 bf16", "negative_scale", "a given scale ignored")            \
    BUG(value_width_of_key, 37, "f32 bf16", "value_width key_width", "rows of v taken to be dk wide") \
    BUG(out_width_of_key, 37, "f32 bf16", "value_width", "only dk columns of out computed")        \
    BUG(gqa_tiled, 38, "f32 bf16", "gqa", "key/value head h % hkv")                                \
    BUG(head_batch_swapped, 39, "f32 bf16", "heads", "strides of heads and batches of k swapped")  \
    BUG(layout_swapped, 39, "f32 bf16", "bshd", "k in bshd read as bhsd")                          \
    BUG(input_contiguous, 40, "f32 bf16", "gaps permuted", "inputs taken to be dense")             \
    BUG(out_contiguous, 40, "f32 bf16", "gaps permuted", "out taken to be dense")                  \
    BUG(gaps_written, 40, "f32 bf16", "gaps", "a gap of out written")                              \
    BUG(broadcast_ignored, 40, "f32 bf16", "broadcast", "k and v of stride 0 read as full")        \
    BUG(alignment_assumed, 41, "f32 bf16", "offset", "address of k rounded down to 16")            \
    BUG(offset_32_bit, 42, "f32 bf16", "huge", "offsets wrap at 2^31 elements")                    \
    BUG(last_batch, 43, "f32 bf16", "heads len", "the last batch reads the keys of the one before") \
    BUG(last_head, 43, "f32 bf16", "heads", "the last head reads the keys of the one before")      \
    BUG(neighbour_batch, 44, "f32 bf16", "len", "the first key of the next batch joins those within len") \
    BUG(zero_length, 44, "f32 bf16", "zero_len", "a length of 0 taken as none given")              \
    BUG(pad_later_batches, 45, "f32 bf16", "plain", "padding counts in batches after the first")   \
    BUG(softcap_after_mask, 46, "f32 bf16", "softcap", "the mask's -inf capped")                   \
    BUG(softcap_before_scale, 46, "f32 bf16", "softcap", "capped before the scale")                \
    BUG(softcap_without_division, 46, "f32 bf16", "softcap", "c tanh(s)")                          \
    BUG(softcap_tail, 46, "f32 bf16", "softcap", "padding set to -inf before the cap")             \
    BUG(alibi_sign, 47, "f32 bf16", "alibi", "ALiBi added")                                        \
    BUG(alibi_offset, 47, "f32 bf16", "alibi", "ALiBi without the offset of queries")              \
    BUG(alibi_slopes, 47, "f32 bf16", "alibi", "2^(-8(h+1)/H) for a head count that is no power of two") \
    BUG(sink_twice, 48, "f32 bf16", "sink", "the sink counted twice")                              \
    BUG(sink_dropped, 48, "f32 bf16", "sink", "the sink left out")                                 \
    BUG(sink_outside_maximum, 48, "f32 bf16", "sink sink_large", "the sink takes no part in the maximum") \
    BUG(sink_scaled, 48, "f32 bf16", "sink", "the sink multiplied by the scale")                   \
    BUG(dropout_shifted, 49, "f32 bf16", "dropout", "keep mask of the next key")                   \
    BUG(dropout_unscaled, 49, "f32 bf16", "dropout", "1/(1-p) missing")                            \
    BUG(dropout_before_sum, 49, "f32 bf16", "dropout", "dropped weights left out of the denominator") \
    BUG(dropout_in_lse, 49, "f32 bf16", "dropout", "dropped weights left out of lse")              \
    BUG(lse_base_2, 50, "f32 bf16", "lse", "lse in base 2")                                        \
    BUG(lse_without_scale, 50, "f32 bf16", "lse", "maximum of unscaled scores in lse")             \
    BUG(lse_without_maximum, 50, "f32 bf16", "lse", "log of the sum alone")                        \
    BUG(lse_unwritten, 50, "f32 bf16", "decode", "lse not written where keys are split")           \
    BUG(lse_wrong_slot, 50, "f32 bf16", "lse", "lse written as [B,Sq,Hq]")                         \
    BUG(merge_empty_split, 51, "f32 bf16", "decode_len", "(-inf) - (-inf) when an empty split is merged") \
    BUG(splits_averaged, 52, "f32 bf16", "decode", "outputs of splits averaged")                   \
    BUG(last_split_dropped, 52, "f32 bf16", "decode", "the last split left out")                   \
    BUG(denominator_bf16, 53, "f32 bf16", "plain long", "the sum kept in bf16")                    \
    BUG(accumulate_f16, 53, "f32 bf16", "plain long many", "p v summed in f16")                    \
    BUG(accumulate_bf16, 53, "f32 bf16", "plain long many", "p v summed in bf16")                  \
    BUG(tf32_products, 54, "f32", "plain top", "q and k rounded to tf32")                          \
    BUG(q_prescaled_low, 55, "f32 bf16", "width sharp", "q times scale stored in bf16")            \
    BUG(scores_low, 55, "f32 bf16", "plain sharp", "scores stored in bf16")                          \
    BUG(p_stored_low, 55, "f32", "plain top", "p stored in bf16 in an f32 problem")                \
    BUG(p_truncated, 56, "bf16", "many_rows", "p truncated to bf16")                               \
    BUG(input_truncated, 56, "f32", "plain top", "q, k, v truncated to 16 bits of mantissa")       \
    BUG(out_truncated, 56, "bf16", "plain many_rows", "out truncated")                             \
    BUG(out_rounded_each_tile, 57, "bf16", "long many", "out stored in bf16 after each tile")      \
    BUG(subnormals_flushed, 58, "f16", "half", "subnormal inputs and outputs flushed to 0")        \
    BUG(additive_without_tanh, 59, "f32 bf16", "additive", "tanh dropped")                         \
    BUG(additive_swapped, 59, "f32 bf16", "additive", "W_q and W_k swapped")                       \
    BUG(additive_width, 59, "f32 bf16", "additive", "d hidden columns summed, not dh")             \
    BUG(bilinear_transposed, 60, "f32 bf16", "bilinear", "M transposed")                           \
    BUG(gaussian_key_norm, 61, "f32 bf16", "gaussian", "|k|^2 dropped")                            \
    BUG(projection_bias, 62, "f32 bf16", "mha", "bias of the projections dropped")                 \
    BUG(projection_transposed, 62, "f32 bf16", "mha", "W_q transposed")                            \
    BUG(heads_reversed, 63, "f32 bf16", "mha", "heads concatenated in reverse")                    \
    BUG(head_slice, 63, "f32 bf16", "mha", "slices of v begin one column late")                    \
    BUG(pruned_head_contributes, 63, "f32 bf16", "mha_pruned", "a pruned head still counts")       \
    BUG(residual_twice, 64, "f32 bf16", "mha_residual", "residual added twice")                    \
    BUG(residual_before_wo, 64, "f32 bf16", "mha_residual", "residual added before W_o")           \
    BUG(out_zero, 65, "f32 bf16", "plain top", "out is 0")                                         \
    BUG(out_doubled, 66, "f32 bf16", "plain top", "out is twice the truth")                        \
    BUG(out_5_percent, 66, "f32 bf16", "plain top", "out is 5 % too large")                        \
    BUG(result_cached, 67, "f32 bf16", "plain top", "the result of the first run handed out again") \
    BUG(input_modified, 68, "f32 bf16", "plain", "q scaled in place and restored afterwards")      \
    BUG(read_past_end, 69, "f32 bf16", "plain", "the element behind k is read")                    \
    BUG(read_before_start, 69, "f32 bf16", "plain", "the element before k is read")                \
    BUG(write_past_end, 70, "f32 bf16", "plain", "the element behind out is written")              \
    BUG(scratch_shared, 71, "f32 bf16", "threads", "two threads work in the same memory")          \
    BUG(merged_too_early, 72, "f32 bf16", "threads_decode", "splits merged before the other thread is done")
/* clang-format on */

enum mutant_bug {
    BUG_NONE,
#define BUG(name, class, types, cases, text) BUG_##name,
    MUTANT_BUGS
#undef BUG
};

/* The bug of this process. `create` sets it from the option. A worker serves one backend. */
extern enum mutant_bug mutant_planted;

#define bug(name) (mutant_planted == BUG_##name)

#endif
