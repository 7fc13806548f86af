/* SPDX-License-Identifier: Apache-2.0 */
/* hypotheses.h - finds the mistake that would give exactly this wrong answer. */
#ifndef ATTN_HYPOTHESES_H
#define ATTN_HYPOTHESES_H

#include "reference/reference.h"
#include "tensor/instance.h"

/* Looks for an explanation of the first output that misses its bound: a constant factor, or answers
 * of other rows. If the operator has a softmax, also the answer of a problem with a usual mistake
 * (mutations.h), or with another scale. Writes the best explanation with its evidence into (text,
 * size), or "" if none fits. `request` and `ref` are those of the verdict. */
void attn_hypotheses_explain(const struct attn_instance *instance,
                             const struct ref_request *request, const struct ref_result *ref,
                             char *text, size_t size);

#endif
