/* SPDX-License-Identifier: Apache-2.0 */
/* known.c - the table of scores, and look-ups in it. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "reference/scores/products.h"

const struct ref_score *const ref_scores_known[] = {&ref_score_scaled_dot, &ref_score_plain_dot,
                                                    &ref_score_bilinear,   &ref_score_gaussian,
                                                    &ref_score_additive,   NULL};

const struct ref_score *ref_score_find(uint32_t score)
{
    for (const struct ref_score *const *s = ref_scores_known; *s; s++)
        if ((*s)->score == score)
            return *s;
    return NULL;
}

const struct ref_score *ref_score_named(const char *name)
{
    for (const struct ref_score *const *s = ref_scores_known; *s; s++)
        if (strcmp((*s)->name, name) == 0)
            return *s;
    return NULL;
}

double ref_score_scale(uint32_t score, int64_t dk)
{
    return ref_score_find(score)->by_width ? 1.0 / sqrt((double)dk) : 1.0;
}

bool ref_score_has(uint32_t score, uint32_t role)
{
    for (const uint32_t *param = ref_score_find(score)->params; *param; param++)
        if (*param == role)
            return true;
    return false;
}
