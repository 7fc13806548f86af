/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_expand.c - lists, ranges, linked axes, names, files. */
#include <stdlib.h>
#include <unistd.h>

#include "case_test.h"

static void expect_names(const char *line, const char *const names[], size_t count)
{
    struct attn_case_list list = parse(line);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(list.items[i].name, names[i]);
    attn_case_list_free(&list);
}

static void test_lists(void **state)
{
    (void)state;
    struct attn_case_list list = parse("x: s=4,6 d=8 mask=causal,len:rand");
    assert_int_equal(list.count, 4);
    assert_int_equal(list.items[0].sq, 4);
    assert_int_equal(list.items[0].sk, 4);
    assert_true(list.items[0].causal);
    assert_int_equal(list.items[1].sq, 4);
    assert_int_equal(list.items[1].len, ATTN_LEN_RAND);
    assert_false(list.items[1].causal);
    assert_int_equal(list.items[3].sk, 6);
    attn_case_list_free(&list);
    static const char *const names[] = {"x/s=4,mask=causal", "x/s=4,mask=len:rand",
                                        "x/s=6,mask=causal", "x/s=6,mask=len:rand"};
    expect_names("x: s=4,6 d=8 mask=causal,len:rand", names, 4);
    static const char *const plain[] = {"y"};
    expect_names("y: s=4 d=8", plain, 1);
    static const char *const none[] = {"", ""};
    expect_names("s=4,5 d=8", none, 2);
}

static void test_ranges(void **state)
{
    (void)state;
    static const char *const doubled[] = {"r/s=16", "r/s=32", "r/s=64", "r/s=100"};
    expect_names("r: s=16:64:*2,100 d=8", doubled, 4);
    static const char *const stepped[] = {"r/sk=0", "r/sk=3", "r/sk=6"};
    expect_names("r: sq=1 sk=0:8:+3 d=8", stepped, 3);
    static const char *const single[] = {"r"};
    expect_names("r: s=5:5:*2 d=8", single, 1);
    struct attn_case_list list = parse("sq=1073741824:2147483647:*2 sk=1 d=1");
    assert_int_equal(list.count, 1); /* the next step is beyond any size */
    attn_case_list_free(&list);
    expect_error("s=8:4:*2 d=8", "smoke.cases:12:5: the range ends at 4, before its start");
    expect_error("s=8:16:*1 d=8", "smoke.cases:12:9: '1' is outside 2..2147483647");
    expect_error("s=8:16:+0 d=8", "smoke.cases:12:9: '0' is outside 1..2147483647");
    expect_error("sq=1 sk=0:16:*2 d=8", "smoke.cases:12:9: '0' is outside 1..2147483647");
    expect_error("s=8:16 d=8",
                 "smoke.cases:12:3: '8:16' is not a range: FIRST:LAST:*K or FIRST:LAST:+K");
    expect_error("s=8:16:2 d=8",
                 "smoke.cases:12:3: '8:16:2' is not a range: FIRST:LAST:*K or FIRST:LAST:+K");
    expect_error("s=8:16:+1:3 d=8",
                 "smoke.cases:12:3: '8:16:+1:3' is not a range: FIRST:LAST:*K or FIRST:LAST:+K");
    expect_error("s=1:16:*2,4 d=8", "smoke.cases:12:11: '4' is repeated");
    expect_error("s=1:2000001:+1 d=8", "smoke.cases:12:3: the range has over 1000000 values");
}

static void test_linked(void **state)
{
    (void)state;
    static const char *const names[] = {"g/hq=32,hkv=8,dtype=f32", "g/hq=32,hkv=8,dtype=bf16",
                                        "g/hq=4,hkv=4,dtype=f32", "g/hq=4,hkv=4,dtype=bf16"};
    expect_names("g: hq/hkv=32/8,4/4 s=2 d=8 dtype=f32,bf16", names, 4);
    struct attn_case_list list = parse("dtype/s=f16/3,f64/9 d=8");
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[1].dtype, ATTN_F64);
    assert_int_equal(list.items[1].sk, 9);
    attn_case_list_free(&list);
    expect_error("hq/hkv=32 s=2 d=8",
                 "smoke.cases:12:8: '32' does not hold 2 values, one per linked key");
    expect_error("hq/hkv=32/8/2 s=2 d=8",
                 "smoke.cases:12:8: '32/8/2' does not hold 2 values, one per linked key");
    expect_error("hq/hkv=32/ s=2 d=8", "smoke.cases:12:11: an empty value in '32/'");
    expect_error("hq/hvk=32/8 s=2 d=8", "smoke.cases:12:4: unknown key 'hvk'; did you mean 'hkv'?");
    expect_error("s/mask=32/len:3/4 d=8",
                 "smoke.cases:12:3: 'mask' cannot be linked: '/' is part of its values");
    expect_error("h/hq=2/2 s=2 d=8",
                 "smoke.cases:12:3: 'h' sets hq and hkv, and 'hq' is given, too: write "
                 "'hq=... hkv=...' instead");
    expect_error("s/d=1:4:*2/8", "smoke.cases:12:5: '1:4:*2' is not a whole number");
}

static void test_values_with_slashes(void **state)
{
    (void)state;
    struct attn_case_list list = parse("b=3 s=9 d=8 mask=len:8/4/2,len:1/2");
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0].n_len, 3);
    assert_int_equal(list.items[1].n_len, 2);
    attn_case_list_free(&list);
    list = parse("op=mha h=4 s=9 d=8 prune=0/1,3");
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0].n_prune, 2);
    assert_int_equal(list.items[1].prune->at[0], 3);
    attn_case_list_free(&list);
}

/* A list of the line is stored once, whichever axes multiply it. */
static void test_shared_lists(void **state)
{
    (void)state;
    struct attn_case_list list = parse("op=mha b=2 h=4 s=8,9 prune=0/1,2 mask=len:3/4,len:5 d=8,9");
    assert_int_equal(list.count, 16);
    for (size_t i = 0; i < list.count; i++) {
        const struct attn_case *c = &list.items[i];
        assert_int_equal(c->n_prune, i & 4 ? 1 : 2);
        assert_int_equal(c->n_len, i & 2 ? 1 : 2);
        assert_ptr_equal(c->prune, list.items[i & 4].prune);
        assert_ptr_equal(c->len_list, list.items[i & 2].len_list);
    }
    assert_ptr_not_equal(list.items[0].prune, list.items[4].prune);
    assert_ptr_not_equal(list.items[0].len_list, list.items[2].len_list);
    struct attn_case last = list.items[--list.count]; /* outlives the list */
    attn_case_list_free(&list);
    assert_int_equal(last.prune->at[0], 2);
    assert_int_equal(last.len_list->at[0], 5);
    attn_case_free(&last);
}

static void test_count_limit(void **state)
{
    (void)state;
    expect_error("s=1:1000:+1 b=1:1000:+1 h=1,2 d=1", "smoke.cases:12:1: more than 1000000 cases");
}

/* A failure in the last case takes back all the cases of its line, and no others. */
static void test_roll_back(void **state)
{
    (void)state;
    struct attn_case_list list = parse("s=1,2 d=8");
    char why[512];
    assert_int_equal(try_line("hq=12 hkv=1,2,3,5 s=1 d=8", &list, why), -1);
    assert_string_equal(why, "smoke.cases:12:7: hkv = 5 does not divide hq = 12");
    assert_int_equal(list.count, 2);
    attn_case_list_free(&list);
}

static void test_long_names(void **state)
{
    (void)state;
    struct attn_case_list list =
        parse("a_rather_long_name_for_a_case_of_this_suite: s=1:12:+1 d=8 mask=causal+window:3:4,"
              "len:rand,causal_br layout=bshd,bhds");
    assert_int_equal(list.count, 72);
    for (size_t i = 0; i < list.count; i++) {
        assert_true(strlen(list.items[i].name) < ATTN_CASE_NAME_MAX);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(list.items[i].name, list.items[j].name);
    }
    attn_case_list_free(&list);
    char line[128];
    memset(line, 'n', 64);
    snprintf(line + 64, sizeof line - 64, ": s=4 d=8");
    expect_error(line, "smoke.cases:12:1: the name is over 63 characters");
}

/* ---- files ---- */

struct file {
    char path[64];
};

static struct file write_file(const char *text, size_t length)
{
    struct file file = {"/tmp/attn_case_XXXXXX"};
    int descriptor = mkstemp(file.path);
    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, text, length), length);
    close(descriptor);
    return file;
}

/* Parses a file; its message must be "FILE" and then `message`, NULL: none. */
static void expect_file(const char *text, size_t length, size_t count, const char *message)
{
    struct file file = write_file(text, length);
    struct attn_case_list list = parse("s=1 d=1");
    char why[512] = "", expected[512];
    int result = attn_case_parse_file(file.path, &list, why, sizeof why);
    unlink(file.path);
    snprintf(expected, sizeof expected, "%s%s", message ? file.path : "", message ? message : "");
    assert_string_equal(why, expected);
    assert_int_equal(result, message ? -1 : 0);
    assert_int_equal(list.count, 1 + count);
    attn_case_list_free(&list);
}

static void test_file(void **state)
{
    (void)state;
    static const char good[] = "# comment\n\nx: s=4,5 d=8\n\ty: s=4 d=8 # end\ns=3 d=3";
    expect_file(good, sizeof good - 1, 4, NULL);
    expect_file("", 0, 0, NULL);
    static const char bad[] = "x: s=4 d=8\n\ny: s=4 dd=8\n";
    expect_file(bad, sizeof bad - 1, 0, ":3:8: unknown key 'dd'; did you mean 'd'?");
    static const char nul[] = "x: s=4 d=8\0\n";
    expect_file(nul, sizeof nul - 1, 0, ":1:11: byte 0x00 is not printable ASCII");
    static const char twice[] = "b: s=1 d=1\na: s=4 d=8\nc: s=2 d=2\na: s=5 d=8\n";
    expect_file(twice, sizeof twice - 1, 0, ":4:1: the name 'a' is already used in line 2");
}

static void test_file_bounds(void **state)
{
    (void)state;
    char *text = malloc(ATTN_CASE_FILE_MAX + 1);
    assert_non_null(text);
    memset(text, '\n', ATTN_CASE_FILE_MAX + 1);
    expect_file(text, ATTN_CASE_FILE_MAX, 0, NULL);
    expect_file(text, ATTN_CASE_FILE_MAX + 1, 0, ": over 1048576 bytes");
    free(text);
    struct attn_case_list list = {0};
    char why[512];
    assert_int_equal(attn_case_parse_file("/nonexistent/x.cases", &list, why, sizeof why), -1);
    assert_string_equal(why, "/nonexistent/x.cases: No such file or directory");
    assert_int_equal(attn_case_parse_file("/", &list, why, sizeof why), -1);
    assert_string_equal(why, "/: Is a directory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_linked),       cmocka_unit_test(test_values_with_slashes),
        cmocka_unit_test(test_shared_lists), cmocka_unit_test(test_count_limit),
        cmocka_unit_test(test_roll_back),    cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_file),         cmocka_unit_test(test_file_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
