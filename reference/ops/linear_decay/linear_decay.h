/* SPDX-License-Identifier: Apache-2.0 */
/* linear_decay.h - what the two files of the operator share. */
#ifndef ATTN_REFERENCE_LINEAR_DECAY_H
#define ATTN_REFERENCE_LINEAR_DECAY_H

#include "reference/job.h"

enum { REF_DECAY_OUT, REF_DECAY_STATE }; /* numbers of the outputs */

int ref_linear_decay_compute(const struct ref_job *job);

/* error.c: what a term has gone through that entered the state `since` steps ago. */
struct ref_decay_term {
    double growth;  /* relative error of its products and sums */
    double crossed; /* how often the state was stored and decayed as a whole */
};

/* given: it is of the state before step 0, which is stored when it is taken over. */
struct ref_decay_term ref_decay_term_of(const struct ref_arithmetic *a, int64_t dk, int64_t since,
                                        bool given);

/* Relative error of such a term. `steps` decays, whose logarithms have the sizes `way` together;
 * `around`: the same from a chunk before the term on, for differences of prefix sums. */
double ref_decay_error(const struct ref_arithmetic *a, const struct ref_decay_term *term,
                       double steps, double way, double around);

/* What underflows lose of a sum up to step `last`, where |q| adds up to `reach`. */
double ref_decay_lost(const struct ref_arithmetic *a, int64_t dk, int64_t last, double reach);

/* allow.c: struct ref_stream. */
int ref_linear_decay_allow(const struct ref_operands *in, const struct ref_arithmetic *a,
                           const double *handed, double *const allowed[REF_OUTPUTS]);

#endif
