/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.h - the smallest case that still fails. */
#ifndef ATTN_SHRINK_H
#define ATTN_SHRINK_H

#include "case/case.h"

/* What is shrunk, and how the caller, who runs cases, tries a smaller one. */
struct attn_shrink_way {
    const struct attn_case *c;
    enum attn_fill fill; /* the fill that failed; normal: the case's own */
    const char *pack;    /* if the case is a pack: the file that its part is written to */
    void *context;
    /* Runs a case: does it fail in the same way as the first one? The last case for which this is
     * true is the result. */
    bool (*fails)(void *context, const struct attn_case *c);
    /* Is it time to stop trying? */
    bool (*over)(void *context);
    /* Called with each smaller case that fails, and the number of tries so far. */
    void (*kept)(void *context, int tries, const char *line);
};

/* Leaves out features and halves sizes of a failing case (under the fill that failed) as long as it
 * fails. From a pack it cuts out a part. Returns true with *smallest (free it with attn_case_free),
 * or false with the reason: the case does not fail when it runs alone, or the part of a pack cannot
 * be written. */
bool attn_shrink(const struct attn_shrink_way *way, struct attn_case *smallest, char *why,
                 size_t size);

#endif
