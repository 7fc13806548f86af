/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - compares the checked elements of all outputs with the reference, and counts. Private to
 * this folder. */
#ifndef ATTN_TALLY_H
#define ATTN_TALLY_H

#include "judge/judgement.h"
#include "reference/reference.h"
#include "tensor/instance.h"

/* Running figures over the elements of a verdict. */
struct attn_tally {
    struct attn_judgement *verdict;
    double *ratios; /* NULL after attn_tally_outputs */
    int64_t seen, kept, stride;
    double sum_squares;
    int64_t out_elements;
    int64_t zeros;   /* elements of out that are 0 where the reference is not */
    int64_t inexact; /* elements of its reference that must be rounded to be stored */
    double least, most, ref_least, ref_most; /* ranges of out and of its reference */
    int64_t failures;
    int64_t unknown; /* elements of which nothing is known; not counted in `seen` */
};

/* Compares the units of the request in the outputs of v->has (one bit each) with the reference.
 * Sets *tally, and of the verdict ok, worst, the figures of errors, and the reason if an element is
 * wrong. The verdict has no figures yet. Returns 0, or -1: no memory. */
int attn_tally_outputs(const struct attn_instance *instance, const struct ref_request *request,
                       const struct ref_result *ref, struct attn_judgement *v,
                       struct attn_tally *tally);

#endif
