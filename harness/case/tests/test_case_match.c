/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_match.c - the nearest word, and globs. */
#include "case_test.h"

static void test_nearest(void **state)
{
    (void)state;
    static const char *const words[] = {"dtype", "dropout", "score", "scale", "softcap", "b", "dk"};
    static const char *const expected[][2] = {
        {"dtpe", "dtype"},       {"dytpe", "dtype"},     {"DTYPE", "dtype"}, {"dtypee", "dtype"},
        {"scole", "score"},      {"scal", "scale"},      {"dv", "dk"},       {"drpout", "dropout"},
        {"soft_cap", "softcap"}, {"dropuot", "dropout"},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *near = attn_nearest(expected[i][0], words, 7);
        if (near == NULL || strcmp(near, expected[i][1]) != 0)
            fail_msg("%s: %s", expected[i][0], near ? near : "none");
    }
    static const char *const far[] = {"",
                                      "x",
                                      "quux",
                                      "zzzzz",
                                      "typed_by_a_cat_on_the_keyboard",
                                      "dtypedtypedtypedtypedtypedtypedtypedtypedtype"};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        assert_null(attn_nearest(far[i], words, 7));
    assert_null(attn_nearest("dtype", words, 0));
}

static void test_glob(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "anything", true},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"a*c", "ac", true},
        {"a*c", "abbbc", true},
        {"a*c", "abbbd", false},
        {"a*b*c", "a-b-b-c", true},
        {"*ab", "aab", true},
        {"*ab", "aba", false},
        {"a**", "a", true},
        {"?", "", false},
        {"abc", "abcd", false},
        {"sweep/*", "sweep/s=128", true},
        {"*s=128", "sweep/s=1128", false},
        {"a", "*", false},
        {"*?*?*", "ab", true},
        {"*?*?*", "a", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (attn_glob(cases[i].pattern, cases[i].text) != cases[i].matches)
            fail_msg("%s on %s", cases[i].pattern, cases[i].text);
}

/* Many stars on a text that nearly matches: work grows with the product, not exponentially. */
static void test_glob_bounded(void **state)
{
    (void)state;
    char pattern[65], text[4097];
    for (size_t i = 0; i < sizeof pattern - 1; i++)
        pattern[i] = i % 2 ? 'a' : '*';
    pattern[sizeof pattern - 1] = '\0';
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(attn_glob(pattern, text));
    text[sizeof text - 2] = 'b';
    assert_false(attn_glob(pattern, text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nearest), cmocka_unit_test(test_glob),
                                       cmocka_unit_test(test_glob_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
