/* SPDX-License-Identifier: Apache-2.0 */
/* longformer.c - attention with a window, its steps and global tokens, row by row, key by key. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { CHUNK = 8 }; /* keys, as far as bugs of chunks go */

/* One row, and working memory. */
struct row {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, g, i;
    float *score; /* [Sk] */
    float *times; /* [Sk] how often a key counts: 0 or 1 */
    float *sum;   /* [Dv] */
};

static bool token_is_global(const struct row *x, int64_t token)
{
    const struct attn_tensor *global = &x->o->global;
    const int64_t b = bug(sparse_batch_0) ? 0 : x->b;
    int64_t count = 0;
    if (!bug(sparse_first_tokens))
        return attn_token_is_global(global, b, token);
    for (int64_t j = 0; j < x->p->sk; j++)
        count += attn_token_is_global(global, b, j);
    return token < count;
}

/* Keys of one step of the window. */
static int64_t step_of(const struct row *x)
{
    const struct attn_tensor *t = &x->o->dilation;
    const int64_t h = bug(sparse_dilation_0) ? 0 : x->h;
    return t->dtype ? ((const int32_t *)t->data)[h * t->stride[0]] : 1;
}

static bool is_step(const struct row *x, int64_t distance, int64_t j)
{
    return (bug(sparse_steps_from_0) ? j : distance) % step_of(x) == 0;
}

static bool is_near(const struct row *x, int64_t distance, int64_t j)
{
    const int64_t step = bug(sparse_steps_are_keys) ? 1 : step_of(x);
    if (!(x->p->flags & ATTN_FLAG_WINDOW))
        return true;
    return is_step(x, distance, j) &&
           (x->p->window_left < 0 || distance <= x->p->window_left * step) &&
           (x->p->window_right < 0 || distance >= -x->p->window_right * step);
}

/* How often key j counts. */
static float times(const struct row *x, int64_t j)
{
    const int64_t distance = x->i + attn_keys_offset(x->p, &x->o->len, x->b) - j;
    const bool near = is_near(x, distance, j), own = token_is_global(x, x->i);
    bool key = token_is_global(x, j), valid = true;
    if (j >= attn_keys_valid(x->p, &x->o->len, x->b, x->i))
        valid = bug(sparse_len_global) && key;
    if (x->p->flags & ATTN_FLAG_CAUSAL && distance < 0)
        valid = valid && bug(sparse_causal_global) && key;
    if (bug(sparse_key_is_local) || (bug(sparse_dilated_global) && !is_step(x, distance, j)))
        key = false;
    if (!valid || !(near || key || (own && !bug(sparse_row_is_local))))
        return 0;
    if (bug(sparse_counted_twice) && near && key && !own)
        return 2;
    return bug(sparse_border_twice) && j % CHUNK == 0 && near && !own ? 2 : 1;
}

static float at(const struct attn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, b, h, i) + c * t->stride[3]);
}

static void score(const struct row *x, bool own)
{
    const struct attn_tensor *q = own ? &x->o->q_global : &x->o->q;
    const int64_t b = own && bug(sparse_batch_projection) ? 0 : x->b;
    for (int64_t j = 0; j < x->p->sk; j++) {
        const bool other = bug(sparse_key_projection) && token_is_global(x, j);
        const struct attn_tensor *k =
            own || (other && x->o->k_global.dtype) ? &x->o->k_global : &x->o->k;
        float sum = 0;
        x->times[j] = times(x, j);
        for (int64_t c = 0; x->times[j] > 0 && c < x->p->dk; c++)
            sum += at(q, x->b, x->h, x->i, c) * at(k, b, x->g, j, c);
        x->score[j] = (float)x->p->scale * sum;
    }
}

/* Adds softmax times v of the keys whose token is global or not, or of all. Returns the lse. */
static float attend(const struct row *x, const struct attn_tensor *v, bool all, bool global)
{
    float top = -INFINITY, total = 0;
    for (int64_t j = 0; j < x->p->sk; j++)
        if (x->times[j] > 0 && (all || token_is_global(x, j) == global))
            top = x->score[j] > top || isnan(x->score[j]) ? x->score[j] : top;
    for (int64_t j = 0; j < x->p->sk; j++)
        if (x->times[j] > 0 && (all || token_is_global(x, j) == global))
            total += x->times[j] * expf(x->score[j] - top);
    for (int64_t j = 0; j < x->p->sk; j++) {
        const bool seen = x->times[j] > 0 && (all || token_is_global(x, j) == global);
        const float p = seen ? x->times[j] * expf(x->score[j] - top) / total : 0;
        if (seen || bug(sparse_zero_times_v))
            for (int64_t c = 0; c < x->p->dv; c++)
                x->sum[c] += p * at(v, x->b, x->g, j, c);
    }
    return top + logf(total);
}

static void compute(const struct row *x)
{
    const struct attn_operands *o = x->o;
    const bool own = o->q_global.dtype && token_is_global(x, x->i) && !bug(sparse_row_projection);
    const struct attn_tensor *v = own && !bug(sparse_value_projection) ? &o->v_global : &o->v;
    float lse;
    memset(x->sum, 0, (size_t)x->p->dv * sizeof(float));
    score(x, own);
    if (bug(sparse_two_softmaxes)) {
        attend(x, v, false, false);
        lse = attend(x, v, false, true);
    } else {
        lse = attend(x, v, true, false);
    }
    for (int64_t c = 0; c < x->p->dv; c++)
        op_mutant_put(&o->out, attn_row_start(&o->out, x->b, x->h, x->i) + c * o->out.stride[3],
                      x->sum[c]);
    if (o->lse.dtype)
        op_mutant_put(&o->lse, attn_row_start(&o->lse, x->b, x->h, x->i), lse);
}

static int64_t floats(const struct attn_problem *p)
{
    return 2 * p->sk + p->dv;
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct row x = {.p = p, .o = o, .score = memory};
    x.times = x.score + p->sk;
    x.sum = x.times + p->sk;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++)
            for (x.i = 0; x.i < p->sq; x.i++) {
                x.g = x.h / (p->hq / p->hkv);
                compute(&x);
            }
}

static const uint32_t takes[] = {ATTN_LSE,      ATTN_LEN,      ATTN_GLOBAL,   ATTN_DILATION,
                                 ATTN_Q_GLOBAL, ATTN_K_GLOBAL, ATTN_V_GLOBAL, 0};

const struct op_mutant op_mutant_longformer = {.op = ATTN_OP_ATTENTION,
                                               .takes = takes,
                                               .flags = ATTN_FLAG_CAUSAL | ATTN_FLAG_WINDOW,
                                               .floats = floats,
                                               .run = run};
