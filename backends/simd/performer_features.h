/* SPDX-License-Identifier: Apache-2.0 */
/* performer_features.h - the features of a vector, from its products with w, for the two kernels of
 * performer. m features; m_room has them in whole micro-kernels. */

static float dot_of(const float *a, const float *b, int64_t n)
{
    vf sum = vf_set1(0), other = vf_set1(0); /* an addition would wait for the one before */
    int64_t c = 0;
    for (; c + 2 * VF_LANES <= n; c += 2 * VF_LANES) {
        sum = vf_fma(vf_load(a + c), vf_load(b + c), sum);
        other = vf_fma(vf_load(a + c + VF_LANES), vf_load(b + c + VF_LANES), other);
    }
    for (; c < n; c += VF_LANES)
        sum = vf_fma(vf_load(a + c), vf_load(b + c), sum);
    return vf_sum(vf_add(sum, other));
}

/* The larger of `most` and of what is taken out of the features of a row: with eps w x', else the
 * whole exponent. NaN is left to the sums. */
FLASH_INLINE vf raise_most(int64_t m_room, const int with_eps, const float *products, float half,
                           vf most)
{
    const vf less = vf_set1(half);
    for (int64_t c = 0; c < m_room; c += VF_LANES) {
        const vf x = vf_load(products + c);
        most = vf_max(with_eps ? x : vf_sub(x, less), most);
    }
    return most;
}

static vf raise_largest(int64_t m_room, double eps, const float *products, float half, vf most)
{
    return eps > 0 ? raise_most(m_room, 1, products, half, most)
                   : raise_most(m_room, 0, products, half, most);
}

/* From w x' to features; 0 beyond m. */
static void take_features(int64_t m, int64_t m_room, double eps, const float *products, float half,
                          vf largest, float *phi)
{
    const float found = vf_largest(largest);
    const vf log2_e = vf_set1(LOG2_E), more = vf_set1((float)eps);
    const vf less = vf_set1(-(half + (isfinite(found) ? found : 0)) * LOG2_E);
    for (int64_t c = 0; c < m_room; c += VF_LANES) {
        const vf x = vf_fma(vf_load(products + c), log2_e, less);
        vf_store(phi + c, vf_add(exp2_negative(x), more));
    }
    for (int64_t c = m; c < m_room; c++)
        phi[c] = 0;
}
