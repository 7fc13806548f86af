/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - an operator as data: its operands, outputs, parameters, and the functions that compute it.
 *
 * An operator is one folder of reference/ops. Whoever asks "what does this operator take, give and
 * cost" reads these tables; nobody branches on the number of an operator. reference/ops/README.md
 * says how to add one.
 *
 * Shapes are strings of axis letters, one a axis. A letter is an extent of the problem:
 *   b B    h Hq    g Hkv    i Sq    j Sk    q Dq    k Dk    v Dv    d Dh (additive scores)
 *   Q Hq*Dq    K Hkv*Dk    V Hkv*Dv    O Hq*Dv
 *   e f w  widths of x_q, x_k, x_v    o  width of the output of mha
 * Other letters belong to the operator that gives them an extent through a parameter. */
#ifndef ATTN_REFERENCE_OP_H
#define ATTN_REFERENCE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attnbench/backend.h"

/* One past the last role that a table can hold. */
#define REF_ROLES 128
/* Most outputs of an operator. */
#define REF_OUTPUTS 8
/* Most parameters of an operator's own. */
#define REF_PARAMS 16
/* Room for the extents of all letters. */
#define REF_LETTERS 128
/* struct ref_op.scores: every score that there is. */
#define REF_SCORES_ALL UINT32_MAX

/* Which element types a tensor may have. */
enum ref_type {
    REF_TYPE_MAIN, /* the problem's type */
    REF_TYPE_SIDE, /* an input: the problem's type, or f32 */
    REF_TYPE_WIDE, /* drawn, and as an output: f32, or f64 where the problem's type is f64; given as
                      an input: as SIDE */
    REF_TYPE_BOOL,
    REF_TYPE_INDEX /* i32 */
};

enum {
    REF_NEEDED = 1,     /* a problem without it is refused */
    REF_ACTIVATION = 2, /* follows layout= and view= */
    REF_SHORT = 4       /* may have the first axis alone: len is [B] or [B,Sq] */
};

/* An input. */
struct ref_operand {
    uint32_t role;
    const char *name;  /* in packs and messages */
    const char *shape; /* axis letters */
    const char *one;   /* axes of it that may have extent 1 in a pack, and are then broadcast */
    uint8_t type;      /* enum ref_type */
    uint8_t flags;     /* REF_NEEDED ... */
    uint32_t fallback; /* the role that stands in where this one is absent; 0: none */
};

/* An output. Its unit is what is compared and sampled as one: all elements with the same indices of
 * the unit's letters; the rest of the shape is the unit's width. The letters are ordered as units
 * are numbered, the last one fastest. */
struct ref_output {
    uint32_t role;
    const char *name, *shape, *unit;
    uint8_t type, flags; /* REF_NEEDED: every problem has it */
    uint8_t leader;      /* the output whose sample this one follows: its own number, or that of an
                            earlier output whose unit letters begin this one's */
};

enum ref_param_kind {
    REF_PARAM_INT,
    REF_PARAM_REAL,
    REF_PARAM_WORD /* one of the words of `values`, "a|b|c", as its number from 0 */
};

/* A parameter that the case language reads for this operator alone. One with the name of an operand
 * that is not needed asks for it: the operand is there where the parameter is not 0. */
struct ref_param {
    const char *key, *values, *help; /* as in the table of keys */
    uint8_t kind;                    /* enum ref_param_kind */
    char letter;                     /* the extent that it gives; 0: none */
    double fallback, least, most;
    size_t field; /* of struct attn_problem: double for REAL, int64_t for the others; 0: none */
};

/* What an operator is made of. Inputs made on purpose, relations and explanations ask for these. */
enum {
    REF_QKV = 1,       /* q, k and v are operands as they meet: [B,Hq,Sq,Dq] and so on */
    REF_PROJECTED = 2, /* q, k and v are projections of x_q, x_k, x_v; heads are cut from widths */
    REF_SOFTMAX = 4    /* scores, mask, softmax over keys, weighted sum of v: steps 1 to 7 of
                          struct attn_problem, with its rules for empty rows */
};

/* Extents by letter, and which roles are there: what sizes and costs are counted from. */
struct ref_shape {
    int64_t extent[REF_LETTERS]; /* by letter; -1: not known */
    bool present[REF_ROLES];     /* a tensor that stands in for an absent one does not count */
};

struct ref_operands;
struct ref_job;

struct ref_op {
    uint32_t op;         /* enum attn_op */
    const char *name;    /* word of op= */
    const char *summary; /* one line */
    uint32_t traits;     /* REF_QKV ... */
    uint64_t flags;      /* ATTN_FLAG_* that it takes */
    uint32_t scores;     /* bit s: takes the score of number s; 0: scores mean nothing to it */
    const struct ref_operand *const *operands; /* groups of rows, each ended by role 0; NULL ends */
    const struct ref_output *outputs;          /* ended by role 0; the first one is OUT */
    const struct ref_param *params;            /* ended by a NULL key; NULL: none */
    const char *const *keys;   /* keys of the case language that not every operator takes, ended by
                                  NULL: sq, dk and so on need no entry */
    const char *const *needed; /* keys without which there is no case, beside sq and dk */
    const char *main_operand;  /* whose type is the problem's: "q", "x_q" */

    /* What must hold beside the tables. ATTN_OK or ATTN_INVALID with the reason. NULL: nothing. */
    int (*check)(const struct ref_operands *operands, char *why, size_t size);
    /* Extents that follow from others, or from which roles are there. Called by
     * ref_shape_complete; leaves alone what it does not know. NULL: none do. */
    void (*extents)(struct ref_shape *shape);
    /* FLOPs by the convention in OP.md; nnz: allowed cells, 0 where there are none to count. */
    double (*flops)(const struct ref_shape *shape, double nnz);
    /* Approximate multiply-adds that one unit of output `output` costs with its bound, those of
     * the outputs that follow it included. */
    double (*unit_cost)(const struct attn_problem *problem, int output);
    /* The whole request. ATTN_OK or ATTN_OUT_OF_MEMORY. */
    int (*compute)(const struct ref_job *job);
    /* A role whose sign, when turned, must change every element of OUT that is finite and not 0;
     * `word` is what messages call it. 0: there is none. */
    uint32_t (*linear)(const struct attn_problem *problem, const char **word);
};

/* All operators, in the order of their names; ended by NULL. */
extern const struct ref_op *const ref_ops[];

/* By number or by name; NULL: there is none. */
const struct ref_op *ref_op_find(uint32_t op);
const struct ref_op *ref_op_named(const char *name);

/* Has the operator of a problem (or of a number) all of these traits. */
bool ref_op_is(uint32_t op, uint32_t traits);

/* The row of a role or of a name; NULL: the operator has none. */
const struct ref_operand *ref_operand_of(const struct ref_op *op, uint32_t role);
const struct ref_operand *ref_operand_named(const struct ref_op *op, const char *name);
/* Row n of all groups, from 0; NULL beyond the last. */
const struct ref_operand *ref_operand_at(const struct ref_op *op, size_t n);

/* Number of outputs; the number of one by role, or -1. */
int ref_output_count(const struct ref_op *op);
int ref_output_of(const struct ref_op *op, uint32_t role);

/* "Hq", "Sk", ... as messages spell a letter. */
const char *ref_letter_name(char letter);

/* The extent of a letter, or -1: not known. */
int64_t ref_extent(const struct ref_shape *shape, char letter);

/* All extents unknown, nothing present. */
void ref_shape_init(struct ref_shape *shape);

/* Extents that follow from those that are set: Q K V O, and the operator's own. False: a product
 * does not fit. */
bool ref_shape_complete(const struct ref_op *op, struct ref_shape *shape);

/* The shape of a problem. Letters that are no field of the problem are read from its tensors: the
 * first tensor that has the letter says it, outputs before operands, in the tables' order. */
void ref_shape_of_problem(const struct ref_op *op, const struct attn_problem *problem,
                          struct ref_shape *shape);

/* Elements of a tensor with these axes; -1: an extent is not known, or the product does not fit. */
int64_t ref_shape_elements(const struct ref_shape *shape, const char *axes);

/* Units of an output; elements of one unit. */
int64_t ref_unit_count(const struct ref_output *output, const struct ref_shape *shape);
int64_t ref_unit_width(const struct ref_output *output, const struct ref_shape *shape);

/* Where a unit lies: for each axis of the output's shape its index, 0 on the axes that the unit
 * runs along. Returns the rank. The other function is its inverse. */
int ref_unit_place(const struct ref_output *output, const struct ref_shape *shape, int64_t unit,
                   int64_t at[ATTN_MAX_RANK]);
int64_t ref_unit_at(const struct ref_output *output, const struct ref_shape *shape,
                    const int64_t at[ATTN_MAX_RANK]);

/* The index that a unit has on the axis of `letter`, or -1: the unit has no such axis. */
int64_t ref_unit_index(const struct ref_output *output, const struct ref_shape *shape, int64_t unit,
                       char letter);

/* How many units of an output belong to one unit of its leader: n. Those of the leader's unit u are
 * u*n to u*n + n-1. A leader has 1. */
int64_t ref_followers(const struct ref_op *op, int output, const struct ref_shape *shape);

#endif
