/* SPDX-License-Identifier: Apache-2.0 */
/* known.c - the table of scores, and look-ups in it. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "reference/scores/products.h"

const struct ref_score *const ref_scores_known[] = {&ref_score_scaled_dot,
                                                    &ref_score_plain_dot,
                                                    &ref_score_bilinear,
                                                    &ref_score_gaussian,
                                                    &ref_score_additive,
                                                    &ref_score_disentangled,
                                                    NULL};

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

double ref_score_scale(uint32_t score, int64_t dk, int64_t parts)
{
    const struct ref_score *found = ref_score_find(score);
    const double sums = !found->by_parts ? 1.0 : parts == ATTN_PARTS_BOTH ? 3.0 : 2.0;

    return found->by_width ? 1.0 / sqrt(sums * (double)dk) : 1.0;
}

static bool owns(const struct ref_score *score, const char *key)
{
    for (const char *const *own = score->keys; own && *own; own++)
        if (strcmp(*own, key) == 0)
            return true;
    return false;
}

bool ref_score_reads(const struct ref_score *score, const char *key)
{
    bool owned = false;

    for (const struct ref_score *const *s = ref_scores_known; *s; s++)
        owned = owned || owns(*s, key);
    return !owned || !score || owns(score, key);
}

bool ref_score_has(uint32_t score, uint32_t role)
{
    for (const uint32_t *param = ref_score_find(score)->params; *param; param++)
        if (*param == role)
            return true;
    return false;
}
