/* SPDX-License-Identifier: Apache-2.0 */
/* instructions.c - counts of instructions against those of an earlier run. */
#include "report/instructions.h"

#include <math.h>

#include "report/text.h"
#include "results/record.h"

static double count_of(const struct attn_view_row *row)
{
    return attn_field_number(row->bench, "instructions");
}

static int add(struct attn_instructions *out, const struct attn_pair *pair, double base,
               double next)
{
    return json_array_append_new(
        out->list, json_pack("{s:s,s:s,s:f,s:o,s:s}", "backend", pair->next_label, "case",
                             pair->row->label, "base", base, "new", attn_json_number(next),
                             "reason", attn_field_text(pair->next->bench, "instructions_reason")));
}

int attn_instructions_judge(const struct attn_pairs *pairs, struct attn_instructions *out)
{
    *out = (struct attn_instructions){.list = json_array()};
    int status = out->list ? 0 : -1;
    for (size_t i = 0; i < pairs->count && status == 0; i++) {
        const struct attn_pair *pair = &pairs->items[i];
        /* Results of one case with hot and with cold caches have the same count. */
        if (!pair->base || !pair->next || !pair->base->first || !isfinite(count_of(pair->base)))
            continue;
        const double base = count_of(pair->base), next = count_of(pair->next);
        const bool lost = !isfinite(next), grew = next > (1 + ATTN_INSTRUCTIONS_MARGIN) * base;
        out->compared += !lost;
        out->lost += lost;
        out->grew += grew;
        if (lost || grew)
            status = add(out, pair, base, next);
    }
    if (status != 0)
        attn_instructions_free(out);
    return status;
}

void attn_instructions_put(const struct attn_instructions *instructions, FILE *out)
{
    size_t i;
    json_t *item;
    if (instructions->compared + instructions->lost == 0)
        return;
    fprintf(out, "instructions: %zu counts compared, %zu grew by more than %g %%, %zu lost\n",
            instructions->compared, instructions->grew, 100 * ATTN_INSTRUCTIONS_MARGIN,
            instructions->lost);
    json_array_foreach(instructions->list, i, item)
    {
        const double base = attn_field_number(item, "base"), next = attn_field_number(item, "new");
        const char *reason = attn_field_text(item, "reason");
        if (isfinite(next))
            fprintf(out, "instructions: was %.0f, is %.0f (%+.2f %%)", base, next,
                    100 * (next / base - 1));
        else
            fprintf(out, "instructions: was %.0f, not counted now%s%s", base, *reason ? ": " : "",
                    reason);
        fprintf(out, "  %s  %s\n", attn_field_text(item, "backend"), attn_field_text(item, "case"));
    }
}

void attn_instructions_free(struct attn_instructions *instructions)
{
    json_decref(instructions->list);
    *instructions = (struct attn_instructions){0};
}
