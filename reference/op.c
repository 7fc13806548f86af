/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - look-ups in the tables of operators. */
#include "reference/op.h"

#include <string.h>

const struct ref_op *ref_op_find(uint32_t op)
{
    for (const struct ref_op *const *o = ref_ops; *o; o++)
        if ((*o)->op == op)
            return *o;
    return NULL;
}

const struct ref_op *ref_op_named(const char *name)
{
    for (const struct ref_op *const *o = ref_ops; *o; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return NULL;
}

bool ref_op_is(uint32_t op, uint32_t traits)
{
    const struct ref_op *found = ref_op_find(op);

    return found && (found->traits & traits) == traits;
}

const struct ref_operand *ref_operand_at(const struct ref_op *op, size_t n)
{
    for (const struct ref_operand *const *group = op->operands; *group; group++)
        for (const struct ref_operand *row = *group; row->role; row++)
            if (n-- == 0)
                return row;
    return NULL;
}

const struct ref_operand *ref_operand_of(const struct ref_op *op, uint32_t role)
{
    const struct ref_operand *row;

    for (size_t n = 0; (row = ref_operand_at(op, n)); n++)
        if (row->role == role)
            return row;
    return NULL;
}

const struct ref_operand *ref_operand_named(const struct ref_op *op, const char *name)
{
    const struct ref_operand *row;

    for (size_t n = 0; (row = ref_operand_at(op, n)); n++)
        if (strcmp(row->name, name) == 0)
            return row;
    return NULL;
}

const struct ref_choice *ref_choice_of(const struct ref_op *op, uint32_t role)
{
    for (const struct ref_choice *choice = op->choices; choice && choice->role; choice++)
        if (choice->role == role)
            return choice;
    return NULL;
}

const struct ref_gradient *ref_gradient_of(const struct ref_op *op, uint32_t output)
{
    for (const struct ref_gradient *g = op->gradients; g && g->output; g++)
        if (g->output == output)
            return g;
    return NULL;
}

int ref_output_count(const struct ref_op *op)
{
    int count = 0;

    while (op->outputs[count].role)
        count++;
    return count;
}

int ref_output_of(const struct ref_op *op, uint32_t role)
{
    for (int o = 0; op->outputs[o].role; o++)
        if (op->outputs[o].role == role)
            return o;
    return -1;
}

bool ref_drawn_under(const struct ref_drawn *element, const char *fill)
{
    return strcmp(element->fill, fill) == 0;
}

bool ref_drawn_made(const struct ref_drawn *element, const char *const *fills)
{
    bool made = ref_drawn_under(element, "normal");

    for (; !made && *fills; fills++)
        made = ref_drawn_under(element, *fills);
    return made;
}

const char *ref_letter_name(char letter)
{
    static const struct {
        char letter;
        const char *name;
    } names[] = {{'b', "B"},       {'h', "Hq"},      {'g', "Hkv"},     {'i', "Sq"},
                 {'j', "Sk"},      {'q', "Dq"},      {'k', "Dk"},      {'v', "Dv"},
                 {'d', "Dh"},      {'e', "Eq"},      {'f', "Ek"},      {'w', "Ev"},
                 {'o', "Eo"},      {'Q', "Hq*Dq"},   {'K', "Hkv*Dk"},  {'V', "Hkv*Dv"},
                 {'O', "Hq*Dv"},   {'3', "3"},       {'s', "span"},    {'P', "2*span"},
                 {'D', "Sq+Sk-1"}, {'c', "chunk"},   {'l', "Dl"},      {'N', "buckets/2"},
                 {'W', "B or 1"},  {'X', "Hq or 1"}, {'Y', "Sq or 1"}, {'Z', "Sk or 1"}};

    for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
        if (names[n].letter == letter)
            return names[n].name;
    return "?";
}
