/* SPDX-License-Identifier: Apache-2.0 */
/* attention_template.h - the three passes over a row: logits, weights, weighted sum.
 *
 * Include it after rows_template.h. Only the keys that take part are kept: s and key are lists of
 * the same length. So a sum never reads anything behind a mask. */

/* Workspace. Comments give the length of each array. */
struct NAME(buffers) {
    REAL *s;       /* [Sk] logits of the keys that take part, later their weights */
    int64_t *key;  /* [Sk] the indices of these keys */
    REAL *q;       /* [Dq] */
    REAL *turned;  /* [max(Dk,Dh)] the query as transformed for its products with the keys; a row of
                      a table of positions for disentangled scores */
    REAL *k;       /* [max(Dq,Dk)] one key, or one parameter row */
    REAL *v;       /* [Dv] one value */
    REAL *sum;     /* [Dv] */
    REAL *bias;    /* [Sk] with a bias */
    REAL *dense;   /* [Sk] one row of the weights, if they are asked for */
    REAL *hidden;  /* [Sk,Dh] W_k k of one head, and */
    REAL *combine; /* [Dh] w_v, for additive scores */
    /* multi-head attention, one batch at a time: */
    REAL *heads_q; /* [Sq,Hq*Dq] */
    REAL *heads_k; /* [Sk,Hkv*Dk] */
    REAL *heads_v; /* [Sk,Hkv*Dv] */
    REAL *heads;   /* [Sq,Hq*Dv] outputs side by side */
    REAL *y;       /* [Sq,Eo] with an output projection */
    REAL *x;       /* [max(Eq,Ek,Ev)] */
    REAL *w;       /* [max(Eq,Ek,Ev,Hq*Dv)] */
};

struct NAME(context) {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    const struct NAME(buffers) * buffers;
    const struct attn_tensor *q, *k, *v; /* of the rows at work */
};

static const REAL *head_row(const struct attn_tensor *view, int64_t b, int64_t h, int64_t i,
                            int64_t n, REAL *buffer)
{
    return row(view, attn_row_start(view, b, h, i), view->stride[3], n, buffer);
}

/* Entry h of a vector operand, or a fallback if there is none. */
static REAL entry(const struct attn_tensor *view, int64_t h, REAL fallback)
{
    REAL value = fallback;
    if (view->dtype)
        load(&value, view, h * view->stride[0], 1, 1);
    return value;
}

/* W_k k of all keys of one head, once, for additive scores. */
static void hide_keys(const struct NAME(context) * c, int64_t b, int64_t h)
{
    const struct attn_problem *p = c->problem;
    const struct attn_tensor *k = c->k, *w = &c->operands->score_w_k;
    const struct attn_tensor *w_v = &c->operands->score_w_v;
    load(c->buffers->combine, w_v, h * w_v->stride[0], w_v->stride[1], p->dh);
    for (int64_t d = 0; d < p->dh; d++) {
        int64_t at = h * w->stride[0] + d * w->stride[1];
        const REAL *w_row = row(w, at, w->stride[2], p->dk, c->buffers->turned);
        for (int64_t j = 0; j < p->sk; j++)
            c->buffers->hidden[j * p->dh + d] =
                dot(w_row, head_row(k, b, h / (p->hq / p->hkv), j, p->dk, c->buffers->k), p->dk);
    }
}

/* The vector that is combined with the keys: q itself, M^T q for bilinear, W_q q for additive
 * scores. */
static const REAL *turn_query(const struct NAME(context) * c, const REAL *q, int64_t h)
{
    const struct attn_problem *p = c->problem;
    REAL *turned = c->buffers->turned;
    if (p->score == ATTN_SCORE_BILINEAR) {
        const struct attn_tensor *m = &c->operands->m;
        memset(turned, 0, (size_t)p->dk * sizeof(REAL));
        for (int64_t r = 0; r < p->dq; r++) {
            int64_t at = h * m->stride[0] + r * m->stride[1];
            add_scaled(turned, q[r], row(m, at, m->stride[2], p->dk, c->buffers->k), p->dk);
        }
        return turned;
    }
    if (p->score == ATTN_SCORE_ADDITIVE) {
        const struct attn_tensor *w = &c->operands->score_w_q;
        for (int64_t d = 0; d < p->dh; d++) {
            int64_t at = h * w->stride[0] + d * w->stride[1];
            turned[d] = dot(row(w, at, w->stride[2], p->dq, c->buffers->k), q, p->dq);
        }
        return turned;
    }
    return q;
}

static const REAL *position(const struct NAME(context) * c, const struct attn_tensor *table,
                            int64_t h, int64_t row_index)
{
    const int64_t at = h * table->stride[0] + row_index * table->stride[1];
    return row(table, at, table->stride[2], c->problem->dk, c->buffers->turned);
}

/* q_i.KR[d] + k_j.QR[e], those that the score has. `distance` is i + off - j. */
static REAL position_scores(const struct NAME(context) * c, const REAL *q, const REAL *k, int64_t h,
                            int64_t i, int64_t j, int64_t distance)
{
    const struct attn_problem *p = c->problem;
    const struct attn_tensor *kr = &c->operands->score_kr, *table = &c->operands->rel_buckets;
    const int64_t rows = kr->shape[1], span = rows / 2;
    int64_t d = attn_clamp(distance + span, 0, rows - 1);
    int64_t e = attn_clamp(span - distance, 0, rows - 1);
    REAL sum = 0;
    if (table->dtype) {
        d = ((const int32_t *)table->data)[(i - j + p->sk - 1) * table->stride[0]];
        e = attn_clamp(rows - d, 0, rows - 1);
    }
    if (p->variant != ATTN_POSITIONS_PAPER)
        e = d;
    if (p->parts != ATTN_PARTS_P2C)
        sum += dot(q, position(c, kr, h, d), p->dk);
    if (p->parts != ATTN_PARTS_C2P)
        sum += dot(k, position(c, &c->operands->score_qr, h, e), p->dk);
    return sum;
}

/* `distance` is i + off - j. */
static REAL raw_score(const struct NAME(context) * c, const REAL *turned, int64_t b, int64_t h,
                      int64_t i, int64_t j, int64_t distance)
{
    const struct attn_problem *p = c->problem;
    if (p->score == ATTN_SCORE_ADDITIVE) {
        const REAL *hidden = c->buffers->hidden + j * p->dh;
        REAL sum = 0;
        for (int64_t d = 0; d < p->dh; d++)
            sum += c->buffers->combine[d] * TANH(turned[d] + hidden[d]);
        return sum;
    }
    const REAL *k = head_row(c->k, b, h / (p->hq / p->hkv), j, p->dk, c->buffers->k);
    if (p->score == ATTN_SCORE_GAUSSIAN)
        return (REAL)-0.5 * squared_distance(turned, k, p->dk);
    if (p->score == ATTN_SCORE_DISENTANGLED)
        return dot(turned, k, p->dk) + position_scores(c, turned, k, h, i, j, distance);
    return dot(turned, k, p->dk);
}

/* Pass 1: logits of the keys that take part. Returns how many there are. */
static int64_t logits(const struct NAME(context) * c, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = c->problem;
    const struct attn_operands *o = c->operands;
    const struct attn_tensor *mask = &o->mask, *bias = &o->bias;
    const struct attn_sight sight = attn_sight_of(p, &o->len, &o->dilation, &o->global, b, h, i);
    if (sight.all.first >= sight.all.end)
        return 0;
    const REAL *q = turn_query(c, head_row(c->q, b, h, i, p->dq, c->buffers->q), h);
    const uint8_t *mask_row = attn_mask_row(mask, b, h, i);
    const REAL *bias_row = bias->dtype ? head_row(bias, b, h, i, p->sk, c->buffers->bias) : NULL;
    REAL slope = entry(&o->alibi, h, 0), scale = (REAL)p->scale;
    REAL cap = (REAL)p->softcap;
    int has_alibi = o->alibi.dtype != 0, has_cap = (p->flags & ATTN_FLAG_SOFTCAP) != 0;
    int64_t diagonal = i + attn_keys_offset(p, &o->len, b), n = 0;
    for (int64_t j = attn_sight_next(&sight, 0); j < sight.all.end;
         j = attn_sight_next(&sight, j + 1)) {
        if (mask_row && !mask_row[j * mask->stride[3]])
            continue;
        REAL added = bias_row ? bias_row[j] : 0;
        if (added == -INFINITY) /* forbidden, even where q.k is NaN */
            continue;
        REAL s = scale * raw_score(c, q, b, h, i, j, diagonal - j);
        if (has_cap)
            s = cap * TANH(s / cap);
        if (bias_row)
            s += added;
        if (has_alibi)
            s -= slope * (REAL)(diagonal < j ? j - diagonal : diagonal - j);
        if (s == -INFINITY)
            continue;
        c->buffers->key[n] = j;
        c->buffers->s[n++] = s;
    }
    return n;
}

/* Pass 2: logits become weights. Returns lse. Infinity or NaN in a logit or in the sink makes all
 * NaN. */
static REAL softmax(REAL *s, int64_t n, const struct attn_tensor *sink, int64_t h)
{
    REAL sink_logit = entry(sink, h, -INFINITY), max = sink_logit, sum = 0;
    int broken = !(sink_logit < INFINITY);
    if (n == 0)
        return broken ? NAN : sink_logit;
    for (int64_t t = 0; t < n; t++) {
        broken |= !(s[t] < INFINITY);
        max = s[t] > max ? s[t] : max;
    }
    if (broken) {
        for (int64_t t = 0; t < n; t++)
            s[t] = NAN;
        return NAN;
    }
    for (int64_t t = 0; t < n; t++) {
        s[t] = EXP(s[t] - max);
        sum += s[t];
    }
    if (sink->dtype)
        sum += EXP(sink_logit - max);
    for (int64_t t = 0; t < n; t++)
        s[t] /= sum;
    return max + LOG(sum);
}

/* Pass 2 with another weight function than softmax: each weight depends on its logit alone. */
static void weigh(REAL *s, int64_t n, int64_t weight_fn)
{
    const REAL mean = (REAL)0.70710678118654752440;  /* sqrt(1/2) */
    const REAL steep = (REAL)2.50662827463100050242; /* sqrt(2 pi) */
    for (int64_t t = 0; t < n; t++)
        switch (weight_fn) {
        case ATTN_WEIGHT_SIGMOID:
            s[t] = 1 / (1 + EXP(-s[t]));
            break;
        case ATTN_WEIGHT_RELU2:
            s[t] = s[t] <= 0 ? 0 : s[t] * s[t];
            break;
        default:
            s[t] = (REAL)0.5 * ERFC((mean - s[t]) * steep);
        }
}

/* Pass 3: out = sum of p v. Dropped weights take no part. Kept ones are divided by 1-p at the end.
 * A sum starts from NaN if lse is NaN, because there may be no key to bring it in. */
static void weighted_sum(const struct NAME(context) * c, int64_t n, int64_t b, int64_t h, int64_t i,
                         REAL lse)
{
    const struct attn_problem *p = c->problem;
    int dropout = (p->flags & ATTN_FLAG_DROPOUT) != 0;
    REAL *sum = c->buffers->sum;
    for (int64_t d = 0; d < p->dv; d++)
        sum[d] = isnan(lse) ? NAN : 0;
    for (int64_t t = 0; t < n; t++) {
        int64_t j = c->buffers->key[t];
        if (dropout && !attn_dropout_keeps(p, &c->operands->keep, b, h, i, j))
            continue;
        const REAL *v = head_row(c->v, b, h / (p->hq / p->hkv), j, p->dv, c->buffers->v);
        add_scaled(sum, c->buffers->s[t], v, p->dv);
    }
    REAL kept = (REAL)(1 - p->dropout_p);
    for (int64_t d = 0; dropout && d < p->dv; d++)
        sum[d] /= kept;
}

static void multiply_by_gate(const struct NAME(context) * c, int64_t b, int64_t h, int64_t i)
{
    const int64_t dv = c->problem->dv;
    const REAL *gate = head_row(&c->operands->gate, b, h, i, dv, c->buffers->v);
    for (int64_t d = 0; d < dv; d++)
        c->buffers->sum[d] *= gate[d];
}

static void store_weights(const struct NAME(context) * c, int64_t n, int64_t b, int64_t h,
                          int64_t i)
{
    const struct attn_tensor *weights = &c->operands->weights;
    REAL *dense = c->buffers->dense;
    memset(dense, 0, (size_t)c->problem->sk * sizeof(REAL));
    for (int64_t t = 0; t < n; t++)
        dense[c->buffers->key[t]] = c->buffers->s[t];
    store(weights, attn_row_start(weights, b, h, i), weights->stride[3], c->problem->sk, dense);
}

/* The rows of one query head of one batch: all of them, or those whose tokens are global or not. */
static void attend_rows(const struct NAME(context) * c, int64_t b, int64_t h, int any, int global)
{
    const struct attn_problem *p = c->problem;
    const struct attn_operands *o = c->operands;
    const struct attn_tensor *out = &o->out, *lse = &o->lse;
    if (p->score == ATTN_SCORE_ADDITIVE)
        hide_keys(c, b, h);
    for (int64_t i = 0; i < p->sq; i++) {
        if (!any && attn_token_is_global(&o->global, b, i) != global)
            continue;
        int64_t n = logits(c, b, h, i);
        REAL row_lse = 0;
        if (p->flags & ATTN_FLAG_WEIGHT)
            weigh(c->buffers->s, n, p->weight_fn);
        else
            row_lse = softmax(c->buffers->s, n, &o->sink, h);
        weighted_sum(c, n, b, h, i, row_lse);
        if (o->gate.dtype)
            multiply_by_gate(c, b, h, i);
        store(out, attn_row_start(out, b, h, i), out->stride[3], p->dv, c->buffers->sum);
        if (lse->dtype)
            store(lse, attn_row_start(lse, b, h, i), 1, 1, &row_lse);
        if (o->weights.dtype)
            store_weights(c, n, b, h, i);
    }
}

/* One query head of one batch. Rows of global tokens may have a q, k and v of their own. */
static void attend(const struct NAME(context) * c, int64_t b, int64_t h)
{
    const struct attn_operands *o = c->operands;
    const int two = o->q_global.dtype != 0;
    const struct NAME(context)
        own = {c->problem, o, c->buffers, &o->q_global, &o->k_global, &o->v_global};
    attend_rows(c, b, h, !two, 0);
    if (two)
        attend_rows(&own, b, h, 0, 1);
}
