/* SPDX-License-Identifier: Apache-2.0 */
/* matrix_amx.h - matrix_multiply_vectors by AMX tiles (amx_tiles.h). The inner extent is a multiple
 * of AMX_INNER elements. Rows and columns of c are computed 16 at a time: what lies beyond the last
 * one is read and written. */
FLASH_APART void matrix_multiply_vectors(const struct matrix_product *x)
{
    for (int64_t column = 0; column < x->columns; column += AMX_BLOCK)
        for (int64_t row = 0; row < x->rows; row += AMX_BLOCK) {
            const struct amx_product block = {.a = x->a + row * x->a_row,
                                              .a_bytes = x->a_row * AMX_PAIR,
                                              .b = x->b + column,
                                              .b_bytes = x->b_row * AMX_PAIR,
                                              .steps = 2 * x->depth / AMX_INNER,
                                              .c = x->c + row * x->c_row + column,
                                              .c_row = x->c_row,
                                              .add = !x->fresh};
            amx_multiply(x->rows - row, x->columns - column, block);
        }
}
