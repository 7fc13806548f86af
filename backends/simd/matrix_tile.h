/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_tile.h - products of small matrices of f32, after flash_template.h, for operators that are
 * made of them. A tile of up to MR rows and NR columns keeps its sums in registers. In an instance
 * on pairs a and b are pairs of the inner axis, which lie where floats would lie. */

/* c = c + a b, rows and columns of c. Element (r, x) of a is at [r a_row + x a_step]; b has `depth`
 * rows. Rows of b and c lie b_row and c_row apart and are aligned to the vector. Columns are
 * rounded up to NR: what lies there is read and written. */
struct matrix_product {
    const float *a;
    int64_t a_row, a_step;
    const float *b;
    int64_t b_row;
    float *c;
    int64_t c_row;
    int64_t rows, columns, depth;
    bool fresh;     /* c = a b */
    bool causal;    /* row r takes the first `before` + r + 1 rows of b, at most `depth`. Others */
    int64_t before; /* may be read: they are finite, and a is 0 there */
    const float *fade; /* [rows] multiplies what a row of c holds first; NULL: 1 */
};

/* What the sums of a tile begin with. */
FLASH_INLINE void matrix_begin(const int mr, const int nv, const struct matrix_product *x,
                               const float *c, const float *fade, vf sum[FLASH_MR][FLASH_NV])
{
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++, c += x->c_row)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            sum[r][n] = x->fresh ? vf_set1(0) : vf_load(c + n * VF_LANES);
#pragma GCC unroll 16
    for (int r = 0; fade && r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            sum[r][n] = vf_mul(vf_set1(fade[r]), sum[r][n]);
}

/* mr and nv are constants after inlining. Pointers step from row to row: with an index gcc computes
 * the address of each vector of c beforehand, and spills most of them. */
FLASH_INLINE void matrix_tile(const int mr, const int nv, const struct matrix_product *x,
                              int64_t row, int64_t column)
{
    const float *a = x->a + row * x->a_row, *b = x->b + column;
    float *c = x->c + row * x->c_row + column;
    const int64_t depth = x->causal ? attn_clamp(x->before + row + mr, 0, x->depth) : x->depth;
    const int64_t a_row = x->a_row, a_step = x->a_step, b_row = x->b_row, c_row = x->c_row;
    vf sum[FLASH_MR][FLASH_NV];
    matrix_begin(mr, nv, x, c, x->fade ? x->fade + row : NULL, sum);
#pragma GCC unroll 2
    for (int64_t at = 0; at < depth; at++, a += a_step, b += b_row) {
        vf own[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            own[n] = vf_load(b + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            const vf by = vf_set1(a[r * a_row]);
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                sum[r][n] = join(DOT, by, own[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++, c += c_row)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vf_store(c + n * VF_LANES, sum[r][n]);
}
