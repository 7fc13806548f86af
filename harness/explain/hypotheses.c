/* SPDX-License-Identifier: Apache-2.0 */
/* hypotheses.c - compares wrong rows with the answers of mistakes.
 *
 * A hypothesis gives its own answer, with its own bound, for the rows that are wrong. It is an
 * explanation if (nearly) all elements of these rows agree with it, and enough of them do not agree
 * with the right answer. If it would make right rows wrong, the sentence limits it to the wrong
 * rows. */
#include "explain/hypotheses.h"

#include "explain/guesses.h"
#include "explain/sample.h"

/* Mistakes in steps that every operator with a softmax has, whatever takes its place. */
static void guess_steps(struct attn_sample *s)
{
    const bool softmax = ref_is_softmax(&s->instance->problem);
    if (softmax)
        attn_guess_lse(s);
    attn_guess_mistakes(s);
    if (softmax)
        attn_guess_lost_keys(s);
    attn_guess_row_factors(s);
    if (s->rank == 0)
        attn_guess_scale(s);
}

/* Mistakes of other operators. The reference refuses what they do not have. */
static void guess_weights(struct attn_sample *s)
{
    const struct ref_op *op = ref_op_find(s->instance->problem.op);
    attn_guess_mistakes(s);
    if (op->traits & REF_QKV)
        attn_guess_row_factors(s);
    if (op->scores || op->scaled)
        attn_guess_scale(s);
}

void attn_hypotheses_explain(const struct attn_instance *instance,
                             const struct ref_request *request, const struct ref_result *ref,
                             char *text, size_t size)
{
    struct attn_sample s = {
        .instance = instance, .request = request, .ref = ref, .text = text, .size = size};
    *text = '\0';
    if (attn_sample_take(&s)) {
        attn_guess_blank(&s);
        attn_guess_forbidden(&s);
        attn_guess_empty_rows(&s);
        attn_guess_factor(&s);
        attn_guess_other_rows(&s);
        if (ref_op_is(instance->problem.op, REF_SOFTMAX))
            guess_steps(&s);
        else
            guess_weights(&s);
    }
    attn_sample_free(&s);
}
