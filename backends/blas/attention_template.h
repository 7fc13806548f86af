/* SPDX-License-Identifier: Apache-2.0 */
/* attention_template.h - blocks of queries: GEMM, softmax, GEMM.
 *
 * Include it after scores_template.h. A block is `rows` queries of one head. With a single query
 * per head (decoding), a block is all heads of a group if q allows it, because they share their
 * keys. */

/* O = P V; P is not yet divided by its sums */
static void weighted_values(const struct NAME(context) * c, const struct NAME(block) * block)
{
    const struct attn_problem *p = c->setup->problem;
    struct NAME(matrix) v =
        flip(slice(&c->operands->v, block->b, block->g, block->first, 2, p->sk, p->dv));
    struct NAME(matrix) weights = {c->buffers->s, {0, (int)block->n}};
    if (block->rows == 1)
        multiply_vector(v, p->dv, block->n, 1, c->buffers->s, 1, c->buffers->o);
    else
        multiply(weights, v, block->rows, p->dv, block->n, 1, 0,
                 (struct NAME(result)){c->buffers->o, {0, (int)p->dv}});
}

static void store_weights(const struct attn_problem *p, const struct attn_tensor *weights,
                          const struct NAME(row) * row, REAL sum)
{
    REAL *to = (REAL *)weights->data + row_start(weights, row);
    int64_t step = weights->stride[3], last = row->first + row->n;
    for (int64_t j = 0; j < row->first; j++)
        to[j * step] = 0;
    for (int64_t j = 0; j < row->n; j++)
        to[(row->first + j) * step] = row->s[j] != 0 ? row->s[j] / sum : 0;
    for (int64_t j = last; j < p->sk; j++)
        to[j * step] = 0;
}

static void drop(const struct NAME(context) * c, const struct NAME(row) * row)
{
    for (int64_t j = 0; j < row->n; j++)
        if (!attn_dropout_keeps(c->setup->problem, &c->operands->keep, row->b, row->h, row->i,
                                row->first + j))
            row->s[j] = 0;
}

/* Turns the scores of one row into weights, including dropout. */
static REAL soften_row(const struct NAME(context) * c, const struct NAME(row) * row)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_tensor *sink = &c->operands->sink;
    const struct attn_tensor *lse = &c->operands->lse;
    const struct attn_tensor *weights = &c->operands->weights;
    REAL row_lse;
    finish_scores(p, c->operands, row);
    REAL sink_logit = sink->dtype ? load_entry(sink, row->h * sink->stride[0]) : -INFINITY;
    REAL sum = exponentiate(row->s, row->n, sink_logit, &row_lse);
    if (lse->dtype)
        store_entry(lse, row_start(lse, row), row_lse);
    if (weights->dtype)
        store_weights(p, weights, row, sum);
    if (p->flags & ATTN_FLAG_DROPOUT)
        drop(c, row);
    return sum;
}

/* Computes one row again, key by key, because GEMM gave NaN: GEMM multiplies the zero weight of a
 * key that takes no part by its value, which may be NaN. Returns the sum of the weights. */
static REAL careful_values(const struct NAME(context) * c, const struct NAME(block) * block,
                           int64_t r, REAL *o)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_tensor *v = &c->operands->v;
    const struct attn_tensor *sink = &c->operands->sink;
    struct NAME(row) row = block_row(c, block, r);
    int64_t base = block->b * v->stride[0] + block->g * v->stride[1];
    int broken;
    scores(c, block, r, 1);
    finish_scores(p, c->operands, &row);
    REAL sink_logit = sink->dtype ? load_entry(sink, row.h * sink->stride[0]) : -INFINITY;
    REAL max = row_max(row.s, row.n, &broken);
    max = sink_logit > max ? sink_logit : max;
    REAL sum = EXP(sink_logit - max);
    memset(o, 0, (size_t)p->dv * sizeof(*o));
    for (int64_t j = 0; j < row.n; j++) {
        int64_t key = row.first + j, at = base + key * v->stride[2];
        if (row.s[j] == -INFINITY)
            continue;
        REAL weight = EXP(row.s[j] - max);
        sum += weight;
        if ((p->flags & ATTN_FLAG_DROPOUT) &&
            !attn_dropout_keeps(p, &c->operands->keep, row.b, row.h, row.i, key))
            continue;
        for (int64_t d = 0; d < p->dv; d++)
            o[d] += weight * ((const REAL *)v->data)[at + d * v->stride[3]];
    }
    return sum;
}

static int any_nan(const REAL *o, int64_t n)
{
    int found = 0;
    for (int64_t d = 0; d < n; d++)
        found |= o[d] != o[d];
    return found;
}

/* Divides by the row's sum and writes out. */
static void finish_row(const struct NAME(context) * c, const struct NAME(block) * block, int64_t r)
{
    const struct attn_problem *p = c->setup->problem;
    const struct attn_tensor *out = &c->operands->out;
    struct NAME(row) row = block_row(c, block, r);
    REAL sum = c->buffers->sum[r], *o = c->buffers->o + r * p->dv;
    int64_t at = row_start(out, &row), step = out->stride[3];
    if (sum > 0 && any_nan(o, p->dv)) /* neither an empty row nor a NaN row */
        sum = careful_values(c, block, r, o);
    if (p->flags & ATTN_FLAG_DROPOUT)
        sum *= (REAL)(1 - p->dropout_p);
    for (int64_t d = 0; d < p->dv; d++)
        ((REAL *)out->data)[at + d * step] = sum == 0 ? 0 : sum == sum ? o[d] / sum : NAN;
}

/* The keys that any row of the block may see. */
static void limit_keys(const struct NAME(context) * c, struct NAME(block) * block)
{
    int64_t first = c->setup->problem->sk, last = 0;
    for (int64_t r = 0; r < (block->by_head ? 1 : block->rows); r++) {
        struct attn_keys keys =
            attn_keys_seen(c->setup->problem, &c->operands->len, block->b, block->i + r);
        if (keys.first >= keys.end)
            continue;
        first = keys.first < first ? keys.first : first;
        last = keys.end > last ? keys.end : last;
    }
    block->first = first < last ? first : 0;
    block->n = first < last ? last - first : 0;
}

static void attend_block(const struct NAME(context) * c, struct NAME(block) * block)
{
    limit_keys(c, block);
    if (block->n > 0)
        scores(c, block, 0, block->rows);
    for (int64_t r = 0; r < block->rows; r++) {
        struct NAME(row) row = block_row(c, block, r);
        c->buffers->sum[r] = soften_row(c, &row);
    }
    if (block->n > 0)
        weighted_values(c, block);
    else
        memset(c->buffers->o, 0,
               (size_t)(block->rows * c->setup->problem->dv) * sizeof(*c->buffers->o));
    for (int64_t r = 0; r < block->rows; r++)
        finish_row(c, block, r);
}

/* All heads of one batch. */
static void attend(struct NAME(context) * c, int64_t b)
{
    const struct attn_problem *p = c->setup->problem;
    int64_t group = p->hq / p->hkv;
    prepare_scores(c, b);
    for (int64_t h = 0; h < p->hq; h += c->setup->by_head ? group : 1) {
        struct NAME(block) block = {.b = b, .g = h / group, .h = h, .by_head = c->setup->by_head};
        if (block.by_head) {
            block.rows = group;
            attend_block(c, &block);
            continue;
        }
        for (block.i = 0; block.i < p->sq; block.i += block.rows) {
            int64_t left = p->sq - block.i;
            block.rows = left < c->setup->rows ? left : c->setup->rows;
            attend_block(c, &block);
        }
    }
}
