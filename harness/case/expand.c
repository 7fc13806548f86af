/* SPDX-License-Identifier: Apache-2.0 */
/* expand.c - multiplies the axes of a line out: one complete, checked, named case per combination.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/expand.h"
#include "case/operator.h"

/* The number of cases that a statement makes; false if the list would grow beyond its limit. */
static bool count_cases(const struct attn_statement *statement, size_t present, size_t *count)
{
    *count = 1;
    for (size_t a = 0; a < statement->n_axes; a++) {
        *count *= statement->axes[a].count; /* both at most 10^6: fits in 64 bits */
        if (*count > ATTN_CASE_COUNT_MAX)
            return false;
    }
    return *count + present <= ATTN_CASE_COUNT_MAX;
}

static struct attn_word word_of(const struct attn_alternative *alternative)
{
    const char *text = alternative->text ? alternative->text : alternative->digits;
    return (struct attn_word){text, alternative->length, alternative->column};
}

/* The value of one of an axis's keys in one alternative. */
static struct attn_word key_value(const struct attn_axis *axis, size_t key, size_t chosen)
{
    struct attn_word rest = word_of(&axis->alternatives[chosen]), part = rest;
    for (size_t k = 0; axis->n_keys > 1 && k <= key; k++)
        attn_word_split(&rest, '/', &part);
    return part;
}

/* Combination `index`: the last axis runs fastest. */
static void choose(const struct attn_statement *statement, size_t index, size_t chosen[])
{
    for (size_t a = statement->n_axes; a-- > 0;) {
        chosen[a] = index % statement->axes[a].count;
        index /= statement->axes[a].count;
    }
}

/* "name/key=value,key=value" from the axes that vary. A name that does not fit ends in the
 * combination's number instead, so that no two cases of a line share a name. */
static void make_name(const struct attn_statement *statement, size_t index, const size_t chosen[],
                      char name[ATTN_CASE_NAME_MAX])
{
    size_t length = strlen(statement->name);
    bool fits = true;
    char separator = '/';
    memcpy(name, statement->name, ATTN_CASE_NAME_MAX);
    if (length == 0)
        return;
    for (size_t a = 0; a < statement->n_axes; a++) {
        const struct attn_axis *axis = &statement->axes[a];
        for (size_t k = 0; axis->count > 1 && fits && k < axis->n_keys; k++) {
            struct attn_word value = key_value(axis, k, chosen[a]);
            int added = snprintf(name + length, ATTN_CASE_NAME_MAX - length, "%c%s=%.*s", separator,
                                 axis->keys[k]->name, (int)value.length, value.text);
            fits = added >= 0 && (size_t)added < ATTN_CASE_NAME_MAX - length;
            length = fits ? length + (size_t)added : ATTN_CASE_NAME_MAX - 1;
            separator = ',';
        }
    }
    if (!fits) {
        char tail[24];
        int size = snprintf(tail, sizeof tail, "~%zu", index);
        memcpy(name + ATTN_CASE_NAME_MAX - 1 - size, tail, (size_t)size + 1);
    }
}

/* A message about the whole case, at the column of the wrong key. */
static int refuse(const struct attn_statement *statement, const char *key, const char *reason,
                  const struct attn_origin *origin)
{
    size_t column = attn_statement_column(statement, key);
    if (column == 0)
        column = statement->n_axes ? statement->axes[0].columns[0] : 1;
    return attn_case_error(origin, column, "%s", reason);
}

static int build(const struct attn_statement *statement, size_t index, struct attn_case *c,
                 const struct attn_origin *origin)
{
    size_t chosen[ATTN_KEYS_MAX];
    const char *key = "";
    char reason[256];
    choose(statement, index, chosen);
    for (size_t a = 0; a < statement->n_axes; a++) {
        const struct attn_axis *axis = &statement->axes[a];
        for (size_t k = 0; k < axis->n_keys; k++)
            if (axis->keys[k]->rule->parse(axis->keys[k], key_value(axis, k, chosen[a]), c,
                                           origin) != 0)
                return -1;
    }
    if (attn_case_resolve(c, origin->pack, &key, reason, sizeof reason) != 0 ||
        attn_case_judge(c, origin->pack, &key, reason, sizeof reason) != 0)
        return refuse(statement, key, reason, origin);
    /* What needs an operator's own rules: a case that the reference refuses cannot be judged. Of a
     * pack the tensors say what is there: its problem is checked when it is loaded. */
    if (!origin->pack && !c->data && !attn_case_is_problem(c, reason, sizeof reason))
        return refuse(statement, "op", reason, origin);
    make_name(statement, index, chosen, c->name);
    c->line = origin->line;
    if (origin->file && (c->file = strdup(origin->file)) == NULL)
        return attn_case_error(origin, 1, "no memory");
    return 0;
}

/* Cases with the same value on an axis can share its list. The first of them has the first value on
 * all other axes. So a line of long lists keeps each list once. */
static void share_lists(const struct attn_statement *statement, size_t index,
                        struct attn_case *first)
{
    size_t chosen[ATTN_KEYS_MAX], stride = 1;
    choose(statement, index, chosen);
    for (size_t a = statement->n_axes; a-- > 0; stride *= statement->axes[a].count)
        attn_case_share_lists(&first[index], &first[chosen[a] * stride]);
}

static int reserve(struct attn_case_list *list, size_t count)
{
    if (count <= list->capacity)
        return 0;
    /* Doubled, so that a file of many lines is not copied once per line. */
    size_t capacity = count > 2 * list->capacity ? count : 2 * list->capacity;
    struct attn_case *grown = realloc(list->items, capacity * sizeof list->items[0]);
    if (grown == NULL)
        return -1;
    list->items = grown;
    list->capacity = capacity;
    return 0;
}

int attn_statement_expand(const struct attn_statement *statement, struct attn_case_list *list,
                          const struct attn_origin *origin)
{
    size_t before = list->count, count;
    if (!count_cases(statement, before, &count))
        return attn_case_error(origin, 1, "more than %d cases", ATTN_CASE_COUNT_MAX);
    if (reserve(list, before + count) != 0)
        return attn_case_error(origin, 1, "no memory for %zu cases", before + count);
    for (size_t index = 0; index < count; index++) {
        struct attn_case *c = &list->items[list->count++];
        attn_case_init(c);
        if (build(statement, index, c, origin) != 0) {
            while (list->count > before)
                attn_case_free(&list->items[--list->count]);
            return -1;
        }
        share_lists(statement, index, c - index);
    }
    return 0;
}
