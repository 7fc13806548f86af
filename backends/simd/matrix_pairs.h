/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_pairs.h - operands of products by pairs of 16-bit elements, after flash_template.h. Rows
 * that are a are copied (copy_pairs); b, and the transpose of a, are made here. */

/* Rows as b: pairs of neighbouring rows, `wide` floats in a row, a multiple of VF_LANES. Zeros fill
 * columns from `width` on, and rows up to FLASH_STEP. Returns whether all are finite. */
static bool pair_rows(const uint16_t *from, int64_t row_stride, int64_t column_stride, int64_t rows,
                      int64_t width, float *to, int64_t wide)
{
    vf sum = vf_set1(0.0f);
    for (int64_t j = 0; j < attn_round_up(rows, FLASH_STEP); j += 2, to += wide) {
        const uint16_t *even = j < rows ? from + j * row_stride : NULL;
        const uint16_t *odd = j + 1 < rows ? from + (j + 1) * row_stride : NULL;
        for (int64_t c = 0; c < wide; c += VF_LANES) {
            const vf pair = pair_keys(even, odd, column_stride, c, width);
            vf_store(to + c, pair);
            sum = vf_join_pairs(pair, vf_set1(0.0f), sum);
        }
    }
    return vf_all_zero(sum);
}

/* `rows` rows of x, from index `at` on, as panels of b, transposed: [rows/NR][pairs(width)][NR]. */
static void pack_panels(const struct attn_tensor *x, int64_t at, int64_t rows, float *to)
{
    const int64_t width = x->shape[3];
    const uint16_t *from = (const uint16_t *)x->data + at;
    for (int64_t j = 0; j < rows; j += VF_LANES, from += VF_LANES * x->stride[2]) {
        float *panel = to + j / FLASH_NR * FLASH_NR * pairs(width) + j % FLASH_NR;
        if (x->stride[3] == 1)
            pack_k_columns(from, x->stride[2], 0, rows - j, width, panel);
        else
            pack_k_apart(from, x->stride[2], x->stride[3], 0, rows - j, width, panel);
    }
}

/* Whether `count` pairs, a multiple of VF_LANES, are finite. */
static bool pairs_finite(const float *x, int64_t count)
{
    vf sum = vf_set1(0.0f);
    for (int64_t n = 0; n < count; n += VF_LANES)
        sum = vf_join_pairs(vf_load(x + n), vf_set1(0.0f), sum);
    return vf_all_zero(sum);
}

/* `rows` rows of `row` pairs, transposed: 2 row rows of `rows` elements, to_row floats apart. rows
 * is a multiple of 2 VF_LANES, row of VF_LANES. */
static void turn_pairs(const float *from, int64_t rows, int64_t row, float *to, int64_t to_row)
{
    float block[2][VF_LANES * VF_LANES] __attribute__((aligned(64)));
    for (int64_t r = 0; r < rows; r += 2 * VF_LANES)
        for (int64_t c = 0; c < row; c += VF_LANES) {
            for (int n = 0; n < 2; n++)
                vf_pairs_transpose(
                    (const uint16_t *)(const void *)(from + (r + n * VF_LANES) * row + c), 2 * row,
                    block[n], VF_LANES);
            for (int64_t n = 0; n < VF_LANES; n++) {
                const vf a = vf_load(block[0] + n * VF_LANES), b = vf_load(block[1] + n * VF_LANES);
                float *place = to + 2 * (c + n) * to_row + r / 2;
                vf_store(place, vf_low_halves(a, b));
                vf_store(place + to_row, vf_high_halves(a, b));
            }
        }
}

/* What its first digits leave of x, exactly. Of an infinity nothing is left. */
FLASH_INLINE vf rest_of_digits(vf x, vf first)
{
    const vf rest = vf_sub(x, first);
    return vf_select_equal(rest, rest, rest, vf_set1(0));
}
