/* SPDX-License-Identifier: Apache-2.0 */
/* params.c - reads, checks, resolves and writes the keys that come from operators' tables.
 *
 * A line may give a parameter before its op=, so a value is read first and checked with the
 * operator later. Operators that share a key share its kind and its words. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "case/language.h"
#include "case/operator.h"

enum { WORDS_MAX = 16 };

static const struct attn_case_key *key_of(const struct ref_param *param)
{
    const struct attn_case_key *key =
        attn_key_find((struct attn_word){param->key, strlen(param->key), 0});
    assert(key && key->rule->param);
    return key;
}

/* ---- values: doubles, bit for bit in the numbers of a case; NaN: not given ---- */

static double value_at(const struct attn_case *c, size_t slot)
{
    double value = NAN;
    if (c->param)
        memcpy(&value, &c->param->at[slot], sizeof value);
    return value;
}

static int set_value(struct attn_case *c, size_t slot, double value)
{
    int64_t bits[ATTN_CASE_PARAMS];
    for (size_t s = 0; s < ATTN_CASE_PARAMS; s++) {
        const double kept = s == slot ? value : value_at(c, s);
        memcpy(&bits[s], &kept, sizeof kept);
    }
    return attn_case_numbers_set(&c->param, bits, ATTN_CASE_PARAMS);
}

double attn_case_param(const struct attn_case *c, const struct ref_param *param)
{
    const double value = value_at(c, key_of(param)->rule->slot);
    return isnan(value) ? param->fallback : value;
}

bool attn_case_has_param(const struct attn_case *c, const struct ref_param *param)
{
    return !isnan(value_at(c, key_of(param)->rule->slot));
}

int attn_case_set_param(struct attn_case *c, const struct ref_param *param, double value)
{
    return set_value(c, key_of(param)->rule->slot, value);
}

/* ---- text ---- */

/* Word `n` of "a|b|c"; false beyond the last. */
static bool word_at(const char *values, size_t n, struct attn_word *word)
{
    struct attn_word rest = {values, strlen(values), 0};
    while (attn_word_split(&rest, '|', word))
        if (n-- == 0)
            return true;
    return false;
}

/* "none", "tensor", or "rule:N" */
static void table_text(const struct ref_param *param, double value, char *text, size_t size)
{
    struct attn_word word, rule;
    const bool ruled = value >= 2;
    if (!word_at(param->values, ruled ? 2 : (size_t)value, &word))
        return;
    attn_word_split(&word, ':', &rule);
    snprintf(text, size, ruled ? "%.*s:%lld" : "%.*s", (int)rule.length, rule.text,
             (long long)value);
}

void attn_param_text(const struct ref_param *param, double value, char *text, size_t size)
{
    struct attn_sink sink = {.text = text, .size = size};
    struct attn_word word;
    text[0] = '\0';
    if (param->kind == REF_PARAM_WORD && word_at(param->values, (size_t)value, &word))
        snprintf(text, size, "%.*s", (int)word.length, word.text);
    else if (param->kind == REF_PARAM_TABLE)
        table_text(param, value, text, size);
    else if (param->kind == REF_PARAM_INT)
        snprintf(text, size, "%lld", (long long)value);
    else
        attn_sink_real(&sink, value);
}

static int parse_word(const struct attn_case_key *key, struct attn_word word, double *value,
                      const struct attn_origin *origin)
{
    char words[WORDS_MAX][32];
    const char *names[WORDS_MAX];
    struct attn_word legal;
    size_t count = 0;
    for (; count < WORDS_MAX && word_at(key->values, count, &legal); count++) {
        snprintf(words[count], sizeof words[count], "%.*s", (int)legal.length, legal.text);
        names[count] = words[count];
        if (attn_word_is(word, names[count])) {
            *value = (double)count;
            return 0;
        }
    }
    return attn_word_unknown(origin, word, key->name, names, count, key->values);
}

static int parse_table(const struct attn_case_key *key, struct attn_word word, double *value,
                       const struct attn_origin *origin)
{
    static const char *const names[] = {"none", "tensor"};
    struct attn_word rest = word, name, rule;
    int64_t n;
    *value = attn_word_is(word, names[1]);
    if (attn_word_is(word, names[0]) || (*value == 1 && origin->pack))
        return 0;
    if (*value == 1 || origin->pack)
        return attn_case_error(origin, word.column,
                               "%s=tensor names a pack's tensor, and only that", key->name);
    word_at(key->values, 2, &rule);
    attn_word_split(&rest, ':', &name);
    if (name.length + 2 != rule.length || memcmp(name.text, rule.text, name.length) != 0 ||
        name.length == word.length)
        return attn_word_unknown(origin, word, key->name, names, 2, key->values);
    if (attn_word_integer(rest, 2, 1ll << 53, &n, origin) != 0)
        return -1;
    *value = (double)n;
    return 0;
}

int attn_parse_param(const struct attn_case_key *key, struct attn_word word, struct attn_case *c,
                     const struct attn_origin *origin)
{
    double value = 0;
    int64_t whole = 0;
    int result;
    switch (key->rule->param->kind) {
    case REF_PARAM_WORD:
        result = parse_word(key, word, &value, origin);
        break;
    case REF_PARAM_TABLE:
        result = parse_table(key, word, &value, origin);
        break;
    case REF_PARAM_INT: /* all whole numbers that a double holds */
        result = attn_word_integer(word, -(1ll << 53), 1ll << 53, &whole, origin);
        value = (double)whole;
        break;
    default:
        result = attn_word_real(word, &value, origin);
        break;
    }
    if (result == 0 && set_value(c, key->rule->slot, value) != 0)
        return attn_case_error(origin, word.column, "no memory");
    return result;
}

void attn_write_param(const struct attn_case_key *key, const struct attn_case *c,
                      struct attn_sink *sink)
{
    const struct ref_param *param = attn_op_param(attn_case_op(c), key->name);
    const double value = value_at(c, key->rule->slot);
    char text[64];
    if (!param || isnan(value) || value == param->fallback)
        return;
    attn_param_text(param, value, text, sizeof text);
    attn_sink_key(sink, key);
    attn_sink_text(sink, text);
}

/* ---- judging ---- */

int attn_params_resolve(struct attn_case *c, const char **key, char *why, size_t size)
{
    bool any = false;
    for (const struct attn_case_key *k = attn_case_keys(); k->name && c->param; k++) {
        const double value = k->rule->param ? value_at(c, k->rule->slot) : NAN;
        const struct ref_param *row = attn_op_param(attn_case_op(c), k->name);
        *key = k->name;
        if (!isnan(value) && !row) {
            attn_key_owners(k->name, why, size);
            return -1;
        }
        any = any || (!isnan(value) && value != row->fallback);
        if (!isnan(value) && value == row->fallback && set_value(c, k->rule->slot, NAN) != 0) {
            snprintf(why, size, "no memory");
            return -1;
        }
    }
    return any ? 0 : attn_case_numbers_set(&c->param, NULL, 0);
}

/* Writes "'KEY' needs score=A or score=B". */
static void name_scores(const struct ref_param *param, char *text, size_t size)
{
    bool some = false;
    snprintf(text, size, "'%s' needs ", param->key);
    for (const struct ref_score *const *score = ref_scores_known; *score; score++) {
        const size_t used = strlen(text);
        if (!ref_score_reads(*score, param->key))
            continue;
        snprintf(text + used, size - used, "%sscore=%s", some ? " or " : "", (*score)->name);
        some = true;
    }
}

int attn_params_judge(const struct attn_case *c, bool pack, const char **key, char *why,
                      size_t size)
{
    const struct ref_op *op = attn_case_op(c);
    for (const struct ref_param *p = op->params; p && p->key; p++) {
        const bool given = attn_case_has_param(c, p);
        const double value = attn_case_param(c, p);
        char text[3][64];
        const bool reads = ref_score_reads(op->scores ? attn_case_score(c) : NULL, p->key);
        *key = p->key;
        if (given && !reads) {
            name_scores(p, why, size);
            return -1;
        }
        if ((value >= p->least && value <= p->most) || p->kind == REF_PARAM_WORD || !reads ||
            (pack && !given))
            continue;
        if (!given) {
            snprintf(why, size, "'%s' must be given with score=%s", p->key,
                     attn_case_score(c)->name);
            return -1;
        }
        attn_param_text(p, value, text[0], sizeof text[0]);
        attn_param_text(p, p->least, text[1], sizeof text[1]);
        attn_param_text(p, p->most, text[2], sizeof text[2]);
        snprintf(why, size, "%s = %s is outside %s..%s", p->key, text[0], text[1], text[2]);
        return -1;
    }
    return 0;
}
