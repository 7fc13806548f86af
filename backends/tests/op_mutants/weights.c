/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - attention with any weight function and a gate, row by row. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { TILE = 16 }; /* keys, as far as the bug of a tail goes */

/* One row: working memory and what it is made of. */
struct row {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, i;
    struct attn_keys keys; /* that it sees */
    float *weight;         /* [Sk] scores, then weights; of forbidden keys 0 */
    bool *takes_part;      /* [Sk] */
    float *out;            /* [Dv] */
};

static float at(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, b, h, i) + c * t->stride[3]);
}

static int64_t key_head(const struct row *x)
{
    return x->h / (x->p->hq / x->p->hkv);
}

static float bias_of(const struct row *x, int64_t j)
{
    const bool left_out = bug(weights_no_bias) && x->p->weight_fn == ATTN_WEIGHT_SIGMOID;
    return x->o->bias.dtype && !left_out ? at(&x->o->bias, x->b, x->h, x->i, j) : 0;
}

static float score_of(const struct row *x, int64_t j)
{
    const float scale = (float)x->p->scale;
    float s = 0;
    for (int64_t c = 0; c < x->p->dk; c++)
        s += at(&x->o->q, x->b, x->h, x->i, c) * at(&x->o->k, x->b, key_head(x), j, c);
    if (bug(weights_scale_late))
        return s + bias_of(x, j);
    if (bug(weights_bias_scaled))
        return scale * (s + bias_of(x, j));
    return scale * s + bias_of(x, j);
}

static float sigmoid(float s)
{
    return 1 / (1 + expf(-s));
}

static float relu2(const struct row *x, float s)
{
    const float clipped = s > 0 || bug(weights_not_clipped) ? s : 0;
    const float square = bug(weights_not_squared) ? clipped : clipped * clipped;
    return isnan(s) ? s : bug(weights_scale_late) ? (float)x->p->scale * square : square;
}

static float laplace(float s)
{
    const float mean = bug(weights_laplace_mean) ? 0 : 0.70710678F;
    const float deviation = bug(weights_laplace_wide) ? 0.07957747F : 0.28209479F;
    return 0.5F * erfcf((mean - s) / (deviation * 1.41421356F));
}

static float weight_of(const struct row *x, float s)
{
    switch (x->p->weight_fn) {
    case ATTN_WEIGHT_SIGMOID:
        return sigmoid(s);
    case ATTN_WEIGHT_RELU2:
        return relu2(x, s);
    case ATTN_WEIGHT_LAPLACE:
        return laplace(s);
    default:
        return expf(s);
    }
}

/* Which keys take part, and the scores of all. */
static void make_scores(const struct row *x)
{
    const bool finite = bug(weights_mask_zero) || bug(weights_mask_finite);
    for (int64_t j = 0; j < x->p->sk; j++) {
        const bool seen = (j >= x->keys.first && j < x->keys.end) || bug(weights_mask_late);
        x->takes_part[j] = seen || finite;
        x->weight[j] = seen ? score_of(x, j) : bug(weights_mask_finite) ? -10 : 0;
    }
    for (int64_t j = x->p->sk - x->p->sk % TILE; bug(weights_tail_lost) && j < x->p->sk; j++)
        x->takes_part[j] = false;
}

static float largest(const struct row *x)
{
    float most = -INFINITY;
    for (int64_t j = 0; j < x->p->sk; j++)
        most = x->takes_part[j] && x->weight[j] > most ? x->weight[j] : most;
    return most;
}

static void make_weights(const struct row *x)
{
    const bool softmax = x->p->weight_fn == ATTN_WEIGHT_SOFTMAX;
    const float off = softmax || bug(weights_max_off) ? largest(x) : 0;
    float sum = 0;
    for (int64_t j = 0; j < x->p->sk; j++) {
        x->weight[j] = x->takes_part[j] ? weight_of(x, x->weight[j] - off) : 0;
        sum += x->weight[j];
    }
    for (int64_t j = 0; (softmax || bug(weights_row_sum)) && j < x->p->sk; j++)
        x->weight[j] = x->takes_part[j] ? x->weight[j] / sum : 0;
}

/* Of a gate that multiplies each v: that of the key's own row, as far as there is one. */
static float early_gate(const struct row *x, int64_t j, int64_t c)
{
    return bug(weights_gate_early) && x->o->gate.dtype
               ? at(&x->o->gate, x->b, x->h, j < x->p->sq ? j : x->p->sq - 1, c)
               : 1;
}

static void add_values(const struct row *x)
{
    const bool dropout = x->p->flags & ATTN_FLAG_DROPOUT;
    const float kept = (float)(1 - x->p->dropout_p);
    memset(x->out, 0, (size_t)x->p->dv * sizeof(float));
    for (int64_t j = 0; j < x->p->sk; j++) {
        if (!x->takes_part[j] ||
            (dropout && !attn_dropout_keeps(x->p, &x->o->keep, x->b, x->h, x->i, j)))
            continue;
        for (int64_t c = 0; c < x->p->dv; c++) {
            const float v = at(&x->o->v, x->b, key_head(x), j, c) * early_gate(x, j, c);
            x->out[c] += x->weight[j] * v;
            x->out[c] = bug(weights_sum_bf16) ? op_mutant_bf16(x->out[c]) : x->out[c];
        }
    }
    for (int64_t c = 0; dropout && !bug(weights_no_rescale) && c < x->p->dv; c++)
        x->out[c] /= kept;
}

static float gate_of(const struct row *x, int64_t c)
{
    const bool softmax = x->p->weight_fn == ATTN_WEIGHT_SOFTMAX;
    if (!x->o->gate.dtype || bug(weights_gate_early) || (bug(weights_gate_missing) && softmax))
        return 1;
    const float gate = at(&x->o->gate, x->b, bug(weights_gate_head_0) ? 0 : x->h, x->i, c);
    return bug(weights_gate_squashed) ? sigmoid(gate) : gate;
}

static void give(const struct row *x)
{
    const struct attn_tensor *out = &x->o->out;
    const bool empty = bug(weights_empty_nan) && x->keys.first >= x->keys.end;
    for (int64_t c = 0; c < x->p->dv; c++)
        op_mutant_put(out, attn_row_start(out, x->b, x->h, x->i) + c * out->stride[3],
                      empty ? NAN : gate_of(x, c) * x->out[c]);
}

static int64_t floats(const struct attn_problem *p)
{
    return 2 * p->sk + p->dv + 1;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct row x = {.p = p, .o = o, .weight = memory, .out = memory + p->sk};
    x.takes_part = (bool *)(x.out + p->dv);
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++)
            for (x.i = 0; x.i < p->sq; x.i++) {
                x.keys = attn_keys_seen(p, &o->len, x.b, x.i);
                make_scores(&x);
                make_weights(&x);
                add_values(&x);
                give(&x);
            }
}

static const uint32_t takes[] = {ATTN_BIAS, ATTN_LEN, ATTN_KEEP, ATTN_GATE, 0};

const struct op_mutant op_mutant_weights = {.op = ATTN_OP_ATTENTION,
                                            .takes = takes,
                                            .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_DROPOUT |
                                                     ATTN_FLAG_WEIGHT,
                                            .floats = floats,
                                            .run = run};
