/* SPDX-License-Identifier: Apache-2.0 */
/* file.c - reads a .cases file: size limited, one statement per line, every name once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/language.h"
#include "case/regular.h"

struct named_line {
    char name[ATTN_CASE_NAME_MAX];
    int line;
};

/* Names given so far in a file. */
struct names {
    struct named_line *items;
    size_t count, capacity;
};

/* The whole file, or NULL with the reason. */
static char *read_file(const char *path, size_t *length, char *why, size_t size)
{
    const char *reason;
    char *text = attn_regular_read(path, ATTN_CASE_FILE_MAX, length, &reason);
    if (!text && errno == EFBIG)
        snprintf(why, size, "%s: over %d bytes", path, ATTN_CASE_FILE_MAX);
    else if (!text)
        snprintf(why, size, "%s: %s", path, reason);
    return text;
}

static int add_name(struct names *names, const char *name, int line)
{
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 16;
        struct named_line *grown = realloc(names->items, capacity * sizeof grown[0]);
        if (grown == NULL)
            return -1;
        names->items = grown;
        names->capacity = capacity;
    }
    struct named_line *item = &names->items[names->count++];
    memcpy(item->name, name, sizeof item->name);
    item->line = line;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const struct named_line *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int check_names(struct names *names, const char *path, char *why, size_t size)
{
    if (names->count > 1)
        qsort(names->items, names->count, sizeof names->items[0], by_name);
    for (size_t i = 1; i < names->count; i++) {
        const struct named_line *first = &names->items[i - 1], *again = &names->items[i];
        struct attn_origin origin = {.file = path, .line = again->line, .why = why, .size = size};
        if (strcmp(first->name, again->name) == 0)
            return attn_case_error(&origin, 1, "the name '%.40s' is already used in line %d",
                                   again->name, first->line);
    }
    return 0;
}

static int parse_lines(const char *path, const char *text, size_t length, struct names *names,
                       struct attn_case_list *list, char *why, size_t size)
{
    int line = 0;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t bytes = end ? (size_t)(end - (text + at)) : length - at;
        char name[ATTN_CASE_NAME_MAX];
        struct attn_origin origin = {.file = path, .line = ++line, .why = why, .size = size};
        if (attn_case_parse_named(text + at, bytes, &origin, list, name) != 0)
            return -1;
        if (name[0] && add_name(names, name, line) != 0) {
            snprintf(why, size, "%s: no memory", path);
            return -1;
        }
        at += bytes + 1;
    }
    return check_names(names, path, why, size);
}

int attn_case_parse_file(const char *path, struct attn_case_list *list, char *why, size_t size)
{
    size_t length = 0, before = list->count;
    struct names names = {0};
    char *text = read_file(path, &length, why, size);
    if (text == NULL)
        return -1;
    int result = parse_lines(path, text, length, &names, list, why, size);
    while (result != 0 && list->count > before)
        attn_case_free(&list->items[--list->count]);
    free(names.items);
    free(text);
    return result;
}
