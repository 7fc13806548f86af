/* SPDX-License-Identifier: Apache-2.0 */
/* roof.c - ceilings and matrix products, each measured in a worker of its own. */
#include "run/roof.h"

#include <string.h>

#include "case/operator.h"
#include "pack/make.h"
#include "reference/dtype.h"
#include "results/field.h"

/* As many as the best of them takes to be a roof. */
enum { PRODUCT_SAMPLES = 10 };

static struct attn_worker_config config_of(const struct attn_session *session)
{
    return (struct attn_worker_config){.worker_path = session->paths->worker,
                                       .options = "",
                                       .threads = session->settings.threads,
                                       .timeout_s = session->settings.timeout_s};
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

void attn_roof_raise(const struct attn_session *session, struct attn_roof *roof)
{
    const struct attn_ceilings *before = &roof->ceilings;
    struct attn_ceilings now;
    struct attn_worker_config config = config_of(session);
    struct attn_worker *worker;
    struct attn_outcome outcome = attn_worker_start(&config, &worker);
    if (outcome.status != ATTN_PASS)
        return;
    outcome = attn_worker_ceilings(worker, &now);
    attn_worker_stop(worker);
    if (outcome.status != ATTN_PASS)
        return;
    /* A value that was not measured before is 0. */
    for (uint32_t r = 0; r < now.n_rungs; r++) {
        now.rungs[r].f32 = larger(now.rungs[r].f32, before->rungs[r].f32);
        now.rungs[r].f64 = larger(now.rungs[r].f64, before->rungs[r].f64);
        now.rungs[r].f16 = larger(now.rungs[r].f16, before->rungs[r].f16);
        now.rungs[r].bf16 = larger(now.rungs[r].bf16, before->rungs[r].bf16);
    }
    now.clock_ghz = larger(now.clock_ghz, before->clock_ghz);
    for (uint32_t r = 0; r < now.n_reads; r++)
        now.reads[r].gbs = larger(now.reads[r].gbs, before->reads[r].gbs);
    roof->ceilings = now;
}

bool attn_roof_restore(struct attn_roof *roof, const json_t *ceilings)
{
    const json_t *rungs = json_object_get(ceilings, "rungs"),
                 *reads = json_object_get(ceilings, "reads"),
                 *gemm = json_object_get(ceilings, "gemm");
    const size_t n_rungs = json_array_size(rungs), n_reads = json_array_size(reads);
    struct attn_ceilings *c = &roof->ceilings;
    if (n_rungs == 0 || n_rungs > sizeof c->rungs / sizeof *c->rungs || n_reads == 0 ||
        n_reads > sizeof c->reads / sizeof *c->reads || !json_is_array(gemm))
        return false;
    for (size_t r = 0; r < n_rungs; r++) {
        const json_t *rung = json_array_get(rungs, r);
        struct attn_rung *to = &c->rungs[r];
        snprintf(to->isa, sizeof to->isa, "%s", attn_field_text(rung, "isa"));
        to->f32 = json_number_value(json_object_get(rung, "f32"));
        to->f64 = json_number_value(json_object_get(rung, "f64"));
        to->f16 = json_number_value(json_object_get(rung, "f16"));
        to->bf16 = json_number_value(json_object_get(rung, "bf16"));
    }
    for (size_t r = 0; r < n_reads; r++) {
        const json_t *read = json_array_get(reads, r);
        c->reads[r].bytes = (uint64_t)json_integer_value(json_object_get(read, "bytes"));
        c->reads[r].gbs = json_number_value(json_object_get(read, "gbs"));
    }
    c->clock_ghz = json_number_value(json_object_get(ceilings, "clock_ghz"));
    c->n_rungs = (uint32_t)n_rungs;
    c->n_reads = (uint32_t)n_reads;
    roof->gemm = json_deep_copy(gemm);
    return true;
}

/* The best rate of a case on a backend, in GFLOP/s; 0 if there is none. */
static double product_rate(const struct attn_session *session, const char *plugin,
                           const char *backend, const struct attn_case *c)
{
    struct attn_bench_params params = {.min_time = 0, .samples = PRODUCT_SAMPLES};
    struct attn_worker_config config = config_of(session);
    struct attn_bench_reply reply;
    struct attn_plan_info plan;
    struct attn_instance *instance;
    struct attn_worker *worker;
    char why[256];
    double best = 0;
    config.plugin_path = plugin;
    config.backend = backend;
    if (attn_instance_create(c, session->settings.host_threads, &instance, why, sizeof why) != 0)
        return 0;
    struct attn_outcome outcome = attn_worker_start(&config, &worker);
    if (outcome.status == ATTN_PASS) {
        outcome = attn_worker_bench(worker, instance, &params, &reply, &plan);
        attn_worker_stop(worker);
    }
    for (int s = 0; outcome.status == ATTN_PASS && s < reply.n; s++)
        best = larger(best, attn_case_flops(c, attn_case_cells(c)) / reply.samples_ns[s]);
    attn_instance_free(instance);
    return best;
}

static bool has_type(const struct attn_session *session, uint32_t dtype)
{
    for (size_t i = 0; i < session->cases.count; i++)
        if (session->cases.items[i].dtype == dtype)
            return true;
    return false;
}

/* The lines of one file. */
static void measure_products(const struct attn_session *session, const char *name,
                             struct attn_roof *roof)
{
    char path[ATTN_PATH_MAX], plugin[ATTN_PATH_MAX], backend[64], why[512];
    struct attn_case_list list = {0};
    int length = (int)strcspn(name, ".");
    snprintf(backend, sizeof backend, "%.*s", length, name);
    if (attn_path_join(path, session->paths->plugins, name) ||
        snprintf(plugin, sizeof plugin, "%s/%s.so", session->paths->plugins, backend) >=
            (int)sizeof plugin ||
        attn_case_parse_file(path, &list, why, sizeof why))
        return;
    for (size_t i = 0; i < list.count && !attn_interrupted; i++) {
        const struct attn_case *c = &list.items[i];
        char line[ATTN_CASE_LINE_MAX];
        const double rate =
            has_type(session, c->dtype) ? product_rate(session, plugin, backend, c) : 0;
        attn_case_canonical(c, line, sizeof line);
        if (rate > 0)
            json_array_append_new(roof->gemm, json_pack("{s:s, s:s, s:s, s:f}", "backend", backend,
                                                        "case", line, "dtype",
                                                        attn_dtype_name(c->dtype), "gflops", rate));
    }
    attn_case_list_free(&list);
}

void attn_roof_products(const struct attn_session *session, struct attn_roof *roof)
{
    char **names;
    size_t n;
    attn_names_in(session->paths->plugins, ".roof", &names, &n);
    roof->gemm = json_array();
    for (size_t i = 0; i < n; i++)
        measure_products(session, names[i], roof);
    attn_names_free(names, n);
}
