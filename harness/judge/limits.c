/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c - the limits of declarations, as a table. README.md says where each comes from. */
#include "judge/limits.h"

#include <math.h>
#include <stdio.h>

#include "reference/dtype.h"

/* By element type of the problem. */
struct row {
    double roundoff; /* of the coarsest arithmetic: f32 for f64, tf32 for f32, else the type's */
    double e_exp, e_tanh, e_log;
};

static const struct row of_f64 = {0x1p-24, 0x1p-22, 0x1p-22, 0x1p-22};
static const struct row of_f32 = {0x1p-11, 0x1p-11, 0x1p-10, 0x1p-11};
static const struct row of_f16 = {0x1p-11, 0x1p-9, 0x1p-10, 0x1p-11};
static const struct row of_bf16 = {0x1p-8, 0x1p-7, 0x1p-7, 0x1p-11};

/* An argument of exp carries an error per unit that is this part of the roundoff. */
static const double argument_part = 1.0 / 8;
/* All exps that one weight goes through, in roundoffs. */
static const double most_exps = 16;
/* A partial or truncated sum may lose this much of the sum of its magnitudes, with this many terms.
 */
static const double most_partial = 0x1p-5, most_terms = 64;
/* Keys of a padded tile that a chain of additions may go through besides those there are. */
static const double padding = 256;
/* Steps of a score that may each store it: product, scale, three of softcap, bias, ALiBi, log2 e.
 */
static const double most_stores = 8;
/* exp(11) is the last whole power that f16 holds. */
static const double most_tau = 11;
/* Public chunked kernels take 16 to 256 steps. */
static const double most_chunk = 512;

static const struct row *row_of(uint32_t dtype)
{
    return dtype == ATTN_F64   ? &of_f64
           : dtype == ATTN_F32 ? &of_f32
           : dtype == ATTN_F16 ? &of_f16
                               : &of_bf16;
}

static struct attn_limit type_limit(const char *name, uint32_t type, double most)
{
    return (struct attn_limit){name, type ? attn_dtype_roundoff(type) : 0, most, type};
}

/* Exps that one weight goes through after its own: one for each tile of keys. */
static double rescales_of(const struct attn_problem *p, const struct attn_numerics *n)
{
    return n->key_tile > 0 ? ceil((double)p->sk / (double)n->key_tile) : 1;
}

int attn_limits_of(const struct attn_problem *p, const struct attn_numerics *n,
                   struct attn_limit limits[ATTN_LIMITS_MAX])
{
    const struct row *row = row_of(p->dtype);
    const double sk = (double)p->sk, terms = n->partial_terms, u = row->roundoff;
    const double queries = p->hkv > 0 ? (double)(p->hq / p->hkv * p->sq) : 0;
    const double partial = n->partial_type ? attn_dtype_roundoff(n->partial_type) : 0;
    const double acc = attn_dtype_roundoff(n->acc_type ? n->acc_type : p->dtype);
    const double truncated = n->acc_toward_zero ? 2 * acc * sk : 0;
    const struct attn_limit all[] = {
        type_limit("acc_type", n->acc_type, attn_dtype_roundoff(p->dtype)),
        type_limit("score_type", n->score_type, u),
        type_limit("p_type", n->p_type, u),
        type_limit("proj_type", n->proj_type, u),
        type_limit("partial_type", n->partial_type, u),
        type_limit("state_type", n->state_type, u),
        {"partial_terms", terms, most_terms, 0},
        {"partial_terms times the roundoff of partial_type", terms * partial, most_partial, 0},
        {"acc_toward_zero times what so many keys lose", truncated, most_partial, 0},
        {"chain", (double)n->chain, sk + padding, 0},
        {"splits", (double)n->splits, fmax(sk, 1), 0},
        {"u_in", n->u_in, u, 0},
        {"u_pv", n->u_pv, u, 0},
        {"score_stores", n->score_stores, most_stores, 0},
        {"e_exp", n->e_exp, row->e_exp, 0},
        {"e_exp times the exps of one weight", n->e_exp * (1 + rescales_of(p, n)), most_exps * u,
         0},
        {"e_arg", n->e_arg, argument_part * u, 0},
        {"e_tanh", n->e_tanh, row->e_tanh, 0},
        {"e_log", n->e_log, row->e_log, 0},
        {"e_f", n->e_f, row->e_exp, 0},
        {"a_f", n->a_f, row->e_tanh, 0},
        {"tau", n->tau, most_tau, 0},
        {"decay_chunk", (double)n->decay_chunk, most_chunk, 0},
        type_limit("ds_type", n->ds_type, u),
        type_limit("delta_type", n->delta_type, u),
        type_limit("grad_partial_type", n->grad_partial_type, u),
        type_limit("dq_acc_type", n->dq_acc_type, u),
        type_limit("dkv_acc_type", n->dkv_acc_type, u),
        {"grad_chain", (double)n->grad_chain, queries + padding, 0},
    };
    const int count = sizeof all / sizeof *all;
    _Static_assert(sizeof all / sizeof *all <= ATTN_LIMITS_MAX, "room for all limits");
    for (int l = 0; l < count; l++)
        limits[l] = all[l];
    return count;
}

bool attn_limits_hold(const struct attn_problem *p, const struct attn_numerics *n, char *why,
                      size_t size)
{
    struct attn_limit limits[ATTN_LIMITS_MAX];
    const int count = attn_limits_of(p, n, limits);
    for (int l = 0; l < count; l++) {
        const struct attn_limit *x = &limits[l];
        if (x->value <= x->most)
            continue;
        if (x->type)
            snprintf(why, size,
                     "the plan declares %s = %s, whose roundoff is %.3g; the limit for %s is %.3g, "
                     "so the bound proves too little",
                     x->name, attn_dtype_name(x->type), x->value, attn_dtype_name(p->dtype),
                     x->most);
        else
            snprintf(why, size,
                     "the plan declares %s = %.3g; the limit for %s is %.3g, so the bound proves "
                     "too little",
                     x->name, x->value, attn_dtype_name(p->dtype), x->most);
        return false;
    }
    return true;
}
