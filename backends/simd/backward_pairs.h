/* SPDX-License-Identifier: Apache-2.0 */
/* backward_pairs.h - part of backward_template.h: how operands lie for products of pairs of bf16.
 *
 * In each of the five products a row of A is a row of pairs along the inner axis, and B holds pairs
 * of the inner axis side by side (flash_pack_pairs.h). So sums of dv and dk have keys in columns:
 *
 *   s    = q k^T        A w->q [rows][query_stride(dk)]      B w->kt, panels of keys
 *   dP   = dO v^T       A w->dout [rows][query_stride(dv)]   B w->vt, panels of keys
 *   dv^T += dO^T p      A w->dout_t [dv][rows_row]           B w->p   [rows/2][score_row]
 *   dk^T += q^T dS      A w->q_t [dk][rows_row]              B w->dst [rows/2][score_row]
 *   dq   += dS k        A w->dsr [rows][score_row/2]         B w->k, panels of columns
 *
 * p and dS are rounded to bf16 in the three layouts. Inner extents are filled up to FLASH_STEP with
 * zeros on both sides; so are p and dS around the keys that the query tile may see, up to whole
 * vectors and whole steps. */

/* The keys that _add_keys takes at a time where rows see some of them only. */
#define BACKWARD_KEYS FLASH_NR

/* Floats of w->k for FLASH_NR columns. */
FLASH_INLINE int64_t backward_k_panel(const struct attn_backward *job)
{
    return pairs(job->key_tile) * FLASH_NR;
}

/* k as rows and as columns, v as columns. Returns whether all of k is finite. */
static bool backward_take_keys(const struct backward_unit *u)
{
    const struct attn_backward *job = u->job;
    const struct attn_tensor *k = &job->operands.k, *v = &job->operands.v;
    const uint16_t *base = (const uint16_t *)k->data + attn_row_start(k, u->b, u->g, u->j0);
    const vf zero = vf_set1(0.0f);
    vf sum = zero;
    pack_panels(k, attn_row_start(k, u->b, u->g, u->j0), u->keys, u->w->kt);
    pack_panels(v, attn_row_start(v, u->b, u->g, u->j0), u->keys, u->w->vt);
    for (int64_t j = 0; j < attn_round_up(u->keys, FLASH_STEP); j += 2) {
        const uint16_t *even = j < u->keys ? base + j * k->stride[2] : NULL;
        const uint16_t *odd = j + 1 < u->keys ? base + (j + 1) * k->stride[2] : NULL;
        float *to = u->w->k + j / 2 * FLASH_NR;
        for (int64_t c = 0; c < job->problem->dk; c += VF_LANES) {
            const vf pair = pair_keys(even, odd, k->stride[3], c, job->problem->dk);
            vf_store(to + c / FLASH_NR * backward_k_panel(job) + c % FLASH_NR, pair);
            sum = vf_join_pairs(pair, zero, sum);
        }
    }
    return vf_all_zero(sum);
}

static void backward_clear_keys(const struct backward_unit *u)
{
    const struct attn_backward *job = u->job;
    const int64_t dk = attn_round_up(job->problem->dk, 2 * VF_LANES),
                  dv = attn_round_up(job->problem->dv, 2 * VF_LANES);
    memset(u->w->dk, 0, (size_t)(dk * job->score_row) * sizeof(float));
    memset(u->w->dv, 0, (size_t)(dv * job->score_row) * sizeof(float));
}

/* Rows of q or dO, and their transpose. Rows that see no key become 0, whatever they hold. */
static void backward_take_both(const struct backward_rows *x, const struct attn_tensor *from,
                               int64_t width, float *rows, float *columns)
{
    const int64_t row = query_stride(width), all = attn_round_up(x->rows, 2 * VF_LANES);
    for (int64_t r = 0; r < all; r++)
        if (r < x->rows && x->lse[r] != INFINITY)
            copy_pairs((const uint16_t *)from->data +
                           attn_row_start(from, x->u->b, x->h, x->i0 + r),
                       from->stride[3], width, rows + r * row);
        else
            memset(rows + r * row, 0, (size_t)row * sizeof(float));
    turn_pairs(rows, all, row, columns, x->u->job->rows_row);
}

static void backward_take_queries(struct backward_rows *x)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    backward_take_both(x, &job->operands.q, job->problem->dk, w->q, w->q_t);
    backward_take_both(x, &job->operands.dout, job->problem->dv, w->dout, w->dout_t);
}

static bool backward_queries_finite(const struct backward_rows *x)
{
    const struct attn_problem *p = x->u->job->problem;
    return pairs_finite(x->u->w->q, x->rows * query_stride(p->dk)) &&
           pairs_finite(x->u->w->dout, x->rows * query_stride(p->dv));
}

/* Whether products take cells outside [lo, hi), too, whose weights are 0. */
static bool backward_rounds(const struct backward_rows *x)
{
    const int64_t step = 2 * VF_LANES;
    return x->lo % step || (x->hi % step && x->hi < x->u->keys);
}

/* s = q k^T, ds = dO v^T: raw scores and dP of a row group, in whole vectors. */
static void backward_scores(const struct backward_rows *x, const struct backward_group *group)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const int64_t dk = job->problem->dk, dv = job->problem->dv, row = job->score_row;
    struct matrix_product q = {.a = w->q + group->r0 * query_stride(dk),
                               .a_row = query_stride(dk),
                               .a_step = 1,
                               .b_row = FLASH_NR,
                               .c_row = row,
                               .rows = group->count,
                               .depth = pairs(dk),
                               .fresh = true};
    struct matrix_product dout = q;
    dout.a = w->dout + group->r0 * query_stride(dv);
    dout.a_row = query_stride(dv);
    dout.depth = pairs(dv);
    for (int64_t j = group->from, end; j < group->to; j = end) {
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < group->to ? end : group->to;
        q.columns = dout.columns = end - j;
        q.b = w->kt + j / FLASH_NR * FLASH_NR * pairs(dk) + j % FLASH_NR;
        dout.b = w->vt + j / FLASH_NR * FLASH_NR * pairs(dv) + j % FLASH_NR;
        q.c = w->s + group->r0 * row + j;
        dout.c = w->ds + group->r0 * row + j;
        matrix_multiply_vectors(&q);
        matrix_multiply_vectors(&dout);
    }
}

/* Cells [from, to) of a row that lie outside [lo, hi) become 0. */
FLASH_INLINE void backward_clear_edges(float *row, int64_t from, int64_t lo, int64_t hi, int64_t to)
{
    for (int64_t j = from; j < lo; j++)
        row[j] = 0.0f;
    for (int64_t j = hi; j < to; j++)
        row[j] = 0.0f;
}

/* p and dS of a row group, rounded, in the layouts of their products. */
static void backward_end_weights(const struct backward_rows *x, const struct backward_group *group)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const int64_t row = job->score_row, end = group->r0 + group->count, step = 2 * VF_LANES;
    const int64_t from = x->lo / VF_LANES * VF_LANES, to = attn_round_up(x->hi, VF_LANES);
    const vf zero = vf_set1(0.0f);
    for (int64_t r = group->r0; r < end; r++) {
        const float *ds = w->ds + r * row;
        uint16_t *narrow = (uint16_t *)(void *)(w->dsr + r * (row / 2));
        backward_clear_edges(w->s + r * row, from, x->lo, x->hi, to);
        backward_clear_edges(w->ds + r * row, from, x->lo, x->hi, to);
        for (int64_t j = x->lo / step * step; j < x->hi; j += step)
            vf_store_pairs(narrow + j, j < from ? zero : vf_load(ds + j),
                           j + VF_LANES < to ? vf_load(ds + j + VF_LANES) : zero);
    }
    for (int64_t r = group->r0; r < attn_round_up(end, FLASH_STEP); r += 2) {
        const float *p = w->s + r * row, *ds = w->ds + r * row;
        for (int64_t j = from; j < to; j += VF_LANES) {
            const vf even = r < end ? vf_load(p + j) : zero,
                     odd = r + 1 < end ? vf_load(p + row + j) : zero;
            const vf d_even = r < end ? vf_load(ds + j) : zero,
                     d_odd = r + 1 < end ? vf_load(ds + row + j) : zero;
            vf_store(w->p + r / 2 * row + j, vf_pairs_of_rows(even, odd));
            vf_store(w->dst + r / 2 * row + j, vf_pairs_of_rows(d_even, d_odd));
        }
    }
}

/* dv^T += dO^T p and dk^T += q^T dS, for keys [lo, hi) and rows [first, end). */
static void backward_add_keys(const struct backward_rows *x, int64_t lo, int64_t hi, int64_t first,
                              int64_t end)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const int64_t from = lo / VF_LANES * VF_LANES, row = job->score_row;
    struct matrix_product sum = {.a = w->dout_t + first / 2,
                                 .a_row = job->rows_row,
                                 .a_step = 1,
                                 .b = w->p + first / 2 * row + from,
                                 .b_row = row,
                                 .c = w->dv + from,
                                 .c_row = row,
                                 .rows = job->problem->dv,
                                 .columns = attn_round_up(hi, VF_LANES) - from,
                                 .depth = pairs(end - first)};
    if (job->operands.grad_v.dtype)
        matrix_multiply_vectors(&sum);
    sum.a = w->q_t + first / 2;
    sum.b = w->dst + first / 2 * row + from;
    sum.c = w->dk + from;
    sum.rows = job->problem->dk;
    if (job->operands.grad_k.dtype)
        matrix_multiply_vectors(&sum);
}

/* dq += dS k, for rows [first, end) and keys [lo, hi). */
static void backward_add_queries(const struct backward_rows *x, int64_t first, int64_t end,
                                 int64_t lo, int64_t hi)
{
    const struct attn_backward *job = x->u->job;
    const int64_t from = lo / FLASH_STEP * FLASH_STEP, half = job->score_row / 2;
    const int64_t width = attn_round_up(job->problem->dk, VF_LANES);
    struct matrix_product sum = {.a = x->u->w->dsr + first * half + from / 2,
                                 .a_row = half,
                                 .a_step = 1,
                                 .b_row = FLASH_NR,
                                 .c_row = job->dk_row,
                                 .rows = end - first,
                                 .depth = pairs(hi - from)};
    for (int64_t c = 0; c < width; c += FLASH_NR) {
        sum.b = x->u->w->k + c / FLASH_NR * backward_k_panel(job) + from / 2 * FLASH_NR;
        sum.c = x->dq + first * job->dk_row + c;
        sum.columns = attn_clamp(width - c, VF_LANES, FLASH_NR);
        matrix_multiply_vectors(&sum);
    }
}

/* column += by x, of a matrix with score_row floats in a row. */
static void backward_add_column(float *column, int64_t stride, float by, const float *x,
                                int64_t width)
{
    for (int64_t c = 0; c < width; c++)
        column[c * stride] = fmaf(by, x[c], column[c * stride]);
}

/* What one cell adds to dk, dv and the dq of its row, `to`. */
static void backward_add_cell(const struct backward_rows *x, int64_t r, int64_t j, float p,
                              float ds, float *to)
{
    const struct backward_unit *u = x->u;
    const struct attn_operands *o = &u->job->operands;
    const int64_t dk = u->job->problem->dk, dv = u->job->problem->dv, row = u->job->score_row;
    float *held = u->w->held;
    widen(&o->dout, attn_row_start(&o->dout, u->b, x->h, x->i0 + r), o->dout.stride[3], dv, held);
    backward_add_column(u->w->dv + j, row, p, held, dv);
    widen(&o->q, attn_row_start(&o->q, u->b, x->h, x->i0 + r), o->q.stride[3], dk, held);
    backward_add_column(u->w->dk + j, row, ds, held, dk);
    widen(&o->k, attn_row_start(&o->k, u->b, u->g, u->j0 + j), o->k.stride[3], dk, held);
    backward_add_row(to, ds, held, dk);
}

/* Columns of sums as rows of a gradient, if it is there. */
static void backward_store_columns(const struct backward_unit *u, const float *sums,
                                   const struct attn_tensor *to, int64_t width, int64_t held_row,
                                   float by)
{
    for (int64_t j = 0; to->dtype && j < u->keys; j += VF_LANES) {
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_transpose(sums + c * u->job->score_row + j, u->job->score_row, 1.0f, u->w->held + c,
                         held_row);
        for (int64_t n = 0; n < VF_LANES && j + n < u->keys; n++)
            narrow(to, attn_row_start(to, u->b, u->g, u->j0 + j + n), to->stride[3], width,
                   u->w->held + n * held_row, by);
    }
}

static void backward_store_keys(const struct backward_unit *u)
{
    const struct attn_backward *job = u->job;
    backward_store_columns(u, u->w->dk, &job->operands.grad_k, job->problem->dk, job->dk_row,
                           (float)job->problem->scale);
    backward_store_columns(u, u->w->dv, &job->operands.grad_v, job->problem->dv, job->dv_row, 1.0f);
}
