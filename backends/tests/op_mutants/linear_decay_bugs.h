/* SPDX-License-Identifier: Apache-2.0 */
/* linear_decay_bugs.h - what can be wrong with linear_decay. */
#ifndef ATTN_LINEAR_DECAY_BUGS_H
#define ATTN_LINEAR_DECAY_BUGS_H

/* clang-format off */
#define LINEAR_DECAY_BUGS                                                                          \
    BUG(decay_other_form, "f32 bf16", "decay decay_inclusive", "exclusive and inclusive exchanged") \
    BUG(decay_own_step, "f32 bf16", "decay decay_inclusive", "the own step decays, too")           \
    BUG(decay_bonus_to_all, "f32 bf16", "decay_bonus", "the bonus enters the state")               \
    BUG(decay_bonus_missing, "f32 bf16", "decay_bonus", "no bonus")                                \
    BUG(decay_state_kept, "f32 bf16", "decay", "a head begins with the state of the one before")   \
    BUG(decay_block_twice, "f32 bf16", "decay", "the first step of a block decays twice")          \
    BUG(decay_block_never, "f32 bf16", "decay_inclusive", "the first step of a block does not decay") \
    BUG(decay_tail_lost, "f32 bf16", "decay", "an incomplete block at the end is not computed")    \
    BUG(decay_scale_twice, "f32 bf16", "decay_scale", "scale applied to q and to out")             \
    BUG(decay_scaled_state, "f32 bf16", "decay_state", "half of the state is handed on")           \
    BUG(decay_not_log, "f32 bf16", "decay", "the logarithm taken as the decay")                    \
    BUG(decay_clipped, "f32 bf16", "decay", "logarithms below -5 are -5")                          \
    BUG(decay_factored, "f32 bf16", "decay", "exp of a prefix times exp of its negative")          \
    BUG(decay_prefix_bf16, "f32", "decay", "prefix sums of the logarithms kept in bf16")           \
    BUG(decay_state_bf16, "f32", "decay", "the state is kept in bf16")                             \
    BUG(decay_transposed, "f32 bf16", "decay_state", "the state is read transposed")               \
    BUG(decay_state_head_0, "f32 bf16", "decay_state", "the state of head 0 for all heads")        \
    BUG(decay_column_0, "f32 bf16", "decay decay_inclusive", "the decay of column 0 for all columns") \
    BUG(decay_chunk_factored, "f32 bf16", "decay", "in chunks: exp of a sum times exp of its negative") \
    BUG(decay_chunk_kept, "f32 bf16", "decay", "in chunks: the state does not decay")              \
    BUG(decay_chunk_sum_bf16, "f32", "decay", "in chunks: decays added up in bf16")                \
    BUG(decay_chunk_state_bf16, "f32", "decay", "in chunks: the state is kept in bf16, undeclared")
/* clang-format on */

/* Not wrong: differences of sums over a chunk, which is declared; and a state in f16, too. */
#define LINEAR_DECAY_RIGHT                                                                         \
    RIGHT(decay_in_chunks, "decay decay_inclusive decay_bonus decay_scale decay_state", "chunks")  \
    RIGHT(decay_in_chunks_f16, "decay decay_inclusive decay_state", "chunks, the state in f16")

#endif
