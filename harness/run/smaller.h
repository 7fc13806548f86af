/* SPDX-License-Identifier: Apache-2.0 */
/* smaller.h - a smaller case with the same features, for checks that cost too much on the case. */
#ifndef ATTN_SMALLER_H
#define ATTN_SMALLER_H

#include "case/case.h"

/* Makes a case with the features of `c` of which a run costs at most `share` of what it costs on
 * `c`, with at most `cells` cells and `bytes` of operands, as far as that is possible. Operator,
 * score, type, masks, features, widths, layout and outputs stay, and so does hq/hkv. Batches and
 * key/value heads go down to 2. sq and sk keep their remainders modulo 64 and at least three tiles
 * of 64 (what is shorter stays); equal ones stay equal, and the longer one stays the longer.
 * view=huge is left out: its offsets have nothing to do with sizes. Returns 0 (free the case with
 * attn_case_free), or -1: the case is a pack, there is nothing to make smaller, or no memory. */
int attn_smaller_case(const struct attn_case *c, double share, double cells, double bytes,
                      struct attn_case *smaller);

/* The smallest of its kind: one batch, one key/value head, and sq and sk from 8 to 15, with their
 * remainders modulo 8 (what is shorter stays), for backends that are slow even on a smaller case,
 * and for runs by the hundred. */
int attn_smaller_tiny(const struct attn_case *c, struct attn_case *smaller);

#endif
