/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h - what the files of the onednn backend share: operands, masks, rows, and the two ways of
 * putting the operator to the library. */
#ifndef ATTN_ONEDNN_H
#define ATTN_ONEDNN_H

#include <stddef.h>
#include <stdint.h>

#include <oneapi/dnnl/dnnl.h>

#include "attnbench/backend.h"

#define ATTN_ONEDNN_RANK  4 /* largest rank of any role this backend knows */
#define ATTN_ONEDNN_ROLES (ATTN_KEEP + 1)

/* Declared error of the library's exp: |computed/exact - 1| <= E_EXP + E_ARG |x|. test_onednn.c
 * measures it: 0.4 E_EXP on AVX2 and AVX-512; on SSE4.1 its error grows with |x|. */
#define ATTN_ONEDNN_E_EXP 0x1p-20
#define ATTN_ONEDNN_E_ARG 0x1p-24

/* One operand. dtype 0: the problem has no tensor of this role. */
struct attn_onednn_view {
    char *data;
    uint32_t dtype;
    uint32_t rank;
    int64_t stride[ATTN_ONEDNN_RANK]; /* in elements */
};

/* All operands, indexed by role. Before `bind` they have strides and no data. */
struct attn_onednn_operands {
    struct attn_onednn_view view[ATTN_ONEDNN_ROLES];
};

void attn_onednn_operands_set(struct attn_onednn_operands *operands,
                              const struct attn_tensor *tensors, uint32_t n_tensors);

/* Bytes of an element of a floating type. */
size_t attn_onednn_size(uint32_t dtype);

/* One element of a floating view as f32, and back. */
float attn_onednn_load(const struct attn_onednn_view *view, int64_t at);
void attn_onednn_store(uint32_t dtype, void *data, int64_t at, float value);

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason: the checklist of backends/README.md. */
int attn_onednn_supports(const struct attn_problem *problem, const struct attn_services *services,
                         char *why, size_t size);

/* The library's word for a type of this interface. */
dnnl_data_type_t attn_onednn_type(uint32_t dtype);

/* --- masks.c: which cells take part, and what is added to their scores --- */

/* Keys that len, causal and window leave to a query: first <= j < last. */
struct attn_onednn_range {
    int64_t first, last;
};

struct attn_onednn_range attn_onednn_keys(const struct attn_problem *problem,
                                          const struct attn_onednn_operands *operands, int64_t b,
                                          int64_t i);

/* What is added to the scaled score of cells [b,h,i,0..Sk-1]: bias less alibi, and -infinity where
 * a cell takes no part. */
void attn_onednn_addend(const struct attn_problem *problem,
                        const struct attn_onednn_operands *operands, int64_t b, int64_t h,
                        int64_t i, float *row);

/* Does dropout keep the weight of cell [b,h,i,j]. Source of Philox4x32-10: Salmon, Moraes, Dror,
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
int attn_onednn_kept(const struct attn_problem *problem,
                     const struct attn_onednn_operands *operands, int64_t b, int64_t h, int64_t i,
                     int64_t j);

/* All addends as a dense tensor [b,h,i,Sk], with an extent of 1 on each axis that they do not
 * depend on. */
struct attn_onednn_mask {
    int needed;   /* 0: nothing is added anywhere */
    int constant; /* position alone decides: filled when the plan is made */
    int64_t b, h, i;
    uint32_t dtype; /* of the data: f32, or narrower where only 0 and -infinity occur */
    void *data;
};

/* Everything but the data, from shapes and strides. Bytes of the data in f32; SIZE_MAX when
 * that overflows. */
size_t attn_onednn_mask_plan(const struct attn_problem *problem,
                             const struct attn_onednn_operands *operands,
                             struct attn_onednn_mask *mask);

/* Writes the data; `row` is scratch memory of Sk entries. */
void attn_onednn_mask_fill(const struct attn_problem *problem,
                           const struct attn_onednn_operands *operands,
                           const struct attn_onednn_mask *mask, float *row);

/* --- rows.c: rows of scores in plain C --- */

/* One row, and where its intermediate results go. */
struct attn_onednn_row {
    const struct attn_problem *problem;
    const struct attn_onednn_operands *operands;
    int64_t b, h, i;
    float *add;    /* [Sk] */
    float *scores; /* [Sk] */
};

/* From scaled scores in row->scores: weights before and after dropout, lse. `weights` receives the
 * row as it meets v, in the problem's type; lse and weights that the problem asks for are written
 * too. */
void attn_onednn_soften(const struct attn_onednn_row *row, void *weights);

/* The row of out from q, k and v, key by key, for a cell that takes no part must not, whatever k
 * and v hold there. `sums` has Dv entries. */
void attn_onednn_attend_row(const struct attn_onednn_row *row, float *sums);

/* Is any element of this row of out no finite number. */
int attn_onednn_row_broken(const struct attn_onednn_row *row);

/* --- library.c: oneDNN itself --- */

struct attn_onednn_library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const struct attn_services *services;
};

/* Names the CPU runtime that lies beside the library, where it needs one, in the environment.
 * Before any other call of the library. */
int attn_onednn_prepare(char *why, size_t size);

void attn_onednn_version(char *text, size_t size);

/* Engine and stream. ATTN_NO_DEVICE where the library has no CPU to run on. */
int attn_onednn_open(struct attn_onednn_library *library, const struct attn_services *services,
                     char *why, size_t size);
void attn_onednn_close(struct attn_onednn_library *library);

/* Can the library multiply matrices of this type (f32, f16, bf16) on this machine. Asked once a
 * process. */
int attn_onednn_multiplies(uint32_t dtype);

/* graph.c: the operator as one partition of the Graph API. Only problems whose scores meet nothing
 * but scale and mask. */
struct attn_onednn_graph;

int attn_onednn_graph_create(const struct attn_onednn_library *library,
                             const struct attn_problem *problem,
                             const struct attn_onednn_operands *operands,
                             const struct attn_onednn_mask *mask, int narrow,
                             struct attn_onednn_graph **graph, char *why, size_t size);
void attn_onednn_graph_destroy(struct attn_onednn_graph *graph);

/* The tensors of one binding. */
struct attn_onednn_graph_tensors;
int attn_onednn_graph_bind(struct attn_onednn_graph *graph,
                           const struct attn_onednn_operands *operands,
                           struct attn_onednn_graph_tensors **tensors, char *why, size_t size);
int attn_onednn_graph_run(struct attn_onednn_graph *graph,
                          struct attn_onednn_graph_tensors *tensors, char *why, size_t size);
void attn_onednn_graph_release(struct attn_onednn_graph *graph,
                               struct attn_onednn_graph_tensors *tensors);

/* primitives.c: matmul, softmax, matmul; the softmax is the library's where `plain`, else that of
 * rows.c. */
struct attn_onednn_primitives;

int attn_onednn_primitives_create(const struct attn_onednn_library *library,
                                  const struct attn_problem *problem,
                                  const struct attn_onednn_operands *operands,
                                  const struct attn_onednn_mask *mask, int plain,
                                  struct attn_onednn_primitives **primitives, char *why,
                                  size_t size);
int attn_onednn_primitives_run(struct attn_onednn_primitives *primitives,
                               const struct attn_onednn_operands *operands,
                               struct attn_onednn_row *row, char *why, size_t size);
void attn_onednn_primitives_destroy(struct attn_onednn_primitives *primitives);

#endif
