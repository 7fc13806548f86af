/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_direct.h - part of flash_f32_template.h: the two products for a handful of rows
 * (decoding), where packing K and V would cost more than using them once. Both are read in place
 * and in the order of their addresses, KEYS at a time, and the block at hand serves all rows from
 * the first-level cache. */
#define DIRECT_ROWS 12 /* two groups of 6; at 12 rows it still gains a fifth (d = 128) */
#define DIRECT_KEYS 8  /* sums or weights held in registers at a time */

static bool use_direct(const struct attn_flash *job)
{
    return job->sq * job->group <= DIRECT_ROWS && job->score != ATTN_SCORE_ADDITIVE &&
           job->k.stride[3] == 1 && job->v.stride[3] == 1;
}

/* Floats between two queries: dk, rounded up for the zeros that meet a key's odd end. */
FLASH_INLINE int64_t direct_query_stride(const struct attn_flash *job)
{
    return attn_round_up(job->dk, VF_LANES);
}

/* Rows of the block, scaled, as [rows][direct_query_stride]. */
static void direct_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                           const struct block *block)
{
    int64_t stride = direct_query_stride(job);
    float factor = query_factor(job);
    for (int64_t r = 0; r < block->rows; r++) {
        int64_t h = row_head(job, block, r), i = row_query(job, block, r);
        const float *from = (const float *)job->q.data + attn_row_index(&job->q, block->b, h, i);
        for (int64_t c = 0; c < stride; c++)
            w->q[r * stride + c] = c < job->dk ? from[c * job->q.stride[3]] * factor : 0.0f;
    }
}

/* Asks for DIRECT_KEYS rows that come next: eight short streams at once are more than the hardware
 * follows. A hint only, so that it may reach past the end. */
FLASH_INLINE void direct_fetch(const float *rows, int64_t stride, int64_t width)
{
    for (int64_t n = 0; n < DIRECT_KEYS; n++)
        for (int64_t c = 0; c < width; c += 64 / (int64_t)sizeof(float))
            __builtin_prefetch(rows + n * stride + c);
}

/* s[n] = q . k_n, or |q - k_n|^2, for `keys` rows of K. */
FLASH_INLINE void direct_score_keys(const int keys, const enum pairing pairing, const float *q,
                                    const float *k, int64_t key_stride, int64_t dk, float *s)
{
    vf sum[DIRECT_KEYS];
#pragma GCC unroll 8
    for (int n = 0; n < keys; n++)
        sum[n] = vf_set1(0.0f);
    int64_t c = 0;
    for (; c + VF_LANES <= dk; c += VF_LANES) {
        vf query = vf_load(q + c);
#pragma GCC unroll 8
        for (int n = 0; n < keys; n++)
            sum[n] = join(pairing, query, vf_loadu(k + n * key_stride + c), sum[n]);
    }
    if (c < dk)
        for (int n = 0; n < keys; n++)
            sum[n] = join(pairing, vf_load(q + c), vf_load_first(k + n * key_stride + c, dk - c),
                          sum[n]);
#pragma GCC unroll 8
    for (int n = 0; n < keys; n++)
        s[n] = vf_sum(sum[n]);
}

FLASH_INLINE void direct_score_rows(const struct attn_flash *job,
                                    const struct attn_flash_scratch *w, const struct block *block,
                                    const struct tile *tile, int64_t r0, int count, int64_t lo,
                                    int64_t hi, const enum pairing pairing)
{
    int64_t q_stride = direct_query_stride(job), stride = job->k.stride[2];
    const float *k = (const float *)job->k.data + block->b * job->k.stride[0] +
                     block->kv * job->k.stride[1] + tile->j0 * stride;
    int64_t j = lo;
    for (; j + DIRECT_KEYS <= hi; j += DIRECT_KEYS) {
        direct_fetch(k + (j + DIRECT_KEYS) * stride, stride, job->dk);
        for (int r = 0; r < count; r++)
            direct_score_keys(DIRECT_KEYS, pairing, w->q + (r0 + r) * q_stride, k + j * stride,
                              stride, job->dk, w->s + r * LD + j);
    }
    for (; j < hi; j++)
        for (int r = 0; r < count; r++)
            direct_score_keys(1, pairing, w->q + (r0 + r) * q_stride, k + j * stride, stride,
                              job->dk, w->s + r * LD + j);
}

/* Scores of `count` rows from r0 on against keys [lo, hi) of the tile. */
FLASH_APART void direct_scores(const struct attn_flash *job, const struct attn_flash_scratch *w,
                               const struct block *block, const struct tile *tile, int64_t r0,
                               int count, int64_t lo, int64_t hi)
{
    if (job->score == ATTN_SCORE_GAUSSIAN)
        direct_score_rows(job, w, block, tile, r0, count, lo, hi, DISTANCE);
    else
        direct_score_rows(job, w, block, tile, r0, count, lo, hi, DOT);
}

/* Whether `keys` rows of V are finite: x * 0 is 0 just then. */
FLASH_INLINE bool direct_finite(const int keys, const float *v, int64_t key_stride, int64_t dv)
{
    vf zero = vf_set1(0.0f), sum[DIRECT_KEYS];
#pragma GCC unroll 8
    for (int n = 0; n < keys; n++)
        sum[n] = zero;
    int64_t c = 0;
    for (; c + VF_LANES <= dv; c += VF_LANES)
#pragma GCC unroll 8
        for (int n = 0; n < keys; n++)
            sum[n] = vf_fma(vf_loadu(v + n * key_stride + c), zero, sum[n]);
    for (int n = 0; n < keys; n++) {
        if (c < dv)
            sum[n] = vf_fma(vf_load_first(v + n * key_stride + c, dv - c), zero, sum[n]);
        sum[0] = n ? vf_add(sum[0], sum[n]) : sum[0];
    }
    return vf_all_equal(sum[0], zero);
}

/* o += sum of p[n] v_n over `keys` rows of V, all finite. */
FLASH_INLINE void direct_value_keys(const int keys, const float *p, const float *v,
                                    int64_t key_stride, int64_t dv, float *o)
{
    vf weight[DIRECT_KEYS];
#pragma GCC unroll 8
    for (int n = 0; n < keys; n++)
        weight[n] = vf_set1(p[n]);
    int64_t c = 0;
    for (; c + VF_LANES <= dv; c += VF_LANES) {
        vf sum = vf_load(o + c);
#pragma GCC unroll 8
        for (int n = 0; n < keys; n++)
            sum = vf_fma(weight[n], vf_loadu(v + n * key_stride + c), sum);
        vf_store(o + c, sum);
    }
    if (c < dv) {
        vf sum = vf_load(o + c);
        for (int n = 0; n < keys; n++)
            sum = vf_fma(weight[n], vf_load_first(v + n * key_stride + c, dv - c), sum);
        vf_store(o + c, sum);
    }
}

/* The same where V is not finite: cells that take no part, weight -0.0, are skipped. */
static void direct_value_careful(int keys, const float *p, const float *v, int64_t key_stride,
                                 int64_t dv, float *o)
{
    for (int n = 0; n < keys; n++)
        if (p[n] != 0.0f || !signbit(p[n]))
            for (int64_t c = 0; c < dv; c++)
                o[c] += p[n] * v[n * key_stride + c];
}

FLASH_INLINE void direct_value_rows(const int keys, int count, const float *p, const float *v,
                                    int64_t key_stride, int64_t dv, float *o, int64_t width)
{
    bool finite = direct_finite(keys, v, key_stride, dv);
    for (int r = 0; r < count; r++)
        if (finite)
            direct_value_keys(keys, p + r * LD, v, key_stride, dv, o + r * width);
        else
            direct_value_careful(keys, p + r * LD, v, key_stride, dv, o + r * width);
}

/* What value_product does, from V in place; forbidden weights must carry the mark -0.0. */
FLASH_APART void direct_values(const struct attn_flash *job, const struct block *block,
                               const struct tile *tile, int count, const struct product *x)
{
    int64_t stride = job->v.stride[2];
    const float *v = (const float *)job->v.data + block->b * job->v.stride[0] +
                     block->kv * job->v.stride[1] + tile->j0 * stride;
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < x->width; c++)
            x->o[r * x->width + c] *= x->rescale[r];
    int64_t j = x->lo;
    for (; j + DIRECT_KEYS <= x->hi; j += DIRECT_KEYS) {
        direct_fetch(v + (j + DIRECT_KEYS) * stride, stride, job->dv);
        direct_value_rows(DIRECT_KEYS, count, x->p + j, v + j * stride, stride, job->dv, x->o,
                          x->width);
    }
    for (; j < x->hi; j++)
        direct_value_rows(1, count, x->p + j, v + j * stride, stride, job->dv, x->o, x->width);
}
