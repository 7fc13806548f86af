/* SPDX-License-Identifier: Apache-2.0 */
/* outputs.h - moves results from one instance to another of the same problem. */
#ifndef ATTN_HOST_OUTPUTS_H
#define ATTN_HOST_OUTPUTS_H

#include "tensor/instance.h"

/* Copies the outputs of an instance to another; exchanges them. Bytes between elements stay. */
void attn_outputs_copy(struct attn_instance *to, const struct attn_instance *from);
void attn_outputs_swap(struct attn_instance *a, struct attn_instance *b);

#endif
