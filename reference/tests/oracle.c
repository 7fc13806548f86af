/* SPDX-License-Identifier: Apache-2.0 */
/* oracle.c - the operator in MPFR, cell by cell, for dense tensors. Slow and plain. */
#include "reference/tests/oracle.h"

#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

#include "reference/philox.h"

#define BITS 256

/* A dense tensor of MPFR numbers. */
struct numbers {
    mpfr_t *at;
    int64_t count;
};

static struct numbers numbers_create(int64_t count)
{
    struct numbers n = {calloc((size_t)count + 1, sizeof(mpfr_t)), count};

    if (!n.at)
        abort();
    for (int64_t x = 0; x < count; x++) {
        mpfr_init2(n.at[x], BITS);
        mpfr_set_zero(n.at[x], 1);
    }
    return n;
}

static void numbers_free(struct numbers *n)
{
    for (int64_t x = 0; x < n->count; x++)
        mpfr_clear(n->at[x]);
    free(n->at);
}

static const struct attn_tensor *find(struct made *m, uint32_t role)
{
    return attn_tensor_find(&m->problem, role);
}

static struct numbers numbers_of(const struct attn_tensor *t)
{
    struct numbers n = numbers_create(made_count(t));

    for (int64_t x = 0; x < n.count; x++)
        mpfr_set_d(n.at[x], made_get(t, x), MPFR_RNDN);
    return n;
}

/* What attention needs, whether given or projected: q [B,Hq,Sq,Dq], k, v [B,Hkv,Sk,D]. */
struct operands {
    struct numbers q, k, v;
};

/* [B,H,S,D] from x [B,S,E], w [H*D,E] and a bias. */
static struct numbers project(struct made *m, uint32_t x_role, uint32_t w_role, uint32_t b_role,
                              int64_t heads, int64_t width)
{
    const struct attn_tensor *x = find(m, x_role), *bias = find(m, b_role);
    int64_t s = x->shape[1], e = x->shape[2];
    struct numbers xs = numbers_of(x), ws = numbers_of(find(m, w_role));
    struct numbers y = numbers_create(m->problem.b * heads * s * width);
    mpfr_t term;

    mpfr_init2(term, BITS);
    for (int64_t b = 0; b < m->problem.b; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < s; i++)
                for (int64_t c = 0; c < width; c++) {
                    mpfr_t *sum = &y.at[((b * heads + h) * s + i) * width + c];
                    for (int64_t z = 0; z < e; z++) {
                        mpfr_mul(term, xs.at[(b * s + i) * e + z], ws.at[(h * width + c) * e + z],
                                 MPFR_RNDN);
                        mpfr_add(*sum, *sum, term, MPFR_RNDN);
                    }
                    if (bias)
                        mpfr_add_d(*sum, *sum, made_get(bias, h * width + c), MPFR_RNDN);
                }
    mpfr_clear(term);
    numbers_free(&xs);
    numbers_free(&ws);
    return y;
}

static struct operands operands_of(struct made *m)
{
    const struct attn_problem *p = &m->problem;
    uint32_t x_k = find(m, ATTN_X_K) ? ATTN_X_K : ATTN_X_Q;
    uint32_t x_v = find(m, ATTN_X_V) ? ATTN_X_V : x_k;
    struct operands o;

    if (p->op == ATTN_OP_MHA) {
        o.q = project(m, ATTN_X_Q, ATTN_W_Q, ATTN_B_Q, p->hq, p->dq);
        o.k = project(m, x_k, ATTN_W_K, ATTN_B_K, p->hkv, p->dk);
        o.v = project(m, x_v, ATTN_W_V, ATTN_B_V, p->hkv, p->dv);
    } else {
        o.q = numbers_of(find(m, ATTN_Q));
        o.k = numbers_of(find(m, ATTN_K));
        o.v = numbers_of(find(m, ATTN_V));
    }
    return o;
}

static int64_t offset(struct made *m, int64_t b)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *len = find(m, ATTN_LEN);

    if (!(p->flags & ATTN_FLAG_OFF_BR))
        return p->off;
    return (len ? (int64_t)made_get(len, b) : p->sk) - p->sq;
}

static bool allowed(struct made *m, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *len = find(m, ATTN_LEN), *mask = find(m, ATTN_MASK);
    int64_t distance = j - (i + offset(m, b));

    if (len && j >= (int64_t)made_get(len, len->rank == 2 ? b * p->sq + i : b))
        return false;
    if ((p->flags & ATTN_FLAG_CAUSAL) && distance > 0)
        return false;
    if ((p->flags & ATTN_FLAG_WINDOW) && p->window_left >= 0 && -distance > p->window_left)
        return false;
    if ((p->flags & ATTN_FLAG_WINDOW) && p->window_right >= 0 && distance > p->window_right)
        return false;
    return !mask || made_get(mask, ((b * p->hq + h) * p->sq + i) * p->sk + j) != 0.0;
}

static int64_t clipped(int64_t x, int64_t rows)
{
    return x < 0 ? 0 : x >= rows ? rows - 1 : x;
}

/* s += x.row of head h in a table of positions */
static void add_position(struct made *m, uint32_t role, int64_t h, int64_t row, mpfr_t *x, mpfr_t s)
{
    const struct attn_tensor *table = find(m, role);
    const int64_t rows = table->shape[1], dk = m->problem.dk;
    mpfr_t t;

    mpfr_init2(t, BITS);
    for (int64_t c = 0; c < dk; c++) {
        mpfr_mul_d(t, x[c], made_get(table, (h * rows + row) * dk + c), MPFR_RNDN);
        mpfr_add(s, s, t, MPFR_RNDN);
    }
    mpfr_clear(t);
}

/* What disentangled scores have beside q.k. */
static void add_positions(struct made *m, int64_t b, int64_t h, int64_t i, int64_t j, mpfr_t *q,
                          mpfr_t *k, mpfr_t s)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *given = find(m, ATTN_REL_POS);
    const int64_t rows = find(m, ATTN_SCORE_KR)->shape[1], far = i + offset(m, b) - j;
    const int64_t d =
        given ? (int64_t)made_get(given, i - j + p->sk - 1) : clipped(far + rows / 2, rows);
    int64_t e = d;

    if (p->variant == ATTN_POSITIONS_PAPER)
        e = clipped(given ? rows - d : rows / 2 - far, rows);
    if (p->parts != ATTN_PARTS_P2C)
        add_position(m, ATTN_SCORE_KR, h, d, q, s);
    if (p->parts != ATTN_PARTS_C2P)
        add_position(m, ATTN_SCORE_QR, h, e, k, s);
}

/* Step 1 for one cell, without the scale. */
static void raw_score(struct made *m, int64_t h, mpfr_t *q, mpfr_t *k, mpfr_t s)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *w_q = find(m, ATTN_SCORE_WQ), *w_k = find(m, ATTN_SCORE_WK);
    const struct attn_tensor *w_v = find(m, ATTN_SCORE_WV), *matrix = find(m, ATTN_SCORE_M);
    mpfr_t t, z;

    mpfr_inits2(BITS, t, z, (mpfr_ptr)0);
    mpfr_set_zero(s, 1);
    if (p->score == ATTN_SCORE_ADDITIVE) {
        for (int64_t x = 0; x < p->dh; x++) {
            mpfr_set_zero(z, 1);
            for (int64_t c = 0; c < p->dq; c++) {
                mpfr_mul_d(t, q[c], made_get(w_q, (h * p->dh + x) * p->dq + c), MPFR_RNDN);
                mpfr_add(z, z, t, MPFR_RNDN);
            }
            for (int64_t c = 0; c < p->dk; c++) {
                mpfr_mul_d(t, k[c], made_get(w_k, (h * p->dh + x) * p->dk + c), MPFR_RNDN);
                mpfr_add(z, z, t, MPFR_RNDN);
            }
            mpfr_tanh(z, z, MPFR_RNDN);
            mpfr_mul_d(z, z, made_get(w_v, h * p->dh + x), MPFR_RNDN);
            mpfr_add(s, s, z, MPFR_RNDN);
        }
    } else if (p->score == ATTN_SCORE_BILINEAR) {
        for (int64_t c = 0; c < p->dq; c++)
            for (int64_t d = 0; d < p->dk; d++) {
                mpfr_mul(t, q[c], k[d], MPFR_RNDN);
                mpfr_mul_d(t, t, made_get(matrix, (h * p->dq + c) * p->dk + d), MPFR_RNDN);
                mpfr_add(s, s, t, MPFR_RNDN);
            }
    } else {
        for (int64_t c = 0; c < p->dk; c++) {
            if (p->score == ATTN_SCORE_GAUSSIAN) {
                mpfr_sub(t, q[c], k[c], MPFR_RNDN);
                mpfr_sqr(t, t, MPFR_RNDN);
                mpfr_div_si(t, t, -2, MPFR_RNDN);
            } else {
                mpfr_mul(t, q[c], k[c], MPFR_RNDN);
            }
            mpfr_add(s, s, t, MPFR_RNDN);
        }
    }
    mpfr_clears(t, z, (mpfr_ptr)0);
}

static void full_score(struct made *m, int64_t b, int64_t h, int64_t i, int64_t j, mpfr_t *q,
                       mpfr_t *k, mpfr_t s)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *bias = find(m, ATTN_BIAS), *alibi = find(m, ATTN_ALIBI);

    raw_score(m, h, q, k, s);
    if (p->score == ATTN_SCORE_DISENTANGLED)
        add_positions(m, b, h, i, j, q, k, s);
    mpfr_mul_d(s, s, p->scale, MPFR_RNDN);
    if (p->flags & ATTN_FLAG_SOFTCAP) {
        mpfr_div_d(s, s, p->softcap, MPFR_RNDN);
        mpfr_tanh(s, s, MPFR_RNDN);
        mpfr_mul_d(s, s, p->softcap, MPFR_RNDN);
    }
    if (bias)
        mpfr_add_d(s, s, made_get(bias, ((b * p->hq + h) * p->sq + i) * p->sk + j), MPFR_RNDN);
    if (alibi) {
        mpfr_t term;
        mpfr_init2(term, BITS);
        mpfr_set_si(term, labs((long)(i + offset(m, b) - j)), MPFR_RNDN);
        mpfr_mul_d(term, term, made_get(alibi, h), MPFR_RNDN);
        mpfr_sub(s, s, term, MPFR_RNDN);
        mpfr_clear(term);
    }
}

static double kept(struct made *m, int64_t cell)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *keep = find(m, ATTN_KEEP);

    if (!(p->flags & ATTN_FLAG_DROPOUT))
        return 1.0;
    return keep ? made_get(keep, cell)
                : attn_dropout_keep(p->dropout_seed, (uint64_t)cell, p->dropout_p);
}

/* One row of one head: exp of every score without any maximum. */
static void attend(struct made *m, const struct operands *x, int64_t b, int64_t h, int64_t i,
                   struct oracle *o, mpfr_t *out, mpfr_t *size)
{
    const struct attn_problem *p = &m->problem;
    int64_t g = h / (p->hq / p->hkv), row = (b * p->hq + h) * p->sq + i, n = 0;
    const struct attn_tensor *sink = find(m, ATTN_SINK);
    struct numbers e = numbers_create(p->sk);
    mpfr_t sum, t;

    mpfr_inits2(BITS, sum, t, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    for (int64_t j = 0; j < p->sk; j++) {
        if (!allowed(m, b, h, i, j))
            continue;
        full_score(m, b, h, i, j, x->q.at + row * p->dq,
                   x->k.at + ((b * p->hkv + g) * p->sk + j) * p->dk, t);
        mpfr_exp(e.at[j], t, MPFR_RNDN);
        mpfr_add(sum, sum, e.at[j], MPFR_RNDN);
        n++;
    }
    if (sink) {
        mpfr_set_d(t, made_get(sink, h), MPFR_RNDN);
        mpfr_exp(t, t, MPFR_RNDN);
        mpfr_add(sum, sum, t, MPFR_RNDN);
    }
    mpfr_log(t, sum, MPFR_RNDN);
    o->lse[row] = mpfr_get_d(t, MPFR_RNDN);
    for (int64_t j = 0; n > 0 && j < p->sk; j++) {
        mpfr_t *v = x->v.at + ((b * p->hkv + g) * p->sk + j) * p->dv;
        mpfr_div(e.at[j], e.at[j], sum, MPFR_RNDN);
        o->weights[row * p->sk + j] = mpfr_get_d(e.at[j], MPFR_RNDN);
        mpfr_mul_d(e.at[j], e.at[j], kept(m, row * p->sk + j), MPFR_RNDN);
        mpfr_set_d(t, p->dropout_p, MPFR_RNDN);
        mpfr_ui_sub(t, 1, t, MPFR_RNDN);
        mpfr_div(e.at[j], e.at[j], t, MPFR_RNDN);
        for (int64_t c = 0; c < p->dv; c++) {
            mpfr_mul(t, e.at[j], v[c], MPFR_RNDN);
            mpfr_add(out[c], out[c], t, MPFR_RNDN);
            mpfr_abs(t, t, MPFR_RNDN);
            mpfr_add(size[c], size[c], t, MPFR_RNDN);
        }
    }
    mpfr_clears(sum, t, (mpfr_ptr)0);
    numbers_free(&e);
}

/* Heads side by side through W_o, b_o and the residual: from [B,Hq,Sq,Dv] to [B,Sq,Eo]. */
static void finish_mha(struct made *m, const struct numbers *heads, const struct numbers *sizes,
                       struct oracle *o)
{
    const struct attn_problem *p = &m->problem;
    const struct attn_tensor *w_o = find(m, ATTN_W_O), *b_o = find(m, ATTN_B_O);
    const struct attn_tensor *head_mask = find(m, ATTN_HEAD_MASK), *x_q = find(m, ATTN_X_Q);
    int64_t in = p->hq * p->dv, width = w_o ? w_o->shape[0] : in;
    mpfr_t sum, size, t;

    mpfr_inits2(BITS, sum, size, t, (mpfr_ptr)0);
    for (int64_t r = 0; r < p->b * p->sq; r++)
        for (int64_t x = 0; x < width; x++) {
            double base = p->flags & ATTN_FLAG_RESIDUAL ? made_get(x_q, r * width + x) : 0.0;
            mpfr_set_d(sum, base, MPFR_RNDN);
            mpfr_set_d(size, fabs(base), MPFR_RNDN);
            if (b_o) {
                mpfr_add_d(sum, sum, made_get(b_o, x), MPFR_RNDN);
                mpfr_add_d(size, size, fabs(made_get(b_o, x)), MPFR_RNDN);
            }
            for (int64_t z = 0; z < in; z++) {
                int64_t h = z / p->dv, b = r / p->sq, i = r % p->sq;
                int64_t from = ((b * p->hq + h) * p->sq + i) * p->dv + z % p->dv;
                double w = w_o ? made_get(w_o, x * in + z) : (double)(x == z);
                if (head_mask && made_get(head_mask, h) == 0.0)
                    continue;
                mpfr_mul_d(t, heads->at[from], w, MPFR_RNDN);
                mpfr_add(sum, sum, t, MPFR_RNDN);
                mpfr_mul_d(t, sizes->at[from], fabs(w), MPFR_RNDN);
                mpfr_add(size, size, t, MPFR_RNDN);
            }
            o->out[r * width + x] = mpfr_get_d(sum, MPFR_RNDN);
            o->size[r * width + x] = mpfr_get_d(size, MPFR_RNDN);
        }
    mpfr_clears(sum, size, t, (mpfr_ptr)0);
}

void oracle_compute(struct made *m, struct oracle *o)
{
    const struct attn_problem *p = &m->problem;
    int64_t rows = p->b * p->hq * p->sq;
    struct operands x;
    struct numbers out = numbers_create(rows * p->dv), size = numbers_create(rows * p->dv);
    int64_t elements = made_count(find(m, ATTN_OUT));

    /* exp of scores up to 1e18 without any maximum. */
    mpfr_set_emin(mpfr_get_emin_min());
    mpfr_set_emax(mpfr_get_emax_max());
    x = operands_of(m);
    o->out = calloc((size_t)elements + 1, sizeof(double));
    o->size = calloc((size_t)elements + 1, sizeof(double));
    o->lse = calloc((size_t)rows, sizeof(double));
    o->weights = calloc((size_t)(rows * p->sk) + 1, sizeof(double));
    if (!o->out || !o->size || !o->lse || !o->weights)
        abort();
    for (int64_t r = 0; r < rows; r++)
        attend(m, &x, r / p->sq / p->hq, r / p->sq % p->hq, r % p->sq, o, out.at + r * p->dv,
               size.at + r * p->dv);
    if (p->op == ATTN_OP_MHA)
        finish_mha(m, &out, &size, o);
    else
        for (int64_t c = 0; c < elements; c++) {
            o->out[c] = mpfr_get_d(out.at[c], MPFR_RNDN);
            o->size[c] = mpfr_get_d(size.at[c], MPFR_RNDN);
        }
    numbers_free(&out);
    numbers_free(&size);
    numbers_free(&x.q);
    numbers_free(&x.k);
    numbers_free(&x.v);
}

void oracle_free(struct oracle *o)
{
    free(o->out);
    free(o->size);
    free(o->lse);
    free(o->weights);
}
