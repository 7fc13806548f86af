/* SPDX-License-Identifier: Apache-2.0 */
/* flash_product.h - part of flash_template.h: the operands of the two products, score_product and
 * value_product. They count in floats, or in pairs (flash_pack_pairs.h). */

/* A score sums over the columns: q k, or (q - k)^2. */
enum pairing { DOT, DISTANCE };

FLASH_INLINE vf join(const enum pairing pairing, vf q, vf k, vf sum)
{
#if FLASH_PAIRS
    (void)pairing; /* always DOT */
    return vf_join_pairs(q, k, sum);
#else
    vf apart = pairing == DOT ? q : vf_sub(q, k);
    return vf_fma(apart, pairing == DOT ? k : apart, sum);
#endif
}

/* Scores of up to MR rows with the keys [from, to) of a packed tile. Tiles read q as one matrix:
 * row r at q[0] + r * dk. */
struct span {
    const float *q[FLASH_MR]; /* rows of dk columns next to each other */
    const float *k;           /* [keys/NR][dk][NR] */
    int64_t dk, from, to;     /* from, to: multiples of VF_LANES */
    float *s;                 /* [rows][LD] */
    float *top; /* [rows][VF_LANES] maxima, lane by lane; raised to the scores of panels
                   within [clean_from, clean_to), NaN ignored */
    int64_t clean_from, clean_to;
    int64_t forbidden; /* keys before clean_to that no row may see; the product makes them -inf */
    const float *bias[FLASH_MR]; /* key 0 of the tile: added in these panels; NULL: none. -inf
                                    forbids the cell, even if its score is +inf */
    struct ahead *ahead;         /* what to prefetch meanwhile, or NULL */
    const struct meanwhile *meanwhile;
};

/* to[r] = by[r] * (o[r] * rescale[r] + sum over keys j in [lo, hi) of p[r][j] v[j]). */
struct product {
    const float *p; /* [rows][LD] */
    const float *v; /* key j, column c: at c / NR * v_panel + c % NR + j * v_key */
    int64_t v_key, v_panel, lo, hi;
    float *o;             /* [rows][width] */
    int64_t width;        /* dv rounded up to a vector */
    bool fresh;           /* o holds nothing yet and counts as 0 */
    const float *rescale; /* [rows] */
    const struct meanwhile *meanwhile;
    float *to[FLASH_MR]; /* rows of o, or of out if it takes whole vectors */
    float by[FLASH_MR];
};
