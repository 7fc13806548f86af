/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.h - memory of a plan, and arrays of f32 between the steps of an operator. */
#ifndef ATTN_SIMD_BUFFERS_H
#define ATTN_SIMD_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* Memory aligned to 64 bytes. NULL if there is none; `why` then says for `what`. */
void *attn_take_memory(const struct attn_services *services, size_t bytes, const char *what,
                       char *why, size_t size);

/* The same for floats. A negative count is one that overflowed: NULL. */
float *attn_take_floats(const struct attn_services *services, int64_t floats, const char *what,
                        char *why, size_t size);

/* A buffer [b,h,rows,width] without data. Rows are rounded up to `unit` floats, and are a cache
 * line longer: rows at multiples of 4 KiB would fall into the same cache sets. */
struct attn_tensor attn_buffer(uint32_t role, int64_t b, int64_t h, int64_t rows, int64_t width,
                               int64_t unit);

/* Places `count` buffers one after another, `used` floats behind base, which may be NULL. Returns
 * the floats used then, or -1 on overflow or if `used` is negative. */
int64_t attn_buffers_place(struct attn_tensor *buffers, int count, int64_t used, float *base);

/* The next array of a region that starts at `base`: a * b elements of `unit` bytes, aligned to 64
 * bytes. With base NULL it only counts. *used becomes and stays -1 on overflow. */
void *attn_array_place(void *base, int64_t *used, int64_t a, int64_t b, int64_t unit);

#endif
