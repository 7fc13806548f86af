/* SPDX-License-Identifier: Apache-2.0 */
/* test_matrix_grid.c - the grid of the support matrix is complete: every line is a problem, no
 * feature of the case language is missing, and lines have rows without keys if they say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pack/make.h"
#include "run/matrix.h"

static struct attn_instance *instance_of(const struct attn_feature *f)
{
    struct attn_case_list list = {0};
    struct attn_instance *instance = NULL;
    char why[512];
    if (attn_case_parse_line(f->line, strlen(f->line), NULL, 0, &list, why, sizeof why) != 0 ||
        attn_instance_create(&list.items[0], 1, &instance, why, sizeof why) != 0)
        fail_msg("%s: %s", f->name, why);
    assert_int_equal(list.count, 1);
    attn_case_list_free(&list);
    return instance;
}

static bool has_empty_row(const struct attn_problem *p)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            int64_t keys = 0;
            for (int64_t j = 0; j < p->sk; j++)
                keys += ref_allowed(p, b, 0, i, j);
            if (keys == 0)
                return true;
        }
    return false;
}

static void every_line_is_one_problem(void **state)
{
    (void)state;
    size_t with_empty_rows = 0;
    for (const struct attn_feature *f = attn_features; f->name; f++) {
        for (const struct attn_feature *g = attn_features; g < f; g++)
            if (strcmp(f->group, g->group) == 0 &&
                (strcmp(f->name, g->name) == 0 || (strcmp(f->line, g->line) == 0 && !f->flags)))
                fail_msg("%s stands twice in %s", f->name, f->group);
        struct attn_instance *instance = instance_of(f);
        if (f->has_empty_row && !has_empty_row(&instance->problem))
            fail_msg("%s has no empty row", f->name);
        with_empty_rows += f->has_empty_row;
        attn_instance_free(instance);
    }
    assert_true(with_empty_rows > 0);
}

/* A key that comes new to the language has to come to the grid, unless it changes values alone. */
static void every_key_is_met(void **state)
{
    (void)state;
    static const char values_alone[] = " data fill seed sha256 weights dtype ";
    for (const struct attn_case_key *key = attn_case_keys(); key->name; key++) {
        char word[64], line[512];
        snprintf(word, sizeof word, " %s ", key->name);
        bool met = strstr(values_alone, word) != NULL;
        snprintf(word, sizeof word, " %s=", key->name);
        for (const struct attn_feature *f = attn_features; f->name && !met; f++) {
            snprintf(line, sizeof line, " %s", f->line);
            met = strstr(line, word) != NULL;
        }
        if (!met)
            fail_msg("no line of the grid has %s=", key->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_is_one_problem),
        cmocka_unit_test(every_key_is_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
