/* SPDX-License-Identifier: Apache-2.0 */
/* relation_functions.c - the declared errors of exp, tanh and log, tested as such. The general
 * bound adds them to errors of scores and sums, which are larger, so a wrong exp can hide there.
 *
 * Each row compares two keys at a known distance x: their scores are 0 and x or -x, and all other
 * keys are so far below that they have the weight 0. Scores are exact: x has 8 significant bits,
 * the scale is a power of two, k is 0, 1 or -1, and one product is not 0. v is 0 or 1, so a column
 * of out is one weight, and lse is log(1 + exp(-x)). What remains is the error of the functions and
 * a few roundings, which README.md counts. Every eighth row has equal scores: its lse is log(keys).
 *
 * With a softcap no score can be far below, and with one column none can be chosen on its own. Then
 * all keys except one are at the same distance. */
#include "run/relation.h"

#include <math.h>

#include "reference/dtype.h"
#include "reference/score.h"

/* Keys: enough for a vector and a remainder. In the dense form few, because they add up. */
enum { KEYS = 45, KEYS_DENSE = 13, ALIKE_EVERY = 8 };
#define FAR_BELOW 256.0 /* exp of it is 0 in f32, and nothing beside 1 in f64 */
#define MOST_X    80.0  /* exp(-80) is a normal number of f32 */
/* Roundings, in units of u, besides those of the functions: of a weight (exp of the largest key,
 * sum, quotient or reciprocal and product, rescale), and of an argument, relative to it (log2 e,
 * the scale with it, product, difference). */
#define WEIGHT_ROUNDINGS   5.0
#define ARGUMENT_ROUNDINGS 4.0
#define CAP_ROUNDINGS      4.0 /* softcap: its factor, quotient and products (BOUND.md) */

static bool dense(const struct attn_relation_work *work)
{
    return work->base->c.softcap > 0 || work->base->c.dk < 2;
}

static int64_t keys_of(const struct attn_relation_work *work)
{
    return dense(work) ? KEYS_DENSE : KEYS;
}

/* The two keys that a key/value head compares; in the dense form `other` is all but `first`. */
static int64_t first_of(const struct attn_relation_work *work, int64_t g)
{
    return (5 * g + 3) % keys_of(work);
}

static int64_t other_of(const struct attn_relation_work *work, int64_t g)
{
    const int64_t n = keys_of(work);
    return (first_of(work, g) + 1 + 7 * g % (n - 1)) % n;
}

static double scale_of(const struct attn_relation_work *work)
{
    return exp2(round(log2(fabs(work->base->c.scale))));
}

/* The distance of a row: spread over the whole range, dense near 0, with a sign. */
static double distance(const struct attn_relation_work *work, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const int64_t row = (b * p->hq + h) * p->sq + i;
    const double golden = 0.6180339887498949;
    double whole;
    const double t = modf((double)(row + 1) * golden + (double)p->sk * 0.37, &whole);
    if (row % ALIKE_EVERY == ALIKE_EVERY - 1)
        return 0;
    int exponent;
    const double most =
        work->base->c.softcap > 0 ? fmin(3 * work->base->c.softcap, MOST_X) : MOST_X;
    const double x = row / 2 % 2 ? most * t : fmin(most, 8) * t * t + 0x1p-6;
    const double digits = ldexp(round(ldexp(frexp(x, &exponent), 8)), -8);
    return ldexp(row % 2 ? digits : -digits, exponent);
}

static bool fits(struct attn_relation_work *work)
{
    const struct attn_case *c = &work->base->c;
    if (!attn_relation_attends(work) || !(c->scale >= 0x1p-6 && c->scale <= 4))
        return false;
    const struct ref_score *score = ref_score_find(c->score);
    return !(score->traits & REF_SCORE_DISTANCE) && !(score->params && score->params[0]) &&
           (c->softcap <= 0 || (c->softcap >= 1 && c->softcap <= 0x1p10));
}

static void recast(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)part;
    c->sk = keys_of(work);
    c->scale = scale_of(work);
    c->scale_given = true;
    c->causal = c->window = c->off_br = c->mask_bool = c->dropout = false;
    c->bias_normal = c->alibi = c->sink = false;
    c->off = c->window_left = c->window_right = 0;
    c->len = ATTN_LEN_NONE;
}

static double value(const struct attn_relation_work *work, int part,
                    const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const bool is_first = at[2] == first_of(work, at[1]);
    const bool is_other = dense(work) ? !is_first : at[2] == other_of(work, at[1]);
    (void)part;
    switch (tensor->role) {
    case ATTN_Q: {
        const double x = distance(work, at[0], at[1], at[2]);
        return at[3] == 0 ? x / scale_of(work) : at[3] == 1 && !dense(work) && x != 0 ? 1 : 0;
    }
    case ATTN_K:
        if (at[3] == 1 && !dense(work))
            return is_first || is_other ? 0 : -FAR_BELOW / scale_of(work);
        return at[3] == 0 && is_other ? 1 : 0;
    case ATTN_V:
        return at[3] % 2 ? is_other : is_first;
    default:
        return attn_relation_value_same(work, part, tensor, at);
    }
}

/* A row as it must be: the weights of `first` and of all `other` keys, lse, and what the functions
 * may do to the quotient of the two weights. */
struct truth {
    double first, other, lse, most, sum;
    double score;  /* error of the score that is not 0 */
    double wrong;  /* relative error of other / first */
    double adding; /* relative error of a sum of that many keys */
    double others; /* keys at the distance of the row */
};

static struct truth truth_of(const struct attn_relation_work *work, const struct attn_place *at,
                             double u)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    const double cap = work->base->c.softcap, keys = (double)keys_of(work);
    const double x = distance(work, at->b, at->h, at->i);
    const double z = cap > 0 ? cap * tanh(x / cap) : x;
    /* Rows of equal scores have no key far below. */
    const double others = dense(work) || x == 0 ? keys - 1 : 1;
    struct truth t = {.most = fmax(0, z), .others = others};
    const double first = exp(-t.most), other = others * exp(z - t.most);
    t.sum = first + other;
    t.first = first / t.sum;
    t.other = other / t.sum;
    t.lse = t.most + log(t.sum);
    t.adding = (others > 1 && x != 0 ? others : 2) * u; /* equal terms near 1 add up exactly */

    const double tiles =
        n->key_tile > 0 ? ceil(keys / (double)n->key_tile) : 1; /* a rescale between two of them */
    const double parts = n->splits > 1 ? 1 : 0, far = fabs(z) + 2 * n->tau;
    const double stores = n->score_stores > 1 ? n->score_stores : 1;
    const double stored =
        n->score_type ? expm1(stores * log1p(attn_dtype_roundoff(n->score_type))) : 0;
    t.score = (2 * n->u_in + stored) * fabs(z);
    if (cap > 0)
        t.score += (CAP_ROUNDINGS * u + n->e_tanh) * fabs(z);
    double shift = t.score + ARGUMENT_ROUNDINGS * u * far;
    if (parts > 0)
        shift += 4 * u * (t.most + fabs(t.lse)) + (2 * u + n->e_log) * (log(keys) + n->tau);
    const double rel = (1 + tiles + parts) * n->e_exp + (1 + parts) * n->e_arg * far;
    t.wrong = expm1(shift + rel);
    return t;
}

/* The roundings of p before it is multiplied: as it is stored, and as an operand. */
static double p_roundings(const struct attn_numerics *n)
{
    const double stored = n->p_type ? attn_dtype_roundoff(n->p_type) : 0;
    return stored * (n->p_stochastic ? 2 : 1) + n->u_pv;
}

/* What may underflow of one key, in each type that a weight is kept in. */
static double lost(const struct attn_numerics *n, uint32_t acc, uint32_t dtype)
{
    const uint32_t types[] = {acc, n->p_type ? n->p_type : acc, dtype};
    double sum = 0;
    for (int t = 0; t < 3; t++)
        sum += n->ftz ? attn_dtype_min_normal(types[t]) : 2 * attn_dtype_min_subnormal(types[t]);
    return 2 * sum;
}

static bool expect(struct attn_relation_work *work, const struct attn_place *at,
                   struct attn_expectation *e)
{
    const struct attn_numerics *n = &work->is[0].numerics;
    const uint32_t dtype = attn_relation_problem(work)->dtype;
    const uint32_t acc = n->acc_type ? n->acc_type : dtype;
    const uint32_t stored = work->is[0].tensor[at->output]->dtype;
    const double u = attn_dtype_roundoff(acc) * (n->acc_toward_zero ? 2 : 1);
    const struct truth t = truth_of(work, at, u);
    e->got = attn_results_read(&work->is[0], at);
    if (at->c < 0) {
        /* The larger weight is in the sum whole, the smaller one is wrong by t.wrong. */
        const double small = fmin(t.first, t.other), log_sum = log(t.sum);
        e->want = t.lse;
        e->allowed = small * t.wrong + n->e_exp + t.adding + 2 * u +
                     (n->e_log + 4 * u) * fabs(log_sum) + (t.most > 0 ? t.score : 0) +
                     ARGUMENT_ROUNDINGS * u * (t.most + n->tau);
        if (n->denominator != 1)
            e->allowed += p_roundings(n);
    } else {
        const bool other = at->c % 2;
        const double want = other ? t.other : t.first;
        double roundings = WEIGHT_ROUNDINGS * u + t.adding * (other ? 2 : 1) + 2 * p_roundings(n);
        if (n->partial_type)
            roundings += (double)keys_of(work) * attn_dtype_roundoff(n->partial_type);
        e->want = want;
        e->allowed = t.first * t.other * t.wrong * (1 + t.wrong) + want * roundings +
                     (other ? t.others : 1) * lost(n, acc, dtype);
        /* Rows of equal scores: `other` counts one key of them. */
        if (other && !dense(work) && distance(work, at->b, at->h, at->i) == 0)
            e->want /= (double)keys_of(work) - 1;
    }
    e->allowed +=
        attn_dtype_roundoff(stored) * (n->out_toward_zero ? 2 : 1) * (fabs(e->want) + e->allowed);
    return true;
}

const struct attn_relation attn_relation_functions = {
    .check = ATTN_CHECK_FUNCTIONS,
    .parts = 1,
    .structured = true,
    .fits = fits,
    .recast = recast,
    .value = value,
    .expect = expect,
    .exact = attn_relation_always, /* this file has the allowance */
};
