/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_overview.c - the data of the pictures that show backends beside each other, against
 * the records. Draws nothing.
 *
 * test_report_overview SCRIPT_DIR */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "folder.h"
#include "report/canvas.h"
#include "report/text.h"
#include "synthetic.h"

static const char *script_dir;

/* Writes the report of a made-up run, and releases the run. */
static void report(struct attn_run_data run)
{
    char note[512], *path = strdup(getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    int status = folder_report(&run, script_dir, note, sizeof note);
    setenv("PATH", path, 1);
    free(path);
    attn_run_release(&run);
    assert_int_equal(status, 0);
}

/* The number in the definitions that is assigned to `name` where its entry is `value`:
 * names[3] = 'avx2' gives 3. */
static size_t entry_of(const char *file, const char *name, const char *value)
{
    char want[96], *text = folder_text(file);
    size_t found = 0;
    for (size_t i = 1; i < 64 && !found; i++) {
        snprintf(want, sizeof want, "%s[%zu] = '%s'\n", name, i, value);
        found = strstr(text, want) ? i : 0;
    }
    free(text);
    if (!found)
        fail_msg("%s has no %s '%s'", file, name, value);
    return found;
}

struct cell {
    unsigned colour, text_colour;
    int hatched;
    char text[32];
};

static struct cell cell_of(const char *row, const char *backend)
{
    struct cell cell = {0};
    char start[64], *text = folder_text("plots/speedup.dat");
    snprintf(start, sizeof start, "\n%zu %zu ", entry_of("plots/speedup.def.gp", "rows", row),
             entry_of("plots/speedup.def.gp", "names", backend));
    const char *at = strstr(text, start);
    if (!at)
        fail_msg("no cell of %s on %s", row, backend);
    else
        assert_int_equal(sscanf(at + strlen(start), "%u %u %d \"%31[^\"]\"", &cell.colour,
                                &cell.text_colour, &cell.hatched, cell.text),
                         4);
    free(text);
    return cell;
}

static void speedups(void **state)
{
    (void)state;
    report(synthetic_run((struct synthetic){.seed = 1}));
    /* Of 88 / (1 + 90 / 2048) GFLOP/s over 2.1, with a range of 2 to the 6th. */
    struct cell cell = cell_of("seqlen_h8_s2048_d64", "avx2");
    const double ratio = strtod(cell.text, NULL);
    assert_true(fabs(ratio / (88 / (1 + 90 / 2048.0) / 2.1) - 1) < 0.03);
    assert_true(abs((int)(cell.colour & 0xff) - (int)(attn_speedup_colour(ratio, 6) & 0xff)) <= 1);
    assert_int_equal(cell.hatched, 0);
    /* What has no speed-up says why; the baseline has no column. */
    assert_string_equal(cell_of("dim_h8_s1024_d40", "onednn").text, "FAIL");
    assert_string_equal(cell_of("dim_h8_s1024_d256", "blas").text, "crash");
    char *text = folder_text("plots/speedup.def.gp");
    assert_null(strstr(text, "= 'naive'\n"));
    assert_non_null(strstr(text, "n_backends = 3\n"));
    assert_non_null(strstr(text, "title = 'Speed-up over naive'\n"));
    assert_non_null(strstr(text, "= 'No figure: FAIL, wrong numbers; "));
    assert_non_null(strstr(text, "; crash, its worker died"));
    assert_null(strstr(text, "no base")); /* no such cell is in the picture */
    /* Without a time of the baseline a case has no row, and is counted. */
    assert_null(strstr(text, "'seqlen_h8_s8192_d64'"));
    assert_non_null(strstr(text, " cases without any speed-up are left out'"));
    /* Heads stand above their cases, lengths from the shortest. */
    assert_true(strstr(text, "'seqlen_h8_s128_d64'") < strstr(text, "'seqlen_h8_s256_d64'"));
    free(text);
    /* Noise of e^4 either way hides a factor of 40. */
    report(synthetic_run((struct synthetic){.seed = 1, .noise = 4}));
    assert_int_equal(cell_of("seqlen_h8_s2048_d64", "avx2").hatched, 1);
    report(synthetic_run((struct synthetic){.seed = 1, .rounds = 1}));
    assert_int_equal(cell_of("seqlen_h8_s2048_d64", "avx2").hatched, 1);
    text = folder_text("plots/speedup.def.gp");
    assert_non_null(strstr(text, "'Hatched: the 95 % interval holds 1, or there is none"));
    free(text);
    /* A backend without a speed-up has no column: of blas long cases are left, without a base. */
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    for (int size = 128; size <= 4096; size *= 2) {
        char word[16];
        snprintf(word, sizeof word, "sq=%d", size);
        synthetic_untime(&run, "blas", word);
    }
    report(run);
    text = folder_text("plots/speedup.def.gp");
    assert_non_null(strstr(text, "n_backends = 2\n"));
    assert_non_null(strstr(text, "'No figure in these cases: blas'\n"));
    free(text);
}

/* Relative luminance, as WCAG 2.1 defines it. */
static double luminance(unsigned colour)
{
    static const double weights[] = {0.2126, 0.7152, 0.0722};
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double c = (colour >> (16 - 8 * i) & 0xff) / 255.0;
        sum += weights[i] * (c <= 0.03928 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}

/* Long names are cut between characters. */
static void row_names(void **state)
{
    (void)state;
    char name[ATTN_ROW_NAME_MAX];
    attn_row_name(name, "sweep/s=1: dk=8", 9);
    assert_string_equal(name, "sweep/s=1");
    attn_row_name(name, "0123456789012345678901234567890123456", 37);
    assert_string_equal(name, "0123456789012345678901234567890123\xe2\x80\xa6");
    attn_row_name(name, "012345678901234567890123456789012\xc3\xa9\xc3\xa9\xc3\xa9", 39);
    assert_string_equal(name, "012345678901234567890123456789012\xe2\x80\xa6");
    attn_row_name(
        name,
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"
        "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80",
        40);
    assert_string_equal(name, "\xe2\x80\xa6");
}

static void colours(void **state)
{
    (void)state;
    assert_int_equal(attn_speedup_colour(1, 3), 0xf7f7f7);
    assert_int_equal(attn_speedup_colour(8, 3), 0x0072b2);
    assert_int_equal(attn_speedup_colour(1e9, 3), 0x0072b2);
    assert_int_equal(attn_speedup_colour(1 / 8.0, 3), 0xd55e00);
    /* Further from 1 is darker. */
    for (double power = 0; power < 3; power += 0.25) {
        assert_true(luminance(attn_speedup_colour(exp2(power + 0.25), 3)) <
                    luminance(attn_speedup_colour(exp2(power), 3)));
        assert_true(luminance(attn_speedup_colour(exp2(-power - 0.25), 3)) <
                    luminance(attn_speedup_colour(exp2(-power), 3)));
    }
    /* Every figure can be read on its colour. */
    report(synthetic_run((struct synthetic){.seed = 1}));
    char *text = folder_text("plots/speedup.dat");
    unsigned colour, ink;
    size_t cells = 0;
    for (const char *at = strchr(text, '\n'); at && at[1]; at = strchr(at + 1, '\n'), cells++) {
        if (at[1] == '?') /* no cell */
            continue;
        assert_int_equal(sscanf(at, " %*u %*u %u %u", &colour, &ink), 2);
        double a = luminance(colour) + 0.05, b = luminance(ink) + 0.05;
        assert_true(fmax(a, b) / fmin(a, b) >= 4.5);
    }
    assert_true(cells > 60);
    free(text);
}

/* ratio, low and high of a backend at a size of a panel; returns how many of them are figures. */
static int best_of(size_t panel, const char *backend, int size, double found[3])
{
    char start[64], *text = folder_text("plots/best.dat");
    snprintf(start, sizeof start, "\n%zu %zu %d ", panel,
             entry_of("plots/best.def.gp", "names", backend), size);
    const char *at = strstr(text, start);
    int n = 0;
    if (!at)
        fail_msg("best.dat has no line%s", start);
    else
        n = sscanf(at + strlen(start), "%lf %lf %lf", &found[0], &found[1], &found[2]);
    free(text);
    return n < 0 ? 0 : n;
}

static void over_the_best(void **state)
{
    (void)state;
    double found[3];
    report(synthetic_run((struct synthetic){.seed = 1}));
    char *text = folder_text("plots/best.def.gp");
    assert_non_null(strstr(text, "n_panels = 6\n"));
    assert_non_null(strstr(text, "panel_sizes[1] = '128 256 512 1024 2048 4096 8192 16384'\n"));
    /* naive is 50 times slower: the axis ends at 16. */
    assert_non_null(strstr(text, "y_high = 16\n"));
    assert_non_null(strstr(text, "ylabel = 'time / time of the best'\n"));
    assert_non_null(
        strstr(text, "'On an edge: filled triangle, a time beyond 16 times the best'\n"));
    assert_non_null(strstr(text, "; whisker: 95 % interval'\n"));
    free(text);
    assert_int_equal(best_of(1, "onednn", 4096, found), 3);
    assert_true(found[0] == 1 && found[1] == 1 && found[2] == 1);
    assert_int_equal(best_of(1, "avx2", 4096, found), 3);
    assert_true(fabs(found[0] / ((104 / (1 + 160 / 4096.0)) / (88 / (1 + 90 / 4096.0))) - 1) <
                0.03);
    assert_true(found[1] < found[0] && found[0] < found[2]);
    /* avx2 is the best of short ones, by avx2's rate over onednn's. */
    assert_int_equal(best_of(1, "avx2", 128, found), 3);
    assert_true(found[0] == 1);
    /* Not tried, refused. */
    assert_int_equal(best_of(1, "naive", 8192, found), 0);
    assert_int_equal(best_of(2, "onednn", 4096, found), 0);
    /* Of one round there is a ratio and no interval. */
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1, .rounds = 1});
    synthetic_untime(&run, "naive", "");
    report(run);
    assert_int_equal(best_of(1, "avx2", 4096, found), 1);
    /* Marks that are not there, and a backend without a point, are not explained. */
    text = folder_text("plots/best.def.gp");
    assert_null(strstr(text, "whisker"));
    assert_null(strstr(text, "open triangle"));
    assert_null(strstr(text, "= 'naive'\n"));
    free(text);
}

/* 10 %, median and 90 % of a round of a backend. */
static void round_of(const char *backend, int round, double found[3])
{
    char start[32], *text = folder_text("plots/samples.dat");
    snprintf(start, sizeof start, "\n%zu %d ", entry_of("plots/samples.def.gp", "names", backend),
             round);
    const char *at = strstr(text, start);
    if (!at || at > strstr(text, "\n\n\n"))
        fail_msg("samples.dat has no round%s", start);
    else
        assert_int_equal(sscanf(at + strlen(start), "%lf %lf %lf", &found[0], &found[1], &found[2]),
                         3);
    free(text);
}

static void drift(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    double found[3], low, high, share, sum = 0;
    size_t i, s, place, bins = 0;
    json_t *record, *sample;
    /* The fourth of five rounds of avx2 is 1.5 times slower. */
    json_array_foreach(run.records, i, record)
    {
        json_t *round = json_array_get(json_object_get(record, "samples_ns"), 3);
        if (strcmp(attn_field_text(record, "backend"), "avx2") != 0)
            continue;
        json_array_foreach(round, s, sample)
        {
            json_real_set(sample, 1.5 * json_real_value(sample));
        }
    }
    report(run);
    round_of("avx2", 4, found);
    assert_true(fabs(found[1] / 1.5 - 1) < 0.02 && found[0] <= found[1] && found[1] <= found[2]);
    round_of("avx2", 3, found);
    assert_true(fabs(found[1] - 1) < 0.02);
    round_of("blas", 4, found);
    assert_true(fabs(found[1] - 1) < 0.02);
    /* The bins of avx2 have two heaps, and its fullest bin is 1. */
    place = entry_of("plots/samples.def.gp", "names", "avx2");
    char *text = folder_text("plots/samples.dat"), *block = strstr(text, "\n\n\n");
    assert_non_null(block);
    for (const char *at = block + 3; (at = strchr(at, '\n')) && at[1]; at++) {
        assert_int_equal(sscanf(at + 1, "%zu %lf %lf %lf", &s, &low, &high, &share), 4);
        assert_true(low < high && share > 0 && share <= 1);
        bins += s == place && share == 1;
        sum += s == place && low < 1.5 && high > 1.5 ? share : 0;
    }
    assert_int_equal(bins, 1);
    assert_true(sum > 0.2);
    free(text);
    text = folder_text("plots/samples.def.gp");
    assert_non_null(strstr(text, "n_rounds = 5\n"));
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(speedups, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(over_the_best, folder_setup, folder_teardown),
        cmocka_unit_test(row_names),
        cmocka_unit_test_setup_teardown(drift, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(colours, folder_setup, folder_teardown),
    };
    if (argc < 2) {
        fprintf(stderr, "usage: %s SCRIPT_DIR\n", argv[0]);
        return 2;
    }
    script_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
