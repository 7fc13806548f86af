/* SPDX-License-Identifier: Apache-2.0 */
/* function_pairs.c - which two keys the check `functions` compares, and at which distances. */
#include <math.h>

#include "reference/score.h"
#include "run/functions.h"

/* Keys: enough for two of most tiles, and a remainder. In the dense form few, because they add up.
 */
enum { KEYS = 77, KEYS_DENSE = 13 };
/* Few queries with many keys have paths of their own: keys split, heads packed. There the keys of
 * the case stay. */
enum { FEW_QUERIES = 16, LONG_MOST = 4096 };
/* Pairs of even heads lie among so many keys, which most kernels have in one tile. Those of odd
 * heads end among the last keys, so that rescales and merges are tested, too. */
enum { NEAR_KEYS = 16, APART = 8 };
#define MOST_X 80.0 /* exp(-80) is a normal number of f32 */

bool attn_functions_projected(const struct attn_relation_work *work)
{
    return ref_op_is(work->base->c.op, REF_PROJECTED | REF_SOFTMAX);
}

bool attn_functions_has(const struct attn_relation_work *work, uint32_t role)
{
    return ref_score_has(work->base->c.score, role);
}

/* Columns of q and k that can be chosen on their own. */
int64_t attn_functions_columns(const struct attn_relation_work *work)
{
    const struct attn_case *c = &work->base->c;
    const int64_t narrow = c->dq < c->dk ? c->dq : c->dk;
    return attn_functions_has(work, ATTN_SCORE_WV) ? (c->dh < c->dk ? c->dh : c->dk) : narrow;
}

/* With a softcap no score can be far below, and with one column none can be chosen on its own. */
bool attn_functions_dense(const struct attn_relation_work *work)
{
    return work->base->c.softcap > 0 || attn_functions_columns(work) < 2;
}

bool attn_functions_long(const struct attn_relation_work *work)
{
    const struct attn_case *c = &work->base->c;
    return !attn_functions_dense(work) && c->sq <= FEW_QUERIES && c->sk > KEYS &&
           c->sk <= LONG_MOST;
}

int64_t attn_functions_keys(const struct attn_relation_work *work)
{
    return attn_functions_long(work)    ? work->base->c.sk
           : attn_functions_dense(work) ? KEYS_DENSE
                                        : KEYS;
}

int64_t attn_functions_batch(const struct attn_relation_work *work, int64_t b)
{
    const uint32_t role = attn_functions_projected(work) ? ATTN_X_K : ATTN_K;
    const struct attn_tensor *keys = attn_tensor_find(&work->part[0]->problem, role);
    return keys && keys->stride[0] == 0 ? 0 : b;
}

struct attn_function_pair attn_functions_pair(const struct attn_relation_work *work, int64_t b,
                                              int64_t g)
{
    /* Projected heads have their keys from one x. */
    const int64_t n = attn_functions_projected(work) ? b : g;
    const int64_t all = attn_functions_keys(work);
    if (!attn_functions_dense(work) && n % 2)
        return (struct attn_function_pair){(5 * n + 3) % (all / 2), all - 1 - n / 2 % APART};
    const int64_t keys = attn_functions_dense(work) ? all : NEAR_KEYS;
    const int64_t first = (5 * n + 3) % keys;
    return (struct attn_function_pair){first, (first + 1 + 7 * n % (keys - 1)) % keys};
}

/* A power of two, and of four where it meets squares. */
double attn_functions_scale(const struct attn_relation_work *work)
{
    const double power = log2(fabs(work->base->c.scale));
    const bool squares = ref_score_find(work->base->c.score)->traits & REF_SCORE_DISTANCE;
    return squares ? exp2(2 * round(0.5 * power)) : exp2(round(power));
}

static double most_of(const struct attn_relation_work *work)
{
    const double cap = work->base->c.softcap;
    return cap > 0 ? fmin(3 * cap, MOST_X) : MOST_X;
}

/* A number to 8 significant bits. */
double attn_functions_narrow(double x)
{
    int exponent;
    const double digits = round(ldexp(frexp(x, &exponent), 8));
    return ldexp(digits, exponent - 8);
}

double attn_functions_spread(const struct attn_relation_work *work, int64_t n)
{
    const double golden = 0.6180339887498949, most = most_of(work);
    double whole;
    const double t =
        modf((double)(n + 1) * golden + (double)attn_relation_problem(work)->sk * 0.37, &whole);
    return attn_functions_narrow(n / 2 % 2 ? most * t : fmin(most, 8) * t * t + 0x1p-6);
}

bool attn_functions_is_first(const struct attn_relation_work *work, int64_t b, int64_t g, int64_t j)
{
    return j == attn_functions_pair(work, b, g).first;
}

bool attn_functions_is_other(const struct attn_relation_work *work, int64_t b, int64_t g, int64_t j)
{
    const struct attn_function_pair pair = attn_functions_pair(work, b, g);
    return attn_functions_dense(work) ? j != pair.first : j == pair.other;
}

bool attn_functions_is_far(const struct attn_relation_work *work, int64_t b, int64_t g, int64_t j)
{
    return !attn_functions_is_first(work, b, g, j) && !attn_functions_is_other(work, b, g, j);
}

/* Column c of v is one of the two weights. */
double attn_functions_v(const struct attn_relation_work *work, const int64_t *at)
{
    return at[3] % 2 ? attn_functions_is_other(work, at[0], at[1], at[2])
                     : attn_functions_is_first(work, at[0], at[1], at[2]);
}
