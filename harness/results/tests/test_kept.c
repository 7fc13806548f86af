/* SPDX-License-Identifier: Apache-2.0 */
/* test_kept.c - names of kept weights: readable, one a key, and never outside the folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "results/kept.h"

static void one_a_key(void **state)
{
    char plain[ATTN_KEPT_NAME_MAX], two[ATTN_KEPT_NAME_MAX], four[ATTN_KEPT_NAME_MAX];
    (void)state;
    assert_int_equal(attn_kept_name("0123456789abcdef", "fast", "", plain), 0);
    assert_string_equal(plain, "tensors/0123456789abcdef-fast.safetensors");
    assert_int_equal(attn_kept_name("0123456789abcdef", "fast", "tile=2", two), 0);
    assert_int_equal(attn_kept_name("0123456789abcdef", "fast", "tile=4", four), 0);
    assert_string_not_equal(two, plain);
    assert_string_not_equal(two, four);
    /* "123456789" is the check string of CRC-32. */
    assert_int_equal(attn_kept_name("a", "b", "123456789", two), 0);
    assert_string_equal(two, "tensors/a-b-cbf43926.safetensors");
}

static void strange_records_name_no_file(void **state)
{
    char name[ATTN_KEPT_NAME_MAX] = "untouched", longer[66];
    static const char *const strange[] = {"", "..", "../x", "a/b", "a b", "a.b", "\xc3\xa4", "a\n"};
    (void)state;
    for (size_t s = 0; s < sizeof strange / sizeof strange[0]; s++) {
        assert_int_equal(attn_kept_name(strange[s], "fast", "", name), -1);
        assert_int_equal(attn_kept_name("0123", strange[s], "", name), -1);
    }
    memset(longer, 'a', 65);
    longer[65] = '\0';
    assert_int_equal(attn_kept_name("0123", longer, "", name), -1);
    assert_string_equal(name, "untouched");
    assert_int_equal(attn_kept_name("0123", longer + 1, "../../etc", name), 0);
    assert_null(strstr(name, ".."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_a_key),
        cmocka_unit_test(strange_records_name_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
