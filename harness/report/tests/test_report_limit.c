/* SPDX-License-Identifier: Apache-2.0 */
/* test_report_limit.c - which roof a result is held against, and its share, on figures made up to
 * be plain. */
#include "report/limit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report/text.h"
#include "report/view.h"
#include "synthetic.h"

/* One result: what it counts, how fast it was, and in what type. */
struct made {
    const char *dtype, *score, *cache;
    double flops, bytes, gflops, threads;
    const char *info; /* JSON of its backend in machine.json */
};

/* Shares are of the synthetic machine's ceilings: f32 228.4, f64 114.2, bf16 456.8 GFLOP/s; L1
 * 64 KiB at 400, L2 2 MiB at 220, memory at 31.5 GB/s; 2 threads. */
static double share_of(struct made made, const char **limit)
{
    static char text[64];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    struct attn_view_backend backend = {.counted = true,
                                        .info = made.info ? json_loads(made.info, 0, NULL) : NULL};
    json_t *bench = json_pack("{s:f,s:f}", "flops", made.flops, "bytes", made.bytes);
    json_t *sizes = json_pack("{s:s,s:s}", "score", made.score ? made.score : "scaled_dot", "dtype",
                              made.dtype ? made.dtype : "f32");
    struct attn_view_row row = {.bench = bench,
                                .sizes = sizes,
                                .cache = made.cache ? made.cache : "hot",
                                .gflops = made.gflops,
                                .threads = made.threads > 0 ? made.threads : 2};
    attn_limit_set(run.machine, &backend, &row);
    attn_limit_text(&row, text, sizeof text);
    *limit = text;
    json_decref(bench);
    json_decref(sizes);
    json_decref((json_t *)backend.info);
    attn_run_release(&run);
    return row.share;
}

static void expect(struct made made, double share, const char *text)
{
    const char *limit;
    const double got = share_of(made, &limit);
    if (isnan(share))
        assert_true(isnan(got));
    else
        assert_true(fabs(got - share) < 1e-9);
    assert_string_equal(limit, text);
}

static void of_the_peak_of_its_type(void **state)
{
    (void)state;
    expect((struct made){.flops = 1e9, .bytes = 1e6, .gflops = 114.2}, 0.5, "50 %");
    expect((struct made){.flops = 1e9, .bytes = 1e6, .gflops = 57.1, .dtype = "f64"}, 0.5, "50 %");
    expect((struct made){.flops = 1e9, .bytes = 1e6, .gflops = 114.2, .dtype = "bf16"}, 0.25,
           "25 %");
    /* no multiply-adds of its own: converted to f32 */
    expect((struct made){.flops = 1e9, .bytes = 1e6, .gflops = 114.2, .dtype = "f16"}, 0.5, "50 %");
}

static void of_what_reading_allows(void **state)
{
    (void)state;
    /* half a FLOP a byte: 15.75 GFLOP/s from memory, 110 from L2, 200 from L1 */
    struct made decode = {.flops = 5e7, .bytes = 1e8, .gflops = 12.6};
    expect(decode, 0.8, "80 % memory");
    decode = (struct made){.flops = 1e6, .bytes = 2e6, .gflops = 55};
    expect(decode, 0.5, "50 % L2");
    decode.cache = "cold";
    decode.gflops = 12.6;
    expect(decode, 0.8, "80 % memory");
    decode = (struct made){.flops = 3e4, .bytes = 6e4, .gflops = 50};
    expect(decode, 0.25, "25 % L1");
}

static void of_nothing(void **state)
{
    (void)state;
    const struct made plain = {.flops = 1e9, .bytes = 1e6, .gflops = 114.2};
    struct made made = plain;
    made.score = "gaussian"; /* its exp is not in the FLOPs counted */
    expect(made, NAN, "");
    made = plain;
    made.threads = 1; /* the ceilings are of two */
    expect(made, NAN, "");
    made = plain;
    made.info = "{\"device\":true}";
    expect(made, NAN, "");
    made = plain;
    made.gflops = NAN;
    expect(made, NAN, "");
    made = plain;
    made.flops = 0;
    expect(made, NAN, "");
}

/* No interval ends where no time is possible: below the best sample, or above the machine's rate.
 */
static void whiskers(void **state)
{
    (void)state;
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1, .noise = 0.3});
    struct attn_view view;
    char why[256];
    size_t cut = 0, limited = 0;
    json_t *times = NULL;
    /* A roof near to the fastest: intervals that reach a far one are left out. */
    json_t *rung = json_array_get(attn_field_at(run.machine, "ceilings.rungs"), 1);
    json_object_set_new(rung, "f32", json_real(117.2));
    /* Of a run without a best sample only the machine's limit is left. */
    for (size_t i = 0; i < json_array_size(run.records); i++) {
        times = json_object_get(json_array_get(run.records, i), "time_ns");
        if (times && i % 3 == 0)
            json_object_set_new(times, "min", json_null());
    }
    assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
    for (size_t r = 0; r < view.n_rows; r++) {
        const struct attn_view_row *row = &view.rows[r];
        const double least = attn_field_number(row->bench, "time_ns.min");
        const double lo =
            json_number_value(json_array_get(attn_field_at(row->bench, "time_ns.ci95"), 0));
        if (!isfinite(row->lo))
            continue;
        assert_true(isnan(least) || row->lo >= least);
        assert_true(row->lo >= lo && row->lo <= row->median);
        if (isfinite(row->share)) /* a rate above the measured limit is its own end */
            assert_true(row->median / row->lo * row->share <= fmax(1, row->share) * (1 + 1e-12));
        cut += row->lo > lo;
        limited += isnan(least) && row->lo > lo;
    }
    assert_true(cut > 30 && limited > 2);
    attn_view_free(&view);
    attn_run_release(&run);
}

/* An interval that says nothing gives way to the range of the rounds. */
static void few_rounds(void **state)
{
    (void)state;
    static const struct {
        struct synthetic options;
        bool interval;
    } cases[] = {{{.seed = 1}, true},
                 {{.seed = 1, .rounds = 4}, true},
                 {{.seed = 1, .rounds = 3}, false},
                 {{.seed = 1, .rounds = 2}, false},
                 {{.seed = 1, .rounds = 1}, false},
                 {{.seed = 1, .noise = 4}, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct attn_run_data run = synthetic_run(cases[c].options);
        const int made = cases[c].options.rounds ? cases[c].options.rounds : 5;
        struct attn_view view;
        char why[256], text[ATTN_ROUNDS_TEXT], start[32];
        assert_int_equal(attn_view_create(run.records, run.machine, &view, why, sizeof why), 0);
        snprintf(start, sizeof start, made == 1 ? "1 round" : "%d rounds: ", made);
        for (size_t r = 0; r < view.n_rows; r++) {
            const struct attn_view_row *row = &view.rows[r];
            if (!isfinite(row->median))
                continue;
            assert_int_equal(row->rounds, made);
            assert_true(row->least <= row->median && row->median <= row->greatest);
            assert_true(isfinite(row->lo) == isfinite(row->hi));
            assert_true(isfinite(row->lo) == cases[c].interval);
            assert_memory_equal(attn_row_rounds(row, text), start, strlen(start));
        }
        attn_view_free(&view);
        attn_run_release(&run);
    }
    /* A unit of both ends is said once. */
    char text[ATTN_ROUNDS_TEXT];
    struct attn_view_row row = {.rounds = 2, .least = 10.2e6, .greatest = 16.8e6};
    assert_string_equal(attn_row_rounds(&row, text), "2 rounds: 10.2 to 16.8 ms");
    row.least = 980e3;
    assert_string_equal(attn_row_rounds(&row, text), "2 rounds: 980 \xc2\xb5s to 16.8 ms");
    row.rounds = 0;
    assert_string_equal(attn_row_rounds(&row, text), "");
}

static void ceilings_in_a_line(void **state)
{
    (void)state;
    char line[640], cut[40];
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    attn_ceilings_text(run.machine, line, sizeof line);
    assert_string_equal(line,
                        "avx2 multiply-add f32 117, f64 58.6 GFLOP/s; avx512 multiply-add f32 "
                        "228, f64 114, bf16 457 GFLOP/s; blas product of matrices f32 201 "
                        "GFLOP/s; read L1 400, L2 220, memory 31.5 GB/s");
    attn_ceilings_text(run.machine, cut, sizeof cut);
    assert_memory_equal(cut, line, sizeof cut - 1);
    assert_int_equal(cut[sizeof cut - 1], '\0');
    attn_ceilings_text(NULL, line, sizeof line);
    assert_string_equal(line, ATTN_DASH);
    attn_run_release(&run);
}

/* Behind the vectors, and of bf16 alone. */
static void matrix_tiles(void **state)
{
    (void)state;
    char line[640];
    json_t *machine =
        json_loads("{\"ceilings\": {\"rungs\": [{\"isa\": \"avx512\", \"f32\": 100.0, \"f64\": "
                   "50.0, \"f16\": 200.0, \"bf16\": 210.0}, {\"isa\": \"amx\", \"f32\": 0.0, "
                   "\"f64\": 0.0, \"f16\": 0.0, \"bf16\": 900.0}], \"read_gbs\": 10.0}, "
                   "\"threads\": 1}",
                   0, NULL);
    static const struct {
        const char *dtype;
        double peak;
    } types[] = {{"f32", 100}, {"f64", 50}, {"f16", 200}, {"bf16", 900}};
    attn_ceilings_text(machine, line, sizeof line);
    assert_string_equal(line, "avx512 multiply-add f32 100, f64 50.0, f16 200, bf16 210 GFLOP/s; "
                              "amx multiply-add bf16 900 GFLOP/s");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        const struct attn_view_backend backend = {.counted = true};
        json_t *bench = json_pack("{s:f,s:f}", "flops", 1e9, "bytes", 1e3);
        json_t *sizes = json_pack("{s:s,s:s}", "score", "dot", "dtype", types[t].dtype);
        struct attn_view_row row = {
            .bench = bench, .sizes = sizes, .cache = "hot", .gflops = 10, .threads = 1};
        attn_limit_set(machine, &backend, &row);
        assert_true(fabs(row.share - 10 / types[t].peak) < 1e-9);
        json_decref(bench);
        json_decref(sizes);
    }
    json_decref(machine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrix_tiles),
        cmocka_unit_test(of_the_peak_of_its_type),
        cmocka_unit_test(of_what_reading_allows),
        cmocka_unit_test(of_nothing),
        cmocka_unit_test(whiskers),
        cmocka_unit_test(few_rounds),
        cmocka_unit_test(ceilings_in_a_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
