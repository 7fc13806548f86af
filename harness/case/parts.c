/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - values made of parts: mask, bias, out, view, and the list of prune. */
#include <stdlib.h>
#include <string.h>

#include "case/language.h"

enum { FIELDS_MAX = 4, PARTS_MAX = 12 };

/* A part's fields: `fields[0]` is its name, the others follow after colons. */
struct fields {
    struct attn_word at[FIELDS_MAX];
    size_t count;
};

/* One legal part. Parts that share a bit exclude each other. */
struct part {
    const char *name;
    unsigned bits;
    size_t min_fields, max_fields;
    int (*parse)(const struct fields *fields, struct attn_case *c,
                 const struct attn_origin *origin);
};

static int split_fields(struct attn_word word, struct fields *fields,
                        const struct attn_origin *origin)
{
    struct attn_word rest = word, field;
    fields->count = 0;
    while (attn_word_split(&rest, ':', &field)) {
        if (fields->count == FIELDS_MAX)
            return attn_case_error(origin, field.column, "too many ':' in '%.*s'",
                                   attn_word_shown(word), word.text);
        fields->at[fields->count++] = field;
    }
    return 0;
}

static int parse_part(const struct attn_case_key *key, const struct part *parts,
                      struct attn_word word, unsigned *seen, struct attn_case *c,
                      const struct attn_origin *origin)
{
    struct fields fields;
    if (split_fields(word, &fields, origin) != 0)
        return -1;
    const char *names[PARTS_MAX];
    size_t count = 0;
    const struct part *part = parts;
    for (; part->name && !attn_word_is(fields.at[0], part->name); part++)
        names[count++] = part->name;
    if (part->name == NULL)
        return attn_word_unknown(origin, fields.at[0], key->name, names, count, key->values);
    if (*seen & part->bits)
        return attn_case_error(origin, word.column, "'%s' repeats a part of %s", part->name,
                               key->name);
    if (fields.count < part->min_fields || fields.count > part->max_fields)
        return attn_case_error(
            origin, word.column, "'%.*s' has %s values; legal: %s", attn_word_shown(word),
            word.text, fields.count < part->min_fields ? "too few" : "too many", key->values);
    *seen |= part->bits;
    return part->parse(&fields, c, origin);
}

/* Parts joined with '+'; `nothing` alone is the empty set. */
static int parse_parts(const struct attn_case_key *key, const struct part *parts,
                       const char *nothing, struct attn_word word, struct attn_case *c,
                       const struct attn_origin *origin)
{
    unsigned seen = 0;
    struct attn_word rest = word, part;
    if (attn_word_is(word, nothing))
        return 0;
    while (attn_word_split(&rest, '+', &part))
        if (parse_part(key, parts, part, &seen, c, origin) != 0)
            return -1;
    return 0;
}

/* ---- axes ---- */

static const char axis_letters[] = "bhqk"; /* bit i of ATTN_AXIS_* */

/* The optional field `at` of the fields: some of the letters b h q k, each at most once. */
static int parse_axes(const struct fields *fields, size_t at, unsigned *axes,
                      const struct attn_origin *origin)
{
    *axes = ATTN_AXES_ALL;
    if (fields->count <= at)
        return 0;
    struct attn_word word = fields->at[at];
    unsigned bits = 0;
    for (size_t i = 0; i < word.length; i++) {
        const char *letter = strchr(axis_letters, word.text[i]);
        unsigned bit = letter ? 1u << (letter - axis_letters) : 0;
        if (bit == 0 || (bits & bit))
            break;
        bits |= bit;
        if (i + 1 == word.length) {
            *axes = bits;
            return 0;
        }
    }
    return attn_case_error(origin, word.column, "axes '%.*s' are not some of b h q k, each once",
                           attn_word_shown(word), word.text);
}

static void write_axes(struct attn_sink *sink, unsigned axes)
{
    if (axes == ATTN_AXES_ALL)
        return;
    attn_sink_text(sink, ":");
    for (unsigned i = 0; i < 4; i++)
        if (axes & (1u << i))
            attn_sink_format(sink, "%c", axis_letters[i]);
}

/* A list a/b/c of whole numbers. */
static int parse_list(struct attn_word word, int64_t list[ATTN_CASE_LIST_MAX], int *count,
                      const struct attn_origin *origin)
{
    struct attn_word rest = word, entry;
    *count = 0;
    while (attn_word_split(&rest, '/', &entry)) {
        if (*count == ATTN_CASE_LIST_MAX)
            return attn_case_error(origin, entry.column, "more than %d entries",
                                   ATTN_CASE_LIST_MAX);
        if (attn_word_integer(entry, 0, ATTN_CASE_SIZE_MAX, &list[*count], origin) != 0)
            return -1;
        ++*count;
    }
    return 0;
}

static void write_list(struct attn_sink *sink, const int64_t *list, int count)
{
    for (int i = 0; i < count; i++)
        attn_sink_format(sink, "%s%lld", i ? "/" : "", (long long)list[i]);
}

/* ---- mask ---- */

enum { CAUSAL = 1, BR = 2, PAST = 4, WINDOW = 8, LEN = 16, BOOL = 32 };

static int mask_causal(const struct fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    (void)fields;
    (void)origin;
    c->causal = true;
    return 0;
}

static int mask_br(const struct fields *fields, struct attn_case *c,
                   const struct attn_origin *origin)
{
    (void)fields;
    (void)origin;
    c->off_br = true;
    return 0;
}

static int mask_causal_br(const struct fields *fields, struct attn_case *c,
                          const struct attn_origin *origin)
{
    (void)fields;
    (void)origin;
    c->causal = c->off_br = true;
    return 0;
}

static int mask_past(const struct fields *fields, struct attn_case *c,
                     const struct attn_origin *origin)
{
    return attn_word_integer(fields->at[1], 0, ATTN_CASE_SIZE_MAX, &c->off, origin);
}

static int mask_window(const struct fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    c->window = true;
    if (attn_word_integer(fields->at[1], -1, ATTN_CASE_SIZE_MAX, &c->window_left, origin) != 0)
        return -1;
    return attn_word_integer(fields->at[2], -1, ATTN_CASE_SIZE_MAX, &c->window_right, origin);
}

/* Without values, len, len2d and bool name a pack's tensors; with them they make their own. */
static int check_origin(const struct fields *fields, const struct attn_origin *origin,
                        const char *own)
{
    struct attn_word name = fields->at[0];
    if (origin->pack && fields->count > 1)
        return attn_case_error(origin, name.column, "a pack brings its own tensor: '%.*s' alone",
                               attn_word_shown(name), name.text);
    if (!origin->pack && fields->count == 1)
        return attn_case_error(origin, name.column, "'%.*s' alone names a pack's tensor; here: %s",
                               attn_word_shown(name), name.text, own);
    return 0;
}

static int mask_len(const struct fields *fields, struct attn_case *c,
                    const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "len:rand or len:N/N/...") != 0)
        return -1;
    if (fields->count == 1) {
        c->len = ATTN_LEN_PACK;
        c->n_len = 1;
        return 0;
    }
    c->len = attn_word_is(fields->at[1], "rand") ? ATTN_LEN_RAND : ATTN_LEN_LIST;
    return c->len == ATTN_LEN_RAND ? 0 : parse_list(fields->at[1], c->len_list, &c->n_len, origin);
}

static int mask_len2d(const struct fields *fields, struct attn_case *c,
                      const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "len2d:rand") != 0)
        return -1;
    if (fields->count == 1) {
        c->len = ATTN_LEN_PACK;
        c->n_len = 2;
        return 0;
    }
    c->len = ATTN_LEN_RAND_2D;
    if (!attn_word_is(fields->at[1], "rand"))
        return attn_case_error(origin, fields->at[1].column, "'%.*s': only len2d:rand is legal",
                               attn_word_shown(fields->at[1]), fields->at[1].text);
    return 0;
}

static int mask_bool(const struct fields *fields, struct attn_case *c,
                     const struct attn_origin *origin)
{
    if (check_origin(fields, origin, "bool:P[:AXES]") != 0)
        return -1;
    if (fields->count == 1) {
        c->pack_mask = true;
        return 0;
    }
    c->mask_bool = true;
    if (attn_word_real(fields->at[1], &c->mask_p, origin) != 0)
        return -1;
    if (c->mask_p < 0 || c->mask_p > 1)
        return attn_case_error(origin, fields->at[1].column, "a probability is in 0..1");
    return parse_axes(fields, 2, &c->mask_axes, origin);
}

int attn_parse_mask(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                    const struct attn_origin *origin)
{
    static const struct part parts[] = {{"causal", CAUSAL, 1, 1, mask_causal},
                                        {"causal_br", CAUSAL | BR | PAST, 1, 1, mask_causal_br},
                                        {"br", BR | PAST, 1, 1, mask_br},
                                        {"past", BR | PAST, 2, 2, mask_past},
                                        {"window", WINDOW, 3, 3, mask_window},
                                        {"len", LEN, 1, 2, mask_len},
                                        {"len2d", LEN, 1, 2, mask_len2d},
                                        {"bool", BOOL, 1, 3, mask_bool},
                                        {NULL, 0, 0, 0, NULL}};
    return parse_parts(key, parts, "dense", word, c, origin);
}

/* Begins a part: the key before the first, '+' before the others. */
static void begin_part(struct attn_sink *sink, const struct attn_case_key *key, bool *first)
{
    if (*first)
        attn_sink_key(sink, key);
    else
        attn_sink_text(sink, "+");
    *first = false;
}

static void write_len(struct attn_sink *sink, const struct attn_case *c)
{
    static const char *const names[] = {[ATTN_LEN_LIST] = "len:",
                                        [ATTN_LEN_RAND] = "len:rand",
                                        [ATTN_LEN_RAND_2D] = "len2d:rand",
                                        [ATTN_LEN_PACK] = "len"};
    attn_sink_text(sink, names[c->len]);
    if (c->len == ATTN_LEN_LIST)
        write_list(sink, c->len_list, c->n_len);
    if (c->len == ATTN_LEN_PACK && c->n_len == 2)
        attn_sink_text(sink, "2d");
}

void attn_write_mask(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    bool first = true;
    if (c->causal || c->off_br) {
        begin_part(sink, key, &first);
        attn_sink_text(sink, !c->off_br ? "causal" : c->causal ? "causal_br" : "br");
    }
    if (c->off != 0) {
        begin_part(sink, key, &first);
        attn_sink_format(sink, "past:%lld", (long long)c->off);
    }
    if (c->window) {
        begin_part(sink, key, &first);
        attn_sink_format(sink, "window:%lld:%lld", (long long)c->window_left,
                         (long long)c->window_right);
    }
    if (c->len != ATTN_LEN_NONE) {
        begin_part(sink, key, &first);
        write_len(sink, c);
    }
    if (c->mask_bool || c->pack_mask) {
        begin_part(sink, key, &first);
        attn_sink_text(sink, c->pack_mask ? "bool" : "bool:");
        if (c->mask_bool) {
            attn_sink_real(sink, c->mask_p);
            write_axes(sink, c->mask_axes);
        }
    }
}

/* ---- bias ---- */

static int bias_normal(const struct fields *fields, struct attn_case *c,
                       const struct attn_origin *origin)
{
    if (origin->pack)
        return attn_case_error(origin, fields->at[0].column,
                               "a pack brings its own bias: bias=tensor");
    c->bias_normal = true;
    return parse_axes(fields, 1, &c->bias_axes, origin);
}

static int bias_alibi(const struct fields *fields, struct attn_case *c,
                      const struct attn_origin *origin)
{
    (void)fields;
    *(origin->pack ? &c->pack_alibi : &c->alibi) = true;
    return 0;
}

static int bias_tensor(const struct fields *fields, struct attn_case *c,
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
    static const struct part parts[] = {{"normal", 1, 1, 2, bias_normal},
                                        {"alibi", 2, 1, 1, bias_alibi},
                                        {"tensor", 1, 1, 1, bias_tensor},
                                        {NULL, 0, 0, 0, NULL}};
    return parse_parts(key, parts, "none", word, c, origin);
}

void attn_write_bias(const struct attn_case_key *key, const struct attn_case *c,
                     struct attn_sink *sink)
{
    bool first = true;
    if (c->bias_normal || c->pack_bias) {
        begin_part(sink, key, &first);
        attn_sink_text(sink, c->pack_bias ? "tensor" : "normal");
        if (c->bias_normal)
            write_axes(sink, c->bias_axes);
    }
    if (c->alibi || c->pack_alibi) {
        begin_part(sink, key, &first);
        attn_sink_text(sink, "alibi");
    }
}

/* ---- out and view: plain sets of names ---- */

static int parse_set(const struct attn_case_key *key, const struct attn_choice *names,
                     struct attn_word word, unsigned *set, const struct attn_origin *origin)
{
    struct attn_word rest = word, part;
    const char *candidates[PARTS_MAX];
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
            return attn_case_error(origin, part.column, "'%s' repeats a part of %s", choice->name,
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
            begin_part(sink, key, &first);
            attn_sink_text(sink, choice->name);
        }
}

static const struct attn_choice outs[] = {{"lse", 1}, {"weights", 2}, {NULL, 0}};
static const struct attn_choice views[] = {
    {"gaps", ATTN_VIEW_GAPS},           {"permuted", ATTN_VIEW_PERMUTED},
    {"broadcast", ATTN_VIEW_BROADCAST}, {"offset1", ATTN_VIEW_OFFSET1},
    {"huge", ATTN_VIEW_HUGE},           {NULL, 0}};

int attn_parse_out(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                   const struct attn_origin *origin)
{
    unsigned set = 0;
    if (parse_set(key, outs, word, &set, origin) != 0)
        return -1;
    c->out_lse = (set & 1) != 0;
    c->out_weights = (set & 2) != 0;
    return 0;
}

void attn_write_out(const struct attn_case_key *key, const struct attn_case *c,
                    struct attn_sink *sink)
{
    write_set(key, outs, (c->out_lse ? 1u : 0) | (c->out_weights ? 2u : 0), sink);
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
    if (parse_list(word, c->prune, &c->n_prune, origin) != 0)
        return -1;
    qsort(c->prune, (size_t)c->n_prune, sizeof c->prune[0], ascending);
    for (int i = 1; i < c->n_prune; i++)
        if (c->prune[i] == c->prune[i - 1])
            return attn_case_error(origin, word.column, "head %lld is pruned twice",
                                   (long long)c->prune[i]);
    return 0;
}

void attn_write_prune(const struct attn_case_key *key, const struct attn_case *c,
                      struct attn_sink *sink)
{
    if (c->n_prune == 0)
        return;
    attn_sink_key(sink, key);
    write_list(sink, c->prune, c->n_prune);
}
