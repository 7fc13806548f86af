/* SPDX-License-Identifier: Apache-2.0 */
/* backward_floats.h - part of backward_template.h: how operands lie, and the five products, in
 * floats. Operands of 16 bits are widened when they are taken. */

/* The keys that _add_keys takes at a time where rows see some of them only. */
#define BACKWARD_KEYS FLASH_MR

/* Rows of the next query tile that are asked for between two panels of keys: many lines at once
 * would take the buffers through which products read their own operands. */
#define BACKWARD_AHEAD 2

/* Whether `count` rows of whole vectors are finite. */
static bool backward_finite(const float *rows, int64_t stride, int64_t count, int64_t width)
{
    vf sum = vf_set1(0);
    for (int64_t n = 0; n < count; n++)
        for (int64_t c = 0; c < width; c += VF_LANES)
            sum = vf_fma(vf_load(rows + n * stride + c), vf_set1(0), sum);
    return vf_all_equal(sum, vf_set1(0));
}

/* Rows of f32, transposed into panels [columns, in whole vectors][NR]. Rows beyond the last one are
 * there and 0, up to a whole vector. */
static void backward_transpose(const float *rows, int64_t stride, int64_t count, int64_t width,
                               float *panel)
{
    for (int64_t j = 0; j < count; j += VF_LANES)
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_transpose(rows + j * stride + c, stride, 1.0f, panel + c * FLASH_NR + j, FLASH_NR);
}

/* Key or value rows of a panel, in whole vectors: rows from `count` on become 0. */
static void backward_take_rows(const struct backward_unit *u, const struct attn_tensor *x,
                               int64_t first, int64_t count, int64_t width, float *to,
                               int64_t stride)
{
    for (int64_t n = 0; n < attn_round_up(count, VF_LANES); n++)
        if (n < count)
            widen(x, attn_row_start(x, u->b, u->g, u->j0 + first + n), x->stride[3], width,
                  to + n * stride);
        else
            memset(to + n * stride, 0, (size_t)attn_round_up(width, 16) * sizeof(float));
}

/* k as rows and as columns, v as columns. Returns whether all of k is finite. */
static bool backward_take_keys(const struct backward_unit *u)
{
    const struct attn_backward *job = u->job;
    const struct attn_problem *p = job->problem;
    const struct attn_backward_scratch *w = u->w;
    const int64_t k_panel = FLASH_NR * attn_round_up(p->dk, 16);
    const int64_t v_panel = FLASH_NR * attn_round_up(p->dv, 16);
    backward_take_rows(u, &job->operands.k, 0, u->keys, p->dk, w->k, job->dk_row);
    for (int64_t j = 0; j < u->keys; j += FLASH_NR)
        backward_transpose(w->k + j * job->dk_row, job->dk_row,
                           attn_clamp(u->keys - j, 1, FLASH_NR), p->dk,
                           w->kt + j / FLASH_NR * k_panel);
    for (int64_t j = 0; j < u->keys; j += VF_LANES) {
        backward_take_rows(u, &job->operands.v, j, attn_clamp(u->keys - j, 1, VF_LANES), p->dv,
                           w->held, job->dv_row);
        backward_transpose(w->held, job->dv_row, VF_LANES, p->dv,
                           w->vt + j / FLASH_NR * v_panel + j % FLASH_NR);
    }
    return backward_finite(w->k, job->dk_row, u->keys, p->dk);
}

static void backward_clear_keys(const struct backward_unit *u)
{
    const struct attn_backward *job = u->job;
    memset(u->w->dk, 0, (size_t)(u->keys * job->dk_row) * sizeof(float));
    memset(u->w->dv, 0, (size_t)(u->keys * job->dv_row) * sizeof(float));
}

/* Rows of q and dO of a query tile. Rows that see no key become 0, whatever they hold. */
static void backward_take_queries(struct backward_rows *x)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_tensor *q = &job->operands.q, *dout = &job->operands.dout;
    const struct attn_problem *p = job->problem;
    for (int64_t r = 0; r < x->rows; r++) {
        float *to = x->u->w->q + r * job->dk_row, *to_dout = x->u->w->dout + r * job->dv_row;
        if (x->lse[r] != INFINITY) {
            widen(q, attn_row_start(q, x->u->b, x->h, x->i0 + r), q->stride[3], p->dk, to);
            widen(dout, attn_row_start(dout, x->u->b, x->h, x->i0 + r), dout->stride[3], p->dv,
                  to_dout);
            continue;
        }
        memset(to, 0, (size_t)job->dk_row * sizeof(float));
        memset(to_dout, 0, (size_t)job->dv_row * sizeof(float));
    }
}

static bool backward_queries_finite(const struct backward_rows *x)
{
    const struct attn_backward *job = x->u->job;
    return backward_finite(x->u->w->q, job->dk_row, x->rows, job->problem->dk) &&
           backward_finite(x->u->w->dout, job->dv_row, x->rows, job->problem->dv);
}

/* Whether products take cells outside [lo, hi), too, whose weights are 0. */
static bool backward_rounds(const struct backward_rows *x)
{
    (void)x;
    return false;
}

/* Asks for a row, into the second-level cache. */
FLASH_INLINE void backward_fetch(const void *row, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch((const char *)row + at, 0, 2);
}

/* Asks for what row r of the query tile that is next will read: q, dO, and dq so far. Inlined, as
 * gcc drops calls of functions that do nothing but prefetch. */
FLASH_INLINE void backward_fetch_row(const struct backward_rows *x, int64_t r)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_tensor *q = &job->operands.q, *dout = &job->operands.dout;
    const int64_t i = x->i0 - job->query_tile + r, unit = attn_element_bytes(q->dtype);
    if (i < 0)
        return;
    backward_fetch(attn_element_at(q, attn_row_start(q, x->u->b, x->h, i)),
                   job->problem->dk * unit);
    backward_fetch(attn_element_at(dout, attn_row_start(dout, x->u->b, x->h, i)),
                   job->problem->dv * unit);
    backward_fetch(x->dq + (r - job->query_tile) * job->dk_row,
                   job->problem->dk * (int64_t)sizeof(float));
}

/* s = q k^T, ds = dO v^T: raw scores and dP of a row group, in whole vectors. */
static void backward_scores(const struct backward_rows *x, const struct backward_group *group)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const int64_t dk = job->problem->dk, dv = job->problem->dv, row = job->score_row;
    struct matrix_product q = {.a = w->q + group->r0 * job->dk_row,
                               .a_row = job->dk_row,
                               .a_step = 1,
                               .b_row = FLASH_NR,
                               .c_row = row,
                               .rows = group->count,
                               .depth = dk,
                               .fresh = true};
    struct matrix_product dout = q;
    dout.a = w->dout + group->r0 * job->dv_row;
    dout.a_row = job->dv_row;
    dout.depth = dv;
    int64_t ahead = group->r0;
    for (int64_t j = group->from, end; j < group->to; j = end) {
        for (int n = 0; n < BACKWARD_AHEAD && ahead < group->r0 + group->count; n++)
            backward_fetch_row(x, ahead++);
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < group->to ? end : group->to;
        q.columns = dout.columns = end - j;
        q.b = w->kt + j / FLASH_NR * FLASH_NR * attn_round_up(dk, 16) + j % FLASH_NR;
        dout.b = w->vt + j / FLASH_NR * FLASH_NR * attn_round_up(dv, 16) + j % FLASH_NR;
        q.c = w->s + group->r0 * row + j;
        dout.c = w->ds + group->r0 * row + j;
        matrix_multiply_vectors(&q);
        matrix_multiply_vectors(&dout);
    }
}

static void backward_end_weights(const struct backward_rows *x, const struct backward_group *group)
{
    (void)x, (void)group;
}

/* dv += p^T dO and dk += dS^T q, for keys [lo, hi) and rows [first, end). */
static void backward_add_keys(const struct backward_rows *x, int64_t lo, int64_t hi, int64_t first,
                              int64_t end)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    struct matrix_product sum = {.a = w->s + first * job->score_row + lo,
                                 .a_row = 1,
                                 .a_step = job->score_row,
                                 .b = w->dout + first * job->dv_row,
                                 .b_row = job->dv_row,
                                 .c = w->dv + lo * job->dv_row,
                                 .c_row = job->dv_row,
                                 .rows = hi - lo,
                                 .columns = attn_round_up(job->problem->dv, VF_LANES),
                                 .depth = end - first};
    if (job->operands.grad_v.dtype)
        matrix_multiply_vectors(&sum);
    sum.a = w->ds + first * job->score_row + lo;
    sum.b = w->q + first * job->dk_row;
    sum.b_row = sum.c_row = job->dk_row;
    sum.c = w->dk + lo * job->dk_row;
    sum.columns = attn_round_up(job->problem->dk, VF_LANES);
    if (job->operands.grad_k.dtype)
        matrix_multiply_vectors(&sum);
}

/* dq += dS k, for rows [first, end) and keys [lo, hi). */
static void backward_add_queries(const struct backward_rows *x, int64_t first, int64_t end,
                                 int64_t lo, int64_t hi)
{
    const struct attn_backward *job = x->u->job;
    const struct matrix_product sum = {.a = x->u->w->ds + first * job->score_row + lo,
                                       .a_row = job->score_row,
                                       .a_step = 1,
                                       .b = x->u->w->k + lo * job->dk_row,
                                       .b_row = job->dk_row,
                                       .c = x->dq + first * job->dk_row,
                                       .c_row = job->dk_row,
                                       .rows = end - first,
                                       .columns = attn_round_up(job->problem->dk, VF_LANES),
                                       .depth = hi - lo};
    matrix_multiply_vectors(&sum);
}

/* What one cell adds to dk, dv and the dq of its row, `to`. */
static void backward_add_cell(const struct backward_rows *x, int64_t r, int64_t j, float p,
                              float ds, float *to)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const int64_t dk = job->problem->dk;
    backward_add_row(w->dv + j * job->dv_row, p, w->dout + r * job->dv_row, job->problem->dv);
    backward_add_row(w->dk + j * job->dk_row, ds, w->q + r * job->dk_row, dk);
    backward_add_row(to, ds, w->k + j * job->dk_row, dk);
}

static void backward_store_keys(const struct backward_unit *u)
{
    const struct attn_backward *job = u->job;
    const struct attn_tensor *dk = &job->operands.grad_k, *dv = &job->operands.grad_v;
    for (int64_t n = 0; dk->dtype && n < u->keys; n++)
        narrow(dk, attn_row_start(dk, u->b, u->g, u->j0 + n), dk->stride[3], job->problem->dk,
               u->w->dk + n * job->dk_row, (float)job->problem->scale);
    for (int64_t n = 0; dv->dtype && n < u->keys; n++)
        narrow(dv, attn_row_start(dv, u->b, u->g, u->j0 + n), dv->stride[3], job->problem->dv,
               u->w->dv + n * job->dv_row, 1.0f);
}
