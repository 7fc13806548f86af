/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - the table of all keys: the keys of the language, and those that operators' tables add.
 * It is made from the registry of operators when it is first asked for. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/expand.h"
#include "case/operator.h"

enum { TEXT_MAX = 4096 };

static struct attn_case_key keys[ATTN_KEYS_MAX + 1];
static bool has_owners[ATTN_KEYS_MAX];
static struct attn_key_rule param_rules[ATTN_CASE_PARAMS];
static char texts[TEXT_MAX]; /* words and helps made from the tables, one after the other */
static size_t texts_used;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A copy of a text that lasts. */
static const char *keep(const char *text)
{
    const size_t length = strlen(text) + 1;
    assert(texts_used + length <= sizeof texts);
    char *kept = memcpy(texts + texts_used, text, length);
    texts_used += length;
    return kept;
}

/* Appends to a text of `size` bytes, which must hold it. */
static void append(char *text, size_t size, const char *separator, const char *more)
{
    const size_t used = strlen(text);
    const int added = snprintf(text + used, size - used, "%s%s", used ? separator : "", more);
    assert(added >= 0 && (size_t)added < size - used);
    (void)added;
}

/* ---- texts from the tables ---- */

const struct ref_output *attn_optional_output(size_t n)
{
    uint64_t met[ATTN_CASE_ROLES / 64] = {0};
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        for (const struct ref_output *o = (*op)->outputs; o->role; o++) {
            const uint64_t bit = UINT64_C(1) << o->role % 64;
            if ((o->flags & REF_NEEDED) || ref_choice_of(*op, o->role) || (met[o->role / 64] & bit))
                continue;
            met[o->role / 64] |= bit;
            if (n-- == 0)
                return o;
        }
    return NULL;
}

static const char *op_values(void)
{
    char text[TEXT_MAX / 2] = "";
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        append(text, sizeof text, "|", (*op)->name);
    return keep(text);
}

void attn_score_names(attn_score_kind *kind, const char *prefix, const char *joint, char *text,
                      size_t size)
{
    text[0] = '\0';
    for (const struct ref_score *const *score = ref_scores_known; *score; score++) {
        const size_t used = strlen(text);
        if (!kind || kind(*score))
            snprintf(text + used, size - used, "%s%s%s", used ? joint : "", prefix, (*score)->name);
    }
}

static const char *score_values(void)
{
    char text[TEXT_MAX / 2];
    attn_score_names(NULL, "", "|", text, sizeof text);
    return keep(text);
}

static const char *out_values(void)
{
    char text[TEXT_MAX / 2] = "none, or parts joined with +:";
    const struct ref_output *output;
    for (size_t n = 0; (output = attn_optional_output(n)); n++)
        append(text, sizeof text, " ", output->name);
    return keep(text);
}

static bool owns(const struct ref_op *op, const char *key)
{
    return attn_op_takes(op, key) || attn_op_param(op, key);
}

void attn_key_owners(const char *key, char *text, size_t size)
{
    bool some = false;
    snprintf(text, size, "'%s' needs ", key);
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        const size_t used = strlen(text);
        if (owns(*op, key))
            snprintf(text + used, size - used, "%sop=%s", some ? " or " : "", (*op)->name);
        some = some || owns(*op, key);
    }
}

/* ---- keys of parameters ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct attn_case_key *)a)->name, ((const struct attn_case_key *)b)->name);
}

static bool is_met(const char *name, size_t count)
{
    for (size_t k = 0; k < count; k++)
        if (strcmp(keys[k].name, name) == 0)
            return true;
    return false;
}

/* "op=A|B: what it is", with the operators that have it. */
static const char *param_help(const struct ref_param *param)
{
    char text[512] = "";
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        if (attn_op_param(*op, param->key))
            append(text, sizeof text, "|", (*op)->name);
    char help[1024] = "op=";
    append(help, sizeof help, "", text);
    append(help, sizeof help, ": ", param->help);
    return keep(help);
}

static struct attn_case_key param_key(const struct ref_param *param, struct attn_key_rule *rule)
{
    char fallback[64];
    attn_param_text(param, param->fallback, fallback, sizeof fallback);
    *rule = (struct attn_key_rule){
        .parse = attn_parse_param,
        .write = attn_write_param,
        .flags = param->kind == REF_PARAM_INT ? ATTN_KEY_RANGE : 0,
        .param = param,
    };
    return (struct attn_case_key){param->key, param->values, keep(fallback), param_help(param),
                                  rule};
}

static void make(void)
{
    size_t count = 0, params = 0;
    for (const struct attn_case_key *key = attn_language_keys; key->name; key++, count++) {
        keys[count] = *key;
        if (strcmp(key->name, "op") == 0)
            keys[count].values = op_values();
        if (strcmp(key->name, "score") == 0)
            keys[count].values = score_values();
        if (strcmp(key->name, "out") == 0)
            keys[count].values = out_values();
    }
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        for (const struct ref_param *p = (*op)->params; p && p->key; p++) {
            if (is_met(p->key, count))
                continue;
            if (count == ATTN_KEYS_MAX || params == ATTN_CASE_PARAMS)
                abort(); /* operators with more keys: the limits are to be raised */
            keys[count++] = param_key(p, &param_rules[params++]);
        }
    qsort(keys, count, sizeof keys[0], by_name);
    /* Slots follow the names, as the keys do. */
    for (size_t k = 0, slot = 0; k < count; k++) {
        if (keys[k].rule->param)
            param_rules[keys[k].rule - param_rules].slot = slot++;
        for (const struct ref_op *const *op = ref_ops; *op; op++)
            has_owners[k] = has_owners[k] || owns(*op, keys[k].name);
    }
}

/* ---- look-ups ---- */

const struct attn_case_key *attn_case_keys(void)
{
    pthread_once(&once, make);
    return keys;
}

const struct attn_case_key *attn_key_find(struct attn_word name)
{
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++)
        if (attn_word_is(name, key->name))
            return key;
    return NULL;
}

size_t attn_key_index(const struct attn_case_key *key)
{
    return (size_t)(key - attn_case_keys());
}

bool attn_key_has_owners(const struct attn_case_key *key)
{
    return has_owners[attn_key_index(key)];
}

size_t attn_key_names(const char *names[], size_t max)
{
    size_t count = 0;
    for (const struct attn_case_key *key = attn_case_keys(); key->name && count < max; key++)
        names[count++] = key->name;
    return count;
}
