/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_product.h - part of flash_f32_template.h: the two products. Each micro-kernel keeps
 * MR x NR sums in registers over its whole inner loop: a broadcast and NV products a row and step.
 * A group with fewer rows is cut into micro-kernels of 4, 2 and 1, so that nothing is computed for
 * rows that do not exist. */

/* s[r][0..NR) = sum over c of q[c][r] k[c][0..NR), or of the squared differences, for `mr` rows
 * that lie `stride` apart; mr, pairing and stride are constants after inlining. */
FLASH_INLINE void score_tile(const int mr, const enum pairing pairing, const float *q,
                             const float *k, int64_t dk, float *s, const int64_t stride)
{
    vf sum[FLASH_MR][FLASH_NV];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            sum[r][n] = vf_set1(0.0f);
    for (int64_t c = 0; c < dk; c++) {
        vf key[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            key[n] = vf_load(k + c * FLASH_NR + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf query = vf_set1(q[c * FLASH_MR + r]);
#pragma GCC unroll 4
            for (int n = 0; n < FLASH_NV; n++)
                sum[r][n] = join(pairing, query, key[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            vf_store(s + r * stride + n * VF_LANES, sum[r][n]);
}

FLASH_INLINE void score_panels(const int mr, const enum pairing pairing, const float *q,
                               const float *k, int64_t dk, int64_t panel_lo, int64_t panel_hi,
                               float *s)
{
    for (int64_t p = panel_lo; p < panel_hi; p++)
        score_tile(mr, pairing, q, k + p * dk * FLASH_NR, dk, s + p * FLASH_NR, LD);
}

FLASH_INLINE void score_rows(int count, const enum pairing pairing, const float *q, const float *k,
                             int64_t dk, int64_t panel_lo, int64_t panel_hi, float *s)
{
    if (count == FLASH_MR) {
        score_panels(FLASH_MR, pairing, q, k, dk, panel_lo, panel_hi, s);
        return;
    }
    int r = 0;
    for (; count - r >= 4; r += 4)
        score_panels(4, pairing, q + r, k, dk, panel_lo, panel_hi, s + r * LD);
    for (; count - r >= 2; r += 2)
        score_panels(2, pairing, q + r, k, dk, panel_lo, panel_hi, s + r * LD);
    if (count > r)
        score_panels(1, pairing, q + r, k, dk, panel_lo, panel_hi, s + r * LD);
}

/* Dot products of `count` rows with the keys of panels [panel_lo, panel_hi). */
FLASH_APART void score_product(int count, const float *q, const float *k, int64_t dk,
                               int64_t panel_lo, int64_t panel_hi, float *s)
{
    score_rows(count, DOT, q, k, dk, panel_lo, panel_hi, s);
}

/* Squared distances between the same. */
FLASH_APART void score_distance(int count, const float *q, const float *k, int64_t dk,
                                int64_t panel_lo, int64_t panel_hi, float *s)
{
    score_rows(count, DISTANCE, q, k, dk, panel_lo, panel_hi, s);
}

/* `nv` vectors of columns, from `column` on, for `mr` rows from r0 on. */
FLASH_INLINE void value_tile(const int mr, const int nv, const struct product *x, int r0,
                             int64_t column)
{
    vf sum[FLASH_MR][FLASH_NV];
    float *o = x->o + r0 * x->width + column;
    const float *p = x->p + r0 * LD;
    const float *v = x->v + column / FLASH_NR * FLASH_NR * x->key_block + column % FLASH_NR;
    const int64_t hi = x->hi;
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        vf by = vf_set1(x->rescale[r0 + r]);
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            sum[r][n] = vf_mul(by, vf_load(o + r * x->width + n * VF_LANES));
    }
    for (int64_t j = x->lo; j < hi; j++) {
        vf value[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            value[n] = vf_load(v + j * FLASH_NR + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf weight = vf_set1(p[r * LD + j]);
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                sum[r][n] = vf_fma(weight, value[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vf_store(o + r * x->width + n * VF_LANES, sum[r][n]);
}

/* All columns: whole panels, then vector by vector, so that odd widths cost little. */
FLASH_INLINE void value_panels(const int mr, const struct product *x, int r0)
{
    int64_t column = 0;
    for (; column + FLASH_NR <= x->columns; column += FLASH_NR)
        value_tile(mr, FLASH_NV, x, r0, column);
    for (; column < x->columns; column += VF_LANES)
        value_tile(mr, 1, x, r0, column);
}

FLASH_APART void value_product(int count, const struct product *x)
{
    if (count == FLASH_MR) {
        value_panels(FLASH_MR, x, 0);
        return;
    }
    int r = 0;
    for (; count - r >= 4; r += 4)
        value_panels(4, x, r);
    for (; count - r >= 2; r += 2)
        value_panels(2, x, r);
    if (count > r)
        value_panels(1, x, r);
}

/* The same where V may hold NaN or Inf: weights of -0.0, the mark of cells that take no part, are
 * skipped instead of multiplied. */
FLASH_APART void value_product_careful(int count, const struct product *x)
{
    for (int r = 0; r < count; r++) {
        float *o = x->o + r * x->width;
        for (int64_t c = 0; c < x->width; c++)
            o[c] *= x->rescale[r];
        for (int64_t j = x->lo; j < x->hi; j++) {
            float weight = x->p[r * LD + j];
            if (weight == 0.0f && signbit(weight))
                continue;
            for (int64_t c = 0; c < x->width; c += FLASH_NR) {
                const float *v = x->v + c * x->key_block + j * FLASH_NR;
                for (int64_t n = 0; n < FLASH_NR; n++)
                    o[c + n] += weight * v[n];
            }
        }
    }
}
