/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_matrix.c - the support matrix laid out, and in each document.
 *
 * test_report_matrix SCRIPT_DIR */
#include "report/matrix.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "synthetic.h"

static const char *script_dir;

static void cells_and_notes(void **state)
{
    (void)state;
    static const char *const labels[] = {"naive", "avx2:tile=64", "cuda", "null"};
    static const char *const notes[] = {"only <f32> | here", "no CUDA device", "no masks",
                                        "crash: signal 11"};
    static const struct {
        const char *group, *feature, *problem, *cells[4];
    } lines[] = {
        {"scores", "dot", "dk=8 sq=4", {"all", "f32 [1]", "- [2]", "all"}},
        {"scores", "bits", "", {"all", "f32 [1]", "- [2]", "all"}},
        {"masks", "causal", "dk=8 mask=causal sq=4", {"all", "- [1,3]", "- [2]", "- [4]"}},
        {"rows without keys", "answer", "", {"zero", "nan", "-", "computes nothing"}},
    };
    struct attn_matrix matrix;
    json_t *json = synthetic_matrix();
    assert_int_equal(attn_matrix_create(json, &matrix), 0);
    assert_int_equal(matrix.n_columns, 4);
    assert_int_equal(matrix.n_lines, 4);
    for (size_t b = 0; b < 4; b++)
        assert_string_equal(matrix.labels[b], labels[b]);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(matrix.lines[i].group, lines[i].group);
        assert_string_equal(matrix.lines[i].feature, lines[i].feature);
        assert_string_equal(matrix.lines[i].problem, lines[i].problem);
        assert_int_equal(attn_matrix_starts_group(&matrix, i), i != 1);
        for (size_t b = 0; b < 4; b++)
            assert_string_equal(matrix.lines[i].cells[b], lines[i].cells[b]);
    }
    assert_int_equal(json_array_size(matrix.notes), 4);
    for (size_t n = 0; n < 4; n++)
        assert_string_equal(json_string_value(json_array_get(matrix.notes, n)), notes[n]);
    attn_matrix_free(&matrix);
    json_decref(json);
}

static void plain_text(void **state)
{
    (void)state;
    static const char expected[] =
        "          naive  avx2:tile=64  null\n"
        "scores\n"
        "  dot     all    f32 [1]       all\n"
        "  bits    all    f32 [1]       all\n"
        "masks\n"
        "  causal  all    - [1,3]       - [4]\n"
        "rows without keys\n"
        "  answer  zero   nan           computes nothing\n\n"
        "Cells: " ATTN_MATRIX_LEGEND ".\n"
        "None of them is taken by cuda [2].\n"
        "   1  only <f32> | here\n   2  no CUDA device\n   3  no masks\n   4  crash: signal 11\n";
    char *text = NULL;
    size_t length;
    json_t *json = synthetic_matrix();
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(attn_matrix_put_text(out, json, 10000), 0);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

/* On a narrow terminal no line is longer than it, and every column is there once. */
static void narrow_text(void **state)
{
    (void)state;
    char *text = NULL;
    size_t length;
    json_t *json = synthetic_matrix();
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(attn_matrix_put_text(out, json, 34), 0);
    fclose(out);
    assert_non_null(strstr(text, "          naive  avx2:tile=64\n"));
    assert_non_null(strstr(text, "          null\n"));
    assert_non_null(strstr(text, "  dot     all    f32 [1]\n"));
    assert_non_null(strstr(text, "  dot     all\n"));
    free(text);
    json_decref(json);
}

/* With the matrix both pages have its section, escaped; without it neither has. */
static void sections(void **state)
{
    (void)state;
    char note[512], *path = strdup(getenv("PATH"));
    struct attn_run_data run = synthetic_small();
    setenv("PATH", "/nonexistent", 1); /* no pictures */
    for (size_t there = 0; there < 2; there++) {
        run.matrix = there ? synthetic_matrix() : NULL;
        assert_int_equal(folder_report(&run, script_dir, note, sizeof note), 0);
        char *page = folder_text("index.html"), *text = folder_text("report.md");
        assert_int_equal(folder_count(page, "<h2 id=\"support\">Support</h2>"), there);
        assert_int_equal(folder_count(page, "<li>only &lt;f32&gt; | here</li>"), there);
        assert_int_equal(folder_count(page, "<th class=\"b\">avx2:<wbr>tile=64</th>"), there);
        assert_int_equal(folder_count(page, "<td class=\"b skip\">- [1,3]</td>"), there);
        assert_int_equal(folder_count(page, "causal<small>dk=8 mask=causal sq=4</small>"), there);
        /* Who takes nothing has no column, and its reason is said. */
        assert_int_equal(folder_count(page, " None of them is taken by cuda [2]."), there);
        assert_int_equal(folder_count(text, "\n## Support\n"), there);
        assert_int_equal(folder_count(text, "\n1. only &lt;f32\\> \\| here\n"), there);
        free(page);
        free(text);
    }
    setenv("PATH", path, 1);
    free(path);
    attn_run_release(&run);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_and_notes),
        cmocka_unit_test(plain_text),
        cmocka_unit_test(narrow_text),
        cmocka_unit_test_setup_teardown(sections, folder_setup, folder_teardown),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
