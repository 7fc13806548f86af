/* SPDX-License-Identifier: Apache-2.0 */
/* linear_decay.c - linear attention with decay, step by step, in blocks of steps. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { BLOCK = 16 }; /* steps, as far as bugs of blocks go */

/* One head: working memory and what it is made of. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h;
    float *state;  /* [Dk,Dv]; factored: without its decay */
    float *prefix; /* [Dk] sums of logarithms from the first step on */
    float *out;    /* [Dv] */
};

static float at(const struct attn_tensor *t, const struct head *x, int64_t step, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, x->b, x->h, step) + c * t->stride[3]);
}

/* The logarithm of the decay of column c at a step. */
static float logarithm(const struct head *x, int64_t step, int64_t c)
{
    float g = at(&x->o->decay, x, step, bug(decay_column_0) ? 0 : c);
    if (bug(decay_clipped))
        g = fmaxf(g, -5);
    if (bug(decay_block_twice) && step % BLOCK == 0)
        g *= 2;
    if (bug(decay_block_never) && step % BLOCK == 0)
        g = 0;
    return g;
}

static float factor(const struct head *x, int64_t step, int64_t c)
{
    const float g = logarithm(x, step, c);
    if (bug(decay_prefix_bf16)) {
        const float before = op_mutant_bf16(x->prefix[c]), after = op_mutant_bf16(before + g);
        return expf(after - before);
    }
    return bug(decay_not_log) ? g : expf(g);
}

/* exp of the prefix: what a factored state is multiplied by when it is read. */
static float whole(const struct head *x, int64_t c)
{
    return bug(decay_factored) ? expf(x->prefix[c]) : 1;
}

static void fade(const struct head *x, int64_t step)
{
    for (int64_t c = 0; c < x->p->dk; c++) {
        const float by = bug(decay_factored) ? 1 : factor(x, step, c);
        for (int64_t d = 0; d < x->p->dv; d++)
            x->state[c * x->p->dv + d] *= by;
        x->prefix[c] += logarithm(x, step, c);
    }
}

static void take(const struct head *x, int64_t step)
{
    for (int64_t c = 0; c < x->p->dk; c++) {
        float k = at(&x->o->k, x, step, c) / whole(x, c);
        if (bug(decay_bonus_to_all) && x->o->bonus.dtype)
            k *= op_mutant_get(&x->o->bonus,
                               x->h * x->o->bonus.stride[0] + c * x->o->bonus.stride[1]);
        for (int64_t d = 0; d < x->p->dv; d++) {
            float *s = &x->state[c * x->p->dv + d];
            *s += k * at(&x->o->v, x, step, d);
            *s = bug(decay_state_bf16) ? op_mutant_bf16(*s) : *s;
        }
    }
}

static void give(const struct head *x, int64_t step)
{
    const struct attn_tensor *out = &x->o->out, *bonus = &x->o->bonus;
    const float scale = (float)x->p->scale * (bug(decay_scale_twice) ? (float)x->p->scale : 1);
    memset(x->out, 0, (size_t)x->p->dv * sizeof(float));
    for (int64_t c = 0; c < x->p->dk; c++) {
        const float q = at(&x->o->q, x, step, c);
        float own = q * at(&x->o->k, x, step, c);
        if (bonus->dtype && !bug(decay_bonus_missing))
            own *= op_mutant_get(bonus, x->h * bonus->stride[0] + c * bonus->stride[1]);
        if (bug(decay_own_step))
            own *= expf(logarithm(x, step, c));
        for (int64_t d = 0; d < x->p->dv; d++)
            x->out[d] +=
                q * whole(x, c) * x->state[c * x->p->dv + d] + own * at(&x->o->v, x, step, d);
    }
    for (int64_t d = 0; d < x->p->dv; d++)
        op_mutant_put(out, attn_row_start(out, x->b, x->h, step) + d * out->stride[3],
                      scale * x->out[d]);
}

static void begin(const struct head *x)
{
    const struct attn_tensor *in = &x->o->state_in;
    const int64_t h = bug(decay_state_head_0) ? 0 : x->h, dv = x->p->dv;
    if (!bug(decay_state_kept) || x->b + x->h == 0)
        memset(x->state, 0, (size_t)(x->p->dk * dv) * sizeof(float));
    memset(x->prefix, 0, (size_t)x->p->dk * sizeof(float));
    for (int64_t n = 0; in->dtype && n < x->p->dk * dv; n++) {
        const int64_t c = bug(decay_transposed) ? n % x->p->dk : n / dv;
        const int64_t d = bug(decay_transposed) ? n / x->p->dk : n % dv;
        x->state[n] = op_mutant_get(in, attn_row_start(in, x->b, h, c) + d * in->stride[3]);
    }
}

static void hand_on(const struct head *x)
{
    const struct attn_tensor *t = &x->o->state_out;
    const float by = bug(decay_scaled_state) ? 0.5F : 1;
    for (int64_t n = 0; t->dtype && n < x->p->dk * x->p->dv; n++) {
        const int64_t c = n / x->p->dv, d = n % x->p->dv;
        op_mutant_put(t, attn_row_start(t, x->b, x->h, c) + d * t->stride[3],
                      by * whole(x, c) * x->state[n]);
    }
}

static void compute(const struct head *x)
{
    const bool inclusive = (x->p->variant == ATTN_DECAY_INCLUSIVE) != (bool)bug(decay_other_form);
    const int64_t steps = bug(decay_tail_lost) ? x->p->sq - x->p->sq % BLOCK : x->p->sq;
    begin(x);
    for (int64_t t = 0; t < steps; t++) {
        if (inclusive)
            fade(x, t);
        give(x, t);
        if (!inclusive)
            fade(x, t);
        take(x, t);
    }
    hand_on(x);
}

static int64_t floats(const struct attn_problem *p)
{
    return (p->dk + 1) * (p->dv + 1) + OP_MUTANT_CHUNK * p->dk;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct head x = {.p = p, .o = o, .state = memory};
    if (op_mutant_in_chunks()) {
        op_mutant_decay_in_chunks(p, o, memory);
        return;
    }
    x.prefix = x.state + p->dk * p->dv;
    x.out = x.prefix + p->dk;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++)
            compute(&x);
}

const struct op_mutant op_mutant_linear_decay = {
    .op = ATTN_OP_LINEAR_DECAY, .floats = floats, .run = run};
