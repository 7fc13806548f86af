/* SPDX-License-Identifier: Apache-2.0 */
/* chunked.c - mixed chunk attention, chunk by chunk. */
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

/* One head: working memory and what it is made of. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, dl, len;
    bool causal;
    float *state;        /* [Dl,Dv] */
    float *linear, *own; /* [Dv] */
};

static float at(const struct attn_tensor *t, const struct head *x, int64_t token, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, x->b, x->h, token) + c * t->stride[3]);
}

static float kept(float value)
{
    return bug(chunked_weight_bf16) ? op_mutant_bf16(value) : value;
}

/* The bias of a cell; r and c are places in the chunk. */
static float bias(const struct head *x, int64_t r, int64_t c)
{
    const struct attn_tensor *t = &x->o->bias;
    const int64_t h = bug(chunked_bias_head_0) ? 0 : x->h;
    if (bug(chunked_bias_distance))
        c = (c - r + x->p->chunk) % x->p->chunk;
    if (bug(chunked_bias_turned))
        return op_mutant_get(t, attn_row_start(t, x->b, h, c) + r * t->stride[3]);
    return op_mutant_get(t, attn_row_start(t, x->b, h, r) + c * t->stride[3]);
}

static float weight(const struct head *x, int64_t i, int64_t j)
{
    const float scale = (float)x->p->scale;
    float s = 0;
    for (int64_t c = 0; c < x->p->dk; c++)
        s += at(&x->o->q, x, i, c) * at(&x->o->k, x, j, c);
    if (!bug(chunked_scale_late))
        s *= scale;
    if (x->o->bias.dtype) {
        const float added = bias(x, i % x->p->chunk, j % x->p->chunk);
        s += bug(chunked_bias_scaled) ? added * scale : added;
    }
    if (s <= 0 && !bug(chunked_no_relu))
        s = 0;
    if (!bug(chunked_no_square))
        s *= s;
    return kept(bug(chunked_scale_late) ? s * scale : s);
}

/* The sum over the keys of the chunk of row i, from `first` on. */
static void add_own(const struct head *x, int64_t i, int64_t first)
{
    const int64_t chunk = x->p->chunk, s = x->p->sq;
    const bool whole = first + chunk <= s;
    int64_t begin = first, end = whole || bug(chunked_tail_full) ? first + chunk : s;
    if (x->causal && !bug(chunked_sees_later))
        end = i + 1;
    if (end > x->len && !bug(chunked_own_len) && !bug(chunked_tail_full))
        end = x->len;
    if (bug(chunked_crosses) && first > 0)
        begin--;
    for (int64_t j = begin; j < end && (whole || !bug(chunked_tail_lost)); j++) {
        const float p = weight(x, i, j);
        for (int64_t d = 0; d < x->p->dv; d++)
            x->own[d] += p * at(&x->o->v, x, j, d);
    }
}

static float factor(const struct head *x)
{
    const struct attn_problem *p = x->p;
    if (p->lin_scale != 0 && !bug(chunked_lin_scale))
        return (float)p->lin_scale;
    if (x->causal && !bug(chunked_by_s))
        return 1 / (float)p->chunk;
    return 1 / (float)(bug(chunked_by_len) ? x->len : p->sq);
}

static void add_linear(const struct head *x, int64_t i)
{
    const struct attn_tensor *q = bug(chunked_one_query) ? &x->o->q : &x->o->lin_q;
    const float by = factor(x);
    for (int64_t c = 0; c < x->dl; c++)
        for (int64_t d = 0; d < x->p->dv; d++)
            x->linear[d] += by * at(q, x, i, c) * x->state[c * x->p->dv + d];
}

static void compute_row(const struct head *x, int64_t i, int64_t first)
{
    const struct attn_tensor *out = &x->o->out;
    memset(x->linear, 0, (size_t)x->p->dv * sizeof(float));
    memset(x->own, 0, (size_t)x->p->dv * sizeof(float));
    add_linear(x, i);
    add_own(x, i, first);
    for (int64_t d = 0; d < x->p->dv; d++) {
        const bool gated = x->o->gate.dtype && !bug(chunked_gate_missing);
        const float gate = gated ? at(&x->o->gate, x, i, d) : 1;
        const float linear = bug(chunked_gate_own) ? x->linear[d] : gate * x->linear[d];
        op_mutant_put(out, attn_row_start(out, x->b, x->h, i) + d * out->stride[3],
                      linear + gate * x->own[d]);
    }
}

/* Keys [first, end) enter the state. */
static void take(const struct head *x, int64_t first, int64_t end)
{
    if (end > x->len && !bug(chunked_linear_len))
        end = x->len;
    for (int64_t j = first; j < end; j++)
        for (int64_t c = 0; c < x->dl; c++)
            for (int64_t d = 0; d < x->p->dv; d++) {
                float *s = &x->state[c * x->p->dv + d];
                *s += at(&x->o->lin_k, x, j, c) * at(&x->o->v, x, j, d);
                *s = bug(chunked_state_bf16) ? op_mutant_bf16(*s) : *s;
            }
}

static void compute_head(const struct head *x)
{
    const int64_t s = x->p->sq, chunk = x->p->chunk;
    if (!bug(chunked_state_kept) || x->b + x->h == 0)
        memset(x->state, 0, (size_t)(x->dl * x->p->dv) * sizeof(float));
    if (!x->causal)
        take(x, 0, bug(chunked_last_lost) ? (s - 1) / chunk * chunk : s);
    for (int64_t first = 0; first < s; first += chunk) {
        const int64_t end = first + chunk < s ? first + chunk : s;
        if (x->causal && bug(chunked_inclusive))
            take(x, first, end);
        if (x->causal && bug(chunked_late) && first >= 2 * chunk)
            take(x, first - 2 * chunk, first - chunk);
        for (int64_t i = first; i < end; i++)
            compute_row(x, i, first);
        if (x->causal && !bug(chunked_inclusive) && !bug(chunked_late))
            take(x, first, end);
    }
}

static int64_t floats(const struct attn_problem *p)
{
    return (attn_problem_extent(p, 'l') + 2) * p->dv;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct head x = {.p = p, .o = o, .dl = attn_problem_extent(p, 'l'), .state = memory};
    x.causal = p->flags & ATTN_FLAG_CAUSAL;
    x.linear = x.state + x.dl * p->dv;
    x.own = x.linear + p->dv;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++) {
            x.len = attn_keys_valid(p, &o->len, x.b, 0);
            compute_head(&x);
        }
}

const struct op_mutant op_mutant_chunked = {.op = ATTN_OP_CHUNKED, .floats = floats, .run = run};
