/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h - what the files of the mutant backend share: an online softmax over tiles of keys, in
 * plain C, correct but for the one bug that is planted.
 *
 * Two phases. In the first, threads share out the items (b, h, tile of queries, split of keys);
 * each leaves a partial result: for each row the maximum, the sum of exp and the unnormalised
 * output. In the second, the calling thread merges the splits and the sink, normalises, and writes.
 */
#ifndef ATTN_MUTANT_H
#define ATTN_MUTANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/problem.h"
#include "bugs.h"

enum {
    QUERY_TILE = 8,
    KEY_TILE = 16,
    LANES = 8,       /* columns of a vector, as far as bugs of tails go */
    SPLIT_KEYS = 32, /* one query: at least so many keys a split, and */
    MOST_SPLITS = 4, /* at most so many splits */
    MOST_THREADS = 2
};

/* Places in a partial result. The two in the middle serve bugs alone: with lazy rescaling, the
 * maximum that lags; the sum without what dropout takes away. */
enum { PARTIAL_MAXIMUM, PARTIAL_SUM, PARTIAL_TRUE_MAXIMUM, PARTIAL_KEPT, PARTIAL_OUT };

/* Working memory of one thread; rows are `width` apart: the widest operand, to a whole vector. */
struct mutant_scratch {
    float *q;   /* [QUERY_TILE,width] queries, turned into what meets the keys */
    float *k;   /* [KEY_TILE,width] keys, or W_k k for additive scores */
    float *v;   /* [KEY_TILE,width] */
    float *s;   /* [QUERY_TILE,KEY_TILE] scores; -inf: takes no part */
    float *row; /* [width] */
};

/* By role, for the role is what the bugs of operands ask for. dtype 0: not given. */
struct mutant_operands {
    struct attn_tensor view[ATTN_B_O + 1];
};

struct mutant_job {
    const struct attn_problem *p;
    struct mutant_operands operands;
    int64_t width, splits;
    int threads;
    struct mutant_scratch scratch[MOST_THREADS];
    float *partial; /* [B,Hq,Sq,splits] of {maximum, sum, true maximum, sum of kept, out[Dv]} */
    float *heads_q, *heads_k, *heads_v, *heads; /* mha: [B,S,H*D] each */
    bool ran;     /* result_cached: the partial results are those of an earlier run */
    float unused; /* takes what stray loads read, so that they are not removed */
};

/* arithmetic.c */
float mutant_exp(float x);
float mutant_round(uint32_t dtype, float x); /* to nearest */
float mutant_truncate(float x, int bits);    /* drops so many bits of the mantissa */

/* operands.c: an element as f32 and back; where it lies is where bugs of strides are. */
int64_t mutant_at(const struct mutant_job *job, uint32_t role, int64_t b, int64_t h, int64_t i,
                  int64_t c);
float mutant_get(const struct mutant_job *job, uint32_t role, int64_t at);
void mutant_put(const struct mutant_job *job, uint32_t role, int64_t at, float value);

/* mask.c */
int64_t mutant_offset(const struct mutant_job *job, int64_t b);
bool mutant_allowed(const struct mutant_job *job, int64_t b, int64_t h, int64_t i, int64_t j);
/* Does no row of a tile see a key of the other. */
bool mutant_tile_masked(const struct mutant_job *job, int64_t b, int64_t i, int64_t j);
bool mutant_kept(const struct mutant_job *job, int64_t b, int64_t h, int64_t i, int64_t j);

/* scores.c: scores of queries [i, i + rows) and keys [j, j + keys) of a head, with the keys and
 * values, into the scratch. */
void mutant_load_queries(const struct mutant_job *job, struct mutant_scratch *scratch, int64_t b,
                         int64_t h, int64_t i, int64_t rows);
void mutant_score_tile(const struct mutant_job *job, struct mutant_scratch *scratch, int64_t b,
                       int64_t h, int64_t i, int64_t rows, int64_t j, int64_t keys);

/* softmax.c: one tile of keys into the partial result of row r of the tile of queries. */
void mutant_partial_begin(const struct mutant_job *job, float *partial);
void mutant_partial_add(const struct mutant_job *job, const struct mutant_scratch *scratch,
                        int64_t b, int64_t h, int64_t i, int64_t r, int64_t j, float *partial);
/* The splits of a row and its sink: merged into the first split's partial. */
void mutant_merge(const struct mutant_job *job, int64_t h, float *partials);

/* attention.c and mha.c */
void mutant_attend(struct mutant_job *job);
void mutant_project_inputs(struct mutant_job *job);
/* To `out`, which the heads had taken the place of. */
void mutant_project_output(struct mutant_job *job, const struct attn_tensor *out);

static inline int64_t mutant_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline bool mutant_has(const struct mutant_job *job, uint32_t role)
{
    return job->operands.view[role].dtype != 0;
}

static inline float *mutant_partial(const struct mutant_job *job, int64_t b, int64_t h, int64_t i)
{
    const struct attn_problem *p = job->p;
    return job->partial + ((b * p->hq + h) * p->sq + i) * job->splits * (p->dv + PARTIAL_OUT);
}

#endif
