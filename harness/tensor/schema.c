/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - joins the rows of operators' tables into one table. */
#include "tensor/schema.h"

#include <string.h>

static struct attn_schema of_operand(const struct ref_operand *o)
{
    return (struct attn_schema){o->role, o->name,  o->shape,    o->one,
                                o->type, o->flags, o->fallback, false};
}

static struct attn_schema of_output(const struct ref_output *o)
{
    return (struct attn_schema){o->role, o->name, o->shape, "", o->type, o->flags, 0, true};
}

/* Scores are an answer of packs only; no backend gives them. */
static const struct attn_schema scores = {0, "scores", "bhij", "", REF_TYPE_MAIN, 0, 0, true};

static size_t operand_count(const struct ref_op *op)
{
    size_t n = 0;
    for (const struct ref_operand *const *group = op->operands; *group; group++)
        for (const struct ref_operand *row = *group; row->role; row++)
            n++;
    return n;
}

bool attn_schema_at(const struct ref_op *op, size_t n, struct attn_schema *row)
{
    const size_t operands = operand_count(op), outputs = (size_t)ref_output_count(op);
    if (n < operands)
        *row = of_operand(ref_operand_at(op, n));
    else if (n < operands + outputs)
        *row = of_output(&op->outputs[n - operands]);
    else if (n == operands + outputs && (op->traits & REF_SOFTMAX))
        *row = scores;
    else
        return false;
    return true;
}

bool attn_schema_named(const struct ref_op *op, const char *name, struct attn_schema *row)
{
    for (size_t n = 0; attn_schema_at(op, n, row); n++)
        if (strcmp(row->name, name) == 0)
            return true;
    return false;
}

size_t attn_schema_names(const char *names[], size_t max)
{
    size_t count = 0;
    bool more = true;
    for (size_t g = 0; more; g++) {
        more = false;
        for (const struct ref_op *const *op = ref_ops; *op; op++) {
            size_t groups = 0;
            while (groups <= g && (*op)->operands[groups])
                groups++;
            if (groups <= g)
                continue;
            more = true;
            for (const struct ref_operand *o = (*op)->operands[g]; o->role && count < max; o++)
                names[count++] = o->name;
        }
    }
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        for (const struct ref_output *o = (*op)->outputs; o->role && count < max; o++)
            names[count++] = o->name;
    if (count < max)
        names[count++] = scores.name;
    return count;
}

bool attn_schema_is_shared(const struct attn_schema *row)
{
    return !row->output && (row->flags & REF_ACTIVATION) && strchr(row->shape, 'b') == row->shape &&
           strchr(row->shape, 'j');
}

const char *attn_role_name(uint32_t role)
{
    struct attn_schema row;
    for (const struct ref_op *const *op = ref_ops; *op && role; op++)
        for (size_t n = 0; attn_schema_at(*op, n, &row); n++)
            if (row.role == role)
                return row.name;
    return "?";
}

bool attn_role_is_packed(uint32_t role)
{
    return (role >= ATTN_SCORE_M && role <= ATTN_SCORE_QR) ||
           (role >= ATTN_W_Q && role <= ATTN_B_O) || role == ATTN_FEATURES || role == ATTN_PROJ_E ||
           role == ATTN_PROJ_F;
}
