/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_passes.c - the backward pass beside the forward pass.
 *
 * test_report_passes SCRIPT_DIR */
#include "report/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "report/text.h"
#include "report/writers.h"
#include "synthetic.h"

static const char *script_dir;
static struct attn_run_data run;
static struct attn_view view;
static struct attn_passes passes;

static const double factor = 2;
/* Sizes of the synthetic run at which a backend has right numbers, without and with the mask. */
enum { NAIVE = 6 + 6, AVX2 = 8 + 8, BLAS = 8 + 8, ONEDNN = 8 + 2 };

static void look_again(void)
{
    char why[256];
    attn_passes_free(&passes);
    attn_view_free(&view);
    if (attn_view_create(run.records, run.machine, &view, why, sizeof why) != 0 ||
        attn_passes_create(&view, &passes) != 0)
        fail_msg("%s", why);
}

static int begin(void **state)
{
    if (folder_setup(state) != 0)
        return -1;
    run = synthetic_run((struct synthetic){.seed = 3});
    synthetic_backward(&run, factor);
    look_again();
    return 0;
}

static int end(void **state)
{
    attn_passes_free(&passes);
    attn_view_free(&view);
    attn_run_release(&run);
    return folder_teardown(state);
}

/* Sets a field of avx2's records of a type, hot alone, and of one id or, for NULL, of all. */
static void change(const char *type, const char *id, const char *key, json_t *value)
{
    size_t i, changed = 0;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "type"), type) != 0 ||
            strcmp(attn_field_text(record, "backend"), "avx2") != 0 ||
            strcmp(attn_field_text(record, "cache"), "cold") == 0 ||
            (id && strcmp(attn_field_text(record, "id"), id) != 0))
            continue;
        json_object_set(record, key, value);
        changed++;
    }
    json_decref(value);
    assert_true(changed > 0);
    look_again();
}

static size_t pairs_of(const char *backend)
{
    size_t n = 0;
    for (size_t i = 0; i < passes.count; i++)
        n += strcmp(view.backends[passes.pairs[i].backward->backend].label, backend) == 0;
    return n;
}

static void a_backward_pass_stands_beside_its_forward_pass(void **state)
{
    (void)state;
    assert_int_equal(passes.count, NAIVE + AVX2 + BLAS + ONEDNN);
    for (size_t i = 0; i < passes.count; i++) {
        const struct attn_pass_pair *pair = &passes.pairs[i];
        assert_int_equal(pair->backward->id[0], 'B');
        assert_string_equal(pair->backward->id + 1, pair->forward->id);
        assert_int_equal(pair->backward->backend, pair->forward->backend);
        assert_true(fabs(pair->ratio.ratio / factor - 1) < 1e-9);
        assert_true(pair->ratio.lo < factor && factor < pair->ratio.hi);
        assert_false(attn_row_cold(pair->forward) || attn_row_cold(pair->backward));
        assert_ptr_equal(attn_passes_find(&passes, pair->backward), pair);
        assert_null(attn_passes_find(&passes, pair->forward));
    }
}

/* Another problem, other threads, wrong numbers or further outputs. */
static void unlike_cases_are_no_pair(void **state)
{
    (void)state;
    static const char id[] = "0064000800051200";
    assert_int_equal(pairs_of("avx2"), AVX2);
    change("bench", id, "case", json_string("dk=64 hq=8 out=weights sq=512"));
    change("verify", id, "case", json_string("dk=64 hq=8 out=weights sq=512"));
    assert_int_equal(pairs_of("avx2"), AVX2 - 1);
    change("verify", id, "case", json_string("dk=64 hq=8 seed=2 sq=512"));
    assert_int_equal(pairs_of("avx2"), AVX2 - 1);
    change("verify", id, "case", json_string("dk=64 hq=8 sq=512"));
    assert_int_equal(pairs_of("avx2"), AVX2);
    change("verify", id, "status", json_string("fail"));
    assert_int_equal(pairs_of("avx2"), AVX2 - 1);
    change("verify", id, "status", json_string("pass"));
    /* Gradients by the bias are outputs of the backward pass alone. */
    change("verify", "B0064000800051200", "case",
           json_string("dk=64 hq=8 op=attention_backward out=dbias sq=512"));
    assert_int_equal(pairs_of("avx2"), AVX2);
    change("verify", NULL, "threads", json_integer(1));
    change("bench", NULL, "threads", json_integer(1));
    assert_int_equal(pairs_of("avx2"), AVX2);
    change("verify", id, "threads", json_integer(2));
    change("bench", id, "threads", json_integer(2));
    assert_int_equal(pairs_of("avx2"), AVX2 - 1);
}

/* Both were timed in turns with an anchor, but each with the anchor's time of its own case. */
static void turns_of_two_cases_give_no_ratio(void **state)
{
    (void)state;
    change("bench", NULL, "live",
           json_pack("{s:{s:s, s:s, s:f}, s:[{s:i, s:f}]}", "paired", "anchor", "blas",
                     "anchor_options", "", "ratio", 1.0, "in_rounds", "round", 1, "ratio", 1.0));
    assert_int_equal(pairs_of("avx2"), AVX2);
    for (size_t i = 0; i < passes.count; i++)
        assert_true(fabs(passes.pairs[i].ratio.ratio / factor - 1) < 1e-9);
}

static void documents_have_a_section(void **state)
{
    (void)state;
    char note[512];
    change("verify", "B0064000800051200", "numerics",
           json_pack("{s:s, s:i}", "acc_type", "f32", "bwd_lse", 1));
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    char *text = folder_text("report.md"), *at = strstr(text, "\n## Forward and backward\n");
    assert_non_null(at);
    assert_non_null(strstr(at, "2 (3 dk + 2 dv)"));
    assert_non_null(strstr(at, "| naive | 12 | 2.00 | 1.9"));
    assert_non_null(strstr(at, "| dk=64 hq=8 sq=512 | avx2, forward included | "));
    assert_non_null(strstr(at, "| dk=64 hq=8 mask=causal sq=512 | avx2 | "));
    free(text);
    text = folder_text("index.html");
    at = strstr(text, "<h2 id=\"forward-and-backward\">");
    assert_non_null(at);
    assert_non_null(strstr(at, "<summary>By case: 54</summary>"));
    free(text);
    /* What the pictures are drawn from. */
    text = folder_text("plots/passes.dat");
    assert_int_equal(folder_count(text, "\n1 "), 6); /* naive, no mask */
    assert_int_equal(folder_count(text, "\n8 "), 2); /* onednn, causal */
    free(text);
    text = folder_text("plots/passes.def.gp");
    assert_non_null(strstr(text, "\nn_panels = 8\n"));
    assert_non_null(strstr(text, "panel_title[8] = 'onednn'"));
    assert_non_null(strstr(text, "panel_text[8] = 'b=1, h=8, d=64, f32, causal mask, 2 threads'"));
    assert_non_null(strstr(text, "panel_time[8] = 'backward takes 2.00 times as long'"));
    free(text);
    text = folder_text("plots/throughput_S_full_backward.dat");
    at = strstr(text, "\n1 1 128 "); /* naive: 2.1 GFLOP/s forward */
    assert_non_null(at);
    assert_true(fabs(strtod(at + strlen("\n1 1 128 "), NULL) / (2.1 * 2.5 / factor) - 1) < 0.1);
    free(text);
    free(folder_text("plots/memory_S_causal_backward.dat"));
    if (strncmp(note, "no pictures", 11) != 0) {
        assert_string_equal(note, "");
        text = folder_text("plots/passes.svg");
        assert_int_equal(folder_count(text, ">naive<"), 2);
        assert_true(folder_count(text, ">backward<") >= 1);
        free(text);
    }
}

static void a_run_of_one_pass_has_no_section(void **state)
{
    (void)state;
    char *text = NULL, note[512];
    size_t length = 0;
    attn_run_release(&run);
    run = synthetic_run((struct synthetic){.seed = 1});
    look_again();
    assert_int_equal(passes.count, 0);
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(attn_markdown_put_passes(out, &view), 0);
    assert_int_equal(attn_html_put_passes(out, &view), 0);
    fclose(out);
    assert_int_equal(length, 0);
    free(text);
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    text = folder_text("report.md");
    assert_null(strstr(text, "plots/passes"));
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_backward_pass_stands_beside_its_forward_pass, begin, end),
        cmocka_unit_test_setup_teardown(unlike_cases_are_no_pair, begin, end),
        cmocka_unit_test_setup_teardown(turns_of_two_cases_give_no_ratio, begin, end),
        cmocka_unit_test_setup_teardown(documents_have_a_section, begin, end),
        cmocka_unit_test_setup_teardown(a_run_of_one_pass_has_no_section, begin, end),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
