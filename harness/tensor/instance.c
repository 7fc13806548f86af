/* SPDX-License-Identifier: Apache-2.0 */
/* instance.c - from a case to the ABI problem and its operands. */
#include "tensor/instance.h"

#include <stdio.h>
#include <stdlib.h>

#include "reference/dtype.h"
#include "tensor/fill.h"
#include "tensor/operand.h"

int attn_instance_begin(const struct attn_case *c, struct attn_instance **out, char *why,
                        size_t size)
{
    struct attn_instance *instance = calloc(1, sizeof *instance);
    if (instance == NULL || attn_case_copy(&instance->c, c) != 0) {
        free(instance);
        snprintf(why, size, "no memory");
        return -1;
    }
    instance->problem.tensors = instance->tensors;
    *out = instance;
    return 0;
}

static void set_scalars(const struct attn_case *c, struct attn_problem *problem)
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
    problem->dh = c->score == ATTN_SCORE_ADDITIVE ? c->dh : 0;
    problem->scale = c->scale;
    problem->softcap = c->softcap;
    problem->off = c->off;
    problem->window_left = c->window ? c->window_left : 0;
    problem->window_right = c->window ? c->window_right : 0;
    problem->dropout_p = c->dropout ? c->dropout_p : 0;
    problem->dropout_seed = c->seed;
}

void attn_instance_set_problem(struct attn_instance *instance)
{
    const struct attn_case *c = &instance->c;
    const bool random = c->fill == ATTN_FILL_NORMAL || c->fill == ATTN_FILL_UNIFORM ||
                        c->fill == ATTN_FILL_ROUNDING;
    set_scalars(c, &instance->problem);
    instance->kind = random && c->data == NULL ? REF_FILL_GENERIC : REF_FILL_STRUCTURED;
}

/* What an input needs beyond the case's sizes to be made. */
struct wish {
    uint32_t role;
    bool wanted;
    unsigned broadcast;
};

int attn_instance_draw(struct attn_instance *instance, int threads, char *why, size_t size)
{
    const struct attn_case *c = &instance->c;
    const bool mha = c->op == ATTN_OP_MHA, attention = !mha;
    const bool bilinear = c->score == ATTN_SCORE_BILINEAR;
    const bool additive = c->score == ATTN_SCORE_ADDITIVE;
    const unsigned params = c->params_head ? 0 : ATTN_AXIS_B;
    const unsigned shared = c->view & ATTN_VIEW_BROADCAST ? ATTN_AXIS_B : 0;
    const struct wish wishes[] = {
        {ATTN_Q, attention, 0},
        {ATTN_K, attention, shared},
        {ATTN_V, attention, shared},
        {ATTN_X_Q, mha, 0},
        {ATTN_X_K, mha && c->cross, shared},
        {ATTN_W_Q, mha, 0},
        {ATTN_W_K, mha, 0},
        {ATTN_W_V, mha, 0},
        {ATTN_W_O, mha && c->wo, 0},
        {ATTN_B_Q, mha && c->proj_bias, 0},
        {ATTN_B_K, mha && c->proj_bias, 0},
        {ATTN_B_V, mha && c->proj_bias, 0},
        {ATTN_B_O, mha && c->proj_bias && c->wo, 0},
        {ATTN_SCORE_M, bilinear, params},
        {ATTN_SCORE_WQ, additive, params},
        {ATTN_SCORE_WK, additive, params},
        {ATTN_SCORE_WV, additive, params},
        {ATTN_MASK, c->mask_bool, ATTN_AXES_ALL & ~c->mask_axes},
        {ATTN_BIAS, c->bias_normal, ATTN_AXES_ALL & ~c->bias_axes},
        {ATTN_LEN, c->len != ATTN_LEN_NONE, 0},
        {ATTN_ALIBI, c->alibi, 0},
        {ATTN_SINK, c->sink, 0},
        {ATTN_HEAD_MASK, mha && c->n_prune > 0, 0},
    };
    int64_t extents[ATTN_EXT_COUNT];
    if (attn_extents_of_case(c, extents) != 0) {
        snprintf(why, size, "the sizes of the projections overflow");
        return -1;
    }
    for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++) {
        if (!wishes[w].wanted)
            continue;
        const struct attn_schema *schema = attn_schema_of_role(c->op, wishes[w].role);
        uint32_t dtype = c->dtype, rank = schema->rank;
        if (schema->type == ATTN_TYPE_WIDE && dtype != ATTN_F64)
            dtype = ATTN_F32;
        else if (schema->type == ATTN_TYPE_BOOL)
            dtype = ATTN_BOOL;
        else if (schema->type == ATTN_TYPE_INDEX)
            dtype = ATTN_I32;
        if (wishes[w].role == ATTN_LEN && c->len != ATTN_LEN_RAND_2D)
            rank = 1;
        const struct attn_operand_form form = {schema, rank, dtype, wishes[w].broadcast};
        const struct attn_tensor *tensor = attn_operand_add(instance, &form, extents, why, size);
        if (tensor == NULL || attn_operand_draw(c, tensor, threads, why, size) != 0)
            return -1;
    }
    if (attn_fill_craft(instance, threads, why, size) != 0)
        return -1;
    return attn_operand_add_outputs(instance, extents, why, size);
}

/* Multiply-adds of projections whose widths are not the case's e (packs alone have such). */
static double odd_width_flops(const struct attn_problem *p, int64_t e)
{
    const struct attn_tensor *w_k = attn_tensor_find(p, ATTN_W_K);
    const struct attn_tensor *w_v = attn_tensor_find(p, ATTN_W_V);
    const struct attn_tensor *w_o = attn_tensor_find(p, ATTN_W_O);
    double extra = 0;
    if (w_k != NULL)
        extra += (double)(p->sk * (w_k->shape[1] - e)) * (double)w_k->shape[0];
    if (w_v != NULL)
        extra += (double)(p->sk * (w_v->shape[1] - e)) * (double)w_v->shape[0];
    if (w_o != NULL)
        extra += (double)(p->sq * (w_o->shape[0] - e)) * (double)w_o->shape[1];
    return 2.0 * (double)p->b * extra;
}

void attn_instance_count(struct attn_instance *instance)
{
    instance->nnz = ref_count_allowed(&instance->problem);
    instance->flops = attn_case_flops(&instance->c, instance->nnz) +
                      odd_width_flops(&instance->problem, instance->c.e);
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++) {
        const struct attn_tensor *tensor = &instance->tensors[t];
        instance->bytes += (uint64_t)attn_operand_count(tensor) * attn_dtype_size(tensor->dtype);
    }
}

void attn_instance_free(struct attn_instance *instance)
{
    if (instance == NULL)
        return;
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++)
        attn_operand_free(&instance->operands[t]);
    free(instance->expected.out);
    free(instance->expected.lse);
    free(instance->expected.weights);
    free(instance->expected.scores);
    for (int64_t t = 0; instance->tokens != NULL && t < instance->c.b * instance->n_tokens; t++)
        free(instance->tokens[t]);
    free(instance->tokens);
    free(instance->source);
    attn_case_free(&instance->c);
    free(instance);
}
