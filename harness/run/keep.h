/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h - weights that a case asks for, kept in the run folder as packs of answers. */
#ifndef ATTN_KEEP_H
#define ATTN_KEEP_H

#include "run/entry.h"
#include "run/session.h"

/* Weights of more cells than this are not kept: 4 MiB for the reference's doubles. */
#define ATTN_KEEP_CELLS (1 << 19)

/* Writes the reference's weights of a case that asks for weights into the session's folder, in f64
 * and by the suite's own rule for empty rows. Keeps nothing without a folder, above the limit, or
 * if rows are only sampled. Returns 0, or -1 with the reason. */
int attn_keep_reference(const struct attn_session *session, const struct attn_instance *instance,
                        char *why, size_t size);

/* The same for the weights that a backend computed, right or wrong, in its own type. Call while
 * they are in the instance. entry->kept says whether they were kept. */
int attn_keep_weights(const struct attn_session *session, const struct attn_instance *instance,
                      struct attn_entry *entry, char *why, size_t size);

#endif
