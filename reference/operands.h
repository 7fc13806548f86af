/* SPDX-License-Identifier: Apache-2.0 */
/* operands.h - the tensors of a problem by role, and their elements as doubles. */
#ifndef ATTN_REFERENCE_OPERANDS_H
#define ATTN_REFERENCE_OPERANDS_H

#include <stdint.h>

#include "attnbench/backend.h"
#include "reference/op.h"

struct ref_operands {
    const struct attn_problem *problem;
    const struct attn_tensor *by_role[REF_ROLES]; /* NULL: absent and not replaced */
};

/* Finds the tensors by role, and replaces absent ones as the operator's table says. Nothing is
 * replaced if the operator is not known. The problem must outlive the result. */
void ref_operands_init(struct ref_operands *operands, const struct attn_problem *problem);

/* One element of a tensor; `at` has one index per axis. */
double ref_load(const struct attn_tensor *tensor, const int64_t *at);

/* Reads `count` elements along the last axis into `out`. `at` is the index of the first. */
void ref_load_vector(const struct attn_tensor *tensor, const int64_t *at, int64_t count,
                     double *out);

/* Row i of a boolean mask: returns the byte of key 0. *step is the distance from key to key. */
const uint8_t *ref_mask_row(const struct attn_tensor *mask, int64_t b, int64_t h, int64_t i,
                            int64_t *step);

/* Keys [*begin, *end) that query i of batch b may see, by len, causal and window. Only for problems
 * without dilation and global tokens. */
void ref_key_range(const struct ref_operands *operands, int64_t b, int64_t i, int64_t *begin,
                   int64_t *end);

/* Keys begin, begin + step, ... below end. */
struct ref_run {
    int64_t begin, end, step;
};

/* The keys that a query may see by len, causal, window, dilation and global tokens. They are at
 * most all keys of [begin, end), and are listed run by run. Needs no memory, whatever they are. */
struct ref_sight {
    int64_t begin, end;    /* by len and causal */
    struct ref_run near;   /* by the window, too */
    const uint8_t *global; /* keys of [begin, end) whose byte is not 0 are seen, too; NULL: none */
    int64_t stride;        /* from byte to byte */
};

/* The keys of query i of head h in batch b. */
void ref_sight_of(const struct ref_operands *operands, int64_t b, int64_t h, int64_t i,
                  struct ref_sight *sight);

/* The first run with a key from `from` on. Runs come in ascending order: go on with from =
 * run->end. False: there are no more keys. */
bool ref_sight_next(const struct ref_sight *sight, int64_t from, struct ref_run *run);

/* The number of keys of a run. */
static inline int64_t ref_run_count(const struct ref_run *run)
{
    return (run->end - run->begin + run->step - 1) / run->step;
}

/* The number of keys of query i of head h in batch b, by the mask, too. */
int64_t ref_count_row(const struct ref_operands *operands, int64_t b, int64_t h, int64_t i);

/* Is token i of batch b a global one? */
bool ref_is_global(const struct ref_operands *operands, int64_t b, int64_t i);

/* The offset that causal, window and ALiBi share, in batch b. */
int64_t ref_offset(const struct ref_operands *operands, int64_t b);

#endif
