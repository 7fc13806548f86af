/* SPDX-License-Identifier: Apache-2.0 */
/* problem.c - the problem of a case, and whether the reference takes it. */
#include <string.h>

#include "case/operator.h"
#include "reference/reference.h"

void attn_case_set_problem(const struct attn_case *c, struct attn_problem *problem)
{
    problem->struct_size = sizeof *problem;
    problem->op = c->op;
    problem->score = c->score;
    problem->dtype = c->dtype;
    problem->flags = (c->causal ? ATTN_FLAG_CAUSAL : 0) | (c->window ? ATTN_FLAG_WINDOW : 0) |
                     (c->off_br ? ATTN_FLAG_OFF_BR : 0) | (c->softcap > 0 ? ATTN_FLAG_SOFTCAP : 0) |
                     (c->dropout ? ATTN_FLAG_DROPOUT : 0) | (c->residual ? ATTN_FLAG_RESIDUAL : 0);
    problem->b = c->b;
    problem->hq = c->hq;
    problem->hkv = c->hkv;
    problem->sq = c->sq;
    problem->sk = c->sk;
    problem->dq = c->dq;
    problem->dk = c->dk;
    problem->dv = c->dv;
    problem->dh = attn_case_score(c)->hidden ? c->dh : 0;
    problem->scale = c->scale;
    problem->softcap = c->softcap;
    problem->off = c->off;
    problem->window_left = c->window ? c->window_left : 0;
    problem->window_right = c->window ? c->window_right : 0;
    problem->dropout_p = c->dropout ? c->dropout_p : 0;
    problem->dropout_seed = c->seed;
    attn_case_set_fields(c, problem);
}

/* A tensor without data. Its strides say only which axes are broadcast. */
static void add(struct attn_problem *problem, struct attn_tensor *tensors, uint32_t role,
                const char *axes, uint32_t dtype, struct attn_drawn drawn,
                const struct ref_shape *shape)
{
    struct attn_tensor *tensor = &tensors[problem->n_tensors++];
    *tensor =
        (struct attn_tensor){.role = role, .dtype = dtype, .space = ATTN_HOST, .rank = drawn.rank};
    for (uint32_t a = 0; a < drawn.rank; a++) {
        tensor->shape[a] = ref_extent(shape, axes[a]);
        tensor->stride[a] = drawn.one >> a & 1 ? 0 : 1;
    }
}

bool attn_case_is_problem(const struct attn_case *c, char *why, size_t size)
{
    const struct ref_op *op = attn_case_op(c);
    const struct ref_operand *row;
    struct attn_tensor tensors[REF_ROLES];
    struct attn_problem problem = {.tensors = tensors};
    struct ref_shape shape;
    struct attn_drawn drawn;
    attn_case_shape(c, &shape);
    attn_case_set_problem(c, &problem);
    for (size_t n = 0; (row = ref_operand_at(op, n)); n++)
        if (attn_case_draws(c, row, &drawn))
            add(&problem, tensors, row->role, row->shape, attn_type_drawn(c, row->type), drawn,
                &shape);
    for (const struct ref_output *o = op->outputs; o->role; o++)
        if (attn_case_gives(c, o))
            add(&problem, tensors, o->role, o->shape, attn_type_drawn(c, o->type),
                (struct attn_drawn){(uint32_t)strlen(o->shape), 0}, &shape);
    return ref_check_problem(&problem, why, size) == ATTN_OK;
}
