/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_template.h - the steps between the two GEMMs on a block of scores, row by row.
 *
 * Template parameters, defined by the instance before it includes this file:
 *   REAL           float or double
 *   REAL_DTYPE     ATTN_F32 or ATTN_F64
 *   NAME(stem)     stem with the instance's suffix
 *   EXP TANH LOG   functions of that type; EXP is inline, and for arguments up to FAR
 *   LIBM_EXP       exp of that type for all arguments
 *   GEMM GEMV      cblas_?gemm and cblas_?gemv */
#include <string.h>

#include "blas.h"

enum { LANES = 16 }; /* partial results that the compiler can keep in vector registers */
enum { FAR = ATTN_BLAS_EXP_END };

/* A row of scores in the block: row r of the block is query i of head h. */
struct NAME(row) {
    int64_t b, h, i;
    int64_t first, n; /* the block's keys: first .. first + n - 1 */
    REAL *s;          /* [n] scores, then weights before division by the sum */
};

static REAL load_entry(const struct attn_tensor *view, int64_t at)
{
    return view->dtype == ATTN_F64 ? (REAL)((const double *)view->data)[at]
                                   : (REAL)((const float *)view->data)[at];
}

static void store_entry(const struct attn_tensor *view, int64_t at, REAL value)
{
    if (view->dtype == ATTN_F64)
        ((double *)view->data)[at] = (double)value;
    else
        ((float *)view->data)[at] = (float)value;
}

static int64_t row_start(const struct attn_tensor *view, const struct NAME(row) * row)
{
    return attn_row_start(view, row->b, row->h, row->i);
}

static void forbid(REAL *s, int64_t from, int64_t to)
{
    for (int64_t j = from; j < to; j++)
        s[j] = -INFINITY;
}

static void add_bias(const struct attn_tensor *bias, const struct NAME(row) * row)
{
    const REAL *add = (const REAL *)bias->data + row_start(bias, row);
    int64_t step = bias->stride[3];
    add += row->first * step;
    /* -infinity forbids a key even if its score is NaN */
    if (step == 1)
        for (int64_t j = 0; j < row->n; j++)
            row->s[j] = add[j] == -INFINITY ? -INFINITY : row->s[j] + add[j];
    else
        for (int64_t j = 0; j < row->n; j++)
            row->s[j] = add[j * step] == -INFINITY ? -INFINITY : row->s[j] + add[j * step];
}

static void apply_mask(const struct attn_tensor *mask, const struct NAME(row) * row)
{
    const uint8_t *allow = attn_mask_row(mask, row->b, row->h, row->i);
    int64_t step = mask->stride[3];
    allow += row->first * step;
    for (int64_t j = 0; j < row->n; j++)
        row->s[j] = allow[j * step] ? row->s[j] : -INFINITY;
}

/* Softcap, bias, alibi and masks on one row. A key that takes no part becomes -infinity. */
static void finish_scores(const struct attn_problem *p, const struct attn_operands *o,
                          const struct NAME(row) * row)
{
    const struct attn_tensor *alibi = &o->alibi;
    REAL *s = row->s, cap = (REAL)p->softcap;
    if (p->flags & ATTN_FLAG_SOFTCAP)
        for (int64_t j = 0; j < row->n; j++)
            s[j] = cap * TANH(s[j] / cap);
    if (o->bias.dtype)
        add_bias(&o->bias, row);
    if (alibi->dtype) {
        REAL slope = load_entry(alibi, row->h * alibi->stride[0]);
        int64_t diagonal = row->i + attn_keys_offset(p, &o->len, row->b) - row->first;
        for (int64_t j = 0; j < row->n; j++)
            s[j] -= slope * (REAL)(diagonal < j ? j - diagonal : diagonal - j);
    }
    if (o->mask.dtype)
        apply_mask(&o->mask, row);
    struct attn_keys keys = attn_keys_seen(p, &o->len, row->b, row->i);
    int64_t from = keys.first - row->first, to = keys.end - row->first;
    from = from < 0 ? 0 : from > row->n ? row->n : from;
    to = to < from ? from : to > row->n ? row->n : to;
    forbid(s, 0, from);
    forbid(s, to, row->n);
}

/* Maximum of a row. Sets *broken if a score is NaN or +infinity. */
static REAL row_max(const REAL *s, int64_t n, int *broken)
{
    REAL lane[LANES], max = -INFINITY;
    int bad[LANES] = {0}, any = 0;
    int64_t j = 0;
    for (int l = 0; l < LANES; l++)
        lane[l] = -INFINITY;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++) {
            lane[l] = s[j + l] > lane[l] ? s[j + l] : lane[l];
            bad[l] |= !(s[j + l] < INFINITY);
        }
    for (int l = 0; l < LANES; l++) {
        max = lane[l] > max ? lane[l] : max;
        any |= bad[l];
    }
    for (; j < n; j++) {
        max = s[j] > max ? s[j] : max;
        any |= !(s[j] < INFINITY);
    }
    *broken = any;
    return max;
}

static REAL row_sum(const REAL *s, int64_t n)
{
    REAL lane[LANES] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += s[j + l];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    for (; j < n; j++)
        sum += s[j];
    return sum;
}

/* Turns scores into weights that are not yet divided by their sum. Returns the sum: 0 for an empty
 * row, NaN if a score or the sink was NaN or +infinity. Sets *lse. `sink` is -infinity if there is
 * none. */
static REAL exponentiate(REAL *s, int64_t n, REAL sink, REAL *lse)
{
    int broken;
    REAL max = row_max(s, n, &broken);
    max = sink > max ? sink : max;
    if (broken || !(sink < INFINITY)) {
        for (int64_t j = 0; j < n; j++)
            s[j] = s[j] == -INFINITY ? 0 : NAN;
        *lse = NAN;
        return NAN;
    }
    if (max == -INFINITY) {
        memset(s, 0, (size_t)n * sizeof(*s));
        *lse = -INFINITY;
        return 0;
    }
    for (int64_t j = 0; j < n; j++)
        s[j] = EXP(s[j] - max);
    REAL sum = row_sum(s, n) + EXP(sink - max);
    *lse = max + LOG(sum);
    return sum;
}
