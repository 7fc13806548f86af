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
    BUG(exp_2e6, exp, attention, "f32", "h=12 d=80 s=512", "exp 2e-6 wrong where 2.5e-7 is declared", "") \
    BUG(exp_2e6_far, exp, attention, "f32", "h=12 d=80 s=512", "exp 2e-5 wrong below -8 where 2.5e-7 is declared", "")
/* clang-format on */

#endif
