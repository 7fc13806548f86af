/* SPDX-License-Identifier: Apache-2.0 */
/* power_slice.h - one head of a problem as a problem of its own. Private to this folder. */
#ifndef ATTN_POWER_SLICE_H
#define ATTN_POWER_SLICE_H

#include "explain/power_trials.h"

/* Query head h of batch b with key/value head g. q [queries, Dq] and k [Sk, Dk] replace the
 * operands, if not NULL; `parameters` is the number of a mistake in the score's parameters, or 0.
 */
struct attn_power_slice {
    int64_t b, h, g;
    const double *q, *k;
    int parameters;
};

/* Scores of the trial's queries over all keys, [queries, Sk] for each stage that is not NULL.
 * False: the mistake does not apply, or there is no memory. */
bool attn_power_score(struct attn_power_trials *t, const struct attn_power_slice *slice,
                      double *const stages[3]);

/* Number of mistakes in parameters of scores, counted from 1, and the name of each. */
const char *attn_power_parameters(int number);

#endif
