/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h - values made of parts: "causal+window:8:0+bool:0.5:qk" has three parts; the second has
 * three fields. Private to this folder. */
#ifndef ATTN_CASE_PARTS_H
#define ATTN_CASE_PARTS_H

#include "case/language.h"

enum { ATTN_FIELDS_MAX = 4, ATTN_PARTS_MAX = 12 };

/* A part's fields: at[0] is its name, the others follow after colons. */
struct attn_fields {
    struct attn_word at[ATTN_FIELDS_MAX];
    size_t count;
};

/* One legal part. Parts that share a bit exclude each other. */
struct attn_part {
    const char *name;
    unsigned bits;
    size_t min_fields, max_fields;
    int (*parse)(const struct attn_fields *fields, struct attn_case *c,
                 const struct attn_origin *origin);
};

/* Parts joined with '+', from a table ended by a NULL name; `nothing` alone is the empty set. */
int attn_parts_parse(const struct attn_case_key *key, const struct attn_part *parts,
                     const char *nothing, struct attn_word word, struct attn_case *c,
                     const struct attn_origin *origin);

/* Begins a part in canonical text: the key before the first, '+' before the others. */
void attn_part_begin(struct attn_sink *sink, const struct attn_case_key *key, bool *first);

/* AXES, the optional field `at`: some of the letters b h q k, each at most once. Without it: all.
 */
int attn_axes_parse(const struct attn_fields *fields, size_t at, unsigned *axes,
                    const struct attn_origin *origin);
void attn_axes_write(struct attn_sink *sink, unsigned axes);

/* A list N/N/... of whole numbers, at least one. */
int attn_list_parse(struct attn_word word, int64_t list[ATTN_CASE_LIST_MAX], int *count,
                    const struct attn_origin *origin);

/* Stores it in a case. */
int attn_list_store(struct attn_case_numbers **list, const int64_t *numbers, int count,
                    const struct attn_origin *origin);
void attn_list_write(struct attn_sink *sink, const struct attn_case_numbers *list, int count);

#endif
