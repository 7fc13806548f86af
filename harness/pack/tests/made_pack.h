/* SPDX-License-Identifier: Apache-2.0 */
/* made_pack.h - small packs for tests, described in a few words. */
#ifndef ATTN_MADE_PACK_H
#define ATTN_MADE_PACK_H

#include "pack/safetensors.h"

/* One tensor: floats hold 0.25 * (index mod 7), booleans 1, integers index mod 2. dtype 0 in a
 * change: the tensor is left out. */
struct made_tensor {
    const char *name;
    uint32_t dtype;
    const char *shape; /* "2,3" */
};

extern char made_path[64]; /* the one file that made packs are written to */

/* Group setup and teardown: a folder of its own. */
int made_begin(void **state);
int made_end(void **state);

/* Writes `base` (ended by a NULL name) with `changes` replacing or joining it, and metadata: pairs
 * of key and value, ended by NULL. A `source` is added unless it is given, if only as NULL. */
void made_write(const struct made_tensor *base, const struct made_tensor *changes,
                const char *const *metadata);

/* The tensors of packs that are right: grouped attention, and multi-head cross attention with every
 * width different. */
extern const struct made_tensor made_attention[]; /* B 2, Hq 2, Hkv 1, Sq 3, Sk 4, D 5, Dv 6 */
extern const struct made_tensor made_mha[]; /* hq 2: B 2, Sq 3, Sk 4, Dq 5, Dv 6, E 7 8 9 10 */

#endif
