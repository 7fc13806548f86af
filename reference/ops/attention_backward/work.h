/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - a request on its way through the groups: what compute.c, room.c and totals.c share. */
#ifndef ATTN_REFERENCE_BACKWARD_WORK_H
#define ATTN_REFERENCE_BACKWARD_WORK_H

#include "reference/ops/attention_backward/attention_backward.h"

/* Cells of a batch of keys: some 60 MB. */
#define REF_BACKWARD_CELLS (INT64_C(1) << 20)
/* Rows that are computed before what they add to a bias, a sink and slopes is added up. */
#define REF_BACKWARD_BLOCK 64

/* What a row has at a key. */
struct ref_backward_cell {
    double dz, e_dz, t_dz, kept, e_kept, t_kept;
    bool seen;
};

/* A sum of many terms: its value, the errors of the terms, their sizes, their number. */
struct ref_backward_total {
    double value, off, size, terms;
};

/* A thread's arrays. */
struct ref_backward_lane {
    struct ref_backward_row row;
    double *memory;
    double *list[6]; /* [rows]: the terms of a key */
    double *room;    /* [5, width] */
    int64_t *index, *order, *start;
};

struct ref_backward_work {
    struct ref_backward_group group;
    struct ref_job job;
    struct ref_backward_lane *lanes;
    /* Of the group: */
    int64_t *entry_of_row; /* [rows] entry of the request, or -1 */
    bool all_rows;
    int64_t slots;                      /* rows that add something to keys */
    int64_t *slot_of_row, *row_of_slot; /* [rows] their numbers, -1: adds nothing; and back */
    /* Of the batch: */
    int64_t first, columns;          /* entries of the request of keys */
    int64_t *column_of_key;          /* [Sk] or -1 */
    struct ref_backward_cell *cells; /* [columns, slots] */
    bool again;                      /* rows have been computed before */
    /* Of the block: */
    int64_t begin; /* its first row */
    double *bias;  /* [REF_BACKWARD_BLOCK, Sk, 2] dS and its error by key */
    struct ref_backward_total *sinks, *slopes;      /* [REF_BACKWARD_BLOCK] */
    struct ref_backward_total *bias_totals;         /* [requested units, Z] */
    struct ref_backward_total *sink_totals;         /* [requested heads] */
    struct ref_backward_total *slope_totals;        /* [requested heads] */
    int64_t *bias_entry, *sink_entry, *slope_entry; /* of each unit, or -1 */
};

static inline const struct attn_problem *ref_backward_problem(const struct ref_backward_work *work)
{
    return work->job.operands.problem;
}

static inline bool ref_backward_wants(const struct ref_backward_work *work, int output)
{
    return work->job.result->output[output].value != NULL;
}

/* room.c: ATTN_OK or ATTN_OUT_OF_MEMORY; ref_backward_end in any case. */
int ref_backward_begin(const struct ref_job *job, struct ref_backward_work *work);
void ref_backward_end(struct ref_backward_work *work);

/* totals.c. ref_backward_note: keeps what row r of the block adds to bias, sink and slopes.
 * ref_backward_gather: adds up the rows of a block, in order. ref_backward_finish: their results.
 */
void ref_backward_note(const struct ref_backward_work *work, const struct ref_backward_row *row,
                       int64_t r);
void ref_backward_gather(const struct ref_backward_work *work, int64_t count);
void ref_backward_finish(const struct ref_backward_work *work);

/* compute.c: arrays that no other thread has at the time, and their return. */
struct ref_backward_lane *ref_backward_take(const struct ref_backward_work *work);
void ref_backward_return(struct ref_backward_lane *lane);

/* count.c: dQ, dK and dV of the group at work, if its operands are those of census and `given`.
 * *counted says whether. `first_key` and `keys` are entries of the request. ATTN_OK or
 * ATTN_OUT_OF_MEMORY. */
int ref_backward_count(struct ref_backward_work *work, int64_t first_key, int64_t keys,
                       bool *counted);

#endif
