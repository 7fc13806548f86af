/* SPDX-License-Identifier: Apache-2.0 */
/* naive.h - what the files of the naive backend share: operands, masks, and the two instances. */
#ifndef ATTN_NAIVE_H
#define ATTN_NAIVE_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

#define ATTN_NAIVE_RANK  4 /* largest rank of any role this backend knows */
#define ATTN_NAIVE_ROLES (ATTN_B_O + 1)

/* One operand as the kernels see it. dtype 0: the problem has no tensor of this role. */
struct attn_naive_view {
    char *data;
    uint32_t dtype;
    uint32_t rank;
    int64_t shape[ATTN_NAIVE_RANK];
    int64_t stride[ATTN_NAIVE_RANK]; /* in elements */
};

/* All operands, indexed by role. */
struct attn_naive_operands {
    struct attn_naive_view view[ATTN_NAIVE_ROLES];
};

/* Keys that len, causal and window leave to a query: first <= j < last. */
struct attn_naive_range {
    int64_t first, last;
};

static inline int attn_naive_has(const struct attn_naive_operands *operands, uint32_t role)
{
    return operands->view[role].dtype != 0;
}

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason: the checklist of backends/README.md. */
int attn_naive_supports(const struct attn_problem *problem, const struct attn_services *services,
                        char *why, size_t size);

/* The offset that causal, window and alibi use in batch b. */
int64_t attn_naive_offset(const struct attn_problem *problem,
                          const struct attn_naive_operands *operands, int64_t b);

struct attn_naive_range attn_naive_keys(const struct attn_problem *problem,
                                        const struct attn_naive_operands *operands, int64_t b,
                                        int64_t i);

/* Does dropout keep the weight of cell [b,h,i,j]. Source of Philox4x32-10: Salmon, Moraes, Dror,
 * Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
int attn_naive_kept(const struct attn_problem *problem, const struct attn_naive_operands *operands,
                    int64_t b, int64_t h, int64_t i, int64_t j);

/* The operator with all sums in f32 (for f32, f16 and bf16), and in f64. `bytes` is what `run`
 * needs as workspace, aligned to 64; SIZE_MAX when that overflows. */
size_t attn_naive_bytes_f32(const struct attn_problem *problem);
size_t attn_naive_bytes_f64(const struct attn_problem *problem);
void attn_naive_run_f32(const struct attn_problem *problem,
                        const struct attn_naive_operands *operands, void *workspace);
void attn_naive_run_f64(const struct attn_problem *problem,
                        const struct attn_naive_operands *operands, void *workspace);

#endif
