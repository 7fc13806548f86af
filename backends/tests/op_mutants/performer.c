/* SPDX-License-Identifier: Apache-2.0 */
/* performer.c - attention by random features: those of the keys, a state, and each query read from
 * it. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { BLOCK = 8 }; /* features, as far as bugs of blocks go */

/* One head: working memory and what it is made of. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h, m;
    int64_t keys, taken; /* keys that len allows; keys in the state */
    float *phi;          /* [Sk,m] of keys */
    float *phi_q;        /* [m] */
    float *state, *sum;  /* [m,Dv] of features and values; [m] of features */
    float *whole;        /* [m] of the features of all keys */
};

static float at(const struct attn_tensor *t, int64_t b, int64_t h, int64_t row, int64_t c)
{
    return op_mutant_get(t, attn_row_start(t, b, h, row) + c * t->stride[3]);
}

/* The head of k and v that a query head reads. */
static int64_t group(const struct head *x)
{
    return bug(perf_heads_tiled) ? x->h % x->p->hkv : x->h / (x->p->hq / x->p->hkv);
}

static float scale_of(const struct head *x, bool is_key)
{
    const float root = sqrtf((float)x->p->scale);
    if (bug(perf_root_once))
        return is_key ? 1 : root;
    if (bug(perf_scale_to_k))
        return is_key ? (float)x->p->scale : 1;
    return root;
}

/* w x' to `products`. Returns |x'|^2 / 2. */
static float products_of(const struct head *x, const struct attn_tensor *t, int64_t h, int64_t row,
                         float *products)
{
    const struct attn_tensor *w = &x->o->features;
    const bool is_key = t == &x->o->k;
    const float scale = scale_of(x, is_key);
    const int64_t of = bug(perf_features_head_0) ? 0 : x->h;
    float square = 0;
    memset(products, 0, (size_t)x->m * sizeof(float));
    for (int64_t c = 0; c < x->p->dk; c++) {
        const float e = scale * at(t, x->b, h, row, c);
        square += e * e;
        for (int64_t r = 0; r < x->m; r++)
            products[r] +=
                e * op_mutant_get(w, of * w->stride[0] + r * w->stride[1] + c * w->stride[2]);
    }
    if (bug(perf_square_of_k) && is_key)
        return 0;
    if (bug(perf_no_square_of_q) && !is_key)
        return 0;
    return bug(perf_square_whole) ? square : square / 2;
}

/* What is taken out of the features of one vector. NaN is left to the sums. */
static float largest(const struct head *x, float most, const float *products, float half)
{
    const bool whole = x->p->eps > 0 && !bug(perf_eps_most_of_all);
    for (int64_t r = 0; r < x->m; r++)
        most = fmaxf(most, whole ? products[r] : products[r] - half);
    return most;
}

static void features(const struct head *x, float *products, float half, float most)
{
    const float eps = (float)x->p->eps;
    most = isfinite(most) ? most : 0;
    for (int64_t r = 0; r < x->m; r++) {
        const float e = products[r] - half - most;
        products[r] = bug(perf_eps_inside) ? expf(e + eps)
                      : bug(perf_factors)  ? expf(products[r]) * expf(-half - most)
                                           : expf(e) + eps;
        if (bug(perf_features_bf16))
            products[r] = op_mutant_bf16(products[r]);
    }
}

/* The largest of all keys of a head; without its features nothing is left in x->phi. */
static float largest_of_keys(struct head *x, int64_t keys)
{
    float most = -INFINITY;
    for (int64_t j = 0; j < keys; j++) {
        const float half = products_of(x, &x->o->k, group(x), j, x->phi + j * x->m);
        most = largest(x, most, x->phi + j * x->m, half);
    }
    return most;
}

/* Of all batch entries. */
static float largest_of_batches(const struct head *x, int64_t keys)
{
    struct head other = *x;
    float most = -INFINITY;
    for (other.b = 0; other.b < x->p->b; other.b++)
        most = fmaxf(most, largest_of_keys(&other, keys));
    return most;
}

static void make_keys(struct head *x)
{
    const int64_t counted = bug(perf_eps_most_beyond_len) ? x->p->sk : x->keys;
    const float most = bug(perf_most_of_batches) ? largest_of_batches(x, counted)
                       : bug(perf_no_maximum)    ? 0
                                                 : largest_of_keys(x, counted);
    const int64_t loaded = bug(perf_len_below) ? x->p->sk : x->keys;
    for (int64_t j = 0; j < loaded; j++) {
        float *phi = x->phi + j * x->m;
        const float half = products_of(x, &x->o->k, group(x), j, phi);
        features(x, phi, half, bug(perf_most_by_key) ? largest(x, -INFINITY, phi, half) : most);
    }
    if (!bug(perf_sum_kept) || x->b + x->h == 0)
        memset(x->whole, 0, (size_t)x->m * sizeof(float));
    for (int64_t j = 0; j < loaded; j++)
        for (int64_t r = 0; r < x->m; r++)
            x->whole[r] += x->phi[j * x->m + r];
}

static void take(struct head *x, int64_t keys)
{
    const int64_t m = bug(perf_tail_lost) ? x->m - x->m % BLOCK : x->m;
    for (; x->taken < keys; x->taken++)
        for (int64_t r = 0; r < m; r++) {
            const float phi = x->phi[x->taken * x->m + r];
            x->sum[r] += phi;
            for (int64_t d = 0; d < x->p->dv; d++) {
                float *s = &x->state[r * x->p->dv + d];
                *s += phi * at(&x->o->v, x->b, group(x), x->taken, d);
                *s = bug(perf_state_bf16) ? op_mutant_bf16(*s) : *s;
            }
        }
}

static void give(const struct head *x, int64_t i)
{
    const struct attn_tensor *out = &x->o->out;
    const float half = products_of(x, &x->o->q, x->h, i, x->phi_q);
    const bool dense = bug(perf_dense_below) || bug(perf_len_below) || bug(perf_sum_kept);
    float below = 0;
    features(x, x->phi_q, half, bug(perf_no_maximum) ? 0 : largest(x, -INFINITY, x->phi_q, half));
    for (int64_t r = 0; r < x->m; r++)
        below += x->phi_q[r] * (dense ? x->whole[r] : x->sum[r]);
    for (int64_t d = 0; d < x->p->dv; d++) {
        float above = 0;
        for (int64_t r = 0; r < x->m; r++)
            above += x->phi_q[r] * x->state[r * x->p->dv + d];
        const bool none = x->taken == 0 && !bug(perf_no_keys_nan);
        op_mutant_put(out, attn_row_start(out, x->b, x->h, i) + d * out->stride[3],
                      none ? 0 : above / below);
    }
}

static void compute(struct head *x)
{
    const bool causal = x->p->flags & ATTN_FLAG_CAUSAL;
    if (!bug(perf_state_kept) || x->b + x->h == 0) {
        memset(x->state, 0, (size_t)(x->m * x->p->dv) * sizeof(float));
        memset(x->sum, 0, (size_t)x->m * sizeof(float));
    }
    x->taken = 0;
    make_keys(x);
    for (int64_t i = 0; i < x->p->sq; i++) {
        int64_t keys = attn_keys_seen(x->p, &x->o->len, x->b, i).end;
        if (bug(perf_exclusive) && causal && i > 0)
            keys = keys > i ? i : keys;
        take(x, keys);
        give(x, i);
    }
}

static int64_t floats(const struct attn_problem *p)
{
    const int64_t m = attn_problem_extent(p, 'm');
    return m * (p->sk + p->dv + 3);
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct head x = {.p = p, .o = o, .m = attn_problem_extent(p, 'm'), .phi = memory};
    x.phi_q = x.phi + p->sk * x.m;
    x.sum = x.phi_q + x.m;
    x.whole = x.sum + x.m;
    x.state = x.whole + x.m;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++) {
            x.keys = attn_keys_seen(p, &o->len, x.b, p->sq - 1).end;
            compute(&x);
        }
}

const struct op_mutant op_mutant_performer = {
    .op = ATTN_OP_PERFORMER, .floats = floats, .run = run};
