/* SPDX-License-Identifier: Apache-2.0 */
/* nystrom.h - what the files of the operator share. */
#ifndef ATTN_REFERENCE_NYSTROM_H
#define ATTN_REFERENCE_NYSTROM_H

#include "reference/job.h"

/* Segments of the sequence: landmarks, but no more than tokens. */
static inline int64_t ref_nystrom_segments(int64_t landmarks, int64_t steps)
{
    return landmarks < steps ? landmarks : steps;
}

/* One head of one batch entry in double. */
struct ref_nystrom_head {
    const struct ref_job *job;
    int64_t b, h, steps, segments, dk, dv;
    double *q, *k, *v;   /* [S,Dk], [S,Dk], [S,Dv] */
    double *kt;          /* [Dk,S] */
    int64_t first, rows; /* the requested rows of out */
    double norm;         /* largest column sum of A of all heads; 0: each head has its own */
};

/* One computation of a head. Number 0 is the exact one; with bounds it writes onto a tape how far
 * the roundings of each number spread. The others read the tape, and move each number by a draw of
 * that spread. All steps put their numbers onto the tape in the same order. */
struct ref_nystrom_run {
    const struct ref_nystrom_head *head;
    int number;
    bool tracks;                   /* number 0, with bounds */
    double *tape;                  /* of the next number; NULL: no bounds */
    double most;                   /* number 0: the largest magnitude on the way */
    uint32_t row, drawn, words[4]; /* draws of a row are its own, whichever others are wanted */
    double coherent;               /* structured fills: the same draw for all numbers of a step */
    double *spread;                /* [max(S, m, Dk, Dv)] of one row, at work */
    double *partial;               /* the same */
    double *ql, *kl, *klt;         /* [m,Dk], [m,Dk], [Dk,m] */
    double *a, *z, *x, *y, *t;     /* [m,m] */
    double *f, *g;                 /* [rows,m], [m,S] */
    double *gv, *zgv;              /* [m,Dv] */
    double *out;                   /* [rows,Dv] */
};

/* steps.c: all steps of a run. */
void ref_nystrom_run(struct ref_nystrom_run *run);

/* The largest column sum of A of a head, with room from a run. */
double ref_nystrom_norm(struct ref_nystrom_run *run);

/* Numbers that a run puts onto the tape. -1: too many to count. */
int64_t ref_nystrom_tape(const struct ref_nystrom_head *head);

int ref_nystrom_compute(const struct ref_job *job);

#endif
