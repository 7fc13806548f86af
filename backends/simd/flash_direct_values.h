/* SPDX-License-Identifier: Apache-2.0 */
/* flash_direct_values.h - part of flash_template.h: weights times V for few rows, from V in place.
 */

/* o += sum of p v over `keys` rows of V from v on, for `mr` rows and `nv` vectors of columns; where
 * nv is 1 `left` columns exist. */
FLASH_INLINE void direct_value_step(const uint32_t type, const int mr, const int keys, const int nv,
                                    const float *p, const void *v, int64_t key_stride, int64_t left,
                                    float *o, int64_t width)
{
    vf sum[4][DIRECT_SPAN / VF_LANES];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            sum[r][e] = vf_load(o + r * width + e * VF_LANES);
#pragma GCC unroll 4
    for (int n = 0; n < keys; n++) {
        vf value[DIRECT_SPAN / VF_LANES];
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            value[e] = nv == 1 && left < VF_LANES ? load_first_as(type, v, n * key_stride, left)
                                                  : load_as(type, v, n * key_stride + e * VF_LANES);
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++) {
            vf weight = vf_set1(p[r * LD + n]);
#pragma GCC unroll 8
            for (int e = 0; e < nv; e++)
                sum[r][e] = vf_fma(weight, value[e], sum[r][e]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            vf_store(o + r * width + e * VF_LANES, sum[r][e]);
}

/* The same for all columns. */
FLASH_INLINE void direct_value_tile(const uint32_t type, const int mr, const int keys,
                                    const enum fetch fetch, const float *p, const struct direct *x,
                                    int64_t j, float *o, int64_t width)
{
    const int nv = mr == 1 ? DIRECT_SPAN / VF_LANES : 2; /* 4 to 8 sums in registers */
    const int lines = nv * VF_LANES * (int)attn_element_size(type) / DIRECT_LINE;
    const void *v = direct_row(type, x, j);
    struct lines next = next_lines(x, j, keys);
    int64_t c = 0;
    for (; c + nv * VF_LANES <= x->width; c += nv * VF_LANES) {
        direct_fetch(fetch, keys, lines, element_at(type, v, c), x->step, &next);
        direct_value_step(type, mr, keys, nv, p, element_at(type, v, c), x->stride, 0, o + c,
                          width);
    }
    for (; c < x->width; c += VF_LANES)
        direct_value_step(type, mr, keys, 1, p, element_at(type, v, c), x->stride, x->width - c,
                          o + c, width);
}

/* The same for `count` rows, from floats. */
FLASH_INLINE void direct_value_rows(const int keys, int count, const float *p,
                                    const struct direct *x, int64_t j, float *o, int64_t width)
{
    int r = count < 4 ? count : 4;
    if (count == 1)
        direct_value_tile(ATTN_F32, 1, keys, HELD, p, x, j, o, width);
    else if (count == 2)
        direct_value_tile(ATTN_F32, 2, keys, TOUCH, p, x, j, o, width);
    else if (count == 3)
        direct_value_tile(ATTN_F32, 3, keys, TOUCH, p, x, j, o, width);
    else
        direct_value_tile(ATTN_F32, 4, keys, TOUCH, p, x, j, o, width);
    for (; count - r >= 4; r += 4)
        direct_value_tile(ATTN_F32, 4, keys, HELD, p + r * LD, x, j, o + r * width, width);
    for (; count - r >= 2; r += 2)
        direct_value_tile(ATTN_F32, 2, keys, HELD, p + r * LD, x, j, o + r * width, width);
    if (count > r)
        direct_value_tile(ATTN_F32, 1, keys, HELD, p + r * LD, x, j, o + r * width, width);
}

/* Where V may hold NaN or Inf: weights of -0.0, the mark of cells that take no part, are skipped
 * instead of multiplied. */
static void direct_value_careful(int count, const float *p, const struct direct *x, int64_t j,
                                 float *o, int64_t width)
{
    for (int r = 0; r < count; r++)
        if (p[r * LD] != 0.0f || !signbit(p[r * LD]))
            direct_value_tile(ATTN_F32, 1, 1, HELD, p + r * LD, x, j, o + r * width, width);
}

/* The same for all keys from j on. */
FLASH_APART void direct_value_keys(bool careful, int count, const float *p,
                                   const struct direct *rows, int64_t j, float *o, int64_t width)
{
    const struct direct x = *rows; /* a copy, which the stores to o cannot change */
    if (careful)
        for (; j < x.hi; j++)
            direct_value_careful(count, p + j, &x, j, o, width);
    for (; count > 1 && j + DIRECT_KEYS <= x.hi; j += DIRECT_KEYS)
        direct_value_rows(DIRECT_KEYS, count, p + j, &x, j, o, width);
    for (; j < x.hi; j++)
        direct_value_rows(1, count, p + j, &x, j, o, width);
}

/* A single row, from V in place. */
FLASH_INLINE void direct_value_stream(const uint32_t type, const float *p, const struct direct *x,
                                      int64_t j, float *o, int64_t width)
{
    for (; type != ATTN_F32 && j + DIRECT_KEYS <= x->hi; j += DIRECT_KEYS)
        direct_value_tile(type, 1, DIRECT_KEYS, STREAM, p + j, x, j, o, width);
    for (; j < x->hi; j++)
        direct_value_tile(type, 1, 1, STREAM, p + j, x, j, o, width);
}

/* What value_product does, from V in place. */
FLASH_APART void direct_values(const struct attn_flash *job, const struct attn_flash_scratch *w,
                               const struct block *block, const struct tile *tile, int count,
                               const struct product *product)
{
    const struct direct x = direct_rows(&job->v, block, tile->j0, job->dv, product->hi);
    const float *p = product->p;
    const bool alone = count == 1 && !block->careful;
    int64_t width = product->width, lo = product->lo;
    float *o = product->o;
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_store(o + r * width + c,
                     vf_mul(vf_set1(product->rescale[r]), vf_load(o + r * width + c)));
    if (alone && job->dtype == ATTN_F32)
        direct_value_stream(ATTN_F32, p, &x, lo, o, width);
    else if (alone && job->dtype == ATTN_F16)
        direct_value_stream(ATTN_F16, p, &x, lo, o, width);
    else if (alone)
        direct_value_stream(ATTN_BF16, p, &x, lo, o, width);
    else if (job->dtype == ATTN_F32)
        direct_value_keys(block->careful, count, p, &x, lo, o, width);
    else
        for (int64_t j = lo; j < x.hi; j += VF_LANES) {
            const struct direct held = direct_held(&job->v, &x, j, w->held);
            direct_value_keys(block->careful, count, p, &held, j, o, width);
        }
}

/* Whether what was accumulated is finite: x * 0 is 0 just then. A V that is not finite shows here,
 * wherever it met a weight, even one of 0. */
static bool direct_finite(const struct attn_flash_scratch *w, const struct block *block)
{
    vf zero = vf_set1(0.0f), sum = zero;
    for (int64_t c = 0; c < block->rows * block->width; c += VF_LANES)
        sum = vf_fma(vf_load(w->o + c), zero, sum);
    return vf_all_equal(sum, zero);
}
