/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.c - the made-up run. */
#include "synthetic.h"

#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "results/field.h"
#include "results/journal.h"
#include "results/statistics.h"

struct shape {
    const char *name;
    int h, s, d, causal;
};

struct maker {
    json_t *records;
    struct synthetic options;
    uint64_t state;
};

static double uniform(struct maker *maker)
{
    maker->state = maker->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(maker->state >> 11) * 0x1p-53;
}

/* Near enough to normal: a sum of twelve. */
static double noise(struct maker *maker)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += uniform(maker);
    return sum;
}

static double gflops_of(const char *backend, const struct shape *shape)
{
    double s = shape->s, d = shape->d;
    if (strcmp(backend, "naive") == 0)
        return 2.1 * (s > 4096 ? 0.8 : 1);
    if (strcmp(backend, "avx2") == 0)
        return 88 * s / (s + 90) * fmin(1, d / 48) * (shape->causal ? 0.88 : 1);
    if (strcmp(backend, "blas") == 0)
        return 61 * s / (s + 300) * (s > 4096 ? 0.7 : 1) * fmin(1, d / 40) *
               (shape->causal ? 0.5 : 1);
    return 104 * s / (s + 160) * fmin(1, d / 56);
}

/* What goes wrong where: status and reason, or "pass". */
static const char *verdict(const char *backend, const struct shape *shape, const char **reason)
{
    *reason = "";
    if (strcmp(backend, "naive") == 0 && shape->s >= 8192) {
        *reason = "budget: a run is predicted to take 41 s, the limit is 1 s";
        return "skip";
    }
    if (strcmp(backend, "onednn") == 0 && shape->causal && shape->d == 64 && shape->h == 8) {
        *reason = "causal masks are not supported here";
        return shape->s > 256 ? "skip" : "pass";
    }
    if (strcmp(backend, "onednn") == 0 && shape->d == 40) {
        *reason = "out[b0 h3 q17 c2] is 0.125, expected 0.0625: error 1.3e4 x bound";
        return "fail";
    }
    if (strcmp(backend, "blas") == 0 && shape->d == 256) {
        *reason = "signal 11 at <0x10> & \"out of\" range";
        return "crash";
    }
    return "pass";
}

static json_t *common(const char *type, const char *backend, const struct shape *shape,
                      const char *status, const char *reason)
{
    char line[160], id[32], repro[256];
    snprintf(line, sizeof line, "dk=%d hq=%d%s sq=%d", shape->d, shape->h,
             shape->causal ? " mask=causal" : "", shape->s);
    snprintf(id, sizeof id, "%04d%04d%06d%d0", shape->d, shape->h, shape->s, shape->causal);
    snprintf(repro, sizeof repro, "attnbench verify -b %s '%s'", backend, line);
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:s,s:s}", "type", type, "case", line,
                     "name", shape->name, "id", id, "backend", backend, "options", "", "threads", 2,
                     "status", status, "reason", reason, "repro", repro, "path", "tile 64x64");
}

static void put_verify(struct maker *maker, const char *backend, const struct shape *shape,
                       const char *status, const char *reason)
{
    json_t *record = common("verify", backend, shape, status, reason);
    double ratio = 0.05 + 0.1 * uniform(maker);
    if (strcmp(status, "fail") == 0)
        ratio = 1.3e4;
    if (strcmp(status, "pass") == 0 || strcmp(status, "fail") == 0) {
        json_object_set_new(record, "max_ratio", json_real(ratio));
        json_object_set_new(record, "median_ratio", json_real(0.02 * ratio));
        json_object_set_new(record, "grade", json_real(8 * ratio));
        json_object_set_new(record, "slack", json_real(8));
    }
    json_object_set_new(record, "numerics", json_pack("{s:s}", "acc_type", "f32"));
    json_object_set_new(record, "seconds", json_real(0.01));
    json_object_set_new(record, "exactness",
                        json_string(strcmp(backend, "null") == 0 ? "none" : "exact"));
    json_array_append_new(maker->records, record);
}

static double peak_of(const char *backend, const struct shape *shape)
{
    double s = shape->s, score = 4.0 * s * s * (strcmp(backend, "blas") == 0 ? shape->h : 1);
    if (strcmp(backend, "avx2") == 0)
        return 140e3 + 12 * s;
    if (strcmp(backend, "onednn") == 0)
        return 900e3 + 320 * s;
    return score + 30e3;
}

/* Samples by round into a new list, and their summary. */
static json_t *draw_samples(struct maker *maker, double ns, struct attn_summary *summary)
{
    double values[16][4];
    const double *samples[16];
    size_t counts[16], rounds = maker->options.rounds ? (size_t)maker->options.rounds : 5;
    double spread = maker->options.noise > 0 ? maker->options.noise : 0.01;
    json_t *list = json_array();
    for (size_t r = 0; r < rounds; r++) {
        double drift = spread * noise(maker);
        json_t *round = json_array();
        for (size_t i = 0; i < 4; i++) {
            values[r][i] = ns * exp(drift + 0.3 * spread * noise(maker));
            json_array_append_new(round, json_real(values[r][i]));
        }
        samples[r] = values[r];
        counts[r] = 4;
        json_array_append_new(list, round);
    }
    attn_summarise(samples, counts, rounds, summary);
    return list;
}

static void put_bench(struct maker *maker, const char *backend, const struct shape *shape,
                      const char *cache)
{
    double s = shape->s, cells = shape->causal ? s * (s + 1) / 2 : s * s;
    double flops = 4.0 * shape->d * cells * shape->h;
    double ns = strcmp(backend, "null") == 0 ? 800 : flops / gflops_of(backend, shape);
    if (maker->options.slow && strcmp(maker->options.slow, backend) == 0)
        ns *= maker->options.slowdown;
    struct attn_summary t;
    json_t *record = common("bench", backend, shape, "pass", "");
    json_t *samples = draw_samples(maker, ns, &t);
    json_t *ci = t.rounds > 1 ? json_pack("[f,f]", t.lo, t.hi) : json_null();
    json_object_set_new(record, "cache", json_string(cache));
    json_object_set_new(record, "time_ns",
                        json_pack("{s:f,s:f,s:f,s:f,s:o,s:i}", "median", t.median, "min", t.min,
                                  "p10", t.p10, "p90", t.p90, "ci95", ci, "n", (int)t.n));
    json_object_set_new(record, "samples_ns", samples);
    json_object_set_new(record, "flops", json_real(flops));
    json_object_set_new(record, "bytes", json_real(16.0 * s * shape->d * shape->h));
    json_object_set_new(record, "gflops", json_real(flops / t.median));
    json_object_set_new(record, "gbs", json_real(16.0 * s * shape->d * shape->h / t.median));
    json_object_set_new(record, "workspace_bytes", json_integer(65536));
    json_object_set_new(record, "peak_bytes", json_integer((json_int_t)peak_of(backend, shape)));
    json_object_set_new(record, "threads_seen", json_integer(2));
    json_object_set_new(record, "overhead_marked", json_boolean(t.median < 2e6));
    json_object_set_new(record, "sizes",
                        json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:b}", "op",
                                  "attention", "score", "scaled_dot", "dtype", "f32", "b", 1, "hq",
                                  shape->h, "hkv", shape->h, "sq", shape->s, "sk", shape->s, "dq",
                                  shape->d, "dk", shape->d, "dv", shape->d, "causal",
                                  shape->causal));
    json_object_set_new(record, "exactness",
                        json_string(strcmp(backend, "null") == 0 ? "none" : "exact"));
    json_array_append_new(maker->records, record);
}

static const char *const names[] = {"null", "naive", "avx2", "blas", "onednn"};

static void put_shape(struct maker *maker, const char *family, int h, int s, int d, int causal)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s_h%d_s%d_d%d", family, causal ? "_causal" : "", h, s, d);
    struct shape shape = {name, h, s, d, causal};
    for (size_t b = 0; b < sizeof names / sizeof names[0]; b++) {
        const char *reason, *status = verdict(names[b], &shape, &reason);
        put_verify(maker, names[b], &shape, status, reason);
        if (strcmp(status, "pass") != 0)
            continue;
        put_bench(maker, names[b], &shape, "hot");
        if (s == 1024)
            put_bench(maker, names[b], &shape, "cold");
    }
}

static json_t *make_machine(void)
{
    json_t *list = json_array();
    for (size_t b = 0; b < sizeof names / sizeof names[0]; b++)
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:s,s:s,s:b,s:s}", "name", names[b], "plugin", names[b],
                            "version", b == 3 ? "OpenBLAS 0.3.21" : "0.1.0", "exactness",
                            b == 0 ? "none" : "exact", "available", 1, "reason", ""));
    json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:b,s:s}", "name", "cuda", "plugin",
                                          "cuda", "version", "", "exactness", "exact", "available",
                                          0, "reason", "no CUDA device"));
    json_t *ceilings = json_pack(
        "{s:s,s:f,s:f,s:f,s:f,s:[{s:s,s:f,s:f,s:f},{s:s,s:f,s:f,s:f}],"
        "s:[{s:s,s:i,s:f},{s:s,s:i,s:f},{s:s,s:i,s:f}],s:[{s:s,s:s,s:s,s:f}]}",
        "isa", "avx512", "fma_gflops_f32", 228.4, "fma_gflops_f64", 114.2, "avx2_gflops_f32", 117.2,
        "read_gbs", 31.5, "rungs", "isa", "avx2", "f32", 117.2, "f64", 58.6, "bf16", 0.0, "isa",
        "avx512", "f32", 228.4, "f64", 114.2, "bf16", 456.8, "reads", "level", "L1", "bytes", 65536,
        "gbs", 400.0, "level", "L2", "bytes", 2097152, "gbs", 220.0, "level", "memory", "bytes", 0,
        "gbs", 31.5, "gemm", "backend", "blas", "case", "op=mha", "dtype", "f32", "gflops", 201.3);
    return json_pack("{s:{s:s,s:s,s:s},s:s,s:{s:s,s:i},s:i,s:{s:i,s:i},s:o,s:o}", "attnbench",
                     "version", "0.1.0", "commit", "0123456789abcdef", "build", "Release", "date",
                     "2026-01-31T12:00:00Z", "cpu", "model", "AMD EPYC 9R14 96-Core Processor",
                     "cores", 2, "threads", 2, "protocol", "rounds", 5, "samples", 4, "ceilings",
                     ceilings, "backends", list);
}

struct attn_run_data synthetic_run(struct synthetic options)
{
    static const int lengths[] = {128, 256, 512, 1024, 2048, 4096, 8192, 16384};
    static const int heads[] = {1, 2, 4, 8, 16, 32};
    static const int widths[] = {16, 32, 40, 64, 80, 96, 128, 256};
    struct maker maker = {json_array(), options, options.seed * 7919u + 1};
    for (int causal = 0; causal < 2; causal++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            put_shape(&maker, "seqlen", 8, lengths[i], 64, causal);
        for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
            if (heads[i] != 8)
                put_shape(&maker, "heads", heads[i], 1024, 64, causal);
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
            if (widths[i] != 64)
                put_shape(&maker, "dim", 8, 1024, widths[i], causal);
    }
    struct attn_run_data run = {.records = maker.records, .machine = make_machine()};
    snprintf(run.path, sizeof run.path, "synthetic");
    return run;
}

struct attn_run_data synthetic_small(void)
{
    struct attn_run_data run = synthetic_run((struct synthetic){.seed = 1});
    while (json_array_size(run.records) > 24)
        json_array_remove(run.records, 24);
    return run;
}

/* A copy, every number in it multiplied. */
static json_t *scaled(const json_t *value, double factor)
{
    const char *key;
    json_t *copy, *item;
    size_t i;
    if (json_is_number(value))
        return json_real(json_number_value(value) * factor);
    copy = json_copy((json_t *)value);
    json_array_foreach(value, i, item)
    {
        json_array_set_new(copy, i, scaled(item, factor));
    }
    json_object_foreach((json_t *)value, key, item)
    {
        json_object_set_new(copy, key, scaled(item, factor));
    }
    return copy;
}

void synthetic_scale(json_t *record, const char *key, double factor)
{
    if (json_object_get(record, key))
        json_object_set_new(record, key, scaled(json_object_get(record, key), factor));
}

static json_t *backward_of(const json_t *record, double factor)
{
    const char *line = attn_field_text(record, "case"), *length = strstr(line, "sq=");
    char text[192];
    json_t *copy = json_deep_copy(record);
    snprintf(text, sizeof text, "%.*sop=attention_backward %s", (int)(length - line), line, length);
    json_object_set_new(copy, "case", json_string(text));
    snprintf(text, sizeof text, "B%s", attn_field_text(record, "id"));
    json_object_set_new(copy, "id", json_string(text));
    snprintf(text, sizeof text, "bwd_%s", attn_field_text(record, "name"));
    json_object_set_new(copy, "name", json_string(text));
    synthetic_scale(copy, "time_ns", factor);
    synthetic_scale(copy, "samples_ns", factor);
    synthetic_scale(copy, "flops", 2.5);
    synthetic_scale(copy, "gflops", 2.5 / factor);
    synthetic_scale(copy, "bytes", 2);
    synthetic_scale(copy, "gbs", 2 / factor);
    synthetic_scale(copy, "peak_bytes", 2);
    if (json_object_get(copy, "sizes"))
        json_object_set_new(json_object_get(copy, "sizes"), "op",
                            json_string("attention_backward"));
    return copy;
}

void synthetic_backward(struct attn_run_data *run, double factor)
{
    static const char start[] = "dk=64 hq=8 ";
    const size_t n = json_array_size(run->records);
    for (size_t i = 0; i < n; i++) {
        const json_t *record = json_array_get(run->records, i);
        if (strncmp(attn_field_text(record, "case"), start, sizeof start - 1) == 0)
            json_array_append_new(run->records, backward_of(record, factor));
    }
}

void synthetic_untime(struct attn_run_data *run, const char *backend, const char *word)
{
    for (size_t i = json_array_size(run->records); i-- > 0;) {
        const json_t *record = json_array_get(run->records, i);
        if (strcmp(json_string_value(json_object_get(record, "type")), "bench") == 0 &&
            strcmp(json_string_value(json_object_get(record, "backend")), backend) == 0 &&
            strstr(json_string_value(json_object_get(record, "case")), word))
            json_array_remove(run->records, i);
    }
}

int synthetic_folder(const struct attn_run_data *run, const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "%s/machine.json", folder);
    if (json_dump_file(run->machine, path, JSON_INDENT(1)) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/results.ndjson", folder);
    struct attn_journal journal;
    char why[512];
    json_t *about = json_object(), *record;
    unlink(path);
    int status = attn_journal_create(path, NULL, about, &journal, why, sizeof why);
    size_t i;
    json_decref(about);
    json_array_foreach(run->records, i, record)
    {
        status = status || attn_journal_append(&journal, record) != 0;
    }
    status = status || attn_journal_end(&journal) != 0;
    attn_journal_close(&journal);
    return status;
}

static json_t *answer(const char *reason)
{
    return json_pack("{s:b,s:s}", "supported", !*reason, "reason", reason);
}

/* A feature in f64 and f32; the last of the four backends answers where `asked`. */
static json_t *make_feature(const char *group, const char *name, const char *line, int asked)
{
    char f64[128];
    snprintf(f64, sizeof f64, "%s dtype=f64", line);
    return json_pack("{s:s,s:s,s:b,s:[{s:s,s:s,s:[o,o,n,o]},{s:s,s:s,s:[o,o,n,o]}]}", "group",
                     group, "feature", name, "deterministic", strcmp(name, "bits") == 0, "problems",
                     "type", "f64", "case", f64, "answers", answer(""), answer("only <f32> | here"),
                     asked ? answer("") : json_null(), "type", "f32", "case", line, "answers",
                     answer(""), answer(asked ? "" : "no masks"), asked ? answer("") : json_null());
}

json_t *synthetic_matrix(void)
{
    static const char backend[] = "{s:s,s:s,s:b,s:s,s:s,s:[s]}";
    json_t *list = json_array();
    json_array_append_new(list,
                          json_pack(backend, "name", "naive", "options", "", "available", 1,
                                    "reason", "", "exactness", "exact", "empty_rows", "zero"));
    json_array_append_new(list,
                          json_pack(backend, "name", "avx2", "options", "tile=64", "available", 1,
                                    "reason", "", "exactness", "exact", "empty_rows", "nan"));
    json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:s,s:s,s:[]}", "name", "cuda", "options",
                                          "", "available", 0, "reason", "no CUDA device",
                                          "exactness", "exact", "empty_rows"));
    json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:s,s:s,s:[]}", "name", "null", "options",
                                          "", "available", 1, "reason", "crash: signal 11",
                                          "exactness", "none", "empty_rows"));
    return json_pack("{s:o,s:[o,o,o]}", "backends", list, "features",
                     make_feature("scores", "dot", "dk=8 sq=4", 1),
                     make_feature("scores", "bits", "dk=8 sq=4", 1),
                     make_feature("masks", "causal", "dk=8 mask=causal sq=4", 0));
}
