/* SPDX-License-Identifier: Apache-2.0 */
/* flash_kernel_f32.h - part of flash_template.h: the micro-kernels of the two products, sums in
 * f32. Each keeps mr x nv vectors of sums in registers over its whole inner loop. A step has nv
 * loads, mr broadcasts and mr * nv products. */

/* The product makes keys -inf that no row may see, at the end of its clean panels. */
#define FLASH_FORBIDS 1

/* s[r][0..nv) = sum over c of q[r][c] k[c][0..nv), or of the squared differences. k and s point to
 * the first key of the micro-kernel. Raises top, or NULL. mr, nv and pairing are constants after
 * inlining. */
FLASH_INLINE void score_tile(const int mr, const int nv, const enum pairing pairing,
                             const struct span *x, const float *k, float *s, float *top)
{
    const int64_t dk = x->dk;
    vf sum[FLASH_MR][FLASH_NV];
    const float *row[FLASH_MR];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        row[r] = x->q[r];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            sum[r][n] = vf_set1(0.0f);
    }
    for (int64_t c = 0; c < dk; c++) {
        vf key[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            key[n] = vf_load(k + c * FLASH_NR + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf query = vf_set1(row[r][c]);
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                sum[r][n] = join(pairing, query, key[n], sum[r][n]);
        }
    }
    if (top && x->bias[0]) {
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++) {
                vf bias = vf_loadu(x->bias[r] + (s - x->s) + n * VF_LANES);
                vf biased = vf_fma(bias, vf_set1(LOG2_E), sum[r][n]);
                vf forbidden = vf_set1(-INFINITY);
                sum[r][n] = vf_select_equal(bias, forbidden, forbidden, biased);
            }
    }
    /* What clip_vector does to a vector, with one comparison for all rows. */
    const int64_t seen = x->clean_to - x->forbidden - (s - x->s);
    if (top && seen < nv * VF_LANES) {
        const vf last = vf_set1((float)(seen - 1));
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++) {
            vf key = vf_add(vf_set1((float)(n * VF_LANES)), vf_lane_numbers());
            vf near = vf_min(key, last);
#pragma GCC unroll 16
            for (int r = 0; r < mr; r++)
                sum[r][n] = vf_select_equal(key, near, sum[r][n], vf_set1(-INFINITY));
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vf_store(s + r * LD + n * VF_LANES, sum[r][n]);
    if (!top)
        return;
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        vf most = vf_load(top + r * VF_LANES);
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            most = vf_max(sum[r][n], most);
        vf_store(top + r * VF_LANES, most);
    }
}

/* `nv` vectors of columns, from `column` on, for `mr` rows. */
FLASH_INLINE void value_tile(const int mr, const int nv, const struct product *x, int64_t column)
{
    vf sum[FLASH_MR][FLASH_NV];
    const float *p = x->p;
    const float *v = x->v + column / FLASH_NR * x->v_panel + column % FLASH_NR;
    const int64_t hi = x->hi, step = x->v_key;
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            sum[r][n] = vf_set1(0.0f);
    if (!x->fresh) {
        const float *o = x->o + column;
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                sum[r][n] =
                    vf_mul(vf_set1(x->rescale[r]), vf_load(o + r * x->width + n * VF_LANES));
    }
    for (int64_t j = x->lo; j < hi; j++) {
        vf value[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            value[n] = vf_load(v + j * step + n * VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf weight = vf_set1(p[r * LD + j]);
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                sum[r][n] = join(DOT, weight, value[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        vf by = vf_set1(x->by[r]);
        float *to = x->to[r] + column;
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vf_storeu(to + n * VF_LANES, vf_mul(by, sum[r][n]));
    }
}
