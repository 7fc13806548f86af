/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes.c - iterates over the tables of mistakes. */
#include "explain/mistakes.h"

static const struct attn_mistake *const tables[] = {
    attn_mistakes_keys,      attn_mistakes_scores, attn_mistakes_places,  attn_mistakes_gradients,
    attn_mistakes_operators, attn_mistakes_state,  attn_mistakes_operands};

bool attn_mistake_next(const struct attn_problem *problem, struct attn_mistake_place *at,
                       struct attn_mutation *m)
{
    for (; at->table < sizeof tables / sizeof *tables; at->table++, at->mistake = 0)
        for (; tables[at->table][at->mistake].change; at->mistake++, at->argument = 0) {
            const struct attn_mistake *mistake = &tables[at->table][at->mistake];
            while (at->argument < mistake->n) {
                attn_mutation_begin(m, problem);
                if (mistake->change(m, mistake->arguments[at->argument++]))
                    return true;
                attn_mutation_free(m);
            }
        }
    return false;
}
