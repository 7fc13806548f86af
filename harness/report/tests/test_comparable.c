/* SPDX-License-Identifier: Apache-2.0 */
/* test_comparable.c - every fact of a run that makes its times another matter, changed one by one.
 */
#include "report/comparable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "report/compare.h"
#include "synthetic.h"

/* A run whose machine.json states everything, and of which blas counts as a device. */
static struct attn_run_data full(void)
{
    struct attn_run_data run = synthetic_small();
    json_t *backends = json_object_get(run.machine, "backends");
    json_object_update_missing_new(json_object_get(run.machine, "cpu"),
                                   json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:i}", "vendor",
                                             "AuthenticAMD", "family", "25", "number", "17",
                                             "stepping", "1", "l1d", "32K", "l2", "1024K", "l3",
                                             "32768K", "online", 2));
    json_object_update_missing_new(
        run.machine,
        json_pack("{s:[i,i],s:s,s:i,s:s,s:s,s:s,s:s,s:i}", "affinity", 0, 1, "governor", "",
                  "page_bytes", 4096, "thp", "[always] never", "compiler", "GNU 12.2.0",
                  "compiler_flags", "-O3", "libc", "2.36", "throttled", 0));
    json_object_update_new(json_object_get(run.machine, "protocol"),
                           json_pack("{s:f,s:f}", "min_time_s", 0.005, "budget_s", 0.0));
    json_object_set_new(json_array_get(backends, 3), "device", json_true());
    for (size_t b = 0; b < json_array_size(backends); b++)
        json_object_set_new(json_array_get(backends, b), "plugin_sha256", json_string("00ff"));
    return run;
}

/* The value at a dotted path, where a number is an index; its holder and last key. */
static json_t *holder(json_t *object, const char *path, char *key)
{
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        snprintf(key, 32, "%.*s", (int)(dot - path), path);
        object = json_is_array(object) ? json_array_get(object, (size_t)(key[0] - '0'))
                                       : json_object_get(object, key);
        path = dot + 1;
    }
    snprintf(key, 32, "%s", path);
    return object;
}

static enum attn_exit compare(const struct attn_run_data *base, const struct attn_run_data *next,
                              bool cross, char *text, size_t size)
{
    const struct attn_compare_options options = {.margin = 0.03, .cross = cross};
    char why[1024];
    enum attn_exit code = ATTN_EXIT_INTERNAL;
    FILE *out = fmemopen(text, size, "w");
    assert_int_equal(attn_compare(base, next, &options, out, &code, why, sizeof why), 0);
    fclose(out);
    snprintf(text + strlen(text), size - strlen(text), "%s", why); /* for stderr */
    return code;
}

static const struct {
    const char *path, *other; /* JSON */
    const char *what;         /* as it is named */
    bool may;                 /* differ: nothing is said, or no more than that it changed */
} facts[] = {
    {"cpu.model", "\"x\"", "CPU model", false},
    {"cpu.vendor", "\"x\"", "CPU vendor", false},
    {"cpu.family", "\"6\"", "CPU family", false},
    {"cpu.number", "\"6\"", "CPU model number", false},
    {"cpu.stepping", "\"2\"", "CPU stepping", false},
    {"cpu.l1d", "\"48K\"", "L1 data cache", false},
    {"cpu.l2", "\"48K\"", "L2 cache", false},
    {"cpu.l3", "\"48K\"", "L3 cache", false},
    {"cpu.online", "4", "number of processors", false},
    {"threads", "4", "number of threads", false},
    {"affinity", "[1]", "affinity", false},
    {"governor", "\"powersave\"", "frequency governor", false},
    {"page_bytes", "65536", "page size", false},
    {"thp", "\"always [never]\"", "setting of huge pages", false},
    {"attnbench.build", "\"Debug\"", "build", false},
    {"attnbench.commit", "\"Debug\"", "", true},
    {"compiler", "\"Clang 14\"", "compiler", false},
    {"compiler_flags", "\"-O2\"", "set of compiler flags", false},
    {"libc", "\"2.31\"", "C library", false},
    {"throttled", "3", "number of throttling events", false},
    {"protocol.samples", "9", "protocol's samples", false},
    {"protocol.min_time_s", "0.1", "protocol's min_time_s", false},
    {"protocol.batch_s", "0.1", "protocol's batch_s", false},
    {"protocol.rounds", "64", "", true},
    {"protocol.budget_s", "64", "", true},
    {"ceilings.rungs.1.f32", "207.0", "ceiling of avx512 in f32 (GFLOP/s)",
     false}, /* of 228.4: 10.3 % */
    {"ceilings.rungs.1.f32", "208.0", "", true},
    {"ceilings.rungs.1.f32", "252.0", "ceiling of avx512 in f32 (GFLOP/s)", false},
    {"ceilings.rungs.0.f16", "1.0", "ceiling of avx2 in f16 (GFLOP/s)", false},
    {"ceilings.reads.1.gbs", "100.0", "ceiling of reads from L2 (GB/s)", false},
    {"ceilings.reads.2.level", "\"L3\"", "ceiling of reads from memory (GB/s)", false},
    {"ceilings", "null", "instruction set of the ceilings", false},
    {"backends.3.version", "\"OpenBLAS 0.3.99\"", "device or driver of blas", false},
    {"backends.1.version", "\"2\"", "version of naive", false},
    {"backends.1.plugin_sha256", "\"1234\"", "plugin file of naive", true},
    {"backends.5.version", "\"2\"", "", true}, /* not available */
};

static void each_fact(void **state)
{
    (void)state;
    struct attn_run_data base = full(), next = full();
    char text[16384], key[32], line[160];
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_OK);
    assert_null(strstr(text, "differs"));
    for (size_t f = 0; f < sizeof facts / sizeof facts[0]; f++) {
        json_t *at = holder(next.machine, facts[f].path, key);
        json_t *kept = json_incref(json_object_get(at, key));
        json_object_set_new(at, key, json_loads(facts[f].other, JSON_DECODE_ANY, NULL));
        const enum attn_exit code = compare(&base, &next, false, text, sizeof text);
        if (code != (facts[f].may ? ATTN_EXIT_OK : ATTN_EXIT_BASELINE))
            fail_msg("%s: exit %d\n%s", facts[f].path, (int)code, text);
        snprintf(line, sizeof line, "%s: the %s is ", facts[f].may ? "changed" : "differs",
                 facts[f].what);
        if (*facts[f].what && !strstr(text, line))
            fail_msg("%s: no '%s' in\n%s", facts[f].path, line, text);
        assert_int_equal(strstr(text, "not comparable") != NULL, !facts[f].may);
        assert_int_equal(compare(&base, &next, true, text, sizeof text), ATTN_EXIT_OK);
        assert_non_null(strstr(text, "geometric mean"));
        assert_null(strstr(text, "not comparable"));
        if (!*facts[f].what)
            assert_null(strstr(text, "the base and"));
        if (kept)
            json_object_set_new(at, key, kept);
        else
            json_object_del(at, key);
    }
    attn_run_release(&base);
    attn_run_release(&next);
}

/* All differences are named, and the sentence on stderr counts them. */
static void many_facts(void **state)
{
    (void)state;
    struct attn_run_data base = full(), next = full();
    char text[16384];
    json_object_del(next.machine, "page_bytes");
    json_object_del(next.machine, "libc");
    json_object_set_new(next.machine, "threads", json_integer(1));
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_BASELINE);
    assert_non_null(
        strstr(text, "differs: the page size is 4096 in the base and not stated in the new"));
    assert_non_null(strstr(text, "differs: the C library is \"2.36\" in the base and not stated"));
    assert_non_null(strstr(text, "not comparable: the number of threads is 2 in the base and 1 in "
                                 "the new, and 2 more differences; --cross compares nevertheless"));
    attn_run_release(&base);
    attn_run_release(&next);
}

/* Where only ceilings differ, other ways to compare are named. */
static void only_ceilings(void **state)
{
    (void)state;
    struct attn_run_data base = full(), next = full();
    char text[16384], key[64];
    json_t *at = holder(next.machine, "ceilings.rungs.1.f32", key);
    json_object_set_new(at, key, json_real(100));
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_BASELINE);
    assert_non_null(strstr(text, "'compare --live'; --cross compares nevertheless"));
    json_object_set_new(next.machine, "threads", json_integer(1));
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_BASELINE);
    assert_null(strstr(text, "--live"));
    /* Other work does not take them away. */
    json_object_set(next.machine, "threads", json_object_get(base.machine, "threads"));
    json_object_del(next.machine, "ceilings");
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_BASELINE);
    assert_null(strstr(text, "--live"));
    attn_run_release(&base);
    attn_run_release(&next);
}

/* What a round of blas says of its device, in each of two runs. */
struct reading {
    const char *throttled;
    double clock, memory;
};

static void put_reading(const struct attn_run_data *run, const struct reading *r)
{
    json_array_append_new(run->records,
                          json_pack("{s:s,s:s,s:s,s:s,s:s,s:{s:{s:s},s:{s:s,s:f,s:f}}}", "type",
                                    "round", "backend", "blas", "options", "", "id", "x", "status",
                                    "pass", "device", "before", "throttled", "none", "after",
                                    "throttled", r->throttled, "clock_mhz", r->clock,
                                    "memory_clock_mhz", r->memory));
}

static void devices(void **state)
{
    (void)state;
    static const struct {
        struct reading base, next;
        const char *says; /* "": comparable */
    } pairs[] = {
        {{"none", 1980, 2619}, {"none", 1890, 2619}, ""},
        {{"none", 1980, 2619}, {"none", 1700, 2619}, "clock of blas in MHz is 1980.0 in the base"},
        {{"none", 1980, 2619}, {"none", 1980, 2000}, "memory clock of blas in MHz is 2619.0"},
        {{"none", 1980, 2619},
         {"none", 0, 0},
         "clock of blas in MHz is 1980.0 in the base and 0.0"},
        {{"none", 0, 0}, {"none", 0, 0}, ""},
        {{"none", 0, 0},
         {"power cap", 0, 0},
         "throttling of blas is \"none\" in the base and \"power cap\""},
        {{"power cap", 0, 0}, {"none", 0, 0}, "throttling of blas is \"power cap\" in the base"},
        {{"power cap", 0, 0},
         {"power cap", 0, 0},
         "throttling of blas is \"power cap\" in the base and \"power cap\""},
        {{"not known: no NVML", 0, 0}, {"not known: no NVML", 0, 0}, ""},
        {{"not known: no NVML", 0, 0}, {"none", 0, 0}, "throttling of blas is \"not known: no"},
    };
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
        struct attn_run_data base = full(), next = full();
        char text[16384];
        put_reading(&base, &pairs[p].base);
        put_reading(&next, &pairs[p].next);
        const enum attn_exit code = compare(&base, &next, false, text, sizeof text);
        if (code != (*pairs[p].says ? ATTN_EXIT_BASELINE : ATTN_EXIT_OK) ||
            !strstr(text, pairs[p].says))
            fail_msg("pair %zu: exit %d\n%s", p, (int)code, text);
        attn_run_release(&base);
        attn_run_release(&next);
    }
}

/* Heat held the processors down as often in both runs: nobody knows by how much. */
static void throttled_in_both(void **state)
{
    (void)state;
    struct attn_run_data base = full(), next = full();
    char text[16384];
    json_object_set_new(base.machine, "throttled", json_integer(3));
    json_object_set_new(next.machine, "throttled", json_integer(3));
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_BASELINE);
    assert_non_null(strstr(text, "the number of throttling events is 3 in the base and 3 in the"));
    json_object_set_new(base.machine, "throttled", json_null());
    json_object_set_new(next.machine, "throttled", json_null());
    assert_int_equal(compare(&base, &next, false, text, sizeof text), ATTN_EXIT_OK);
    attn_run_release(&base);
    attn_run_release(&next);
}

/* Under --map a GPU is held against a GPU, whatever the backends are called. */
static void mapped_devices(void **state)
{
    (void)state;
    struct attn_run_data base = full(), next = full();
    const struct attn_compare_options options = {.map = {{"blas", "onednn"}}, .n_map = 1};
    struct attn_differences found;
    json_t *other = json_array_get(json_object_get(next.machine, "backends"), 4);
    assert_string_equal(json_string_value(json_object_get(other, "name")), "onednn");
    json_object_set_new(other, "device", json_true());
    put_reading(&base, &(struct reading){"power cap", 0, 0});
    assert_int_equal(attn_differences_find(&base, &next, &options, &found), 0);
    /* blas with itself, and with onednn: other libraries, so their versions may differ. */
    assert_int_equal(found.stopping, 2);
    assert_string_equal(found.items[found.count - 1].what, "throttling of blas");
    attn_differences_free(&found);
    json_object_set_new(other, "offered", json_string("blas")); /* one backend, called onednn */
    assert_int_equal(attn_differences_find(&base, &next, &options, &found), 0);
    assert_int_equal(found.stopping, 3);
    attn_differences_free(&found);
    attn_run_release(&base);
    attn_run_release(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fact),         cmocka_unit_test(many_facts),
        cmocka_unit_test(only_ceilings),     cmocka_unit_test(devices),
        cmocka_unit_test(throttled_in_both), cmocka_unit_test(mapped_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
