/* SPDX-License-Identifier: Apache-2.0 */
/* supports.h - the limits of the graph, and the band of keys that it can mask. */
#ifndef ATTN_CUDNN_SUPPORTS_H
#define ATTN_CUDNN_SUPPORTS_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* The keys that a row sees by its position: i - left <= j <= i + right. With bottom_right, i and j
 * count from the last row and the last key. A side of -1 is unbounded. */
struct attn_cudnn_band {
    int bottom_right;
    int64_t left, right;
    int64_t least; /* with fewer keys, or valid keys, some row sees none */
};
struct attn_cudnn_band attn_cudnn_band(const struct attn_problem *problem);

/* Does the graph get the number of valid queries and keys of every batch as operands. */
int attn_cudnn_is_padded(const struct attn_problem *problem);

/* ATTN_OK, or ATTN_UNSUPPORTED with the reason, from the problem alone. */
int attn_cudnn_supports(const struct attn_problem *problem, char *why, size_t size);

#endif
