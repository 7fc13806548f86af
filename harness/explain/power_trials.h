/* SPDX-License-Identifier: Apache-2.0 */
/* power_trials.h - rows of an instance on which mistakes are tried. Private to this folder.
 *
 * A line is a row of one head. A unit is what is judged: one line, or in multi-head attention the
 * lines of all heads of a query. Multi-head attention is projected once, in double; from there on
 * it is attention like any other. */
#ifndef ATTN_POWER_TRIALS_H
#define ATTN_POWER_TRIALS_H

#include "explain/power_bits.h"
#include "judge/judge.h"
#include "reference/operands.h"

enum { ATTN_POWER_COLUMNS = 16, ATTN_POWER_NUMERICS = 8 };

/* Scores other than the right ones. */
enum attn_power_scores {
    ATTN_SCORES_RIGHT,
    ATTN_SCORES_TILED,      /* key/value head h % hkv */
    ATTN_SCORES_FIRST_HEAD, /* key/value head 0 */
    ATTN_SCORES_EXCHANGED,  /* mha: W_q and W_k exchanged */
    ATTN_SCORES_NO_B_Q,     /* mha: without b_q, without b_k, the two exchanged */
    ATTN_SCORES_NO_B_K,
    ATTN_SCORES_B_EXCHANGED,
    ATTN_SCORES_PARAMETERS /* + n: mistake n of the score's own parameters (mistakes.h) */
};

struct attn_power_line {
    int64_t b, h, i;
    const double *score[3]; /* [Sk] after: 0 raw * scale, 1 softcap, 2 bias */
};

struct attn_power_unit {
    int64_t place; /* in the request of the verdict; -1: not judged */
    int64_t line;  /* its first line */
    double *out;   /* [columns] the right answer */
    double *lse;   /* [lines of a unit] */
    bool empty;    /* a line of it sees no key: its answer is a rule of the plan */
};

/* What one distinct verdict has added: it depends on the numerics and on what was refused before.
 */
struct attn_power_kept {
    struct attn_numerics numerics;
    struct attn_power before, after;
};

struct attn_power_trials {
    const struct attn_instance *instance;
    const struct attn_problem *problem;
    struct ref_operands operands;
    int threads;
    bool projected; /* multi-head attention */
    bool usable;    /* the right answers agree with those of the reference */
    struct attn_power_line *lines;
    struct attn_power_unit *units;
    int64_t n_lines, n_units, lines_of_unit;
    int64_t *query; /* queries of a head, ascending; the lines of (b, h) are in this order */
    int64_t n_queries;
    int64_t *column; /* columns of out that are compared */
    int64_t n_columns;
    int64_t *value_column; /* columns of v that are loaded */
    int64_t n_value_columns;
    double *scores;   /* of all lines */
    double **values;  /* [2 * B * Hkv] -> [Sk, value columns], or NULL until they are asked for; the
                         second half for global tokens with values of their own */
    double **keys;    /* mha: [B * Hkv] -> [Sk, Dk] */
    double **queries; /* mha: [B * Hq] -> [Sq, Dq], the rows of `query` only */
    double *w_o;      /* mha with W_o: [columns, Hq * Dv] */
    int64_t most_keys; /* of any line */
    double largest;    /* |out| of all units */
    double *weight;    /* [Sk], scratch of a line */
    int64_t *key;      /* [Sk], scratch */
    double *head;      /* [lines of a unit, value columns], scratch of a unit */
    /* the last other scores that were asked for, head by head */
    double *other;     /* [heads of the lines][queries, Sk] */
    char *other_known; /* of each head: 0 not yet, 1 known, 2 there are none */
    int other_kind;
    struct attn_power_kept kept[ATTN_POWER_NUMERICS];
    int n_kept;
};

/* NULL: no memory, or it would cost too much. */
struct attn_power_trials *attn_power_trials_make(const struct attn_evidence *evidence);
void attn_power_trials_drop(struct attn_power_trials *trials);

/* The values of a key/value head for query i, [Sk, value columns]. NULL: no memory. */
const double *attn_power_values(struct attn_power_trials *t, int64_t b, int64_t g, int64_t i);
/* The last stage of other scores of a line, [Sk]; and the key/value head that they are of. NULL:
 * the mistake does not apply, or there is no memory. */
const double *attn_power_other(struct attn_power_trials *t, const struct attn_power_line *line,
                               int kind, int64_t *g);

/* ---- one head as a problem of its own (power_slice.c) ---- */

/* Query head h of batch b with key/value head g. q [queries, Dq] and k [Sk, Dk] replace the
 * operands, if not NULL; `parameters` is the number of a mistake in the score's parameters, or 0.
 */
struct attn_power_slice {
    int64_t b, h, g;
    const double *q, *k;
    int parameters;
};

/* Scores of the trial's queries over all keys, [queries, Sk] for each stage that is not NULL.
 * False: the mistake does not apply, or there is no memory. */
bool attn_power_score(struct attn_power_trials *t, const struct attn_power_slice *slice,
                      double *const stages[3]);

/* Number of mistakes in parameters of scores, counted from 1, and the name of each. */
const char *attn_power_parameters(int number);

/* power_project.c: row vectors times a weight matrix in double, for multi-head attention. */
const double *attn_power_keys(struct attn_power_trials *t, int64_t b, int64_t g);
const double *attn_power_queries(struct attn_power_trials *t, int64_t b, int64_t h);
/* y [rows, width] of rows `row` (NULL: all) of x times rows [first, first + width) of w, plus bias
 */
double *attn_power_project(const struct attn_tensor *x, int64_t b, const int64_t *row, int64_t rows,
                           const struct attn_tensor *w, const struct attn_tensor *bias,
                           int64_t first, int64_t width);

/* ---- answers with a mistake (power_answer.c) ---- */

enum { ATTN_KEEP_RIGHT, ATTN_KEEP_ALL, ATTN_KEEP_UNSCALED, ATTN_KEEP_NEXT };
enum { ATTN_CAP_RIGHT, ATTN_CAP_NONE, ATTN_CAP_FIRST };
enum { ATTN_DROP_NONE, ATTN_DROP_FIRST, ATTN_DROP_MIDDLE, ATTN_DROP_LAST };
enum {
    ATTN_OF_OWN,
    ATTN_OF_HEADS_REVERSED,
    ATTN_OF_HEAD_NEIGHBOUR,
    ATTN_OF_NEXT_ROW,
    ATTN_OF_OTHER_TILE
};

/* A mistake. Zero: none (`less` is what a factor of 1 lacks). */
struct attn_wrong {
    double scale_less; /* scale times 1 - less */
    double bias_less, alibi_less;
    double sink_less; /* times exp(sink) */
    double out_less, lse_less;
    double b_v_more, b_o_more; /* added this many times more than once */
    double residual_more;
    int cap, keep, drop, of, scores;
    int64_t bias_head, value_by; /* bias of head h + bias_head, value of key j + value_by */
    int64_t causal_by, left_by, right_by, len_by;
    int64_t global_by; /* key j is global if token j + global_by is */
    bool uniform, other_side;
    bool no_causal, no_window, no_len, no_mask, mask_turned;
    bool no_global_keys, no_global_rows, no_dilation;
    bool global_twice; /* a global key within the window counts twice */
    bool empty;        /* another rule for empty rows */
    bool head_pruned_counts, w_o_transposed, residual_first, concat_by_one;
};

/* Writes the answer of a unit: out [columns], lse [lines of a unit]. False: the mistake has no
 * answer there. */
bool attn_power_answer(struct attn_power_trials *t, const struct attn_power_unit *unit,
                       const struct attn_wrong *wrong, double *out, double *lse);

#endif
