/* SPDX-License-Identifier: Apache-2.0 */
/* hypotheses.c - fits wrong rows against mistakes.
 *
 * A hypothesis gives an answer of its own, with its own bound, for the rows that are wrong. It is
 * taken as an explanation where (nearly) all elements of these rows agree with it, and enough of
 * them could not have agreed with the right answer as well. Where it would have made rows wrong
 * that are right, it is said of the wrong ones alone. */
#include "explain/hypotheses.h"

#include "explain/guesses.h"
#include "explain/sample.h"

void attn_hypotheses_explain(const struct attn_instance *instance,
                             const struct attn_numerics *numerics, const struct ref_rows *rows,
                             const struct ref_result *ref, int threads, char *text, size_t size)
{
    struct attn_sample s = {.instance = instance,
                            .numerics = numerics,
                            .rows = rows,
                            .ref = ref,
                            .threads = threads,
                            .text = text,
                            .size = size};
    *text = '\0';
    if (attn_sample_take(&s)) {
        attn_guess_blank(&s);
        attn_guess_factor(&s);
        attn_guess_other_rows(&s);
        attn_guess_lse(&s);
        attn_guess_mistakes(&s);
        attn_guess_lost_keys(&s);
        attn_guess_row_factors(&s);
        if (s.rank == 0)
            attn_guess_scale(&s);
    }
    attn_sample_free(&s);
}
