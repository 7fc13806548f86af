/* SPDX-License-Identifier: Apache-2.0 */
/* linear_decay_chunks.c - linear attention with decay in chunks, as fused kernels compute it: the
 * decays of a chunk are added up, and each exponent is a difference of two such sums. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { CHUNK = OP_MUTANT_CHUNK };

/* One head. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h;
    float *state; /* [Dk,Dv] */
    float *sums;  /* [CHUNK,Dk] of the logarithms, from the first step of the chunk on */
    float *out;   /* [Dv] */
};

bool op_mutant_in_chunks(void)
{
    return bug(decay_in_chunks) || bug(decay_in_chunks_f16) || bug(decay_chunk_factored) ||
           bug(decay_chunk_kept) || bug(decay_chunk_sum_bf16) || bug(decay_chunk_state_bf16);
}

static float at(const struct attn_tensor *t, const struct head *x, int64_t step, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, x->b, x->h, step) + c * t->stride[3]);
}

static float stored(float value)
{
    if (bug(decay_chunk_state_bf16))
        return op_mutant_bf16(value);
    return bug(decay_in_chunks_f16) ? attn_f32_of_f16(attn_f16_of_f32(value)) : value;
}

static void add_up(const struct head *x, int64_t first, int64_t n)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t c = 0; c < x->p->dk; c++) {
            const float before = r > 0 ? x->sums[(r - 1) * x->p->dk + c] : 0;
            const float sum = before + at(&x->o->decay, x, first + r, c);
            x->sums[r * x->p->dk + c] = bug(decay_chunk_sum_bf16) ? op_mutant_bf16(sum) : sum;
        }
}

/* What step r of the chunk has decayed by when it is read. */
static float read_sum(const struct head *x, int64_t r, int64_t c)
{
    r -= x->p->variant == ATTN_DECAY_EXCLUSIVE;
    return r < 0 ? 0 : x->sums[r * x->p->dk + c];
}

static float decayed(float until, float since)
{
    return bug(decay_chunk_factored) ? expf(until) * expf(-since) : expf(until - since);
}

/* The weight of step `first` + i for step `first` + r. */
static float weight(const struct head *x, int64_t first, int64_t r, int64_t i)
{
    const struct attn_tensor *bonus = &x->o->bonus;
    float sum = 0;
    for (int64_t c = 0; c < x->p->dk; c++) {
        const float qk = at(&x->o->q, x, first + r, c) * at(&x->o->k, x, first + i, c);
        const float own =
            bonus->dtype ? op_mutant_get(bonus, x->h * bonus->stride[0] + c * bonus->stride[1]) : 1;
        sum += qk * (i == r ? own : decayed(read_sum(x, r, c), x->sums[i * x->p->dk + c]));
    }
    return sum;
}

static void give(const struct head *x, int64_t first, int64_t r)
{
    const struct attn_tensor *out = &x->o->out;
    memset(x->out, 0, (size_t)x->p->dv * sizeof(float));
    for (int64_t c = 0; c < x->p->dk; c++) {
        const float q = at(&x->o->q, x, first + r, c) * expf(read_sum(x, r, c));
        for (int64_t d = 0; d < x->p->dv; d++)
            x->out[d] += q * x->state[c * x->p->dv + d];
    }
    for (int64_t i = 0; i <= r; i++) {
        const float w = weight(x, first, r, i);
        for (int64_t d = 0; d < x->p->dv; d++)
            x->out[d] += w * at(&x->o->v, x, first + i, d);
    }
    for (int64_t d = 0; d < x->p->dv; d++)
        op_mutant_put(out, attn_row_start(out, x->b, x->h, first + r) + d * out->stride[3],
                      (float)x->p->scale * x->out[d]);
}

static void take(const struct head *x, int64_t first, int64_t n)
{
    for (int64_t c = 0; c < x->p->dk; c++) {
        const float end = x->sums[(n - 1) * x->p->dk + c];
        for (int64_t d = 0; d < x->p->dv; d++) {
            float *s = &x->state[c * x->p->dv + d];
            *s *= bug(decay_chunk_kept) ? 1 : expf(end);
            for (int64_t i = 0; i < n; i++)
                *s += at(&x->o->k, x, first + i, c) * decayed(end, x->sums[i * x->p->dk + c]) *
                      at(&x->o->v, x, first + i, d);
            *s = stored(*s);
        }
    }
}

/* Element n of a state, dense. */
static int64_t place(const struct head *x, const struct attn_tensor *t, int64_t n)
{
    return attn_row_start(t, x->b, x->h, n / x->p->dv) + n % x->p->dv * t->stride[3];
}

static void compute(const struct head *x)
{
    const struct attn_tensor *in = &x->o->state_in, *state = &x->o->state_out;
    const int64_t count = x->p->dk * x->p->dv;
    for (int64_t n = 0; n < count; n++)
        x->state[n] = in->dtype ? stored(op_mutant_get(in, place(x, in, n))) : 0;
    for (int64_t first = 0; first < x->p->sq; first += CHUNK) {
        const int64_t n = x->p->sq - first < CHUNK ? x->p->sq - first : CHUNK;
        add_up(x, first, n);
        for (int64_t r = 0; r < n; r++)
            give(x, first, r);
        take(x, first, n);
    }
    for (int64_t n = 0; state->dtype && n < count; n++)
        op_mutant_put(state, place(x, state, n), x->state[n]);
}

void op_mutant_decay_in_chunks(const struct attn_problem *p, const struct attn_operands *o,
                               float *memory)
{
    struct head x = {.p = p, .o = o, .state = memory};
    x.sums = x.state + p->dk * p->dv;
    x.out = x.sums + CHUNK * p->dk;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++)
            compute(&x);
}
