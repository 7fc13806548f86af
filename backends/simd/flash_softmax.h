/* SPDX-License-Identifier: Apache-2.0 */
/* flash_softmax.h - part of flash_template.h: what happens to one row of scores between the
 * two products. Everything is in the log2 domain, so that one factor of log2(e) is paid in q.
 *
 * Error bounds, checked over every argument by test_simd_exp and declared by the plan:
 *   |exp2_negative(x) / 2^x - 1| <= ATTN_FLASH_E_EXP for -126 <= x <= 0; within 2^-126 below,
 *   and 0 for -inf
 *   |tanh_log2(x) / tanh(x / ATTN_FLASH_TANH) - 1| <= ATTN_FLASH_E_TANH where |x| >= 2^-124,
 *   and within 2^-148 of it below */
#define LOG2_E 1.44269504f

/* 2^x for x <= 0; NaN stays NaN. x = n + f with n the nearest integer, so that |f| <= 1/2. The
 * polynomial is the minimax one of degree 5 for 2^f, constant term exactly 1 so that 2^0 is 1.
 * Where x is -inf f and y are NaN, which vf_times_power passes by. */
FLASH_INLINE vf exp2_negative(vf x)
{
    vf n = vf_round(x);
    vf f = vf_sub(x, n);
    vf y = vf_set1(0.00132647272469f);
    y = vf_fma(y, f, vf_set1(0.00967151268815f));
    y = vf_fma(y, f, vf_set1(0.0555073374357f));
    y = vf_fma(y, f, vf_set1(0.240222420846f));
    y = vf_fma(y, f, vf_set1(0.693146977599f));
    y = vf_fma(y, f, vf_set1(1.0f));
    return vf_times_power(y, n);
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

/* What the scores in memory are multiplied by to lie in the log2 domain. */
FLASH_INLINE float score_unit(const struct attn_flash *job)
{
    return FLASH_PAIRS ? job->unit : 1.0f;
}

FLASH_INLINE vf in_log2(vf x, float unit)
{
    return FLASH_PAIRS ? vf_mul(x, vf_set1(unit)) : x;
}

/* Whether the scale is applied to scores in memory: nothing that was packed could take it, and more
 * follows than the exponential. */
static bool scaled_late(const struct attn_flash *job)
{
    return job->score == ATTN_SCORE_GAUSSIAN || (FLASH_PAIRS && job->unit != job->factor);
}

/* One row of scores of one tile. Keys are relative to the tile. */
struct row {
    int64_t h, i;
    int64_t lo, hi; /* the keys it may see, lo <= hi; outside is forbidden */
    float *s;
};

/* The rows of a micro-kernel. */
struct group {
    const struct attn_flash *job;
    int64_t b, j0, r0;          /* r0: the first row in the block */
    int count;                  /* rows, at most MR */
    int64_t lo, hi;             /* union of the rows' keys */
    int64_t from, to;           /* what the product writes: multiples of VF_LANES around it */
    int64_t clean_lo, clean_hi; /* whole vectors of keys that all rows may see and whose raw scores
                                   are final; empty: lo >= hi */
    struct ahead *ahead;        /* what to ask for meanwhile, or NULL */
    const struct meanwhile *meanwhile;
    float top[FLASH_MR * VF_LANES] __attribute__((aligned(64)));
    struct row rows[FLASH_MR];
};

static void scale_scores(const struct group *group, const struct row *row)
{
    for (int64_t j = group->from; j < group->to; j += VF_LANES)
        vf_store(row->s + j, vf_mul(vf_set1(group->job->factor), vf_load(row->s + j)));
}

/* Softcap, on the raw score divided by the cap: the factor has seen to the division. */
static void cap_scores(const struct group *group, const struct row *row)
{
    for (int64_t j = group->from; j < group->to; j += VF_LANES)
        vf_store(row->s + j, vf_mul(vf_set1(group->job->cap2), tanh_log2(vf_load(row->s + j))));
}

/* Cells [j, j + VF_LANES) of a strided row whose cell 0 has index `at`, of which only [lo, hi) may
 * be read; 0 elsewhere. */
FLASH_INLINE vf load_cells(const uint32_t type, const void *data, int64_t at, int64_t stride,
                           int64_t j, int64_t lo, int64_t hi)
{
    if (stride == 1 && j >= lo && j + VF_LANES <= hi)
        return load_as(type, data, at + j);
    float lanes[VF_LANES] __attribute__((aligned(64)));
    for (int64_t n = 0; n < VF_LANES; n++)
        lanes[n] =
            j + n >= lo && j + n < hi ? attn_element(type, data, at + (j + n) * stride) : 0.0f;
    return vf_loadu(lanes);
}

/* The additive bias. Where it is -inf the cell is forbidden, even under a score of +inf. */
FLASH_INLINE void add_bias_as(const uint32_t type, const struct group *group, const struct row *row)
{
    const struct attn_view *bias = &group->job->bias;
    int64_t stride = bias->stride[3];
    int64_t at = attn_row_index(bias, group->b, row->h, row->i) + group->j0 * stride;
    vf forbidden = vf_set1(-INFINITY);
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        vf x = load_cells(type, bias->data, at, stride, j, row->lo, row->hi);
        vf s = vf_fma(x, vf_set1(LOG2_E), vf_load(row->s + j));
        vf_store(row->s + j, vf_select_equal(x, forbidden, forbidden, s));
    }
}

static void add_bias(const struct group *group, const struct row *row)
{
    uint32_t type = group->job->bias.dtype;
    if (type == ATTN_F32)
        add_bias_as(ATTN_F32, group, row);
    else if (type == ATTN_F16)
        add_bias_as(ATTN_F16, group, row);
    else
        add_bias_as(ATTN_BF16, group, row);
}

/* ALiBi: minus slope * |i + off - j|, with the same rule for -inf. */
static void add_alibi(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    float slope = of_head(&job->alibi, row->h);
    vf by = vf_set1(-slope * LOG2_E), forbidden = vf_set1(-INFINITY);
    int64_t diagonal = row->i + attn_mask_offset(job, group->b) - group->j0;
    for (int64_t j = row->lo / VF_LANES * VF_LANES; j < row->hi; j += VF_LANES) {
        vf distance = vf_abs(vf_sub(vf_set1((float)(diagonal - j)), vf_lane_numbers()));
        vf x = vf_mul(by, distance);
        vf s = vf_fma(by, distance, vf_load(row->s + j));
        vf_store(row->s + j, vf_select_equal(x, forbidden, forbidden, s));
    }
}

/* The boolean mask within [lo, hi). */
static void mask_scores(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    int64_t stride = job->mask.stride[3];
    const uint8_t *mask = (const uint8_t *)job->mask.data +
                          attn_row_index(&job->mask, group->b, row->h, row->i) + group->j0 * stride;
    vf forbidden = vf_set1(-INFINITY);
    int64_t j = row->lo;
    if (stride == 1)
        for (; j + VF_LANES <= row->hi; j += VF_LANES)
            vf_storeu(row->s + j, vf_select_bytes(mask + j, vf_loadu(row->s + j), forbidden));
    for (; j < row->hi; j++)
        row->s[j] = mask[j * stride] ? row->s[j] : -INFINITY;
}

/* Raw scores to final ones, -inf in every forbidden cell of [from, to). */
static void finish_scores(const struct group *group, const struct row *row)
{
    const struct attn_flash *job = group->job;
    if (scaled_late(job))
        scale_scores(group, row);
    if (job->flags & ATTN_FLAG_SOFTCAP)
        cap_scores(group, row);
    if (job->bias.data)
        add_bias(group, row);
    if (job->alibi.data)
        add_alibi(group, row);
    if (job->mask.data)
        mask_scores(group, row);
    for (int64_t j = group->from; j < row->lo; j++)
        row->s[j] = -INFINITY;
    for (int64_t j = row->hi; j < group->to; j++)
        row->s[j] = -INFINITY;
}

/* Weights of [from, to) of `mr` rows that are LD apart, relative to their maxima `shift`, in place,
 * and their sums. With `mark`, forbidden cells get -0.0 instead of 0. A lane's sum stands for
 * fixed places in the tile, so that nothing depends on `from` and `to`. */
FLASH_INLINE void weigh_rows(const int mr, const bool mark, float *scores, int64_t from, int64_t to,
                             const float *shift, float unit, float *sum)
{
    vf by[FLASH_MR], sums[FLASH_MR];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
        by[r] = vf_set1(shift[r]);
        sums[r] = vf_set1(0.0f);
    }
    for (int64_t j = from; j < to; j += VF_LANES)
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            vf s = vf_load(scores + r * LD + j);
            vf p = exp2_negative(vf_sub(in_log2(s, unit), by[r]));
            sums[r] = vf_add(sums[r], p);
            if (mark)
                p = vf_select_equal(s, vf_set1(-INFINITY), vf_set1(-0.0f), p);
            vf_store(scores + r * LD + j, p);
        }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
        sum[r] = vf_sum(sums[r]);
}

/* The rows of a group. */
static void weigh_floats(const struct group *group, bool mark, const float *shift, float *sum)
{
    float *s = group->rows[0].s;
    const float unit = score_unit(group->job);
    const int count = group->count;
    int r = 0;
    for (; r + 2 <= count && !mark; r += 2)
        weigh_rows(2, false, s + r * LD, group->from, group->to, shift + r, unit, sum + r);
    for (; r < count && !mark; r++)
        weigh_rows(1, false, s + r * LD, group->from, group->to, shift + r, unit, sum + r);
    for (; r < count; r++)
        weigh_rows(1, true, s + r * LD, group->from, group->to, shift + r, unit, sum + r);
}

/* Raises lanes to those of a row's scores in the panels whose maximum the product could not take.
 * NaN among the scores is passed by and comes back in the sum of the weights. */
FLASH_INLINE vf rest_of_top(const struct group *group, const struct row *row, vf top)
{
    for (int64_t j = group->from, end; j < group->to; j = end) {
        end = j / FLASH_NR * FLASH_NR + FLASH_NR;
        end = end < group->to ? end : group->to;
        if (j >= group->clean_lo && end <= group->clean_hi)
            continue;
        for (int64_t n = j; n < end; n += VF_LANES)
            top = vf_max(vf_load(row->s + n), top);
    }
    return top;
}

/* Scores of a group to weights in their place, relative to `shift`; their sums. With `mark`, see
 * weigh_rows. In flash_scores_floats.h or flash_weights_pairs.h. */
static void weigh_scores(const struct group *group, bool mark, const float *shift, float *sum);

/* What a tile changes in the rows of a group. */
struct softmax {
    float shift[FLASH_MR]; /* the new maxima; 0 for -inf, because -inf - -inf would be NaN */
    float added[FLASH_MR]; /* sums of the tile's weights */
    /* Old maxima less the new ones, then what was accumulated before must be multiplied by. */
    float lag[(FLASH_MR + VF_LANES - 1) / VF_LANES * VF_LANES] __attribute__((aligned(64)));
};

/* Before the weights: brings the rows' maxima up to date. */
static void start_softmax(const struct group *group, float *max, struct softmax *x)
{
    const bool rest = group->clean_lo > group->from || group->clean_hi < group->to;
    memset(x->lag, 0, sizeof x->lag);
    for (int r = 0; r < group->count; r++) {
        vf largest = vf_load(group->top + r * VF_LANES);
        float top = vf_largest(rest ? rest_of_top(group, &group->rows[r], largest) : largest);
        top *= score_unit(group->job);
        top = max[r] > top ? max[r] : top;
        x->shift[r] = top == -INFINITY ? 0.0f : top;
        x->lag[r] = max[r] - x->shift[r];
        max[r] = top;
    }
}

/* After them: the denominators. */
static void end_softmax(const struct group *group, float *sum, struct softmax *x)
{
    for (int r = 0; r < group->count; r += VF_LANES)
        vf_store(x->lag + r, exp2_negative(vf_load(x->lag + r)));
    for (int r = 0; r < group->count; r++)
        sum[r] = sum[r] * x->lag[r] + x->added[r];
}

/* Scores of [from, to) to final weights; 0 in forbidden cells, even of a row that is NaN. */
static void normalise_row(const struct group *group, const struct row *row, float max, float sum)
{
    const float unit = score_unit(group->job);
    vf by = vf_set1(1.0f / sum), shift = vf_set1(max), forbidden = vf_set1(-INFINITY);
    for (int64_t j = group->from; j < group->to; j += VF_LANES) {
        vf s = vf_load(row->s + j);
        vf p = vf_mul(exp2_negative(vf_sub(in_log2(s, unit), shift)), by);
        vf_store(row->s + j, vf_select_equal(s, forbidden, vf_set1(0.0f), p));
    }
}
