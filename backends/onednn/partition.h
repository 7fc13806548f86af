/* SPDX-License-Identifier: Apache-2.0 */
/* partition.h - one partition of oneDNN's Graph API: drawn, compiled, bound to tensors, and run.
 * graph.c and backward.c draw. */
#ifndef ATTN_ONEDNN_PARTITION_H
#define ATTN_ONEDNN_PARTITION_H

#include <oneapi/dnnl/dnnl_graph.h>

#include "onednn.h"

enum {
    ATTN_ONEDNN_PORTS = 16, /* of a partition; operands have lower ids than other tensors */
    ATTN_ONEDNN_TENSORS = 32,
    ATTN_ONEDNN_OPS = 18
};

/* What is being drawn. Ids of logical tensors are their places in `tensor`. If there are fewer
 * heads of keys than of queries, they are a fifth axis, [B,Hkv,G,S,D], of extent 1 in k and v, as
 * the library's guide to grouped query attention has it. */
struct attn_onednn_draft {
    const struct attn_problem *problem;
    dnnl_graph_logical_tensor_t tensor[ATTN_ONEDNN_TENSORS];
    dnnl_graph_graph_t graph;
    dnnl_graph_op_t ops[ATTN_ONEDNN_OPS];
    int n_ops;
};

/* Logical tensors: an operand [B,H,rows,columns] where it lies, per_group if its heads are those of
 * k; dense intermediate results [B,Hq,rows,columns]; a mask; the scale. */
dnnl_status_t attn_onednn_draft_operand(struct attn_onednn_draft *draft, int id,
                                        const struct attn_tensor *view, int per_group, int64_t rows,
                                        int64_t columns);
dnnl_status_t attn_onednn_draft_middle(struct attn_onednn_draft *draft, int id,
                                       dnnl_data_type_t type, int64_t rows, int64_t columns);
dnnl_status_t attn_onednn_draft_mask(struct attn_onednn_draft *draft, int id, dnnl_data_type_t type,
                                     const struct attn_onednn_mask *mask);
dnnl_status_t attn_onednn_draft_scale(struct attn_onednn_draft *draft, int id,
                                      dnnl_data_type_t type);

/* One operation. */
struct attn_onednn_op {
    dnnl_graph_op_kind_t kind;
    int a, b, to;                    /* ids of inputs and result; b < 0: one input */
    dnnl_graph_op_attr_t transposed; /* a MatMul: which factor is; else undef */
    int left_out;                    /* not drawn */
    int over_group; /* a ReduceSum: over the heads of a group, else the last axis */
};

struct attn_onednn_partition {
    struct attn_onednn_library library;
    dnnl_graph_compiled_partition_t compiled;
    dnnl_graph_logical_tensor_t port[ATTN_ONEDNN_PORTS];
    size_t n_inputs, n_outputs;
    int inputs[ATTN_ONEDNN_PORTS], outputs[ATTN_ONEDNN_PORTS]; /* which operand each port is */
    void *scratchpad;
    dnnl_graph_tensor_t scratchpad_tensor;
};

/* Draws the operations on declared tensors and compiles them: dnnl_unimplemented where the library
 * makes no partition of them, or several. `partition` starts as zeros with a library. After a
 * failure it is for attn_onednn_partition_free all the same. */
dnnl_status_t attn_onednn_partition_make(struct attn_onednn_partition *partition,
                                         struct attn_onednn_draft *draft,
                                         const struct attn_onednn_op *ops, size_t n_ops);
void attn_onednn_partition_free(struct attn_onednn_partition *partition);

/* The tensors of one binding. */
struct attn_onednn_partition_tensors {
    dnnl_graph_tensor_t tensor[ATTN_ONEDNN_PORTS];
};

/* `handles` has the data of each operand by its id. Frees nothing after a failure. */
dnnl_status_t attn_onednn_partition_bind(const struct attn_onednn_partition *partition,
                                         void *const *handles,
                                         struct attn_onednn_partition_tensors *tensors);
int attn_onednn_partition_run(const struct attn_onednn_partition *partition,
                              const struct attn_onednn_partition_tensors *tensors, char *why,
                              size_t size);
void attn_onednn_partition_release(struct attn_onednn_partition_tensors *tensors);

#endif
