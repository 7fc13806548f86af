/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_heatmap.c - heat-maps from made-up kept weights: values, labels, and files that are
 * not to be trusted.
 *
 * test_report_heatmap SCRIPT_DIR */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"
#include "pack/safetensors.h"
#include "report/text.h"
#include "results/kept.h"
#include "synthetic.h"

static const char *script_dir;

enum { B = 2, H = 2, S = 5 };
static double weights[B][H][S][S];
static char id[32];

/* Causal and uniform; the second sequence has 3 tokens, the first 5. */
static void reset_weights(void)
{
    memset(weights, 0, sizeof weights);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int i = 0; i < S; i++)
                for (int j = 0; j <= i && j < (b ? 3 : S); j++)
                    weights[b][h][i][j] = 1.0 / (i + 1);
}

static void keep(const char *backend, const char *tokens)
{
    char name[ATTN_KEPT_NAME_MAX], path[256], why[512], kind[] = "weights", key[] = "tokens",
                                                        from[] = "source";
    char place[] = "a <b>book</b>";
    struct attn_st_entry entry = {.name = kind,
                                  .dtype = ATTN_F64,
                                  .rank = 4,
                                  .shape = {B, H, S, S},
                                  .data = weights,
                                  .bytes = sizeof weights};
    struct attn_st_meta meta[] = {{from, place}, {key, (char *)(uintptr_t)tokens}};
    assert_int_equal(attn_kept_name(id, backend, "", name), 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (attn_st_write(path, &entry, 1, meta, tokens ? 2 : 1, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* A run whose first case is a pack with kept weights on every backend. */
static struct attn_run_data made_run(void)
{
    struct attn_run_data run = synthetic_small();
    char path[128];
    size_t i;
    json_t *record;
    snprintf(id, sizeof id, "%s", attn_field_text(json_array_get(run.records, 0), "id"));
    json_array_foreach(run.records, i, record)
    {
        if (strcmp(attn_field_text(record, "id"), id) != 0)
            continue;
        json_object_set_new(record, "case", json_string("data=toy.safetensors out=weights"));
        json_object_set_new(record, "name", json_string("toy"));
        json_object_set_new(record, "weights_file", json_string("../../anything"));
    }
    snprintf(path, sizeof path, "%s/" ATTN_KEPT_FOLDER, folder);
    assert_int_equal(mkdir(path, 0755), 0);
    snprintf(run.path, sizeof run.path, "%s", folder);
    reset_weights();
    return run;
}

static bool report(const struct attn_run_data *run)
{
    char note[512];
    assert_int_equal(folder_report(run, script_dir, note, sizeof note), 0);
    return strncmp(note, "no pictures", 11) != 0;
}

static void has_line(const char *file, const char *line)
{
    char *text = folder_text(file);
    if (!strstr(text, line))
        fail_msg("%s lacks '%s':\n%s", file, line, text);
    free(text);
}

static void values(void **state)
{
    (void)state;
    struct attn_run_data run = made_run();
    keep("reference", NULL);
    weights[0][1][4][2] += 3e-7;
    weights[1][0][0][0] += 5e-6; /* not among what is drawn */
    keep("naive", NULL);
    reset_weights();
    weights[0][0][3][1] = NAN;
    weights[0][0][1][4] = 1e-3; /* a leak into a cell that is not allowed */
    keep("avx2", NULL);
    reset_weights();
    keep("blas", NULL);
    keep("onednn", NULL);
    bool drawn = report(&run);
    char *text = folder_text("plots/heatmap_toy.dat"), *block[6];
    block[0] = text;
    for (int g = 1; g < 6; g++) {
        block[g] = strstr(block[g - 1] + 3, "\n\n\n");
        assert_non_null(block[g]);
    }
    assert_non_null(strstr(block[0], "\n0 4 2 0.2 0\n"));
    assert_non_null(strstr(block[0], "\n1 0 1 NaN 0\n"));
    assert_null(strstr(block[0] + 60, "# "));
    char *end = block[2];
    *block[1] = *end = *block[3] = '\0';
    assert_non_null(strstr(block[1] + 1, "\n1 4 2 3e-07 0\n"));
    assert_non_null(strstr(block[1] + 1, "\n0 4 2 0 0\n"));
    assert_non_null(strstr(block[1] + 1, "\n0 1 4 NaN 0\n"));
    assert_non_null(strstr(block[2] + 1, "\n0 3 1 1e+300 1\n"));
    assert_non_null(strstr(block[2] + 1, "\n0 1 4 0.001 0\n"));
    assert_null(strstr(block[0], "\n2 "));
    free(text);
    static const char definitions[] = "plots/heatmap_toy.def.gp";
    has_line(definitions, "\nn_heads = 2\nn_queries = 5\nn_keys = 5\n");
    has_line(definitions, "\nkeys[5] = '4'\n");
    has_line(definitions, "\nhatched = 1\ntop = 1\nlow = -9\nhigh = -3\nn_grids = 5\n");
    has_line(definitions, "'largest 3e-07 (head 1, query 4, key 2), 5e-06 in all'");
    has_line(definitions, "'largest 0.001 (head 0, query 1, key 4); 1 weights are not finite");
    has_line(definitions, "\nwrong[3] = 1\n");
    has_line(definitions, "\nwrong[2] = 0\n");
    if (drawn) {
        char *svg = folder_text("plots/heatmap_toy_4.svg"), *page = folder_text("index.html");
        assert_non_null(strstr(svg, "image-rendering:pixelated"));
        assert_true(folder_count(svg, "<image") >= 2);
        assert_true(folder_count(svg, ">head ") == 2);
        assert_int_equal(folder_count(page, "alt=\"Heat-map of attention weights by head"), 1);
        assert_int_equal(folder_count(page, "alt=\"Heat-map of |"), 4);
        assert_int_equal(folder_count(page, "<b>book"), 0);
        has_line("report.md", "[avx2](plots/heatmap_toy_2.png) 0.001, [");
        free(svg);
        free(page);
    }
    attn_run_release(&run);
}

/* Padding is cut off, and the longest sequence that fits is taken. */
static void padding(void **state)
{
    (void)state;
    struct attn_run_data run = made_run();
    memset(weights[0], 0, sizeof weights[0]);
    weights[0][0][0][0] = 1;
    keep("reference", "[[\"a\",\"b\",\"c\",\"d\",\"e\"],[\"f\",\"g\",\"h\",\"[PAD]\",\"[PAD]\"]]");
    report(&run);
    has_line("plots/heatmap_toy.def.gp", "\nn_queries = 3\nn_keys = 3\n");
    has_line("plots/heatmap_toy.def.gp", "\nkeys[3] = 'h'\n");
    has_line("plots/heatmap_toy.def.gp", "sequence 2 of 2");
    attn_run_release(&run);
}

/* A token is text and nothing else, in gnuplot as on the page. */
static void tokens(void **state)
{
    (void)state;
    static const char strange[] =
        "[[\"'; print 1/0 '\",\"`touch x`\",\"@{a}_^\\\\n%s\",\"</text>&\\\"\",\"##ing\"],"
        "[\"'\",\"''\",\"\\u202ea\\u0007\\ufffe\",\"\","
        "\"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97"
        "\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac"
        "\xe8\xaa\x9e\xe6\x97\xa5\"]]";
    struct attn_run_data run = made_run();
    char path[128];
    keep("reference", strange);
    weights[0][0][0][0] += 1e-6;
    keep("naive", strange);
    static const char *const labels[2][5] = {
        {"'\xe2\x80\x99; print 1/\xe2\x80\xa6'", "'`touch x`'", "'@{a}_^\\n%s'", "'</text>&\"'",
         "'##ing'"},
        {"'\xe2\x80\x99'", "'\xe2\x80\x99\xe2\x80\x99'",
         "'\xef\xbf\xbd"
         "a\xef\xbf\xbd\xef\xbf\xbd'",
         "''",
         "'\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6"
         "\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6\x9c\xac\xe2\x80\xa6'"}};
    for (int b = 0; b < 2; b++) {
        bool drawn = report(&run);
        for (int t = 0; t < 5; t++) {
            char line[128];
            snprintf(line, sizeof line, "\nqueries[%d] = %s\n", t + 1, labels[b][t]);
            has_line("plots/heatmap_toy.def.gp", line);
        }
        if (drawn) {
            char *svg = folder_text("plots/heatmap_toy_1.svg"), *page = folder_text("index.html");
            /* Beside each of two heads, and under the lower one. */
            assert_int_equal(folder_count(svg, ">&lt;/text>&amp;\"</text>"), b == 0 ? 3 : 0);
            assert_int_equal(folder_count(page, "; print 1/\xe2\x80\xa6,"), b == 0 ? 2 : 0);
            assert_int_equal(folder_count(page, "</text>"), 0);
            free(page);
            free(svg);
        }
        snprintf(path, sizeof path, "%s/report/plots/x", folder);
        assert_int_not_equal(access(path, F_OK), 0);
        /* The other sequence is the longer one now. */
        memset(weights[0], 0, sizeof weights[0]);
        for (int h = 0; h < H; h++)
            weights[1][h][4][4] = 1;
        keep("reference", strange);
        keep("naive", strange);
    }
    attn_run_release(&run);
}

static void damaged(const char *backend, const char *bytes, size_t length)
{
    char path[256], name[ATTN_KEPT_NAME_MAX], why[256];
    assert_int_equal(attn_kept_name(id, backend, "", name), 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
    if (attn_file_write(path, bytes, length, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* What cannot be used is named, without the folder it lies in, and passed over. */
static void files_that_are_no_weights(void **state)
{
    (void)state;
    struct attn_run_data run = made_run();
    static const char short_header[] = "\x02\0\0\0\0\0\0\0{}",
                      lies[] = "\xff\xff\xff\xff\0\0\0\0{}";
    keep("reference", NULL);
    keep("naive", NULL);
    damaged("avx2", short_header, sizeof short_header - 1);
    damaged("blas", lies, sizeof lies - 1);
    report(&run);
    char *page = folder_text("index.html"), *text = folder_text("report.md");
    assert_non_null(strstr(page, "-avx2.safetensors: has no weights with four axes"));
    assert_non_null(strstr(page, "-blas.safetensors: says that its header has"));
    assert_non_null(strstr(page, "-onednn.safetensors: cannot be opened"));
    assert_null(strstr(page, folder));
    assert_null(strstr(text, folder));
    free(text);
    free(page);
    has_line("plots/heatmap_toy.def.gp", "\nn_grids = 2\n");
    /* Tokens that do not fit, then no reference at all: no picture, and a report all the same. */
    keep("reference", "[[\"a\"],[\"b\"]]");
    report(&run);
    has_line("index.html", "-reference.safetensors: its tokens do not fit its weights");
    damaged("reference", "", 0);
    report(&run);
    has_line("index.html", "-reference.safetensors: is too short");
    text = folder_text("report.md");
    assert_null(strstr(text, "heatmap"));
    assert_null(strstr(text, "| pack |"));
    free(text);
    attn_run_release(&run);
}

static void nothing_kept(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_small();
    report(&run);
    char *page = folder_text("index.html");
    assert_null(strstr(page, "Attention weights"));
    assert_null(strstr(page, "{{"));
    free(page);
    attn_run_release(&run);
}

/* The colours: lightness rises evenly, so that they survive grey print. */
static double lightness(const char *hex)
{
    double y = 0;
    static const double share[3] = {0.2126, 0.7152, 0.0722};
    for (int c = 0; c < 3; c++) {
        char two[3] = {hex[2 * c], hex[2 * c + 1], '\0'};
        double v = (double)strtol(two, NULL, 16) / 255;
        y += share[c] * (v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4));
    }
    return y > 0.008856 ? 116 * cbrt(y) - 16 : 903.3 * y;
}

static void colours(void **state)
{
    (void)state;
    char path[512], why[256];
    static const char *const maps[] = {"\nviridis = '", "\nmagma = '"};
    size_t length;
    snprintf(path, sizeof path, "%s/heatmap.gp", script_dir);
    char *text = attn_file_read(path, &length, why, sizeof why);
    assert_non_null(text);
    for (size_t m = 0; m < 2; m++) {
        const char *at = strstr(text, maps[m]);
        assert_non_null(at);
        at += strlen(maps[m]);
        double before = 0;
        for (int k = 0; k < 9; k++, at += 8) {
            assert_true(*at == '#');
            double now = lightness(at + 1);
            if (k > 0)
                assert_true(now - before > 7 && now - before < 16);
            before = now;
        }
        assert_true(at[-1] == '\'');
    }
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(padding, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(tokens, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(files_that_are_no_weights, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(nothing_kept, folder_setup, folder_teardown),
        cmocka_unit_test(colours),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
