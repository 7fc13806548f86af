/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_growth.c - the order of peak memory in the sequence length. */
#include "report/growth.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/text.h"
#include "report/writers.h"
#include "synthetic.h"

/* 16 bytes a cell of S x S in naive, 100 kB in avx2, which is below the floor, and 4 kB a token in
 * the others. */
static struct attn_run_data run_of_orders(void)
{
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 3});
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        const char *backend = attn_field_text(record, "backend");
        const double s = attn_field_number(record, "sizes.sq");
        const double peak = strcmp(backend, "naive") == 0  ? 16 * s * s
                            : strcmp(backend, "avx2") == 0 ? 100000
                                                           : 4096 * s;
        if (json_object_get(record, "peak_bytes"))
            json_object_set_new(record, "peak_bytes", json_integer((json_int_t)peak));
    }
    return run;
}

static const struct attn_growth *growth_of(const struct attn_view *view,
                                           const struct attn_growth *all, size_t n,
                                           const char *cases, const char *backend)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(all[i].cases, cases) &&
            strcmp(view->backends[all[i].longest->backend].label, backend) == 0)
            return &all[i];
    return NULL;
}

static void the_order_of_each_backend(void **state)
{
    (void)state;
    struct attn_run_data run = run_of_orders();
    struct attn_view view;
    char why[256], *text = NULL;
    size_t n, length;
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    struct attn_growth *all = attn_growth_find(&view, &n);
    assert_non_null(all);
    const struct attn_growth *naive = growth_of(&view, all, n, " hq=8", "naive"),
                             *avx2 = growth_of(&view, all, n, " hq=8", "avx2"),
                             *blas = growth_of(&view, all, n, " hq=8", "blas");
    assert_true(naive && avx2 && blas);
    assert_float_equal(naive->order, 2, 0.1);
    assert_float_equal(avx2->order, 0, 1e-9); /* below the floor */
    assert_float_equal(blas->order, 1, 0.1);
    for (size_t i = 0; i < n; i++)
        assert_true(all[i].from < attn_field_number(all[i].longest->sizes, "sq"));
    /* Sweeps over heads and d have one length. */
    assert_null(growth_of(&view, all, n, " hq=4", "naive"));
    free(all);

    FILE *out = open_memstream(&text, &length);
    assert_int_equal(attn_markdown_put_growth(out, &view), 0);
    assert_int_equal(attn_html_put_growth(out, &view), 0);
    fclose(out);
    assert_non_null(strstr(text, "\n## Growth of peak memory\n"));
    assert_non_null(strstr(text, "<h2>Growth of peak memory</h2>"));
    assert_non_null(strstr(text, "| dk=64 hq=8 | avx2 | 128 to 16384 | 97.7 KiB | S^0.00 |\n"));
    free(text);
    attn_view_free(&view);
    attn_run_release(&run);
}

/* What a wrong result needs says nothing of a right one. */
static void wrong_numbers_do_not_count(void **state)
{
    (void)state;
    struct attn_run_data run = run_of_orders();
    struct attn_view view;
    char why[256];
    size_t i, n;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "backend"), "naive") == 0 &&
            json_object_get(record, "status"))
            json_object_set_new(record, "status", json_string("fail"));
    }
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    struct attn_growth *all = attn_growth_find(&view, &n);
    assert_null(growth_of(&view, all, n, "", "naive"));
    assert_non_null(growth_of(&view, all, n, " hq=8", "avx2"));
    free(all);
    attn_view_free(&view);
    attn_run_release(&run);
}

/* Nor do two lengths, or short ones. */
static void a_sweep_is_long_and_has_three_lengths(void **state)
{
    (void)state;
    static const double ends[][2] = {{1024, INFINITY}, {0, 512}};
    struct attn_run_data run = run_of_orders();
    struct attn_view view;
    char why[256];
    for (size_t e = 0; e < 2; e++) {
        json_t *kept = json_array();
        size_t i, n, lengths = 0;
        json_t *record;
        json_array_foreach(run.records, i, record)
        {
            const double s = attn_field_number(record, "sizes.sq");
            if (s >= ends[e][0] && s <= ends[e][1])
                json_array_append(kept, record);
        }
        for (;; lengths++) {
            assert_int_equal(attn_view_create(kept, run.machine, &view, why, sizeof why), 0);
            struct attn_growth *all = attn_growth_find(&view, &n);
            const struct attn_growth *longest = growth_of(&view, all, n, "dk=64 hq=8", "naive");
            assert_int_equal(longest != NULL, e == 0 && lengths == 0);
            const double last = longest ? attn_field_number(longest->longest->sizes, "sq") : 0;
            free(all);
            attn_view_free(&view);
            if (!longest)
                break;
            /* Down to two lengths. */
            for (i = json_array_size(kept); i-- > 0;) {
                const double s = attn_field_number(json_array_get(kept, i), "sizes.sq");
                if (s > 1024 && s < last)
                    json_array_remove(kept, i);
            }
        }
        json_decref(kept);
    }
    attn_run_release(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_order_of_each_backend),
                                       cmocka_unit_test(wrong_numbers_do_not_count),
                                       cmocka_unit_test(a_sweep_is_long_and_has_three_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
