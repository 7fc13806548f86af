/* SPDX-License-Identifier: Apache-2.0 */
/* hypotheses.h - what mistake would give just this wrong answer. */
#ifndef ATTN_HYPOTHESES_H
#define ATTN_HYPOTHESES_H

#include "reference/reference.h"
#include "tensor/instance.h"

/* Looks for an explanation of outputs that miss their bound, in the first of out, lse and weights
 * that does: a constant factor, answers of other rows, the answer of a problem with a usual mistake
 * (mutations.h), a scale that is off. Writes the best with its evidence into (text, size), or ""
 * where none fits. `rows` and `ref` are those of the verdict. */
void attn_hypotheses_explain(const struct attn_instance *instance,
                             const struct attn_numerics *numerics, const struct ref_rows *rows,
                             const struct ref_result *ref, int threads, char *text, size_t size);

#endif
