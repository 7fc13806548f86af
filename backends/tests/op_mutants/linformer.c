/* SPDX-License-Identifier: Apache-2.0 */
/* linformer.c - attention over projected keys and values, one key head after the other. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "op_mutant.h"

enum { PAD = 8 };

/* One query head: working memory and what it is made of. */
struct head {
    const struct attn_problem *p;
    const struct attn_operands *o;
    int64_t b, h;
    float *k, *v; /* [rows,Dk], [rows,Dv] projected, zeros beyond r */
    float *s;     /* [rows] */
};

static int64_t rows_of(const struct attn_problem *p)
{
    return (p->landmarks + PAD - 1) / PAD * PAD;
}

/* Cell l, j of E or F. */
static float cell(const struct head *x, const struct attn_tensor *matrix, int64_t l, int64_t j)
{
    const int64_t shared = x->p->hq / x->p->hkv;
    const int64_t g = bug(lin_head_0) ? 0 : bug(lin_head_query) ? x->h % x->p->hkv : x->h / shared;
    if (bug(lin_transposed)) {
        const int64_t flat = j * x->p->landmarks + l;
        l = flat / x->p->sk;
        j = flat % x->p->sk;
    }
    return op_mutant_get(matrix,
                         g * matrix->stride[0] + l * matrix->stride[1] + j * matrix->stride[2]);
}

static int64_t length(const struct head *x)
{
    const struct attn_tensor *len = &x->o->len;
    const int64_t b = bug(lin_len_batch_0) ? 0 : x->b;
    const int64_t n = len->dtype ? ((const int32_t *)len->data)[b * len->stride[0]] : x->p->sk;
    return n - (bug(lin_last_key) && n > 0);
}

static float summed(float sum, float product)
{
    return bug(lin_sum_bf16) ? op_mutant_bf16(sum + product) : sum + product;
}

/* Column c of row l of E k or F v. */
static float projected(const struct head *x, const struct attn_tensor *matrix,
                       const struct attn_tensor *from, int64_t l, int64_t c)
{
    const int64_t valid = length(x), g = x->h / (x->p->hq / x->p->hkv);
    const int64_t end = bug(lin_len_ignored) || bug(lin_len_zeroed) ? x->p->sk : valid;
    const int64_t b = bug(lin_batch_0) ? 0 : x->b;
    float sum = 0;
    for (int64_t j = 0; j < end; j++) {
        float w = cell(x, matrix, l, j);
        if (bug(lin_len_zeroed) && j >= valid)
            w = 0;
        const int64_t at = attn_row_start(from, b, g, j) + c * from->stride[3];
        sum = summed(sum, w * op_mutant_get(from, at));
    }
    return bug(lin_len_mean) ? sum * (float)x->p->sk / (float)valid : sum;
}

static void project(const struct head *x)
{
    const struct attn_problem *p = x->p;
    const struct attn_tensor *e = bug(lin_exchanged) ? &x->o->proj_f : &x->o->proj_e;
    const struct attn_tensor *f =
        bug(lin_exchanged) || bug(lin_f_ignored) ? &x->o->proj_e : &x->o->proj_f;
    memset(x->k, 0, (size_t)(rows_of(p) * p->dk) * sizeof(float));
    memset(x->v, 0, (size_t)(rows_of(p) * p->dv) * sizeof(float));
    for (int64_t l = 0; l < p->landmarks; l++) {
        for (int64_t c = 0; c < p->dk; c++) {
            const float k = projected(x, e, &x->o->k, l, c);
            x->k[l * p->dk + c] = bug(lin_keys_bf16) ? op_mutant_bf16(k) : k;
        }
        for (int64_t c = 0; c < p->dv; c++)
            x->v[l * p->dv + c] = projected(x, f, &x->o->v, l, c);
    }
}

/* Weights of the rows of one query into s; returns lse. */
static float weigh(const struct head *x, int64_t i, int64_t n)
{
    const struct attn_tensor *q = &x->o->q;
    const float scale = bug(lin_scale_r) ? 1 / sqrtf((float)x->p->landmarks) : (float)x->p->scale;
    float most = -INFINITY, sum = 0;
    for (int64_t l = 0; l < n; l++) {
        float s = 0;
        for (int64_t c = 0; c < x->p->dk; c++)
            s += op_mutant_get(q, attn_row_start(q, x->b, x->h, i) + c * q->stride[3]) *
                 x->k[l * x->p->dk + c];
        x->s[l] = scale * s;
        most = x->s[l] > most || isnan(x->s[l]) ? x->s[l] : most;
    }
    for (int64_t l = 0; l < n; l++)
        sum += x->s[l] = expf(x->s[l] - most);
    for (int64_t l = 0; l < n; l++)
        x->s[l] /= sum;
    return bug(lin_lse_log2) ? (most + logf(sum)) / logf(2) : most + logf(sum);
}

static void attend(const struct head *x)
{
    const struct attn_tensor *out = &x->o->out, *lse = &x->o->lse;
    const int64_t n = bug(lin_padded) ? rows_of(x->p) : x->p->landmarks - bug(lin_last_row);
    for (int64_t i = 0; i < x->p->sq; i++) {
        const float row = weigh(x, i, n);
        for (int64_t d = 0; d < x->p->dv; d++) {
            float sum = 0;
            for (int64_t l = 0; l < n; l++)
                sum += x->s[l] * x->v[l * x->p->dv + d];
            op_mutant_put(out, attn_row_start(out, x->b, x->h, i) + d * out->stride[3], sum);
        }
        if (lse->dtype)
            op_mutant_put(lse, attn_row_start(lse, x->b, x->h, i), row);
    }
}

static int64_t floats(const struct attn_problem *p)
{
    return rows_of(p) * (p->dk + p->dv + 1);
}

static void run(const struct attn_problem *p, const struct attn_operands *o, float *memory)
{
    struct head x = {.p = p, .o = o, .k = memory};
    x.v = x.k + rows_of(p) * p->dk;
    x.s = x.v + rows_of(p) * p->dv;
    for (x.b = 0; x.b < p->b; x.b++)
        for (x.h = 0; x.h < p->hq; x.h++) {
            project(&x);
            attend(&x);
        }
}

const struct op_mutant op_mutant_linformer = {
    .op = ATTN_OP_LINFORMER, .floats = floats, .run = run};
