/* SPDX-License-Identifier: Apache-2.0 */
/* judgement.h - the verdict on one case and backend. */
#ifndef ATTN_JUDGEMENT_H
#define ATTN_JUDGEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "results/status.h"

struct attn_judgement {
    enum attn_status status; /* PASS, FAIL, MISTRUSTED, APPROX, or ERROR (the reference failed) */
    char reason[512];
    double max_ratio, median_ratio; /* error over bound, all outputs together */
    double max_abs, max_rel, rms;   /* of `out` */
    double delta;   /* the bounds may fail a right result with this probability; 0: never */
    char worst[96]; /* the place of max_ratio: "out[b0 h3 i17 c5]" */
    /* The answer and its bound by the best arithmetic of the type (grade.h); 0: not measured.
     * grade: the largest error over its bound. slack: the declared bound over it, median. */
    double grade, slack;
    int64_t rows_checked, rows_total; /* units of the first output */
    int64_t rows_counted;             /* rows whose keys fill=census counted; 0: not tried */
    bool sampled;                     /* units of some output were not compared */
    int64_t rows_every; /* rows judged under fill=few_queries or sparse_keys; 0: not tried */
    int64_t keys_every; /* keys judged under fill=sparse_grad; 0: not tried */
    int64_t unknown;  /* elements that may be beyond the range of the declared types: not judged */
    uint32_t has, ok; /* bit o, for output o of the operator: it exists; it is right or absent */
};

#endif
