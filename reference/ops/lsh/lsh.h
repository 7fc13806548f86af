/* SPDX-License-Identifier: Apache-2.0 */
/* lsh.h - what the files of the operator share. */
#ifndef ATTN_REFERENCE_LSH_H
#define ATTN_REFERENCE_LSH_H

#include "reference/job.h"

enum { REF_LSH_OUT, REF_LSH_LSE, REF_LSH_BUCKETS }; /* numbers of the outputs */

/* One head of one batch entry on its way through the hashes. */
struct ref_lsh_hash {
    const struct ref_operands *operands;
    const struct ref_arithmetic *arithmetic; /* of a backend; NULL: no margins */
    bool stored;                             /* take what a backend stored, where it is right */
    int64_t b, h, steps, width, rounds, half, chunk;
    double *q;         /* [S,D] */
    double *rotations; /* [D,R,nb/2] */
    double *x;         /* [S] of 2 R nb/2: the products of a token, and sums of their sizes */
    int threads;
    int32_t *bucket; /* [R,S] the bucket of each token */
};

/* Room for the hashes of a problem; ref_lsh_hash_free frees it in any case. */
int ref_lsh_hash_create(struct ref_lsh_hash *hash, const struct ref_operands *operands,
                        const struct ref_arithmetic *arithmetic, int threads);
void ref_lsh_hash_free(struct ref_lsh_hash *hash);

/* Loads head (b, h), and fills `bucket`: with what is given, else with what is computed. */
void ref_lsh_hash_head(struct ref_lsh_hash *hash, int64_t b, int64_t h);

/* The least distance of the largest product to the next one, over what both may be wrong together;
 * over all tokens and rounds of the head that was loaded. Infinite where no product is wrong. */
double ref_lsh_least_margin(const struct ref_lsh_hash *hash);

int ref_lsh_compute(const struct ref_job *job);
int ref_lsh_derive(const struct attn_problem *problem, const char *fill, int threads);
bool ref_lsh_ambiguous(const struct attn_problem *problem, char *why, size_t size);

#endif
