/* SPDX-License-Identifier: Apache-2.0 */
/* shrink.h - the smallest case that still fails. */
#ifndef ATTN_SHRINK_H
#define ATTN_SHRINK_H

#include "case/case.h"

/* What is shrunk, and how whoever runs cases tries a smaller one. */
struct attn_shrink_way {
    const struct attn_case *c;
    enum attn_fill fill; /* under which it failed; normal: its own */
    const char *pack;    /* of a case that is a pack: the file that the part of it is written to */
    void *context;
    /* Runs a case: does it fail as the first one did. The last one of which this is true is what
     * the first one has been shrunk to. */
    bool (*fails)(void *context, const struct attn_case *c);
    /* Is it time to stop trying. */
    bool (*over)(void *context);
    /* Hears of each smaller case that fails, after so many tries. */
    void (*kept)(void *context, int tries, const char *line);
};

/* Leaves features out and halves sizes of a failing case (under the fill that failed) as long as it
 * fails. Of a pack a part is cut out. Returns true with *smallest (free it with attn_case_free), or
 * false with the reason: it does not fail when it is run alone, or the part of a pack cannot be
 * written. */
bool attn_shrink(const struct attn_shrink_way *way, struct attn_case *smallest, char *why,
                 size_t size);

#endif
