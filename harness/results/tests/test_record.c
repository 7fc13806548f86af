/* SPDX-License-Identifier: Apache-2.0 */
/* test_record.c - the form of a line, and what is no record. */
#include "results/field.h"
#include "results/record.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void round_trip(void **state)
{
    (void)state;
    const char *wrong;
    size_t length;
    json_t *record =
        json_pack("{s:s, s:f, s:s}", "type", "round", "time", 0.1, "reason", "a \"b\"\n\xc3\xa9");
    char *line = attn_record_seal(record, &length);
    assert_non_null(line);
    assert_int_equal(strlen(line), length);
    json_t *back = attn_record_unseal(line, length - 1, &wrong);
    /* As it was, but for what a terminal would obey. */
    assert_string_equal(json_string_value(json_object_get(back, "reason")), "a \"b\"?\xc3\xa9");
    attn_json_clean(record);
    assert_true(json_equal(record, back));
    json_decref(record);
    json_decref(back);
    free(line);
}

/* The seal as another tool would check it: CRC-32 of `{"a":1` is a702fc6e (Python's zlib). */
static void form_of_a_line(void **state)
{
    (void)state;
    size_t length;
    json_t *record = json_pack("{s:i}", "a", 1);
    char *line = attn_record_seal(record, &length);
    assert_string_equal(line, "{\"a\":1,\"crc32\":\"a702fc6e\"}\n");
    json_decref(record);
    free(line);
}

static void refusals(void **state)
{
    (void)state;
    size_t length;
    const char *wrong;
    json_t *empty = json_object(), *list = json_array();
    json_t *own = json_pack("{s:s}", "crc32", "00000000");
    const json_t *bad[] = {empty, list, own, NULL};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        assert_null(attn_record_seal(bad[i], &length));
        assert_int_equal(errno, EINVAL);
    }
    json_decref(empty);
    json_decref(list);
    json_decref(own);
    assert_null(attn_record_unseal("{}", 2, &wrong));
    assert_string_equal(wrong, "has no crc32 at its end");
    static const char list_line[] = "[1,\"crc32\":\"00000000\"}";
    assert_null(attn_record_unseal(list_line, sizeof list_line - 1, &wrong));
    assert_string_equal(wrong, "does not match its crc32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(form_of_a_line),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
