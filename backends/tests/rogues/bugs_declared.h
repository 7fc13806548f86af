/* SPDX-License-Identifier: Apache-2.0 */
/* bugs_declared.h - numerics declared so wide that they hide a bug. */
#ifndef ATTN_ROGUE_BUGS_DECLARED_H
#define ATTN_ROGUE_BUGS_DECLARED_H

/* clang-format off */
#define ROGUE_BUGS_DECLARED \
    BUG(declared_u_in, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "u_in=0.045 hides a width of 80 taken as 96", "") \
    BUG(declared_e_exp, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "e_exp=0.49 hides weights that are all alike", "") \
    BUG(declared_e_arg, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "e_arg=0.1 hides a scale 10 % off", "") \
    BUG(declared_e_tanh, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512 softcap=2", "e_tanh=0.3 hides a softcap that is not there", "") \
    BUG(declared_e_log, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512 out=lse", "e_log=0.2 hides an lse in base 2 to the power 1.1", "") \
    BUG(declared_partial, inflated, attention, "f32 bf16", "h=12 d=80 s=512", "partial_type=bf16, partial_terms=1 hide a dropped key", "") \
    BUG(declared_partial_terms, inflated, attention, "f32 bf16", "h=12 d=80 s=512", "partial sums of 512 terms in bf16 hide a scale 10 % off", "") \
    BUG(declared_key_tile, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "key_tile=1 and a long chain hide a scale 10 % off", "") \
    BUG(declared_chain, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "a chain of 2^22 additions hides a scale 10 % off", "") \
    BUG(declared_splits, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "2^22 splits hide a scale 10 % off", "") \
    BUG(declared_tau, inflated, attention, "f32 f16 bf16", "h=12 d=80 s=512", "a maximum that lags by 60 hides a scale 10 % off", "") \
    BUG(declared_acc, narrow, attention, "f32", "h=12 d=80 s=512", "sums in bf16 declared hide a dropped key", "") \
    BUG(declared_score, narrow, attention, "f32", "h=12 d=80 s=512", "scores stored in bf16 declared hide a scale 1 % off", "") \
    BUG(declared_p, narrow, attention, "f32", "h=12 d=80 s=512", "p stored in bf16 declared hides a key whose weight is halved", "") \
    BUG(declared_truncation, narrow, attention, "f32", "h=12 d=80 s=512", "sums in bf16 toward zero declared hide a scale 10 % off", "") \
    BUG(declared_empty, rule, attention, "f32 f16 bf16", "h=4 d=64 sq=512 sk=256 mask=causal_br", "rows without keys declared NaN, and 64 other rows are NaN", "") \
    BUG(joint_all_uniform, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "all declarations at their limits together hide weights that are all alike", "") \
    BUG(joint_all_scale_10, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "all declarations at their limits together hide a scale 10 % off", "") \
    BUG(joint_all_scale_2, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "all declarations at their limits together hide a scale 2 % off", "") \
    BUG(joint_all_last_key, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "all declarations at their limits together hide a dropped key", "") \
    BUG(joint_scores_uniform, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "u_in and eight stores of scores at their limits hide weights that are all alike", "") \
    BUG(joint_scores_scale_10, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "u_in and eight stores of scores at their limits hide a scale 10 % off", "") \
    BUG(joint_scores_scale_2, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "u_in and eight stores of scores at their limits hide a scale 2 % off", "") \
    BUG(joint_weights_uniform, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "e_exp, e_arg and tau at their limits hide weights that are all alike", "") \
    BUG(joint_weights_scale_10, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "e_exp, e_arg and tau at their limits hide a scale 10 % off", "") \
    BUG(joint_values_last_key, joint, attention, "f32 bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "u_pv, p and partial sums at their limits hide a dropped key", "") \
    BUG(joint_sums_scale_10, joint, attention, "bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "sums in 16 bits, their chain and splits at their limits hide a scale 10 % off", "") \
    BUG(joint_sums_scale_2, joint, attention, "bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "sums in 16 bits, their chain and splits at their limits hide a scale 2 % off", "") \
    BUG(joint_sums_last_key, joint, attention, "bf16 f16", "h=4 d=64 s=197 | h=2 d=64 s=512 mask=causal", "sums in 16 bits, their chain and splits at their limits hide a dropped key", "") \
    BUG(exp_2e6, exp, attention, "f32", "h=12 d=80 s=512", "exp 2e-6 wrong where 2.5e-7 is declared", "") \
    BUG(exp_2e6_far, exp, attention, "f32", "h=12 d=80 s=512", "exp 2e-5 wrong below -8 where 2.5e-7 is declared", "") \
    BUG(exp_2e6_mha, exp, mha, "f32", "hq=4 d=64 s=197 | hq=8 hkv=2 d=64 sq=4 sk=600 kv=cross", "exp 2e-6 wrong in multi-head attention", "") \
    BUG(exp_2e6_split, exp, attention, "f32", "hq=8 hkv=2 d=64 sq=1 sk=1024 | h=4 d=64 sq=4 sk=777", "exp 2e-6 wrong where keys are split", "") \
    BUG(exp_2e6_packed, exp, attention, "f32", "hq=8 hkv=2 d=64 sq=1 sk=300 | hq=8 hkv=2 d=64 sq=5 sk=128", "exp 2e-6 wrong where heads are packed", "") \
    BUG(exp_2e6_rescale, exp, attention, "f32", "h=4 d=64 s=197", "2e-6 wrong where an earlier tile is brought to a new maximum", "") \
    BUG(exp_2e5_merge, exp, attention, "f32", "h=4 d=64 sq=4 sk=777", "exp 2e-5 wrong where splits are merged", "") \
    BUG(exp_5e6_lse, exp, attention, "f16 bf16", "h=4 d=64 s=197 out=lse", "exp 5e-6 wrong, which only lse in f32 shows", "")
/* clang-format on */

#endif
