/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - an operator as data: its operands, outputs, parameters, and the functions that compute it.
 *
 * An operator is one folder of reference/ops. These tables say what it takes, gives and costs. No
 * code branches on the number of an operator. reference/ops/README.md says how to add one.
 *
 * Shapes are strings of axis letters, one letter per axis. A letter is an extent of the problem:
 *   b B    h Hq    g Hkv    i Sq    j Sk    q Dq    k Dk    v Dv    d Dh (additive scores)
 *   Q Hq*Dq    K Hkv*Dk    V Hkv*Dv    O Hq*Dv
 *   e f w  widths of x_q, x_k, x_v    o  width of the output of mha
 *   s span    P 2*span    D Sq+Sk-1 (disentangled scores)    N  half of buckets=
 *   W X Y Z  axes of the gradient of a bias: those of the bias, 1 where it is broadcast
 * A digit is an axis of that many entries. Any other letter belongs to one operator, which sets its
 * extent through a parameter. */
#ifndef ATTN_REFERENCE_OP_H
#define ATTN_REFERENCE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* One past the last role that a table can hold. */
#define REF_ROLES 128
/* The largest number of outputs of an operator. */
#define REF_OUTPUTS 8
/* The largest number of an operator's own parameters. */
#define REF_PARAMS 16
/* Room for the extents of all letters. */
#define REF_LETTERS 128
/* The widest unit that struct ref_op.comparable is called for. */
#define REF_COMPARABLE 8
/* struct ref_op.scores: every known score. */
#define REF_SCORES_ALL UINT32_MAX

/* Which element types a tensor may have. */
enum ref_type {
    REF_TYPE_MAIN, /* the problem's type */
    REF_TYPE_SIDE, /* an input: the problem's type, or f32 */
    REF_TYPE_WIDE, /* drawn inputs and outputs: f32, or f64 if the problem's type is f64; inputs
                      that a user gives: as SIDE */
    REF_TYPE_BOOL,
    REF_TYPE_INDEX /* i32 */
};

enum {
    REF_NEEDED = 1,     /* a problem without it is refused */
    REF_ACTIVATION = 2, /* follows layout= and view= */
    REF_SHORT = 4,      /* may have only the first axis: len is [B] or [B,Sq] */
    REF_BY_HEAD = 8,    /* has one entry per query head on its first axis. params=shared: all heads
                           have the same, by a stride of 0 */
    REF_DEFAULT = 32, /* an output: a problem has one of these at least; a case has all of them, or
                         those that out= names */
    REF_ORTHOGONAL = 16 /* drawn as blocks of orthogonal rows, as many as a row is long; the last
                           block may have fewer. The rows are as long as rows of N(0,1) */
};

/* An input. */
struct ref_operand {
    uint32_t role;
    const char *name;  /* in packs and messages */
    const char *shape; /* axis letters */
    const char *one;   /* axes that may have extent 1 in a pack and are then broadcast */
    uint8_t type;      /* enum ref_type */
    uint8_t flags;     /* REF_NEEDED ... */
    uint32_t fallback; /* the role that replaces this one if it is absent; 0: none */
};

/* An output. A unit is compared and sampled as a whole. It has all elements with the same indices
 * of the unit's letters; the rest of the shape is the unit's width. Units are numbered in the order
 * of these letters, the last one fastest. */
struct ref_output {
    uint32_t role;
    const char *name, *shape, *unit;
    uint8_t type, flags; /* REF_NEEDED: every problem has it; REF_DEFAULT */
    uint8_t leader;      /* the output whose sample this one follows: its own number, or an earlier
                            output whose unit letters begin this one's */
};

enum ref_param_kind {
    REF_PARAM_INT,
    REF_PARAM_REAL,
    REF_PARAM_WORD, /* one of the words of `values`, "a|b|c", as its number from 0 */
    REF_PARAM_TABLE /* how a table of this name is made, `values` "none|tensor|rule:N": there is
                       none (0), a pack has it (1), or by a rule of a number N, from 2 on (N) */
};

/* A parameter that the case language reads only for this operator. If it has the name of an
 * optional operand, a value other than 0 adds this operand to the problem. A parameter that only
 * one score has (ref_score.keys) must be given with it if `fallback` is below `least`. */
struct ref_param {
    const char *key, *values, *help; /* as in the table of keys */
    uint8_t kind;                    /* enum ref_param_kind */
    char letter;                     /* the extent that it sets; 0: none */
    double fallback, least, most;
    size_t field; /* of struct attn_problem: double for REAL, int64_t for the others; 0: none */
};

/* An optional operand or output that a problem has if a parameter has this value, and only then. */
struct ref_choice {
    const char *key; /* of a REF_PARAM_WORD */
    int value;
    uint32_t role;
};

struct ref_operands;
struct ref_arithmetic;

/* A sequence that may be cut: one call gives the state that the next one takes. */
struct ref_stream {
    uint32_t in, out; /* roles of the state */
    /* How far results may be from the exact ones, from sizes of finite inputs alone: sets an entry
     * for each element of output o at allowed[o], in the order of its shape, of the numbers that
     * are compared (`comparable`). Rounding to the output type comes on top. `handed`: the same of
     * the state that is given; NULL: that is exact. ATTN_OK or ATTN_OUT_OF_MEMORY. */
    int (*allow)(const struct ref_operands *operands, const struct ref_arithmetic *arithmetic,
                 const double *handed, double *const allowed[REF_OUTPUTS]);
};

/* An output that is the gradient of an optional operand: without this a problem cannot have it. */
struct ref_gradient {
    uint32_t output, operand;
    const char *letters; /* the axes of the output, those of the operand, but 1 long where it is
                            broadcast. NULL: the output has a shape of its own */
};

/* Two extents that must be the same. */
struct ref_tie {
    char letter, as;
    const char *why; /* in messages: "wkv has one sequence: sk = sq" */
};

/* Traits of an operator. Inputs made on purpose, relations and explanations read them. */
enum {
    REF_QKV = 1,       /* q, k and v are operands, not projections: [B,Hq,Sq,Dq] ... */
    REF_PROJECTED = 2, /* q, k and v are projections of x_q, x_k, x_v; heads are cut from widths */
    REF_SOFTMAX = 4,   /* scores, mask, softmax over keys, weighted sum of v: steps 1 to 7 of
                          struct attn_problem, with its rules for empty rows */
    REF_APPROXIMATES = 8, /* an approximation of softmax attention of q, k (none: q/|q|) and v;
                            fills ref_result.implied. Units of OUT are b, h, i */
    REF_UNIFORM = 16,     /* with REF_QKV, without a softmax: if all keys are 0, those that are
                            allowed weigh alike, so that fill=census counts them */
    REF_ROWS_ALIKE = 32   /* with REF_QKV, without causal and a length for each query: rows of a
                            head with the same query have the same answer */
};

/* Extents by letter, and which roles are present. Sizes and costs are counted from these. */
struct ref_shape {
    int64_t extent[REF_LETTERS]; /* by letter; -1: not known */
    bool present[REF_ROLES];     /* a tensor that replaces an absent one does not count */
};

/* An element of an input that is to be drawn. */
struct ref_drawn {
    uint32_t role;
    const char *fill;     /* of the case: "normal", "census" ... */
    bool is_f64;          /* the problem's type has the range of f64 */
    const int64_t *shape; /* of the input */
    int64_t index;        /* row-major; an axis that broadcasts counts as 1 */
};

/* Is it drawn under the fill of this name? */
bool ref_drawn_under(const struct ref_drawn *element, const char *fill);

/* Is it drawn under the normal fill or one of these, whose list NULL ends? */
bool ref_drawn_made(const struct ref_drawn *element, const char *const *fills);

struct ref_job;

struct ref_op {
    uint32_t op;         /* enum attn_op */
    const char *name;    /* word of op= */
    const char *summary; /* one line */
    uint32_t traits;     /* REF_QKV ... */
    uint64_t flags;      /* ATTN_FLAG_* that it accepts */
    uint32_t scores;     /* bit s: accepts the score of number s; 0: it has no scores */
    const struct ref_operand *const *operands; /* groups of rows, each ended by role 0; NULL ends */
    const struct ref_output *outputs; /* ended by role 0; every problem has the first, or one of
                                         those with REF_DEFAULT */
    const struct ref_param *params;   /* ended by a NULL key; NULL: none */
    const char *const *keys;   /* accepted keys of the case language that not every operator has;
                                  ended by NULL. sq, dk and so on need no entry */
    const char *const *needed; /* keys that every case must have, in addition to sq and dk */
    const char *main_operand;  /* the operand whose type is the problem's type: "q", "x_q" */

    bool scaled; /* scale= has a meaning without scores */
    /* Its default then; reads extents that parameters set, and widths. NULL: 1. */
    double (*scale)(const struct ref_shape *shape);
    bool stabilised; /* kernels may scale by a number that all keys make: under a causal mask later
                        keys may then change the last bits of a row */
    bool stochastic; /* its bound is a test of significance, not a proof: BOUND.md 8 */
    const struct ref_choice *choices;     /* ended by a role of 0; NULL: none */
    const struct ref_gradient *gradients; /* ended by an output of 0; NULL: none */
    const struct ref_tie *ties;           /* ended by a letter of 0; NULL: none */
    const struct ref_stream *stream;      /* NULL: no state is handed on */
    /* Flags of a problem that follow from the fields of its parameters. NULL: there are none. */
    uint64_t (*param_flags)(const struct attn_problem *problem);
    /* Does the result of a batch entry depend on the others? NULL: no. */
    bool (*coupled)(const struct attn_problem *problem);
    /* Checks what the tables cannot say. ATTN_OK or ATTN_INVALID with the reason. NULL: nothing. */
    int (*check)(const struct ref_operands *operands, char *why, size_t size);
    /* Sets extents that follow from other extents, or from which roles are present. Leaves unknown
     * ones unchanged. ref_shape_complete calls it. NULL: there are none. */
    void (*extents)(struct ref_shape *shape);
    /* An element of a random instance. *number is from N(0,1) at first. False: the harness draws
     * this input as it draws others. NULL: so it draws them all. */
    bool (*draw)(const struct ref_drawn *element, double *number);
    const char *const *fills; /* names of the fills that `draw` knows; ended by NULL. NULL: none */
    /* Fills whose q and k harness/tensor makes as for attention, without the traits; `draw` may
     * make its other inputs. Ended by NULL. NULL: traits decide. */
    const char *const *crafted;
    /* Writes the inputs that follow from others, after those were drawn under the fill of this
     * name. ATTN_OK or ATTN_OUT_OF_MEMORY. NULL: there are none. */
    int (*derive)(const struct attn_problem *problem, const char *fill, int threads);
    /* Does what `derive` writes under the fill of this name not follow from the others? Then it is
     * given (ref_request.given). NULL: it always does. */
    bool (*untied)(const char *fill);
    /* Bit o: several values of output o may be right, and the other outputs come from the one that
     * was taken. The reference then takes what a backend stored, where that is right (see
     * struct ref_request). */
    uint32_t chosen;
    /* True if a problem does not show which of several right results a backend has computed, with
     * the reason. No backend can be held to a result then. NULL: never. */
    bool (*ambiguous)(const struct attn_problem *problem, char *why, size_t size);
    /* Turns one unit of an output of up to REF_COMPARABLE numbers, as a backend stored it, into the
     * numbers that are compared with ours. NULL: they are compared as they are. */
    void (*comparable)(int output, double *unit);
    /* Cells (i, j) that are computed, of all batches and heads. Reads only the data of LEN. NULL:
     * all that ref_count_allowed counts with a softmax, else none. */
    int64_t (*cells)(const struct attn_problem *problem);
    /* FLOPs by the convention in OP.md; nnz: cells as above. */
    double (*flops)(const struct ref_shape *shape, double nnz);
    /* Approximate multiply-adds for one unit of output `output` with its bound. Includes the
     * outputs that follow it. */
    double (*unit_cost)(const struct attn_problem *problem, int output);
    /* Multiply-adds that the first unit of a group costs besides; units that differ only in their
     * last index are a group. NULL: none. */
    double (*group_cost)(const struct attn_problem *problem, int output);
    /* Multiply-adds for all units of a key head of `output`, a leader, and of those that follow it,
     * if these are cheap under the fill of this name. 0: they are not, with these numerics (NULL:
     * with any). NULL: under no fill. */
    double (*whole)(const struct attn_problem *problem, const struct attn_numerics *numerics,
                    const char *fill, int output);
    /* Computes the whole request. ATTN_OK or ATTN_OUT_OF_MEMORY. */
    int (*compute)(const struct ref_job *job);
    /* A role with this property: changing its sign must change every element of OUT that is finite
     * and not 0. Messages call it *word. 0: there is none. */
    uint32_t (*linear)(const struct attn_problem *problem, const char **word);
};

/* All operators, in the order of their names; ended by NULL. */
extern const struct ref_op *const ref_ops[];

/* An operator by number or by name. NULL: there is none. */
const struct ref_op *ref_op_find(uint32_t op);
const struct ref_op *ref_op_named(const char *name);

/* True if the operator with number `op` has all of these traits. */
bool ref_op_is(uint32_t op, uint32_t traits);

/* The operand with this role or name. NULL: the operator has none. */
const struct ref_operand *ref_operand_of(const struct ref_op *op, uint32_t role);
const struct ref_operand *ref_operand_named(const struct ref_op *op, const char *name);
/* Operand n, counted from 0 over all groups. NULL after the last. */
const struct ref_operand *ref_operand_at(const struct ref_op *op, size_t n);

/* The parameter that decides whether a problem has an operand or output. NULL: none does. */
const struct ref_choice *ref_choice_of(const struct ref_op *op, uint32_t role);

/* The row of an output among the operator's gradients. NULL: it is none of an optional operand. */
const struct ref_gradient *ref_gradient_of(const struct ref_op *op, uint32_t output);

/* ref_output_count: number of outputs. ref_output_of: number of the output of a role, or -1. */
int ref_output_count(const struct ref_op *op);
int ref_output_of(const struct ref_op *op, uint32_t role);

/* "Hq", "Sk", ... as messages spell a letter. */
const char *ref_letter_name(char letter);

/* The extent of a letter, or -1: not known. */
int64_t ref_extent(const struct ref_shape *shape, char letter);

/* Sets all extents to unknown and all roles to absent. */
void ref_shape_init(struct ref_shape *shape);

/* Sets the extents that follow from those already set: Q K V O, and the operator's own. False if a
 * product does not fit. */
bool ref_shape_complete(const struct ref_op *op, struct ref_shape *shape);

/* The shape of a problem. Letters that are no field of the problem come from its tensors: from the
 * first tensor with the letter, outputs before operands, in the order of the tables. */
void ref_shape_of_problem(const struct ref_op *op, const struct attn_problem *problem,
                          struct ref_shape *shape);

/* The first tie of the operator that these extents break; NULL: none that is known. */
const struct ref_tie *ref_shape_misfit(const struct ref_op *op, const struct ref_shape *shape);

/* Elements of a tensor with these axes. -1: an extent is not known, or the product does not fit. */
int64_t ref_shape_elements(const struct ref_shape *shape, const char *axes);

/* ref_unit_count: number of units of an output; 0 if an extent is not known. ref_unit_width:
 * elements of one unit. */
int64_t ref_unit_count(const struct ref_output *output, const struct ref_shape *shape);
int64_t ref_unit_width(const struct ref_output *output, const struct ref_shape *shape);

/* ref_unit_place: the position of a unit. `at` gets one index per axis of the output's shape, 0 on
 * the axes along which the unit runs. Returns the rank. ref_unit_at is the inverse. */
int ref_unit_place(const struct ref_output *output, const struct ref_shape *shape, int64_t unit,
                   int64_t at[ATTN_MAX_RANK]);
int64_t ref_unit_at(const struct ref_output *output, const struct ref_shape *shape,
                    const int64_t at[ATTN_MAX_RANK]);

/* The index of a unit on the axis of `letter`. -1: the unit has no such axis. */
int64_t ref_unit_index(const struct ref_output *output, const struct ref_shape *shape, int64_t unit,
                       char letter);

/* The number n of units of an output for one unit of its leader. Units u*n to u*n + n-1 belong to
 * unit u of the leader. For a leader n is 1. */
int64_t ref_followers(const struct ref_op *op, int output, const struct ref_shape *shape);

#endif
