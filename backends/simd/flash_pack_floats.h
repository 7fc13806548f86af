/* SPDX-License-Identifier: Apache-2.0 */
/* flash_pack_floats.h - part of flash_template.h: q, K and V, of any type and strides, become
 * floats in the layouts that the products read. Nothing outside the operands is read. q    rows, in
 * place if they are f32 and their columns lie next to each other, else in w->q K    w->k,
 * [key_block/NR][dk][NR], multiplied by what makes a dot product a score V    w->v, [dv/NR, rounded
 * up][key_block][NR], or in place if it is f32, dense and aligned */

/* Whether the products read rows of q in place. */
static bool queries_in_place(const struct attn_flash *job)
{
    return job->dtype == ATTN_F32 && job->operands.q.stride[3] == 1 &&
           job->score != ATTN_SCORE_BILINEAR && job->score != ATTN_SCORE_ADDITIVE;
}

/* Floats between two rows of w->q. */
FLASH_INLINE int64_t query_stride(int64_t width)
{
    return attn_round_up(width, VF_LANES);
}

/* `count` <= MR rows from r0 on as floats: in place, or copied to `copy`. */
static void raw_queries(const struct attn_flash *job, const struct block *block, int64_t r0,
                        int count, float *copy, const float **to)
{
    const int64_t step = job->operands.q.stride[3];
    const bool in_place = job->dtype == ATTN_F32 && step == 1;
    int64_t h, i;
    find_row(job, block, r0, &h, &i);
    for (int r = 0; r < count; r++, copy += in_place ? 0 : query_stride(job->dq)) {
        int64_t at = attn_row_start(&job->operands.q, block->b, block->g * job->group + h, i);
        to[r] = in_place ? (const float *)job->operands.q.data + at : copy;
        if (!in_place)
            widen(&job->operands.q, at, step, job->dq, copy);
        next_row(job, &h, &i);
    }
}

/* Copies the rows of the block to w->q, as [rows][query_stride]. */
static void copy_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block)
{
    const float *rows[FLASH_MR];
    for (int64_t r0 = 0; r0 < block->rows; r0 += FLASH_MR)
        raw_queries(job, block, r0,
                    (int)(block->rows - r0 < FLASH_MR ? block->rows - r0 : FLASH_MR),
                    w->q + r0 * query_stride(job->dq), rows);
}

/* `count` <= MR rows from r0 on, as the products read them. */
FLASH_INLINE void queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                          const struct block *block, int64_t r0, int count, const float **to)
{
    if (queries_in_place(job)) {
        raw_queries(job, block, r0, count, NULL, to);
        return;
    }
    for (int r = 0; r < count; r++)
        to[r] = w->q + (r0 + r) * query_stride(job->dp);
}

/* VF_LANES keys whose columns lie next to each other, transposed in blocks. Keys outside [lo, hi)
 * do not exist and become 0. Prefetches the next VF_LANES keys, because the hardware does not
 * follow the order of these reads. A prefetch may reach past the end. */
static void pack_k_columns(const float *from, int64_t key_stride, int64_t lo, int64_t hi,
                           int64_t dk, float factor, float *to)
{
    float rows[VF_LANES * VF_LANES] __attribute__((aligned(64)));
    float columns[VF_LANES * VF_LANES] __attribute__((aligned(64)));
    bool whole = lo <= 0 && hi >= VF_LANES;
    for (int64_t c = 0; c < dk; c += VF_LANES) {
        for (int64_t n = VF_LANES; n < 2 * VF_LANES; n++)
            __builtin_prefetch(from + n * key_stride + c);
        if (whole && c + VF_LANES <= dk) {
            vf_transpose(from + c, key_stride, factor, to + c * FLASH_NR, FLASH_NR);
            continue;
        }
        for (int64_t n = 0; n < VF_LANES; n++)
            vf_store(rows + n * VF_LANES, n >= lo && n < hi
                                              ? vf_load_first(from + n * key_stride + c, dk - c)
                                              : vf_set1(0.0f));
        vf_transpose(rows, VF_LANES, factor, columns, VF_LANES);
        for (int64_t n = 0; n < VF_LANES && c + n < dk; n++)
            vf_store(to + (c + n) * FLASH_NR, vf_load(columns + n * VF_LANES));
    }
}

/* The same for 16-bit keys from index `at` on. They are widened to w->held first. */
static void pack_k_held(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        int64_t at, int64_t lo, int64_t hi, float factor, float *to)
{
    const int64_t stride = job->operands.k.stride[2], width = attn_round_up(job->dk, VF_LANES);
    const uint16_t *from = (const uint16_t *)job->operands.k.data + at;
    for (int64_t n = VF_LANES; n < 2 * VF_LANES; n++)
        for (int64_t c = 0; c < job->dk; c += 32)
            __builtin_prefetch(from + n * stride + c);
    lo = lo > 0 ? lo : 0;
    hi = hi < VF_LANES ? hi : VF_LANES;
    hold_rows(job->dtype, from + lo * stride, stride, hi - lo, job->dk, w->held + lo * width);
    pack_k_columns(w->held, width, lo, hi, job->dk, factor, to);
}

/* The same for keys whose columns lie apart. Fast if the keys of a column lie together. */
static void pack_k_apart(const struct attn_tensor *k, int64_t at, int64_t lo, int64_t hi,
                         int64_t dk, float factor, float *to)
{
    const uint32_t type = k->dtype;
    bool whole = k->stride[2] == 1 && lo <= 0 && hi >= VF_LANES;
    for (int64_t c = 0; c < dk; c++, at += k->stride[3], to += FLASH_NR) {
        if (whole)
            vf_store(to, vf_mul(load_as(type, k->data, at), vf_set1(factor)));
        else
            for (int64_t n = 0; n < VF_LANES; n++)
                to[n] = n >= lo && n < hi
                            ? attn_element_read(type, k->data, at + n * k->stride[2]) * factor
                            : 0.0f;
    }
}

/* Keys [tile.lo, tile.hi), rounded outward to whole vectors. Keys outside the interval become 0 and
 * are not read. */
static void pack_k(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block, const struct tile *tile)
{
    const int64_t *stride = job->operands.k.stride;
    int64_t base = attn_row_start(&job->operands.k, block->b, block->kv, tile->j0);
    bool dot = job->score == ATTN_SCORE_SCALED_DOT || job->score == ATTN_SCORE_DOT ||
               job->score == ATTN_SCORE_DISENTANGLED;
    float factor = dot ? job->packed : 1.0f;
    for (int64_t j = tile->lo / VF_LANES * VF_LANES; j < tile->hi; j += VF_LANES) {
        float *to = w->k + j / FLASH_NR * FLASH_NR * job->dk + j % FLASH_NR;
        int64_t at = base + j * stride[2], lo = tile->lo - j, hi = tile->hi - j;
        if (stride[3] != 1)
            pack_k_apart(&job->operands.k, at, lo, hi, job->dk, factor, to);
        else if (job->dtype == ATTN_F32)
            pack_k_columns((const float *)job->operands.k.data + at, stride[2], lo, hi, job->dk,
                           factor, to);
        else
            pack_k_held(job, w, at, lo, hi, factor, to);
    }
}

FLASH_INLINE bool pack_v_row_as(const uint32_t type, const void *data, int64_t at,
                                int64_t column_stride, int64_t dv, float *to, int64_t panel_stride)
{
    vf zero = vf_set1(0.0f), sum = zero;
    for (int64_t c = 0; c < dv; c += VF_LANES) {
        float *place = to + c / FLASH_NR * panel_stride + c % FLASH_NR;
        vf x;
        if (column_stride == 1) {
            x = load_first_as(type, data, at + c, dv - c);
            vf_store(place, x);
        } else {
            for (int64_t n = 0; n < VF_LANES; n++)
                place[n] =
                    c + n < dv ? attn_element_read(type, data, at + (c + n) * column_stride) : 0.0f;
            x = vf_load(place);
        }
        sum = vf_fma(x, zero, sum);
    }
    return vf_all_equal(sum, zero);
}

/* The row of V at index `at`. Returns whether all of it is finite: only then x * 0 is 0. */
static bool pack_v_row(const struct attn_tensor *v, int64_t at, int64_t dv, float *to,
                       int64_t panel_stride)
{
    const int64_t step = v->stride[3];
    if (v->dtype == ATTN_F32)
        return pack_v_row_as(ATTN_F32, v->data, at, step, dv, to, panel_stride);
    if (v->dtype == ATTN_F16)
        return pack_v_row_as(ATTN_F16, v->data, at, step, dv, to, panel_stride);
    return pack_v_row_as(ATTN_BF16, v->data, at, step, dv, to, panel_stride);
}

/* Whether `count` aligned floats, a multiple of VF_LANES, are finite. Four sums, because a single
 * one would wait for itself. */
static bool finite_floats(const float *from, int64_t count)
{
    vf zero = vf_set1(0.0f), sum[4] = {zero, zero, zero, zero};
    int64_t n = 0;
    for (; n + 4 * VF_LANES <= count; n += 4 * VF_LANES)
        for (int64_t m = 0; m < 4; m++)
            sum[m] = vf_fma(vf_load(from + n + m * VF_LANES), zero, sum[m]);
    for (; n < count; n += VF_LANES)
        sum[0] = vf_fma(vf_load(from + n), zero, sum[0]);
    return vf_all_equal(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])), zero);
}

/* Whether rows of V can be read in place. They must be dense, so that they do not fall into the
 * same cache sets, and no vector of them may cross a cache line. */
static bool values_in_place(const struct attn_flash *job, int64_t base)
{
    return job->dtype == ATTN_F32 && job->operands.v.stride[3] == 1 &&
           job->operands.v.stride[2] == job->dv && job->dv % VF_LANES == 0 &&
           (uintptr_t)((const float *)job->operands.v.data + base) % sizeof(vf) == 0;
}

/* Keys [tile.lo, tile.hi) of V, in place or packed. Notes in the tile which are not finite. */
static void pack_v(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block, struct tile *tile)
{
    const int64_t step = job->operands.v.stride[2];
    int64_t base = attn_row_start(&job->operands.v, block->b, block->kv, tile->j0);
    bool in_place = values_in_place(job, base);
    tile->v = in_place ? (const float *)job->operands.v.data + base : w->v;
    tile->v_key = in_place ? step : FLASH_NR;
    tile->v_panel = in_place ? FLASH_NR : job->key_block * FLASH_NR;
    tile->bad_lo = job->key_block;
    tile->bad_hi = 0;
    if (in_place && finite_floats(tile->v + tile->lo * job->dv, (tile->hi - tile->lo) * job->dv))
        return;
    for (int64_t j = tile->lo; j < tile->hi; j++) {
        if (in_place ? finite_floats(tile->v + j * step, job->dv)
                     : pack_v_row(&job->operands.v, base + j * step, job->dv, w->v + j * FLASH_NR,
                                  tile->v_panel))
            continue;
        tile->bad_lo = tile->bad_lo < j ? tile->bad_lo : j;
        tile->bad_hi = j + 1;
    }
}
