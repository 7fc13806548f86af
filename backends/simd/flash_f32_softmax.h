/* SPDX-License-Identifier: Apache-2.0 */
/* flash_f32_softmax.h - part of flash_f32_template.h: what happens to one row of scores between the
 * two products. Everything is in the log2 domain, so that one factor of log2(e) is paid in q.
 *
 * Error bounds, checked over every argument by test_simd_exp and declared by the plan:
 *   |exp2_negative(x) / 2^x - 1| <= ATTN_FLASH_E_EXP for -126 <= x <= 0; 0 below -126
 *   |tanh_log2(x) / tanh(x / ATTN_FLASH_TANH) - 1| <= ATTN_FLASH_E_TANH where |x| >= 2^-124,
 *   and within 2^-148 of it below */
#define LOG2_E 1.44269504f

/* 2^x for x <= 0; NaN stays NaN. x = n + f with n an integer and |f| <= 1/2, by adding 1.5*2^23,
 * which rounds to nearest and leaves n in the low bits of the sum. The polynomial is the minimax
 * one of degree 5 for 2^f, constant term exactly 1 so that 2^0 is 1. Weights below the least normal
 * number, which are nothing beside the row's maximum of 1, become exactly 0. */
FLASH_INLINE vf exp2_negative(vf x)
{
    const vf magic = vf_set1(12582912.0f);
    vf n = vf_add(x, magic);
    vf f = vf_sub(x, vf_sub(n, magic));
    vf y = vf_set1(0.00132647272469f);
    y = vf_fma(y, f, vf_set1(0.00967151268815f));
    y = vf_fma(y, f, vf_set1(0.0555073374357f));
    y = vf_fma(y, f, vf_set1(0.240222420846f));
    y = vf_fma(y, f, vf_set1(0.693146977599f));
    y = vf_fma(y, f, vf_set1(1.0f));
    return vf_times_power(y, n, x);
}

/* tanh(x ln2 / 2) = (2^x - 1) / (2^x + 1), for any x; NaN stays NaN. With x = n + f as above,
 * s = 2^n and t = tanh(f ln2 / 2) the addition theorem makes it
 *   ((s - 1) + (s + 1) t) / ((s + 1) + (s - 1) t),
 * which is t itself where n is 0, so that small x keep their relative precision, and where it is
 * not the numerator is nowhere below 0.48 |s - 1|: nothing cancels. t is f times the minimax
 * polynomial of degree 2 in f^2 (relative error 5.6e-8), its first coefficient held at ln2 / 2
 * rounded. From 32 on, and long before, the quotient is exactly 1. */
FLASH_INLINE vf tanh_log2(vf x)
{
    const vf magic = vf_set1(12582912.0f + 127.0f), one = vf_set1(1.0f);
    x = vf_min(vf_set1(32.0f), vf_max(vf_set1(-32.0f), x));
    vf n = vf_add(x, magic), s = vf_shift_to_exponent(n);
    vf f = vf_sub(x, vf_sub(n, magic)), z = vf_mul(f, f);
    vf t = vf_fma(vf_set1(0.000655601802f), z, vf_set1(-0.0138751865f));
    t = vf_mul(vf_fma(t, z, vf_set1(0.346573591f)), f);
    vf less = vf_sub(s, one), more = vf_add(s, one);
    return vf_div(vf_fma(more, t, less), vf_fma(less, t, more));
}

/* One row of scores of one tile. Keys are relative to the tile. */
struct row {
    const struct attn_flash *job;
    int64_t b, h, i, j0;
    int64_t lo, hi;   /* the keys it may see, lo <= hi; outside is forbidden */
    int64_t from, to; /* what the score product wrote, multiples of VF_LANES around [lo, hi) */
    float *s;
};

/* The rows of a micro-kernel. */
struct group {
    struct row rows[FLASH_MR];
    int64_t lo, hi;             /* union of the rows' keys */
    int64_t clean_lo, clean_hi; /* whole vectors of keys that all rows may see and whose raw scores
                                   are final; empty: lo >= hi */
    float top[FLASH_MR * VF_LANES] __attribute__((aligned(64)));
};

/* The scale of squared distances: nothing that was packed could take it. */
static void scale_scores(const struct row *row)
{
    for (int64_t j = row->from; j < row->to; j += VF_LANES)
        vf_store(row->s + j, vf_mul(vf_set1(row->job->factor), vf_load(row->s + j)));
}

/* Softcap, on the raw score divided by the cap: the factor has seen to the division. */
static void cap_scores(const struct row *row)
{
    for (int64_t j = row->from; j < row->to; j += VF_LANES)
        vf_store(row->s + j, vf_mul(vf_set1(row->job->cap2), tanh_log2(vf_load(row->s + j))));
}

/* A vector of a strided row of floats, of which only keys [lo, hi) may be read; 0 elsewhere. */
FLASH_INLINE vf load_floats(const float *from, int64_t stride, int64_t j, int64_t lo, int64_t hi)
{
    if (stride == 1 && j >= lo && j + VF_LANES <= hi)
        return vf_loadu(from + j);
    float lanes[VF_LANES];
    for (int64_t n = 0; n < VF_LANES; n++)
        lanes[n] = j + n >= lo && j + n < hi ? from[(j + n) * stride] : 0.0f;
    return vf_loadu(lanes);
}

/* The additive bias. Where it is -inf the cell is forbidden, even under a score of +inf. */
static void add_bias(const struct row *row)
{
    const struct attn_flash *job = row->job;
    int64_t stride = job->bias.stride[3];
    const float *bias = (const float *)job->bias.data +
                        attn_row_index(&job->bias, row->b, row->h, row->i) + row->j0 * stride;
    vf forbidden = vf_set1(-INFINITY);
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        vf x = load_floats(bias, stride, j, row->lo, row->hi);
        vf s = vf_fma(x, vf_set1(LOG2_E), vf_load(row->s + j));
        vf_store(row->s + j, vf_select_equal(x, forbidden, forbidden, s));
    }
}

/* ALiBi: minus slope * |i + off - j|, with the same rule for -inf. */
static void add_alibi(const struct row *row)
{
    const struct attn_flash *job = row->job;
    float slope = ((const float *)job->alibi.data)[row->h * job->alibi.stride[0]];
    vf by = vf_set1(-slope * LOG2_E), forbidden = vf_set1(-INFINITY);
    int64_t diagonal = row->i + attn_mask_offset(job, row->b) - row->j0;
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        vf distance = vf_abs(vf_sub(vf_set1((float)(diagonal - j)), vf_lane_numbers()));
        vf x = vf_mul(by, distance);
        vf s = vf_fma(by, distance, vf_load(row->s + j));
        vf_store(row->s + j, vf_select_equal(x, forbidden, forbidden, s));
    }
}

/* The boolean mask within [lo, hi). */
static void mask_scores(const struct row *row)
{
    const struct attn_flash *job = row->job;
    int64_t stride = job->mask.stride[3];
    const uint8_t *mask = (const uint8_t *)job->mask.data +
                          attn_row_index(&job->mask, row->b, row->h, row->i) + row->j0 * stride;
    vf forbidden = vf_set1(-INFINITY);
    int64_t j = row->lo;
    if (stride == 1)
        for (; j + VF_LANES <= row->hi; j += VF_LANES)
            vf_storeu(row->s + j, vf_select_bytes(mask + j, vf_loadu(row->s + j), forbidden));
    for (; j < row->hi; j++)
        row->s[j] = mask[j * stride] ? row->s[j] : -INFINITY;
}

/* Raw scores to final ones, -inf in every forbidden cell of [from, to). */
static void finish_scores(const struct row *row)
{
    const struct attn_flash *job = row->job;
    if (job->score == ATTN_SCORE_GAUSSIAN)
        scale_scores(row);
    if (job->flags & ATTN_FLAG_SOFTCAP)
        cap_scores(row);
    if (job->bias.data)
        add_bias(row);
    if (job->alibi.data)
        add_alibi(row);
    if (job->mask.data)
        mask_scores(row);
    for (int64_t j = row->from; j < row->lo; j++)
        row->s[j] = -INFINITY;
    for (int64_t j = row->hi; j < row->to; j++)
        row->s[j] = -INFINITY;
}

/* Weights of [from, to) relative to the maximum `shift`, in place; returns their sum. With `mark`,
 * forbidden cells get -0.0 instead of 0. Sums stand for fixed places in the tile, so that nothing
 * depends on `from` and `to`. */
FLASH_INLINE float weigh_scores(const struct row *row, float shift, const bool mark)
{
    vf by = vf_set1(shift), forbidden = vf_set1(-INFINITY), even = vf_set1(0.0f), odd = even;
    for (int64_t j = row->from; j < row->to; j += VF_LANES) {
        vf s = vf_load(row->s + j);
        vf p = exp2_negative(vf_sub(s, by));
        if (j & VF_LANES)
            odd = vf_add(odd, p);
        else
            even = vf_add(even, p);
        if (mark)
            p = vf_select_equal(s, forbidden, vf_set1(-0.0f), p);
        vf_store(row->s + j, p);
    }
    return vf_sum(vf_add(even, odd));
}

/* The larger of `max` and the row's scores of [from, to). NaN among the scores is passed by and
 * comes back in the sum of the weights. */
FLASH_INLINE vf largest_scores(const struct row *row, int64_t from, int64_t to, vf max)
{
    for (int64_t j = from; j < to; j += VF_LANES)
        max = vf_max(vf_load(row->s + j), max);
    return max;
}

/* Scores of a group to weights; brings the rows' maxima and denominators up to date and gives the
 * factors by which what was accumulated before must be multiplied, all in one vector. */
static void softmax_rows(const struct group *group, int count, bool mark, float *max, float *sum,
                         float *rescale)
{
    float shift[FLASH_MR], lag[VF_LANES] __attribute__((aligned(64))) = {0};
    for (int r = 0; r < count; r++) {
        const struct row *row = &group->rows[r];
        vf largest = vf_load(group->top + r * VF_LANES);
        for (int64_t j = row->from, end; j < row->to; j = end) { /* panels the product left out */
            end = j / FLASH_NR * FLASH_NR + FLASH_NR;
            end = end < row->to ? end : row->to;
            if (j < group->clean_lo || end > group->clean_hi)
                largest = largest_scores(row, j, end, largest);
        }
        float top = vf_largest(largest);
        shift[r] = top == -INFINITY ? 0.0f : top; /* -inf - -inf would be NaN */
        lag[r] = max[r] - shift[r];
        max[r] = top;
    }
    vf_store(lag, exp2_negative(vf_load(lag)));
    for (int r = 0; r < count; r++) {
        const struct row *row = &group->rows[r];
        float added =
            mark ? weigh_scores(row, shift[r], true) : weigh_scores(row, shift[r], false);
        sum[r] = sum[r] * lag[r] + added;
        rescale[r] = lag[r];
    }
}

/* Scores of [from, to) to final weights; 0 in forbidden cells, even of a row that is NaN. */
static void normalise_row(const struct row *row, float max, float sum)
{
    vf by = vf_set1(1.0f / sum), shift = vf_set1(max), forbidden = vf_set1(-INFINITY);
    for (int64_t j = row->from; j < row->to; j += VF_LANES) {
        vf s = vf_load(row->s + j);
        vf p = vf_mul(exp2_negative(vf_sub(s, shift)), by);
        vf_store(row->s + j, vf_select_equal(s, forbidden, vf_set1(0.0f), p));
    }
}
