/* SPDX-License-Identifier: Apache-2.0 */
/* lsh_bugs.h - what can be wrong with lsh. */
#ifndef ATTN_LSH_BUGS_H
#define ATTN_LSH_BUGS_H

/* clang-format off */
#define LSH_BUGS                                                                                   \
    BUG(lsh_unstable, "f32 bf16", "lsh lsh_given", "tokens of a bucket in reverse order")          \
    BUG(lsh_tie_high, "f32 bf16", "lsh", "ties go to the highest bucket")                          \
    BUG(lsh_negative_first, "f32 bf16", "lsh", "[-x; x] instead of [x; -x]")                       \
    BUG(lsh_rotation_0, "f32 bf16", "lsh", "the rotations of round 0 for all rounds")              \
    BUG(lsh_head_0, "f32 bf16", "lsh", "the rotations of head 0 for all heads")                    \
    BUG(lsh_numbered_on, "f32 bf16", "lsh", "buckets numbered on from round to round")             \
    BUG(lsh_no_wrap, "f32 bf16", "lsh lsh_given", "the first piece sees only itself")              \
    BUG(lsh_round_wrap, "f32 bf16", "lsh lsh_given", "the look back stays inside a round")         \
    BUG(lsh_no_look_back, "f32 bf16", "lsh lsh_given", "no look back")                             \
    BUG(lsh_look_ahead, "f32 bf16", "lsh lsh_given", "the next piece instead of the one before")   \
    BUG(lsh_duplicates, "f32 bf16", "lsh lsh_given", "a key that is seen twice counts once")       \
    BUG(lsh_self_masked, "f32 bf16", "lsh_causal lsh_alone", "the own token masked even if it is alone") \
    BUG(lsh_self_seen, "f32 bf16", "lsh lsh_given", "the own token seen as any other")             \
    BUG(lsh_causal_place, "f32 bf16", "lsh_causal", "causal by place in the list")                 \
    BUG(lsh_not_normalised, "f32 bf16", "lsh lsh_given", "keys not normalised")                    \
    BUG(lsh_zero_key, "f32 bf16", "lsh lsh_given", "a key of zeros divided by its length")         \
    BUG(lsh_scale_twice, "f32 bf16", "lsh lsh_given", "divided by the root of dk once more")       \
    BUG(lsh_rounds_mean, "f32 bf16", "lsh lsh_given", "rounds averaged instead of merged by lse")  \
    BUG(lsh_lse_of_round, "f32 bf16", "lsh lsh_given", "lse of the last round alone")              \
    BUG(lsh_keys_bf16, "f32", "lsh lsh_given", "keys kept in bf16")                                \
    BUG(lsh_last_piece, "f32 bf16", "lsh lsh_given", "the last key of a piece is not seen")        \
    BUG(lsh_buckets_int8, "f32 bf16", "lsh_many", "buckets kept in 8 bits: beyond 127 they are negative")
/* clang-format on */

#endif
