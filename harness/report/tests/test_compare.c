/* SPDX-License-Identifier: Apache-2.0 */
/* test_compare.c - each verdict and each exit code of a comparison, from made-up runs. */
#include "report/compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "results/field.h"
#include "synthetic.h"

static const struct attn_compare_options plain = {.margin = 0.03};

static struct attn_run_data quiet(unsigned seed)
{
    return synthetic_run((struct synthetic){.seed = seed, .noise = 0.001});
}

/* Compares as JSON; the caller releases it. */
static json_t *compare(const struct attn_run_data *base, const struct attn_run_data *next,
                       const struct attn_compare_options *options, enum attn_exit expected)
{
    char *text = NULL, why[512] = "";
    size_t length;
    enum attn_exit code = ATTN_EXIT_INTERNAL;
    FILE *out = open_memstream(&text, &length);
    struct attn_compare_options as_json = *options;
    as_json.json = true;
    assert_int_equal(attn_compare(base, next, &as_json, out, &code, why, sizeof why), 0);
    fclose(out);
    if (code != expected)
        fail_msg("exit %d, expected %d: %s", (int)code, (int)expected, why);
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_integer_value(json_object_get(json, "exit")), expected);
    free(text);
    return json;
}

static long counted(const json_t *json, const char *verdict)
{
    return (long)json_integer_value(json_object_get(json_object_get(json, "counts"), verdict));
}

/* The first record of a type, backend and case name. */
static json_t *find(const struct attn_run_data *run, const char *type, const char *backend,
                    const char *name)
{
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        if (strcmp(json_string_value(json_object_get(record, "type")), type) == 0 &&
            strcmp(json_string_value(json_object_get(record, "backend")), backend) == 0 &&
            strcmp(json_string_value(json_object_get(record, "name")), name) == 0)
            return record;
    }
    fail_msg("no record %s %s %s", type, backend, name);
    return NULL;
}

static void drop(struct attn_run_data *run, const json_t *record)
{
    size_t i;
    json_t *item;
    json_array_foreach(run->records, i, item)
    {
        if (item == record) {
            json_array_remove(run->records, i);
            return;
        }
    }
}

static void equal_runs(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1), next = quiet(2);
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_OK);
    assert_int_equal(counted(json, "slower") + counted(json, "faster"), 0);
    assert_true(counted(json, "same") > 100);
    double mean = json_real_value(json_object_get(json, "geometric_mean"));
    assert_true(fabs(mean - 1) < 0.005);
    /* A backend that only measures the harness enters no comparison. */
    size_t i;
    json_t *result;
    json_array_foreach(json_object_get(json, "results"), i, result)
    {
        assert_string_not_equal(json_string_value(json_object_get(result, "backend")), "null");
    }
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void a_regression(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1);
    struct attn_run_data next = synthetic_run(
        (struct synthetic){.seed = 2, .noise = 0.001, .slow = "avx2", .slowdown = 1.1});
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_REGRESSION);
    assert_int_equal(counted(json, "slower"), 66);
    assert_int_equal(counted(json, "faster"), 0);
    /* 40 cases hot, 26 of them cold too. Worst first, and its ratio is what was planted. */
    json_t *worst = json_array_get(json_object_get(json, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(worst, "verdict")), "slower");
    double ratio = json_real_value(json_object_get(worst, "ratio"));
    assert_true(ratio > 1.09 && ratio < 1.11);
    json_decref(json);
    /* The same slowdown within the margin is no regression; the reverse is a gain. */
    struct attn_compare_options wide = {.margin = 0.15};
    json_decref(compare(&base, &next, &wide, ATTN_EXIT_OK));
    json = compare(&next, &base, &plain, ATTN_EXIT_OK);
    assert_int_equal(counted(json, "faster"), 66);
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void too_noisy_to_say(void **state)
{
    (void)state;
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.2});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .rounds = 1});
    struct attn_compare_options strict = {.margin = 0.03, .strict = 1};
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_OK);
    assert_true(counted(json, "unclear") > 100);
    json_decref(json);
    json_decref(compare(&base, &next, &strict, ATTN_EXIT_INCONCLUSIVE));
    attn_run_release(&base);
    attn_run_release(&next);
}

/* Noise of a tenth and no margin: some of 130 equal results are slower or faster by chance. A rate
 * of false discoveries drops them, and keeps what was planted. */
static void many_verdicts(void **state)
{
    (void)state;
    struct attn_compare_options each = {.margin = 0}, rated = {.margin = 0, .discoveries = 0.05};
    struct attn_run_data base = synthetic_run((struct synthetic){.seed = 1, .noise = 0.1});
    struct attn_run_data next = synthetic_run((struct synthetic){.seed = 2, .noise = 0.1});
    json_t *json = compare(&base, &next, &each, ATTN_EXIT_REGRESSION);
    assert_true(counted(json, "slower") + counted(json, "faster") >= 4);
    json_decref(json);
    json = compare(&base, &next, &rated, ATTN_EXIT_OK);
    assert_int_equal(counted(json, "slower") + counted(json, "faster"), 0);
    json_decref(json);
    attn_run_release(&next);
    next =
        synthetic_run((struct synthetic){.seed = 2, .noise = 0.1, .slow = "avx2", .slowdown = 1.5});
    json = compare(&base, &next, &rated, ATTN_EXIT_REGRESSION);
    assert_true(counted(json, "slower") > 50);
    assert_true(counted(json, "slower") + counted(json, "faster") < 72);
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

/* The time of each sample of a run grows from round to round, and by a factor. */
static void drift(struct attn_run_data *run, double factor)
{
    size_t i, r, s;
    json_t *record, *round, *sample;
    json_array_foreach(run->records, i, record)
    {
        json_array_foreach(json_object_get(record, "samples_ns"), r, round)
        {
            json_array_foreach(round, s, sample)
            {
                json_array_set_new(
                    round, s,
                    json_real(json_number_value(sample) * factor * (1 + 0.2 * (double)r)));
            }
        }
    }
}

/* A machine that is 30 % slower and drifts by a fifth each round: unclear or slower as it stands,
 * the same relative to an anchor, and what was planted is found. */
static void relative_to_an_anchor(void **state)
{
    (void)state;
    struct attn_compare_options anchored = {.margin = 0.03, .anchor = "naive"};
    struct attn_run_data base = quiet(1), next = quiet(2);
    drift(&next, 1.3);
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_REGRESSION), *result;
    assert_int_equal(counted(json, "same"), 0);
    json_decref(json);
    json = compare(&base, &next, &anchored, ATTN_EXIT_OK);
    assert_true(counted(json, "same") > 100);
    size_t i;
    json_array_foreach(json_object_get(json, "results"), i, result)
    {
        /* naive was not timed where it would have taken too long */
        const char *reason = json_string_value(json_object_get(result, "reason"));
        const char *verdict = json_string_value(json_object_get(result, "verdict"));
        if (strcmp(verdict, "unclear") == 0)
            assert_non_null(strstr(reason, "the anchor was not timed"));
        else
            assert_null(strstr(reason, "the anchor was not timed"));
        assert_string_not_equal(json_string_value(json_object_get(result, "backend")), "naive");
    }
    json_decref(json);
    attn_run_release(&next);
    next = synthetic_run(
        (struct synthetic){.seed = 2, .noise = 0.001, .slow = "avx2", .slowdown = 1.1});
    drift(&next, 1.3);
    json = compare(&base, &next, &anchored, ATTN_EXIT_REGRESSION);
    assert_true(counted(json, "slower") >= 66 - 10);
    assert_int_equal(counted(json, "faster"), 0);
    json_decref(json);
    /* An anchor that was not timed makes no verdict. */
    anchored.anchor = "nonesuch";
    json = compare(&base, &next, &anchored, ATTN_EXIT_NOTHING);
    assert_int_equal(counted(json, "slower") + counted(json, "same"), 0);
    assert_non_null(strstr(json_string_value(json_object_get(json, "reason")), "'nonesuch'"));
    assert_non_null(strstr(json_string_value(json_object_get(
                               json_array_get(json_object_get(json, "results"), 0), "reason")),
                           "the anchor was not timed"));
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void broke_and_missing(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1), next = quiet(2);
    const char *broken = "seqlen_h8_s512_d64", *skipped = "seqlen_h8_s256_d64";
    const char *refused = "seqlen_h8_s128_d64";
    json_t *verify = find(&next, "verify", "avx2", broken);
    json_object_set_new(verify, "status", json_string("crash"));
    json_object_set_new(verify, "reason", json_string("signal 11"));
    drop(&next, find(&next, "bench", "avx2", broken));
    verify = find(&next, "verify", "avx2", skipped);
    json_object_set_new(verify, "status", json_string("skip"));
    json_object_set_new(verify, "reason", json_string("budget: predicted 2 s"));
    drop(&next, find(&next, "bench", "avx2", skipped));
    verify = find(&next, "verify", "avx2", refused);
    json_object_set_new(verify, "status", json_string("skip"));
    json_object_set_new(verify, "reason", json_string("S below 256 is not supported"));
    drop(&next, find(&next, "bench", "avx2", refused));
    drop(&base, find(&base, "bench", "blas", broken));
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_REGRESSION);
    assert_int_equal(counted(json, "broke"), 2);
    assert_int_equal(counted(json, "only base"), 1);
    assert_int_equal(counted(json, "only new"), 1);
    static const char *const reasons[] = {"S below 256 is not supported", "signal 11"};
    for (size_t i = 0; i < 2; i++) {
        json_t *worst = json_array_get(json_object_get(json, "results"), i);
        const char *reason = json_string_value(json_object_get(worst, "reason"));
        assert_string_equal(json_string_value(json_object_get(worst, "verdict")), "broke");
        assert_true(strcmp(reason, reasons[0]) == 0 || strcmp(reason, reasons[1]) == 0);
        assert_true(json_is_null(json_object_get(worst, "ratio")));
    }
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void not_comparable(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1), next = quiet(1);
    json_object_set_new(json_object_get(next.machine, "cpu"), "model", json_string("another"));
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_BASELINE);
    assert_non_null(strstr(json_string_value(json_object_get(json, "reason")), "CPU model"));
    json_decref(json);
    attn_run_release(&next);

    next = quiet(1);
    json_object_set_new(next.machine, "threads", json_integer(4));
    json_decref(compare(&base, &next, &plain, ATTN_EXIT_BASELINE));
    attn_run_release(&next);

    next = quiet(1);
    json_object_set_new(json_object_get(next.machine, "attnbench"), "build", json_string("Debug"));
    json_decref(compare(&base, &next, &plain, ATTN_EXIT_BASELINE));
    json_object_del(json_object_get(next.machine, "attnbench"), "build");
    json_decref(compare(&base, &next, &plain, ATTN_EXIT_BASELINE));
    attn_run_release(&next);
    attn_run_release(&base);
}

/* A kernel that became so slow that bench refuses to time it is no result that only the base has.
 */
static void slow_beyond_the_limit(void **state)
{
    (void)state;
    const char *name = "seqlen_h8_s512_d64", *why = "a run took 2 s, the limit is 1 s";
    const double times_the_base[] = {1.5, 3};
    for (size_t i = 0; i < 2; i++) {
        struct attn_run_data base = quiet(1), next = quiet(2);
        json_t *timed = find(&next, "bench", "avx2", name);
        json_t *untimed = json_pack("{s:s,s:s}", "type", "untimed", "reason", why);
        json_object_update_missing(untimed, find(&next, "verify", "avx2", name));
        json_array_append_new(next.records, untimed);
        const json_t *summary = json_object_get(timed, "time_ns");
        const double median = json_number_value(json_object_get(summary, "median"));
        json_object_set_new(find(&next, "verify", "avx2", name), "seconds",
                            json_real(1e-9 * median * times_the_base[i]));
        drop(&next, timed);
        json_t *json = compare(&base, &next, &plain, i == 0 ? ATTN_EXIT_OK : ATTN_EXIT_REGRESSION);
        assert_int_equal(counted(json, i == 0 ? "only base" : "broke"), 1);
        const json_t *worst = json_array_get(json_object_get(json, "results"), 0);
        assert_string_equal(json_string_value(json_object_get(worst, "reason")), i == 0 ? "" : why);
        json_decref(json);
        attn_run_release(&base);
        attn_run_release(&next);
    }
}

/* The same, if the run was predicted and not made. With a smaller limit than that of the base it is
 * no slower. */
static void slow_beyond_prediction(void **state)
{
    (void)state;
    const char *name = "seqlen_h8_s512_d64";
    const char *const beyond[] = {"the limit is 1e-06 s", "over 8 times what the fastest takes"};
    for (size_t i = 0; i < 4; i++) {
        struct attn_run_data base = quiet(1), next = quiet(2);
        json_t *timed = find(&next, "bench", "avx2", name);
        json_t *verify = find(&next, "verify", "avx2", name);
        const json_t *summary = json_object_get(timed, "time_ns");
        const double median = 1e-9 * json_number_value(json_object_get(summary, "median"));
        const bool slower = i >= 2;
        char why[128];
        snprintf(why, sizeof why, "budget: a run is predicted to take %.2g s, %s",
                 median * (slower ? 3 : 1.5), beyond[i % 2]);
        json_object_set_new(verify, "status", json_string("skip"));
        json_object_set_new(verify, "reason", json_string(why));
        drop(&next, timed);
        json_t *json = compare(&base, &next, &plain, slower ? ATTN_EXIT_REGRESSION : ATTN_EXIT_OK);
        assert_int_equal(counted(json, slower ? "broke" : "only base"), 1);
        if (slower) {
            const json_t *worst = json_array_get(json_object_get(json, "results"), 0);
            assert_string_equal(json_string_value(json_object_get(worst, "reason")), why);
        }
        json_decref(json);
        attn_run_release(&base);
        attn_run_release(&next);
    }
}

static void nothing_in_common(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1), next = quiet(2);
    json_array_clear(next.records);
    json_decref(compare(&base, &next, &plain, ATTN_EXIT_NOTHING));
    struct attn_compare_options unknown = {.margin = 0.03, .backends = {"avx2", "nonesuch"}};
    json_decref(compare(&base, &base, &unknown, ATTN_EXIT_NOTHING));
    unknown.backends[1] = "bals";
    json_t *json = compare(&base, &base, &unknown, ATTN_EXIT_NOTHING);
    assert_string_equal(json_string_value(json_object_get(json, "reason")),
                        "nothing to compare: the run has no backend 'bals'; did you mean 'blas'?");
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void two_backends_of_one_run(void **state)
{
    (void)state;
    struct attn_run_data run = quiet(1);
    struct attn_compare_options options = {.margin = 0.03, .backends = {"blas", "avx2"}};
    json_t *json = compare(&run, &run, &options, ATTN_EXIT_OK);
    assert_true(counted(json, "faster") > 30);
    assert_int_equal(counted(json, "slower"), 0);
    /* avx2 runs d=256, where blas crashed. */
    assert_true(counted(json, "only new") > 0);
    json_decref(json);
    options.backends[0] = "avx2";
    options.backends[1] = "blas";
    json = compare(&run, &run, &options, ATTN_EXIT_REGRESSION);
    assert_int_equal(counted(json, "broke"), 4); /* d=256, full and causal, hot and cold */
    json_decref(json);
    options.backends[1] = "onednn";
    json = compare(&run, &run, &options, ATTN_EXIT_REGRESSION);
    assert_int_equal(counted(json, "broke"), 4);     /* d=40 */
    assert_int_equal(counted(json, "only base"), 7); /* refused: causal over S above 256 */
    json_decref(json);
    attn_run_release(&run);
}

/* A backend that one run does not know is missing there, whatever else both have. */
static void absent(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1), next = quiet(2);
    json_t *backends = json_object_get(next.machine, "backends");
    for (size_t i = json_array_size(next.records); i-- > 0;)
        if (strcmp(attn_field_text(json_array_get(next.records, i), "backend"), "avx2") == 0)
            json_array_remove(next.records, i);
    for (size_t i = json_array_size(backends); i-- > 0;)
        if (strcmp(attn_field_text(json_array_get(backends, i), "name"), "avx2") == 0)
            json_array_remove(backends, i);
    json_t *json = compare(&base, &next, &plain, ATTN_EXIT_OK);
    const long missing = counted(json, "only base");
    assert_true(missing > 30);
    assert_int_equal(counted(json, "only new"), 0);
    json_decref(json);
    json = compare(&next, &base, &plain, ATTN_EXIT_OK);
    assert_int_equal(counted(json, "only new"), missing);
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

/* By verdict, the bad ones first, and what one side alone has in a line. */
static void grouped(void **state)
{
    (void)state;
    struct attn_run_data run = quiet(1);
    for (int markdown = 0; markdown < 2; markdown++) {
        const struct attn_compare_options options = {
            .margin = 0.03, .backends = {"avx2", "onednn"}, .markdown = markdown};
        char *text = NULL, why[512] = "";
        size_t length;
        enum attn_exit code;
        FILE *out = open_memstream(&text, &length);
        assert_int_equal(attn_compare(&run, &run, &options, out, &code, why, sizeof why), 0);
        fclose(out);
        const char *only = strstr(text, "\nonly base: 7 results (avx2 7)\n");
        const char *broke = strstr(text, markdown ? "\n### broke\n" : "\nbroke ");
        const char *slower = strstr(text, markdown ? "\n### slower\n" : "\nslower ");
        assert_true(only && broke && slower && broke < slower && slower < only);
        assert_null(strstr(text, "\nonly base  ")); /* no line each */
        assert_int_equal(strstr(text, "**4 broke, ") != NULL, markdown);
        assert_int_equal(strstr(text, "\n| case | backend | new/base |") != NULL, markdown);
        free(text);
    }
    attn_run_release(&run);
}

/* Results of `backend` with options become those of `mine` with others. */
static void rename_to_mine(struct attn_run_data *run, const char *backend, const char *options,
                           const char *others)
{
    size_t i;
    json_t *record;
    json_array_foreach(run->records, i, record)
    {
        if (strcmp(json_string_value(json_object_get(record, "backend")), backend) != 0 ||
            strcmp(json_string_value(json_object_get(record, "options")), options) != 0)
            continue;
        json_object_set_new(record, "backend", json_string("mine"));
        json_object_set_new(record, "options", json_string(others));
    }
}

/* One backend with and without options: "mine" is the one without. Where there is none, it is all
 * that have options, but no result meets itself. */
static void options_of_one_backend(void **state)
{
    (void)state;
    struct attn_run_data run = quiet(1);
    rename_to_mine(&run, "blas", "", "");
    rename_to_mine(&run, "avx2", "", "x=0");
    struct attn_compare_options options = {.margin = 0.03, .backends = {"mine", "mine:x=0"}};
    static const char *const bases[] = {"mine", "mine:x=1"};
    for (int turn = 0; turn < 2; turn++) {
        json_t *json = compare(&run, &run, &options, ATTN_EXIT_OK), *result;
        assert_true(counted(json, "faster") > 30);
        assert_int_equal(counted(json, "same"), 0);
        size_t i;
        json_array_foreach(json_object_get(json, "results"), i, result)
        {
            const char *verdict = json_string_value(json_object_get(result, "verdict"));
            const char *of = json_string_value(json_object_get(result, "backend"));
            if (strcmp(verdict, "only new") != 0)
                assert_string_equal(of, bases[turn]);
            assert_string_equal(json_string_value(json_object_get(result, "new_backend")),
                                "mine:x=0");
        }
        json_decref(json);
        rename_to_mine(&run, "mine", "", "x=1");
    }
    options.backends[0] = "mine:x=0";
    json_t *json = compare(&run, &run, &options, ATTN_EXIT_NOTHING);
    assert_non_null(strstr(json_string_value(json_object_get(json, "reason")), "the same backend"));
    json_decref(json);
    attn_run_release(&run);
}

/* --plugin base=FILE and new=FILE, of a plugin with two backends: each goes with its like. */
static void plugins_of_several_backends(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"naive", "base_a"}, {"blas", "new_a"}, {"onednn", "base_b"}, {"avx2", "new_b"}};
    struct attn_run_data run = quiet(1);
    size_t i, pairs[2] = {0};
    json_t *record, *result;
    json_array_foreach(run.records, i, record)
    {
        for (size_t n = 0; n < sizeof names / sizeof names[0]; n++)
            if (strcmp(json_string_value(json_object_get(record, "backend")), names[n][0]) == 0)
                json_object_set_new(record, "backend", json_string(names[n][1]));
    }
    struct attn_compare_options options = {.margin = 0.03, .backends = {"base", "new"}};
    json_t *json = compare(&run, &run, &options, ATTN_EXIT_REGRESSION);
    json_array_foreach(json_object_get(json, "results"), i, result)
    {
        const char *base = json_string_value(json_object_get(result, "backend"));
        const char *next = json_string_value(json_object_get(result, "new_backend"));
        if (strcmp(json_string_value(json_object_get(result, "verdict")), "only base") == 0)
            continue;
        assert_memory_equal(next, "new_", 4);
        if (strcmp(json_string_value(json_object_get(result, "verdict")), "only new") != 0) {
            assert_memory_equal(base, "base_", 5);
            assert_string_equal(base + 5, next + 4);
        }
        pairs[next[4] == 'b']++;
    }
    assert_true(pairs[0] > 10 && pairs[1] > 10);
    json_decref(json);
    static const char *const nothing[][2] = {{"base", "base"}, {"base", "new_a"}, {"base", "nev"}};
    for (size_t n = 0; n < sizeof nothing / sizeof nothing[0]; n++) {
        memcpy(options.backends, nothing[n], sizeof nothing[n]);
        json_decref(compare(&run, &run, &options, ATTN_EXIT_NOTHING));
    }
    attn_run_release(&run);
}

static void mapped_backends(void **state)
{
    (void)state;
    struct attn_run_data base = quiet(1), next = quiet(2);
    size_t i;
    json_t *record;
    json_array_foreach(next.records, i, record)
    {
        if (strcmp(json_string_value(json_object_get(record, "backend")), "avx2") == 0)
            json_object_set_new(record, "backend", json_string("avx2-next"));
    }
    struct attn_compare_options options = {.margin = 0.03, .n_map = 1};
    options.map[0][0] = "avx2";
    options.map[0][1] = "avx2-next";
    json_t *json = compare(&base, &next, &options, ATTN_EXIT_OK);
    long same = counted(json, "same");
    assert_int_equal(counted(json, "only base") + counted(json, "only new"), 0);
    json_decref(json);
    /* Written the other way round it means the same. */
    options.map[0][0] = "avx2-next";
    options.map[0][1] = "avx2";
    json = compare(&base, &next, &options, ATTN_EXIT_OK);
    assert_int_equal(counted(json, "same"), same);
    json_decref(json);
    attn_run_release(&base);
    attn_run_release(&next);
}

static void the_table(void **state)
{
    (void)state;
    char *text = NULL, why[256];
    size_t length;
    enum attn_exit code;
    struct attn_run_data base = quiet(1);
    struct attn_run_data next = synthetic_run(
        (struct synthetic){.seed = 2, .noise = 0.001, .slow = "blas", .slowdown = 1.5});
    FILE *out = open_memstream(&text, &length);
    assert_int_equal(attn_compare(&base, &next, &plain, out, &code, why, sizeof why), 0);
    fclose(out);
    assert_int_equal(code, ATTN_EXIT_REGRESSION);
    const char *second = strchr(text, '\n') + 1;
    assert_memory_equal(second, "slower", 6);
    assert_non_null(strstr(text, "geometric mean of new/base 1."));
    free(text);
    attn_run_release(&base);
    attn_run_release(&next);
}

/* Records are untrusted: a wrong field makes a result untimed or the run unreadable, no more. */
static void mutated_records(void **state)
{
    (void)state;
    static const char *const wrong[] = {"null", "-1", "\"x\"", "[[]]", "[[1,null]]", "{}", "1e400"};
    const struct attn_compare_options json = {.margin = plain.margin, .json = true};
    struct attn_run_data base = quiet(1), next = quiet(2);
    json_t *bench = find(&next, "bench", "avx2", "seqlen_h8_s512_d64");
    json_t *kept = json_deep_copy(bench);
    const char *key;
    json_t *value;
    size_t refused = 0, compared = 0;
    json_object_foreach(kept, key, value)
    {
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            char why[512] = "", *text = NULL;
            size_t length;
            enum attn_exit code;
            FILE *out = open_memstream(&text, &length);
            json_t *odd = json_loads(wrong[i], JSON_DECODE_ANY, NULL);
            json_object_set_new(bench, key, odd ? odd : json_real(1e308));
            if (attn_compare(&base, &next, &json, out, &code, why, sizeof why) == 0)
                compared++;
            else
                refused += why[0] != '\0';
            fclose(out);
            free(text);
            json_object_set(bench, key, value);
        }
    }
    assert_int_equal(compared + refused, 7 * json_object_size(kept));
    assert_true(compared > 7 * 20 && refused > 7);
    json_decref(kept);
    attn_run_release(&base);
    attn_run_release(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_runs),
        cmocka_unit_test(a_regression),
        cmocka_unit_test(too_noisy_to_say),
        cmocka_unit_test(many_verdicts),
        cmocka_unit_test(relative_to_an_anchor),
        cmocka_unit_test(broke_and_missing),
        cmocka_unit_test(slow_beyond_the_limit),
        cmocka_unit_test(slow_beyond_prediction),
        cmocka_unit_test(not_comparable),
        cmocka_unit_test(nothing_in_common),
        cmocka_unit_test(two_backends_of_one_run),
        cmocka_unit_test(absent),
        cmocka_unit_test(grouped),
        cmocka_unit_test(options_of_one_backend),
        cmocka_unit_test(plugins_of_several_backends),
        cmocka_unit_test(mapped_backends),
        cmocka_unit_test(the_table),
        cmocka_unit_test(mutated_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
