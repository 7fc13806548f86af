/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_pack.h - part of flash_f32_template.h: operands of any strides into the layouts that
 * the micro-kernels read, one panel after the other and aligned. Reads nothing outside the
 * operands. */

/* MR rows of q with their columns next to each other, as [dq][MR] up to the last whole vector of
 * columns, which is returned. Each store spills over into the place of the next. */
static int64_t pack_q_group(const float *const *from, int64_t dq, float factor, float *to)
{
    float rows[VF_LANES * VF_LANES] __attribute__((aligned(64)));
    float columns[VF_LANES * VF_LANES] __attribute__((aligned(64)));
    int64_t c = 0;
    memset(rows, 0, sizeof rows);
    for (; c + VF_LANES <= dq; c += VF_LANES) {
        for (int r = 0; r < FLASH_MR; r++)
            vf_store(rows + r * VF_LANES, vf_mul(vf_loadu(from[r] + c), vf_set1(factor)));
        vf_transpose(rows, VF_LANES, columns, VF_LANES);
        for (int n = 0; n < VF_LANES; n++)
            vf_storeu(to + (c + n) * FLASH_MR, vf_load(columns + n * VF_LANES));
    }
    return c;
}

/* The `count` <= MR rows from r0 on, times `factor`, as [dq][MR]. Places of rows beyond the last
 * stay unset: the micro-kernels do not read them. */
static void pack_q_rows(const struct attn_flash *job, const struct block *block, int64_t r0,
                        int count, float factor, float *to)
{
    const float *from[FLASH_MR];
    int64_t c = 0;
    for (int r = 0; r < count; r++)
        from[r] = (const float *)job->q.data + attn_row_index(&job->q, block->b,
                                                              row_head(job, block, r0 + r),
                                                              row_query(job, block, r0 + r));
    if (count == FLASH_MR && job->q.stride[3] == 1)
        c = pack_q_group(from, job->dq, factor, to);
    for (; c < job->dq; c++)
        for (int r = 0; r < count; r++)
            to[c * FLASH_MR + r] = from[r][c * job->q.stride[3]] * factor;
}

/* Rows of the block as [rows/MR][dq][MR]. */
static void pack_q(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block)
{
    for (int64_t r0 = 0; r0 < block->rows; r0 += FLASH_MR)
        pack_q_rows(job, block, r0,
                    (int)(block->rows - r0 < FLASH_MR ? block->rows - r0 : FLASH_MR),
                    query_factor(job), w->q + r0 * job->dq);
}

/* One panel of NR keys, all present, columns of a key next to each other: transposed in blocks. */
static void pack_k_columns(const float *from, int64_t key_stride, int64_t dk, float *to)
{
    int64_t whole = dk / VF_LANES * VF_LANES;
    for (int64_t n = 0; n < FLASH_NR; n += VF_LANES) {
        const float *keys = from + n * key_stride;
        for (int64_t c = 0; c < whole; c += VF_LANES)
            vf_transpose(keys + c, key_stride, to + c * FLASH_NR + n, FLASH_NR);
        for (int64_t c = whole; c < dk; c++)
            for (int64_t j = 0; j < VF_LANES; j++)
                to[c * FLASH_NR + n + j] = keys[j * key_stride + c];
    }
}

/* One panel of NR keys, all present, the keys of a column next to each other. */
static void pack_k_keys(const float *from, int64_t column_stride, int64_t dk, float *to)
{
    for (int64_t c = 0; c < dk; c++)
        for (int64_t n = 0; n < FLASH_NR; n += VF_LANES)
            vf_store(to + c * FLASH_NR + n, vf_loadu(from + c * column_stride + n));
}

/* Panels [tile.lo, tile.hi) rounded outward, as [key_block/NR][dk][NR]. Keys outside the interval
 * become 0 and are not read. */
static void pack_k(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block, const struct tile *tile)
{
    const int64_t *stride = job->k.stride;
    const float *base = (const float *)job->k.data + block->b * stride[0] + block->kv * stride[1];
    for (int64_t j = tile->lo / FLASH_NR * FLASH_NR; j < tile->hi; j += FLASH_NR) {
        float *to = w->k + j * job->dk;
        const float *from = base + (tile->j0 + j) * stride[2];
        bool whole = j >= tile->lo && j + FLASH_NR <= tile->hi;
        if (whole && stride[3] == 1) {
            pack_k_columns(from, stride[2], job->dk, to);
        } else if (whole && stride[2] == 1) {
            pack_k_keys(from, stride[3], job->dk, to);
        } else {
            for (int64_t n = 0; n < FLASH_NR; n++) {
                bool present = j + n >= tile->lo && j + n < tile->hi;
                for (int64_t c = 0; c < job->dk; c++)
                    to[c * FLASH_NR + n] = present ? from[n * stride[2] + c * stride[3]] : 0.0f;
            }
        }
    }
}

/* One row of V into its panels. Returns whether all of it is finite: x * 0 is 0 just then. */
static bool pack_v_row(const float *from, int64_t column_stride, int64_t dv, int64_t dv16,
                       float *to, int64_t panel_stride)
{
    vf zero = vf_set1(0.0f), sum = zero;
    for (int64_t c = 0; c < dv16; c += FLASH_NR) {
        float *panel = to + c / FLASH_NR * panel_stride;
        if (column_stride != 1)
            for (int64_t n = 0; n < FLASH_NR; n++)
                panel[n] = c + n < dv ? from[(c + n) * column_stride] : 0.0f;
        for (int64_t n = 0; n < FLASH_NR; n += VF_LANES) {
            vf x;
            if (column_stride != 1)
                x = vf_load(panel + n);
            else if (c + n + VF_LANES <= dv)
                x = vf_loadu(from + c + n);
            else
                x = c + n < dv ? vf_load_first(from + c + n, dv - c - n) : zero;
            vf_store(panel + n, x);
            sum = vf_fma(x, zero, sum);
        }
    }
    return vf_all_equal(sum, zero);
}

/* Keys [tile.lo, tile.hi) of V as [dv16/NR][key_block][NR], and where they are not finite. */
static void pack_v(const struct attn_flash *job, const struct attn_flash_scratch *w,
                   const struct block *block, struct tile *tile)
{
    const int64_t *stride = job->v.stride;
    const float *base = (const float *)job->v.data + block->b * stride[0] + block->kv * stride[1];
    tile->bad_lo = job->key_block;
    tile->bad_hi = 0;
    for (int64_t j = tile->lo; j < tile->hi; j++) {
        if (pack_v_row(base + (tile->j0 + j) * stride[2], stride[3], job->dv, block->dv16,
                       w->v + j * FLASH_NR, job->key_block * FLASH_NR))
            continue;
        tile->bad_lo = tile->bad_lo < j ? tile->bad_lo : j;
        tile->bad_hi = j + 1;
    }
}
