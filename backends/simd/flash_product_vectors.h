/* SPDX-License-Identifier: Apache-2.0 */
/* flash_product_vectors.h - part of flash_template.h: the two products in vectors. There is a
 * micro-kernel (flash_kernel_f32.h, flash_kernel_f16.h) for every mr up to MR and every nv up to
 * NV. So nothing is computed for rows that do not exist, and little for keys that no row may see.
 */

FLASH_INLINE void score_span(const int mr, const enum pairing pairing, const struct span *x)
{
    for (int64_t j = x->from, end; j < x->to; j = end) {
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < x->to ? end : x->to;
        if (x->ahead)
            fetch_ahead(x->ahead);
        const float *k = x->k + j / FLASH_NR * FLASH_NR * x->dk + j % FLASH_NR;
        float *top = j >= x->clean_from && end <= x->clean_to ? x->top : NULL;
        switch ((end - j) / VF_LANES) {
#if FLASH_NV == 4
        case 4:
            score_tile(mr, 4, pairing, x, k, x->s + j, top);
            break;
        case 3:
            score_tile(mr, 3, pairing, x, k, x->s + j, top);
            break;
#endif
        case 2:
            score_tile(mr, 2, pairing, x, k, x->s + j, top);
            break;
        default:
            score_tile(mr, 1, pairing, x, k, x->s + j, top);
        }
    }
}

FLASH_INLINE void score_rows(int count, const enum pairing pairing, const struct span *x)
{
    switch (count) {
    case 6:
        score_span(6, pairing, x);
        break;
    case 5:
        score_span(5, pairing, x);
        break;
    case 4:
        score_span(4, pairing, x);
        break;
    case 3:
        score_span(3, pairing, x);
        break;
    case 2:
        score_span(2, pairing, x);
        break;
    default:
        score_span(1, pairing, x);
    }
}

/* Dot products of `count` rows with the keys of a span. */
FLASH_APART void score_product(int count, const struct span *x)
{
    score_rows(count, DOT, x);
}

/* All columns: whole panels, then the rest of the last one. */
FLASH_INLINE void value_columns(const int mr, const struct product *x)
{
    int64_t column = 0;
    for (; column + FLASH_NR <= x->width; column += FLASH_NR)
        value_tile(mr, FLASH_NV, x, column);
    switch ((x->width - column) / VF_LANES) {
#if FLASH_NV == 4
    case 3:
        value_tile(mr, 3, x, column);
        break;
    case 2:
        value_tile(mr, 2, x, column);
        break;
#endif
    case 1:
        value_tile(mr, 1, x, column);
        break;
    default:;
    }
}

FLASH_APART void value_product(int count, const struct product *x)
{
    switch (count) {
    case 6:
        value_columns(6, x);
        break;
    case 5:
        value_columns(5, x);
        break;
    case 4:
        value_columns(4, x);
        break;
    case 3:
        value_columns(3, x);
        break;
    case 2:
        value_columns(2, x);
        break;
    default:
        value_columns(1, x);
    }
}
