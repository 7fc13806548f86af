/* SPDX-License-Identifier: Apache-2.0 */
/* line.c - splits one line into axes of alternatives, and makes cases of them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/expand.h"
#include "case/operator.h"

/* A line is printable ASCII: nothing in it can hide from a reader or control a terminal. */
static int check_bytes(const char *text, size_t length, const struct attn_origin *origin)
{
    if (length > ATTN_CASE_LINE_MAX)
        return attn_case_error(origin, ATTN_CASE_LINE_MAX + 1, "the line is over %d bytes",
                               ATTN_CASE_LINE_MAX);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte != '\t' && (byte < 0x20 || byte > 0x7e))
            return attn_case_error(origin, i + 1, "byte 0x%02x is not printable ASCII%s", byte,
                                   byte == '\r' ? ": save the file with Unix line ends" : "");
    }
    return 0;
}

/* The next word of a line; false at its end or at a comment. */
static bool next_word(struct attn_word *rest, struct attn_word *word)
{
    size_t at = 0;
    while (at < rest->length && (rest->text[at] == ' ' || rest->text[at] == '\t'))
        at++;
    if (at == rest->length || rest->text[at] == '#')
        return false;
    size_t end = at;
    while (end < rest->length && rest->text[end] != ' ' && rest->text[end] != '\t')
        end++;
    *word = (struct attn_word){rest->text + at, end - at, rest->column + at};
    *rest = (struct attn_word){rest->text + end, rest->length - end, rest->column + end};
    return true;
}

/* Reads "name:", the first word of a line. */
static int parse_name(struct attn_word word, struct attn_statement *statement,
                      const struct attn_origin *origin)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    struct attn_word rest = word, name;
    attn_word_split(&rest, ':', &name);
    if (rest.length > 0)
        return attn_case_error(origin, rest.column, "a blank must follow the name's ':'");
    if (name.length == 0)
        return attn_case_error(origin, word.column, "the name before ':' is empty");
    if (name.length >= ATTN_CASE_NAME_MAX)
        return attn_case_error(origin, word.column, "the name is over %d characters",
                               ATTN_CASE_NAME_MAX - 1);
    memcpy(statement->name, name.text, name.length);
    statement->name[name.length] = '\0';
    size_t good = strspn(statement->name, legal);
    if (good < name.length)
        return attn_case_error(origin, name.column + good,
                               "'%c' in a name: letters, digits, '_', '.' and '-' are legal",
                               name.text[good]);
    return 0;
}

/* The shorthand, given in one of these columns, that sets a key; NULL: there is none. */
static const struct attn_case_key *shorthand_of(const struct attn_case_key *key, size_t a, size_t b,
                                                const struct attn_statement *statement)
{
    for (const struct attn_case_key *k = attn_case_keys(); k->name; k++) {
        const size_t column = statement->columns[attn_key_index(k)];
        for (size_t t = 0; t < ATTN_KEY_TARGETS && k->rule->targets[t]; t++)
            if (column && (column == a || column == b) &&
                strcmp(k->rule->targets[t], key->name) == 0)
                return k;
    }
    return NULL;
}

/* The value of the key that stands alone at a column; "..." if it is linked to others. */
static struct attn_word value_at(const struct attn_statement *statement, size_t column)
{
    const struct attn_word line = statement->line;
    const size_t at = column - line.column;
    struct attn_word rest = {line.text + at, line.length - at, column}, value, key;
    if ((at > 0 && line.text[at - 1] == '/') || !next_word(&rest, &value))
        return (struct attn_word){"...", 3, column};
    attn_word_split(&value, '=', &key);
    if (value.text == NULL || memchr(key.text, '/', key.length))
        return (struct attn_word){"...", 3, column};
    return value;
}

/* Says that a key is given twice, and how to give what a shorthand joins. */
static int given_twice(const struct attn_case_key *key, struct attn_word word,
                       const struct attn_statement *statement, const struct attn_origin *origin)
{
    const size_t first = statement->columns[attn_key_index(key)];
    const struct attn_case_key *shorthand = shorthand_of(key, first, word.column, statement);
    char joined[128] = "", apart[256] = "";
    if (!shorthand || first == word.column)
        return attn_case_error(origin, word.column, "'%s' is already given in column %zu",
                               key->name, first);
    const size_t joint = statement->columns[attn_key_index(shorthand)];
    const size_t own = first == joint ? word.column : first;
    for (size_t t = 0; t < ATTN_KEY_TARGETS && shorthand->rule->targets[t]; t++) {
        const char *name = shorthand->rule->targets[t];
        const bool is_key = strcmp(name, key->name) == 0;
        const struct attn_word value = value_at(statement, is_key ? own : joint);
        const size_t used = strlen(joined), more = strlen(apart);
        snprintf(joined + used, sizeof joined - used, "%s%s", t ? " and " : "", name);
        snprintf(apart + more, sizeof apart - more, "%s%s=%.*s", t ? " " : "", name,
                 attn_word_shown(value), value.text);
    }
    return attn_case_error(origin, word.column,
                           "'%s' sets %s, and '%s' is given, too: write '%s' instead",
                           shorthand->name, joined, key->name, apart);
}

/* Notes that a key is given, by its own name or by a shorthand. */
static int note_key(const struct attn_case_key *key, struct attn_word word,
                    struct attn_statement *statement, const struct attn_origin *origin)
{
    size_t index = attn_key_index(key);
    assert(index < ATTN_KEYS_MAX);
    if (statement->columns[index])
        return given_twice(key, word, statement, origin);
    statement->columns[index] = word.column;
    for (size_t t = 0; t < ATTN_KEY_TARGETS && key->rule->targets[t]; t++) {
        const char *name = key->rule->targets[t];
        struct attn_word target = {name, strlen(name), word.column};
        if (note_key(attn_key_find(target), target, statement, origin) != 0)
            return -1;
    }
    return 0;
}

/* The part of a word before '=': one key, or several linked with '/'. */
static int parse_keys(struct attn_word word, struct attn_axis *axis,
                      struct attn_statement *statement, const struct attn_origin *origin)
{
    struct attn_word rest = word, name;
    while (attn_word_split(&rest, '/', &name)) {
        const struct attn_case_key *key = attn_key_find(name);
        if (key == NULL) {
            const char *names[ATTN_KEYS_MAX];
            return attn_word_unknown(origin, name, "key", names,
                                     attn_key_names(names, ATTN_KEYS_MAX), NULL);
        }
        if (axis->n_keys == ATTN_LINKED_MAX)
            return attn_case_error(origin, name.column, "more than %d linked keys",
                                   ATTN_LINKED_MAX);
        if (note_key(key, name, statement, origin) != 0)
            return -1;
        axis->keys[axis->n_keys] = key;
        axis->columns[axis->n_keys++] = name.column;
    }
    for (size_t k = 0; axis->n_keys > 1 && k < axis->n_keys; k++)
        if (axis->keys[k]->rule->flags & ATTN_KEY_WHOLE)
            return attn_case_error(origin, axis->columns[k],
                                   "'%s' cannot be linked: '/' is part of its values",
                                   axis->keys[k]->name);
    return 0;
}

/* "keys=values". */
static int parse_assignment(struct attn_word word, struct attn_statement *statement,
                            const struct attn_origin *origin)
{
    struct attn_word values = word, keys;
    attn_word_split(&values, '=', &keys);
    if (values.text == NULL) {
        const char *names[ATTN_KEYS_MAX];
        if (attn_key_find(word))
            return attn_case_error(origin, word.column, "'%.*s' has no value",
                                   attn_word_shown(word), word.text);
        return attn_word_unknown(origin, word, "word (not key=value)", names,
                                 attn_key_names(names, ATTN_KEYS_MAX), NULL);
    }
    assert(statement->n_axes < ATTN_KEYS_MAX);
    struct attn_axis *axis = &statement->axes[statement->n_axes++];
    if (parse_keys(keys, axis, statement, origin) != 0)
        return -1;
    if (values.length == 0)
        return attn_case_error(origin, word.column, "'%.*s' has no value", attn_word_shown(keys),
                               keys.text);
    return attn_axis_values(axis, values, origin);
}

/* Refuses sizes beside data=, and data= inside a pack. */
static int check_pack_keys(const struct attn_statement *statement, unsigned refused,
                           const struct attn_origin *origin)
{
    for (size_t a = 0; a < statement->n_axes; a++)
        for (size_t k = 0; k < statement->axes[a].n_keys; k++) {
            const struct attn_case_key *key = statement->axes[a].keys[k];
            if (key->rule->flags & refused & ATTN_KEY_TENSORS)
                return attn_case_error(origin, statement->axes[a].columns[k],
                                       "'%s' comes from the pack's tensors", key->name);
            if (key->rule->flags & refused & ATTN_KEY_PATH)
                return attn_case_error(origin, statement->axes[a].columns[k],
                                       "'%s' is not allowed in a pack's own line", key->name);
        }
    return 0;
}

static int parse_statement(const char *text, size_t length, struct attn_statement *statement,
                           const struct attn_origin *origin)
{
    struct attn_word rest = {text, length, 1}, word;
    if (check_bytes(text, length, origin) != 0)
        return -1;
    statement->line = rest;
    for (bool first = true; next_word(&rest, &word); first = false) {
        size_t plain = 0; /* up to the first ':' or '=' */
        while (plain < word.length && word.text[plain] != ':' && word.text[plain] != '=')
            plain++;
        bool named = first && plain < word.length && word.text[plain] == ':';
        if ((named ? parse_name : parse_assignment)(word, statement, origin) != 0)
            return -1;
    }
    if (statement->name[0] && statement->n_axes == 0)
        return attn_case_error(origin, 1, "'%.*s' is a name without a case", 40, statement->name);
    return 0;
}

int attn_case_parse_named(const char *text, size_t length, struct attn_origin *origin,
                          struct attn_case_list *list, char name[ATTN_CASE_NAME_MAX])
{
    struct attn_statement *statement = calloc(1, sizeof *statement);
    if (statement == NULL)
        return attn_case_error(origin, 1, "no memory");
    if (length > 0 && text[length - 1] == '\n')
        length--;
    int result = parse_statement(text, length, statement, origin);
    if (result == 0 && statement->n_axes > 0) {
        origin->pack = attn_statement_column(statement, "data") != 0;
        result = check_pack_keys(statement, origin->pack ? ATTN_KEY_TENSORS : 0, origin);
        if (result == 0)
            result = attn_statement_expand(statement, list, origin);
    }
    if (result == 0)
        memcpy(name, statement->name, ATTN_CASE_NAME_MAX);
    attn_statement_free(statement);
    return result;
}

int attn_case_parse_line(const char *text, size_t length, const char *file, int line,
                         struct attn_case_list *list, char *why, size_t size)
{
    struct attn_origin origin = {.file = file, .line = line, .why = why, .size = size};
    char name[ATTN_CASE_NAME_MAX];
    return attn_case_parse_named(text, length, &origin, list, name);
}

/* Checks the keys that a pack's tensors cannot replace. */
static int check_needed(const struct attn_case *c, const struct attn_origin *origin)
{
    const struct ref_op *op = attn_case_op(c);
    for (const char *const *name = op->needed; name && *name; name++) {
        struct attn_word word = {*name, strlen(*name), 0};
        if (attn_key_size(attn_key_find(word), c) < 0)
            return attn_case_error(origin, 1, "'%s' must be given with op=%s", *name, op->name);
    }
    return 0;
}

int attn_case_parse_pack_line(const char *text, const char *file, struct attn_case *out, char *why,
                              size_t size)
{
    struct attn_origin origin = {.file = file, .line = 1, .pack = true, .why = why, .size = size};
    struct attn_case_list list = {0};
    struct attn_statement *statement = calloc(1, sizeof *statement);
    if (statement == NULL)
        return attn_case_error(&origin, 1, "no memory");
    int result = parse_statement(text, strlen(text), statement, &origin);
    if (result == 0 && statement->name[0])
        result = attn_case_error(&origin, 1, "a pack's case line has no name");
    if (result == 0)
        result = check_pack_keys(statement, ATTN_KEY_TENSORS | ATTN_KEY_PATH, &origin);
    for (size_t a = 0; result == 0 && a < statement->n_axes; a++)
        if (statement->axes[a].count > 1)
            result = attn_case_error(&origin, statement->axes[a].columns[0],
                                     "a pack is one case: no lists");
    if (result == 0)
        result = attn_statement_expand(statement, &list, &origin);
    if (result == 0)
        result = check_needed(&list.items[0], &origin);
    if (result == 0) {
        assert(list.count == 1);
        *out = list.items[0];
        list.count = 0; /* the caller now owns what the case owns */
    }
    attn_case_list_free(&list);
    attn_statement_free(statement);
    return result;
}
