/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h - the backward pass beside the forward pass of the same case on the same backend. */
#ifndef ATTN_REPORT_PASSES_H
#define ATTN_REPORT_PASSES_H

#include "report/view.h"
#include "results/statistics.h"

/* Both were timed with hot caches, with the same threads, and their numbers are right. Their case
 * lines differ in op= and in the backward pass's out= only. */
struct attn_pass_pair {
    const struct attn_view_row *forward, *backward;
    struct attn_ratio ratio; /* time of the backward pass over that of the forward pass */
};

struct attn_passes {
    struct attn_pass_pair *pairs; /* in the order of the view's rows */
    size_t count;
};

/* Returns 0, or -1: no memory. */
int attn_passes_create(const struct attn_view *view, struct attn_passes *out);
void attn_passes_free(struct attn_passes *passes);

/* The pair of a backward pass; NULL: none. */
const struct attn_pass_pair *attn_passes_find(const struct attn_passes *passes,
                                              const struct attn_view_row *backward);

/* "dk=64 hq=8 sq=512": the words of a case line that both passes share. */
void attn_pass_words(const struct attn_view_row *row, char *text, size_t size);

/* How documents explain the FLOPs of both. */
#define ATTN_PASSES_CONVENTION                                                                     \
    "FLOPs of an allowed cell: forward 2 (dk + dv), backward 2 (3 dk + 2 dv), five products, "     \
    "whatever a kernel recomputes; with dk = dv these are 4 d and 10 d"

#endif
