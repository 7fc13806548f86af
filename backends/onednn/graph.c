/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c - the operator as one partition of oneDNN's Graph API: MatMul, Multiply by the scale, Add
 * of the mask, SoftMax, MatMul.
 *
 * Grouped heads are a fifth axis, [B,Hkv,G,S,D], of extent 1 in k and v, as the library's guide to
 * grouped query attention has it. */
#include <stdio.h>
#include <string.h>

#include <oneapi/dnnl/dnnl_graph.h>

#include "onednn.h"

/* Ids of the logical tensors. The first are operands, in the order of their handles. */
enum { Q, K, V, SCALE, MASK, OUT, OPERANDS, SCORES = OPERANDS, SCALED, MASKED, WEIGHTS, TENSORS };

enum { MAX_INPUTS = OUT, MAX_OPS = 5 };

struct attn_onednn_graph {
    struct attn_onednn_library library;
    dnnl_graph_compiled_partition_t compiled;
    dnnl_graph_logical_tensor_t port[OPERANDS];
    size_t n_inputs;
    int inputs[MAX_INPUTS]; /* which operand each input port is */
    const struct attn_onednn_mask *mask;
    float scale;
    void *scratchpad;
    dnnl_graph_tensor_t scratchpad_tensor;
};

struct attn_onednn_graph_tensors {
    dnnl_graph_tensor_t tensor[OPERANDS];
};

/* What is being built. */
struct draft {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    const struct attn_onednn_mask *mask;
    dnnl_data_type_t type, middle; /* of operands; of scores */
    int grouped;
    dnnl_graph_logical_tensor_t tensor[TENSORS];
    dnnl_graph_graph_t graph;
    dnnl_graph_op_t ops[MAX_OPS];
    int n_ops;
};

static dnnl_status_t declare(struct draft *d, int id, dnnl_data_type_t type, const int64_t *shape,
                             const int64_t *stride)
{
    dnnl_dims_t dims, strides;
    int rank = d->grouped ? 5 : 4;
    for (int a = 0; a < rank; a++) {
        dims[a] = shape[a];
        strides[a] = stride ? stride[a] : 0;
    }
    if (!stride)
        return dnnl_graph_logical_tensor_init_with_dims(&d->tensor[id], (size_t)id, type, rank,
                                                        dims, dnnl_graph_layout_type_strided,
                                                        dnnl_graph_tensor_property_undef);
    return dnnl_graph_logical_tensor_init_with_strides(&d->tensor[id], (size_t)id, type, rank, dims,
                                                       strides, dnnl_graph_tensor_property_undef);
}

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
        return declare(d, id, d->type, extent, stride);
    int64_t members = per_group ? 1 : group;
    const int64_t shape5[5] = {p->b, p->hkv, members, rows, columns};
    const int64_t stride5[5] = {stride[0], members * stride[1], stride[1], stride[2], stride[3]};
    return declare(d, id, d->type, shape5, stride5);
}

static dnnl_status_t declare_scores(struct draft *d, int id, dnnl_data_type_t type)
{
    const struct attn_problem *p = d->problem;
    int64_t group = p->hq / p->hkv;
    const int64_t shape4[4] = {p->b, p->hq, p->sq, p->sk};
    const int64_t shape5[5] = {p->b, p->hkv, group, p->sq, p->sk};
    return declare(d, id, type, d->grouped ? shape5 : shape4, NULL);
}

static dnnl_status_t declare_mask(struct draft *d)
{
    const struct attn_onednn_mask *m = d->mask;
    const struct attn_problem *p = d->problem;
    int per_head = m->h > 1;
    const int64_t shape4[4] = {m->b, m->h, m->i, p->sk};
    const int64_t shape5[5] = {m->b, per_head ? p->hkv : 1, per_head ? p->hq / p->hkv : 1, m->i,
                               p->sk};
    return declare(d, MASK, d->middle, d->grouped ? shape5 : shape4, NULL);
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
    return status ? status
                  : dnnl_graph_logical_tensor_init_with_dims(&d->tensor[SCALE], SCALE, d->middle, 1,
                                                             one, dnnl_graph_layout_type_strided,
                                                             dnnl_graph_tensor_property_undef);
}

/* One operation of one or two inputs; b < 0: one. */
static dnnl_status_t add_op(struct draft *d, dnnl_graph_op_kind_t kind, const char *name, int a,
                            int b, int to)
{
    dnnl_graph_op_t op;
    const uint8_t yes = 1;
    const int64_t last = -1;
    dnnl_status_t status =
        dnnl_graph_op_create(&op, (size_t)TENSORS + (size_t)d->n_ops, kind, name);
    if (status)
        return status;
    d->ops[d->n_ops++] = op;
    status = dnnl_graph_op_add_input(op, &d->tensor[a]);
    if (!status && b >= 0)
        status = dnnl_graph_op_add_input(op, &d->tensor[b]);
    if (!status && b == K)
        status = dnnl_graph_op_set_attr_bool(op, dnnl_graph_op_attr_transpose_b, &yes, 1);
    if (!status && kind == dnnl_graph_op_softmax)
        status = dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_axis, &last, 1);
    status = status ? status : dnnl_graph_op_add_output(op, &d->tensor[to]);
    return status ? status : dnnl_graph_add_op(d->graph, op);
}

static dnnl_status_t add_ops(struct draft *d)
{
    int masked = d->mask->needed;
    dnnl_status_t status = add_op(d, dnnl_graph_op_matmul, "scores", Q, K, SCORES);
    status = status ? status : add_op(d, dnnl_graph_op_multiply, "scale", SCORES, SCALE, SCALED);
    if (masked && !status)
        status = add_op(d, dnnl_graph_op_add, "mask", SCALED, MASK, MASKED);
    status =
        status ? status
               : add_op(d, dnnl_graph_op_softmax, "weights", masked ? MASKED : SCALED, -1, WEIGHTS);
    status = status ? status : add_op(d, dnnl_graph_op_matmul, "out", WEIGHTS, V, OUT);
    status = status ? status : dnnl_graph_graph_finalize(d->graph);
    return status ? status : dnnl_graph_graph_filter(d->graph, dnnl_graph_partition_policy_fusion);
}

/* The one partition, or NULL where the library makes none or several. */
static dnnl_graph_partition_t only_partition(struct draft *d)
{
    dnnl_graph_partition_t parts[MAX_OPS];
    size_t n = 0;
    uint8_t supported = 0;
    if (dnnl_graph_graph_get_partition_num(d->graph, &n) || n == 0 || n > MAX_OPS ||
        dnnl_graph_graph_get_partitions(d->graph, n, parts))
        return NULL;
    if (n == 1 && !dnnl_graph_partition_is_supported(parts[0], &supported) && supported)
        return parts[0];
    for (size_t i = 0; i < n; i++)
        dnnl_graph_partition_destroy(parts[i]);
    return NULL;
}

static dnnl_status_t compile(struct attn_onednn_graph *g, struct draft *d,
                             dnnl_graph_partition_t partition)
{
    dnnl_graph_logical_tensor_t ports[MAX_INPUTS];
    const dnnl_graph_logical_tensor_t *in[MAX_INPUTS], *out = &d->tensor[OUT];
    size_t n_outputs = 0;
    dnnl_status_t status = dnnl_graph_partition_get_input_ports_num(partition, &g->n_inputs);
    status = status ? status : dnnl_graph_partition_get_output_ports_num(partition, &n_outputs);
    if (status || g->n_inputs > MAX_INPUTS || n_outputs != 1)
        return status ? status : dnnl_unimplemented;
    status = dnnl_graph_partition_get_input_ports(partition, g->n_inputs, ports);
    for (size_t n = 0; n < g->n_inputs && !status; n++) {
        if (ports[n].id >= MAX_INPUTS)
            return dnnl_unimplemented;
        g->inputs[n] = (int)ports[n].id;
        in[n] = &d->tensor[ports[n].id];
    }
    status = status ? status : dnnl_graph_compiled_partition_create(&g->compiled, partition);
    status = status ? status
                    : dnnl_graph_partition_compile(partition, g->compiled, g->n_inputs, in, 1, &out,
                                                   g->library.engine);
    memcpy(g->port, d->tensor, sizeof(g->port));
    return status;
}

/* Memory for the partition's intermediate results, where the library lets us bring it. */
static dnnl_status_t reserve(struct attn_onednn_graph *g)
{
#ifdef ATTNBENCH_ONEDNN_SCRATCHPAD
    const struct attn_services *s = g->library.services;
    dnnl_graph_logical_tensor_t pad;
    size_t bytes = 0;
    dnnl_status_t status =
        dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(g->compiled, &pad);
    status = status ? status : dnnl_graph_logical_tensor_get_mem_size(&pad, &bytes);
    if (status || bytes == 0)
        return status;
    g->scratchpad = s->alloc(s->context, bytes, 64);
    if (!g->scratchpad)
        return dnnl_out_of_memory;
    return dnnl_graph_tensor_create(&g->scratchpad_tensor, &pad, g->library.engine, g->scratchpad);
#else
    (void)g;
    return dnnl_success;
#endif
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

static dnnl_status_t draw_and_compile(struct attn_onednn_graph *g, struct draft *d)
{
    dnnl_graph_partition_t partition = NULL;
    dnnl_status_t status = declare_all(d);
    status = status ? status
                    : dnnl_graph_graph_create_with_fpmath_mode(&d->graph, dnnl_cpu,
                                                               dnnl_fpmath_mode_strict);
    status = status ? status : add_ops(d);
    if (!status)
        partition = only_partition(d);
    if (!status)
        status = partition ? compile(g, d, partition) : dnnl_unimplemented;
    if (partition)
        dnnl_graph_partition_destroy(partition);
    for (int n = 0; n < d->n_ops; n++)
        dnnl_graph_op_destroy(d->ops[n]);
    if (d->graph)
        dnnl_graph_graph_destroy(d->graph);
    return status;
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
    if (broadcasts(problem, operands)) {
        snprintf(why, size, "an operand is broadcast, which the Graph API has no layout for");
        return ATTN_UNSUPPORTED;
    }
    struct attn_onednn_graph *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a plan of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_graph){.library = *library, .mask = mask};
    attn_element_write(narrow ? problem->dtype : ATTN_F32, &made->scale, 0, (float)problem->scale);
    dnnl_status_t status = draw_and_compile(made, &draft);
    status = status ? status : reserve(made);
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
    const struct attn_services *s = graph->library.services;
    if (graph->scratchpad_tensor)
        dnnl_graph_tensor_destroy(graph->scratchpad_tensor);
    if (graph->compiled)
        dnnl_graph_compiled_partition_destroy(graph->compiled);
    if (graph->scratchpad)
        s->free(s->context, graph->scratchpad);
    s->free(s->context, graph);
}

int attn_onednn_graph_bind(struct attn_onednn_graph *graph, const struct attn_operands *operands,
                           struct attn_onednn_graph_tensors **tensors, char *why, size_t size)
{
    const struct attn_services *s = graph->library.services;
    void *handles[OPERANDS] = {
        [Q] = operands->q.data,  [K] = operands->k.data,     [V] = operands->v.data,
        [SCALE] = &graph->scale, [MASK] = graph->mask->data, [OUT] = operands->out.data};
    struct attn_onednn_graph_tensors *made = s->alloc(s->context, sizeof(*made), 64);
    if (!made) {
        snprintf(why, size, "no memory for a binding of %zu bytes", sizeof(*made));
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_onednn_graph_tensors){0};
    for (int id = 0; id < OPERANDS; id++) {
        if (id == MASK && !graph->mask->needed)
            continue;
        if (dnnl_graph_tensor_create(&made->tensor[id], &graph->port[id], graph->library.engine,
                                     handles[id])) {
            snprintf(why, size, "the library refuses an operand's memory");
            attn_onednn_graph_release(graph, made);
            return ATTN_FAILED;
        }
    }
    *tensors = made;
    return ATTN_OK;
}

int attn_onednn_graph_run(struct attn_onednn_graph *graph,
                          struct attn_onednn_graph_tensors *tensors, char *why, size_t size)
{
    const_dnnl_graph_tensor_t in[MAX_INPUTS], out = tensors->tensor[OUT];
    for (size_t n = 0; n < graph->n_inputs; n++)
        in[n] = tensors->tensor[graph->inputs[n]];
#ifdef ATTNBENCH_ONEDNN_SCRATCHPAD
    dnnl_status_t status = dnnl_graph_compiled_partition_execute_v2(
        graph->compiled, graph->library.stream, graph->n_inputs, in, 1, &out,
        graph->scratchpad_tensor);
#else
    dnnl_status_t status = dnnl_graph_compiled_partition_execute(
        graph->compiled, graph->library.stream, graph->n_inputs, in, 1, &out);
#endif
    status = status ? status : dnnl_stream_wait(graph->library.stream);
    if (!status)
        return ATTN_OK;
    snprintf(why, size, "oneDNN could not execute the partition (status %d)", (int)status);
    return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
}

void attn_onednn_graph_release(struct attn_onednn_graph *graph,
                               struct attn_onednn_graph_tensors *tensors)
{
    const struct attn_services *s = graph->library.services;
    for (int id = 0; id < OPERANDS; id++)
        if (tensors->tensor[id])
            dnnl_graph_tensor_destroy(tensors->tensor[id]);
    s->free(s->context, tensors);
}
