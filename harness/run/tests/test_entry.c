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
        snprintf(line, sizeof line, "h=2 s=4 d=8 %s=%s", name, word);
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words_of_records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
