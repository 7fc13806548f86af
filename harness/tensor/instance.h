/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - a case made real: the ABI problem and all its operands in the host's memory. */
#ifndef ATTN_INSTANCE_H
#define ATTN_INSTANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "case/case.h"
#include "reference/reference.h"

#define ATTN_MAX_TENSORS 32

/* Memory of one operand. Elements lie in [data, data + span): span is the distance from the first
 * element to one past the last, gaps included. */
struct attn_operand {
    void *base;    /* what was allocated (mmap for view=huge, else malloc) */
    size_t mapped; /* bytes of a mapping; 0: malloc */
    size_t span;   /* bytes */
    bool output;
};

/* Expected answers of a pack, as doubles in dense logical order; NULL: not given. */
struct attn_expected {
    double *output[REF_OUTPUTS]; /* by the operator's outputs */
    double *scores;
    int scores_stage; /* 0 raw, 1 softcap, 2 bias */
    double rtol, atol;
};

struct attn_instance {
    struct attn_case c; /* a copy, sizes resolved */
    struct attn_problem problem;
    struct attn_tensor tensors[ATTN_MAX_TENSORS]; /* problem.tensors points here */
    struct attn_operand operands[ATTN_MAX_TENSORS];
    int64_t nnz; /* allowed cells, ref_count_allowed */
    double flops;
    uint64_t bytes;          /* each operand once */
    enum ref_fill_kind kind; /* generic or structured */
    struct attn_expected expected;
    char **tokens;    /* pack's token labels: tokens[b*n_tokens_max + i]; NULL: none */
    int64_t n_tokens; /* labels of each batch */
    char *source;     /* where a pack says it comes from; NULL: not from a pack, or it is silent */
};

/* Makes the operands of a case: random tensors from Philox by seed and role, or a pack's tensors.
 * Returns 0, or -1 with the reason (no memory; a pack that does not fit). */
int attn_instance_create(const struct attn_case *c, int threads, struct attn_instance **out,
                         char *why, size_t size);
void attn_instance_free(struct attn_instance *instance);

/* "q", "k", "w_o", "score_w_v", ... */
const char *attn_role_name(uint32_t role);

/* One N(0,1) number of the stream {seed, role} at `index`: Philox4x32-10, Box-Muller in double with
 * our own log and sincos, so that every machine gives the same bits. */
double attn_random_normal(uint64_t seed, uint32_t role, uint64_t index);
double attn_random_uniform(uint64_t seed, uint32_t role, uint64_t index); /* [0,1) */

/* Span in bytes of a strided tensor; 0 when it has no elements; SIZE_MAX on overflow. */
size_t attn_tensor_span(const struct attn_tensor *tensor);

#endif
