/* SPDX-License-Identifier: Apache-2.0 */
/* make.h - makes an instance of any case: drawn at random, or read from its pack. */
#ifndef ATTN_PACK_MAKE_H
#define ATTN_PACK_MAKE_H

#include "tensor/instance.h"

/* Makes the operands of a case: random tensors, or a pack's tensors. Returns 0, or -1 with the
 * reason (no memory; a pack that does not fit). */
int attn_instance_create(const struct attn_case *c, int threads, struct attn_instance **out,
                         char *why, size_t size);

/* The same, faster, from an instance of the same case under fill=normal (NULL: there is none). */
int attn_instance_create_like(const struct attn_case *c, const struct attn_instance *like,
                              int threads, struct attn_instance **out, char *why, size_t size);

/* An instance of a case without a pack. The caller writes every element of its inputs. Cells, FLOPs
 * and bytes are not counted. */
int attn_instance_create_blank(const struct attn_case *c, struct attn_instance **out, char *why,
                               size_t size);

#endif
