/* SPDX-License-Identifier: Apache-2.0 */
/* test_entry.c - a record names things as the case language does. */
#include "run/entry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* sizes.KEY of the record of a case on the reference must be `word`. */
static void expect_word(const char *line, const char *key, const char *word)
{
    struct attn_case_list list = {0};
    struct attn_session session = {.settings = {.threads = 1}};
    char why[512];
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) != 0)
        fail_msg("%s: %s", line, why);
    const struct attn_entry entry = {.c = &list.items[0]};
    json_t *record = attn_verify_record(&entry, &session);
    assert_non_null(record);
    assert_string_equal(json_string_value(json_object_get(json_object_get(record, "sizes"), key)),
                        word);
    json_decref(record);
    attn_case_list_free(&list);
}

/* Every value of a key of choices. */
static void expect_words(const char *name)
{
    const struct attn_case_key *key = attn_case_keys();
    while (key->name && strcmp(key->name, name) != 0)
        key++;
    assert_non_null(key->name);
    char values[256], line[320], *rest = values;
    int count = 0;
    snprintf(values, sizeof values, "%s", key->values);
    for (const char *word; (word = strsep(&rest, "|")); count++) {
        snprintf(line, sizeof line, "s=4 d=8 h=%d %s=%s%s", strcmp(word, "wkv") == 0 ? 1 : 2, name,
                 word, strcmp(word, "disentangled") == 0 ? " span=4" : "");
        expect_word(line, name, word);
    }
    assert_true(count > 1);
}

static void words_of_records(void **state)
{
    (void)state;
    expect_words("op");
    expect_words("score");
    expect_words("dtype");
}

/* Which checks a record calls off for a declaration, with blanks between. */
static void expect_off(const char *line, const struct attn_numerics *numerics, const char *names)
{
    struct attn_case_list list = {0};
    struct attn_session session = {.settings = {.threads = 1}};
    char why[512], found[128] = "";
    size_t n;
    json_t *name;
    assert_int_equal(attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why), 0);
    const struct attn_entry entry = {.c = &list.items[0],
                                     .plan = {.has_numerics = true, .numerics = *numerics}};
    json_t *record = attn_verify_record(&entry, &session);
    json_array_foreach(json_object_get(record, "declared_off"), n, name)
    {
        strncat(found, n ? " " : "", sizeof found - strlen(found) - 1);
        strncat(found, json_string_value(name), sizeof found - strlen(found) - 1);
    }
    assert_string_equal(found, names);
    json_decref(record);
    attn_case_list_free(&list);
}

static void declarations_that_call_checks_off(void **state)
{
    const char line[] = "h=2 s=4 d=8 dtype=bf16";
    struct attn_numerics n = {.acc_type = ATTN_F32, .deterministic = 1};

    (void)state;
    expect_off(line, &n, "");
    n.acc_toward_zero = 1;
    expect_off(line, &n, "rounding");
    n = (struct attn_numerics){.acc_type = ATTN_F32,
                               .deterministic = 1,
                               .p_normalised = 1,
                               .partial_type = ATTN_BF16,
                               .partial_terms = 1};
    expect_off(line, &n, "census exact");
    expect_off("op=mha h=2 s=4 d=8 dtype=bf16", &n, "");
    n = (struct attn_numerics){.acc_type = ATTN_F16};
    expect_off("h=2 s=4 d=8 dtype=f16", &n, "census exact rerun scale_v");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_of_records),
                                       cmocka_unit_test(declarations_that_call_checks_off)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
