/* SPDX-License-Identifier: Apache-2.0 */
/* checks.h - names of the checks that need no reference. */
#ifndef ATTN_CHECKS_H
#define ATTN_CHECKS_H

#include <stdbool.h>

enum attn_check {
    /* relations between results of one backend; relations.c says how each is made */
    ATTN_CHECK_PERMUTE_KEYS,
    ATTN_CHECK_SHIFT,
    ATTN_CHECK_SCALE_V,
    ATTN_CHECK_LINEAR_V,
    ATTN_CHECK_ONES,
    ATTN_CHECK_CAUSAL_PREFIX,
    ATTN_CHECK_GQA,
    ATTN_CHECK_BATCH,
    ATTN_CHECK_SPLIT,
    ATTN_CHECK_DUPLICATE_KEY,
    ATTN_CHECK_KEEP,
    ATTN_CHECK_PERMUTE_QUERIES,
    ATTN_CHECK_PERMUTE_HEADS,
    ATTN_CHECK_SHIFT_K,
    ATTN_CHECK_CHUNKS,
    ATTN_CHECK_IDENTITY_PROJECTION,
    ATTN_CHECK_NO_DENOMINATOR,
    ATTN_CHECK_LINEAR_DOUT,
    ATTN_CHECK_FUNCTIONS,
    ATTN_CHECK_THREADS,
    /* the same plan again and again */
    ATTN_CHECK_RERUN,
    ATTN_CHECK_LEAKS,
    ATTN_CHECK_NEW_DATA, /* renew.c */
    /* part of every run */
    ATTN_CHECK_INPUTS,
    ATTN_CHECK_BOUNDS,
    ATTN_CHECK_STATE,
    ATTN_CHECK_UNKNOWNS, /* once for each operator and score, and entered for all of their cases */
    ATTN_CHECK_COUNT,
    ATTN_CHECK_CHOICES =
        ATTN_CHECK_INPUTS /* the checks before it can be chosen, the rest are always on */
};

/* The name as in a record's `checks`; one line on what must hold. */
const char *attn_check_name(enum attn_check check);
const char *attn_check_meaning(enum attn_check check);

#endif
