/* SPDX-License-Identifier: Apache-2.0 */
/* prefix.h - the operator that this folder adds, for a test: means of the values up to a query.
 *
 *   out_i = gain / n_i * sum of v_j over the n_i keys j of J(i), + shift with shift=1
 *   J(i)  = the last `reach` keys (0: all) of 0 .. e-1, where e = min(i + 1, Sk) for ends=with and
 *           e = min(i, Sk) for ends=without; of no keys the mean is 0
 *   count_i = n_i
 *
 * A few lines in this folder are all there is of it. */
#ifndef PREFIX_H
#define PREFIX_H

#include "attnbench/backend.h"

#define PREFIX_OP    9001u
#define PREFIX_COUNT 120u /* an output: f32 [B,Hq,Sq] */
#define PREFIX_SHIFT 121u /* [Hq,Dv] */

enum { PREFIX_WITH, PREFIX_WITHOUT };

/* Fields of the problem that hold the parameters: scale gain, window_left reach, off ends. */
static inline int64_t prefix_begin(const struct attn_problem *p, int64_t i, int64_t *end)
{
    *end = p->off == PREFIX_WITH ? i + 1 : i;
    *end = *end < p->sk ? *end : p->sk;
    return p->window_left > 0 && *end > p->window_left ? *end - p->window_left : 0;
}

#endif
