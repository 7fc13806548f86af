/* SPDX-License-Identifier: Apache-2.0 */
/* backward_floats.h - part of backward_template.h: how operands lie, and the five products, in
 * floats. Operands of 16 bits are widened when they are taken. */

/* Of a row group and the tile of keys, as many rows as there are and whole vectors of columns. */
FLASH_INLINE void backward_rows_of(const int nv, const struct matrix_product *x, int64_t column)
{
    int64_t row = 0;
    for (; row + FLASH_MR <= x->rows; row += FLASH_MR)
        matrix_tile(FLASH_MR, nv, x, row, column);
    switch (x->rows - row) {
    case 5:
        matrix_tile(5, nv, x, row, column);
        break;
    case 4:
        matrix_tile(4, nv, x, row, column);
        break;
    case 3:
        matrix_tile(3, nv, x, row, column);
        break;
    case 2:
        matrix_tile(2, nv, x, row, column);
        break;
    case 1:
        matrix_tile(1, nv, x, row, column);
        break;
    default:;
    }
}

/* matrix_multiply without columns that do not exist: they are a multiple of VF_LANES here. */
FLASH_APART void backward_multiply(const struct matrix_product *x)
{
    int64_t column = 0;
    for (; column + FLASH_NR <= x->columns; column += FLASH_NR)
        backward_rows_of(FLASH_NV, x, column);
    switch ((x->columns - column) / VF_LANES) {
#if FLASH_NV == 4
    case 3:
        backward_rows_of(3, x, column);
        break;
    case 2:
        backward_rows_of(2, x, column);
        break;
#endif
    case 1:
        backward_rows_of(1, x, column);
        break;
    default:;
    }
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

/* k as rows and as columns, v as columns. */
static void backward_take_keys(const struct backward_unit *u)
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
    for (int64_t j = group->from, end; j < group->to; j = end) {
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < group->to ? end : group->to;
        q.columns = dout.columns = end - j;
        q.b = w->kt + j / FLASH_NR * FLASH_NR * attn_round_up(dk, 16) + j % FLASH_NR;
        dout.b = w->vt + j / FLASH_NR * FLASH_NR * attn_round_up(dv, 16) + j % FLASH_NR;
        q.c = w->s + group->r0 * row + j;
        dout.c = w->ds + group->r0 * row + j;
        backward_multiply(&q);
        backward_multiply(&dout);
    }
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
    backward_multiply(&sum);
    sum.a = w->ds + first * job->score_row + lo;
    sum.b = w->q + first * job->dk_row;
    sum.b_row = sum.c_row = job->dk_row;
    sum.c = w->dk + lo * job->dk_row;
    sum.columns = attn_round_up(job->problem->dk, VF_LANES);
    backward_multiply(&sum);
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
    backward_multiply(&sum);
}
