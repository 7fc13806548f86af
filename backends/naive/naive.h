/* SPDX-License-Identifier: Apache-2.0 */
/* naive.h - the two instances of the naive backend. */
#ifndef ATTN_NAIVE_H
#define ATTN_NAIVE_H

#include "attnbench/problem.h"

/* The operator with all sums in f32 (for f32, f16 and bf16), and in f64. `bytes` is the workspace
 * of `run`, aligned to 64, or SIZE_MAX if that overflows. */
size_t attn_naive_bytes_f32(const struct attn_problem *problem);
size_t attn_naive_bytes_f64(const struct attn_problem *problem);
void attn_naive_run_f32(const struct attn_problem *problem, const struct attn_operands *operands,
                        void *workspace);
void attn_naive_run_f64(const struct attn_problem *problem, const struct attn_operands *operands,
                        void *workspace);

#endif
