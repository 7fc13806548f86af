/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - rows that are wrong and rows that are right, on which hypotheses are tried. Private to
 * this folder. */
#ifndef ATTN_SAMPLE_H
#define ATTN_SAMPLE_H

#include "reference/reference.h"
#include "tensor/instance.h"
#include "tensor/units.h"

/* An explanation must differ from the right answer by more than both bounds in this many elements.
 * One element agrees by chance in at most a tenth of cases (16-bit types). Four elements agree with
 * one of 100 hypotheses in one of 100 cases. */
enum { ATTN_SAMPLE_DISTINCT = 4 };

/* Some rows of one output; arrays are [count, width] of the sample. A row is a unit of the output's
 * leader with all units that follow it, as a request names it. */
struct attn_sample_rows {
    int64_t *index; /* ascending */
    int64_t count;
    double *got, *want, *bound;  /* what was computed, the right answer, its bound */
    double *trial, *trial_bound; /* of a hypothesis */
};

struct attn_sample {
    const struct attn_instance *instance;
    const struct ref_request *request; /* of the verdict */
    const struct ref_result *ref;
    int output; /* the first output that is wrong */
    struct attn_units units;
    uint32_t role;                /* its role */
    const struct ref_units *rows; /* of the verdict */
    int64_t width;                /* elements of the output in a row */
    struct attn_sample_rows wrong, held;
    double rank; /* of the best explanation so far */
    char *text;  /* its sentence */
    size_t size;
};

/* False: no output is wrong, or no memory. Free it in any case. */
bool attn_sample_take(struct attn_sample *sample);
void attn_sample_free(struct attn_sample *sample);

/* Are two values equal within a bound? NaN equals NaN. */
bool attn_sample_within(double got, double want, double bound);

/* The place of element c of a row of the output, in elements of its tensor. */
int64_t attn_sample_place(const struct attn_sample *sample, int64_t row, int64_t c);

/* The share of the wrong elements of the first `count` wrong rows that the trial explains, or the
 * share of all their elements if that is smaller. 0 if too few elements tell the trial from the
 * right answer. Elements that are not finite prove nothing. */
double attn_sample_share(const struct attn_sample *sample, int64_t count);

/* Writes the answer of a problem, and its bound, into the trial of the first `count` of these rows.
 * Inputs that follow from others stay as they were given (ref_request.given), as for the kernel. */
bool attn_sample_answer(const struct attn_sample *sample, const struct attn_sample_rows *rows,
                        const struct attn_problem *problem, int64_t count);

/* Writes "explained: 99.5 % of 384 elements of wrong rows ..." if the share is large enough and no
 * better explanation has been found. `local`: the explanation holds only in the wrong rows; any
 * that also fits the right rows is better. */
__attribute__((format(printf, 4, 5))) void
attn_sample_propose(struct attn_sample *sample, double share, bool local, const char *format, ...);

#endif
