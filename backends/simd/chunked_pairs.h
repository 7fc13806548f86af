/* SPDX-License-Identifier: Apache-2.0 */
/* chunked_pairs.h - part of chunked_template.h: products of pairs of bf16 (flash_pack_pairs.h).
 * Operands are as they were given. Weights are rounded to bf16. The state is not: it is the sum of
 * three numbers of bf16, so that lin_q meets it in three products. */

/* Rows [i, i + rows) of q or lin_q, `row` floats apart. */
static void chunked_copy(const struct chunked_work *w, const struct attn_tensor *x, int64_t i,
                         int64_t rows, float *to, int64_t row)
{
    for (int64_t r = 0; r < rows; r++)
        copy_pairs((const uint16_t *)x->data + attn_row_start(x, w->part->b, w->part->h, i + r),
                   x->stride[3], x->shape[3], to + r * row);
}

/* v and lin_k of keys [first, end). Zeros fill the last step of both. */
static void chunked_take_values(struct chunked_work *w, int64_t first, int64_t end)
{
    const struct attn_recurrent_part *part = w->part;
    const struct attn_tensor *v = &part->operands->v;
    const int64_t keys = end - first, all = attn_round_up(keys, 2 * VF_LANES);
    const bool finite =
        pair_rows((const uint16_t *)v->data + attn_row_start(v, part->b, part->h, first) +
                      part->first * v->stride[3],
                  v->stride[2], v->stride[3], keys, part->count, w->r.v, w->r.columns);
    chunked_copy(w, &part->operands->lin_k, first, keys, w->r.lin_k, w->r.dl);
    memset(w->r.lin_k + keys * w->r.dl, 0, (size_t)((all - keys) * w->r.dl) * sizeof(float));
    turn_pairs(w->r.lin_k, all, w->r.dl, w->r.lin_kt, w->r.p_row);
    w->v = w->r.v;
    w->v_row = w->r.columns;
    w->finite = finite || !w->causal;
    w->first = first;
}

/* k of keys [first, end), as panels. */
static void chunked_take_keys(const struct chunked_work *w, int64_t first, int64_t end)
{
    const struct attn_tensor *k = &w->part->operands->k;
    pack_panels(k, attn_row_start(k, w->part->b, w->part->h, first), end - first, w->r.kt);
}

/* Keys that were taken enter the state. */
static void chunked_collect(const struct chunked_work *w, int64_t keys)
{
    const struct matrix_product x = {.a = w->r.lin_kt,
                                     .a_row = w->r.p_row,
                                     .a_step = 1,
                                     .b = w->v,
                                     .b_row = w->v_row,
                                     .c = w->r.state,
                                     .c_row = w->r.columns,
                                     .rows = w->width,
                                     .columns = w->r.columns,
                                     .depth = pairs(keys)};
    if (keys > 0)
        matrix_multiply_vectors(&x);
}

/* A vector of the state times the scale of the linear part, or zeros. */
static vf chunked_state(const struct chunked_work *w, vf by, int64_t c, int64_t column)
{
    return c < w->width ? vf_mul(by, vf_load(w->r.state + c * w->r.columns + column)) : vf_set1(0);
}

/* The state becomes parts: its first 8 digits, the next 8, and the rest. */
static void chunked_end_state(const struct chunked_work *w)
{
    const vf by = vf_set1((float)attn_chunked_lin_scale(w->part->problem));
    for (int64_t c = 0; c < attn_round_up(w->width, FLASH_STEP); c += 2)
        for (int64_t column = 0; column < w->r.columns; column += VF_LANES) {
            vf even = chunked_state(w, by, c, column), odd = chunked_state(w, by, c + 1, column);
            for (int n = ATTN_STATE_PARTS - 1; n >= 0; n--) {
                const vf a = vf_first_digits(even), b = vf_first_digits(odd);
                vf_store(w->r.parts[n] + c / 2 * w->r.columns + column, vf_pairs_of_rows(a, b));
                even = rest_of_digits(even, a);
                odd = rest_of_digits(odd, b);
            }
        }
}

/* Products of rows [i, i + rows) with the first `keys` keys. */
static void chunked_score(const struct chunked_work *w, int64_t i, int64_t rows, int64_t keys)
{
    const int64_t depth = pairs(w->part->problem->dk);
    struct matrix_product x = {.a = w->r.q,
                               .a_row = w->r.dk,
                               .a_step = 1,
                               .b_row = FLASH_NR,
                               .c_row = w->r.keys,
                               .rows = rows,
                               .depth = depth,
                               .fresh = true};
    chunked_copy(w, &w->part->operands->q, i, rows, w->r.q, w->r.dk);
    for (int64_t j = 0; j < keys; j += FLASH_NR) {
        x.b = w->r.kt + j * depth;
        x.c = w->r.s + j;
        x.columns = attn_round_up(attn_clamp(keys - j, 1, FLASH_NR), VF_LANES);
        matrix_multiply_vectors(&x);
    }
}

/* Element by element, where a weight of 0 could meet a v that is not finite. */
static void chunked_join_seen(const struct chunked_work *w, int64_t rows, int64_t before,
                              int64_t keys)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < attn_clamp(before + r + 1, 0, keys); j++) {
            const vf p = vf_set1(attn_element_read(FLASH_TYPE, w->r.p + r * w->r.p_row, j));
            float *out = w->r.out + r * w->r.columns;
            chunked_widen(w, &w->part->operands->v, w->first + j, w->part->first, w->part->count,
                          w->r.row);
            for (int64_t c = 0; c < w->part->count; c += VF_LANES)
                vf_store(out + c, vf_fma(p, vf_load(w->r.row + c), vf_load(out + c)));
        }
}

/* out += p v, or out = p v */
static void chunked_join(const struct chunked_work *w, int64_t rows, int64_t before, int64_t keys,
                         bool fresh)
{
    const struct matrix_product x = {.a = w->r.p,
                                     .a_row = w->r.p_row,
                                     .a_step = 1,
                                     .b = w->v,
                                     .b_row = w->v_row,
                                     .c = w->r.out,
                                     .c_row = w->r.columns,
                                     .rows = rows,
                                     .columns = w->r.columns,
                                     .depth = pairs(keys),
                                     .fresh = fresh};
    for (int64_t r = 0; r < rows; r++) {
        const float *s = w->r.s + r * w->r.keys;
        uint16_t *p = (uint16_t *)(void *)(w->r.p + r * w->r.p_row);
        for (int64_t j = 0; j < keys; j += 2 * VF_LANES)
            vf_store_pairs(p + j, vf_load(s + j), vf_load(s + j + VF_LANES));
    }
    if (w->finite) {
        matrix_multiply_vectors(&x);
        return;
    }
    if (fresh)
        memset(w->r.out, 0, (size_t)(rows * w->r.columns) * sizeof(float));
    chunked_join_seen(w, rows, before, keys);
}

/* Infinities times a part that is 0 would be NaN. They meet the first part alone. */
static void chunked_drop_infinite(float *pairs_of_q, int64_t count)
{
    uint16_t *x = (uint16_t *)(void *)pairs_of_q;
    for (int64_t n = 0; n < 2 * count; n++)
        x[n] = (x[n] & 0x7f80) == 0x7f80 ? 0 : x[n];
}

/* The linear part of rows [i, i + rows). */
static void chunked_read_state(const struct chunked_work *w, int64_t i, int64_t rows)
{
    const struct attn_tensor *lin_q = &w->part->operands->lin_q;
    struct matrix_product x = {.a = w->r.lin_q,
                               .a_row = w->r.dl,
                               .a_step = 1,
                               .b_row = w->r.columns,
                               .c = w->r.out,
                               .c_row = w->r.columns,
                               .rows = rows,
                               .columns = w->r.columns,
                               .depth = pairs(w->width),
                               .fresh = true};
    chunked_copy(w, lin_q, i, rows, w->r.lin_q, w->r.dl);
    const bool finite = pairs_finite(w->r.lin_q, rows * w->r.dl);
    if (!finite)
        chunked_drop_infinite(w->r.lin_q, rows * w->r.dl);
    for (int n = 0; n < ATTN_STATE_PARTS; n++) {
        if (n == ATTN_STATE_PARTS - 1 && !finite)
            chunked_copy(w, lin_q, i, rows, w->r.lin_q, w->r.dl);
        x.b = w->r.parts[n];
        matrix_multiply_vectors(&x);
        x.fresh = false;
    }
}
