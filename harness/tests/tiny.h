/* SPDX-License-Identifier: Apache-2.0 */
/* tiny.h - a small attention problem made by hand, so that these tests need no case language. */
#ifndef ATTN_TEST_TINY_H
#define ATTN_TEST_TINY_H

#include "host/worker.h"
#include "tensor/instance.h"

/* f32, one batch, one head, sq queries, sk keys, width d; q, k, v, out in this order. gap: elements
 * between the rows of out. Fails the test where there is no memory. */
struct attn_instance *tiny_create(int64_t sq, int64_t sk, int64_t d, int64_t gap);
void tiny_free(struct attn_instance *instance);

/* Largest difference of out from the right answer; NaN counts as infinite. */
double tiny_error(const struct attn_instance *instance);

#endif
