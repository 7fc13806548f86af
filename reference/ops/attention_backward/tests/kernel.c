/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.c - a tiled backward pass that rounds every operation. */
#include "reference/ops/attention_backward/tests/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/operands.h"
#include "reference/philox.h"
#include "reference/reference.h"

enum { WIDTH = 64 };

struct pass {
    struct made *m;
    const struct attn_problem *p;
    const struct kernel_style *style;
    struct kernel_gradients *g;
    struct ref_operands in;
    float *delta, *lse; /* [B,Hq,Sq] */
};

static float rounded(uint32_t dtype, double x)
{
    uint64_t room = 0;

    attn_dtype_store(dtype, &room, 0, x);
    return (float)attn_dtype_load(dtype, &room, 0);
}

/* What is stored before a product. */
static float stored(const struct pass *x, float value)
{
    return rounded(x->p->dtype == ATTN_F64 ? ATTN_F32 : x->p->dtype, value);
}

static double load(const struct pass *x, uint32_t role, int64_t b, int64_t h, int64_t i, int64_t c)
{
    return ref_load(x->in.by_role[role], (const int64_t[]){b, h, i, c});
}

static float dot(const struct pass *x, const uint32_t roles[2], const int64_t a[3],
                 const int64_t b[3], int64_t width)
{
    float sum = 0;

    for (int64_t c = 0; c < width; c++)
        sum += (float)load(x, roles[0], a[0], a[1], a[2], c) *
               (float)load(x, roles[1], b[0], b[1], b[2], c);
    return sum;
}

/* One cell: its weight, the factor of dropout, and the gradients at s and at z. */
struct cell {
    float p, kept, dp, ds, dz;
    bool allowed;
};

/* A gradient after one more tile. */
static float kept(const struct pass *x, float sum)
{
    return x->style->kept ? stored(x, sum) : sum;
}

/* What dQ and dK are multiplied by at the end. */
static float last_factor(const struct pass *x)
{
    return x->style->scaled ? 1 : (float)x->p->scale;
}

static float score(const struct pass *x, int64_t b, int64_t h, int64_t i, int64_t j, float *t)
{
    const struct attn_problem *p = x->p;
    const int64_t row[] = {b, h, i}, key[] = {b, h / (p->hq / p->hkv), j};
    const int64_t diagonal = i + ref_offset(&x->in, b);
    float s = dot(x, (const uint32_t[]){ATTN_Q, ATTN_K}, row, key, p->dk) * (float)p->scale;

    if (p->flags & ATTN_FLAG_SOFTCAP) {
        *t = tanhf(s / (float)p->softcap);
        s = *t * (float)p->softcap;
    }
    if (x->in.by_role[ATTN_BIAS])
        s += (float)load(x, ATTN_BIAS, b, h, i, j);
    if (x->in.by_role[ATTN_ALIBI])
        s -= (float)ref_load(x->in.by_role[ATTN_ALIBI], &h) * fabsf((float)(diagonal - j));
    return s;
}

static bool keeps(const struct pass *x, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = x->p;
    const int64_t index = ((b * p->hq + h) * p->sq + i) * p->sk + j;

    if (x->in.by_role[ATTN_KEEP])
        return load(x, ATTN_KEEP, b, h, i, j) != 0;
    return attn_dropout_keep(p->dropout_seed, (uint64_t)index, p->dropout_p);
}

static struct cell cell_of(const struct pass *x, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = x->p;
    const int64_t row = (b * p->hq + h) * p->sq + i;
    const int64_t at[] = {b, h, i}, key[] = {b, h / (p->hq / p->hkv), j};
    struct cell cell = {.allowed = ref_allowed(p, b, h, i, j)};
    float t = 0, factor = 1;

    if (!cell.allowed)
        return cell;
    cell.p = expf(score(x, b, h, i, j, &t) - x->lse[row]);
    if (p->flags & ATTN_FLAG_DROPOUT)
        factor = keeps(x, b, h, i, j) ? 1 / (1 - (float)p->dropout_p) : 0;
    cell.kept = cell.p * factor;
    cell.dp = dot(x, (const uint32_t[]){ATTN_GRAD_OUT, ATTN_V}, at, key, p->dv);
    cell.dp *= x->style->mistake == KERNEL_DP && factor > 0 ? 1 : factor;
    cell.ds = cell.p * (cell.dp - x->delta[row]);
    cell.dz = cell.ds;
    if ((p->flags & ATTN_FLAG_SOFTCAP) && x->style->mistake != KERNEL_NO_CAP)
        cell.dz *= 1 - t * t;
    cell.dz *= x->style->scaled ? (float)p->scale : 1;
    return cell;
}

static bool sees_a_key(const struct attn_problem *p, int64_t b, int64_t h, int64_t i)
{
    bool any = false;

    for (int64_t j = 0; j < p->sk; j++)
        any = any || ref_allowed(p, b, h, i, j);
    return any;
}

/* Before the tiles: delta, and the lse that is given or computed. */
static void prepare(const struct pass *x, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = x->p;
    const int64_t row = (b * p->hq + h) * p->sq + i, at[] = {b, h, i};
    const uint32_t roles[] = {ATTN_GRAD_OUT, ATTN_OUT};
    float most = -INFINITY, sum = 0, t = 0;

    x->lse[row] = (float)ref_load(x->in.by_role[ATTN_LSE], at);
    x->delta[row] = dot(x, roles, at, at, p->dv);
    if (x->style->own_lse) {
        for (int64_t j = 0; j < p->sk; j++)
            if (ref_allowed(p, b, h, i, j))
                most = fmaxf(most, score(x, b, h, i, j, &t));
        for (int64_t j = 0; j < p->sk; j++)
            if (ref_allowed(p, b, h, i, j))
                sum += expf(score(x, b, h, i, j, &t) - most);
        if (x->in.by_role[ATTN_SINK])
            sum += expf((float)ref_load(x->in.by_role[ATTN_SINK], &h) - most);
        if (isfinite(most))
            x->lse[row] = most + logf(sum);
    }
    if (x->style->own_delta) {
        float own = 0;
        x->delta[row] = 0;
        for (int64_t j = 0; j < p->sk; j++) {
            const struct cell cell = cell_of(x, b, h, i, j);
            own += cell.allowed ? cell.p * cell.dp : 0;
        }
        x->delta[row] = own;
    }
    if (x->in.by_role[ATTN_GRAD_LSE])
        x->delta[row] = (sees_a_key(p, b, h, i) ? x->delta[row] : 0) -
                        (float)ref_load(x->in.by_role[ATTN_GRAD_LSE], at);
    if (x->style->mistake == KERNEL_NO_DELTA)
        x->delta[row] = 0;
    if (x->style->mistake == KERNEL_LOW_DELTA)
        x->delta[row] = rounded(ATTN_BF16, x->delta[row]);
}

/* dQ of one row: a sum for each tile of keys, which are then added up. */
static void run_row(const struct pass *x, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = x->p;
    const int64_t row = (b * p->hq + h) * p->sq + i, tile = x->style->key_tile;
    const int64_t odd = x->style->mistake == KERNEL_PAIR_DQ ? i / 2 : -1;
    float sum[WIDTH] = {0};

    for (int64_t first = 0; first < p->sk; first += tile) {
        float part[WIDTH] = {0};
        for (int64_t j = first; j < p->sk && j < first + tile; j++) {
            const struct cell cell = cell_of(x, b, h, i, j);
            if (!cell.allowed || j == odd)
                continue;
            for (int64_t c = 0; c < p->dk; c++)
                part[c] +=
                    stored(x, cell.dz) * (float)load(x, ATTN_K, b, h / (p->hq / p->hkv), j, c);
        }
        for (int64_t c = 0; c < p->dk; c++)
            sum[c] = kept(x, sum[c] + part[c]);
    }
    for (int64_t c = 0; c < p->dq; c++) {
        const float more = x->style->mistake == KERNEL_TWO ? 1.02f : 1;
        x->g->dq[row * p->dq + c] = rounded(p->dtype, more * (last_factor(x) * sum[c]));
    }
}

/* Is a pair missing for dK and dV? */
static bool is_lost(const struct pass *x, int64_t b, int64_t i, int64_t j)
{
    return (x->style->mistake == KERNEL_PAIR_DKV && i == j + (x->p->sq - j) / 2) ||
           (x->style->mistake == KERNEL_DIAGONAL && j == i + ref_offset(&x->in, b));
}

/* dK and dV of one key: tiles of queries of one head after another. */
static void run_key(const struct pass *x, int64_t b, int64_t g, int64_t j)
{
    const struct attn_problem *p = x->p;
    const int64_t heads = p->hq / p->hkv, tile = x->style->query_tile;
    const int64_t key = (b * p->hkv + g) * p->sk + j;
    float dk[WIDTH] = {0}, dv[WIDTH] = {0};

    for (int64_t h = g * heads; h < (g + 1) * heads; h++) {
        float of_k[WIDTH] = {0}, of_v[WIDTH] = {0};
        for (int64_t first = 0; first < p->sq; first += tile) {
            float part_k[WIDTH] = {0}, part_v[WIDTH] = {0};
            for (int64_t i = first; i < p->sq && i < first + tile; i++) {
                const struct cell cell = cell_of(x, b, h, i, j);
                if (!cell.allowed || is_lost(x, b, i, j))
                    continue;
                for (int64_t c = 0; c < p->dq; c++)
                    part_k[c] += stored(x, cell.dz) * (float)load(x, ATTN_Q, b, h, i, c);
                for (int64_t c = 0; c < p->dv; c++)
                    part_v[c] += stored(x, cell.kept) * (float)load(x, ATTN_GRAD_OUT, b, h, i, c);
            }
            for (int64_t c = 0; c < WIDTH; c++) {
                float *k = x->style->kept ? &dk[c] : &of_k[c];
                float *v = x->style->kept ? &dv[c] : &of_v[c];
                *k = kept(x, *k + part_k[c]);
                *v = kept(x, *v + part_v[c]);
            }
        }
        for (int64_t c = 0; c < WIDTH; c++) {
            const bool alone = x->style->mistake == KERNEL_HEAD;
            dk[c] = (alone ? 0 : dk[c]) + (x->style->parts ? stored(x, of_k[c]) : of_k[c]);
            dv[c] = (alone ? 0 : dv[c]) + (x->style->parts ? stored(x, of_v[c]) : of_v[c]);
        }
    }
    for (int64_t c = 0; c < p->dk; c++) {
        const float scale = x->style->mistake == KERNEL_SCALE ? 1 : last_factor(x);
        const float more = x->style->mistake == KERNEL_TWO ? 1.02f : 1;
        x->g->dk[key * p->dk + c] = rounded(p->dtype, more * (scale * dk[c]));
    }
    for (int64_t c = 0; c < p->dv; c++)
        x->g->dv[key * p->dv + c] = rounded(p->dtype, dv[c]);
}

/* Sums over whole heads. */
static void run_head(const struct pass *x, int64_t h)
{
    const struct attn_problem *p = x->p;
    const struct attn_tensor *sink = x->in.by_role[ATTN_SINK];
    float of_sink = 0, of_slope = 0;

    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            const int64_t row = (b * p->hq + h) * p->sq + i;
            const int64_t diagonal = i + ref_offset(&x->in, b);
            bool any = false;
            for (int64_t j = 0; j < p->sk; j++) {
                const struct cell cell = cell_of(x, b, h, i, j);
                if (x->in.by_role[ATTN_BIAS])
                    x->g->dbias[row * p->sk + j] = cell.ds;
                of_slope -= cell.ds * fabsf((float)(diagonal - j));
                any = any || cell.allowed;
            }
            if (sink && (any || x->in.by_role[ATTN_GRAD_LSE]))
                of_sink -= expf((float)ref_load(sink, &h) - x->lse[row]) * x->delta[row];
        }
    x->g->dsink[h] = of_sink;
    x->g->dalibi[h] = of_slope;
}

struct attn_numerics kernel_declares(const struct made *m, const struct kernel_style *style)
{
    const uint32_t type = m->problem.dtype;
    const uint32_t low = type == ATTN_F64 ? ATTN_F32 : type;

    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = ATTN_F32,
                                  .p_type = low,
                                  .ds_type = low,
                                  .grad_partial_type = style->parts ? low : 0,
                                  .dq_acc_type = style->kept ? low : 0,
                                  .dkv_acc_type = style->kept ? low : 0,
                                  .key_tile = style->key_tile,
                                  .query_tile = style->query_tile,
                                  .bwd_lse = style->own_lse,
                                  .bwd_delta = style->own_delta,
                                  .e_exp = 4 * 0x1p-24,
                                  .e_log = 4 * 0x1p-24,
                                  .e_tanh = 8 * 0x1p-24};
}

void kernel_compute(struct made *m, const struct kernel_style *style, struct kernel_gradients *g)
{
    const struct attn_problem *p = &m->problem;
    const int64_t rows = p->b * p->hq * p->sq;
    struct pass x = {.m = m, .p = p, .style = style, .g = g};

    ref_operands_init(&x.in, p);
    x.delta = calloc((size_t)rows, sizeof *x.delta);
    x.lse = calloc((size_t)rows, sizeof *x.lse);
    for (int64_t row = 0; x.delta && x.lse && row < rows; row++)
        prepare(&x, row / p->sq / p->hq, row / p->sq % p->hq, row % p->sq);
    for (int64_t row = 0; row < rows; row++)
        run_row(&x, row / p->sq / p->hq, row / p->sq % p->hq, row % p->sq);
    for (int64_t key = 0; key < p->b * p->hkv * p->sk; key++)
        run_key(&x, key / p->sk / p->hkv, key / p->sk % p->hkv, key % p->sk);
    for (int64_t h = 0; h < p->hq; h++)
        run_head(&x, h);
    free(x.delta);
    free(x.lse);
}
