/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - the operator as one partition of oneDNN's Graph API: MatMul, Multiply by the scale, Add
 * of the mask, SoftMax, MatMul. */
#include <stdio.h>

#include "partition.h"

/* Ids of the logical tensors. The first are operands, in the order of their handles. */
enum { Q, K, V, SCALE, MASK, OUT, OPERANDS, SCORES = ATTN_ONEDNN_PORTS, SCALED, MASKED, WEIGHTS };

struct attn_onednn_graph {
    struct attn_onednn_partition partition;
    const struct attn_onednn_mask *mask;
    float scale;
};

struct attn_onednn_graph_tensors {
    struct attn_onednn_partition_tensors tensors;
};

/* Logical tensors; scores are of type `middle`. */
static dnnl_status_t declare_all(struct attn_onednn_draft *d, const struct attn_operands *o,
                                 const struct attn_onednn_mask *mask, dnnl_data_type_t middle)
{
    const struct attn_problem *p = d->problem;
    dnnl_status_t status = attn_onednn_draft_operand(d, Q, &o->q, 0, p->sq, p->dk);
    status = status ? status : attn_onednn_draft_operand(d, K, &o->k, 1, p->sk, p->dk);
    status = status ? status : attn_onednn_draft_operand(d, V, &o->v, 1, p->sk, p->dv);
    status = status ? status : attn_onednn_draft_operand(d, OUT, &o->out, 0, p->sq, p->dv);
    for (int id = SCORES; id <= WEIGHTS && !status; id++)
        status = attn_onednn_draft_middle(
            d, id, id == WEIGHTS ? attn_onednn_type(p->dtype) : middle, p->sq, p->sk);
    status = status ? status : attn_onednn_draft_mask(d, MASK, middle, mask);
    return status ? status : attn_onednn_draft_scale(d, SCALE, middle);
}

static dnnl_status_t make(struct attn_onednn_graph *g, const struct attn_problem *p,
                          const struct attn_operands *operands, dnnl_data_type_t middle)
{
    const int masked = g->mask->needed;
    struct attn_onednn_draft draft = {.problem = p};
    const struct attn_onednn_op ops[] = {
        {.kind = dnnl_graph_op_matmul,
         .a = Q,
         .b = K,
         .to = SCORES,
         .transposed = dnnl_graph_op_attr_transpose_b},
        {.kind = dnnl_graph_op_multiply, .a = SCORES, .b = SCALE, .to = SCALED},
        {.kind = dnnl_graph_op_add, .a = SCALED, .b = MASK, .to = MASKED, .left_out = !masked},
        {.kind = dnnl_graph_op_softmax, .a = masked ? MASKED : SCALED, .b = -1, .to = WEIGHTS},
        {.kind = dnnl_graph_op_matmul, .a = WEIGHTS, .b = V, .to = OUT},
    };
    const dnnl_status_t status = declare_all(&draft, operands, g->mask, middle);
    return status ? status
                  : attn_onednn_partition_make(&g->partition, &draft, ops,
                                               sizeof(ops) / sizeof(ops[0]));
}

/* A stride of 0 where there is more than one element: the library's layouts have no broadcasting.
 */
static int broadcasts(const struct attn_problem *p, const struct attn_operands *operands)
{
    const int64_t extents[3][4] = {
        {p->b, p->hq, p->sq, p->dk}, {p->b, p->hkv, p->sk, p->dk}, {p->b, p->hkv, p->sk, p->dv}};
    const uint32_t roles[3] = {ATTN_Q, ATTN_K, ATTN_V};
    for (int t = 0; t < 3; t++)
        for (int a = 0; a < 4; a++)
            if (extents[t][a] > 1 && attn_operands_find(operands, roles[t])->stride[a] == 0)
                return 1;
    return 0;
}

int attn_onednn_graph_create(const struct attn_onednn_library *library,
                             const struct attn_problem *problem,
                             const struct attn_operands *operands,
                             const struct attn_onednn_mask *mask, int narrow,
                             struct attn_onednn_graph **graph, char *why, size_t size)
{
    const struct attn_services *s = library->services;
    if (broadcasts(problem, operands)) {
        snprintf(why, size, "an operand is broadcast, which the Graph API has no layout for");
        return ATTN_UNSUPPORTED;
    }
    struct attn_onednn_graph *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_graph){.partition.library = *library, .mask = mask};
    attn_element_write(narrow ? problem->dtype : ATTN_F32, &made->scale, 0, (float)problem->scale);
    const dnnl_status_t status =
        make(made, problem, operands, narrow ? attn_onednn_type(problem->dtype) : dnnl_f32);
    if (!status) {
        *graph = made;
        return ATTN_OK;
    }
    snprintf(why, size, "oneDNN does not make one partition of this problem (status %d)",
             (int)status);
    attn_onednn_graph_destroy(made);
    return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_UNSUPPORTED;
}

void attn_onednn_graph_destroy(struct attn_onednn_graph *graph)
{
    const struct attn_services *s = graph->partition.library.services;
    attn_onednn_partition_free(&graph->partition);
    s->free(s->context, graph);
}

int attn_onednn_graph_bind(struct attn_onednn_graph *graph, const struct attn_operands *operands,
                           struct attn_onednn_graph_tensors **tensors, char *why, size_t size)
{
    const struct attn_services *s = graph->partition.library.services;
    void *const handles[OPERANDS] = {
        [Q] = operands->q.data,  [K] = operands->k.data,     [V] = operands->v.data,
        [SCALE] = &graph->scale, [MASK] = graph->mask->data, [OUT] = operands->out.data};
    struct attn_onednn_graph_tensors *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_graph_tensors){0};
    if (!attn_onednn_partition_bind(&graph->partition, handles, &made->tensors)) {
        *tensors = made;
        return ATTN_OK;
    }
    snprintf(why, size, "the library refuses an operand's memory");
    attn_onednn_graph_release(graph, made);
    return ATTN_FAILED;
}

int attn_onednn_graph_run(struct attn_onednn_graph *graph,
                          struct attn_onednn_graph_tensors *tensors, char *why, size_t size)
{
    return attn_onednn_partition_run(&graph->partition, &tensors->tensors, why, size);
}

void attn_onednn_graph_release(struct attn_onednn_graph *graph,
                               struct attn_onednn_graph_tensors *tensors)
{
    const struct attn_services *s = graph->partition.library.services;
    attn_onednn_partition_release(&tensors->tensors);
    s->free(s->context, tensors);
}
