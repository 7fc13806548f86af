/* SPDX-License-Identifier: Apache-2.0 */
/* flash_pack_pairs.h - part of flash_template.h: what flash_pack_floats.h does, for products of
 * pairs of FLASH_TYPE.
 *
 * A pair is 32 bits: two elements that are neighbours on the inner axis of a product, the first
 * one in the low half. A pair lies where a float would lie. Loads, broadcasts and stores of floats
 * move pairs without a change of bits, so flash_product_vectors.h serves both; `join` multiplies
 * them. struct span and struct product count in pairs then:
 *   q    pair c of a row holds columns 2c, 2c + 1
 *   k    [key_block/NR][pairs(dk)][NR]; pair (c, n) of a panel holds the same columns of key n
 *   p    [rows][LD]; pair m holds the weights of keys 2m, 2m + 1 of the tile. So a row of weights
 *        is a row of FLASH_TYPE, one element per key.
 *   v    [dv/NR, rounded up][pairs(key_block)][NR]; pair (m, n) of a panel holds column n of keys
 *        2m, 2m + 1 of the tile
 * Zeros fill the inner axis up to a multiple of FLASH_STEP elements, on both sides of the product.
 * Keys outside [tile.lo, tile.hi) are such zeros. */

/* Pairs that hold `count` elements of the inner axis. */
FLASH_INLINE int64_t pairs(int64_t count)
{
    return attn_round_up(count, FLASH_STEP) / 2;
}

/* Whether the products read rows of q in place. Rows must be whole pairs, each aligned to one.
 * Tiles read 16 or 32 rows at equal distances, even rows that do not exist, so they need a copy. */
static bool queries_in_place(const struct attn_flash *job)
{
    const int64_t *stride = job->operands.q.stride;
    return !FLASH_TILES && stride[3] == 1 && job->dk % FLASH_STEP == 0 &&
           (uintptr_t)job->operands.q.data % 4 == 0 && (stride[0] | stride[1] | stride[2]) % 2 == 0;
}

/* Pairs between two rows of w->q. */
FLASH_INLINE int64_t query_stride(int64_t width)
{
    return attn_round_up(pairs(width), VF_LANES);
}

/* `width` elements, `step` apart, as a row of query_stride pairs. Zeros fill it up. */
static void copy_pairs(const uint16_t *from, int64_t step, int64_t width, float *row)
{
    const int64_t whole = 2 * query_stride(width);
    uint16_t *to = (uint16_t *)(void *)row;
    for (int64_t c = 0; step == 1 && c < width; c += 2 * VF_LANES)
        vf_store(row + c / 2, vf_pairs(from + c, width - c));
    for (int64_t c = 0; step != 1 && c < whole; c++)
        to[c] = c < width ? from[c * step] : 0;
}

/* Copies the rows of the block to w->q, as [rows][query_stride]. */
static void copy_queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                         const struct block *block)
{
    const struct attn_tensor *q = &job->operands.q;
    for (int64_t r = 0; r < block->rows; r++)
        copy_pairs((const uint16_t *)q->data + attn_row_start(q, block->b, row_head(job, block, r),
                                                              row_query(job, block, r)),
                   q->stride[3], job->dk, w->q + r * query_stride(job->dk));
}

/* `count` <= MR rows from r0 on, as the products read them. */
FLASH_INLINE void queries(const struct attn_flash *job, const struct attn_flash_scratch *w,
                          const struct block *block, int64_t r0, int count, const float **to)
{
    const uint16_t *base = job->operands.q.data;
    const bool in_place = queries_in_place(job);
    int64_t h, i;
    find_row(job, block, r0, &h, &i);
    for (int r = 0; r < count; r++) {
        int64_t at = attn_row_start(&job->operands.q, block->b, block->g * job->group + h, i);
        to[r] = in_place ? (const float *)(const void *)(base + at)
                         : w->q + (r0 + r) * query_stride(job->dk);
        next_row(job, &h, &i);
    }
}

/* VF_LANES keys whose columns lie next to each other, transposed in blocks of pairs. Keys outside
 * [lo, hi) do not exist and become 0. Prefetches the next VF_LANES keys, because the hardware does
 * not follow the order of these reads. A prefetch may reach past the end. */
static void pack_k_columns(const uint16_t *from, int64_t key_stride, int64_t lo, int64_t hi,
                           int64_t dk, float *to)
{
    float rows[VF_LANES * VF_LANES] __attribute__((aligned(64)));
    float columns[VF_LANES * VF_LANES] __attribute__((aligned(64)));
    bool whole = lo <= 0 && hi >= VF_LANES;
    for (int64_t c = 0; c < 2 * pairs(dk); c += 2 * VF_LANES, to += VF_LANES * FLASH_NR) {
        for (int64_t n = VF_LANES; n < 2 * VF_LANES; n++)
            __builtin_prefetch(from + n * key_stride + c);
        if (whole && c + 2 * VF_LANES <= dk) {
            vf_pairs_transpose(from + c, key_stride, to, FLASH_NR);
            continue;
        }
        for (int64_t n = 0; n < VF_LANES; n++)
            vf_store(rows + n * VF_LANES, n >= lo && n < hi
                                              ? vf_pairs(from + n * key_stride + c, dk - c)
                                              : vf_set1(0.0f));
        vf_pairs_transpose((const uint16_t *)(const void *)rows, 2 * VF_LANES, columns, VF_LANES);
        for (int64_t n = 0; n < VF_LANES && c / 2 + n < pairs(dk); n++)
            vf_store(to + n * FLASH_NR, vf_load(columns + n * VF_LANES));
    }
}

/* The same for keys whose columns lie apart. */
static void pack_k_apart(const uint16_t *from, int64_t key_stride, int64_t column_stride,
                         int64_t lo, int64_t hi, int64_t dk, float *to)
{
    for (int64_t c = 0; c < pairs(dk); c++, to += FLASH_NR) {
        uint16_t *pair = (uint16_t *)(void *)to;
        for (int64_t n = 0; n < 2 * VF_LANES; n++) {
            int64_t key = n / 2, column = 2 * c + n % 2;
            bool there = key >= lo && key < hi && column < dk;
            pair[n] = there ? from[key * key_stride + column * column_stride] : 0;
        }
    }
}

/* Keys [tile.lo, tile.hi), rounded outward to whole vectors, as panels. Keys outside the interval
 * become 0 and are not read. */
static void pack_k(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block, const struct tile *tile)
{
    const int64_t *stride = job->operands.k.stride;
    const uint16_t *base = (const uint16_t *)job->operands.k.data + block->b * stride[0] +
                           block->kv * stride[1] + tile->j0 * stride[2];
    for (int64_t j = tile->lo / VF_LANES * VF_LANES; j < tile->hi; j += VF_LANES) {
        float *to = w->k + j / FLASH_NR * FLASH_NR * pairs(job->dk) + j % FLASH_NR;
        const uint16_t *from = base + j * stride[2];
        if (stride[3] == 1)
            pack_k_columns(from, stride[2], tile->lo - j, tile->hi - j, job->dk, to);
        else
            pack_k_apart(from, stride[2], stride[3], tile->lo - j, tile->hi - j, job->dk, to);
    }
}

/* Columns [c, c + VF_LANES) of two keys as pairs. A key that does not exist is NULL. */
FLASH_INLINE vf pair_keys(const uint16_t *even, const uint16_t *odd, int64_t column_stride,
                          int64_t c, int64_t dv)
{
    int64_t count = dv - c < VF_LANES ? dv - c : VF_LANES;
    uint16_t columns[2][VF_LANES];
    const uint16_t *rows[2] = {even, odd};
    if (column_stride == 1)
        return vf_pairs_of(even ? even + c : columns[0], even ? count : 0,
                           odd ? odd + c : columns[1], odd ? count : 0);
    for (int64_t n = 0; n < count; n++)
        for (int r = 0; r < 2; r++)
            columns[r][n] = rows[r] ? rows[r][(c + n) * column_stride] : 0;
    return vf_pairs_of(columns[0], count, columns[1], count);
}

/* Keys [tile.lo, tile.hi) of V, rounded outward to FLASH_STEP, as panels. Keys outside the interval
 * become 0 and are not read. Notes in the tile which keys are not finite: x * 0 is not 0 then. */
static void pack_v(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block, struct tile *tile)
{
    const int64_t *stride = job->operands.v.stride;
    const uint16_t *base = (const uint16_t *)job->operands.v.data + block->b * stride[0] +
                           block->kv * stride[1] + tile->j0 * stride[2];
    const vf zero = vf_set1(0.0f);
    tile->v = w->v;
    tile->v_key = FLASH_NR;
    tile->v_panel = pairs(job->key_block) * FLASH_NR;
    tile->bad_lo = job->key_block;
    tile->bad_hi = 0;
    for (int64_t j = tile->lo / FLASH_STEP * FLASH_STEP; j < attn_round_up(tile->hi, FLASH_STEP);
         j += 2) {
        const uint16_t *row = base + j * stride[2];
        const uint16_t *even = j >= tile->lo && j < tile->hi ? row : NULL;
        const uint16_t *odd = j + 1 >= tile->lo && j + 1 < tile->hi ? row + stride[2] : NULL;
        float *to = w->v + j / 2 * FLASH_NR;
        vf sum = zero;
        for (int64_t c = 0; c < job->dv; c += VF_LANES) {
            vf pair = pair_keys(even, odd, stride[3], c, job->dv);
            vf_store(to + c / FLASH_NR * tile->v_panel + c % FLASH_NR, pair);
            sum = vf_join_pairs(pair, zero, sum);
        }
        if (vf_all_zero(sum))
            continue;
        int64_t step = j / FLASH_STEP * FLASH_STEP;
        tile->bad_lo = tile->bad_lo < step ? tile->bad_lo : step;
        tile->bad_hi = step + FLASH_STEP;
    }
}
