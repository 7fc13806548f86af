/* SPDX-License-Identifier: Apache-2.0 */
/* expand.h - a line split into axes of alternatives, which multiply out to cases. Private to
 * this folder. */
#ifndef ATTN_CASE_EXPAND_H
#define ATTN_CASE_EXPAND_H

#include "case/language.h"

enum {
    ATTN_KEYS_MAX = 96,  /* keys of the language; each at most once per line */
    ATTN_LINKED_MAX = 6, /* keys linked in one axis */
    ATTN_DIGITS_MAX = 12 /* of a size in a range, terminated */
};

/* One value of an axis: a piece of the line, or a number of a range. */
struct attn_alternative {
    const char *text; /* NULL: digits */
    size_t length, column;
    char digits[ATTN_DIGITS_MAX];
};

/* Both sides of one '='. */
struct attn_axis {
    const struct attn_case_key *keys[ATTN_LINKED_MAX];
    size_t columns[ATTN_LINKED_MAX];
    size_t n_keys;
    struct attn_alternative *alternatives;
    size_t count, capacity;
};

struct attn_statement {
    struct attn_word line; /* the whole of it */
    char name[ATTN_CASE_NAME_MAX];
    size_t columns[ATTN_KEYS_MAX]; /* column of each key of the table; 0: not given */
    struct attn_axis axes[ATTN_KEYS_MAX];
    size_t n_axes;
};

void attn_statement_free(struct attn_statement *statement);

/* The column of a key; 0: not given. */
size_t attn_statement_column(const struct attn_statement *statement, const char *key);

/* Fills an axis from the values after '='. 0, or -1 with a message. */
int attn_axis_values(struct attn_axis *axis, struct attn_word values,
                     const struct attn_origin *origin);

/* Appends every case of the statement; on failure appends none. */
int attn_statement_expand(const struct attn_statement *statement, struct attn_case_list *list,
                          const struct attn_origin *origin);

#endif
