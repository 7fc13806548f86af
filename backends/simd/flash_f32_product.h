/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_product.h - part of flash_f32_template.h: the two products. Each micro-kernel keeps
 * mr x nv vectors of sums in registers over its whole inner loop: nv loads and mr broadcasts for
 * mr * nv products a step. There is one for every mr up to MR and every nv up to NV, so that
 * nothing is computed for rows that do not exist and little for keys that no row may see. */

/* Scores of up to MR rows against the keys [from, to) of a packed tile. */
struct span {
    const float *q[FLASH_MR]; /* rows of dk columns next to each other */
    const float *k;           /* [keys/NR][dk][NR] */
    int64_t dk, from, to;     /* from, to: multiples of VF_LANES */
    float *s;                 /* [rows][LD] */
    float *top;               /* [rows][VF_LANES] raised to the scores, lane by lane, of the panels
                                 that lie within [clean_lo, clean_hi); NaN is passed by */
    int64_t clean_lo, clean_hi;
    struct ahead *ahead; /* what to ask for meanwhile, or NULL */
    const struct meanwhile *meanwhile;
};

/* s[r][0..nv) = sum over c of q[r][c] k[c][0..nv), or of the squared differences, for rows that lie
 * `stride` apart; mr, nv, pairing and stride are constants after inlining. */
FLASH_INLINE void score_tile(const int mr, const int nv, const enum pairing pairing,
                             const float *const *q, const float *k, int64_t dk, float *s,
                             const int64_t stride, float *top)
{
    vf sum[FLASH_MR][FLASH_NV];
    const float *row[FLASH_MR];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        row[r] = q[r];
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
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vf_store(s + r * stride + n * VF_LANES, sum[r][n]);
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

FLASH_INLINE void score_span(const int mr, const enum pairing pairing, const struct span *x)
{
    for (int64_t j = x->from, end; j < x->to; j = end) {
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < x->to ? end : x->to;
        if (x->ahead)
            fetch_ahead(x->ahead);
        const float *k = x->k + j / FLASH_NR * FLASH_NR * x->dk + j % FLASH_NR;
        float *top = j >= x->clean_lo && end <= x->clean_hi ? x->top : NULL;
        switch ((end - j) / VF_LANES) {
#if FLASH_NV == 4
        case 4:
            score_tile(mr, 4, pairing, x->q, k, x->dk, x->s + j, LD, top);
            break;
        case 3:
            score_tile(mr, 3, pairing, x->q, k, x->dk, x->s + j, LD, top);
            break;
#endif
        case 2:
            score_tile(mr, 2, pairing, x->q, k, x->dk, x->s + j, LD, top);
            break;
        default:
            score_tile(mr, 1, pairing, x->q, k, x->dk, x->s + j, LD, top);
        }
    }
}

FLASH_INLINE void score_rows(int count, const enum pairing pairing, const struct span *x)
{
    switch (count) {
    case 6:
        score_span(6, pairing, x);
        break;
    case 5:
        score_span(5, pairing, x);
        break;
    case 4:
        score_span(4, pairing, x);
        break;
    case 3:
        score_span(3, pairing, x);
        break;
    case 2:
        score_span(2, pairing, x);
        break;
    default:
        score_span(1, pairing, x);
    }
}

/* Dot products of `count` rows with the keys of a span. */
FLASH_APART void score_product(int count, const struct span *x)
{
    score_rows(count, DOT, x);
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

/* All columns: whole panels, then what is left of the last one. */
FLASH_INLINE void value_columns(const int mr, const struct product *x)
{
    int64_t column = 0;
    for (; column + FLASH_NR <= x->width; column += FLASH_NR)
        value_tile(mr, FLASH_NV, x, column);
    switch ((x->width - column) / VF_LANES) {
#if FLASH_NV == 4
    case 3:
        value_tile(mr, 3, x, column);
        break;
    case 2:
        value_tile(mr, 2, x, column);
        break;
#endif
    case 1:
        value_tile(mr, 1, x, column);
        break;
    default:;
    }
}

FLASH_APART void value_product(int count, const struct product *x)
{
    switch (count) {
    case 6:
        value_columns(6, x);
        break;
    case 5:
        value_columns(5, x);
        break;
    case 4:
        value_columns(4, x);
        break;
    case 3:
        value_columns(3, x);
        break;
    case 2:
        value_columns(2, x);
        break;
    default:
        value_columns(1, x);
    }
}
