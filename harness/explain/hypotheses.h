/* SPDX-License-Identifier: Apache-2.0 */
/* hypotheses.h - what mistake would give just this wrong answer. */
#ifndef ATTN_HYPOTHESES_H
#define ATTN_HYPOTHESES_H

#include "reference/reference.h"
#include "tensor/instance.h"

/* Looks for an explanation of outputs that miss their bound, in the first output that does:
 * a constant factor, answers of other rows; where the operator has a softmax also the answer of a
 * problem with a usual mistake (mutations.h), or a scale that is off. Writes the best with its
 * evidence into (text, size), or "" where none fits. `request` and `ref` are those of the verdict.
 */
void attn_hypotheses_explain(const struct attn_instance *instance,
                             const struct ref_request *request, const struct ref_result *ref,
                             char *text, size_t size);

#endif
