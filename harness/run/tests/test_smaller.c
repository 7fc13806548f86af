/* SPDX-License-Identifier: Apache-2.0 */
/* test_smaller.c - smaller cases keep what matters. */
#include "run/smaller.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The one case of a line; `list` owns it. */
static const struct attn_case *parse(const char *line, struct attn_case_list *list)
{
    char why[512];
    if (attn_case_parse_line(line, strlen(line), NULL, 0, list, why, sizeof why))
        fail_msg("%s: %s", line, why);
    assert_int_equal(list->count, 1);
    return &list->items[0];
}

/* The smaller case of a line, as a line. NULL: it cannot be made smaller. */
static void expect(const char *line, double share, double cells, const char *wanted)
{
    char text[ATTN_CASE_LINE_MAX] = "none";
    struct attn_case_list list = {0};
    struct attn_case smaller;
    const struct attn_case *c = parse(line, &list);
    if (attn_smaller_case(c, share, cells, 0x1p40, &smaller) == 0) {
        attn_case_canonical(&smaller, text, sizeof text);
        attn_case_free(&smaller);
    }
    assert_string_equal(text, wanted);
    attn_case_list_free(&list);
}

static void sizes_keep_their_remainders(void **state)
{
    (void)state;
    expect("h=8 s=4097 d=64 mask=causal", 1, 0x1p20, "dk=64 hq=2 mask=causal sq=513");
    expect("b=7 hq=32 hkv=8 sq=1 sk=16390 d=128", 1, 0x1p14, "b=2 dk=128 hkv=2 hq=8 sk=518 sq=1");
    expect("sq=300 sk=5000 d=8", 1, 0x1p16, "dk=8 sk=264 sq=236");
}

/* The longer one stays the longer, whatever is asked for. */
static void order_stays(void **state)
{
    (void)state;
    for (int64_t sq = 1; sq < 1500; sq += 67)
        for (int64_t sk = 1; sk < 1500; sk += 41) {
            char line[64];
            struct attn_case_list list = {0};
            struct attn_case smaller;
            snprintf(line, sizeof line, "b=3 h=4 sq=%lld sk=%lld d=8", (long long)sq,
                     (long long)sk);
            const struct attn_case *c = parse(line, &list);
            assert_int_equal(attn_smaller_case(c, 1e-9, 1, 1, &smaller), 0);
            assert_int_equal(smaller.sq % 64, sq % 64);
            assert_int_equal(smaller.sk % 64, sk % 64);
            assert_int_equal(smaller.sq < smaller.sk, sq < sk);
            assert_int_equal(smaller.sq > smaller.sk, sq > sk);
            assert_true(smaller.sq <= sq && smaller.sk <= sk);
            assert_true(smaller.sk >= (sk < 192 ? sk : 192));
            assert_int_equal(smaller.b, 2);
            assert_int_equal(smaller.hkv, 2);
            attn_case_free(&smaller);
            attn_case_list_free(&list);
        }
}

static void features_stay(void **state)
{
    (void)state;
    expect("b=4 h=8 s=2048 d=32 mask=causal+window:1000:0+len:2048/700/33/0 bias=alibi sink=1 "
           "softcap=5 out=lse dtype=bf16 layout=bshd view=gaps scale=0.3",
           1, 0x1p18,
           "b=2 bias=alibi dk=32 dtype=bf16 hq=2 layout=bshd mask=causal+window:168:0+len:256/188 "
           "out=lse scale=0.3 sink=1 softcap=5 sq=256 view=gaps");
    expect("op=mha h=16 s=1024 d=64 residual=1 prune=1/9", 0.001, 0x1p24,
           "dk=64 e=1024 hq=2 op=mha prune=1 residual=1 sq=192");
    expect("sq=512 sk=4608 d=8 mask=causal+past:4096", 1, 0x1p18,
           "dk=8 mask=causal+past:320 sk=576 sq=256");
    expect("b=2 h=2 s=5 d=8 view=huge", 1, 0x1p24, "b=2 dk=8 hq=2 sq=5");
}

static void what_is_small_stays(void **state)
{
    (void)state;
    expect("b=2 h=2 s=100 d=8", 1e-9, 1, "none");
    expect("h=8 s=64 d=8", 1, 0x1p24, "none");
}

static void expect_tiny(const char *line, const char *wanted)
{
    char text[ATTN_CASE_LINE_MAX] = "none";
    struct attn_case_list list = {0};
    struct attn_case tiny;
    if (attn_smaller_tiny(parse(line, &list), &tiny) == 0) {
        attn_case_canonical(&tiny, text, sizeof text);
        attn_case_free(&tiny);
    }
    assert_string_equal(text, wanted);
    attn_case_list_free(&list);
}

static void tiny_ones(void **state)
{
    (void)state;
    expect_tiny("b=4 h=8 s=2050 d=32 mask=causal+window:1000:0 bias=alibi dtype=bf16",
                "bias=alibi dk=32 dtype=bf16 mask=causal+window:5:0 sq=10");
    expect_tiny("b=7 hq=32 hkv=8 sq=1 sk=16390 d=128", "dk=128 hkv=1 hq=4 sk=14 sq=1");
    expect_tiny("op=mha h=12 s=512 d=64", "dk=64 e=768 hq=1 op=mha sq=8");
    expect_tiny("s=5 d=8", "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_keep_their_remainders), cmocka_unit_test(order_stays),
        cmocka_unit_test(features_stay), cmocka_unit_test(what_is_small_stays),
        cmocka_unit_test(tiny_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
