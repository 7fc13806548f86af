/* SPDX-License-Identifier: Apache-2.0 */
/* chunked.h - the working memory of chunked: a chunk of a head, for some columns of v. */
#ifndef ATTN_SIMD_CHUNKED_H
#define ATTN_SIMD_CHUNKED_H

#include "flash.h"

/* Rows whose weights are made at a time: a multiple of a vector; with pairs of a block of tiles. */
enum { ATTN_CHUNKED_ROWS = 48, ATTN_CHUNKED_PAIR_ROWS = 64 };

/* Most columns of a block, so that v of a chunk stays in the second cache. Scores are made
 * once a block. */
enum { ATTN_CHUNKED_COLUMNS = 384 };

/* Arrays of f32. For products of pairs of bf16 those marked P hold pairs (flash_pack_pairs.h), two
 * elements of an axis in a float's place. Each extent is a multiple of 16, that of keys of 64. */
struct attn_chunked_room {
    int64_t rows;          /* at a time */
    int64_t dk, dl;        /* floats of a row of q and of lin_q */
    int64_t keys, columns; /* of a chunk and of the part */
    float *kt;             /* P [dk][keys] keys of a chunk, transposed; or panels of keys */
    float *lin_k;          /* P [keys][dl] */
    float *v;              /* P [keys][columns] v of a chunk, unless it is read in place */
    float *state;          /* [width of lin_q][columns] */
    float *q, *lin_q;      /* P [rows][dk], P [rows][dl] */
    float *s;              /* [rows][keys] scores, then weights */
    float *out;            /* [rows][columns] */
    float *row;            /* [keys + columns] one row of the bias, of the gate or of v */

    /* Pairs alone. */
    int64_t p_row; /* floats between two rows of the next two: more than a power of two */
    float *p;      /* P [rows][keys] weights */
    float *lin_kt; /* P [width of lin_q][keys] lin_k, transposed */
    float *parts[ATTN_STATE_PARTS]; /* P [width of lin_q][columns] of the state, times its scale;
                                         the largest last */
};

static inline float *attn_chunked_cut(float *base, int64_t *used, int64_t rows, int64_t row)
{
    float *piece = base ? base + *used : NULL;
    *used += rows * row;
    return piece;
}

/* Lays the arrays out from `base` on, which may be NULL. `step` is that of the instance (flash.h).
 * Returns how many floats they have. */
static inline int64_t attn_chunked_lay_out(const struct attn_problem *p, int step, float *base,
                                           struct attn_chunked_room *r)
{
    const bool pairs = step > 1;
    const int64_t in_one = pairs ? 2 : 1; /* elements of a row in a float's place */
    int64_t used = 0;
    r->rows = pairs ? ATTN_CHUNKED_PAIR_ROWS : ATTN_CHUNKED_ROWS;
    r->dk = attn_round_up((p->dk + in_one - 1) / in_one, 16);
    r->dl = attn_round_up((attn_problem_extent(p, 'l') + in_one - 1) / in_one, 16);
    r->keys = attn_round_up(attn_clamp(p->chunk, 1, p->sk), 64);
    r->columns = attn_columns_of(p, ATTN_CHUNKED_COLUMNS);
    r->p_row = r->keys / in_one + 16;
    r->kt = attn_chunked_cut(base, &used, r->dk, r->keys);
    r->lin_k = attn_chunked_cut(base, &used, r->keys, r->dl);
    r->v = attn_chunked_cut(base, &used, r->keys / in_one, r->columns);
    r->state = attn_chunked_cut(base, &used, in_one * r->dl, r->columns);
    r->q = attn_chunked_cut(base, &used, r->rows, r->dk);
    r->lin_q = attn_chunked_cut(base, &used, r->rows, r->dl);
    r->s = attn_chunked_cut(base, &used, r->rows, r->keys);
    r->out = attn_chunked_cut(base, &used, r->rows, r->columns);
    r->row = attn_chunked_cut(base, &used, 1, r->keys + r->columns);
    r->p = attn_chunked_cut(base, &used, pairs ? r->rows : 0, r->p_row);
    r->lin_kt = attn_chunked_cut(base, &used, pairs ? in_one * r->dl : 0, r->p_row);
    for (int n = 0; n < ATTN_STATE_PARTS; n++)
        r->parts[n] = attn_chunked_cut(base, &used, pairs ? r->dl : 0, r->columns);
    return used;
}

#endif
