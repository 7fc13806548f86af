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
