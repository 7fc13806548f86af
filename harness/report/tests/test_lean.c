/* SPDX-License-Identifier: Apache-2.0 */
/* test_lean.c - a comparison says the same of runs that were read without what it does not need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "folder.h"
#include "report/compare.h"
#include "results/field.h"
#include "results/figures.h"
#include "synthetic.h"

/* Gives each result whatever a comparison may look at. */
static struct attn_run_data rich(unsigned seed, double slowdown, const char *throttled)
{
    struct attn_run_data run = synthetic_run(
        (struct synthetic){.seed = seed, .noise = 0.001, .slow = "avx2", .slowdown = slowdown});
    size_t i;
    json_t *record;
    json_array_foreach(run.records, i, record)
    {
        const double ratio = (double)(i % 7 + 1) * slowdown;
        if (strcmp(attn_field_text(record, "type"), "bench") != 0)
            continue;
        json_object_set_new(record, "instructions", json_integer(1000 + (json_int_t)seed * 100));
        json_t *rounds = json_array();
        for (int r = 0; r <= (int)ATTN_UNDISTURBED_ROUNDS_LEAST; r++)
            json_array_append_new(rounds,
                                  json_pack("{s:i,s:f,s:b}", "round", r, "ratio",
                                            ratio * (1 + 0.01 * (double)(i * (size_t)(r + 1) % 5)),
                                            "disturbed", r == 0));
        json_object_set_new(record, "live",
                            json_pack("{s:{s:s,s:s,s:f},s:o,s:s}", "paired", "anchor", "blas",
                                      "anchor_options", "", "ratio", ratio, "in_rounds", rounds,
                                      "noise", "quiet"));
    }
    json_array_append_new(run.records,
                          json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:{s:{s:f,s:s},s:{s:f,s:s}}}", "type",
                                    "round", "id", "00", "backend", "avx2", "options", "", "status",
                                    "pass", "case", "s=1 d=1", "device", "before", "clock_mhz",
                                    1000.0 * seed, "throttled", "none", "after", "memory_clock_mhz",
                                    500.0, "throttled", throttled));
    record = json_array_get(json_object_get(run.machine, "backends"), 2);
    assert_string_equal(attn_field_text(record, "name"), "avx2");
    json_object_set_new(record, "device", json_true());
    /* A round that holds no time has no median: the result has none. */
    for (i = json_array_size(run.records); i-- > 0;) {
        json_t *rounds = json_object_get(json_array_get(run.records, i), "samples_ns");
        if (rounds) {
            json_array_set_new(json_array_get(rounds, 1), 0, json_null());
            break;
        }
    }
    return run;
}

static char *said(const struct attn_run_data *base, const struct attn_run_data *next,
                  const struct attn_compare_options *options)
{
    char *text = NULL, why[512] = "";
    size_t length;
    enum attn_exit code = ATTN_EXIT_INTERNAL;
    FILE *out = open_memstream(&text, &length);
    if (attn_compare(base, next, options, out, &code, why, sizeof why) != 0)
        fail_msg("%s", why);
    fprintf(out, "%d %s\n", (int)code, why);
    fclose(out);
    return text;
}

/* Reads both folders in full and lean, and compares each pair. */
static void alike(const struct attn_compare_options *options)
{
    static const char *const names[] = {"base", "next"};
    struct attn_run_data full[2], lean[2];
    const bool turns = options->backends[0];
    char path[128], why[512] = "";
    for (int r = 0; r < 2; r++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[r]);
        if (attn_run_read(path, false, &full[r], why, sizeof why) != 0 ||
            attn_run_read_lean(path, false, turns, &lean[r], why, sizeof why) != 0)
            fail_msg("%s", why);
    }
    char *expected = said(&full[0], &full[!turns], options);
    char *got = said(&lean[0], &lean[!turns], options);
    assert_string_equal(got, expected);
    assert_true(strlen(got) > 2000);
    free(expected);
    free(got);
    for (int r = 0; r < 2; r++) {
        attn_run_release(&full[r]);
        attn_run_release(&lean[r]);
    }
}

static void every_kind_of_comparison(void **state)
{
    (void)state;
    struct attn_run_data runs[] = {rich(1, 1, "none"), rich(2, 1.2, "power")};
    for (int r = 0; r < 2; r++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, r ? "next" : "base");
        assert_int_equal(mkdir(path, 0700), 0);
        assert_int_equal(synthetic_folder(&runs[r], path), 0);
        attn_run_release(&runs[r]);
    }
    const struct attn_accuracy accuracy = {.lines = ""};
    const struct attn_compare_options all[] = {
        {.cross = true},
        {.cross = true, .markdown = true},
        {.cross = true, .anchor = "naive"},
        {.cross = true, .discoveries = 0.05},
        {.cross = true, .n_map = 1, .map = {{"avx2", "blas"}}},
        {.cross = true, .gate = true, .accuracy = &accuracy},
        {.backends = {"avx2", "blas"}},
        {.backends = {"naive", "onednn"}, .anchor = "blas"},
    };
    for (size_t o = 0; o < sizeof all / sizeof *all; o++) {
        struct attn_compare_options options = all[o];
        options.margin = 0.03;
        alike(&options);
        options.json = true;
        alike(&options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_kind_of_comparison, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
