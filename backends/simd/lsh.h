/* SPDX-License-Identifier: Apache-2.0 */
/* lsh.h - the working memory of attention within buckets of a hash, for one head. It grows with the
 * tokens, and with nothing that has two of them. */
#ifndef ATTN_SIMD_LSH_H
#define ATTN_SIMD_LSH_H

#include <stdbool.h>

#include "flash.h"

/* Most tokens that are hashed, or that ask, at a time: a multiple of every micro-kernel's rows.
 * Most keys of a tile, and most products of a token with rotations at a time: multiples of every
 * micro-kernel's columns. */
enum { ATTN_LSH_ROWS = 96, ATTN_LSH_KEYS = 256, ATTN_LSH_PRODUCTS = 512 };

/* Token numbers and buckets are compared as floats, which must hold them exactly. */
#define ATTN_LSH_MOST_TOKENS (INT64_C(1) << 24)
#define ATTN_LSH_MOST_ROUNDS 256

/* A piece of the list of all tokens by round, bucket and position. */
struct attn_lsh_piece {
    float *keys; /* [tiles][dk][tile] normalised, times attn_lsh_factor */
    float *v;    /* [tiles tile][dv] */
    float *id;   /* [tiles tile] token numbers */
    float *low;  /* [tiles tile / a vector] the lowest number of each vector of keys */
    bool finite; /* all of v */
};

/* Rows are as long as the second extent, which is rounded up to 16 where it is dk, and to a
 * micro-kernel's columns where it is dv. S tokens, R rounds, nb buckets. */
struct attn_lsh_room {
    int64_t chunk, pieces; /* tokens of a piece, pieces of all rounds */
    int64_t rows;          /* queries at a time, a multiple of a micro-kernel's rows */
    int64_t tile, tiles;   /* keys of a tile, rounded up; tiles of a piece */
    int64_t columns;       /* products of a token in all rounds, R nb/2, rounded up */
    int64_t dk_room, dv_room;
    float *rotations;      /* [dk][columns] */
    float *products;       /* [ROWS][PRODUCTS] */
    float *high, *place;   /* [ROWS][R] the largest product of a round so far, and its number */
    float *x;              /* [ROWS][dk] queries */
    float *turn;           /* [16][dk] keys before they are transposed */
    float *s;              /* [ROWS][tile] scores, then weights */
    float *o, *most, *sum; /* [ROWS][dv], [ROWS] of an online softmax: output, maximum (log2),
                              denominator */
    struct attn_lsh_piece piece[2];
    float *by;                         /* [S] what makes a query a key: 1 over its length */
    int32_t *bucket;                   /* [R][S] */
    int32_t *token;                    /* [R S] by round, bucket and position */
    int32_t *count;                    /* [nb + 1] tokens of a round before each bucket */
    float *all_o, *all_most, *all_sum; /* [S][dv], [S] between two rounds; none with one round */
};

/* What brings scores to the log2 domain. */
static inline float attn_lsh_factor(const struct attn_problem *p)
{
    return (float)(p->scale * 1.4426950408889634);
}

/* The next `count` elements of 4 bytes behind base + *used. With base NULL it only counts. */
static inline void *attn_lsh_cut(float *base, int64_t *used, int64_t count)
{
    float *piece = base ? base + *used : NULL;
    *used += attn_round_up(count, 16);
    return piece;
}

static inline int64_t attn_lsh_even(int64_t all, int64_t most, int64_t unit)
{
    const int64_t parts = (all + most - 1) / most;
    return attn_round_up((all + parts - 1) / parts, unit);
}

/* Lays the arrays out from `base` on, which may be NULL. Returns how many floats they have. */
static inline int64_t attn_lsh_lay_out(const struct attn_problem *p, int mr, int nr, float *base,
                                       struct attn_lsh_room *r)
{
    const int64_t rows = ATTN_LSH_ROWS, places = p->rounds * p->sq;
    const int64_t kept = p->rounds > 1 ? p->sq : 0;
    int64_t used = 0;
    r->chunk = p->chunk > 0 ? p->chunk : p->sq;
    r->pieces = places / r->chunk;
    r->rows = attn_lsh_even(r->chunk, rows, mr);
    r->tile = attn_lsh_even(r->chunk, ATTN_LSH_KEYS, nr);
    r->tiles = (r->chunk + r->tile - 1) / r->tile;
    r->columns = attn_round_up(p->rounds * (p->buckets / 2), nr);
    r->dk_room = attn_round_up(p->dk, 16);
    r->dv_room = attn_round_up(p->dv, nr);
    r->rotations = attn_lsh_cut(base, &used, p->dk * r->columns);
    r->products = attn_lsh_cut(base, &used, rows * ATTN_LSH_PRODUCTS);
    r->high = attn_lsh_cut(base, &used, rows * p->rounds);
    r->place = attn_lsh_cut(base, &used, rows * p->rounds);
    r->x = attn_lsh_cut(base, &used, rows * r->dk_room);
    r->turn = attn_lsh_cut(base, &used, 16 * r->dk_room);
    r->s = attn_lsh_cut(base, &used, rows * r->tile);
    r->o = attn_lsh_cut(base, &used, rows * r->dv_room);
    r->most = attn_lsh_cut(base, &used, rows);
    r->sum = attn_lsh_cut(base, &used, rows);
    for (int n = 0; n < 2; n++) {
        r->piece[n].keys = attn_lsh_cut(base, &used, r->tiles * r->tile * r->dk_room);
        r->piece[n].v = attn_lsh_cut(base, &used, r->tiles * r->tile * r->dv_room);
        r->piece[n].id = attn_lsh_cut(base, &used, r->tiles * r->tile);
        r->piece[n].low = attn_lsh_cut(base, &used, r->tiles * r->tile);
    }
    r->by = attn_lsh_cut(base, &used, p->sq);
    r->bucket = attn_lsh_cut(base, &used, places);
    r->token = attn_lsh_cut(base, &used, places);
    r->count = attn_lsh_cut(base, &used, p->buckets + 1);
    r->all_o = attn_lsh_cut(base, &used, kept * r->dv_room);
    r->all_most = attn_lsh_cut(base, &used, kept);
    r->all_sum = attn_lsh_cut(base, &used, kept);
    return used;
}

#endif
