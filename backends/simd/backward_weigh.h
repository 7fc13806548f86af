/* SPDX-License-Identifier: Apache-2.0 */
/* backward_weigh.h - part of backward_template.h: raw scores and dP of a row become p and dS, in
 * their place. Masks and what is added to scores are those of the forward pass (flash_finish.h). */

static struct attn_keys backward_row_keys(const struct backward_rows *x, int64_t r);

/* p of keys [from, to), times the factor of dropout, and dS. With `mark`, cells whose score is -inf
 * become -0.0 and 0; without, they must not occur where dP is not finite. Rounding may raise a
 * score above lse: exp2_negative is as exact there. */
FLASH_INLINE void backward_weigh(const bool mark, const float *kept, float factor, float lse,
                                 float delta, int64_t from, int64_t to, float *s, float *ds)
{
    const vf by = vf_set1(factor), less = vf_set1(-lse), own = vf_set1(delta);
    const vf forbidden = vf_set1(-INFINITY), zero = vf_set1(0);
    for (int64_t j = from; j < to; j += VF_LANES) {
        const vf score = vf_load(s + j);
        vf p = exp2_negative(vf_fma(score, by, less)), dp = vf_load(ds + j), keep = zero;
        if (kept) { /* v of a key that was dropped takes no part */
            keep = vf_abs(vf_load(kept + j));
            dp = vf_select_equal(keep, zero, zero, vf_mul(keep, dp));
        }
        vf d = vf_mul(p, vf_sub(dp, own));
        if (kept)
            p = vf_mul(p, keep);
        if (mark) {
            p = vf_select_equal(score, forbidden, vf_set1(-0.0f), p);
            d = vf_select_equal(score, forbidden, zero, d);
        }
        vf_store(s + j, p);
        vf_store(ds + j, d);
    }
}

/* A row of a tile in which no cell is forbidden and a score is all there is. */
static void backward_weigh_plain(const struct backward_rows *x, const struct backward_group *group,
                                 int64_t r)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    backward_weigh(false, NULL, job->factor, x->lse[r], x->delta[r], group->from, group->to,
                   w->s + r * job->score_row, w->ds + r * job->score_row);
}

/* Softcap of a row of raw scores, and its derivative. */
static void backward_cap(const struct attn_backward *job, const struct backward_group *group,
                         float *s, float *slope)
{
    for (int64_t j = group->from; j < group->to; j += VF_LANES) {
        const vf t = tanh_log2(vf_mul(vf_set1(job->flash.factor), vf_load(s + j)));
        vf_store(slope + j, vf_sub(vf_set1(1), vf_mul(t, t)));
        vf_store(s + j, vf_mul(vf_set1(job->flash.cap2), t));
    }
}

/* The factors of dropout of keys [lo, hi) of a row; 1 for the others of [from, to). */
static const float *backward_keep(const struct backward_rows *x, const struct backward_group *group,
                                  int64_t r, struct attn_keys keys)
{
    const struct attn_flash *flash = &x->u->job->flash;
    float *kept = x->u->w->kept;
    if (!(flash->flags & ATTN_FLAG_DROPOUT))
        return NULL;
    for (int64_t j = group->from; j < group->to; j++)
        kept[j] = 1.0f;
    const struct attn_keys cells = {x->u->j0 + keys.first, x->u->j0 + keys.end};
    attn_dropout_row(flash, x->u->b, x->h, x->i0 + r, cells, kept + keys.first);
    return kept;
}

/* What a row adds to dbias, with the broadcast axes of the bias summed. */
static void backward_add_bias(const struct backward_rows *x, int64_t r, struct attn_keys keys,
                              const float *ds)
{
    const struct attn_tensor *to = &x->u->job->operands.grad_bias;
    const int64_t at[] = {x->u->b, x->h, x->i0 + r};
    int64_t place = 0, step = to->shape[3] > 1 ? to->stride[3] : 0;
    float *sum = to->data;
    if (!to->dtype)
        return;
    for (int a = 0; a < 3; a++)
        place += to->shape[a] > 1 ? at[a] * to->stride[a] : 0;
    for (int64_t j = keys.first; j < keys.end; j++)
        sum[place + (x->u->j0 + j) * step] += ds[j];
}

/* What a row adds to the sum of dS |i + off - j| of its head. */
static void backward_add_slope(const struct backward_rows *x, int64_t r, struct attn_keys keys,
                               const float *ds)
{
    const struct attn_backward *job = x->u->job;
    const int64_t diagonal =
        x->i0 + r - x->u->j0 + attn_keys_offset(job->problem, &job->operands.len, x->u->b);
    float sum = 0;
    if (!job->operands.grad_alibi.dtype)
        return;
    for (int64_t j = keys.first; j < keys.end; j++)
        sum += ds[j] * (float)(diagonal < j ? j - diagonal : diagonal - j);
    job->slopes[x->u->unit * job->flash.group + x->place] += sum;
}

/* Cells [from, to) of a row, whole vectors, are forbidden to all of its group. */
static void backward_mark(float *s, float *ds, int64_t from, int64_t to)
{
    for (int64_t j = from; j < to; j += VF_LANES) {
        vf_store(s + j, vf_set1(-0.0f));
        vf_store(ds + j, vf_set1(0));
    }
}

/* Any row. */
static void backward_weigh_marked(const struct backward_rows *x, const struct backward_group *group,
                                  int64_t r)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const struct attn_keys keys = backward_row_keys(x, r);
    float *s = w->s + r * job->score_row, *ds = w->ds + r * job->score_row;
    const bool capped = job->problem->flags & ATTN_FLAG_SOFTCAP;
    const int64_t first = x->lo / VF_LANES * VF_LANES;
    if (group->from >= group->to) {
        backward_mark(s, ds, first, x->hi);
        return;
    }
    backward_mark(s, ds, first, group->from);
    backward_mark(s, ds, group->to, x->hi);
    if (capped)
        backward_cap(job, group, s, w->capped);
    struct group cells;
    cells.job = &job->flash;
    cells.b = x->u->b;
    cells.j0 = x->u->j0;
    cells.from = group->from;
    cells.to = group->to;
    cells.clean_from = cells.clean_to = group->from;
    const bool none = keys.first >= keys.end;
    const struct row row = {.h = x->h,
                            .i = x->i0 + r,
                            .lo = none ? group->from : keys.first,
                            .hi = none ? group->from : keys.end,
                            .s = s};
    finish_scores(&cells, &row, vf_set1(0));
    backward_weigh(true, backward_keep(x, group, r, keys), job->factor, x->lse[r], x->delta[r],
                   group->from, group->to, s, ds);
    backward_add_bias(x, r, keys, ds);
    backward_add_slope(x, r, keys, ds);
    /* The derivative of a forbidden cell may be NaN. */
    for (int64_t j = group->from; capped && j < group->to; j += VF_LANES) {
        const vf d = vf_load(ds + j), zero = vf_set1(0);
        vf_store(ds + j, vf_select_equal(d, zero, zero, vf_mul(d, vf_load(w->capped + j))));
    }
}
