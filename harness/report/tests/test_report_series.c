/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_series.c - which sweeps are found in the results. */
#include "report/series.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report/text.h"
#include "synthetic.h"

static void sweeps(void **state)
{
    (void)state;
    char why[256];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    /* A window of the same sizes belongs to no sweep of full attention. */
    json_t *stray = json_deep_copy(json_array_get(run.records, 3));
    assert_string_equal(attn_field_text(stray, "type"), "bench");
    json_object_set_new(stray, "case", json_string("dk=64 hq=8 mask=window:8:8 sq=128"));
    json_object_set_new(stray, "id", json_string("stray"));
    json_object_set_new(json_object_get(stray, "sizes"), "sq", json_integer(100));
    json_object_set_new(json_object_get(stray, "sizes"), "sk", json_integer(100));
    json_array_append_new(run.records, stray);
    struct attn_view view;
    struct attn_series s;
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);

    assert_int_equal(
        attn_series_find(&view, (struct attn_series_kind){ATTN_SWEEP_S, false, false}, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_true(s.x[0] == 128 && s.x[7] == 16384);
    assert_int_equal(s.n_backends, 4);
    assert_string_equal(view.backends[s.backends[0]].label, "naive");
    assert_string_equal(s.constants, "b=1, h=8, d=64, f32, no mask, 2 threads");
    assert_int_equal(s.cells[0][7]->status, ATTN_SKIP);
    assert_int_equal(s.cells[1][7]->status, ATTN_PASS);

    assert_int_equal(
        attn_series_find(&view, (struct attn_series_kind){ATTN_SWEEP_D, true, false}, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_string_equal(s.constants, "b=1, h=8, S=1024, f32, causal mask, 2 threads");
    assert_int_equal(s.cells[3][2]->status, ATTN_FAIL); /* onednn at d=40 */
    assert_int_equal(s.cells[2][7]->status, ATTN_CRASH);
    assert_int_equal(
        attn_series_find(&view, (struct attn_series_kind){ATTN_SWEEP_H, true, false}, &s), 0);
    assert_int_equal(s.n_points, 6);
    attn_view_free(&view);

    json_array_clear(run.records);
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(
        attn_series_find(&view, (struct attn_series_kind){ATTN_SWEEP_S, false, false}, &s), -1);
    attn_view_free(&view);
    attn_run_release(&run);
}

/* Adds a case of b=1, one head and full attention, timed on avx2. */
static void add_timed(struct attn_run_data *run, int s, int d, const char *extra, double flops)
{
    char line[96];
    snprintf(line, sizeof line, "dk=%d%s sq=%d", d, extra, s);
    json_t *record = json_deep_copy(json_array_get(run->records, 5));
    assert_string_equal(attn_field_text(record, "type"), "bench");
    assert_string_equal(attn_field_text(record, "backend"), "avx2");
    json_object_set_new(record, "case", json_string(line));
    json_object_set_new(record, "id", json_string(line));
    json_object_set_new(record, "flops", json_real(flops));
    json_t *sizes = json_object_get(record, "sizes");
    const char *const lengths[] = {"sq", "sk"}, *const widths[] = {"dq", "dk", "dv"};
    for (size_t i = 0; i < 2; i++)
        json_object_set_new(sizes, lengths[i], json_integer(s));
    for (size_t i = 0; i < 3; i++)
        json_object_set_new(sizes, widths[i], json_integer(d));
    json_array_append_new(run->records, record);
}

/* Neither many tiny sizes nor two huge ones make the sweep. */
static void the_telling_family(void **state)
{
    (void)state;
    char why[256];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    for (int s = 1; s <= 20; s++)
        add_timed(&run, s, 8, "", 32.0 * s * s);
    add_timed(&run, 50000, 16, "", 1e15);
    add_timed(&run, 60000, 16, "", 1e15);
    struct attn_view view;
    struct attn_series s;
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(
        attn_series_find(&view, (struct attn_series_kind){ATTN_SWEEP_S, false, false}, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_string_equal(s.constants, "b=1, h=8, d=64, f32, no mask, 2 threads");
    attn_view_free(&view);

    while (json_array_size(run.records) > 0 &&
           json_integer_value(json_object_get(
               json_object_get(json_array_get(run.records, 0), "sizes"), "sq")) < 50000)
        json_array_remove(run.records, 0);
    assert_int_equal(json_array_size(run.records), 2);
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    assert_int_equal(
        attn_series_find(&view, (struct attn_series_kind){ATTN_SWEEP_S, false, false}, &s), -1);
    attn_view_free(&view);
    attn_run_release(&run);
}

/* A backward pass has more work and is in no series of the forward pass, nor the other way round.
 */
static void passes_are_apart(void **state)
{
    (void)state;
    char why[256];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    synthetic_backward(&run, 2);
    struct attn_view view;
    struct attn_series s;
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    for (size_t k = 0; k < ATTN_SERIES_KINDS; k++) {
        const struct attn_series_kind kind = attn_series_kind(k);
        const int found = attn_series_find(&view, kind, &s);
        /* Of 8 heads of 64 alone, so over S alone. */
        assert_int_equal(found, kind.backward && kind.axis != ATTN_SWEEP_S ? -1 : 0);
        for (size_t b = 0; found == 0 && b < s.n_backends; b++)
            for (size_t x = 0; x < s.n_points; x++)
                assert_int_equal(s.cells[b][x] && s.cells[b][x]->id[0] == 'B', kind.backward);
    }
    const struct attn_series_kind causal = {ATTN_SWEEP_S, true, true};
    char text[96];
    assert_int_equal(attn_series_find(&view, causal, &s), 0);
    assert_int_equal(s.n_points, 8);
    assert_string_equal(s.constants,
                        "attention_backward, b=1, h=8, d=64, f32, causal mask, 2 threads");
    attn_series_name(&s, "memory", text, sizeof text);
    assert_string_equal(text, "memory_S_causal_backward");
    attn_series_title(&s, "Peak memory", text, sizeof text);
    assert_string_equal(text,
                        "Peak memory of the backward pass over sequence length S (queries = keys)");
    attn_view_free(&view);
    attn_run_release(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_are_apart),
        cmocka_unit_test(sweeps),
        cmocka_unit_test(the_telling_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
