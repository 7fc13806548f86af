/* SPDX-License-Identifier: Apache-2.0 */
/* honest.c - the roundings of the arithmetic of choice, and what is declared of it. */
#include "honest.h"

#include <fenv.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum rogue_arith rogue_arith;

static const float lag = 5;

static const struct {
    const char *name;
    uint32_t types;
} known[] = {{"f32", ANY_TYPE},
#define ARITH(name, types, text) {#name, types},
             ROGUE_ARITHS
#undef ARITH
};

void rogue_arith_choose(const char *name)
{
    for (size_t n = 0; n < sizeof(known) / sizeof(known[0]); n++)
        if (strcmp(known[n].name, name) == 0)
            rogue_arith = (enum rogue_arith)n;
}

bool rogue_arith_takes(const struct attn_problem *p, char *why, size_t size)
{
    const char *name = known[rogue_arith].name;
    if (!(known[rogue_arith].types >> p->dtype & 1))
        snprintf(why, size, "arith=%s does not take this type", name);
    else if (arith(stochastic) && (p->flags & ATTN_FLAG_DETERMINISTIC))
        snprintf(why, size, "arith=%s does not give the same bits twice", name);
    else
        return true;
    return false;
}

int64_t rogue_arith_splits(int64_t keys, int64_t splits)
{
    return arith(split) ? rogue_largest(splits, rogue_least(keys, 3)) : splits;
}

/* 11 bits, as tf32 has them. */
static float round_tf32(float x)
{
    const uint32_t bits = attn_f32_bits(x);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return x;
    return attn_f32_of_bits((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

static float round_to(uint32_t dtype, float x)
{
    return dtype == ATTN_F16    ? attn_f32_of_f16(attn_f16_of_f32(x))
           : dtype == ATTN_BF16 ? attn_f32_of_bf16(attn_bf16_of_f32(x))
                                : x;
}

void rogue_round_operands(float *row, int64_t n)
{
    for (int64_t c = 0; arith(tf32) && c < n; c++)
        row[c] = round_tf32(row[c]);
}

void rogue_round_scores(const struct rogue_job *job, float *s)
{
    for (int64_t t = 0; arith(unfused) && t < KEY_TILE; t++)
        s[t] = round_to(job->p->dtype, s[t]);
}

float rogue_round_score(const struct rogue_job *job, float s)
{
    return arith(unfused) ? round_to(job->p->dtype, s) : s;
}

/* ---- p ---- */

/* The type in which p is stored, 0 if it stays as it is. */
static uint32_t type_of_p(uint32_t dtype)
{
    return arith(bf16_p)       ? (uint32_t)ATTN_BF16
           : arith(f16_p)      ? (uint32_t)ATTN_F16
           : arith(stochastic) ? (uint32_t)(dtype == ATTN_BF16 ? ATTN_BF16 : ATTN_F16)
           : arith(unfused)    ? dtype
                               : 0;
}

/* 64 bits that no other n has (splitmix64). */
static uint64_t random_bits(uint64_t n)
{
    uint64_t x = (n + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* One of the two neighbours of p >= 0, the nearer more often. */
static float draw(uint32_t dtype, float p, uint64_t n)
{
    float low = round_to(dtype, p);
    const float least = dtype == ATTN_F16 ? 0x1p-24f : 0x1p-133f;
    if (low == p || p != p)
        return p;
    /* a step of the type at p: what its last bit is worth */
    int exponent;
    frexpf(p, &exponent);
    const float ulp = fmaxf(least, ldexpf(1, exponent - (dtype == ATTN_F16 ? 11 : 8)));
    if (low > p)
        low = round_to(dtype, low - ulp < 0 ? 0 : low - ulp);
    const double share = ((double)p - (double)low) / (double)ulp;
    return (double)(random_bits(n) >> 11) * 0x1p-53 < share ? low + ulp : low;
}

float rogue_round_p(const struct rogue_job *job, float *p, float sum)
{
    static _Atomic uint64_t draws;
    const uint32_t dtype = type_of_p(job->p->dtype);
    if (arith(tf32))
        rogue_round_operands(p, KEY_TILE);
    if (!dtype)
        return sum;
    const uint64_t first = atomic_fetch_add(&draws, KEY_TILE);
    float stored = 0;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        p[t] = arith(stochastic) ? draw(dtype, p[t], first + (uint64_t)t) : round_to(dtype, p[t]);
        stored += p[t];
    }
    return arith(f16_p) || arith(unfused) ? stored : sum;
}

/* ---- sums ---- */

float rogue_add_p(float before, const float *p, float sum)
{
    if (!arith(f16_sums))
        return before + sum;
    for (int64_t t = 0; t < KEY_TILE; t++)
        before = round_to(ATTN_F16, before + p[t]);
    return before;
}

void rogue_round_sums(float *row, int64_t n)
{
    for (int64_t c = 0; arith(f16_sums) && c < n; c++)
        row[c] = round_to(ATTN_F16, row[c]);
}

float rogue_arith_maximum(float before, float tile)
{
    const bool low = arith(lazy) && before != -INFINITY && tile - before <= lag;
    return tile > before && !low ? tile : before;
}

/* c += a b in f16, in order. Each step is computed in f64 and rounded to f16. */
static void product_f16(int64_t rows, int64_t inner, int64_t columns, const float *a,
                        int64_t a_step, const float *b, int64_t b_step, float *c, int64_t c_step)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < inner; i++)
            for (int64_t n = 0; n < columns; n++) {
                float *to = c + r * c_step + n;
                const double exact =
                    (double)a[r * a_step + i] * (double)b[i * b_step + n] + (double)*to;
                *to = round_to(ATTN_F16, (float)exact);
            }
}

void rogue_arith_product(int64_t rows, int64_t inner, int64_t columns, const float *a,
                         int64_t a_step, const float *b, int64_t b_step, float *c, int64_t c_step)
{
    const int rounding = fegetround();
    if (arith(f16_sums)) {
        product_f16(rows, inner, columns, a, a_step, b, b_step, c, c_step);
        return;
    }
    if (arith(truncate))
        fesetround(FE_TOWARDZERO);
    rogue_product(rows, inner, columns, a, a_step, b, b_step, c, c_step);
    if (arith(truncate))
        fesetround(rounding);
}

/* ---- ALiBi by key, stores ---- */

bool rogue_alibi_by_key(const struct rogue_job *job)
{
    return arith(alibi_by_key) && job->t.alibi.dtype && (job->p->flags & ATTN_FLAG_CAUSAL);
}

/* By how much scores are larger than the operator's: the same for all keys of a row. */
float rogue_alibi_shift(const struct rogue_job *job, const struct rogue_row *row, int64_t b)
{
    const struct attn_tensor *alibi = &job->t.alibi;
    if (!rogue_alibi_by_key(job))
        return 0;
    return attn_element_read(alibi->dtype, alibi->data, row->h * alibi->stride[0]) *
           (float)(row->i + attn_keys_offset(job->p, &job->t.len, b));
}

/* x toward zero in a type of 16 bits; what overflows stays infinite. */
static float truncated(uint32_t dtype, float x)
{
    const float near = round_to(dtype, x);
    uint16_t half = dtype == ATTN_F16 ? attn_f16_of_f32(x) : attn_bf16_of_f32(x);
    if (dtype == ATTN_F32 || isinf(near) || !(fabsf(near) > fabsf(x)))
        return near;
    half--; /* one step toward zero */
    return dtype == ATTN_F16 ? attn_f32_of_f16(half) : attn_f32_of_bf16(half);
}

void rogue_round_output(const struct rogue_job *job, float *o, int64_t n)
{
    for (int64_t c = 0; arith(truncate) && job->p->op == ATTN_OP_ATTENTION && c < n; c++)
        o[c] = truncated(job->p->dtype, o[c]);
}

void rogue_arith_declare(struct attn_numerics *numerics, const struct attn_problem *p)
{
    const uint32_t of_p = type_of_p(p->dtype);
    if (of_p)
        numerics->p_type = of_p;
    if (arith(on_rise) || arith(lazy))
        numerics->rescale_on_rise = 1;
    if (arith(tf32))
        numerics->u_in = numerics->u_pv = 0x1p-11;
    if (arith(f16_sums))
        numerics->acc_type = ATTN_F16;
    if (arith(f16_p) || arith(unfused))
        numerics->denominator = 2;
    if (arith(lazy))
        numerics->tau = (double)lag * (1 + 0x1p-20);
    if (arith(unfused)) {
        numerics->score_type = p->dtype;
        numerics->score_stores = 7; /* product, scale, three of softcap, bias, ALiBi */
    }
    if (arith(stochastic)) {
        numerics->p_stochastic = 1;
        numerics->deterministic = 0;
        numerics->invariant = 0;
    }
    if (arith(alibi_by_key))
        numerics->alibi_by_key = 1;
    if (arith(truncate)) {
        numerics->acc_toward_zero = 1;
        numerics->out_toward_zero = 1;
    }
}
