/* SPDX-License-Identifier: Apache-2.0 */
/* case_test.h - what the tests of the case language share. */
#ifndef ATTN_CASE_TEST_H
#define ATTN_CASE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "case/case.h"

#define TEST_LINE_MAX (4 * ATTN_CASE_LINE_MAX)

/* Parses as if from line 12 of smoke.cases; the list must be freed. */
static inline int try_line(const char *text, struct attn_case_list *list, char why[512])
{
    why[0] = '\0';
    return attn_case_parse_line(text, strlen(text), "smoke.cases", 12, list, why, 512);
}

static inline struct attn_case_list parse(const char *text)
{
    struct attn_case_list list = {0};
    char why[512];
    if (try_line(text, &list, why) != 0)
        fail_msg("refused: %s: %s", text, why);
    return list;
}

/* Exactly one case, to be freed with attn_case_free. */
static inline struct attn_case parse_one(const char *text)
{
    struct attn_case_list list = parse(text);
    struct attn_case c;
    assert_int_equal(list.count, 1);
    assert_int_equal(attn_case_copy(&c, &list.items[0]), 0);
    attn_case_list_free(&list);
    return c;
}

static inline void expect_error(const char *text, const char *message)
{
    struct attn_case_list list = {0};
    char why[512];
    if (try_line(text, &list, why) == 0)
        fail_msg("accepted: %s", text);
    assert_int_equal(list.count, 0);
    assert_string_equal(why, message);
    attn_case_list_free(&list);
}

/* The same problem: every field but the name and the place it was written. */
static inline bool same_case(const struct attn_case *a, const struct attn_case *b)
{
    struct attn_case x = *a, y = *b;
    if ((a->data == NULL) != (b->data == NULL) || (a->data && strcmp(a->data, b->data) != 0))
        return false;
    memset(x.name, 0, sizeof x.name);
    memset(y.name, 0, sizeof y.name);
    if (a->n_len != b->n_len || !attn_case_numbers_equal(a->len_list, b->len_list, a->n_len) ||
        a->n_prune != b->n_prune || !attn_case_numbers_equal(a->prune, b->prune, a->n_prune) ||
        a->n_dilation != b->n_dilation ||
        !attn_case_numbers_equal(a->dilation, b->dilation, a->n_dilation) ||
        !attn_case_numbers_equal(a->param, b->param, ATTN_CASE_PARAMS))
        return false;
    x.len_list = y.len_list = x.prune = y.prune = x.param = y.param = NULL;
    x.dilation = y.dilation = NULL;
    x.data = y.data = x.file = y.file = NULL;
    x.line = y.line = 0;
    return memcmp(&x, &y, sizeof x) == 0;
}

#endif
