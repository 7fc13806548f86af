/* SPDX-License-Identifier: Apache-2.0 */
/* known.c - the table of weight functions. */
#include <stddef.h>

#include "reference/weights/weights.h"

const struct ref_weight *const ref_weights_known[] = {&ref_weight_sigmoid, &ref_weight_relu2,
                                                      &ref_weight_laplace, NULL};

const struct ref_weight *ref_weight_find(int64_t weight_fn)
{
    for (const struct ref_weight *const *w = ref_weights_known; *w; w++)
        if ((*w)->weight_fn == weight_fn)
            return *w;
    return NULL;
}

const struct ref_weight *ref_weight_of(const struct attn_problem *problem)
{
    return problem->flags & ATTN_FLAG_WEIGHT ? ref_weight_find(problem->weight_fn) : NULL;
}
