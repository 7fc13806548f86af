/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - the operator as one partition of oneDNN's Graph API: MatMul, Multiply by the scale, Add
 * of the mask, SoftMax, MatMul.
 *
 * Grouped heads are a fifth axis, [B,Hkv,G,S,D], of extent 1 in k and v, as the library's guide to
 * grouped query attention has it. */
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

/* What is being built. */
struct draft {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    const struct attn_onednn_mask *mask;
    dnnl_data_type_t type, middle; /* of operands; of scores */
    int grouped;
    struct attn_onednn_draft drawn;
};

/* An operand [B,H,rows,columns]; per_group: its heads are those of k and v. */
static dnnl_status_t declare_operand(struct draft *d, int id, uint32_t role, int per_group,
                                     int64_t rows, int64_t columns)
{
    const struct attn_problem *p = d->problem;
    const struct attn_tensor *view = attn_operands_find(d->operands, role);
    int64_t group = p->hq / p->hkv, heads = per_group ? p->hkv : p->hq;
    int64_t dense[4] = {heads * rows * columns, rows * columns, columns, 1}, stride[4];
    const int64_t extent[4] = {p->b, heads, rows, columns};
    for (int a = 0; a < 4; a++)
        stride[a] = extent[a] > 1 ? view->stride[a] : dense[a];
    if (!d->grouped)
        return attn_onednn_draft_tensor(&d->drawn, id, d->type, extent, stride);
    int64_t members = per_group ? 1 : group;
    const int64_t shape5[5] = {p->b, p->hkv, members, rows, columns};
    const int64_t stride5[5] = {stride[0], members * stride[1], stride[1], stride[2], stride[3]};
    return attn_onednn_draft_tensor(&d->drawn, id, d->type, shape5, stride5);
}

static dnnl_status_t declare_scores(struct draft *d, int id, dnnl_data_type_t type)
{
    const struct attn_problem *p = d->problem;
    int64_t group = p->hq / p->hkv;
    const int64_t shape4[4] = {p->b, p->hq, p->sq, p->sk};
    const int64_t shape5[5] = {p->b, p->hkv, group, p->sq, p->sk};
    return attn_onednn_draft_tensor(&d->drawn, id, type, d->grouped ? shape5 : shape4, NULL);
}

static dnnl_status_t declare_mask(struct draft *d)
{
    const struct attn_onednn_mask *m = d->mask;
    const struct attn_problem *p = d->problem;
    int per_head = m->h > 1;
    const int64_t shape4[4] = {m->b, m->h, m->i, p->sk};
    const int64_t shape5[5] = {m->b, per_head ? p->hkv : 1, per_head ? p->hq / p->hkv : 1, m->i,
                               p->sk};
    return attn_onednn_draft_tensor(&d->drawn, MASK, d->middle, d->grouped ? shape5 : shape4, NULL);
}

static dnnl_status_t declare_all(struct draft *d)
{
    const struct attn_problem *p = d->problem;
    const dnnl_dims_t one = {1};
    dnnl_status_t status = declare_operand(d, Q, ATTN_Q, 0, p->sq, p->dk);
    status = status ? status : declare_operand(d, K, ATTN_K, 1, p->sk, p->dk);
    status = status ? status : declare_operand(d, V, ATTN_V, 1, p->sk, p->dv);
    status = status ? status : declare_operand(d, OUT, ATTN_OUT, 0, p->sq, p->dv);
    status = status ? status : declare_scores(d, SCORES, d->middle);
    status = status ? status : declare_scores(d, SCALED, d->middle);
    status = status ? status : declare_scores(d, MASKED, d->middle);
    status = status ? status : declare_scores(d, WEIGHTS, d->type);
    status = status ? status : declare_mask(d);
    return status
               ? status
               : dnnl_graph_logical_tensor_init_with_dims(&d->drawn.tensor[SCALE], SCALE, d->middle,
                                                          1, one, dnnl_graph_layout_type_strided,
                                                          dnnl_graph_tensor_property_undef);
}

static dnnl_status_t make(struct attn_onednn_graph *g, struct draft *d)
{
    const int masked = d->mask->needed;
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
    const dnnl_status_t status = declare_all(d);
    return status ? status
                  : attn_onednn_partition_make(&g->partition, &d->drawn, ops,
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
    struct draft draft = {.problem = problem,
                          .operands = operands,
                          .mask = mask,
                          .type = attn_onednn_type(problem->dtype),
                          .grouped = problem->hq != problem->hkv};
    draft.middle = narrow ? draft.type : dnnl_f32;
    draft.drawn.rank = draft.grouped ? 5 : 4;
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
    const dnnl_status_t status = make(made, &draft);
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
