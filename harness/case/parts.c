/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c - values made of parts: fields, axes, lists. */
#include <string.h>

#include "case/parts.h"

static int split_fields(struct attn_word word, struct attn_fields *fields,
                        const struct attn_origin *origin)
{
    struct attn_word rest = word, field;
    fields->count = 0;
    while (attn_word_split(&rest, ':', &field)) {
        if (fields->count == ATTN_FIELDS_MAX)
            return attn_case_error(origin, field.column, "too many ':' in '%.*s'",
                                   attn_word_shown(word), word.text);
        fields->at[fields->count++] = field;
    }
    return 0;
}

/* The first part already read that excludes this one; NULL: there is none. */
static const struct attn_part *rival_of(const struct attn_part *part, const struct attn_part *parts,
                                        unsigned seen)
{
    for (const struct attn_part *other = parts; other->name; other++)
        if ((seen & 1u << (other - parts)) && (other->bits & part->bits))
            return other;
    return NULL;
}

/* Bit i of `seen` is set after parts[i] was read. */
static int parse_part(const struct attn_case_key *key, const struct attn_part *parts,
                      struct attn_word word, unsigned *seen, struct attn_case *c,
                      const struct attn_origin *origin)
{
    struct attn_fields fields;
    if (split_fields(word, &fields, origin) != 0)
        return -1;
    const char *names[ATTN_PARTS_MAX];
    size_t count = 0;
    const struct attn_part *part = parts;
    for (; part->name && !attn_word_is(fields.at[0], part->name); part++)
        names[count++] = part->name;
    if (part->name == NULL)
        return attn_word_unknown(origin, fields.at[0], key->name, names, count, key->values);
    const struct attn_part *rival = rival_of(part, parts, *seen);
    if (rival == part)
        return attn_case_error(origin, word.column, "'%s' is given twice in %s", part->name,
                               key->name);
    if (rival)
        return attn_case_error(origin, word.column, "'%s' does not go with '%s': both set the same",
                               part->name, rival->name);
    if (fields.count < part->min_fields || fields.count > part->max_fields)
        return attn_case_error(
            origin, word.column, "'%.*s' has %s values; legal: %s", attn_word_shown(word),
            word.text, fields.count < part->min_fields ? "too few" : "too many", key->values);
    *seen |= 1u << (part - parts);
    return part->parse(&fields, c, origin);
}

int attn_parts_parse(const struct attn_case_key *key, const struct attn_part *parts,
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

static const char axis_letters[] = "bhqk"; /* bit i of ATTN_AXIS_* */

int attn_axes_parse(const struct attn_fields *fields, size_t at, unsigned *axes,
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

void attn_axes_write(struct attn_sink *sink, unsigned axes)
{
    if (axes == ATTN_AXES_ALL)
        return;
    attn_sink_text(sink, ":");
    for (unsigned i = 0; i < 4; i++)
        if (axes & (1u << i))
            attn_sink_format(sink, "%c", axis_letters[i]);
}

int attn_list_parse(struct attn_word word, int64_t list[ATTN_CASE_LIST_MAX], int *count,
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

int attn_list_store(struct attn_case_numbers **list, const int64_t *numbers, int count,
                    const struct attn_origin *origin)
{
    if (attn_case_numbers_set(list, numbers, count) == 0)
        return 0;
    return attn_case_error(origin, 1, "no memory");
}

void attn_list_write(struct attn_sink *sink, const struct attn_case_numbers *list, int count)
{
    for (int i = 0; i < count; i++)
        attn_sink_format(sink, "%s%lld", i ? "/" : "", (long long)list->at[i]);
}

void attn_part_begin(struct attn_sink *sink, const struct attn_case_key *key, bool *first)
{
    if (*first)
        attn_sink_key(sink, key);
    else
        attn_sink_text(sink, "+");
    *first = false;
}
