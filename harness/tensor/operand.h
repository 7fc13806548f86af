/* SPDX-License-Identifier: Apache-2.0 */
/* operand.h - operands of an instance: placed in memory by layout and view, then filled. */
#ifndef ATTN_OPERAND_H
#define ATTN_OPERAND_H

#include "tensor/random.h"
#include "tensor/schema.h"
#include "tensor/types.h"

/* How an operand is made. */
struct attn_operand_form {
    const struct attn_schema *schema;
    uint32_t rank; /* the first axes of the schema; 0: all */
    uint32_t dtype;
    unsigned broadcast; /* bit a: axis a has stride 0 */
};

/* Appends an operand to an instance: extents from `shape`, strides from the case's layout and view,
 * memory allocated. Outputs, and the gaps of inputs, hold bytes of 0xff (NaN in every floating
 * type). Returns the tensor, or NULL with the reason. */
struct attn_tensor *attn_operand_add(struct attn_instance *instance,
                                     const struct attn_operand_form *form,
                                     const struct ref_shape *shape, char *why, size_t size);

/* Appends the outputs that the case asks for. */
int attn_operand_add_outputs(struct attn_instance *instance, const struct ref_shape *shape,
                             char *why, size_t size);

void attn_operand_free(struct attn_operand *operand);

/* Span in bytes of a strided tensor; 0 if it has no elements; SIZE_MAX on overflow. */
size_t attn_tensor_span(const struct attn_tensor *tensor);

/* Elements that are stored: axes with stride 0 count once. */
int64_t attn_operand_count(const struct attn_tensor *tensor);

/* Stores value(context, index) into every stored element, rounded to its type. `index` is the
 * logical row-major index with broadcast axes counted as 1; it does not depend on layout and view.
 * Up to `threads` threads call `value`. */
void attn_operand_fill(const struct attn_tensor *tensor, int threads,
                       double (*value)(const void *context, uint64_t index), const void *context);

/* The same with a function `values` that makes the values of a run of indices from `first` on. */
void attn_operand_fill_runs(const struct attn_tensor *tensor, int threads,
                            void (*values)(const void *context, uint64_t first,
                                           double values[ATTN_RANDOM_RUN]),
                            const void *context);

/* Fills an input by the rules of the case language (random numbers, lengths, slopes...). */
int attn_operand_draw(const struct attn_case *c, const struct attn_tensor *tensor, int threads,
                      char *why, size_t size);

/* Makes `count` vectors of `length` >= count elements orthonormal. The vectors are stored one after
 * the other. The first n vectors keep their span. The result does not depend on `threads`. */
void attn_stiefel(double *vectors, int64_t count, int64_t length, int threads);

#endif
