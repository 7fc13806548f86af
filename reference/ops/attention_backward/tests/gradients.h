/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.h - problems of the backward pass with all gradients, and what the reference makes of
 * them. */
#ifndef ATTN_REFERENCE_BACKWARD_GRADIENTS_H
#define ATTN_REFERENCE_BACKWARD_GRADIENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reference/ops/attention_backward/tests/kernel.h"
#include "reference/reference.h"

enum { GRADIENTS = 6, GRADIENT_FEATURES = 10 };

/* Of each gradient its role, and that of the operand it belongs to. */
extern const uint32_t gradient_roles[GRADIENTS], gradient_sources[GRADIENTS];
/* Combinations of MADE_*. */
extern const int gradient_features[GRADIENT_FEATURES];

struct answers {
    double value[GRADIENTS][KERNEL_ELEMENTS], bound[GRADIENTS][KERNEL_ELEMENTS];
};

/* Results of the reference and of a kernel, in the order of the outputs' tensors. */
extern struct answers answers;
extern struct kernel_gradients kernel;

/* A problem with every gradient that its operands have; with GRAD_LSE if seed % 3 is 2. */
void gradients_create(struct made *m, const struct made_spec *spec);

/* Writes what follows from the operands, as under the fill of this name. */
int gradients_derive(struct made *m, const char *fill);

void gradients_request(struct made *m, const struct attn_numerics *numerics,
                       enum ref_fill_kind fill, int threads, struct ref_request *r);
struct ref_result gradients_result(struct answers *a);

/* Computes all into `answers`. */
void gradients_compute_as(struct made *m, const struct attn_numerics *numerics,
                          enum ref_fill_kind fill, bool given);
void gradients_compute(struct made *m, const struct attn_numerics *numerics,
                       enum ref_fill_kind fill);

/* The largest error of `kernel` over its bound, of one output; *middle: the mean, if not NULL. */
double gradients_ratio(const struct made *m, int o, double *middle);

/* Fails unless both are the same within 1e-12. */
void gradients_near(double got, double want);

#endif
