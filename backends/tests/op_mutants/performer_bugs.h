/* SPDX-License-Identifier: Apache-2.0 */
/* performer_bugs.h - what can be wrong with performer. */
#ifndef ATTN_PERFORMER_BUGS_H
#define ATTN_PERFORMER_BUGS_H

/* clang-format off */
#define PERFORMER_BUGS                                                                             \
    BUG(perf_square_of_k, "f32 bf16", "perf", "|k'|^2 / 2 is missing")                             \
    BUG(perf_square_whole, "f32 bf16", "perf", "|x'|^2 without its half")                          \
    BUG(perf_root_once, "f32 bf16", "perf", "the root of the scale goes to q alone")               \
    BUG(perf_scale_to_k, "f32 bf16", "perf", "the whole scale goes to k")                          \
    BUG(perf_most_of_batches, "f32 bf16", "perf_eps", "the maximum with eps is that of all batches") \
    BUG(perf_most_by_key, "f32 bf16", "perf", "each key takes its own maximum out")                \
    BUG(perf_no_maximum, "f32 bf16", "perf", "no maximum is taken out")                            \
    BUG(perf_factors, "f32 bf16", "perf", "exp(w x') times exp of the rest")                       \
    BUG(perf_exclusive, "f32 bf16", "perf_causal", "a row does not see its own key")               \
    BUG(perf_dense_below, "f32 bf16", "perf_causal", "the denominator counts later keys")          \
    BUG(perf_len_below, "f32 bf16", "perf_len", "the denominator counts keys beyond len")          \
    BUG(perf_no_keys_nan, "f32 bf16", "perf_empty", "0/0 where there is no key")                   \
    BUG(perf_features_head_0, "f32 bf16", "perf_heads", "the features of head 0 for all heads")    \
    BUG(perf_heads_tiled, "f32 bf16", "perf_heads", "query head h reads key head h mod hkv")       \
    BUG(perf_state_kept, "f32 bf16", "perf", "a head begins with the state of the one before")     \
    BUG(perf_sum_kept, "f32 bf16", "perf", "a head begins with the denominator of the one before") \
    BUG(perf_tail_lost, "f32 bf16", "perf", "an incomplete block of features does not count")      \
    BUG(perf_eps_inside, "f32 bf16", "perf_eps", "eps inside the exponential")                     \
    BUG(perf_eps_most_of_all, "f32 bf16", "perf_eps", "with eps the maximum is of the whole exponent") \
    BUG(perf_eps_most_beyond_len, "f32 bf16", "perf_eps_len", "the maximum with eps counts keys beyond len") \
    BUG(perf_features_bf16, "f32", "perf", "features are kept in bf16")                            \
    BUG(perf_state_bf16, "f32", "perf", "the state is kept in bf16")
/* clang-format on */

/* Not wrong: without eps |q'|^2 / 2 is common to all features of a row. */
#define PERFORMER_RIGHT                                                                            \
    RIGHT(perf_no_square_of_q, "perf perf_causal perf_len", "|q'|^2 / 2 is missing")

#endif
