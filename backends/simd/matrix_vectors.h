/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_vectors.h - products of matrices of floats or of pairs by the tiles of matrix_tile.h. */

/* As many rows as there are, and nv vectors of columns. */
FLASH_INLINE void matrix_rows_of(const int nv, const struct matrix_product *x, int64_t column)
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
FLASH_APART void matrix_multiply_vectors(const struct matrix_product *x)
{
    int64_t column = 0;
    for (; column + FLASH_NR <= x->columns; column += FLASH_NR)
        matrix_rows_of(FLASH_NV, x, column);
    switch ((x->columns - column) / VF_LANES) {
#if FLASH_NV == 4
    case 3:
        matrix_rows_of(3, x, column);
        break;
    case 2:
        matrix_rows_of(2, x, column);
        break;
#endif
    case 1:
        matrix_rows_of(1, x, column);
        break;
    default:;
    }
}
