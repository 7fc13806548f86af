/* SPDX-License-Identifier: Apache-2.0 */
/* op_mutant.h - operators beyond plain attention with planted bugs: each is one file here, in plain
 * C with sums in f32, correct but for the one bug that the option names. */
#ifndef ATTN_OP_MUTANT_H
#define ATTN_OP_MUTANT_H

#include <stdbool.h>

#include "attnbench/problem.h"
#include "backward_bugs.h"
#include "chunked_bugs.h"
#include "linear_decay_bugs.h"
#include "linformer_bugs.h"
#include "longformer_bugs.h"
#include "lsh_bugs.h"
#include "nystrom_bugs.h"
#include "performer_bugs.h"
#include "places_bugs.h"
#include "weights_bugs.h"
#include "wkv_bugs.h"

/* BUG(name, types, cases, text): in which types of the problem, and on which lines of
 * op_mutants.cases, the bug can show. score.py reads the same tables. */
#define OP_MUTANT_BUGS                                                                             \
    WKV_BUGS LINEAR_DECAY_BUGS PLACES_BUGS PERFORMER_BUGS WEIGHTS_BUGS LONGFORMER_BUGS             \
        CHUNKED_BUGS LINFORMER_BUGS NYSTROM_BUGS LSH_BUGS BACKWARD_BUGS

/* RIGHT(name, cases, text): another way to compute the same, which must pass. */
#define OP_MUTANT_RIGHT PERFORMER_RIGHT LINEAR_DECAY_RIGHT

enum op_mutant_bug {
    BUG_none,
#define BUG(name, types, cases, text) BUG_##name,
    OP_MUTANT_BUGS
#undef BUG
#define RIGHT(name, cases, text) BUG_##name,
        OP_MUTANT_RIGHT
#undef RIGHT
};

extern enum op_mutant_bug op_mutant_planted;

#define bug(name) (op_mutant_planted == BUG_##name)

/* One operator, or a part of attention. `floats`: working memory that run gets, in floats. */
struct op_mutant {
    uint32_t op, score;    /* score 0: scaled_dot, or the operator has none */
    const uint32_t *takes; /* optional operands, ended by 0; NULL: those of the plugin */
    uint64_t flags;        /* with takes: flags */
    int64_t (*floats)(const struct attn_problem *p);
    void (*run)(const struct attn_problem *p, const struct attn_operands *o, float *memory);
};

extern const struct op_mutant op_mutant_wkv, op_mutant_linear_decay, op_mutant_places,
    op_mutant_performer, op_mutant_weights, op_mutant_longformer, op_mutant_chunked,
    op_mutant_linformer, op_mutant_nystrom, op_mutant_lsh, op_mutant_backward;

/* linear_decay_chunks.c: does it compute in chunks of so many steps? Then it takes CHUNK Dk floats
 * more. */
enum { OP_MUTANT_CHUNK = 16 };
bool op_mutant_in_chunks(void);
void op_mutant_decay_in_chunks(const struct attn_problem *p, const struct attn_operands *o,
                               float *memory);

/* Element `at` of an operand as f32, and back. */
float op_mutant_get(const struct attn_tensor *tensor, int64_t at);
void op_mutant_put(const struct attn_tensor *tensor, int64_t at, float value);

/* Rounded to bf16. */
float op_mutant_bf16(float x);

#endif
