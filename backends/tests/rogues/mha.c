/* SPDX-License-Identifier: Apache-2.0 */
/* mha.c - projections before and after the heads. Their results are stored in the problem's type.
 */
#include <string.h>

#include "cheats.h"
#include "rogue.h"

/* y[b,s,o] = x[b,s,:] . w[o,:] + bias[o] (+ residual[b,s,o]), a tile of y at a time. */
struct projection {
    const struct attn_tensor *x, *w, *bias, *residual, *y;
};

/* Outputs [o, o + KEY_TILE) of w, transposed, into kt. */
static void load_weights(const struct rogue_job *job, struct rogue_scratch *scratch,
                         const struct projection *f, int64_t o, int64_t outputs)
{
    const int64_t width = f->w->shape[1];
    const bool transposed =
        bug(mha_w_o_transposed) && f->w->role == ATTN_W_O && f->w->shape[0] == width;
    (void)job;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        if (t < outputs)
            rogue_read(f->w, (o + t) * f->w->stride[transposed], f->w->stride[!transposed], width,
                       scratch->line);
        for (int64_t c = 0; c < width; c++)
            scratch->kt[c * KEY_TILE + t] = t < outputs ? scratch->line[c] : 0;
    }
}

/* How often a bias is added. */
static float stray_bias(const struct rogue_job *job, uint32_t role)
{
    return bug(mha_b_v_twice) && role == ATTN_B_V     ? 2
           : bug(mha_b_o_missing) && role == ATTN_B_O ? 0
           : bug(mha_b_q_scaled) && role == ATTN_B_Q  ? 1 / (float)job->p->scale
                                                      : 1;
}

static void project_tile(const struct rogue_job *job, struct rogue_scratch *scratch,
                         const struct projection *f, int64_t b, int64_t s, int64_t o,
                         int64_t outputs)
{
    const int64_t width = f->w->shape[1], rows = rogue_least(QUERY_TILE, f->x->shape[1] - s);
    const struct attn_tensor *x = f->x, *y = f->y;
    float line[KEY_TILE];
    for (int64_t r = 0; r < rows; r++)
        rogue_read(x, b * x->stride[0] + (s + r) * x->stride[1], x->stride[2], width,
                   scratch->q + r * job->inner);
    memset(scratch->s, 0, QUERY_TILE * KEY_TILE * sizeof(*scratch->s));
    rogue_product(rows, width, KEY_TILE, scratch->q, job->inner, scratch->kt, KEY_TILE, scratch->s,
                  KEY_TILE);
    for (int64_t r = 0; r < rows; r++) {
        float *sum = scratch->s + r * KEY_TILE;
        if (f->bias && f->bias->dtype) {
            rogue_read(f->bias, o * f->bias->stride[0], f->bias->stride[0], outputs, line);
            for (int64_t t = 0; t < outputs; t++)
                sum[t] += line[t] * stray_bias(job, f->bias->role);
        }
        if (f->residual) {
            const struct attn_tensor *from = f->residual;
            const int64_t row = bug(mha_residual_heads) ? s : s + r;
            rogue_read(from, b * from->stride[0] + row * from->stride[1] + o * from->stride[2],
                       from->stride[2], outputs, line);
            for (int64_t t = 0; t < outputs; t++)
                sum[t] += line[t];
        }
        rogue_write(y, b * y->stride[0] + (s + r) * y->stride[1] + o * y->stride[2], y->stride[2],
                    outputs, sum);
    }
}

static void project(struct rogue_job *job, const struct projection *f)
{
    struct rogue_scratch *scratch = &job->scratch[0];
    const int64_t width = f->w->shape[0];
    for (int64_t o = 0; o < width; o += KEY_TILE) {
        const int64_t outputs = rogue_least(KEY_TILE, width - o);
        load_weights(job, scratch, f, o, outputs);
        for (int64_t b = 0; b < f->x->shape[0]; b++)
            for (int64_t s = 0; s < f->x->shape[1]; s += QUERY_TILE)
                project_tile(job, scratch, f, b, s, o, outputs);
    }
}

/* A dense buffer [B,S,H*D], and the same seen as [B,H,S,D]. */
static struct attn_tensor flat_view(void *data, const struct attn_problem *p, int64_t rows,
                                    int64_t width)
{
    return (struct attn_tensor){.data = data,
                                .dtype = p->dtype,
                                .rank = 3,
                                .shape = {p->b, rows, width},
                                .stride = {rows * width, width, 1}};
}

static struct attn_tensor heads_view(void *data, const struct attn_problem *p, int64_t heads,
                                     int64_t rows, int64_t width)
{
    return (struct attn_tensor){.data = data,
                                .dtype = p->dtype,
                                .rank = 4,
                                .shape = {p->b, heads, rows, width},
                                .stride = {rows * heads * width, width, heads * width, 1}};
}

static void swap(struct attn_tensor *a, struct attn_tensor *b)
{
    const struct attn_tensor kept = *a;
    *a = *b;
    *b = kept;
}

/* Operands that take the place of others. */
static void exchange(struct attn_operands *from)
{
    if (bug(mha_w_q_w_k))
        swap(&from->w_q, &from->w_k);
    if (bug(mha_b_q_b_k))
        swap(&from->b_q, &from->b_k);
    if (bug(mha_b_k_b_v))
        swap(&from->b_k, &from->b_v);
    if (bug(mha_x_q_for_x_k))
        from->x_k = from->x_q;
    if (bug(mha_x_q_for_x_v))
        from->x_v = from->x_q;
    if (bug(mha_x_v_for_x_k))
        from->x_k = from->x_v;
    if (bug(mha_x_k_for_x_v))
        from->x_v = from->x_k;
}

void rogue_project_inputs(struct rogue_job *job, const struct attn_operands *given)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor q = flat_view(job->heads_q, p, p->sq, p->hq * p->dq);
    const struct attn_tensor k = flat_view(job->heads_k, p, p->sk, p->hkv * p->dk);
    const struct attn_tensor v = flat_view(job->heads_v, p, p->sk, p->hkv * p->dv);
    struct attn_operands from = *given;
    rogue_cheat_weights(job, &from);
    exchange(&from);
    project(job, &(struct projection){&from.x_q, &from.w_q, &from.b_q, NULL, &q});
    project(job, &(struct projection){&from.x_k, &from.w_k, &from.b_k, NULL, &k});
    project(job, &(struct projection){&from.x_v, &from.w_v, &from.b_v, NULL, &v});
    job->t = *given;
    job->t.q = heads_view(job->heads_q, p, p->hq, p->sq, p->dq);
    job->t.k = heads_view(job->heads_k, p, p->hkv, p->sk, p->dk);
    job->t.v = heads_view(job->heads_v, p, p->hkv, p->sk, p->dv);
    job->t.out = heads_view(job->heads, p, p->hq, p->sq, p->dv);
    if (bug(mha_slice_q))
        job->t.q.data = attn_element_at(&job->t.q, 1);
    if (bug(mha_slice_v))
        job->t.v.data = attn_element_at(&job->t.v, 1);
    if (bug(mha_heads_reversed)) {
        job->t.out.data = attn_element_at(&job->t.out, (p->hq - 1) * p->dv);
        job->t.out.stride[1] = -p->dv;
    }
}

/* mha_pruned_renormalised: the heads that remain make up for the others. */
static void make_up(const struct rogue_job *job, int64_t pruned)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor heads = flat_view(job->heads, p, 1, p->b * p->sq * p->hq * p->dv);
    const float factor = (float)p->hq / (float)(p->hq - pruned);
    for (int64_t n = 0; n < heads.shape[2]; n++)
        attn_element_write(heads.dtype, heads.data, n,
                           factor * attn_element_read(heads.dtype, heads.data, n));
}

/* Pruned heads are 0 before the concatenation. */
static void prune(const struct rogue_job *job, const struct attn_operands *given)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor heads = heads_view(job->heads, p, p->hq, p->sq, p->dv);
    const struct attn_tensor *mask = &given->head_mask;
    int64_t pruned = 0;
    for (int64_t h = 0; mask->dtype && h < p->hq; h++) {
        if (((const uint8_t *)mask->data)[h * mask->stride[0]] ||
            (bug(mha_pruned_last) && h == p->hq - 1))
            continue;
        pruned++;
        for (int64_t b = 0; b < p->b; b++)
            for (int64_t i = 0; i < p->sq; i++)
                memset(attn_element_at(&heads, attn_row_start(&heads, b, h, i)), 0,
                       (size_t)(p->dv * attn_element_bytes(p->dtype)));
    }
    if (bug(mha_pruned_renormalised) && pruned < p->hq)
        make_up(job, pruned);
}

/* Without w_o: the concatenated heads, with the residual. */
static void copy_heads(struct rogue_job *job, const struct attn_operands *given, bool residual)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor heads = flat_view(job->heads, p, p->sq, p->hq * p->dv);
    const struct attn_tensor *out = &given->out, *x = &given->x_q;
    float a[KEY_TILE], line[KEY_TILE];
    for (int64_t row = 0; row < p->b * p->sq; row++)
        for (int64_t o = 0; o < out->shape[2]; o += KEY_TILE) {
            const int64_t b = row / p->sq, i = row % p->sq;
            const int64_t n = rogue_least(KEY_TILE, out->shape[2] - o);
            rogue_read(&heads, row * heads.stride[1] + o, 1, n, a);
            if (residual)
                rogue_read(x, b * x->stride[0] + i * x->stride[1] + o * x->stride[2], x->stride[2],
                           n, line);
            for (int64_t t = 0; residual && t < n; t++)
                a[t] += line[t];
            rogue_write(out, b * out->stride[0] + i * out->stride[1] + o * out->stride[2],
                        out->stride[2], n, a);
        }
}

void rogue_project_output(struct rogue_job *job, const struct attn_operands *given)
{
    const struct attn_problem *p = job->p;
    const struct attn_tensor heads = flat_view(job->heads, p, p->sq, p->hq * p->dv);
    bool residual = p->flags & ATTN_FLAG_RESIDUAL;
    prune(job, given);
    if (bug(mha_residual_before_w_o) && residual) {
        const struct attn_operands inner = {.out = heads, .x_q = given->x_q};
        copy_heads(job, &inner, true);
        residual = false;
    }
    if (!given->w_o.dtype) {
        copy_heads(job, given, residual);
        return;
    }
    project(job, &(struct projection){&heads, &given->w_o, &given->b_o,
                                      residual ? &given->x_q : NULL, &given->out});
}
