/* SPDX-License-Identifier: Apache-2.0 */
/* wkv_bugs.h - what can be wrong with wkv. */
#ifndef ATTN_WKV_BUGS_H
#define ATTN_WKV_BUGS_H

/* clang-format off */
#define WKV_BUGS                                                                                   \
    BUG(wkv_decay_late, "f32 bf16", "wkv", "the newest past step has already decayed")             \
    BUG(wkv_bonus_in_state, "f32 bf16", "wkv", "the bonus enters the state")                       \
    BUG(wkv_bonus_missing, "f32 bf16", "wkv", "no bonus")                                          \
    BUG(wkv_no_maximum, "f32 bf16", "wkv", "exp of the keys as they are")                          \
    BUG(wkv_state_bf16, "f32", "wkv wkv_long", "the state is kept in bf16")                        \
    BUG(wkv_state_kept, "f32 bf16", "wkv", "a batch entry begins with the state of the one before") \
    BUG(wkv_channel_32, "f32 bf16", "wkv", "the decay of channel c modulo 32")                     \
    BUG(wkv_decay_is_log, "f32 bf16", "wkv", "the decay taken as its logarithm")                   \
    BUG(wkv_updated_first, "f32 bf16", "wkv", "the state is updated before the output")            \
    BUG(wkv_block_end_lost, "f32 bf16", "wkv", "the last step of a block does not enter the state") \
    BUG(wkv_tail_lost, "f32 bf16", "wkv_odd", "an incomplete block at the end is not computed")    \
    BUG(wkv_state_in_ignored, "f32 bf16", "wkv_state", "what went before is left out")             \
    BUG(wkv_state_in_decays, "f32 bf16", "wkv_state", "what went before decays once too often")    \
    BUG(wkv_state_early, "f32 bf16", "wkv_state", "the state before the last step is handed on")   \
    BUG(wkv_starts_at_zero, "f32 bf16", "wkv", "the running exponent begins at 0")                 \
    BUG(wkv_own_uncounted, "f32 bf16", "wkv", "the own step is missing in the denominator")
/* clang-format on */

#endif
