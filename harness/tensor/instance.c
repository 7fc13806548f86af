/* SPDX-License-Identifier: Apache-2.0 */
/* instance.c - from a case to the ABI problem and its operands. */
#include "tensor/instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void attn_instance_set_problem(struct attn_instance *instance)
{
    const struct attn_case *c = &instance->c;
    /* Crafted weights of projections repeat columns of x. */
    const bool random = c->fill == ATTN_FILL_NORMAL || c->fill == ATTN_FILL_UNIFORM ||
                        c->fill == ATTN_FILL_SMOOTH ||
                        (c->fill == ATTN_FILL_ROUNDING && !ref_op_is(c->op, REF_PROJECTED));
    attn_case_set_problem(c, &instance->problem);
    instance->kind = random && c->data == NULL ? REF_FILL_GENERIC : REF_FILL_STRUCTURED;
    instance->given = attn_case_op(c)->untied && c->data == NULL &&
                      attn_case_op(c)->untied(attn_fill_name(c->fill));
}

/* How the inputs of an instance get their values. */
struct source {
    const struct attn_instance *like; /* copied where it fits; NULL: nothing is */
    int threads;
    bool blank; /* the caller writes them */
};

/* Copies an input that is drawn alike under either fill. False: it must be drawn. */
static bool copy_like(const struct attn_case *c, const struct attn_instance *like,
                      const struct attn_tensor *tensor)
{
    const struct attn_tensor *from = like ? attn_tensor_find(&like->problem, tensor->role) : NULL;
    if (!from || from->dtype != tensor->dtype || from->rank != tensor->rank ||
        like->c.fill != ATTN_FILL_NORMAL || like->c.seed != c->seed || c->data ||
        c->fill < ATTN_FILL_CENSUS || c->fill == ATTN_FILL_FEW_QUERIES ||
        c->view & ATTN_VIEW_HUGE || attn_case_op(c)->fills || attn_fill_makes(c, tensor->role))
        return false;
    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        if (from->shape[axis] != tensor->shape[axis] || from->stride[axis] != tensor->stride[axis])
            return false;
    memcpy(tensor->data, from->data, attn_tensor_span(tensor));
    return true;
}

int attn_instance_derive(struct attn_instance *instance, int threads, char *why, size_t size)
{
    const struct attn_case *c = &instance->c;
    const struct ref_op *op = attn_case_op(c);
    if (!op->derive || op->derive(&instance->problem, attn_fill_name(c->fill), threads) == ATTN_OK)
        return 0;
    snprintf(why, size, "no memory for inputs that follow from others");
    return -1;
}

/* What is made of inputs that were drawn. */
static int finish_inputs(struct attn_instance *instance, int threads, char *why, size_t size)
{
    return attn_fill_craft(instance, threads, why, size) == 0
               ? attn_instance_derive(instance, threads, why, size)
               : -1;
}

static int make_inputs(struct attn_instance *instance, const struct ref_shape *shape,
                       const struct source *source, char *why, size_t size)
{
    const struct attn_case *c = &instance->c;
    const struct ref_op *op = attn_case_op(c);
    const unsigned shared = c->view & ATTN_VIEW_BROADCAST ? 1 : 0;
    struct attn_schema schema;
    for (size_t n = 0; attn_schema_at(op, n, &schema) && !schema.output; n++) {
        struct attn_drawn drawn;
        if (!attn_case_draws(c, ref_operand_at(op, n), &drawn))
            continue;
        const struct attn_operand_form form = {
            .schema = &schema,
            .rank = drawn.rank,
            .dtype = attn_type_drawn(c, schema.type),
            .broadcast = drawn.one | (attn_schema_is_shared(&schema) ? shared : 0)};
        const struct attn_tensor *tensor = attn_operand_add(instance, &form, shape, why, size);
        if (tensor == NULL)
            return -1;
        if (!source->blank && !copy_like(c, source->like, tensor) &&
            attn_operand_draw(c, tensor, source->threads, why, size) != 0)
            return -1;
    }
    return source->blank ? 0 : finish_inputs(instance, source->threads, why, size);
}

static int make_operands(struct attn_instance *instance, const struct source *source, char *why,
                         size_t size)
{
    struct ref_shape shape;
    if (!attn_case_shape(&instance->c, &shape)) {
        snprintf(why, size, "the sizes of the projections overflow");
        return -1;
    }
    return make_inputs(instance, &shape, source, why, size) == 0
               ? attn_operand_add_outputs(instance, &shape, why, size)
               : -1;
}

int attn_instance_draw(struct attn_instance *instance, const struct attn_instance *like,
                       int threads, char *why, size_t size)
{
    const struct source source = {.like = like, .threads = threads};
    return make_operands(instance, &source, why, size);
}

int attn_instance_lay_out(struct attn_instance *instance, char *why, size_t size)
{
    return make_operands(instance, &(struct source){.blank = true}, why, size);
}

void attn_instance_count(struct attn_instance *instance)
{
    const struct ref_op *op = attn_case_op(&instance->c);
    struct ref_shape shape;
    ref_shape_of_problem(op, &instance->problem, &shape);
    instance->nnz = op->cells                  ? op->cells(&instance->problem)
                    : op->traits & REF_SOFTMAX ? ref_count_allowed(&instance->problem)
                                               : 0;
    instance->flops = op->flops(&shape, (double)instance->nnz);
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++) {
        const struct attn_tensor *tensor = &instance->tensors[t];
        instance->bytes += (uint64_t)attn_operand_count(tensor) * attn_dtype_size(tensor->dtype);
    }
}

bool attn_instance_is_ambiguous(const struct attn_instance *instance, char *why, size_t size)
{
    const struct ref_op *op = ref_op_find(instance->problem.op);
    return op->ambiguous && op->ambiguous(&instance->problem, why, size);
}

void attn_instance_free(struct attn_instance *instance)
{
    if (instance == NULL)
        return;
    for (uint32_t t = 0; t < instance->problem.n_tensors; t++)
        attn_operand_free(&instance->operands[t]);
    for (int o = 0; o < REF_OUTPUTS; o++)
        free(instance->expected.output[o]);
    free(instance->expected.scores);
    for (int64_t t = 0; instance->tokens != NULL && t < instance->c.b * instance->n_tokens; t++)
        free(instance->tokens[t]);
    free(instance->tokens);
    free(instance->source);
    attn_case_free(&instance->c);
    free(instance);
}
