/* SPDX-License-Identifier: Apache-2.0 */
/* twin.h - the same problem with other values in every input. */
#ifndef ATTN_PACK_TWIN_H
#define ATTN_PACK_TWIN_H

#include "tensor/instance.h"

/* Makes an instance with the problem of `base` - every size, stride and scalar - and other
 * operands. Without `packed`, inputs that a backend may transform in `bind` stay the same. Of all
 * others the first row stays, and every other row that a coin says: a backend that looks at a few
 * elements to find out whether an input has changed must not be right. Random operands are drawn
 * from another seed. Given lengths become Sk - len, pruned heads and the tensors of a pack are
 * taken in reverse order, slopes are halved. Returns 0, or -1 with the reason. */
int attn_twin_create(const struct attn_instance *base, bool packed, int threads,
                     struct attn_instance **out, char *why, size_t size);

#endif
