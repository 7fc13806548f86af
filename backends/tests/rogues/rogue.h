/* SPDX-License-Identifier: Apache-2.0 */
/* rogue.h - what the files of the rogue backend share: flash attention in plain C that gcc
 * vectorises, fast enough for real sizes, and correct but for the one bug that is planted.
 *
 * An item is a tile of rows against the keys of one split. Threads share out the items. A tile has
 * up to QUERY_TILE rows of one head; or, with few queries and grouped heads, rows of several heads
 * of a group (packed). Without splits an item writes its rows itself. With splits it leaves partial
 * results, and the calling thread merges them. */
#ifndef ATTN_ROGUE_H
#define ATTN_ROGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/problem.h"
#include "bugs.h"

enum {
    QUERY_TILE = 64,
    KEY_TILE = 64,
    COLUMNS = 16,     /* widths are padded to a multiple of this */
    FEW_QUERIES = 8,  /* up to so many rows a head: packed heads, and split keys */
    SPLIT_KEYS = 256, /* at least so many keys a split, and */
    MOST_SPLITS = 8,  /* at most so many splits */
    MOST_THREADS = 4
};

/* Row r of a tile: query i of head h. `to` is where it is written: i, but for some bugs. */
struct rogue_row {
    int64_t h, i, to;
    int64_t q_head;        /* whose queries are read: h, but for some bugs */
    int64_t from;          /* first key of the split */
    struct attn_keys keys; /* those that len, causal and window leave */
    float maximum, sum;
    float lse;        /* split_lse: of the last split */
    bool lost;        /* never written */
    bool uniform;     /* all scores alike */
    bool first_empty; /* its first split has no keys */
};

/* The cell of a mask, a bias or dropout. */
struct rogue_place {
    int64_t b, h, i, j;
};

/* Working memory of one thread. `wide` is dv, padded; `inner` the widest row of a product. */
struct rogue_scratch {
    struct rogue_row *rows; /* [QUERY_TILE] */
    float *q;               /* [QUERY_TILE,inner] */
    float *kt;              /* [inner,KEY_TILE] keys, transposed */
    float *v;               /* [KEY_TILE,wide] */
    float *s;               /* [QUERY_TILE,KEY_TILE] scores, then p; -inf: takes no part */
    float *o;               /* [QUERY_TILE,wide] not yet divided by the sum */
    float *line;            /* [inner or wide] */
};

/* What one split leaves of one row; the unnormalised output follows. */
struct rogue_partial {
    float maximum, sum;
};

struct rogue_job {
    const struct attn_problem *p;
    struct attn_operands t; /* for mha: q, k, v and out are the projections below */
    int64_t inner, wide, splits;
    int64_t tile_rows; /* rows of a head, or of a group of packed heads */
    bool packed;
    int threads;
    struct rogue_scratch scratch[MOST_THREADS];
    struct rogue_partial *partials;            /* [B,Hq,Sq,splits] */
    float *partial_out;                        /* [B,Hq,Sq,splits,wide] */
    void *heads_q, *heads_k, *heads_v, *heads; /* mha: [B,S,H*D] each, in the problem's type */
    struct rogue_cheat *cheat;                 /* cheats.c */
    struct rogue_update *update;               /* update.c; of a binding */
    struct rogue_memo *memo;                   /* memo.c; of a binding */
    double elsewhere_s;                        /* of the last run, in another process */
};

static inline int64_t rogue_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rogue_largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* micro.c: c[rows,columns] += a[rows,inner] b[inner,columns]. Rows are those of a whole QUERY_TILE
 * in a and c, computed in fours; `columns` is a multiple of COLUMNS. */
void rogue_product(int64_t rows, int64_t inner, int64_t columns, const float *a, int64_t a_step,
                   const float *b, int64_t b_step, float *c, int64_t c_step);
float rogue_largest_of(const float *s, int64_t n);       /* n a multiple of COLUMNS */
float rogue_exp_row(float *s, float maximum, int64_t n); /* s <- exp(s - maximum); the sum */
float rogue_exp(float x);
void rogue_scale_row(float *row, float factor, int64_t n);
bool rogue_finite(const float *x, int64_t n);

/* tiles.c: elements [at + c * step], c < n, to f32 and back. */
void rogue_read(const struct attn_tensor *t, int64_t at, int64_t step, int64_t n, float *to);
void rogue_write(const struct attn_tensor *t, int64_t at, int64_t step, int64_t n,
                 const float *from);
void rogue_load_queries(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                        int64_t rows);
void rogue_load_keys(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                     int64_t g, int64_t j, int64_t keys);
void rogue_load_values(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                       int64_t g, int64_t j, int64_t keys);

/* cells.c: the scores of one row and one tile of keys from their products; -inf where a cell takes
 * no part; and dropout of its weights. */
void rogue_score_row(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                     int64_t keys, float *s);
void rogue_drop_row(const struct rogue_job *job, const struct rogue_row *row, int64_t b, int64_t j,
                    int64_t keys, float *p);
/* keys.c */
struct attn_keys rogue_keys_of(const struct rogue_job *job, int64_t b, int64_t i);

/* wraps.c: attn_row_start, and the cell of an operand, as a kernel with a bug sees them. */
int64_t rogue_start(const struct rogue_job *job, const struct attn_tensor *t, int64_t b, int64_t h,
                    int64_t i);
struct rogue_place rogue_place_of(const struct rogue_job *job, const struct rogue_row *row,
                                  uint32_t role, int64_t b, int64_t j);
int64_t rogue_kv_head(const struct rogue_job *job, int64_t h);
bool rogue_heads_apart(void); /* the bug needs heads that are not packed */
void rogue_name_row(const struct rogue_job *job, struct rogue_row *row, int64_t b, int64_t h,
                    int64_t i);

/* strays.c: where bugs of single rows and tiles are. */
bool rogue_in_odd_tile(const struct rogue_job *job, int64_t i); /* 64 rows past the middle */
bool rogue_is_odd_row(const struct rogue_job *job, int64_t i);  /* one of them */
/* Which query is computed for row i, and where it is written. */
void rogue_stray_row(const struct rogue_job *job, struct rogue_row *row);
float rogue_stray_scale(const struct rogue_job *job, const struct rogue_row *row);
/* Are these keys forgotten by these rows, or their values. */
bool rogue_stray_keys(const struct rogue_job *job, const struct rogue_row *row, int64_t j);
/* exp of a row whose bug is in exp or in p; false: it has no such bug. */
bool rogue_stray_exp(const struct rogue_job *job, float *s, float base, float *sum);
/* The factor by which what came before is brought to a new maximum. */
float rogue_stray_rescale(float factor);
void rogue_stray_output(const struct rogue_job *job, const struct rogue_row *row, float *o,
                        float *lse);

/* attend.c and finish.c */
void rogue_add_sink(const struct rogue_job *job, struct rogue_row *row, int64_t b, float *o);
void rogue_attend(struct rogue_job *job);
void rogue_score_tile(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                      int64_t g, int64_t rows, int64_t j, int64_t keys);
/* The sink joins, rows [0, rows) are divided by their sums and written, with lse and weights. */
void rogue_finish_rows(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                       int64_t rows, float *o);
void rogue_merge(struct rogue_job *job);

/* update.c: false: the problem is none of its kind. */
bool rogue_update_run(struct rogue_job *job);
void rogue_update_free(struct rogue_update *update);
/* Processor time of the calling thread. */
double rogue_seconds(void);

/* memo.c: gives a result that was kept for these inputs; false: there is none, and the next one is
 * to be kept. */
bool rogue_memo_give(struct rogue_job *job, const struct attn_tensor *tensors);
void rogue_memo_keep(struct rogue_job *job, const struct attn_tensor *tensors);
void rogue_memo_free(struct rogue_memo *memo);
/* Is the first row of x that of the first run? */
bool rogue_memo_knows_row(struct rogue_job *job, const struct attn_tensor *tensors);

/* mha.c */
void rogue_project_inputs(struct rogue_job *job, const struct attn_operands *given);
void rogue_project_output(struct rogue_job *job, const struct attn_operands *given);

#endif
