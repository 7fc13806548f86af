/* SPDX-License-Identifier: Apache-2.0 */
/* honest.h - arithmetic of kernels that are right: option arith=NAME. Each says truly how it
 * computes, so a refusal is a fault of the bound, or of what honest.c declares.
 *
 *     ARITH(name, types, text)
 *
 * `types` are those of q that it takes. f32, which is not in the table, is all sums in f32. */
#ifndef ATTN_ROGUE_HONEST_H
#define ATTN_ROGUE_HONEST_H

#include "rogue.h"

#define ANY_TYPE (ATTN_BIT(ATTN_F32) | ATTN_BIT(ATTN_F16) | ATTN_BIT(ATTN_BF16))

/* clang-format off */
#define ROGUE_ARITHS \
    ARITH(on_rise, ANY_TYPE, "the same, and says that only a maximum that rises rescales") \
    ARITH(tf32, ANY_TYPE, "operands of q.k and of p v rounded to 11 bits") \
    ARITH(f16_sums, ATTN_BIT(ATTN_F16), "sums over columns and keys in f16, in order") \
    ARITH(bf16_p, ATTN_BIT(ATTN_BF16), "p rounded to bf16; the denominator sums it unrounded") \
    ARITH(f16_p, ANY_TYPE, "p rounded to f16; the denominator sums it as stored") \
    ARITH(split, ANY_TYPE, "keys always in up to 3 parts, which a merge joins") \
    ARITH(lazy, ANY_TYPE, "rescales only if the maximum rose by more than 5") \
    ARITH(unfused, ANY_TYPE, "scores stored in the type of q at each step, p once") \
    ARITH(stochastic, ANY_TYPE, "p rounded at random, to bf16 for bf16, else to f16") \
    ARITH(alibi_by_key, ANY_TYPE, "ALiBi as slope times j under a causal mask") \
    ARITH(truncate, ANY_TYPE, "sums of products and the store of out toward zero")
/* clang-format on */

enum rogue_arith {
    ROGUE_ARITH_f32,
#define ARITH(name, types, text) ROGUE_ARITH_##name,
    ROGUE_ARITHS
#undef ARITH
};

/* The one that was chosen; set by `create` and `supports`. */
extern enum rogue_arith rogue_arith;

#define arith(name) (rogue_arith == ROGUE_ARITH_##name)

void rogue_arith_choose(const char *name);
bool rogue_arith_takes(const struct attn_problem *p, char *why, size_t size);
void rogue_arith_declare(struct attn_numerics *numerics, const struct attn_problem *p);
int64_t rogue_arith_splits(int64_t keys, int64_t splits);

/* Operands of q.k and of p v, before the product. */
void rogue_round_operands(float *row, int64_t n);
/* rogue_product in the arithmetic of choice. */
void rogue_arith_product(int64_t rows, int64_t inner, int64_t columns, const float *a,
                         int64_t a_step, const float *b, int64_t b_step, float *c, int64_t c_step);
/* Scores after one step: those of a row and tile, or one. */
void rogue_round_scores(const struct rogue_job *job, float *s);
float rogue_round_score(const struct rogue_job *job, float s);
/* The maximum to which a row is scaled, after a tile whose maximum is `tile`. */
float rogue_arith_maximum(float before, float tile);
/* The p of a row and tile as they are stored. `sum` is theirs before; returns the sum that the
 * denominator takes. */
float rogue_round_p(const struct rogue_job *job, float *p, float sum);
/* The denominator so far, and p. `sum` is that of p. */
float rogue_add_p(float before, const float *p, float sum);
/* Sums that were rescaled, as they are stored. */
void rogue_round_sums(float *row, int64_t n);
bool rogue_alibi_by_key(const struct rogue_job *job);
float rogue_alibi_shift(const struct rogue_job *job, const struct rogue_row *row, int64_t b);
void rogue_round_output(const struct rogue_job *job, float *o, int64_t n);

#endif
