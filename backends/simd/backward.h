/* SPDX-License-Identifier: Apache-2.0 */
/* backward.h - gradients of attention (op attention_backward), flash style: scores are computed
 * again from q, k and the given LSE, a tile at a time, so memory grows with S and not with its
 * square.
 *
 * A *unit* is one tile of keys of one key/value head. It packs its k and v once, goes through the
 * query tiles of all heads of the group, and owns its dk and dv. What it adds to dq lies in a
 * buffer that all units of the head share. They add to each query tile in the order of the key
 * tiles: a unit waits until the one before it is done there. So each cell costs five products, no
 * sum needs an atomic addition, and results do not depend on threads.
 *
 * Threads take units in an order in which a unit waits only for units before it, so there is no
 * deadlock. Two threads on neighbouring tiles of a head run one query tile apart.
 *
 * What is here and in backward.c knows nothing of vectors. backward_template.h is the loop of a
 * unit, over the steps that one kind of operand defines: backward_floats.h or backward_pairs.h. */
#ifndef ATTN_SIMD_BACKWARD_H
#define ATTN_SIMD_BACKWARD_H

#include <stdatomic.h>

#include "plan.h"

/* The query tiles of a batch entry. */
struct attn_backward_seen {
    struct attn_keys any; /* the union of the rows' intervals */
    struct attn_keys all; /* keys that every row sees; empty: first >= end */
};

/* Working memory of one thread, aligned to 64 bytes. Rows of q, dout, k, dk, dv have zeros up to a
 * whole vector. */
struct attn_backward_scratch {
    float *kt, *vt;  /* [key_tile/nr][dk or dv, rounded up to 16][nr] packed keys and values */
    float *k;        /* [key_tile][dk_row] */
    float *dk, *dv;  /* [key_tile][dk_row or dv_row] sums */
    float *q, *dout; /* [query_tile][dk_row or dv_row] */
    float *s, *ds;   /* [query_tile][score_row] scores, then p; dP, then dS */
    float *kept;     /* [score_row] factors of dropout of a row */
    float *capped;   /* [score_row] derivatives of softcap of a row */
    float *held;     /* [16][dk_row or dv_row, the longer] */
    /* Of pairs alone, see backward_pairs.h. There dk and dv are [width][score_row]. */
    float *q_t, *dout_t; /* [width, rounded up to 32][rows_row] */
    float *p, *dst;      /* [query_tile/2][score_row] */
    float *dsr;          /* [query_tile][score_row/2] */
};

struct attn_backward {
    struct attn_flash flash; /* job of the scores: its factor, masks, dropout. Without softcap,
                                which is applied before its derivative is lost */
    const struct attn_problem *problem;
    struct attn_operands operands;
    int64_t key_tile, query_tile; /* keys and queries of a tile */
    int64_t key_tiles, query_tiles;
    int64_t dk_row, dv_row; /* floats between rows of dk, or dv, columns in buffers */
    int64_t score_row;      /* floats between rows of scores */
    int64_t rows_row;       /* floats between columns of q and dO as pairs of rows */
    float factor;           /* of raw scores in the exponential; 1 if they come multiplied */
    bool finish;            /* every cell takes more steps than the exponential: bias, mask, ... */

    struct attn_keys *keys;          /* [b][sq] intervals of keys */
    struct attn_backward_seen *seen; /* [b][query_tiles] */
    float *lse;    /* [b][hq][sq] times log2(e). +inf: the row sees no key, and p becomes 0 */
    float *delta;  /* [b][hq][sq] dO . OUT */
    float *slopes; /* [b][hkv][key_tiles][group] sums of dS |i + off - j| */

    /* Sums of dq, of the key/value heads under way. Head n = b * hkv + g has slot n % slots. */
    int64_t slots;
    float *dq;            /* [slots][group][query_tiles * query_tile][dk_row] */
    atomic_llong *turn;   /* [slots][group][query_tiles] n * key_tiles + the tile that is next */
    atomic_llong *done;   /* [slots] units that are complete */
    bool follows;         /* batches add to the same dbias: each after the one before it, */
    bool follows_all;     /* after all of its visits: these add to the same elements, too */
    atomic_llong *visits; /* [units] then: visits of query tiles that are done */
    atomic_llong next;    /* unit that nobody has taken */

    struct attn_backward_scratch scratch[]; /* of each thread */
};

/* As attn_plan_create, for attention_backward. attn_backward_destroy frees it. Where `isa` has
 * pairs, but no gradients by them or of this type, isa->other serves. */
int attn_backward_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                         const struct attn_services *services, struct attn_plan **plan, char *why,
                         size_t size);
void attn_backward_destroy(struct attn_plan *plan);

/* Computes all gradients with all threads of the plan. */
void attn_backward_run(struct attn_plan *plan, const struct attn_operands *given);

/* Waits until the slot of a head has served those before it. */
void attn_backward_await_slot(const struct attn_backward *job, int64_t slot, int64_t head);

/* Most row groups of a query tile. */
#define ATTN_BACKWARD_GROUPS 64

/* For instances. Waits until the units before this one have added to a query tile of query head
 * `place` of the group; `unit` counts as n * key_tiles + tile. */
void attn_backward_await(struct attn_backward *job, int64_t unit, int64_t place, int64_t tile);
/* This unit has. */
void attn_backward_pass(struct attn_backward *job, int64_t unit, int64_t place, int64_t tile);

/* Around each visit of a query tile, skipped or not; they count from 0. Where batches add to the
 * same dbias, waits until the batch before has made the same visit, or all visits. */
void attn_backward_follow(struct attn_backward *job, int64_t unit, int64_t visit);
void attn_backward_lead(struct attn_backward *job, int64_t unit, int64_t visit);

#endif
