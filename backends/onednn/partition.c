/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c - one partition of oneDNN's Graph API. */
#include "partition.h"

#include <stdio.h>
#include <string.h>

static int grouped(const struct attn_onednn_draft *d)
{
    return d->problem->hq != d->problem->hkv;
}

/* A logical tensor; stride NULL: dense. */
static dnnl_status_t declare(struct attn_onednn_draft *d, int id, dnnl_data_type_t type,
                             const int64_t *shape, const int64_t *stride)
{
    dnnl_dims_t dims, strides;
    const int rank = grouped(d) ? 5 : 4;
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

dnnl_status_t attn_onednn_draft_operand(struct attn_onednn_draft *draft, int id,
                                        const struct attn_tensor *view, int per_group, int64_t rows,
                                        int64_t columns)
{
    const struct attn_problem *p = draft->problem;
    const dnnl_data_type_t type = attn_onednn_type(p->dtype);
    int64_t group = p->hq / p->hkv, heads = per_group ? p->hkv : p->hq;
    int64_t dense[4] = {heads * rows * columns, rows * columns, columns, 1}, stride[4];
    const int64_t extent[4] = {p->b, heads, rows, columns};
    for (int a = 0; a < 4; a++)
        stride[a] = extent[a] > 1 ? view->stride[a] : dense[a];
    if (!grouped(draft))
        return declare(draft, id, type, extent, stride);
    int64_t members = per_group ? 1 : group;
    const int64_t shape5[5] = {p->b, p->hkv, members, rows, columns};
    const int64_t stride5[5] = {stride[0], members * stride[1], stride[1], stride[2], stride[3]};
    return declare(draft, id, type, shape5, stride5);
}

dnnl_status_t attn_onednn_draft_middle(struct attn_onednn_draft *draft, int id,
                                       dnnl_data_type_t type, int64_t rows, int64_t columns)
{
    const struct attn_problem *p = draft->problem;
    const int64_t shape4[4] = {p->b, p->hq, rows, columns};
    const int64_t shape5[5] = {p->b, p->hkv, p->hq / p->hkv, rows, columns};
    return declare(draft, id, type, grouped(draft) ? shape5 : shape4, NULL);
}

dnnl_status_t attn_onednn_draft_mask(struct attn_onednn_draft *draft, int id, dnnl_data_type_t type,
                                     const struct attn_onednn_mask *mask)
{
    const struct attn_problem *p = draft->problem;
    int per_head = mask->h > 1;
    const int64_t shape4[4] = {mask->b, mask->h, mask->i, p->sk};
    const int64_t shape5[5] = {mask->b, per_head ? p->hkv : 1, per_head ? p->hq / p->hkv : 1,
                               mask->i, p->sk};
    return declare(draft, id, type, grouped(draft) ? shape5 : shape4, NULL);
}

dnnl_status_t attn_onednn_draft_scale(struct attn_onednn_draft *draft, int id,
                                      dnnl_data_type_t type)
{
    const dnnl_dims_t one = {1};
    return dnnl_graph_logical_tensor_init_with_dims(&draft->tensor[id], (size_t)id, type, 1, one,
                                                    dnnl_graph_layout_type_strided,
                                                    dnnl_graph_tensor_property_undef);
}

static dnnl_status_t add_op(struct attn_onednn_draft *d, const struct attn_onednn_op *step)
{
    dnnl_graph_op_t op;
    const uint8_t yes = 1;
    const int64_t last = -1, axis = step->over_group ? 2 : last;
    dnnl_status_t status = dnnl_graph_op_create(&op, (size_t)ATTN_ONEDNN_TENSORS + (size_t)d->n_ops,
                                                step->kind, "step");
    if (status)
        return status;
    d->ops[d->n_ops++] = op;
    status = dnnl_graph_op_add_input(op, &d->tensor[step->a]);
    if (!status && step->b >= 0)
        status = dnnl_graph_op_add_input(op, &d->tensor[step->b]);
    if (!status && step->transposed)
        status = dnnl_graph_op_set_attr_bool(op, step->transposed, &yes, 1);
    if (!status && step->kind == dnnl_graph_op_softmax)
        status = dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_axis, &last, 1);
    if (!status && step->kind == dnnl_graph_op_reduce_sum) {
        status = dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_axes, &axis, 1);
        status = status ? status
                        : dnnl_graph_op_set_attr_bool(op, dnnl_graph_op_attr_keep_dims, &yes, 1);
    }
    status = status ? status : dnnl_graph_op_add_output(op, &d->tensor[step->to]);
    return status ? status : dnnl_graph_add_op(d->graph, op);
}

/* The one partition, or NULL where the library makes none or several. */
static dnnl_graph_partition_t only_partition(struct attn_onednn_draft *d)
{
    dnnl_graph_partition_t parts[ATTN_ONEDNN_OPS];
    size_t n = 0;
    uint8_t supported = 0;
    if (dnnl_graph_graph_get_partition_num(d->graph, &n) || n == 0 || n > ATTN_ONEDNN_OPS ||
        dnnl_graph_graph_get_partitions(d->graph, n, parts))
        return NULL;
    if (n == 1 && !dnnl_graph_partition_is_supported(parts[0], &supported) && supported)
        return parts[0];
    for (size_t i = 0; i < n; i++)
        dnnl_graph_partition_destroy(parts[i]);
    return NULL;
}

/* Which operands the ports of one side are, and their logical tensors. */
static dnnl_status_t find_ports(const struct attn_onednn_draft *d,
                                const dnnl_graph_logical_tensor_t *ports, size_t n, int *ids,
                                const dnnl_graph_logical_tensor_t **found)
{
    for (size_t i = 0; i < n; i++) {
        if (ports[i].id >= ATTN_ONEDNN_PORTS)
            return dnnl_unimplemented;
        ids[i] = (int)ports[i].id;
        found[i] = &d->tensor[ports[i].id];
    }
    return dnnl_success;
}

static dnnl_status_t compile(struct attn_onednn_partition *p, struct attn_onednn_draft *d,
                             dnnl_graph_partition_t partition)
{
    dnnl_graph_logical_tensor_t in_ports[ATTN_ONEDNN_PORTS], out_ports[ATTN_ONEDNN_PORTS];
    const dnnl_graph_logical_tensor_t *in[ATTN_ONEDNN_PORTS], *out[ATTN_ONEDNN_PORTS];
    dnnl_status_t status = dnnl_graph_partition_get_input_ports_num(partition, &p->n_inputs);
    status = status ? status : dnnl_graph_partition_get_output_ports_num(partition, &p->n_outputs);
    if (status || p->n_inputs > ATTN_ONEDNN_PORTS || p->n_outputs > ATTN_ONEDNN_PORTS)
        return status ? status : dnnl_unimplemented;
    status = dnnl_graph_partition_get_input_ports(partition, p->n_inputs, in_ports);
    status =
        status ? status : dnnl_graph_partition_get_output_ports(partition, p->n_outputs, out_ports);
    status = status ? status : find_ports(d, in_ports, p->n_inputs, p->inputs, in);
    status = status ? status : find_ports(d, out_ports, p->n_outputs, p->outputs, out);
    status = status ? status : dnnl_graph_compiled_partition_create(&p->compiled, partition);
    status = status ? status
                    : dnnl_graph_partition_compile(partition, p->compiled, p->n_inputs, in,
                                                   p->n_outputs, out, p->library.engine);
    memcpy(p->port, d->tensor, sizeof(p->port));
    return status;
}

/* Memory for the partition's intermediate results, where the library lets us bring it. */
static dnnl_status_t reserve(struct attn_onednn_partition *p)
{
#ifdef ATTNBENCH_ONEDNN_SCRATCHPAD
    const struct attn_services *s = p->library.services;
    dnnl_graph_logical_tensor_t pad;
    size_t bytes = 0;
    dnnl_status_t status =
        dnnl_graph_compiled_partition_get_scratchpad_logical_tensor(p->compiled, &pad);
    status = status ? status : dnnl_graph_logical_tensor_get_mem_size(&pad, &bytes);
    if (status || bytes == 0)
        return status;
    p->scratchpad = s->alloc(s->context, bytes, 64);
    if (!p->scratchpad)
        return dnnl_out_of_memory;
    return dnnl_graph_tensor_create(&p->scratchpad_tensor, &pad, p->library.engine, p->scratchpad);
#else
    (void)p;
    return dnnl_success;
#endif
}

dnnl_status_t attn_onednn_partition_make(struct attn_onednn_partition *partition,
                                         struct attn_onednn_draft *draft,
                                         const struct attn_onednn_op *ops, size_t n_ops)
{
    dnnl_graph_partition_t found = NULL;
    dnnl_status_t status =
        dnnl_graph_graph_create_with_fpmath_mode(&draft->graph, dnnl_cpu, dnnl_fpmath_mode_strict);
    for (size_t n = 0; n < n_ops && !status; n++)
        if (!ops[n].left_out)
            status = add_op(draft, &ops[n]);
    status = status ? status : dnnl_graph_graph_finalize(draft->graph);
    status =
        status ? status : dnnl_graph_graph_filter(draft->graph, dnnl_graph_partition_policy_fusion);
    if (!status)
        found = only_partition(draft);
    if (!status)
        status = found ? compile(partition, draft, found) : dnnl_unimplemented;
    if (found)
        dnnl_graph_partition_destroy(found);
    for (int n = 0; n < draft->n_ops; n++)
        dnnl_graph_op_destroy(draft->ops[n]);
    if (draft->graph)
        dnnl_graph_graph_destroy(draft->graph);
    return status ? status : reserve(partition);
}

void attn_onednn_partition_free(struct attn_onednn_partition *partition)
{
    const struct attn_services *s = partition->library.services;
    if (partition->scratchpad_tensor)
        dnnl_graph_tensor_destroy(partition->scratchpad_tensor);
    if (partition->compiled)
        dnnl_graph_compiled_partition_destroy(partition->compiled);
    if (partition->scratchpad)
        s->free(s->context, partition->scratchpad);
}

/* Creates the tensors of the operands that some ports are; several may be the same one. */
static dnnl_status_t create_tensors(const struct attn_onednn_partition *p, const int *ids, size_t n,
                                    void *const *handles,
                                    struct attn_onednn_partition_tensors *tensors)
{
    dnnl_status_t status = dnnl_success;
    for (size_t i = 0; i < n && !status; i++)
        if (!tensors->tensor[ids[i]])
            status = dnnl_graph_tensor_create(&tensors->tensor[ids[i]], &p->port[ids[i]],
                                              p->library.engine, handles[ids[i]]);
    return status;
}

dnnl_status_t attn_onednn_partition_bind(const struct attn_onednn_partition *partition,
                                         void *const *handles,
                                         struct attn_onednn_partition_tensors *tensors)
{
    const struct attn_onednn_partition *p = partition;
    dnnl_status_t status = create_tensors(p, p->inputs, p->n_inputs, handles, tensors);
    return status ? status : create_tensors(p, p->outputs, p->n_outputs, handles, tensors);
}

int attn_onednn_partition_run(const struct attn_onednn_partition *partition,
                              const struct attn_onednn_partition_tensors *tensors, char *why,
                              size_t size)
{
    const_dnnl_graph_tensor_t in[ATTN_ONEDNN_PORTS], out[ATTN_ONEDNN_PORTS];
    for (size_t n = 0; n < partition->n_inputs; n++)
        in[n] = tensors->tensor[partition->inputs[n]];
    for (size_t n = 0; n < partition->n_outputs; n++)
        out[n] = tensors->tensor[partition->outputs[n]];
#ifdef ATTNBENCH_ONEDNN_SCRATCHPAD
    dnnl_status_t status = dnnl_graph_compiled_partition_execute_v2(
        partition->compiled, partition->library.stream, partition->n_inputs, in,
        partition->n_outputs, out, partition->scratchpad_tensor);
#else
    dnnl_status_t status =
        dnnl_graph_compiled_partition_execute(partition->compiled, partition->library.stream,
                                              partition->n_inputs, in, partition->n_outputs, out);
#endif
    status = status ? status : dnnl_stream_wait(partition->library.stream);
    if (!status)
        return ATTN_OK;
    snprintf(why, size, "oneDNN could not execute the partition (status %d)", (int)status);
    return status == dnnl_out_of_memory ? ATTN_OUT_OF_MEMORY : ATTN_FAILED;
}

void attn_onednn_partition_release(struct attn_onednn_partition_tensors *tensors)
{
    for (int id = 0; id < ATTN_ONEDNN_PORTS; id++)
        if (tensors->tensor[id])
            dnnl_graph_tensor_destroy(tensors->tensor[id]);
}
