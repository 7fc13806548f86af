/* SPDX-License-Identifier: Apache-2.0 */
/* shrink_words.c - words of a line, and parts of words. */
#include "explain/shrink_words.h"

#include <stdio.h>
#include <string.h>

#include "case/operator.h"

static bool is_key(const char *word, const char *key)
{
    const size_t length = strlen(key);
    return strncmp(word, key, length) == 0 && word[length] == '=';
}

/* Keys that only some operators accept. */
static bool is_key_of(const char *word, const struct ref_op *op, const struct ref_op *not_of)
{
    for (const char *const *key = op->keys; key && *key; key++)
        if (is_key(word, *key) && !attn_op_takes(not_of, *key))
            return true;
    for (const struct ref_param *p = op->params; p && p->key; p++)
        if (is_key(word, p->key))
            return true;
    return false;
}

/* Keys that only this score has. */
static bool is_key_of_score(const char *word, const struct ref_score *score)
{
    for (const char *const *key = score ? score->keys : NULL; key && *key; key++)
        if (is_key(word, *key))
            return true;
    return false;
}

/* Does a word need another one to make sense? */
static bool leans_on(const char *word, const char *other)
{
    if (is_key(other, "score"))
        return is_key(word, "dh") || is_key(word, "dq") || is_key(word, "params") ||
               is_key_of_score(word, ref_score_named(other + 6));
    const struct ref_op *op = is_key(other, "op") ? ref_op_named(other + 3) : NULL;
    return op && is_key_of(word, op, ref_op_named(ATTN_DEFAULT_OP));
}

struct words {
    char text[ATTN_CASE_LINE_MAX + 1]; /* of a canonical line, cut at its blanks */
    const char *at[64];
    int n;
};

static void cut(const struct attn_words *of, struct words *words)
{
    of->line(of->context, words->text, sizeof words->text);
    char *rest = words->text, *word;
    for (words->n = 0; words->n < 64 && (word = strsep(&rest, " "));)
        if (*word)
            words->at[words->n++] = word;
}

/* The line without word w and the words that need it. */
static bool without_word(const struct attn_words *s, const struct words *words, int w)
{
    char line[ATTN_CASE_LINE_MAX + 1] = "";
    size_t used = 0;
    for (int i = 0; i < words->n; i++)
        if (i != w && !leans_on(words->at[i], words->at[w]))
            used += (size_t)snprintf(line + used, sizeof line - used, "%s ", words->at[i]);
    return s->keep(s->context, line);
}

/* The line without one part of word w: "mask=causal+len:3" has two parts. */
static bool without_part(const struct attn_words *s, const struct words *words, int w)
{
    const char *value = strchr(words->at[w], '=');
    if (!value++)
        return false;
    for (const char *part = value; strchr(value, '+'); part++) {
        char line[2 * ATTN_CASE_LINE_MAX];
        size_t used = 0;
        const size_t length = strcspn(part, "+");
        for (int i = 0; i < words->n; i++)
            if (i != w)
                used += (size_t)snprintf(line + used, sizeof line - used, "%s ", words->at[i]);
        /* The '+' before the part goes with it; of the first, the one after. */
        const int before = (int)(part - words->at[w]) - (part > value);
        const char *after = part + length + (part == value && part[length]);
        snprintf(line + used, sizeof line - used, "%.*s%s", before, words->at[w], after);
        if (s->keep(s->context, line))
            return true;
        part += length;
        if (!*part)
            break;
    }
    return false;
}

bool attn_words_shrink(const struct attn_words *s)
{
    struct words words;
    bool any = false;
    cut(s, &words);
    for (int w = 0; w < words.n;) {
        if (without_word(s, &words, w) || without_part(s, &words, w)) {
            any = true;
            cut(s, &words); /* the next word is at this index now */
        } else {
            w++;
        }
    }
    return any;
}
