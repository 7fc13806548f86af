/* SPDX-License-Identifier: Apache-2.0 */
/* list_ops.c - attnbench list ops: prints the operators' tables, for people or as JSON. */
#include <stdio.h>
#include <string.h>

#include "case/operator.h"
#include "cli/command.h"

/* An axis as messages spell it: "Sq"; the key of a parameter for an operator's own letter. */
static const char *axis_name(const struct ref_op *op, char letter)
{
    for (const struct ref_param *p = op->params; p && p->key; p++)
        if (p->letter == letter)
            return p->key;
    return ref_letter_name(letter);
}

/* "[B,Hq,Sq,Dq]" */
static const char *shape_text(const struct ref_op *op, const char *axes, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (const char *a = axes; *a && used < size; a++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", a == axes ? "" : ",",
                                 axis_name(op, *a));
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

static json_t *shape_json(const struct ref_op *op, const char *axes)
{
    json_t *list = json_array();
    for (; *axes; axes++)
        json_array_append_new(list, json_string(axis_name(op, *axes)));
    return list;
}

static const char *type_name(uint8_t type)
{
    switch (type) {
    case REF_TYPE_SIDE:
        return "dtype, or f32 in a pack";
    case REF_TYPE_WIDE:
        return "f32, or f64 with dtype=f64";
    case REF_TYPE_BOOL:
        return "bool";
    case REF_TYPE_INDEX:
        return "i32";
    default:
        return "dtype";
    }
}

/* The keys of an operator that not every operator accepts, one after the other; NULL beyond the
 * last. Parameters come first. */
static const struct attn_case_key *own_key(const struct ref_op *op, size_t n)
{
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++) {
        const bool own = attn_op_takes(op, key->name) || attn_op_param(op, key->name);
        if (own && n-- == 0)
            return key;
    }
    return NULL;
}

/* Help of a key without the name of its operator, which is printed above it. */
static const char *plain_help(const struct attn_case_key *key)
{
    const char *colon = strstr(key->help, ": ");
    return strncmp(key->help, "op=", 3) == 0 && colon ? colon + 2 : key->help;
}

/* The score that has a role among its parameters; NULL: none. */
static const struct ref_score *score_of(uint32_t role)
{
    for (const struct ref_score *const *score = ref_scores_known; *score; score++)
        if (ref_score_has((*score)->score, role))
            return *score;
    return NULL;
}

/* ---- for people ---- */

/* "KEY=WORD": what asks for an operand or output; "" if it is always there, or by its own name. */
static const char *choice_text(const struct ref_op *op, uint32_t role, char *text, size_t size)
{
    const struct ref_choice *choice = ref_choice_of(op, role);
    char word[64];
    text[0] = '\0';
    if (!choice)
        return text;
    attn_param_text(attn_op_param(op, choice->key), choice->value, word, sizeof word);
    snprintf(text, size, "%s=%s", choice->key, word);
    return text;
}

static void print_operand(const struct ref_op *op, const struct ref_operand *o)
{
    char shape[128];
    const struct ref_operand *other = ref_operand_of(op, o->fallback);
    const struct ref_score *score = score_of(o->role);
    printf("    %-10s %-18s %s", o->name, shape_text(op, o->shape, shape, sizeof shape),
           type_name(o->type));
    if (o->flags & REF_SHORT)
        printf("; may have only the first axis");
    if (score)
        printf("; with score=%s", score->name);
    if (*choice_text(op, o->role, shape, sizeof shape))
        printf("; with %s", shape);
    if (o->fallback && other)
        printf("; %s without it", other->name);
    puts(o->flags & REF_NEEDED ? "; needed" : "");
}

static void print_output(const struct ref_op *op, const struct ref_output *o)
{
    char shape[128], unit[128], choice[128];
    const bool asked = !(o->flags & (REF_NEEDED | REF_DEFAULT));
    const bool named = asked && !*choice_text(op, o->role, choice, sizeof choice);
    printf("    %-10s %-18s %s; compared in units of %s%s%s%s\n", o->name,
           shape_text(op, o->shape, shape, sizeof shape), type_name(o->type),
           shape_text(op, o->unit, unit, sizeof unit),
           !asked  ? ""
           : named ? "; asked for with out="
                   : "; with ",
           !asked  ? ""
           : named ? o->name
                   : choice,
           o->flags & REF_DEFAULT ? "; out= can leave it out" : "");
}

static void print_op(const struct ref_op *op)
{
    const struct ref_operand *operand;
    const struct attn_case_key *key;
    printf("op=%s  %s\n  inputs\n", op->name, op->summary);
    for (size_t n = 0; (operand = ref_operand_at(op, n)); n++)
        print_operand(op, operand);
    puts("  outputs");
    for (const struct ref_output *o = op->outputs; o->role; o++)
        print_output(op, o);
    if (own_key(op, 0))
        puts("  keys of its own");
    for (size_t n = 0; (key = own_key(op, n)); n++)
        printf("    %-10s %-18s %s%s%s%s\n", key->name, key->values, plain_help(key),
               key->fallback ? " (default " : "", key->fallback ? key->fallback : "",
               key->fallback ? ")" : "");
    for (const char *const *name = op->needed; name && *name; name++)
        printf("    %-10s must be given\n", *name);
}

/* ---- JSON ---- */

static json_t *operands_json(const struct ref_op *op)
{
    json_t *list = json_array();
    const struct ref_operand *o;
    for (size_t n = 0; (o = ref_operand_at(op, n)); n++) {
        const struct ref_operand *other = o->fallback ? ref_operand_of(op, o->fallback) : NULL;
        json_t *item =
            json_pack("{s:s, s:o, s:s, s:b}", "name", o->name, "shape", shape_json(op, o->shape),
                      "type", type_name(o->type), "needed", (o->flags & REF_NEEDED) != 0);
        if (other)
            json_object_set_new(item, "without_it", json_string(other->name));
        if (score_of(o->role))
            json_object_set_new(item, "score", json_string(score_of(o->role)->name));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *outputs_json(const struct ref_op *op)
{
    json_t *list = json_array();
    for (const struct ref_output *o = op->outputs; o->role; o++)
        json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:s, s:b}", "name", o->name, "shape",
                                              shape_json(op, o->shape), "unit",
                                              shape_json(op, o->unit), "type", type_name(o->type),
                                              "always", (o->flags & REF_NEEDED) != 0));
    return list;
}

static json_t *keys_json(const struct ref_op *op)
{
    json_t *list = json_array();
    const struct attn_case_key *key;
    for (size_t n = 0; (key = own_key(op, n)); n++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:s}", "key", key->name, "values",
                                              key->values, "default", key->fallback, "help",
                                              plain_help(key)));
    return list;
}

static json_t *needed_json(const struct ref_op *op)
{
    json_t *list = json_array();
    for (const char *const *name = op->needed; name && *name; name++)
        json_array_append_new(list, json_string(*name));
    return list;
}

enum attn_exit attn_list_ops(bool json)
{
    json_t *list = json ? json_array() : NULL;
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        if (!json) {
            if (op != ref_ops)
                putchar('\n');
            print_op(*op);
            continue;
        }
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "name", (*op)->name,
                                        "summary", (*op)->summary, "inputs", operands_json(*op),
                                        "outputs", outputs_json(*op), "keys", keys_json(*op),
                                        "must_be_given", needed_json(*op)));
    }
    if (json)
        attn_print_json(list);
    return ATTN_EXIT_OK;
}
