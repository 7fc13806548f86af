/* SPDX-License-Identifier: Apache-2.0 */
/* craft.h - what the files that make crafted fills share. Private to this folder. */
#ifndef ATTN_CRAFT_H
#define ATTN_CRAFT_H

#include "reference/score.h"
#include "tensor/types.h"

/* Streams of random numbers in addition to those of the operands' own roles. */
enum { STREAM_SIGNS = ATTN_ROLE_USER, STREAM_ROWS, STREAM_SCORES, STREAM_TARGETS, STREAM_SPIKES };

#define OVERFLOW_SCORE 1e4    /* products beyond 65504 at every usual scale */
#define NEGATIVE_SCORE -2e5   /* below any start value that maxima are given */
#define SPIKE_VALUE    1e3    /* factor: a leak must differ from an allowed spike of the same row */
#define EXACT_LOW      -200.0 /* its exp is 0 in f32, and negligible next to 1 in f64 */
#define ONE_HOT_GAP    40.0   /* exp(-40) of all other keys together rounds away in f32 */

/* How many rows of its heads see a key. */
enum sight { SEEN_BY_NONE, SEEN_BY_SOME, SEEN_BY_ALL };

struct craft {
    const struct attn_instance *instance;
    const struct attn_case *c;
    const struct ref_score *score;
    int64_t width;       /* of the tensor being filled: its last extent */
    uint32_t role;       /* of the same */
    int64_t columns;     /* of a product's sum */
    double *scores;      /* [stored b][Hkv][Sk]; NULL: the fill chooses none */
    double least, most;  /* of the scores */
    int64_t *targets;    /* one_hot: [B][Hq][Sq] */
    unsigned char *seen; /* spike, poison: [stored b][Hkv][Sk], enum sight */
    /* The same of k_global and v_global, which only rows of global tokens see; `seen` is then of
     * the others. NULL: these operands are not there. */
    unsigned char *seen_global;
};

/* Whose sight is asked for. */
enum attn_rows { ATTN_ROWS_ALL, ATTN_ROWS_LOCAL, ATTN_ROWS_GLOBAL };

/* The score by which fill=spike marks a key, numbered as in `seen`; 0: it is no spike. */
double attn_craft_spike(const struct craft *f, uint64_t key);

/* fill_sight.c: the sight of every key, [batches][Hkv][Sk], by some rows; the caller frees it.
 * NULL: no memory. */
unsigned char *attn_craft_look(const struct attn_instance *instance, int64_t batches,
                               enum attn_rows rows, int threads);

/* Binary digits that number so many keys. */
int64_t attn_craft_bits(int64_t keys);

/* fill_mha.c: makes x_*, w_* and b_* of multi-head attention, so that its projections are exact in
 * every type, and q, k, v what the fill wants them to be. */
void attn_craft_projected(const struct craft *f, int threads);
/* Does it write every element of this operand of the case? */
bool attn_craft_makes(const struct attn_case *c, uint32_t role);

#endif
