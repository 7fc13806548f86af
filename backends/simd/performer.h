/* SPDX-License-Identifier: Apache-2.0 */
/* performer.h - the working memory of attention by random features, for one head. */
#ifndef ATTN_SIMD_PERFORMER_H
#define ATTN_SIMD_PERFORMER_H

#include "flash.h"

/* Keys or queries at a time: a multiple of every micro-kernel's rows. With causal each block reads
 * its own keys one by one, so it has fewer. */
enum { ATTN_PERFORMER_ROWS = 48, ATTN_PERFORMER_CAUSAL = 24 };

/* Extents are rounded up to a micro-kernel's columns (_room), dk to 16. Rows of the second extent m
 * or dv lie m_row and dv_row apart, a cache line more: at powers of two they would fall into the
 * same cache sets. Tiles of scores may read a few rows of features more than there are. */
struct attn_performer_room {
    int64_t m, m_room, m_row, dk_room, dv_room, dv_row;
    float *w;           /* [dk][m] transposed */
    float *x;           /* [ROWS][dk] scaled keys or queries */
    float *half;        /* [Sk] |k'|^2 / 2 */
    float *products;    /* [Sk][m] w k' */
    float *phi, *phi_q; /* [ROWS][m] features of keys and of queries; 0 beyond m */
    float *v;           /* [ROWS][dv] */
    float *state, *sum; /* [m][dv], [m] */
    float *out;         /* [ROWS][dv] */
    float *s;           /* [CAUSAL][CAUSAL] products of features of a block */
};

/* Lays the arrays out from `base` on, which may be NULL. Returns how many floats they have. */
static inline int64_t attn_performer_lay_out(const struct attn_problem *p, int nr, float *base,
                                             struct attn_performer_room *r)
{
    const int64_t rows = ATTN_PERFORMER_ROWS;
    r->m = attn_problem_extent(p, 'm');
    r->m_room = attn_round_up(r->m, nr);
    r->m_row = r->m_room + 16;
    r->dk_room = attn_round_up(p->dk, 16);
    r->dv_room = attn_round_up(p->dv, nr);
    r->dv_row = r->dv_room + 16;
    const struct {
        float **array;
        int64_t floats;
    } arrays[] = {{&r->w, p->dk * r->m_row},
                  {&r->x, rows * r->dk_room},
                  {&r->half, attn_round_up(p->sk, 16)},
                  {&r->products, p->sk * r->m_row},
                  {&r->phi, rows * r->m_row},
                  {&r->phi_q, rows * r->m_row},
                  {&r->v, rows * r->dv_row},
                  {&r->state, r->m * r->dv_row},
                  {&r->sum, r->m_room},
                  {&r->out, rows * r->dv_row},
                  {&r->s, ATTN_PERFORMER_CAUSAL * ATTN_PERFORMER_CAUSAL}};
    int64_t used = 0;
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) {
        *arrays[n].array = base ? base + used : NULL;
        used += attn_round_up(arrays[n].floats, 16);
    }
    return used;
}

/* The same for products of pairs of bf16: arrays marked P hold pairs, two elements of a row in a
 * float's place. */
enum { ATTN_PERFORMER_PAIR_ROWS = 64, ATTN_PERFORMER_PAIR_ROW = ATTN_PERFORMER_PAIR_ROWS / 2 + 16 };

struct attn_performer_pairs {
    int64_t m, m_room, m_row, x_row, v_row, dv_room;
    float *w;                       /* P panels of features */
    float *x, *row;                 /* P [ROWS][x_row] keys or queries; [dk] one of them, scaled */
    float *half;                    /* [ROWS] |x'|^2 / 2 */
    float *products;                /* [ROWS][m_row] w x', then features */
    float *phi;                     /* P [ROWS][m_row] features */
    float *v, *v_t;                 /* P [ROWS][v_row]; P [dv][ROWS] */
    float *state;                   /* [dv][m_row] */
    float *sum;                     /* [m_room] */
    float *parts[ATTN_STATE_PARTS]; /* P panels of columns of the state; the largest last */
    float *out;                     /* [ROWS][dv_room] */
};

/* The types and masks that have these products. */
static inline bool attn_performer_has_pairs(const struct attn_problem *p, uint32_t pairs)
{
    return !(p->flags & ATTN_FLAG_CAUSAL) && attn_tensor_find(p, ATTN_FEATURES)->dtype == pairs;
}

static inline int64_t attn_performer_pairs_lay_out(const struct attn_problem *p, float *base,
                                                   struct attn_performer_pairs *r)
{
    const int64_t rows = ATTN_PERFORMER_PAIR_ROWS;
    r->m = attn_problem_extent(p, 'm');
    r->m_room = attn_round_up(r->m, 64);
    r->m_row = r->m_room + 16;
    r->x_row = attn_round_up(p->dk, 32) / 2;
    r->v_row = attn_round_up(p->dv, 32) / 2;
    r->dv_room = attn_round_up(p->dv, 64);
    const struct {
        float **array;
        int64_t floats;
    } arrays[] = {{&r->w, r->m_room * r->x_row},
                  {&r->x, rows * r->x_row},
                  {&r->row, 2 * r->x_row},
                  {&r->half, rows},
                  {&r->products, rows * r->m_row},
                  {&r->phi, rows * r->m_row},
                  {&r->v, rows * r->v_row},
                  {&r->v_t, 2 * r->v_row * ATTN_PERFORMER_PAIR_ROW},
                  {&r->state, 2 * r->v_row * r->m_row},
                  {&r->sum, r->m_room},
                  {&r->parts[0], r->m_room / 2 * r->dv_room},
                  {&r->parts[1], r->m_room / 2 * r->dv_room},
                  {&r->parts[2], r->m_room / 2 * r->dv_room},
                  {&r->out, rows * r->dv_room}};
    int64_t used = 0;
    for (size_t n = 0; n < sizeof arrays / sizeof *arrays; n++) {
        *arrays[n].array = base ? base + used : NULL;
        used += attn_round_up(arrays[n].floats, 16);
    }
    return used;
}

#endif
