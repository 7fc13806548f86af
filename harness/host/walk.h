/* SPDX-License-Identifier: Apache-2.0 */
/* walk.h - the bytes of a strided tensor that hold elements, as contiguous runs in ascending order.
 */
#ifndef ATTN_WALK_H
#define ATTN_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Axes with stride 0 or one element are left out. Axes that continue each other are merged. The
 * rest are sorted by stride, so offsets ascend unless elements overlap. */
struct attn_walk {
    int rank;                      /* axes that are counted, without the run */
    size_t shape[ATTN_MAX_RANK];   /* outermost first */
    size_t stride[ATTN_MAX_RANK];  /* bytes */
    size_t counter[ATTN_MAX_RANK]; /* the next run's index */
    size_t run;                    /* bytes of every run */
    size_t offset;                 /* of the next run */
    bool done;
};

/* element: bytes of one element. */
void attn_walk_begin(struct attn_walk *walk, const struct attn_tensor *tensor, size_t element);

/* Gives the offset of the next run from the first element; false: there are no more. */
bool attn_walk_next(struct attn_walk *walk, size_t *offset);

#endif
