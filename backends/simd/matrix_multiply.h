/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_multiply.h - whole matrices by the tiles of matrix_tile.h. */

/* The columns of a panel of b stay in the first-level cache for all rows. */
FLASH_APART void matrix_multiply(const struct matrix_product *x)
{
    for (int64_t column = 0; column < x->columns; column += FLASH_NR) {
        int64_t row = 0;
        for (; row + FLASH_MR <= x->rows; row += FLASH_MR)
            matrix_tile(FLASH_MR, FLASH_NV, x, row, column);
        for (; row + 2 <= x->rows; row += 2)
            matrix_tile(2, FLASH_NV, x, row, column);
        if (row < x->rows)
            matrix_tile(1, FLASH_NV, x, row, column);
    }
}

/* The same with causal, whatever lies in b and a: a tile takes the rows of b that all of its rows
 * do, and each row by itself the rest. */
static void matrix_multiply_causal(const struct matrix_product *x, int64_t before)
{
    for (int64_t group = 0; group < x->rows; group += FLASH_MR) {
        const int64_t all = attn_clamp(before + group, 0, x->depth);
        struct matrix_product tile = *x;
        tile.rows = attn_clamp(x->rows - group, 1, FLASH_MR);
        tile.a = x->a + group * x->a_row;
        tile.c = x->c + group * x->c_row;
        tile.depth = all;
        matrix_multiply(&tile);
        tile.fresh = false;
        const int64_t end = group + tile.rows;
        tile.rows = 1;
        tile.b = x->b + all * x->b_row;
        for (int64_t r = group; r < end && x->depth > all; r++) {
            tile.a = x->a + r * x->a_row + all * x->a_step;
            tile.c = x->c + r * x->c_row;
            tile.depth = attn_clamp(before + r + 1, all, x->depth) - all;
            matrix_multiply(&tile);
        }
    }
}
