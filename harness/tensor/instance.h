/* SPDX-License-Identifier: Apache-2.0 */
/* instance.h - makes instances: a case as the ABI problem and all operands in the host's memory.
 * attn_instance_create (pack/make.h) takes these steps in this order. */
#ifndef ATTN_INSTANCE_H
#define ATTN_INSTANCE_H

#include "tensor/random.h"
#include "tensor/schema.h"
#include "tensor/types.h"

/* An instance with a copy of the case, and nothing else yet. Returns 0, or -1 with the reason: no
 * memory. */
int attn_instance_begin(const struct attn_case *c, struct attn_instance **out, char *why,
                        size_t size);
/* Sets the problem, without its tensors, from the case, whose sizes must be known. */
void attn_instance_set_problem(struct attn_instance *instance);
/* Makes the operands of a case without a pack: random tensors from Philox by seed and role. `like`:
 * an instance of the same case under fill=normal, or NULL; operands that are alike are copied from
 * it, which is faster. Returns 0, or -1 with the reason. */
int attn_instance_draw(struct attn_instance *instance, const struct attn_instance *like,
                       int threads, char *why, size_t size);
/* Writes the inputs that follow from others (ref_op.derive), which have been changed. Returns 0, or
 * -1 with the reason. */
int attn_instance_derive(struct attn_instance *instance, int threads, char *why, size_t size);
/* The same operands in memory; the caller writes every element of the inputs. */
int attn_instance_lay_out(struct attn_instance *instance, char *why, size_t size);
/* Counts cells, FLOPs and bytes, from the operands. */
void attn_instance_count(struct attn_instance *instance);

/* Has the problem several right results that cannot be told apart by what it asks for? Then nobody
 * can be held to one; `why` says where. */
bool attn_instance_is_ambiguous(const struct attn_instance *instance, char *why, size_t size);

void attn_instance_free(struct attn_instance *instance);

#endif
