/* SPDX-License-Identifier: Apache-2.0 */
/* relation_operators.c - relations that single operators have: a state that is handed on, a
 * projection that may be the identity, weights that nothing divides. */
#include <math.h>
#include <string.h>

#include "case/operator.h"
#include "reference/dtype.h"
#include "reference/weight.h"
#include "run/relation.h"
#include "tensor/operand.h"

static const struct ref_op *op_of(const struct attn_relation_work *work)
{
    return ref_op_find(attn_relation_problem(work)->op);
}

/* ---- chunks ---- */

/* The first steps of the second call. Kernels work in powers of two, so both lengths are odd ones
 * where there is room. */
static bool fits_chunks(struct attn_relation_work *work)
{
    const int64_t steps = attn_relation_problem(work)->sk;
    work->pivot = steps >= 16 ? steps / 2 - 3 : steps / 2;
    return op_of(work)->stream && steps > 1;
}

static void recast_chunks(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    const struct ref_op *op = op_of(work);
    const struct ref_operand *state = ref_operand_of(op, op->stream->in);
    c->sk = c->sq = part ? c->sk - work->pivot : work->pivot;
    if (part == 0)
        attn_case_ask(c, op->stream->out);
    else
        attn_case_set_param(c, attn_op_param(op, state->name), 1);
}

static double value_chunks(const struct attn_relation_work *work, int part,
                           const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const struct ref_op *op = op_of(work);
    const char *shape = ref_operand_of(op, tensor->role)->shape;
    const char *step = strpbrk(shape, "ij");
    if (part && tensor->role == op->stream->in)
        return 0; /* written by `feed` */
    if (part && step && tensor->stride[step - shape] != 0)
        at[step - shape] += work->pivot;
    return attn_relation_value_same(work, part, tensor, at);
}

static double fed_value(const void *context, uint64_t index)
{
    const double *state = context;
    return state[index];
}

/* A state is not an activation, so that no view broadcasts it: its elements are in the order of
 * those of the results. */
static void feed_chunks(const struct attn_relation_work *work, int part,
                        struct attn_instance *instance)
{
    const struct ref_op *op = op_of(work);
    const struct attn_results *before = &work->is[part - 1];
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++)
        if (instance->tensors[t].role == op->stream->in)
            attn_operand_fill(&instance->tensors[t], 1, fed_value,
                              before->value[ref_output_of(op, op->stream->out)]);
}

/* Steps from the pivot on are those of the second call, and so is the last state. */
static bool expect_chunks(struct attn_relation_work *work, const struct attn_place *at,
                          struct attn_expectation *e)
{
    const char *shape = op_of(work)->outputs[at->output].shape, *step = strpbrk(shape, "ij");
    struct attn_place place = *at;
    int part = 1;
    if (step) {
        part = at->at[step - shape] >= work->pivot;
        place.at[step - shape] -= part ? work->pivot : 0;
    }
    e->want = attn_results_compared(&work->was, at);
    e->got = attn_results_compared(&work->is[part], &place);
    e->allowed = attn_results_slack(&work->was, at) + attn_results_slack(&work->is[part], &place);
    return true;
}

const struct attn_relation attn_relation_chunks = {
    .check = ATTN_CHECK_CHUNKS,
    .parts = 2,
    .fits = fits_chunks,
    .recast = recast_chunks,
    .value = value_chunks,
    .feed = feed_chunks,
    .expect = expect_chunks,
    .exact = attn_relation_never,
};

/* ---- identity_projection ---- */

/* As many rows as keys make the product of the projections much larger than the case. */
static const int64_t most_rows = 1024;

/* Does a declared type keep numbers of the problem's type? 0: the problem's, or a wider one. */
static bool keeps(uint32_t type, uint32_t dtype)
{
    return type == 0 || attn_dtype_roundoff(type) <= attn_dtype_roundoff(dtype);
}

/* Sums of products of which one is not 0 are exact, in any order, so the projected keys and values
 * are the given ones. */
static bool fits_identity(struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const struct attn_numerics *n = &work->numerics;
    return attn_relation_has(work, ATTN_PROJ_E) && !attn_relation_has(work, ATTN_LEN) &&
           p->sk > 0 && p->sk <= most_rows && keeps(n->proj_type, p->dtype) &&
           keeps(n->partial_type, p->dtype) && n->u_in <= n->u_pv;
}

static void recast_identity(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    const struct ref_op *op = op_of(work);
    if (part == 0) {
        for (const struct ref_param *param = op->params; param->key; param++)
            if (param->letter == 'r')
                attn_case_set_param(c, param, (double)c->sk);
        return;
    }
    c->op = ref_op_named(ATTN_DEFAULT_OP)->op;
    attn_case_numbers_set(&c->param, NULL, 0);
}

static double value_identity(const struct attn_relation_work *work, int part,
                             const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    if (tensor->role == ATTN_PROJ_E || tensor->role == ATTN_PROJ_F)
        return at[1] == at[2];
    return attn_relation_value_same(work, part, tensor, at);
}

/* The same element of an operator's outputs. */
static struct attn_place place_of(const struct attn_relation_work *work,
                                  const struct attn_place *at, uint32_t op, uint32_t role)
{
    const char *shape = op_of(work)->outputs[at->output].shape;
    struct attn_place row = *at;
    row.h = at->at[strchr(shape, 'h') - shape];
    row.c = strchr(shape, 'v') ? at->at[strchr(shape, 'v') - shape] : -1;
    return attn_place_of(ref_op_find(op), ref_output_of(ref_op_find(op), role), &row);
}

static bool expect_identity(struct attn_relation_work *work, const struct attn_place *at,
                            struct attn_expectation *e)
{
    const uint32_t role = op_of(work)->outputs[at->output].role;
    const struct attn_place projected = place_of(work, at, attn_relation_problem(work)->op, role),
                            attended = place_of(work, at, work->part[1]->problem.op, role);
    e->want = attn_results_read(&work->is[1], &attended);
    e->got = attn_results_read(&work->is[0], &projected);
    e->allowed =
        attn_results_slack(&work->is[1], &attended) + attn_results_slack(&work->is[0], &projected);
    return true;
}

const struct attn_relation attn_relation_identity_projection = {
    .check = ATTN_CHECK_IDENTITY_PROJECTION,
    .parts = 2,
    .by_attention = true,
    .changes = (const uint32_t[]){ATTN_PROJ_E, ATTN_PROJ_F, 0},
    .fits = fits_identity,
    .recast = recast_identity,
    .value = value_identity,
    .expect = expect_identity,
    .exact = attn_relation_never,
};

/* ---- no_denominator ---- */

/* Keys that are added: no whole number of tiles. */
enum { MORE = 19 };

/* A key of zeros has the score 0, and relu(0)^2 weighs 0. Then the new keys may be seen. */
static bool weighs_nothing(const struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    const unsigned traits = ref_score_find(p->score)->traits;
    return p->weight_fn == ATTN_WEIGHT_RELU2 && traits & REF_SCORE_PRODUCT &&
           !(traits & REF_SCORE_PLACES) && !attn_relation_has(work, ATTN_BIAS) &&
           !attn_relation_has(work, ATTN_ALIBI);
}

static bool fits_more(struct attn_relation_work *work)
{
    const struct attn_problem *p = attn_relation_problem(work);
    return attn_relation_weighs(work) && attn_relation_sums(work) && p->sk > 0 &&
           !attn_relation_has(work, ATTN_GLOBAL) && /* it has as many keys as queries */
           !attn_relation_has(work, ATTN_REL_POS) &&
           !attn_relation_flagged(work, ATTN_FLAG_DROPOUT) &&
           !(attn_relation_flagged(work, ATTN_FLAG_OFF_BR) && attn_relation_has(work, ATTN_LEN));
}

static void recast_more(const struct attn_relation_work *work, int part, struct attn_case *c)
{
    (void)part;
    c->off = attn_relation_offset(work, 0);
    c->off_br = false;
    c->sk += MORE;
    if (!weighs_nothing(work) && c->len == ATTN_LEN_NONE)
        c->len = ATTN_LEN_RAND; /* a length for each batch, written by `value` */
}

static double value_more(const struct attn_relation_work *work, int part,
                         const struct attn_tensor *tensor, int64_t at[ATTN_MAX_RANK])
{
    const int64_t keys = attn_relation_problem(work)->sk;
    const int axis = attn_relation_key_axis(tensor->role);
    if (tensor->role == ATTN_LEN && !attn_relation_has(work, ATTN_LEN))
        return (double)keys;
    if (axis >= 0 && at[axis] >= keys) {
        if (tensor->role == ATTN_K && weighs_nothing(work))
            return 0;
        at[axis] %= keys; /* as large as the others, so that the allowance is not wider */
    }
    return attn_relation_value_same(work, part, tensor, at);
}

const struct attn_relation attn_relation_no_denominator = {
    .check = ATTN_CHECK_NO_DENOMINATOR,
    .parts = 1,
    .fits = fits_more,
    .recast = recast_more,
    .value = value_more,
    .expect = attn_relation_expect_same,
    .exact = attn_relation_never,
};
