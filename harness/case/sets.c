/* SPDX-License-Identifier: Apache-2.0 */
/* sets.c - other values made of parts: bias, out, view, prune. */
#include <math.h>
#include <stdlib.h>

#include "case/operator.h"
#include "case/parts.h"

/* ---- bias ---- */

static int bias_normal(const struct attn_fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    if (origin->pack)
        return attn_case_error(origin, fields->at[0].column,
                               "a pack brings its own bias: bias=tensor");
    c->bias_normal = true;
    return attn_axes_parse(fields, 1, &c->bias_axes, origin);
}

/* The largest constant: every type holds it. */
#define BIAS_MOST 65504.0

static int bias_const(const struct attn_fields *fields, struct attn_case *c,
                      const struct attn_origin *origin)
{
    const struct attn_word number = fields->at[1];
    if (origin->pack)
        return attn_case_error(origin, fields->at[0].column,
                               "a pack brings its own bias: bias=tensor");
    c->bias_const = true;
    c->bias_by_keys = attn_word_is(number, "-log(sk)");
    if (!c->bias_by_keys && attn_word_real(number, &c->bias_value, origin) != 0)
        return -1;
    if (!(fabs(c->bias_value) <= BIAS_MOST))
        return attn_case_error(origin, number.column, "a constant bias must be in -65504..65504");
    return 0;
}

static int bias_alibi(const struct attn_fields *fields, struct attn_case *c,
                      const struct attn_origin *origin)
{
    (void)fields;
    *(origin->pack ? &c->pack_alibi : &c->alibi) = true;
    return 0;
}

static int bias_tensor(const struct attn_fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    if (!origin->pack)
        return attn_case_error(origin, fields->at[0].column,
                               "bias=tensor names a pack's tensor; here it is bias=normal");
    c->pack_bias = true;
    return 0;
}

int attn_parse_bias(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin)
{
    static const struct attn_part parts[] = {{"normal", 1, 1, 2, bias_normal},
                                             {"const", 1, 2, 2, bias_const},
                                             {"alibi", 2, 1, 1, bias_alibi},
                                             {"tensor", 1, 1, 1, bias_tensor},
                                             {NULL, 0, 0, 0, NULL}};
    return attn_parts_parse(key, parts, "none", word, c, origin);
}

void attn_write_bias(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    bool first = true;
    if (c->bias_normal || c->pack_bias) {
        attn_part_begin(sink, key, &first);
        attn_sink_text(sink, c->pack_bias ? "tensor" : "normal");
        if (c->bias_normal)
            attn_axes_write(sink, c->bias_axes);
    }
    if (c->bias_const) {
        attn_part_begin(sink, key, &first);
        attn_sink_text(sink, "const:");
        attn_sink_real(sink, c->bias_value);
    }
    if (c->alibi || c->pack_alibi) {
        attn_part_begin(sink, key, &first);
        attn_sink_text(sink, "alibi");
    }
}

/* ---- out and view: plain sets of names ---- */

static int parse_set(const struct attn_case_key *key, const struct attn_choice *names,
                     struct attn_word word, unsigned *set, const struct attn_origin *origin)
{
    struct attn_word rest = word, part;
    const char *candidates[ATTN_PARTS_MAX];
    if (attn_word_is(word, "none"))
        return 0;
    while (attn_word_split(&rest, '+', &part)) {
        size_t count = 0;
        const struct attn_choice *choice = names;
        for (; choice->name && !attn_word_is(part, choice->name); choice++)
            candidates[count++] = choice->name;
        if (choice->name == NULL)
            return attn_word_unknown(origin, part, key->name, candidates, count, key->values);
        if (*set & choice->value)
            return attn_case_error(origin, part.column, "'%s' is given twice in %s", choice->name,
                                   key->name);
        *set |= choice->value;
    }
    return 0;
}

static void write_set(const struct attn_case_key *key, const struct attn_choice *names,
                      unsigned set, struct attn_sink *sink)
{
    bool first = true;
    for (const struct attn_choice *choice = names; choice->name; choice++)
        if (set & choice->value) {
            attn_part_begin(sink, key, &first);
            attn_sink_text(sink, choice->name);
        }
}

static const struct attn_choice views[] = {
    {"gaps", ATTN_VIEW_GAPS},           {"permuted", ATTN_VIEW_PERMUTED},
    {"broadcast", ATTN_VIEW_BROADCAST}, {"offset1", ATTN_VIEW_OFFSET1},
    {"huge", ATTN_VIEW_HUGE},           {NULL, 0}};

/* The outputs that out= may name, each with its index. */
static void list_outputs(struct attn_choice names[ATTN_PARTS_MAX + 1])
{
    const struct ref_output *output;
    size_t n = 0;
    for (; n < ATTN_PARTS_MAX && (output = attn_optional_output(n)); n++)
        names[n] = (struct attn_choice){output->name, 1u << n};
    names[n] = (struct attn_choice){NULL, 0};
}

int attn_parse_out(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                   const struct attn_origin *origin)
{
    struct attn_choice names[ATTN_PARTS_MAX + 1];
    unsigned set = 0;
    list_outputs(names);
    if (parse_set(key, names, word, &set, origin) != 0)
        return -1;
    for (size_t n = 0; names[n].name; n++)
        if (set & names[n].value)
            attn_case_ask(c, attn_optional_output(n)->role);
    return 0;
}

void attn_write_out(const struct attn_case_key *key, const struct attn_case *c,
                    struct attn_sink *sink)
{
    struct attn_choice names[ATTN_PARTS_MAX + 1];
    unsigned set = 0;
    list_outputs(names);
    for (size_t n = 0; names[n].name; n++)
        set |= attn_case_asks(c, attn_optional_output(n)->role) ? names[n].value : 0;
    write_set(key, names, set, sink);
}

int attn_parse_view(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin)
{
    return parse_set(key, views, word, &c->view, origin);
}

void attn_write_view(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    write_set(key, views, c->view, sink);
}

/* ---- prune ---- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* A set of heads: kept in order, so that one set has one spelling. */
int attn_parse_prune(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                     const struct attn_origin *origin)
{
    (void)key;
    int64_t heads[ATTN_CASE_LIST_MAX];
    if (attn_list_parse(word, heads, &c->n_prune, origin) != 0)
        return -1;
    qsort(heads, (size_t)c->n_prune, sizeof heads[0], ascending);
    for (int i = 1; i < c->n_prune; i++)
        if (heads[i] == heads[i - 1])
            return attn_case_error(origin, word.column, "head %lld is pruned twice",
                                   (long long)heads[i]);
    return attn_list_store(&c->prune, heads, c->n_prune, origin);
}

void attn_write_prune(const struct attn_case_key *key, const struct attn_case *c,
                      struct attn_sink *sink)
{
    if (c->n_prune == 0)
        return;
    attn_sink_key(sink, key);
    attn_list_write(sink, c->prune, c->n_prune);
}
