/* SPDX-License-Identifier: Apache-2.0 */
/* test_combinations.c - every operator with every pair of words of the case language: what the
 * reference refuses is refused when the line is read, so a case that is read can be made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "case/language.h"
#include "case/operator.h"
#include "pack/make.h"
#include "reference/reference.h"

enum { WORDS_MAX = 256, VALUES = 12 };

/* Values of the keys of the language. A key of an operator's table has those that make_words finds
 * there. NULL alone: tried with packs elsewhere. */
static const struct {
    const char *key, *values[VALUES];
} language[] = {
    {"b", {"2"}},
    {"bias", {"normal", "normal:q", "const:-2", "const:-log(sk)", "alibi", "normal+alibi"}},
    {"d", {NULL}}, /* dk and dv by themselves */
    {"data", {NULL}},
    {"dh", {"3"}},
    {"dk", {NULL}},
    {"dq", {"3"}},
    {"dropout", {"0.3"}},
    {"dtype", {"f64", "f16"}},
    {"dv", {"3"}},
    {"e", {"5"}},
    {"fill",
     {"uniform", "smooth", "census", "spike", "poison", "exact", "one_hot", "few_queries",
      "strong_decay", "tiny_phi", "clusters", "whole"}},
    {"global_proj", {"1"}},
    {"h", {"2"}},
    {"hkv", {"1", "2"}},
    {"hq", {"2", "4"}},
    {"kv", {"cross"}},
    {"layout", {"bhds"}},
    {"mask",
     {"causal", "causal_br", "causal+past:3", "window:2:1", "window:2:1:2", "len:3", "len2d:rand",
      "bool:0.5", "global:2", "window:1:1+global:rand:0.3", "br", "len:0"}},
    {"op", {NULL}},
    {"out", {"lse", "weights", "state_out"}},
    {"params", {"head"}},
    {"proj_bias", {"1"}},
    {"prune", {"0"}},
    {"residual", {"1"}},
    {"s", {NULL}},
    {"scale", {"1", "-1", "0", "1/sk"}},
    {"score", {"dot", "bilinear", "gaussian", "additive", "disentangled"}},
    {"seed", {"2"}},
    {"sha256", {NULL}},
    {"sink", {"1"}},
    {"sk", {"0", "1", "6"}},
    {"softcap", {"5"}},
    {"sq", {NULL}},
    {"view", {"gaps", "broadcast", "permuted"}},
    {"weights", {"stiefel"}},
    {"wo", {"0"}},
};

struct word {
    char text[64];
    size_t key; /* two words of one key do not go together */
};

static struct word words[WORDS_MAX];
static size_t n_words;

static void add_word(size_t key, const char *name, const char *value)
{
    assert_true(n_words < WORDS_MAX);
    words[n_words].key = key;
    snprintf(words[n_words++].text, sizeof words->text, "%s=%s", name, value);
}

/* The words of a parameter, or numbers at and within its ends. */
static void add_param(size_t key, const struct ref_param *param)
{
    static const char *const numbers[] = {"1", "2", "4", "0"};
    char value[32];
    if (param->kind == REF_PARAM_TABLE) {
        add_word(key, param->key, "log:4");
        return;
    }
    for (int n = 0; n < 4; n++) {
        snprintf(value, sizeof value, "%s", numbers[n]);
        if (param->kind == REF_PARAM_REAL)
            snprintf(value, sizeof value, "%s", n < 2 ? numbers[n] : n == 2 ? "0.25" : "-0.5");
        if (param->kind != REF_PARAM_WORD)
            add_word(key, param->key, value);
        else if (n <= (int)param->most) {
            attn_param_text(param, n, value, sizeof value);
            add_word(key, param->key, value);
        }
    }
}

static const struct ref_param *param_named(const char *name)
{
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        if (attn_op_param(*op, name))
            return attn_op_param(*op, name);
    return NULL;
}

static void make_words(void)
{
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++) {
        const size_t index = attn_key_index(key);
        size_t n = 0;
        if (key->rule->param) {
            add_param(index, param_named(key->name));
            continue;
        }
        while (n < sizeof language / sizeof *language && strcmp(language[n].key, key->name) != 0)
            n++;
        if (n == sizeof language / sizeof *language)
            fail_msg("the key '%s' has no values here: add some", key->name);
        for (int v = 0; v < VALUES && language[n].values[v]; v++)
            add_word(index, key->name, language[n].values[v]);
    }
}

/* Reads a line, and makes what was read. True if it was read. */
static bool is_made(const char *line)
{
    struct attn_case_list list = {0};
    char why[512] = "";
    const bool read =
        attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) == 0;
    if (!read)
        assert_true(strlen(why) > 10);
    for (size_t n = 0; n < list.count; n++) {
        struct attn_instance *in = NULL;
        if (attn_instance_create(&list.items[n], 1, &in, why, sizeof why) != 0)
            fail_msg("%s: read, but not made: %s", line, why);
        if (ref_check_problem(&in->problem, why, sizeof why) != ATTN_OK)
            fail_msg("%s: read and made, but the reference refuses it: %s", line, why);
        attn_instance_free(in);
    }
    attn_case_list_free(&list);
    return read;
}

/* Adds every pair of words to a line. */
static void try_pairs(const char *base, bool used[WORDS_MAX])
{
    char line[256];
    size_t read = 0;
    assert_true(is_made(base));
    for (size_t a = 0; a < n_words; a++)
        for (size_t b = a; b < n_words; b++) {
            if (a != b && words[a].key == words[b].key)
                continue;
            snprintf(line, sizeof line, "%s %s %s", base, words[a].text,
                     a == b ? "" : words[b].text);
            const bool made = is_made(line);
            read += made;
            used[a] = used[a] || made;
            used[b] = used[b] || made;
        }
    printf("%s: %zu pairs read\n", base, read);
    assert_true(read > 100);
}

static void what_is_read_can_be_made(void **state)
{
    bool used[WORDS_MAX] = {false};
    (void)state;
    make_words();
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        char base[64];
        snprintf(base, sizeof base, "op=%s sq=8 dk=4%s", (*op)->name,
                 (*op)->needed && (*op)->needed[0] ? " hq=2" : "");
        try_pairs(base, used);
    }
    try_pairs("sq=8 dk=4 score=disentangled span=3", used); /* a key that it needs */
    for (size_t n = 0; n < n_words; n++)
        if (!used[n])
            printf("no operator reads %s\n", words[n].text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_can_be_made),
    };
    return cmocka_run_group_tests_name("combinations", tests, NULL, NULL);
}
