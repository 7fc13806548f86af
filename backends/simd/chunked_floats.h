/* SPDX-License-Identifier: Apache-2.0 */
/* chunked_floats.h - part of chunked_template.h: products of floats. v is read in place if it can
 * be. */

/* v and lin_k of keys [first, end). */
static void chunked_take_values(struct chunked_work *w, int64_t first, int64_t end)
{
    const struct attn_recurrent_part *part = w->part;
    const struct attn_tensor *v = &part->operands->v, *lin_k = &part->operands->lin_k;
    const float *given =
        (const float *)v->data + attn_row_start(v, part->b, part->h, first) + part->first;
    const bool in_place = v->dtype == ATTN_F32 && v->stride[3] == 1 &&
                          part->count == w->r.columns && v->stride[2] % VF_LANES == 0 &&
                          (uintptr_t)given % sizeof(vf) == 0;
    w->v = in_place ? given : w->r.v;
    w->v_row = in_place ? v->stride[2] : w->r.columns;
    w->finite = true;
    for (int64_t j = first; j < end; j++) {
        const int64_t at = (j - first) * w->v_row;
        if (!in_place)
            chunked_widen(w, v, j, part->first, part->count, w->r.v + at);
        w->finite = w->finite && (!w->causal || finite_floats(w->v + at, w->r.columns));
        chunked_widen(w, lin_k, j, 0, w->width, w->r.lin_k + (j - first) * w->r.dl);
    }
}

/* k of keys [first, end), transposed. Keys beyond them are 0 in the last vector. */
static void chunked_take_keys(const struct chunked_work *w, int64_t first, int64_t end)
{
    const struct attn_tensor *k = &w->part->operands->k;
    for (int64_t j = first; j < end; j += VF_LANES) {
        for (int64_t n = 0; n < VF_LANES; n++)
            if (j + n < end)
                chunked_widen(w, k, j + n, 0, w->part->problem->dk, w->r.q + n * w->r.dk);
            else
                memset(w->r.q + n * w->r.dk, 0, (size_t)w->r.dk * sizeof(float));
        for (int64_t c = 0; c < w->r.dk; c += VF_LANES)
            vf_transpose(w->r.q + c, w->r.dk, 1, w->r.kt + c * w->r.keys + (j - first), w->r.keys);
    }
}

/* Keys that were taken enter the state. */
static void chunked_collect(const struct chunked_work *w, int64_t keys)
{
    const struct matrix_product x = {.a = w->r.lin_k,
                                     .a_row = 1,
                                     .a_step = w->r.dl,
                                     .b = w->v,
                                     .b_row = w->v_row,
                                     .c = w->r.state,
                                     .c_row = w->r.columns,
                                     .rows = w->width,
                                     .columns = w->r.columns,
                                     .depth = keys};
    if (keys > 0)
        matrix_multiply(&x);
}

static void chunked_end_state(const struct chunked_work *w)
{
    (void)w; /* the state is read as it is */
}

/* Products of rows [i, i + rows) with the first `keys` keys. */
static void chunked_score(const struct chunked_work *w, int64_t i, int64_t rows, int64_t keys)
{
    const int64_t dk = w->part->problem->dk;
    for (int64_t r = 0; r < rows; r++)
        chunked_widen(w, &w->part->operands->q, i + r, 0, dk, w->r.q + r * w->r.dk);
    matrix_multiply(&(struct matrix_product){.a = w->r.q,
                                             .a_row = w->r.dk,
                                             .a_step = 1,
                                             .b = w->r.kt,
                                             .b_row = w->r.keys,
                                             .c = w->r.s,
                                             .c_row = w->r.keys,
                                             .rows = rows,
                                             .columns = attn_round_up(keys, FLASH_NR),
                                             .depth = dk,
                                             .fresh = true});
}

/* out += p v, or out = p v */
static void chunked_join(const struct chunked_work *w, int64_t rows, int64_t before, int64_t keys,
                         bool fresh)
{
    const struct matrix_product x = {.a = w->r.s,
                                     .a_row = w->r.keys,
                                     .a_step = 1,
                                     .b = w->v,
                                     .b_row = w->v_row,
                                     .c = w->r.out,
                                     .c_row = w->r.columns,
                                     .rows = rows,
                                     .columns = w->r.columns,
                                     .depth = keys,
                                     .fresh = fresh,
                                     .causal = w->causal && w->finite,
                                     .before = before};
    if (w->causal && !w->finite)
        matrix_multiply_causal(&x, before);
    else
        matrix_multiply(&x);
}

/* The linear part of rows [i, i + rows). */
static void chunked_read_state(const struct chunked_work *w, int64_t i, int64_t rows)
{
    const vf by = vf_set1((float)attn_chunked_lin_scale(w->part->problem));
    const struct matrix_product x = {.a = w->r.lin_q,
                                     .a_row = w->r.dl,
                                     .a_step = 1,
                                     .b = w->r.state,
                                     .b_row = w->r.columns,
                                     .c = w->r.out,
                                     .c_row = w->r.columns,
                                     .rows = rows,
                                     .columns = w->r.columns,
                                     .depth = w->width,
                                     .fresh = true};
    for (int64_t r = 0; r < rows; r++) {
        float *q = w->r.lin_q + r * w->r.dl;
        chunked_widen(w, &w->part->operands->lin_q, i + r, 0, w->width, q);
        for (int64_t c = 0; c < w->r.dl; c += VF_LANES)
            vf_store(q + c, vf_mul(by, vf_load(q + c)));
    }
    matrix_multiply(&x);
}
