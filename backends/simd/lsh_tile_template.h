/* SPDX-License-Identifier: Apache-2.0 */
/* lsh_tile_template.h - part of lsh_template.h: some queries of a piece and a tile of keys. Scores,
 * the softmax, and products with v. */

/* Some queries of a piece, and what they do not see. */
struct lsh_queries {
    const int32_t *token; /* [rows] */
    int64_t rows;
    bool causal, last; /* no later tokens; the own one only if there is no other */
};

/* Keys of a tile that some query of a row group may see: those of vectors at[0], at[1], .. */
struct lsh_keys {
    const struct attn_lsh_piece *piece;
    int64_t first, count; /* of the tile, in the piece */
    int vectors;
    int32_t at[ATTN_LSH_KEYS / VF_LANES];
};

/* With causal, in buckets that are sorted by position, many are too late for all of the group. */
static void lsh_list_keys(const struct lsh_queries *x, int64_t row, int64_t rows,
                          struct lsh_keys *keys)
{
    const float *low = keys->piece->low + keys->first / VF_LANES;
    int32_t latest = 0;
    for (int64_t r = row; r < row + rows; r++)
        latest = x->token[r] > latest ? x->token[r] : latest;
    keys->vectors = 0;
    for (int32_t n = 0; n < keys->count; n += VF_LANES)
        if (!x->causal || low[n / VF_LANES] <= (float)latest)
            keys->at[keys->vectors++] = n;
}

static bool lsh_has_all(const struct lsh_keys *keys)
{
    return keys->vectors * VF_LANES >= keys->count;
}

/* Scores of MR queries with `nv` vectors of keys. */
FLASH_INLINE void lsh_score_tile(const int nv, int64_t depth, const float *q, int64_t q_row,
                                 const float *keys, int64_t step, const int32_t *at, float *s)
{
    vf sum[FLASH_MR][FLASH_NV];
#pragma GCC unroll 8
    for (int i = 0; i < FLASH_MR; i++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            sum[i][n] = vf_set1(0);
    for (int64_t c = 0; c < depth; c++) {
        vf own[FLASH_NV];
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            own[n] = vf_load(keys + at[n] + c * step);
#pragma GCC unroll 8
        for (int i = 0; i < FLASH_MR; i++) {
            const vf x = vf_set1(q[i * q_row + c]);
#pragma GCC unroll 4
            for (int n = 0; n < nv; n++)
                sum[i][n] = vf_fma(x, own[n], sum[i][n]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < FLASH_MR; i++)
#pragma GCC unroll 4
        for (int n = 0; n < nv; n++)
            vf_store(s + i * step + at[n], sum[i][n]);
}

FLASH_APART void lsh_score(const struct attn_lsh_room *w, int64_t dk, int64_t row,
                           const struct lsh_keys *keys)
{
    const float *k = keys->piece->keys + keys->first * w->dk_room, *q = w->x + row * w->dk_room;
    float *s = w->s + row * w->tile;
    int n = 0;
    if (lsh_has_all(keys)) {
        matrix_multiply(&(struct matrix_product){.a = q,
                                                 .a_row = w->dk_room,
                                                 .a_step = 1,
                                                 .b = k,
                                                 .b_row = w->tile,
                                                 .c = s,
                                                 .c_row = w->tile,
                                                 .rows = FLASH_MR,
                                                 .columns = keys->count,
                                                 .depth = dk,
                                                 .fresh = true});
        return;
    }
    for (; n + FLASH_NV <= keys->vectors; n += FLASH_NV)
        lsh_score_tile(FLASH_NV, dk, q, w->dk_room, k, w->tile, keys->at + n, s);
    for (; FLASH_NV > 2 && n + 2 <= keys->vectors; n += 2)
        lsh_score_tile(2, dk, q, w->dk_room, k, w->tile, keys->at + n, s);
    for (; n < keys->vectors; n++)
        lsh_score_tile(1, dk, q, w->dk_room, k, w->tile, keys->at + n, s);
}

/* Scores that a query does not see become -inf. Returns the largest and `most`. */
FLASH_INLINE vf lsh_mask(const int causal, const int last, float *s, const struct lsh_keys *keys,
                         float own, vf most)
{
    const vf never = vf_set1(-INFINITY), self = vf_set1(own);
    for (int m = 0; m < keys->vectors; m++) {
        const int32_t n = keys->at[m];
        vf x = vf_load(s + n);
        if (causal || last) {
            const vf token = vf_load(keys->piece->id + keys->first + n);
            if (causal)
                x = vf_select_equal(vf_min(token, self), token, x, never);
            if (last)
                x = vf_select_equal(token, self, never, x);
            vf_store(s + n, x);
        }
        most = vf_max(x, most); /* NaN is left to the sum */
    }
    return most;
}

/* Scores of a query become weights, relative to the largest score that it has seen yet. */
static void lsh_weigh(const struct lsh_queries *x, const struct attn_lsh_room *w, int64_t row,
                      const struct lsh_keys *keys)
{
    const float own = (float)x->token[row], before = w->most[row];
    float *o = w->o + row * w->dv_room, *s = w->s + row * w->tile;
    vf most = vf_set1(before), sum = vf_set1(0);
    for (int64_t n = keys->count; n < attn_round_up(keys->count, VF_LANES); n++)
        s[n] = -INFINITY;
    if (x->causal)
        most = x->last ? lsh_mask(1, 1, s, keys, own, most) : lsh_mask(1, 0, s, keys, own, most);
    else
        most = x->last ? lsh_mask(0, 1, s, keys, own, most) : lsh_mask(0, 0, s, keys, own, most);
    const float largest = vf_largest(most), base = largest > -INFINITY ? largest : 0;
    for (int m = 0; m < keys->vectors; m++) {
        const vf p = exp2_negative(vf_sub(vf_load(s + keys->at[m]), vf_set1(base)));
        vf_store(s + keys->at[m], p);
        sum = vf_add(sum, p);
    }
    w->most[row] = largest;
    if (before == largest) {
        w->sum[row] += vf_sum(sum);
        return;
    }
    const vf less = exp2_negative(vf_set1(before - base));
    w->sum[row] = w->sum[row] * vf_first(less) + vf_sum(sum);
    for (int64_t c = 0; c < w->dv_room; c += VF_LANES)
        vf_store(o + c, vf_mul(vf_load(o + c), less));
}

/* o += p v for MR queries and NR columns. Values that fill the last vector are 0. */
FLASH_INLINE void lsh_join_tile(const struct attn_lsh_room *w, const struct lsh_keys *keys,
                                const float *s, const float *v, float *o)
{
    vf sum[FLASH_MR][FLASH_NV];
#pragma GCC unroll 8
    for (int i = 0; i < FLASH_MR; i++)
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            sum[i][n] = vf_load(o + i * w->dv_room + n * VF_LANES);
    for (int m = 0; m < keys->vectors; m++) {
        const float *p = s + keys->at[m], *row = v + keys->at[m] * w->dv_room;
        for (int k = 0; k < VF_LANES; k++, p++, row += w->dv_room) {
            vf own[FLASH_NV];
#pragma GCC unroll 4
            for (int n = 0; n < FLASH_NV; n++)
                own[n] = vf_load(row + n * VF_LANES);
#pragma GCC unroll 8
            for (int i = 0; i < FLASH_MR; i++) {
                const vf x = vf_set1(p[i * w->tile]);
#pragma GCC unroll 4
                for (int n = 0; n < FLASH_NV; n++)
                    sum[i][n] = vf_fma(x, own[n], sum[i][n]);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < FLASH_MR; i++)
#pragma GCC unroll 4
        for (int n = 0; n < FLASH_NV; n++)
            vf_store(o + i * w->dv_room + n * VF_LANES, sum[i][n]);
}

FLASH_APART void lsh_join(const struct attn_lsh_room *w, int64_t row, const struct lsh_keys *keys)
{
    const float *v = keys->piece->v + keys->first * w->dv_room, *s = w->s + row * w->tile;
    float *o = w->o + row * w->dv_room;
    if (lsh_has_all(keys))
        matrix_multiply(&(struct matrix_product){.a = s,
                                                 .a_row = w->tile,
                                                 .a_step = 1,
                                                 .b = v,
                                                 .b_row = w->dv_room,
                                                 .c = o,
                                                 .c_row = w->dv_room,
                                                 .rows = FLASH_MR,
                                                 .columns = w->dv_room,
                                                 .depth = keys->count});
    else
        for (int64_t d = 0; d < w->dv_room; d += FLASH_NR)
            lsh_join_tile(w, keys, s, v + d, o + d);
}

/* The same for one query where v is not finite: 0 * NaN is NaN, so keys that are not seen are left
 * out. */
static void lsh_join_seen(const struct lsh_queries *x, const struct attn_lsh_room *w, int64_t row,
                          const struct lsh_keys *keys)
{
    const float own = (float)x->token[row], *s = w->s + row * w->tile;
    float *o = w->o + row * w->dv_room;
    for (int64_t n = 0; n < keys->count; n++) {
        const float id = keys->piece->id[keys->first + n];
        const float *v = keys->piece->v + (keys->first + n) * w->dv_room;
        if ((x->causal && id > own) || (x->last && id == own))
            continue;
        for (int64_t d = 0; d < w->dv_room; d += VF_LANES)
            vf_store(o + d, vf_fma(vf_set1(s[n]), vf_load(v + d), vf_load(o + d)));
    }
}
