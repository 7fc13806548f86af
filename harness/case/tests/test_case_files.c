/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_files.c - the case files of the suite: all parse, none is too large for a small
 * machine.
 */
#include <glob.h>
#include <stdlib.h>

#include "case_test.h"

static const char *folder;

/* Bounds that keep the main job within minutes on two cores: floating-point operations of one pass
 * over the suite, and bytes of one case. */
static const double flops_max = 60e9;
static const uint64_t bytes_max = UINT64_C(256) << 20;

/* Cells that a mask leaves at most: only the causal triangle and windows without steps are worth
 * telling apart here. */
static int64_t cells(const struct attn_case *c)
{
    int64_t all = c->b * c->hq * c->sq * c->sk;
    const int64_t wide = c->window_left + c->window_right + 1 + c->n_global;
    if (c->window && c->window_left >= 0 && c->window_right >= 0 && c->n_dilation == 0 &&
        c->global != ATTN_GLOBAL_RAND && wide < c->sk)
        return c->b * c->hq * (c->sq * wide + c->n_global * c->sk);
    return c->causal && c->sq == c->sk ? (all + c->b * c->hq * c->sq) / 2 : all;
}

static struct attn_case_list parse_folder(void)
{
    struct attn_case_list list = {0};
    char pattern[1024], why[512];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.cases", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (attn_case_parse_file(found.gl_pathv[i], &list, why, sizeof why) != 0)
            fail_msg("%s", why);
    assert_true(found.gl_pathc >= 11);
    globfree(&found);
    return list;
}

static void test_budget(void **state)
{
    (void)state;
    struct attn_case_list list = parse_folder();
    double flops = 0;
    for (size_t i = 0; i < list.count; i++) {
        const struct attn_case *c = &list.items[i];
        if (attn_case_bytes(c) > bytes_max)
            fail_msg("%s takes too much memory", c->name);
        if (c->data == NULL)
            flops += attn_case_flops(c, cells(c));
    }
    print_message("%zu cases, %.1f GFLOP\n", list.count, flops * 1e-9);
    assert_true(flops <= flops_max);
    attn_case_list_free(&list);
}

/* Skip lists and filters name cases by globs over names: each case needs one of its own, and none
 * that holds the ':' which ends a glob there. Results are kept by id: no case may be there twice.
 */
static void test_names(void **state)
{
    (void)state;
    struct attn_case_list list = parse_folder();
    for (size_t i = 0; i < list.count; i++) {
        char id[ATTN_CASE_ID_LEN + 1], other[ATTN_CASE_ID_LEN + 1];
        assert_true(list.items[i].name[0] != '\0');
        assert_null(strchr(list.items[i].name, ':'));
        attn_case_id(&list.items[i], id);
        for (size_t j = 0; j < i; j++) {
            attn_case_id(&list.items[j], other);
            if (strcmp(id, other) == 0)
                fail_msg("%s is %s", list.items[i].name, list.items[j].name);
            assert_string_not_equal(list.items[i].name, list.items[j].name);
        }
    }
    attn_case_list_free(&list);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_budget), cmocka_unit_test(test_names)};
    if (count != 2)
        return 2;
    folder = arguments[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
