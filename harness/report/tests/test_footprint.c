/* SPDX-License-Identifier: Apache-2.0 */
/* test_footprint.c - memory that grew, its order in S, and the gate that judges all three. */
#include "report/footprint.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/compare.h"
#include "results/field.h"
#include "synthetic.h"

/* Peaks of a backend become unit * S^order bytes. */
static void set_peaks(struct attn_run_data *run, const char *backend, double unit, double order)
{
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        const double s = json_number_value(json_object_get(json_object_get(record, "sizes"), "sq"));
        if (strcmp(json_string_value(json_object_get(record, "type")), "bench") == 0 &&
            strcmp(json_string_value(json_object_get(record, "backend")), backend) == 0)
            json_object_set_new(record, "peak_bytes", json_real(unit * pow(s, order)));
    }
}

/* Counts of a backend; 0: null, with a reason. */
static void set_counts(struct attn_run_data *run, const char *backend, long long count)
{
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        if (strcmp(json_string_value(json_object_get(record, "type")), "bench") != 0 ||
            strcmp(json_string_value(json_object_get(record, "backend")), backend) != 0)
            continue;
        json_object_set_new(record, "instructions", count ? json_integer(count) : json_null());
        json_object_set_new(record, "instructions_reason", json_string(count ? "" : "no tool"));
    }
}

static enum attn_exit gate(const struct attn_run_data *base, const struct attn_run_data *next,
                           int drifted, char *text, size_t size)
{
    const struct attn_accuracy accuracy = {30, 0, drifted, drifted ? "drift: x\n" : ""};
    const struct attn_compare_options options = {
        .margin = 0.1, .gate = true, .accuracy = &accuracy};
    char why[1024];
    enum attn_exit code = ATTN_EXIT_INTERNAL;
    FILE *out = fmemopen(text, size, "w");
    assert_int_equal(attn_compare(base, next, &options, out, &code, why, sizeof why), 0);
    fclose(out);
    return code;
}

static char text[65536];

static void said(const char *what)
{
    if (!strstr(text, what))
        fail_msg("no '%s' in\n%s", what, text);
}

static void same_memory(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.001});
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    said(" 0 grew by more than 25 %");
    said("gate: time passed, memory passed, accuracy passed\n");
    said("margin 10 %");
    /* Up to a quarter, or 256 KiB, is no growth. */
    set_peaks(&base, "avx2", 1000, 1);
    set_peaks(&next, "avx2", 1240, 1);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    set_peaks(&base, "avx2", 4096, 0);
    set_peaks(&next, "avx2", 260000, 0);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    /* Less memory is none either, and a flatter order. */
    set_peaks(&base, "avx2", 100, 2);
    set_peaks(&next, "avx2", 100, 1);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void more_memory(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.001});
    set_peaks(&base, "avx2", 1048576, 0);
    set_peaks(&next, "avx2", 1.3 * 1048576, 0);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_REGRESSION);
    said("40 grew by more than 25 %"); /* hot and cold are one */
    said("peak: was 1.00 MiB, is 1.30 MiB  avx2  seqlen");
    said("gate: time passed, memory FAILED, accuracy passed");
    attn_run_release(&base);
    attn_run_release(&next);
}

static void more_instructions(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.001});
    set_counts(&base, "avx2", 1000000);
    set_counts(&next, "avx2", 1004999);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    said("instructions: 40 counts compared, 0 grew by more than 0.5 %, 0 lost\n"); /* hot, cold: one
                                                                                    */
    said("gate: time passed, memory passed, accuracy passed, instructions passed\n");
    set_counts(&next, "avx2", 1005001);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_REGRESSION);
    said("40 grew by more than 0.5 %");
    said("instructions: was 1000000, is 1005001 (+0.50 %)  avx2  seqlen");
    said("gate: time passed, memory passed, accuracy passed, instructions FAILED\n");
    set_counts(&next, "avx2", 0);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    said("0 counts compared, 0 grew by more than 0.5 %, 40 lost\n");
    said("instructions: was 1000000, not counted now: no tool  avx2  seqlen");
    attn_run_release(&base);
    attn_run_release(&next);
}

/* The peak at the largest S is the same: only the order tells. */
static void steeper_memory(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.001});
    set_peaks(&base, "avx2", 16384.0 * 16384, 1);
    set_peaks(&next, "avx2", 16384, 2);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_REGRESSION);
    said(" 0 grew by more than 25 %");
    said(", 2 grew\n"); /* full and causal */
    said("order: was n^1.0, is n^2.0  avx2  ");
    attn_run_release(&base);
    attn_run_release(&next);
}

/* Every timing keeps `rounds` of its rounds; without any, its record goes. */
static void keep_rounds(struct attn_run_data *run, size_t rounds)
{
    for (size_t i = json_array_size(run->records); i-- > 0;) {
        const json_t *record = json_array_get(run->records, i);
        json_t *samples = json_object_get(record, "samples_ns");
        if (strcmp(json_string_value(json_object_get(record, "type")), "bench") != 0)
            continue;
        while (json_array_size(samples) > rounds)
            json_array_remove(samples, rounds);
        if (rounds == 0)
            json_array_remove(run->records, i);
    }
}

/* What was not compared has not passed. */
static void nothing_judged(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.001});
    keep_rounds(&next, 1);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_OK);
    said("gate: time unclear, memory passed, accuracy passed\n");
    keep_rounds(&next, 0);
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_NOTHING);
    said("gate: time not judged, memory not judged, accuracy passed\n");
    attn_run_release(&base);
    attn_run_release(&next);
}

/* Right in the base, which had no time to time it, and wrong in the new. */
static void wrong_and_never_timed(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.001});
    struct attn_run_data *const runs[] = {&base, &next};
    static const char where[] = "seqlen_h8_s2048_d64";
    for (int run = 0; run < 2; run++)
        for (size_t i = json_array_size(runs[run]->records); i-- > 0;) {
            json_t *record = json_array_get(runs[run]->records, i);
            if (strcmp(attn_field_text(record, "backend"), "avx2") != 0 ||
                strcmp(attn_field_text(record, "name"), where) != 0)
                continue;
            if (strcmp(attn_field_text(record, "type"), "verify") != 0)
                json_array_remove(runs[run]->records, i);
            else if (run == 1)
                json_object_set_new(record, "status", json_string("fail"));
        }
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_REGRESSION);
    said("\nbroke ");
    said(where);
    said("gate: time FAILED");
    attn_run_release(&base);
    attn_run_release(&next);
}

static void accuracy(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.001});
    struct attn_run_data next = synthetic_run(
        (struct synthetic){.seed = 2, .noise = 0.001, .slow = "avx2", .slowdown = 1.2});
    assert_int_equal(gate(&base, &next, 1, text, sizeof text), ATTN_EXIT_NUMERICS);
    said("accuracy: 30 results compared, 1 drifted\ndrift: x\n");
    said("gate: time FAILED, memory passed, accuracy FAILED");
    assert_int_equal(gate(&base, &next, 0, text, sizeof text), ATTN_EXIT_REGRESSION);
    attn_run_release(&base);
    attn_run_release(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_memory),       cmocka_unit_test(more_memory),
        cmocka_unit_test(more_instructions), cmocka_unit_test(steeper_memory),
        cmocka_unit_test(nothing_judged),    cmocka_unit_test(wrong_and_never_timed),
        cmocka_unit_test(accuracy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
