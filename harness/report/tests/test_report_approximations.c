/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_approximations.c - approximations of attention beside exact attention.
 *
 * test_report_approximations SCRIPT_DIR */
#include "report/approximations.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "report/labels.h"
#include "report/text.h"
#include "report/writers.h"
#include "synthetic.h"

static const char *script_dir;
static struct attn_run_data run;
static struct attn_view view;
static struct attn_approximations all;

/* The least median of exact attention with S queries in the run. */
static double fastest_at(int s)
{
    char id[32];
    double least = INFINITY;
    snprintf(id, sizeof id, "%04d%04d%06d%d0", 64, 8, s, 0);
    for (size_t r = 0; r < view.n_rows; r++)
        if (strcmp(view.rows[r].id, id) == 0 && attn_approximation_times(&view, &view.rows[r]))
            least = fmin(least, view.rows[r].median);
    return least;
}

/* A copy of what avx2 did with S queries, as of an operator whose time does not depend on S. It is
 * `factor` times as fast as exact attention with 1024 queries was. */
static void add_case(int s, const char *variant, const char *input, double factor)
{
    char id[32], line[256];
    const size_t n = json_array_size(run.records);
    snprintf(id, sizeof id, "%04d%04d%06d%d0", 64, 8, s, 0);
    for (size_t i = 0; i < n; i++) {
        const json_t *record = json_array_get(run.records, i);
        if (strcmp(attn_field_text(record, "id"), id) != 0 ||
            strcmp(attn_field_text(record, "backend"), "avx2") != 0 ||
            strcmp(attn_field_text(record, "cache"), "cold") == 0)
            continue;
        json_t *copy = json_deep_copy(record);
        snprintf(line, sizeof line, "dk=64%s hq=8 %s op=linformer sq=%d", input, variant, s);
        json_object_set_new(copy, "case", json_string(line));
        snprintf(line, sizeof line, "%.16s%.8s%d", variant, input, s);
        json_object_set_new(copy, "id", json_string(line));
        json_t *sizes = json_object_get(copy, "sizes");
        json_object_set_new(sizes, "op", json_string("linformer"));
        json_object_del(sizes, "score");
        json_object_set_new(json_object_get(copy, "time_ns"), "median",
                            json_real(fastest_at(1024) / factor));
        if (json_object_get(copy, "peak_bytes"))
            json_object_set_new(copy, "peak_bytes", json_integer(1000 * (json_int_t)s));
        if (strcmp(attn_field_text(copy, "type"), "verify") == 0)
            json_object_set_new(copy, "approximation",
                                json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "rel_fro", 0.25,
                                          "max_row", 0.5, "cosine_median", 0.97, "tv_mean", 0.125,
                                          "mass_kept", 1.0, "flops_ratio", 0.0625, "bytes_ratio",
                                          1.5));
        json_array_append_new(run.records, copy);
    }
}

static void look_again(void)
{
    char why[256];
    attn_approximations_free(&all);
    attn_view_free(&view);
    if (attn_view_create(run.records, run.machine, &view, why, sizeof why) != 0 ||
        attn_approximations_create(&view, &all) != 0)
        fail_msg("%s", why);
}

static int begin(void **state)
{
    if (folder_setup(state) != 0)
        return -1;
    run = synthetic_run((struct synthetic){.seed = 3});
    look_again();
    return 0;
}

static int end(void **state)
{
    attn_approximations_free(&all);
    attn_view_free(&view);
    attn_run_release(&run);
    return folder_teardown(state);
}

static void a_run_without_them_has_no_section(void **state)
{
    char *text = NULL;
    size_t length = 0;
    (void)state;
    assert_int_equal(all.n_cases, 0);
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(attn_markdown_put_approximations(out, &view), 0);
    assert_int_equal(attn_html_put_approximations(out, &view), 0);
    fclose(out);
    assert_int_equal(length, 0);
    free(text);
}

/* As long as with 1024 queries: faster at every length beyond. */
static void the_crossover_is_the_least_length_from_which_on_it_is_faster(void **state)
{
    static const int lengths[] = {512, 1024, 2048, 4096, 8192};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        add_case(lengths[i], "landmarks=64", " fill=smooth", 0.999);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        add_case(lengths[i], "landmarks=9", "", 1e-3);
    look_again();
    assert_int_equal(all.n_cases, 10);
    assert_int_equal(all.n_families, 2);
    const struct attn_approximation_family *slow = &all.families[0], *quick = &all.families[1];
    assert_string_equal(slow->cases[0].variant, "linformer landmarks=9");
    assert_string_equal(slow->cases[0].input, "normal");
    assert_true(slow->crossover == INFINITY);
    assert_string_equal(quick->cases[0].variant, "linformer landmarks=64");
    assert_string_equal(quick->cases[0].input, "smooth");
    assert_int_equal(quick->count, 5);
    assert_true(quick->crossover == 2048);
    assert_true(fabs(quick->order - 1) < 1e-9);
    for (size_t i = 0; i < quick->count; i++) {
        const struct attn_approximation *a = &quick->cases[i];
        assert_true(a->s == lengths[i]);
        assert_true(fabs(a->ratio * fastest_at(1024) / 0.999 - fastest_at(lengths[i])) <
                    1e-6 * fastest_at(lengths[i]));
    }
}

static void without_exact_attention_there_is_no_ratio(void **state)
{
    (void)state;
    add_case(2048, "landmarks=64", "", 1);
    for (size_t i = json_array_size(run.records); i-- > 0;)
        if (strcmp(attn_field_text(json_array_get(run.records, i), "sizes.op"), "attention") == 0)
            json_array_remove(run.records, i);
    look_again();
    assert_int_equal(all.n_families, 1);
    assert_null(all.cases[0].exact);
    assert_non_null(all.cases[0].row);
    assert_true(isnan(all.cases[0].ratio));
    assert_true(isnan(all.families[0].crossover));
    assert_true(isnan(all.families[0].order)); /* of one length */
}

static void both_documents_have_a_line_a_variant_and_a_line_a_case(void **state)
{
    char *text = NULL;
    size_t length = 0;
    (void)state;
    add_case(512, "landmarks=64", "", 0.999);
    add_case(2048, "landmarks=64", "", 0.999);
    add_case(4096, "landmarks=64", "", 0.999);
    look_again();
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(attn_markdown_put_approximations(out, &view), 0);
    assert_int_equal(attn_html_put_approximations(out, &view), 0);
    fclose(out);
    assert_non_null(
        strstr(text, "| linformer landmarks=64 | normal | 0.0625 | 1.5 | S^1.0 | 2048 |"));
    assert_non_null(strstr(text, "| linformer landmarks=64 | normal | 512 | avx2 |"));
    assert_non_null(strstr(text, "| 0.25 | 0.5 | 0.97 | 0.125 | 1 |"));
    assert_non_null(strstr(text, "<td class=\"case\">linformer landmarks=64</td>"));
    free(text);
}

/* Those with the longest sequences are first, and open on the page. */
static void of_many_variants_the_shorter_are_folded(void **state)
{
    char *text = NULL, words[24];
    size_t length = 0;
    (void)state;
    for (int landmarks = 10; landmarks < 32; landmarks++) {
        snprintf(words, sizeof words, "landmarks=%d", landmarks);
        add_case(landmarks == 30 ? 8192 : landmarks == 31 ? 4096 : 512, words, "", 0.999);
    }
    look_again();
    assert_int_equal(all.n_families, 22);
    assert_string_equal(all.families[0].cases->variant, "linformer landmarks=30");
    assert_string_equal(all.families[1].cases->variant, "linformer landmarks=31");
    assert_string_equal(all.families[2].cases->variant, "linformer landmarks=10");
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(attn_html_put_approximations(out, &view), 0);
    fclose(out);
    assert_non_null(strstr(text, "<details open><summary>By variant: 20</summary>"));
    const char *folded = strstr(text, "<details><summary>By variant: 2 more, shorter</summary>");
    assert_true(folded && strstr(text, "landmarks=30<") < folded);
    free(text);
}

/* A panel for each length, a point for each case, a line for exact attention where there is one. */
static void the_picture_has_every_case(void **state)
{
    char note[512];
    (void)state;
    add_case(512, "landmarks=64", "", 0.999);
    add_case(2048, "landmarks=64", "", 0.999);
    add_case(2048, "landmarks=9", "", 0.5);
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    char *data = folder_text("plots/approximations.dat");
    assert_int_equal(folder_count(data, "\n1 1 "), 1);
    assert_int_equal(folder_count(data, "\n2 1 "), 2);
    /* Parameters only where a panel has two of the operator. */
    assert_int_equal(folder_count(data, " \"linformer\"\n"), 1);
    assert_int_equal(folder_count(data, " \"linformer landmarks=64\"\n"), 1);
    free(data);
    if (!*note) {
        /* Errors of nothing lie on the lower edge, whose figures do not reach the name of the axis.
         */
        size_t i;
        json_t *record;
        json_array_foreach(run.records, i, record)
        {
            json_t *found = json_object_get(record, "approximation");
            if (found)
                json_object_set_new(found, "rel_fro", json_real(0));
        }
        assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
        char *svg = folder_text("plots/approximations.svg");
        assert_non_null(strstr(svg, ">1e-4<"));
        assert_null(strstr(svg, ">0.0001<"));
        free(svg);
    }
    char *defined = folder_text("plots/approximations.def.gp");
    assert_non_null(strstr(defined, "panel_title[2] = 'S = 2048, H = 8, d = 64, input normal'"));
    assert_non_null(strstr(defined, "panel_exact[2] = 'exact: onednn'"));
    free(defined);
    char *page = folder_text("index.html");
    assert_non_null(strstr(page, "<h2 id=\"approximations\">Approximations</h2>"));
    if (!*note)
        assert_non_null(strstr(page, "<figure class=\"approximations\">"));
    free(page);
}

/* No two names of a picture overlap, none covers a point, and the rest are counted. */
static void names_leave_points_and_each_other_alone(void **state)
{
    enum { POINTS = 60 };
    static struct attn_label labels[POINTS];
    static struct attn_box marks[POINTS];
    const double width = 300, height = 200;
    (void)state;
    for (size_t i = 0; i < POINTS; i++) {
        const double x = (double)(i * 37 % 300), y = (double)(i * 61 % 200);
        labels[i] = (struct attn_label){.x = x, .y = y, .width = 50, .height = 11};
        marks[i] = (struct attn_box){x - 4, y - 4, x + 4, y + 4};
    }
    const size_t without = attn_labels_place(labels, POINTS, marks, POINTS, width, height);
    size_t placed = 0;
    for (size_t i = 0; i < POINTS; i++) {
        const struct attn_box *a = &labels[i].box;
        if (!labels[i].placed)
            continue;
        placed++;
        assert_true(a->left >= 0 && a->low >= 0 && a->right <= width && a->high <= height);
        for (size_t k = 0; k < 2 * (size_t)POINTS; k++) {
            const struct attn_box *b = k < POINTS ? &marks[k] : &labels[k - POINTS].box;
            if (k == i + POINTS || (k >= POINTS && !labels[k - POINTS].placed))
                continue;
            assert_true(a->right <= b->left || b->right <= a->left || a->high <= b->low ||
                        b->high <= a->low);
        }
    }
    assert_true(placed > 10);
    assert_int_equal(placed + without, POINTS);
    /* Alone in a wide plot it stands beside its point. */
    labels[0].x = width / 2;
    labels[0].y = height / 2;
    assert_int_equal(attn_labels_place(labels, 1, NULL, 0, width, height), 0);
    assert_true(labels[0].box.left - labels[0].x < 10);
}

/* As a record of a pack says it: the line names the file alone. */
static void say_what_it_holds(json_t *record)
{
    const char *line = attn_field_text(record, "case"), *data = strstr(line, "data="), *end;
    char held[256], file[256];
    if (!data)
        return;
    end = strchr(data, ' ');
    snprintf(held, sizeof held, "%.*s%s", (int)(data - line), line, end + 1);
    snprintf(file, sizeof file, "%.*s sha256=00", (int)(end - data), data);
    json_object_set_new(record, "pack", json_string(held));
    json_object_set_new(record, "case", json_string(file));
}

/* The record of a pack's answers comes first: of the reference, without figures. */
static void judge_the_answers(void)
{
    size_t i = 0;
    while (!json_object_get(json_array_get(run.records, i), "approximation"))
        i++;
    json_t *record = json_deep_copy(json_array_get(run.records, i));
    json_object_set_new(record, "backend", json_string("reference"));
    json_object_del(record, "approximation");
    json_array_insert_new(run.records, 0, record);
}

/* Packs of the same q, k and v have names that agree up to the first dot. */
static void packs_of_one_input_have_its_name(void **state)
{
    (void)state;
    add_case(512, "landmarks=64", " data=a/text.linformer_512.safetensors", 0.999);
    add_case(512, "landmarks=9", " data=b/text.again_512.safetensors", 0.5);
    for (size_t i = 0; i < json_array_size(run.records); i++)
        say_what_it_holds(json_array_get(run.records, i));
    judge_the_answers();
    look_again();
    assert_int_equal(all.n_families, 2);
    assert_string_equal(all.cases[0].input, "text");
    assert_string_equal(all.cases[1].input, "text");
    assert_string_equal(all.cases[0].variant, "linformer landmarks=64");
    assert_string_equal(all.cases[1].variant, "linformer landmarks=9");
}

/* Of more panels than there is room for, those with something to compare, then the long ones. */
static void the_panels_with_most_cases_are_drawn(void **state)
{
    static const char *const inputs[] = {" fill=a", " fill=b", " fill=c",
                                         " fill=d", " fill=e", " fill=f"};
    char note[512];
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        add_case(i == 3 ? 512 : 2048, "landmarks=64", inputs[i], 0.999);
    add_case(512, "landmarks=64", " fill=z", 0.999);
    add_case(512, "landmarks=9", " fill=z", 0.5);
    assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
    char *defined = folder_text("plots/approximations.def.gp");
    assert_non_null(strstr(defined, "n_panels = 6\n"));
    assert_non_null(strstr(defined, "panel_title[6] = 'S = 512, H = 8, d = 64, input z'"));
    assert_null(strstr(defined, "input d'"));
    free(defined);
}

int main(int argc, char **argv)
{
    script_dir = argc > 1 ? argv[1] : "reports";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_run_without_them_has_no_section, begin, end),
        cmocka_unit_test_setup_teardown(
            the_crossover_is_the_least_length_from_which_on_it_is_faster, begin, end),
        cmocka_unit_test_setup_teardown(without_exact_attention_there_is_no_ratio, begin, end),
        cmocka_unit_test_setup_teardown(both_documents_have_a_line_a_variant_and_a_line_a_case,
                                        begin, end),
        cmocka_unit_test_setup_teardown(of_many_variants_the_shorter_are_folded, begin, end),
        cmocka_unit_test(names_leave_points_and_each_other_alone),
        cmocka_unit_test_setup_teardown(the_picture_has_every_case, begin, end),
        cmocka_unit_test_setup_teardown(packs_of_one_input_have_its_name, begin, end),
        cmocka_unit_test_setup_teardown(the_panels_with_most_cases_are_drawn, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
