/* SPDX-License-Identifier: Apache-2.0 */
/* flash_ahead.h - part of flash_template.h: which lines flash_fetch.h prefetches:
 *   K and V of the next tile, of this item or of the next one, into the second-level cache, where
 *   packing finds them
 *   q and out of the next group of rows, because the hardware follows no stream to them, and its
 *   bias, which no other row has */

/* Prefetching the next rows pays if the rows at hand meet at least this many keys of a tile: it
 * cost 2 % with 64 and 128 keys and gained 4 % with 512. */
#define AHEAD_KEYS 192
/* And with so few keys in pairs, a group takes less time than its q from beyond the second-level
 * cache: runs took 0.82 of the time. With q in that cache they took 1.06. */
#define FEW_KEYS  32
#define FAR_BYTES (1 << 20)

/* Keys [j0, j0 + rows) of a key/value head, spread over `times` calls of fetch_ahead. None if the
 * columns of a row lie apart. */
static struct ahead look_ahead(const struct attn_flash *job, int64_t b, int64_t kv, int64_t j0,
                               int64_t rows, int64_t times)
{
    const struct attn_tensor *k = &job->operands.k, *v = &job->operands.v;
    const int64_t unit = attn_element_bytes(job->dtype);
    struct ahead ahead = {0};
    if (k->stride[3] != 1 || v->stride[3] != 1 || rows <= 0)
        return ahead;
    ahead.k =
        (const char *)k->data + (b * k->stride[0] + kv * k->stride[1] + j0 * k->stride[2]) * unit;
    ahead.v =
        (const char *)v->data + (b * v->stride[0] + kv * v->stride[1] + j0 * v->stride[2]) * unit;
    ahead.k_step = k->stride[2] * unit;
    ahead.v_step = v->stride[2] * unit;
    ahead.k_bytes = job->dk * unit;
    ahead.v_bytes = job->dv * unit;
    ahead.rows = rows;
    ahead.rows_a_time = (rows + times - 1) / times;
    return ahead;
}

/* The keys that the next tile will read. The causal diagonal leaves half of the panels, which then
 * prefetch twice as much. */
static struct ahead next_tile(const struct attn_flash *job, const struct block *block,
                              const struct tile *tile)
{
    int64_t groups = (block->rows + FLASH_MR - 1) / FLASH_MR;
    int64_t panels = (tile->hi - tile->lo + FLASH_NR - 1) / FLASH_NR;
    int64_t times = groups * panels / (job->flags & ATTN_FLAG_CAUSAL ? 2 : 1);
    int64_t from = tile->j0 + job->key_block, lo, hi, rest;
    times = times > 0 ? times : 1;
    if (from < block->hi) {
        rest = block->hi - from;
        return look_ahead(job, block->b, block->kv, from,
                          rest < job->key_block ? rest : job->key_block, times);
    }
    if (!block->next)
        return (struct ahead){0};
    struct block next = make_block(job, block->next);
    find_interval(job, &next, 0, &lo, &hi);
    find_interval(job, &next, next.rows - 1, &rest, &hi);
    rest = lo / job->key_block * job->key_block + job->key_block;
    return look_ahead(job, next.b, next.kv, lo, (hi < rest ? hi : rest) - lo, times);
}

/* The bias of a row that will meet the tile. One that several rows share stays in a cache. */
static void next_bias(const struct attn_flash *job, const struct block *block,
                      const struct tile *tile, int64_t h, int64_t i, int r, struct ahead *ahead)
{
    const struct attn_tensor *bias = &job->operands.bias;
    const int64_t unit = attn_element_bytes(bias->dtype);
    ahead->bias_bytes = 0;
    if (!bias->data || bias->stride[3] != 1 || bias->stride[2] == 0)
        return;
    const int64_t at = attn_row_start(bias, block->b, h, i) + tile->j0 + tile->lo;
    ahead->bias[r] = (const char *)bias->data + at * unit;
    ahead->bias_bytes = (tile->hi - tile->lo) * unit;
}

/* Whether the q of the next rows comes late with few keys. */
static bool waits_for_queries(const struct attn_flash *job, int64_t keys)
{
    const struct attn_problem *p = job->problem;
    return FLASH_PAIRS && keys <= FEW_KEYS && p->b * p->hq * p->sq * p->dk * 2 > FAR_BYTES;
}

/* The rows after those of a group: their q, their bias, and the place of their sums. */
static void next_rows(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, const struct tile *tile, const struct group *group)
{
    struct ahead *ahead = group->ahead;
    const struct attn_tensor *out = &job->operands.out;
    const float *rows[FLASH_MR];
    const int64_t unit = (int64_t)sizeof(float);
    int64_t r0 = group->r0 + group->count, left = block->rows - r0, h, i;
    int panels = (int)((group->to - group->from + FLASH_NR - 1) / FLASH_NR);
    int count = left < FLASH_MR ? (int)left : FLASH_MR;
    ahead->next = 0;
    ahead->end = 0;
    const int64_t keys = tile->hi - tile->lo;
    const bool few = waits_for_queries(job, keys);
    if (count <= 0 || (keys < AHEAD_KEYS && !few))
        return;
    ahead->end = count;
    queries(job, w, block, r0, count, rows);
    find_row(job, block, r0, &h, &i);
    bool last = w->hi[r0 + count - 1] <= tile->j0 + tile->hi && out->stride[3] == 1 &&
                out->dtype == ATTN_F32;
    for (int r = 0; r < count; r++) {
        const float *to = w->o + (r0 + r) * block->width;
        if (last)
            to = (const float *)out->data +
                 attn_row_start(out, block->b, block->g * job->group + h, i);
        ahead->q[r] = (const char *)rows[r];
        ahead->o[r] = (const char *)to;
        next_bias(job, block, tile, block->g * job->group + h, i, r, ahead);
        next_row(job, &h, &i);
    }
    ahead->q_bytes = FLASH_PAIRS ? job->dp * 2 : job->dp * unit;
    ahead->o_bytes = few ? 0 : job->dv * unit;
    ahead->a_time = (count + panels - 1) / panels;
}
