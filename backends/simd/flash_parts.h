/* SPDX-License-Identifier: Apache-2.0 */
/* flash_parts.h - part of flash_template.h: keys that are split into parts. A part holds output,
 * maximum and denominator of all rows of a head, before rows are divided. Parts are merged in the
 * order of their keys, whichever threads computed them. */
/* Scratch memory whose output, maximum and denominator are those of a part. */
static struct attn_flash_scratch part_scratch(const struct attn_flash *job,
                                              const struct attn_flash_scratch *scratch,
                                              int64_t head, int64_t part)
{
    struct attn_flash_scratch own = *scratch;
    if (job->splits == 1)
        return own;
    int64_t rows = job->sq * job->group;
    own.o = job->parts + (head * job->splits + part) * attn_flash_part(job);
    own.max = own.o + rows * attn_round_up(job->dv, VF_LANES);
    own.sum = own.max + rows;
    return own;
}

/* Row r of a part joins the row r of the parts before it. w->max is the maximum of all parts. */
static void merge_row(const struct attn_flash_scratch *w, const struct attn_flash_scratch *part,
                      int64_t r, int64_t width)
{
    float shift = w->max[r] == -INFINITY ? 0.0f : w->max[r]; /* -inf - -inf is NaN */
    vf by = exp2_negative(vf_set1(part->max[r] - shift));
    float *o = w->o + r * width;
    for (int64_t c = 0; c < width; c += VF_LANES)
        vf_store(o + c, vf_fma(by, vf_load(part->o + r * width + c), vf_load(o + c)));
    w->sum[r] += vf_first(by) * part->sum[r];
}

/* See struct attn_flash_isa. */
static void merge_parts(const struct attn_flash *job, const struct attn_flash_scratch *w,
                        int64_t head)
{
    struct block block =
        make_block(job, &(struct attn_flash_item){.head = head, .rows = job->sq * job->group});
    memset(w->o, 0, (size_t)(block.rows * block.width) * sizeof *w->o);
    memset(w->stage, BEGUN, (size_t)(block.rows + FLASH_MR - 1) / FLASH_MR);
    for (int64_t r = 0; r < block.rows; r++) {
        w->max[r] = -INFINITY;
        w->sum[r] = 0.0f;
        for (int64_t n = 0; n < job->splits; n++) {
            float max = part_scratch(job, w, head, n).max[r];
            w->max[r] = max > w->max[r] ? max : w->max[r];
        }
    }
    for (int64_t n = 0; n < job->splits; n++) {
        const struct attn_flash_scratch part = part_scratch(job, w, head, n);
        for (int64_t r = 0; r < block.rows; r++)
            merge_row(w, &part, r, block.width);
    }
    store_rows(job, w, &block);
}
