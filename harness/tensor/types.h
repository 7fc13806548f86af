/* SPDX-License-Identifier: Apache-2.0 */
/* types.h - a case in the host's memory: its problem, its operands, and what a pack expects. */
#ifndef ATTN_TENSOR_TYPES_H
#define ATTN_TENSOR_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"
#include "case/case.h"
#include "reference/reference.h"

#define ATTN_MAX_TENSORS 32

/* Memory of one operand. Its elements are in [data, data + span). span is the distance from the
 * first element to one past the last, gaps included. */
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
    int64_t nnz; /* cells that are computed: ref_op.cells, or ref_count_allowed */
    double flops;
    uint64_t bytes;          /* each operand once */
    enum ref_fill_kind kind; /* generic or structured */
    bool given;              /* what follows from others is taken as it is (ref_request.given) */
    struct attn_expected expected;
    char **tokens;    /* pack's token labels: tokens[b*n_tokens_max + i]; NULL: none */
    int64_t n_tokens; /* labels of each batch */
    char *source;     /* a pack's own `source`; NULL: no pack, or the pack does not say */
};

#endif
