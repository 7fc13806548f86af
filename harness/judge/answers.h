/* SPDX-License-Identifier: Apache-2.0 */
/* answers.h - memory for the reference's answers. Private to this folder. */
#ifndef ATTN_ANSWERS_H
#define ATTN_ANSWERS_H

#include <stdint.h>

#include "reference/reference.h"

/* Allocates the values of outputs (one bit each) and `allowed`, and bounds if the request has
 * numerics. Returns 0, or -1: no memory. Free the result in either case. */
int attn_answers_allocate(const struct attn_problem *problem, const struct ref_request *request,
                          uint32_t outputs, struct ref_result *result);
void attn_answers_free(struct ref_result *result);

/* a * b doubles of 0, or NULL. */
double *attn_answers_doubles(int64_t a, int64_t b);

#endif
