/* SPDX-License-Identifier: Apache-2.0 */
/* onednn.h - what the files of the onednn backend share: operands, masks, rows, and the two ways to
 * give the operator to the library. */
#ifndef ATTN_ONEDNN_H
#define ATTN_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

#include "attnbench/problem.h"

/* Declared error of the library's exp: |computed/exact - 1| <= E_EXP + E_ARG |x|. The second term
 * is there because on SSE4.1 the error grows with |x|. tests/test_onednn_attention.c measures it,
 * and NOTES.md has the figures. */
#define ATTN_ONEDNN_E_EXP 0x1p-20
#define ATTN_ONEDNN_E_ARG 0x1p-24

/* Declared relative error of tanh, of the library's and of glibc's; either may run. */
#define ATTN_ONEDNN_E_TANH 0x1p-21

/* Sets the operands of a problem. x_q, x_k, x_v, and out of multi-head attention also get an axis
 * of heads, [B,1,S,E], so that all operands have the same axes. An axis of one element has stride
 * 0. */
void attn_onednn_operands_set(struct attn_operands *operands, const struct attn_tensor *tensors,
                              uint32_t n_tensors);

/* One element of a floating operand as f32. */
static inline float attn_onednn_load(const struct attn_tensor *tensor, int64_t at)
{
    return attn_element_read(tensor->dtype, tensor->data, at);
}

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason. */
int attn_onednn_supports(const struct attn_problem *problem, const struct attn_services *services,
                         char *why, size_t size);

/* The library's name for a type of backend.h. */
dnnl_data_type_t attn_onednn_type(uint32_t dtype);

/* --- masks.c: addends of scores --- */

/* The addend of the scaled score of cells [b,h,i,0..Sk-1]: bias minus alibi, and -infinity if a
 * cell takes no part. */
void attn_onednn_addend(const struct attn_problem *problem, const struct attn_operands *operands,
                        int64_t b, int64_t h, int64_t i, float *row);

/* Half the squared norms of a Gaussian score, times -scale: [B,Hkv,Sk] of the keys, then [B,Hq,Sq]
 * of the queries. Returns the bytes of both, or SIZE_MAX if that overflows. */
size_t attn_onednn_norms_bytes(const struct attn_problem *problem);
void attn_onednn_norms_fill(const struct attn_problem *problem,
                            const struct attn_operands *operands, float *norms);

/* All addends as a dense tensor [b,h,i,Sk], with an extent of 1 on each axis that they do not
 * depend on. With tiles (AMX) the library, 3.13.2, reads one matrix [1,1,Sq,Sk] for several batches
 * and heads of bf16 at wrong places; so there the smaller of both axes is full. */
struct attn_onednn_mask {
    int needed;   /* 0: nothing is added to any score */
    int constant; /* only positions decide: filled when the plan is made */
    int64_t b, h, i;
    uint32_t dtype; /* of the data: f32, or narrower if only 0 and -infinity occur */
    void *data;
    /* Gaussian: the norms of the keys are added too. The norm of the query is the same in a whole
     * row, so it does not change the weights. */
    const float *norms;
};

/* Sets everything except the data, from shapes and strides. Returns the bytes of the data in f32,
 * or SIZE_MAX if that overflows. */
size_t attn_onednn_mask_plan(const struct attn_problem *problem,
                             const struct attn_operands *operands, struct attn_onednn_mask *mask);

/* Writes the data. `row` is scratch memory of Sk entries. */
void attn_onednn_mask_fill(const struct attn_problem *problem, const struct attn_operands *operands,
                           const struct attn_onednn_mask *mask, float *row);

/* --- rows.c: rows of scores in plain C --- */

/* One row, and the memory of its intermediate results. */
struct attn_onednn_row {
    const struct attn_problem *problem;
    const struct attn_operands *operands;
    int64_t b, h, i;
    float *add;         /* [Sk] */
    float *scores;      /* [Sk] */
    float *hidden;      /* additive: [Dh] */
    const float *norms; /* Gaussian: see attn_onednn_norms_fill */
};

/* Gaussian: turns scaled q.k in row->scores into scores. A cell that cancels to NaN is computed
 * again from the difference, because a key at infinity takes no part. */
void attn_onednn_add_norms(const struct attn_onednn_row *row);

/* Makes weights before and after dropout, and lse, from scaled scores in row->scores. `weights`
 * receives the row that multiplies v, in the problem's type. Also writes lse and weights if the
 * problem asks for them. */
void attn_onednn_soften(const struct attn_onednn_row *row, void *weights);

/* Computes the row of out from q, k and v, key by key, so that a cell that takes no part is never
 * read, whatever k and v hold there. `sums` has Dv entries. */
void attn_onednn_attend_row(const struct attn_onednn_row *row, float *sums);

/* Does this row of out have an element that is not finite. */
int attn_onednn_row_broken(const struct attn_onednn_row *row);

/* --- library.c: oneDNN itself --- */

/* Does the library multiply bf16 by AMX tiles in this process. */
int attn_onednn_uses_tiles(void);

struct attn_onednn_library {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const struct attn_services *services;
};

/* Names the CPU runtime next to the library in the environment, if the library needs one. Call it
 * before any other call of the library. */
int attn_onednn_prepare(char *why, size_t size);

void attn_onednn_version(char *text, size_t size);

/* Engine and stream of the process. ATTN_NO_DEVICE if the library has no CPU to run on. */
int attn_onednn_open(struct attn_onednn_library *library, const struct attn_services *services,
                     char *why, size_t size);

/* Can the library multiply matrices of this type (f32, f16, bf16) on this machine. Asked once per
 * process. */
int attn_onednn_multiplies(uint32_t dtype);

/* --- step.c: one primitive and its arguments --- */

enum { ATTN_ONEDNN_ARGS = 6 };

struct attn_onednn_step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[ATTN_ONEDNN_ARGS]; /* the first one is its scratch memory */
    int n;
    void *scratch;
};

/* A dense or strided descriptor (stride NULL: dense). Strides of axes of extent 1 do not matter. */
dnnl_status_t attn_onednn_desc(dnnl_memory_desc_t *desc, uint32_t dtype, int rank,
                               const int64_t *shape, const int64_t *stride);

/* Attributes of all primitives: full precision, and scratch memory of our own. The result is
 * multiplied by scale; then `add` is added, unless it is NULL. */
dnnl_status_t attn_onednn_attributes(dnnl_primitive_attr_t *attributes, float scale,
                                     const_dnnl_memory_desc_t add);

/* The primitive of a description. The description still belongs to the caller. `step` starts as
 * zeros. */
dnnl_status_t attn_onednn_step_make(const struct attn_onednn_library *library,
                                    struct attn_onednn_step *step,
                                    const_dnnl_primitive_desc_t description);

/* Adds one argument. Its memory object belongs to the step, `data` to the caller. */
dnnl_status_t attn_onednn_step_add(const struct attn_onednn_library *library,
                                   struct attn_onednn_step *step, int argument,
                                   const_dnnl_memory_desc_t desc, void *data);

/* Points an argument that was added before to other memory. */
dnnl_status_t attn_onednn_step_point(const struct attn_onednn_step *step, int argument, void *data);

/* Complete when it returns, so handles may change before the next step. */
dnnl_status_t attn_onednn_step_run(const struct attn_onednn_library *library,
                                   const struct attn_onednn_step *step);
void attn_onednn_step_free(const struct attn_onednn_library *library,
                           struct attn_onednn_step *step);

/* The result for a status. On failure it writes a sentence. */
int attn_onednn_result(dnnl_status_t status, char *why, size_t size);

/* --- product.c: y = x w (+ b), with w in the layout that the library prefers --- */

struct attn_onednn_product_spec {
    int64_t rows, inner, width;
    int64_t row_stride, column_stride; /* of x; one of them is 1 */
    int64_t out_stride;                /* between rows of y; each row is contiguous */
    uint32_t in, out;                  /* types of x and w; of y */
    int biased;
};

/* Packed matrices, one per head or one for all heads, and the bias in f32. */
struct attn_onednn_weights {
    char *data;
    size_t step; /* bytes from the matrix of a head to the next; 0: one for all */
    float *bias;
};

struct attn_onednn_product;

dnnl_status_t attn_onednn_product_create(const struct attn_onednn_library *library,
                                         const struct attn_onednn_product_spec *spec,
                                         struct attn_onednn_product **product);

/* `stride` has the strides of w: of heads, of `inner` and of `width`. A stride of 0 between heads
 * shares one matrix. The bias may be NULL. After a failure, `weights` has what was packed before
 * it, for attn_onednn_weights_free. */
dnnl_status_t attn_onednn_product_pack(const struct attn_onednn_product *product,
                                       const struct attn_tensor *w, const int64_t *stride,
                                       int64_t heads, const struct attn_tensor *bias,
                                       struct attn_onednn_weights *weights);
dnnl_status_t attn_onednn_product_run(const struct attn_onednn_product *product,
                                      const struct attn_onednn_weights *weights, int64_t head,
                                      void *x, void *y);
void attn_onednn_product_destroy(struct attn_onednn_product *product);
void attn_onednn_weights_free(const struct attn_services *services,
                              struct attn_onednn_weights *weights);

/* --- frame.c: the stages around attention --- */

/* Before attention: copies of operands that the library has no layout for, projections, and the
 * product of a bilinear score. After it: pruning, output projection, copy of out, residual. */
struct attn_onednn_frame;

/* `inner` becomes the problem as attention sees it, and `seen` its operands, without the data of
 * the caller's operands. */
int attn_onednn_frame_create(const struct attn_onednn_library *library,
                             const struct attn_problem *problem, struct attn_problem *inner,
                             struct attn_operands *seen, struct attn_onednn_frame **frame,
                             char *why, size_t size);
void attn_onednn_frame_destroy(struct attn_onednn_frame *frame);

/* One binding: packed weights, and the memory of all operands. */
struct attn_onednn_framed;
int attn_onednn_frame_bind(const struct attn_onednn_frame *frame, const struct attn_tensor *tensors,
                           struct attn_operands *seen, struct attn_onednn_framed **framed,
                           char *why, size_t size);
int attn_onednn_frame_before(const struct attn_onednn_framed *framed, char *why, size_t size);
int attn_onednn_frame_after(const struct attn_onednn_framed *framed, char *why, size_t size);
void attn_onednn_frame_release(struct attn_onednn_framed *framed);

/* Writes ", copies q, k" for the operands that are copied in each run, or nothing. */
void attn_onednn_frame_copies(const struct attn_onednn_frame *frame, char *text, size_t size);

/* --- additive.c: w_v^T tanh(W_q q + W_k k), in tiles of queries and keys --- */

struct attn_onednn_additive;
struct attn_onednn_additive_weights;

dnnl_status_t attn_onednn_additive_create(const struct attn_onednn_library *library,
                                          const struct attn_problem *problem,
                                          const struct attn_operands *operands,
                                          struct attn_onednn_additive **additive);
dnnl_status_t attn_onednn_additive_bind(const struct attn_onednn_additive *additive,
                                        const struct attn_operands *operands,
                                        struct attn_onednn_additive_weights **weights);
/* Scaled scores of one head, [Sq,Sk]. */
dnnl_status_t attn_onednn_additive_run(const struct attn_onednn_additive *additive,
                                       const struct attn_onednn_additive_weights *weights,
                                       const struct attn_operands *operands, int64_t b, int64_t h,
                                       float *scores);
void attn_onednn_additive_release(const struct attn_onednn_additive *additive,
                                  struct attn_onednn_additive_weights *weights);
void attn_onednn_additive_destroy(struct attn_onednn_additive *additive);

/* graph.c: the operator as one partition of the Graph API. Only for problems whose scores have
 * nothing except scale and mask. */
struct attn_onednn_graph;

int attn_onednn_graph_create(const struct attn_onednn_library *library,
                             const struct attn_problem *problem,
                             const struct attn_operands *operands,
                             const struct attn_onednn_mask *mask, int narrow,
                             struct attn_onednn_graph **graph, char *why, size_t size);
void attn_onednn_graph_destroy(struct attn_onednn_graph *graph);

/* The tensors of one binding. */
struct attn_onednn_graph_tensors;
int attn_onednn_graph_bind(struct attn_onednn_graph *graph, const struct attn_operands *operands,
                           struct attn_onednn_graph_tensors **tensors, char *why, size_t size);
int attn_onednn_graph_run(struct attn_onednn_graph *graph,
                          struct attn_onednn_graph_tensors *tensors, char *why, size_t size);
void attn_onednn_graph_release(struct attn_onednn_graph *graph,
                               struct attn_onednn_graph_tensors *tensors);

/* backward.c: gradients as one partition of the Graph API. Only for problems whose scores have
 * nothing except scale and mask. */
struct attn_onednn_backward;

int attn_onednn_backward_create(const struct attn_onednn_library *library,
                                const struct attn_problem *problem,
                                const struct attn_operands *operands,
                                const struct attn_onednn_mask *mask,
                                struct attn_onednn_backward **backward, char *why, size_t size);
void attn_onednn_backward_destroy(struct attn_onednn_backward *backward);

/* The tensors of one binding. */
struct attn_onednn_backward_tensors;
int attn_onednn_backward_bind(struct attn_onednn_backward *backward,
                              const struct attn_operands *operands,
                              struct attn_onednn_backward_tensors **tensors, char *why,
                              size_t size);
int attn_onednn_backward_run(const struct attn_onednn_backward *backward,
                             const struct attn_operands *operands,
                             const struct attn_onednn_backward_tensors *tensors, char *why,
                             size_t size);
void attn_onednn_backward_release(struct attn_onednn_backward *backward,
                                  struct attn_onednn_backward_tensors *tensors);

/* primitives.c: matmul, softmax, matmul. The softmax is the library's if `plain`, else that of
 * rows.c. */
struct attn_onednn_primitives;

int attn_onednn_primitives_create(const struct attn_onednn_library *library,
                                  const struct attn_problem *problem,
                                  const struct attn_operands *operands,
                                  const struct attn_onednn_mask *mask, int plain,
                                  struct attn_onednn_primitives **primitives, char *why,
                                  size_t size);

/* What a binding holds for an additive score. *weights stays NULL for other scores. */
int attn_onednn_primitives_bind(const struct attn_onednn_primitives *primitives,
                                const struct attn_operands *operands,
                                struct attn_onednn_additive_weights **weights, char *why,
                                size_t size);
int attn_onednn_primitives_run(struct attn_onednn_primitives *primitives,
                               const struct attn_operands *operands,
                               const struct attn_onednn_additive_weights *weights,
                               struct attn_onednn_row *row, char *why, size_t size);
void attn_onednn_primitives_release(const struct attn_onednn_primitives *primitives,
                                    struct attn_onednn_additive_weights *weights);
void attn_onednn_primitives_destroy(struct attn_onednn_primitives *primitives);

#endif
