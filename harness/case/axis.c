/* SPDX-License-Identifier: Apache-2.0 */
/* axis.c - the values of one axis: comma lists, ranges, linked values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/expand.h"

void attn_statement_free(struct attn_statement *statement)
{
    for (size_t a = 0; a < statement->n_axes; a++)
        free(statement->axes[a].alternatives);
    free(statement);
}

size_t attn_statement_column(const struct attn_statement *statement, const char *key)
{
    const struct attn_case_key *entry = attn_key_find((struct attn_word){key, strlen(key), 0});
    return entry ? statement->columns[attn_key_index(entry)] : 0;
}

static int add(struct attn_axis *axis, struct attn_alternative alternative,
               const struct attn_origin *origin)
{
    if (axis->count == ATTN_CASE_COUNT_MAX)
        return attn_case_error(origin, alternative.column, "more than %d values",
                               ATTN_CASE_COUNT_MAX);
    if (axis->count == axis->capacity) {
        size_t capacity = axis->capacity ? 2 * axis->capacity : 4;
        struct attn_alternative *grown =
            realloc(axis->alternatives, capacity * sizeof axis->alternatives[0]);
        if (grown == NULL)
            return attn_case_error(origin, alternative.column, "no memory");
        axis->alternatives = grown;
        axis->capacity = capacity;
    }
    axis->alternatives[axis->count++] = alternative;
    return 0;
}

/* FIRST:LAST:*K or FIRST:LAST:+K. LAST is included if a step meets it. */
static int add_range(struct attn_axis *axis, struct attn_word word,
                     const struct attn_origin *origin)
{
    struct attn_word rest = word, first, last, step = {NULL, 0, 0};
    int64_t from, to, by;
    attn_word_split(&rest, ':', &first);
    attn_word_split(&rest, ':', &last);
    bool complete = attn_word_split(&rest, ':', &step) && rest.text == NULL && step.length > 1;
    bool times = complete && step.text[0] == '*';
    if (!complete || (!times && step.text[0] != '+'))
        return attn_case_error(origin, word.column,
                               "'%.*s' is not a range: FIRST:LAST:*K or FIRST:LAST:+K",
                               attn_word_shown(word), word.text);
    struct attn_word number = {step.text + 1, step.length - 1, step.column + 1};
    if (attn_word_integer(first, times ? 1 : 0, ATTN_CASE_SIZE_MAX, &from, origin) != 0 ||
        attn_word_integer(last, 0, ATTN_CASE_SIZE_MAX, &to, origin) != 0 ||
        attn_word_integer(number, times ? 2 : 1, ATTN_CASE_SIZE_MAX, &by, origin) != 0)
        return -1;
    if (to < from)
        return attn_case_error(origin, last.column, "the range ends at %lld, before its start",
                               (long long)to);
    if (!times && (to - from) / by >= ATTN_CASE_COUNT_MAX)
        return attn_case_error(origin, word.column, "the range has over %d values",
                               ATTN_CASE_COUNT_MAX);
    for (int64_t value = from; value <= to; value = times ? value * by : value + by) {
        struct attn_alternative alternative = {.column = word.column};
        int length = snprintf(alternative.digits, sizeof alternative.digits, "%d", (int)value);
        alternative.length = (size_t)length;
        if (add(axis, alternative, origin) != 0)
            return -1;
    }
    return 0;
}

static const char *text_of(const struct attn_alternative *alternative)
{
    return alternative->text ? alternative->text : alternative->digits;
}

static int by_text(const void *a, const void *b)
{
    const struct attn_alternative *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return memcmp(text_of(x), text_of(y), x->length);
}

/* A value given twice would make two cases with one name. */
static int check_repeats(const struct attn_axis *axis, const struct attn_origin *origin)
{
    if (axis->count < 2)
        return 0;
    struct attn_alternative *sorted = malloc(axis->count * sizeof sorted[0]);
    if (sorted == NULL)
        return attn_case_error(origin, axis->columns[0], "no memory");
    memcpy(sorted, axis->alternatives, axis->count * sizeof sorted[0]);
    qsort(sorted, axis->count, sizeof sorted[0], by_text);
    int result = 0;
    for (size_t i = 1; result == 0 && i < axis->count; i++)
        if (by_text(&sorted[i - 1], &sorted[i]) == 0) {
            const struct attn_alternative *a = &sorted[i - 1], *b = &sorted[i];
            size_t column = a->column > b->column ? a->column : b->column;
            struct attn_word word = {text_of(b), b->length, column};
            result = attn_case_error(origin, column, "'%.*s' is repeated", attn_word_shown(word),
                                     word.text);
        }
    free(sorted);
    return result;
}

int attn_axis_values(struct attn_axis *axis, struct attn_word values,
                     const struct attn_origin *origin)
{
    const struct attn_key_rule *rule = axis->keys[0]->rule;
    bool ranged = axis->n_keys == 1 && (rule->flags & (ATTN_KEY_SIZE | ATTN_KEY_RANGE));
    struct attn_word rest = values, value;
    while (attn_word_split(&rest, ',', &value)) {
        struct attn_word linked = value, part;
        size_t parts = 0;
        if (value.length == 0)
            return attn_case_error(origin, value.column, "an empty value in a list");
        while (axis->n_keys > 1 && attn_word_split(&linked, '/', &part)) {
            parts++;
            if (part.length == 0)
                return attn_case_error(origin, part.column, "an empty value in '%.*s'",
                                       attn_word_shown(value), value.text);
        }
        if (axis->n_keys > 1 && parts != axis->n_keys)
            return attn_case_error(origin, value.column,
                                   "'%.*s' does not hold %zu values, one per linked key",
                                   attn_word_shown(value), value.text, axis->n_keys);
        struct attn_alternative plain = {value.text, value.length, value.column, ""};
        if (ranged && memchr(value.text, ':', value.length)) {
            if (add_range(axis, value, origin) != 0)
                return -1;
        } else if (add(axis, plain, origin) != 0) {
            return -1;
        }
    }
    return check_repeats(axis, origin);
}
