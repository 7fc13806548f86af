/* SPDX-License-Identifier: Apache-2.0 */
/* sample.h - rows that are wrong, and rows that are not, to hold hypotheses against. Private to
 * this folder. */
#ifndef ATTN_SAMPLE_H
#define ATTN_SAMPLE_H

#include "reference/reference.h"
#include "tensor/instance.h"

/* Elements in which an explanation must differ from the right answer by more than both bounds. One
 * agrees by chance in at most a tenth of cases (16-bit types), four of them with one of 100
 * hypotheses in one of 100. */
enum { ATTN_SAMPLE_DISTINCT = 4 };

/* Some rows of one output; arrays are [count, width] of the sample. */
struct attn_sample_rows {
    int64_t *index; /* of the problem's rows, ascending */
    int64_t count;
    double *got, *want, *bound;  /* what was computed, the right answer, its bound */
    double *trial, *trial_bound; /* of a hypothesis */
};

struct attn_sample {
    const struct attn_instance *instance;
    const struct attn_numerics *numerics;
    const struct ref_rows *rows; /* of the verdict */
    const struct ref_result *ref;
    int threads;
    const struct attn_tensor *tensor; /* what is wrong: the first of out, lse and weights */
    int64_t width;                    /* its elements in a row */
    struct attn_sample_rows wrong, held;
    double rank; /* of the best explanation so far */
    char *text;  /* says it */
    size_t size;
};

/* False: no output is wrong, or no memory. Free it in any case. */
bool attn_sample_take(struct attn_sample *sample);
void attn_sample_free(struct attn_sample *sample);

/* Is a value another one to within a bound; NaN is NaN. */
bool attn_sample_within(double got, double want, double bound);

/* Where element c of a row of the output lies, in elements of its tensor. */
int64_t attn_sample_place(const struct attn_sample *sample, int64_t row, int64_t c);

/* Share of the wrong elements of the first `count` wrong rows that the trial explains, or of all
 * their elements where that is less; 0 where too few tell it from the right answer. What is not
 * finite proves nothing. */
double attn_sample_share(const struct attn_sample *sample, int64_t count);

/* The answer of a problem, and its bound, into the trial of the first `count` of these rows. */
bool attn_sample_answer(const struct attn_sample *sample, const struct attn_sample_rows *rows,
                        const struct attn_problem *problem, int64_t count);

/* Says "explained: 99.5 % of 384 elements of wrong rows ..." where the share is enough and no
 * better explanation has been found. `local`: one that does not say why other rows are right, so
 * any that does is better. */
__attribute__((format(printf, 4, 5))) void
attn_sample_propose(struct attn_sample *sample, double share, bool local, const char *format, ...);

#endif
