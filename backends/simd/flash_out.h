/* SPDX-License-Identifier: Apache-2.0 */
/* flash_out.h - part of flash_template.h: rows of out that no tile has stored, and lse. */

/* Multiplies a row of sums by `by`, then by the gate, some columns at a time. */
static void gate_row(const struct attn_flash *job, const struct attn_flash_scratch *w,
                     const struct block *block, int64_t r, float by, float *o)
{
    const struct attn_tensor *gate = &job->operands.gate;
    const int64_t at =
        attn_row_start(gate, block->b, row_head(job, block, r), row_query(job, block, r));
    for (int64_t c = 0; c < job->dv; c += ATTN_FLASH_MOST_KEYS) {
        int64_t count = job->dv - c < ATTN_FLASH_MOST_KEYS ? job->dv - c : ATTN_FLASH_MOST_KEYS;
        widen(gate, at + c * gate->stride[3], gate->stride[3], count, w->s);
        for (int64_t n = 0; n < count; n += VF_LANES)
            vf_store(o + c + n, vf_mul(vf_mul(vf_set1(by), vf_load(o + c + n)), vf_load(w->s + n)));
    }
}

/* Divides a row by its denominator and stores it in out. */
static void store_row(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    unsigned char stage = w->stage[r / FLASH_MR];
    int64_t at = attn_row_start(&job->operands.out, block->b, row_head(job, block, r),
                                row_query(job, block, r));
    float *o = w->o + r * block->width;
    if (stage == FRESH)
        memset(o, 0, (size_t)block->width * sizeof *o);
    float by = w->sum[r] == 0.0f ? 0.0f : 1.0f / w->sum[r];
    if (job->operands.gate.data) {
        gate_row(job, w, block, r, by, o); /* the sum times the gate alone may overflow */
        by = 1.0f;
    }
    narrow(&job->operands.out, at, job->operands.out.stride[3], job->dv, o, by);
}

static void store_lse(const struct attn_flash *job, const struct attn_flash_scratch *w,
                      const struct block *block, int64_t r)
{
    int64_t h = row_head(job, block, r), i = row_query(job, block, r);
    float max = w->max[r], sum = w->sum[r];
    /* In double, so that the error of the logarithm does not count. */
    double lse = sum == 0.0f ? -INFINITY : ((double)max + log2((double)sum)) * 0.69314718055994531;
    if (job->operands.sink.data && sum == 1.0f) {
        float sink = of_head(&job->operands.sink, h);
        lse = max == sink * LOG2_E ? (double)sink : lse; /* nothing joined the sink */
    }
    ((float *)job->operands.lse.data)[attn_row_start(&job->operands.lse, block->b, h, i)] =
        (float)lse;
}
