/* SPDX-License-Identifier: Apache-2.0 */
/* flash_direct_values.h - part of flash_template.h: weights of few rows times V in place. */

/* Rows of weights, rows of V, and the sums that their products join: o[r] += p[r][j] v[j]. */
struct direct_sums {
    const float *p;  /* [rows][LD] */
    struct direct v; /* in place, or as floats */
    float *o;        /* [rows][width] */
    int64_t width;   /* floats */
};

/* The operands of one step, each from one row, one key and one column on. */
struct direct_step {
    const float *p;
    const void *v;
    int64_t key_stride, left; /* elements between keys; columns that exist */
    float *o;
    int64_t width;
};

/* `keys` rows of V join `mr` rows, nv vectors of columns. If nv is 1, the last vector may have
 * fewer columns. */
FLASH_INLINE void direct_value_step(const uint32_t type, const int mr, const int keys, const int nv,
                                    const struct direct_step x)
{
    vf sum[4][DIRECT_SPAN / VF_LANES];
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            sum[r][e] = vf_load(x.o + r * x.width + e * VF_LANES);
#pragma GCC unroll 4
    for (int n = 0; n < keys; n++) {
        vf value[DIRECT_SPAN / VF_LANES];
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            value[e] = nv == 1 && x.left < VF_LANES
                           ? load_first_as(type, x.v, n * x.key_stride, x.left)
                           : load_as(type, x.v, n * x.key_stride + e * VF_LANES);
#pragma GCC unroll 4
        for (int r = 0; r < mr; r++) {
            vf weight = vf_set1(x.p[r * LD + n]);
#pragma GCC unroll 8
            for (int e = 0; e < nv; e++)
                sum[r][e] = vf_fma(weight, value[e], sum[r][e]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int e = 0; e < nv; e++)
            vf_store(x.o + r * x.width + e * VF_LANES, sum[r][e]);
}

/* The same for all columns, of `mr` rows from r0 on. */
FLASH_INLINE void direct_value_tile(const uint32_t type, const int mr, const int keys,
                                    const enum fetch fetch, int r0, const struct direct_sums *x,
                                    int64_t j)
{
    const int nv = mr == 1 ? DIRECT_SPAN / VF_LANES : 2; /* 4 to 8 sums in registers */
    const int lines = nv * VF_LANES * (int)attn_element_bytes(type) / DIRECT_LINE;
    const void *v = direct_row(type, &x->v, j);
    struct lines next = next_lines(&x->v, j, keys);
    struct direct_step at = {.p = x->p + r0 * LD + j, .key_stride = x->v.stride, .width = x->width};
    float *o = x->o + r0 * x->width;
    int64_t c = 0;
    for (; c + nv * VF_LANES <= x->v.width; c += nv * VF_LANES) {
        direct_fetch(fetch, keys, lines, element_at(type, v, c), x->v.step, &next);
        at.v = element_at(type, v, c);
        at.o = o + c;
        direct_value_step(type, mr, keys, nv, at);
    }
    for (; c < x->v.width; c += VF_LANES) {
        at.v = element_at(type, v, c);
        at.o = o + c;
        at.left = x->v.width - c;
        direct_value_step(type, mr, keys, 1, at);
    }
}

/* The same for `count` rows, from floats. */
FLASH_INLINE void direct_value_rows(const int keys, int count, const struct direct_sums *x,
                                    int64_t j)
{
    int r = count < 4 ? count : 4;
    if (count == 1)
        direct_value_tile(ATTN_F32, 1, keys, HELD, 0, x, j);
    else if (count == 2)
        direct_value_tile(ATTN_F32, 2, keys, TOUCH, 0, x, j);
    else if (count == 3)
        direct_value_tile(ATTN_F32, 3, keys, TOUCH, 0, x, j);
    else
        direct_value_tile(ATTN_F32, 4, keys, TOUCH, 0, x, j);
    for (; count - r >= 4; r += 4)
        direct_value_tile(ATTN_F32, 4, keys, HELD, r, x, j);
    for (; count - r >= 2; r += 2)
        direct_value_tile(ATTN_F32, 2, keys, HELD, r, x, j);
    if (count > r)
        direct_value_tile(ATTN_F32, 1, keys, HELD, r, x, j);
}

/* Key j of a V that may hold NaN or Inf. A weight of -0.0 marks a cell that takes no part: it is
 * skipped. */
static void direct_value_careful(int count, const struct direct_sums *x, int64_t j)
{
    for (int r = 0; r < count; r++)
        if (x->p[r * LD + j] != 0.0f || !signbit(x->p[r * LD + j]))
            direct_value_tile(ATTN_F32, 1, 1, HELD, r, x, j);
}

/* All keys from j on. */
FLASH_APART void direct_value_keys(bool careful, int count, const struct direct_sums *sums,
                                   int64_t j)
{
    const struct direct_sums x = *sums; /* a copy, which the stores to o cannot change */
    if (careful)
        for (; j < x.v.hi; j++)
            direct_value_careful(count, &x, j);
    for (; count > 1 && j + DIRECT_KEYS <= x.v.hi; j += DIRECT_KEYS)
        direct_value_rows(DIRECT_KEYS, count, &x, j);
    for (; j < x.v.hi; j++)
        direct_value_rows(1, count, &x, j);
}

/* A single row, from V in place. */
FLASH_INLINE void direct_value_stream(const uint32_t type, const struct direct_sums *x, int64_t j)
{
    for (; type != ATTN_F32 && j + DIRECT_KEYS <= x->v.hi; j += DIRECT_KEYS)
        direct_value_tile(type, 1, DIRECT_KEYS, STREAM, 0, x, j);
    for (; j < x->v.hi; j++)
        direct_value_tile(type, 1, 1, STREAM, 0, x, j);
}

/* What value_product does, with V in place. */
FLASH_APART void direct_values(const struct attn_flash_scratch *w, const struct block *block,
                               const struct tile *tile, const struct group *group,
                               const struct product *product)
{
    const struct attn_flash *job = group->job;
    const struct direct_sums sums = {
        product->p, direct_rows(&job->operands.v, block, tile->j0, job->dv, product->hi),
        product->o, product->width};
    const bool alone = group->count == 1 && !block->careful;
    const int64_t width = product->width, lo = product->lo;
    float *o = product->o;
    for (int r = 0; r < group->count; r++)
        for (int64_t c = 0; c < width; c += VF_LANES)
            vf_store(o + r * width + c,
                     vf_mul(vf_set1(product->rescale[r]), vf_load(o + r * width + c)));
    if (alone && job->dtype == ATTN_F32)
        direct_value_stream(ATTN_F32, &sums, lo);
    else if (alone && job->dtype == ATTN_F16)
        direct_value_stream(ATTN_F16, &sums, lo);
    else if (alone)
        direct_value_stream(ATTN_BF16, &sums, lo);
    else if (job->dtype == ATTN_F32)
        direct_value_keys(block->careful, group->count, &sums, lo);
    else
        for (int64_t j = lo; j < sums.v.hi; j += VF_LANES) {
            struct direct_sums some = sums;
            some.v = direct_held(&job->operands.v, &sums.v, j, w->held);
            direct_value_keys(block->careful, group->count, &some, j);
        }
}

/* Whether the accumulated output is finite: only then x * 0 is 0. A V that is not finite shows here
 * if it met any weight, even 0. */
static bool direct_finite(const struct attn_flash_scratch *w, const struct block *block)
{
    vf zero = vf_set1(0.0f), sum = zero;
    for (int64_t c = 0; c < block->rows * block->width; c += VF_LANES)
        sum = vf_fma(vf_load(w->o + c), zero, sum);
    return vf_all_equal(sum, zero);
}
