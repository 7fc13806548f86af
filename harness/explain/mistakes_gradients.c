/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_gradients.c - mistakes of backward passes: in delta, in the lse that is given, in what
 * heads, batches and queries add up, in the factor of a softcap.
 *
 * The reference takes LSE and OUT as they are given (ref_request.given), so a kernel with another
 * delta is one with another OUT. Operands keep their types, for the reference checks these. */
#include <math.h>
#include <string.h>

#include "explain/mistakes.h"
#include "reference/dtype.h"
#include "reference/operands.h"

/* Above this many cells no score is computed here: the same mistake shows at a smaller size. */
static const double most_cells = 0x1p20;

static bool is_small(const struct attn_problem *p)
{
    return (double)p->b * (double)p->hq * (double)p->sq * (double)p->sk <= most_cells;
}

static int64_t index_of(const struct attn_tensor *t, const int64_t *at)
{
    int64_t index = 0;
    for (uint32_t axis = 0; axis < t->rank; axis++)
        index += at[axis] * t->stride[axis];
    return index;
}

/* Replaces a tensor by a dense one of zeros with its type. *was: the old one. NULL: there is none,
 * or it is too large. */
static struct attn_tensor *blank(struct attn_mutation *m, uint32_t role, struct attn_tensor *was)
{
    struct attn_tensor *t = attn_mutated(m, role);
    int64_t count = 1;
    if (!t)
        return NULL;
    *was = *t;
    for (uint32_t axis = t->rank; axis-- > 0; count *= t->shape[axis])
        t->stride[axis] = count;
    t->data = attn_mutated_room(m, count, attn_dtype_size(t->dtype));
    return t->data ? t : NULL;
}

/* ---- delta ---- */

/* A query of a head. */
struct row {
    int64_t b, h, i;
};

static struct row row_at(const struct attn_problem *p, int64_t n)
{
    return (struct row){n / p->sq / p->hq, n / p->sq % p->hq, n % p->sq};
}

static double delta_of(const struct attn_problem *p, const struct attn_tensor *dout,
                       const struct attn_tensor *out, struct row row)
{
    double sum = 0;
    for (int64_t c = 0; c < p->dv; c++) {
        const int64_t at[] = {row.b, row.h, row.i, c};
        sum += ref_load(dout, at) * ref_load(out, at);
    }
    return sum;
}

/* Sets a row of OUT of zeros, so that dO . OUT is delta: each column takes what those before it
 * have left, so that little is left in any type. */
static void set_delta(const struct attn_problem *p, const struct attn_tensor *dout,
                      const struct attn_tensor *out, struct row row, double delta)
{
    double most = 0;
    for (int64_t c = 0; c < p->dv; c++)
        most = fmax(most, fabs(ref_load(dout, (const int64_t[]){row.b, row.h, row.i, c})));
    for (int64_t c = 0; c < p->dv && delta != 0; c++) {
        const int64_t at[] = {row.b, row.h, row.i, c};
        const double factor = ref_load(dout, at);
        if (!(fabs(factor) >= most / 4) || factor == 0)
            continue;
        attn_dtype_store(out->dtype, out->data, index_of(out, at), delta / factor);
        delta -= factor * ref_load(out, at);
    }
}

enum delta_mistake {
    NO_DELTA,
    OF_HEAD_BEFORE,
    OF_FIRST_HEAD,
    OF_ROW_BEFORE,
    OF_NEXT_ROW,
    OF_FIRST_BATCH,
    OTHER_SIGN,
    DIVIDED_AGAIN,
    NOT_DIVIDED,
    IN_BF16,
    IN_F16
};

/* The row whose delta another has. */
static struct row other_row(const struct attn_problem *p, enum delta_mistake kind, struct row row)
{
    if (kind == OF_HEAD_BEFORE && row.h > 0)
        row.h--;
    if (kind == OF_ROW_BEFORE)
        row.i = (row.i + p->sq - 1) % p->sq;
    if (kind == OF_NEXT_ROW)
        row.i = (row.i + 1) % p->sq;
    if (kind == OF_FIRST_HEAD)
        row.h = 0;
    if (kind == OF_FIRST_BATCH)
        row.b = 0;
    return row;
}

static double rounded(uint32_t dtype, double value)
{
    uint16_t stored;
    attn_dtype_store(dtype, &stored, 0, value);
    return attn_dtype_load(dtype, &stored, 0);
}

static double wrong_delta(const struct attn_problem *p, enum delta_mistake kind, double delta)
{
    switch (kind) {
    case NO_DELTA:
        return 0;
    case OTHER_SIGN:
        return -delta;
    case DIVIDED_AGAIN:
        return delta / (1 - p->dropout_p);
    case NOT_DIVIDED:
        return delta * (1 - p->dropout_p);
    case IN_BF16:
        return rounded(ATTN_BF16, delta);
    case IN_F16:
        return rounded(ATTN_F16, delta);
    default:
        return delta;
    }
}

static bool other_delta(struct attn_mutation *m, double argument)
{
    static const char *const names[] = {
        [NO_DELTA] = "no delta",
        [OF_HEAD_BEFORE] = "delta of the head before",
        [OF_FIRST_HEAD] = "delta of head 0 for all of them",
        [OF_ROW_BEFORE] = "delta of the row before",
        [OF_NEXT_ROW] = "delta of the next row",
        [OF_FIRST_BATCH] = "delta of batch 0 for all of them",
        [OTHER_SIGN] = "delta with the other sign",
        [DIVIDED_AGAIN] = "delta divided by 1 - dropout once more",
        [NOT_DIVIDED] = "delta not divided by 1 - dropout",
        [IN_BF16] = "delta rounded to bf16: if so, declare delta_type",
        [IN_F16] = "delta rounded to f16: if so, declare delta_type"};
    const enum delta_mistake kind = (enum delta_mistake)argument;
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *dout = attn_mutated(m, ATTN_GRAD_OUT);
    struct attn_tensor was;
    const bool divides = kind == DIVIDED_AGAIN || kind == NOT_DIVIDED;
    if (!dout || (divides && !(p->flags & ATTN_FLAG_DROPOUT)))
        return false;
    const struct attn_tensor *out = blank(m, ATTN_OUT, &was);
    bool changed = false;
    for (int64_t n = 0; out && n < p->b * p->hq * p->sq; n++) {
        const struct row row = row_at(p, n);
        const double right = delta_of(p, dout, &was, row);
        const double wrong = wrong_delta(p, kind, delta_of(p, dout, &was, other_row(p, kind, row)));
        set_delta(p, dout, out, row, wrong);
        changed = changed || wrong != right;
    }
    ATTN_SAY(m, "%s", names[kind]);
    return changed;
}

/* OUT of a forward pass without dropout. */
static bool delta_undropped(struct attn_mutation *m, double unused)
{
    const struct ref_op *op = ref_op_find(m->problem.op);
    struct attn_tensor lse, out, keep = {0};
    (void)unused;
    if (!attn_mutated(m, ATTN_GRAD_OUT) || !op->derive || !is_small(&m->problem) ||
        !(m->problem.flags & ATTN_FLAG_DROPOUT))
        return false;
    if (attn_mutated(m, ATTN_KEEP))
        keep = *attn_mutated(m, ATTN_KEEP);
    if (!blank(m, ATTN_LSE, &lse) || !blank(m, ATTN_OUT, &out))
        return false;
    attn_mutated_drop(m, ATTN_KEEP);
    m->problem.flags &= ~ATTN_FLAG_DROPOUT;
    const bool made = op->derive(&m->problem, "normal", 1) == ATTN_OK;
    m->problem.flags |= ATTN_FLAG_DROPOUT;
    *attn_mutated(m, ATTN_LSE) = lse;
    if (keep.role)
        attn_mutated_add(m, &keep);
    ATTN_SAY(m, "delta of an out of its own, without dropout");
    return made;
}

static bool dlse_turned(struct attn_mutation *m, double unused)
{
    (void)unused;
    ATTN_SAY(m, "dlse with the other sign");
    return attn_mutated_remake(m, ATTN_GRAD_LSE, -1, 0, 0);
}

/* ---- lse ---- */

static void from_other_row(const struct attn_mutation *m, double argument,
                           int64_t at[ATTN_MAX_RANK])
{
    const struct row row =
        other_row(&m->problem, (enum delta_mistake)argument, (struct row){at[0], at[1], at[2]});
    at[0] = row.b;
    at[1] = row.h;
    at[2] = row.i;
}

static bool lse_of_other(struct attn_mutation *m, double argument)
{
    static const char *const names[] = {[OF_HEAD_BEFORE] = "the head before",
                                        [OF_FIRST_HEAD] = "head 0 for all of them",
                                        [OF_ROW_BEFORE] = "the row before",
                                        [OF_NEXT_ROW] = "the next row",
                                        [OF_FIRST_BATCH] = "batch 0 for all of them"};
    const struct attn_tensor *lse = attn_mutated(m, ATTN_LSE);
    ATTN_SAY(m, "lse of %s", names[(int)argument]);
    return attn_mutated(m, ATTN_GRAD_OUT) &&
           attn_mutated_gather(m, ATTN_LSE,
                               (const int64_t[]){lse->shape[0], lse->shape[1], lse->shape[2]},
                               from_other_row, argument);
}

static bool lse_times(struct attn_mutation *m, double factor)
{
    ATTN_SAY(m, "%s", factor == 0 ? "no lse" : "lse in another base");
    return attn_mutated(m, ATTN_GRAD_OUT) && attn_mutated_remake(m, ATTN_LSE, factor, 0, 0);
}

/* Writes to each lse what `change` makes of it. */
static bool each_lse(struct attn_mutation *m,
                     double (*change)(const struct attn_mutation *m, struct row row, double lse))
{
    struct attn_tensor was;
    const struct attn_tensor *lse = blank(m, ATTN_LSE, &was);
    for (int64_t n = 0; lse && n < m->problem.b * m->problem.hq * m->problem.sq; n++) {
        const struct row row = row_at(&m->problem, n);
        const int64_t at[] = {row.b, row.h, row.i};
        attn_dtype_store(lse->dtype, lse->data, n, change(m, row, ref_load(&was, at)));
    }
    return lse != NULL;
}

static double without_sink(const struct attn_mutation *m, struct row row, double lse)
{
    return lse + log1p(-exp(ref_load(attn_tensor_find(&m->problem, ATTN_SINK), &row.h) - lse));
}

static bool lse_without_sink(struct attn_mutation *m, double unused)
{
    (void)unused;
    ATTN_SAY(m, "lse without the share of the sink");
    return attn_mutated(m, ATTN_GRAD_OUT) && attn_mutated(m, ATTN_SINK) &&
           each_lse(m, without_sink);
}

static double or_zero(const struct attn_mutation *m, struct row row, double lse)
{
    (void)m, (void)row;
    return lse == -INFINITY ? 0 : lse;
}

/* Batches without keys see all of them, with an lse of 0. */
static bool empty_rows_see(struct attn_mutation *m, double unused)
{
    struct attn_tensor was;
    (void)unused;
    const struct attn_tensor *given = attn_mutated(m, ATTN_LEN);
    if (!attn_mutated(m, ATTN_GRAD_OUT) || !given || given->rank != 1)
        return false;
    const struct attn_tensor *len = blank(m, ATTN_LEN, &was);
    bool any = false;
    for (int64_t b = 0; len && b < m->problem.b; b++) {
        const double n = ref_load(&was, &b);
        attn_dtype_store(len->dtype, len->data, b, n == 0 ? (double)m->problem.sk : n);
        any = any || n == 0;
    }
    ATTN_SAY(m, "rows without keys that see all of them, with an lse of 0");
    return any && each_lse(m, or_zero);
}

/* ---- sums ---- */

/* Rows of dO that count; the others are 0, and so is what they add to any gradient. */
static bool only_rows(struct attn_mutation *m,
                      bool (*counts)(const struct attn_problem *p, struct row row, double argument),
                      double argument)
{
    const struct attn_problem *p = &m->problem;
    struct attn_tensor was;
    const struct attn_tensor *dout = blank(m, ATTN_GRAD_OUT, &was);
    for (int64_t n = 0; dout && n < p->b * p->hq * p->sq; n++) {
        const struct row row = row_at(p, n);
        for (int64_t c = 0; counts(p, row, argument) && c < p->dv; c++) {
            const int64_t at[] = {row.b, row.h, row.i, c};
            attn_dtype_store(dout->dtype, dout->data, index_of(dout, at), ref_load(&was, at));
        }
    }
    return dout != NULL;
}

enum head_mistake { LAST_OF_GROUP, FIRST_OF_GROUP, EVEN_OF_GROUP };

static bool of_group(const struct attn_problem *p, struct row row, double argument)
{
    const int64_t heads = p->hq / p->hkv, n = row.h % heads;
    return argument == LAST_OF_GROUP    ? n == heads - 1
           : argument == FIRST_OF_GROUP ? n == 0
                                        : n % 2 == 0;
}

static bool heads_lost(struct attn_mutation *m, double argument)
{
    static const char *const names[] = {
        [LAST_OF_GROUP] = "the last head of each group alone: it overwrites the others",
        [FIRST_OF_GROUP] = "the first head of each group alone",
        [EVEN_OF_GROUP] = "every second head of each group alone"};
    ATTN_SAY(m, "%s", names[(int)argument]);
    return m->problem.hq > m->problem.hkv && only_rows(m, of_group, argument);
}

static bool of_last_batch(const struct attn_problem *p, struct row row, double unused)
{
    (void)unused;
    return row.b == p->b - 1;
}

static bool batches_lost(struct attn_mutation *m, double unused)
{
    ATTN_SAY(m, "the last batch alone: it overwrites the others");
    return m->problem.b > 1 && only_rows(m, of_last_batch, unused);
}

static bool before(const struct attn_problem *p, struct row row, double end)
{
    (void)p;
    return (double)row.i < end;
}

static bool queries_lost(struct attn_mutation *m, double tile)
{
    const int64_t end = m->problem.sq / (int64_t)tile * (int64_t)tile;
    ATTN_SAY(m, "queries from %lld on lost", (long long)end);
    return end > 0 && end < m->problem.sq && only_rows(m, before, (double)end);
}

/* ---- softcap ---- */

static double product(const struct attn_problem *p, const int64_t at[4])
{
    const struct attn_tensor *q = attn_tensor_find(p, ATTN_Q), *k = attn_tensor_find(p, ATTN_K);
    double sum = 0;
    for (int64_t c = 0; c < p->dk; c++)
        sum += ref_load(q, (const int64_t[]){at[0], at[1], at[2], c}) *
               ref_load(k, (const int64_t[]){at[0], at[1] / (p->hq / p->hkv), at[3], c});
    return p->scale * sum;
}

/* Without the factor 1 - tanh^2: a bias that makes of the score what the softcap makes of it. */
static bool cap_factor_lost(struct attn_mutation *m, double unused)
{
    struct attn_problem *p = &m->problem;
    const struct attn_tensor *given = attn_mutated(m, ATTN_BIAS);
    const struct attn_tensor old = given ? *given : (struct attn_tensor){0};
    struct attn_tensor bias = {.role = ATTN_BIAS,
                               .dtype = p->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32,
                               .rank = 4,
                               .shape = {p->b, p->hq, p->sq, p->sk},
                               .stride = {p->hq * p->sq * p->sk, p->sq * p->sk, p->sk, 1}};
    (void)unused;
    if (!(p->flags & ATTN_FLAG_SOFTCAP) || !attn_mutated(m, ATTN_GRAD_OUT) ||
        attn_mutated(m, ATTN_GRAD_BIAS) || !is_small(p))
        return false;
    bias.data = attn_mutated_room(m, p->b * bias.stride[0], attn_dtype_size(bias.dtype));
    for (int64_t n = 0; bias.data && n < p->b * bias.stride[0]; n++) {
        const int64_t at[] = {n / bias.stride[0], n / bias.stride[1] % p->hq,
                              n / bias.stride[2] % p->sq, n % p->sk};
        const double z = product(p, at);
        attn_dtype_store(bias.dtype, bias.data, n,
                         p->softcap * tanh(z / p->softcap) - z + (given ? ref_load(&old, at) : 0));
    }
    attn_mutated_drop(m, ATTN_BIAS);
    attn_mutated_add(m, &bias);
    p->flags &= ~ATTN_FLAG_SOFTCAP;
    ATTN_SAY(m, "no factor 1 - tanh^2 of the softcap");
    return bias.data != NULL;
}

const struct attn_mistake attn_mistakes_gradients[] = {
    {other_delta,
     11,
     {NO_DELTA, OF_HEAD_BEFORE, OF_FIRST_HEAD, OF_ROW_BEFORE, OF_NEXT_ROW, OF_FIRST_BATCH,
      OTHER_SIGN, DIVIDED_AGAIN, NOT_DIVIDED, IN_BF16, IN_F16}},
    {delta_undropped, 1, {0}},
    {attn_mistake_without, 1, {ATTN_GRAD_LSE}},
    {dlse_turned, 1, {0}},
    {lse_of_other, 5, {OF_HEAD_BEFORE, OF_FIRST_HEAD, OF_ROW_BEFORE, OF_NEXT_ROW, OF_FIRST_BATCH}},
    {lse_times, 3, {0.69314718055994530942, 1.44269504088896340736, 0}},
    {lse_without_sink, 1, {0}},
    {empty_rows_see, 1, {0}},
    {heads_lost, 3, {LAST_OF_GROUP, FIRST_OF_GROUP, EVEN_OF_GROUP}},
    {batches_lost, 1, {0}},
    {queries_lost, 5, {8, 16, 32, 64, 128}},
    {cap_factor_lost, 1, {0}},
    {NULL, 0, {0}},
};
