/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_fuzz.c - damaged lines: never a crash, always a case or a reason. */
#include <stdlib.h>

#include "case/generate.h"
#include "case/xorshift.h"
#include "case_test.h"

enum { MUTATED = 60000, EDITS_MAX = 4 };

/* Characters that mean something are likelier than others. */
static char any_byte(uint64_t *state)
{
    static const char telling[] = "0123456789=,:/+*#.- \tbhqkse%";
    if (attn_draw_below(state, 4))
        return telling[attn_draw_below(state, sizeof telling - 1)];
    return (char)attn_draw_below(state, 256);
}

/* One edit: replaces, inserts, removes, doubles a piece, or cuts the rest off. */
static size_t mutate(uint64_t *state, char *text, size_t length)
{
    size_t at = length ? attn_draw_below(state, (unsigned)length) : 0;
    switch (length ? attn_draw_below(state, 8) : 1) {
    case 0:
        return at;
    case 1:
    case 2:
        memmove(text + at + 1, text + at, length - at);
        text[at] = any_byte(state);
        return length + 1;
    case 3:
        memmove(text + at, text + at + 1, length - at - 1);
        return length - 1;
    case 4: {
        size_t from = attn_draw_below(state, (unsigned)length);
        size_t size = attn_draw_below(state, 20);
        size = size < length - from ? size : length - from;
        memcpy(text + length, text + from, size);
        return length + size;
    }
    default:
        text[at] = any_byte(state);
        return length;
    }
}

/* A damaged line may ask for a million cases; that is legal, and too slow for a test. */
static bool has_range(const char *text, size_t length)
{
    return memmem(text, length, ":*", 2) || memmem(text, length, ":+", 2);
}

/* An exact-sized copy, so that a sanitizer sees a read beyond the line. */
static int parse_exactly(const char *text, size_t length, bool pack, char why[512])
{
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    memcpy(copy, text, length);
    struct attn_case_list list = {0};
    struct attn_case c;
    int result;
    if (pack) {
        copy[length] = '\0';
        result = attn_case_parse_pack_line(copy, "p.safetensors", &c, why, 512);
        if (result == 0)
            attn_case_free(&c);
    } else {
        char *exact = realloc(copy, length ? length : 1);
        assert_non_null(exact);
        copy = exact;
        result = attn_case_parse_line(copy, length, "x.cases", 1, &list, why, 512);
        for (size_t i = 0; result == 0 && i < list.count; i++) {
            char canonical[TEST_LINE_MAX];
            assert_true(attn_case_canonical(&list.items[i], canonical, sizeof canonical) > 0);
        }
        assert_true(result == 0 || list.count == 0);
        attn_case_list_free(&list);
    }
    free(copy);
    return result;
}

static void test_mutated(void **state)
{
    (void)state;
    uint64_t seed = 4242;
    int accepted = 0, refused = 0;
    for (int i = 0; i < MUTATED; i++) {
        char text[TEST_LINE_MAX + 256], why[512] = "";
        attn_case_generate(&seed, true, text, TEST_LINE_MAX);
        size_t length = strlen(text);
        for (unsigned edits = 1 + attn_draw_below(&seed, EDITS_MAX); edits > 0; edits--)
            length = mutate(&seed, text, length);
        if (has_range(text, length))
            continue;
        int result = parse_exactly(text, length, attn_draw_below(&seed, 8) == 0, why);
        assert_true(result == 0 || (result == -1 && why[0] != '\0'));
        ++*(result == 0 ? &accepted : &refused);
        for (const char *at = why; *at; at++)
            assert_true(*at >= ' ' && *at <= '~');
    }
    assert_true(accepted > MUTATED / 50); /* the edits are not all fatal */
    assert_true(refused > MUTATED / 4);
}

/* Bytes without any sense. */
static void test_noise(void **state)
{
    (void)state;
    uint64_t seed = 77;
    for (int i = 0; i < MUTATED / 4; i++) {
        char text[128], why[512] = "";
        size_t length = attn_draw_below(&seed, sizeof text);
        for (size_t at = 0; at < length; at++)
            text[at] = any_byte(&seed);
        int result = has_range(text, length) ? 0 : parse_exactly(text, length, false, why);
        assert_true(result == 0 || why[0] != '\0');
    }
}

/* Damaged ranges, on lines whose last word is wrong whatever becomes of the ranges: values are
 * made, cases are not. */
static void test_ranges(void **state)
{
    (void)state;
    uint64_t seed = 99;
    for (int i = 0; i < MUTATED / 20; i++) {
        char text[256] = "s=8:64:*2,100 d=4:19:+3 hq/hkv=8/2,4/4 b=1:3:+1", why[512] = "";
        size_t length = strlen(text);
        for (unsigned edits = 1 + attn_draw_below(&seed, EDITS_MAX); edits > 0; edits--)
            length = mutate(&seed, text, length);
        memcpy(text + length, " _", 2);
        length += 2;
        bool comment = memmem(text, length, " #", 2) || memmem(text, length, "\t#", 2);
        int result = parse_exactly(text, length, false, why);
        assert_true(result == -1 || comment || text[0] == '#');
        assert_true(result == 0 || why[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutated),
                                       cmocka_unit_test(test_ranges), cmocka_unit_test(test_noise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
