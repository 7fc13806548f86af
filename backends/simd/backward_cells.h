/* SPDX-License-Identifier: Apache-2.0 */
/* backward_cells.h - part of backward_template.h: a query tile and a tile of keys cell by cell, in
 * the order of the products. Forbidden cells are skipped, whatever their operands hold. */

/* to += by x, in whole vectors. */
FLASH_INLINE void backward_add_row(float *to, float by, const float *x, int64_t width)
{
    for (int64_t c = 0; c < width; c += VF_LANES)
        vf_store(to + c, vf_fma(vf_set1(by), vf_load(x + c), vf_load(to + c)));
}

/* The mark of a forbidden cell is the only -0.0 among the weights. */
static bool backward_is_marked(float p)
{
    return p == 0.0f && signbit(p);
}

static void backward_add_cells(const struct backward_rows *x)
{
    const struct attn_backward *job = x->u->job;
    const struct attn_backward_scratch *w = x->u->w;
    const int64_t dk = job->problem->dk, dv = job->problem->dv;
    for (int64_t r = 0; r < x->rows; r++) {
        const float *p = w->s + r * job->score_row, *ds = w->ds + r * job->score_row;
        const float *q = w->q + r * job->dk_row, *dout = w->dout + r * job->dv_row;
        for (int64_t j = x->lo; j < x->hi; j++) {
            if (backward_is_marked(p[j]))
                continue;
            backward_add_row(w->dv + j * job->dv_row, p[j], dout, dv);
            backward_add_row(w->dk + j * job->dk_row, ds[j], q, dk);
            backward_add_row(x->dq + r * job->dk_row, ds[j], w->k + j * job->dk_row, dk);
        }
    }
}
