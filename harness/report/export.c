/* SPDX-License-Identifier: Apache-2.0 */
/* export.c - a run as JSON for other tools. Their formats, from their documentation:
 * https://github.com/google/benchmark/blob/main/docs/user_guide.md (JSON output),
 * https://github.com/benchmark-action/github-action-benchmark#readme (custom tools),
 * https://bencher.dev/docs/reference/bencher-metric-format */
#include "report/export.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"
#include "results/record.h"

/* Bencher refuses a file for one name that is longer. */
enum { NAME_MOST = 1024 };

static json_t *name_with(const struct attn_view *view, const struct attn_view_row *row,
                         const char *label)
{
    const char *backend = view->backends[row->backend].label;
    if (row->threads > 1)
        return json_sprintf("%s/%s/%s/threads:%.0f", backend, label, row->cache, row->threads);
    return json_sprintf("%s/%s/%s", backend, label, row->cache);
}

/* BACKEND/CASE/CACHE, and the threads if there are several. A case that is too long is its id. */
static json_t *name_of(const struct attn_view *view, const struct attn_view_row *row)
{
    json_t *name = name_with(view, row, row->label);
    if (json_string_length(name) <= NAME_MOST)
        return name;
    json_decref(name);
    return name_with(view, row, row->id);
}

static bool is_exported(const struct attn_view *view, const struct attn_view_row *row)
{
    return attn_row_timed(row) && view->backends[row->backend].counted;
}

/* An end of the interval of 95 %; NULL: it says nothing, or one round has none. */
static json_t *limit_json(double value)
{
    return isfinite(value) && value > 0 ? json_real(value) : NULL;
}

static json_t *bencher_json(const struct attn_run_data *run, const struct attn_view *view)
{
    json_t *all = json_object();
    (void)run;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!is_exported(view, row))
            continue;
        json_t *name = name_of(view, row);
        json_object_set_new(all, json_string_value(name),
                            json_pack("{s:{s:f,s:o*,s:o*}}", "latency", "value", row->median,
                                      "lower_value", limit_json(row->lo), "upper_value",
                                      limit_json(row->hi)));
        json_decref(name);
    }
    return all;
}

static json_t *github_json(const struct attn_run_data *run, const struct attn_view *view)
{
    json_t *all = json_array();
    (void)run;
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        const bool known = isfinite(row->lo) && isfinite(row->hi);
        if (!is_exported(view, row))
            continue;
        json_array_append_new(
            all,
            json_pack("{s:o,s:s,s:f,s:o*,s:o}", "name", name_of(view, row), "unit", "ns", "value",
                      row->median, "range",
                      known ? json_sprintf("%.0f to %.0f (95 %%)", row->lo, row->hi) : NULL,
                      "extra", json_sprintf("%zu rounds\nrerun: %s", row->rounds, row->repro)));
    }
    return all;
}

/* ---- Google Benchmark ---- */

/* "48K" -> 49152; 0: not known. */
static json_int_t bytes_of(const char *text)
{
    char *unit;
    const long long n = strtoll(text, &unit, 10);
    return n <= 0 || n > 1 << 30 ? 0 : *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
}

static json_t *caches_json(const json_t *machine)
{
    static const struct {
        const char *path, *type;
        int level;
    } caches[] = {{"cpu.l1d", "Data", 1}, {"cpu.l2", "Unified", 2}, {"cpu.l3", "Unified", 3}};
    json_t *list = json_array();
    for (size_t c = 0; c < sizeof caches / sizeof caches[0]; c++) {
        const json_int_t bytes = bytes_of(attn_field_text(machine, caches[c].path));
        if (bytes)
            json_array_append_new(list,
                                  json_pack("{s:s,s:i,s:I,s:i}", "type", caches[c].type, "level",
                                            caches[c].level, "size", bytes, "num_sharing", 0));
    }
    return list;
}

/* "attnbench" has machine.json as text, as AddCustomContext has only text. What is not known is 0
 * or empty. */
static json_t *context_json(const json_t *machine)
{
    const double online = attn_field_number(machine, "cpu.online");
    const char *governor = attn_field_text(machine, "governor");
    const bool debug = strstr(attn_field_text(machine, "attnbench.build"), "ebug") != NULL;
    char *own = json_dumps(machine, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_t *context =
        json_pack("{s:s,s:s,s:s,s:i,s:i,s:b,s:o,s:[],s:s,s:s}", "date",
                  attn_field_text(machine, "date"), "host_name", "", "executable", "attnbench",
                  "num_cpus", online > 0 && online < 1e6 ? (int)online : 0, "mhz_per_cpu", 0,
                  "cpu_scaling_enabled", *governor && strcmp(governor, "performance") != 0,
                  "caches", caches_json(machine), "load_avg", "library_build_type",
                  debug ? "debug" : "release", "attnbench", own ? own : "{}");
    free(own);
    return context;
}

/* Key of a timing -> array of its round records, in order. */
static json_t *rounds_by_key(const json_t *records)
{
    json_t *index = json_object(), *record;
    char key[ATTN_VIEW_KEY_MAX];
    size_t i;
    json_array_foreach(records, i, record)
    {
        if (strcmp(attn_field_text(record, "type"), "round") != 0)
            continue;
        attn_view_key(record, attn_field_text(record, "cache"), key, sizeof key);
        json_t *list = json_object_get(index, key);
        if (!list) {
            list = json_array();
            json_object_set_new(index, key, list);
        }
        json_array_append(list, record);
    }
    return index;
}

/* The record of a round with these samples: of `n` rounds the i-th, counted from the end, because
 * what was cut off has been measured again. NULL: there is none. */
static const json_t *round_of(const json_t *list, size_t n, size_t i, const json_t *samples)
{
    const size_t have = json_array_size(list);
    const json_t *record = have >= n ? json_array_get(list, have - n + i) : NULL;
    return record && json_equal(json_object_get(record, "samples_ns"), samples) ? record : NULL;
}

/* Element s of a list in a record; `otherwise` if it is not a number above 0. */
static double number_at(const json_t *record, const char *list, size_t s, double otherwise)
{
    const double value = json_number_value(json_array_get(json_object_get(record, list), s));
    return value > 0 ? value : otherwise;
}

static void put_samples(json_t *list, const struct attn_view *view, const struct attn_view_row *row,
                        int family, const json_t *records)
{
    const json_t *rounds = attn_field_at(row->bench, "samples_ns");
    size_t i, s, done = 0, all = 0;
    json_t *samples, *sample, *name = name_of(view, row);
    json_array_foreach(rounds, i, samples) all += json_array_size(samples);
    json_array_foreach(rounds, i, samples)
    {
        const json_t *record = round_of(records, json_array_size(rounds), i, samples);
        json_array_foreach(samples, s, sample)
        {
            const double real = json_number_value(sample);
            if (!(real > 0)) /* a damaged record */
                continue;
            json_array_append_new(
                list,
                json_pack("{s:O,s:i,s:i,s:O,s:s,s:I,s:I,s:i,s:I,s:f,s:f,s:s,"
                          "s:{s:s,s:s,s:s,s:s,s:s,s:s,s:I}}",
                          "name", name, "family_index", family, "per_family_instance_index", 0,
                          "run_name", name, "run_type", "iteration", "repetitions", (json_int_t)all,
                          "repetition_index", (json_int_t)done++, "threads",
                          row->threads >= 1 && row->threads < 1e6 ? (int)row->threads : 1,
                          "iterations", (json_int_t)number_at(record, "iterations", s, 0),
                          "real_time", real, "cpu_time", number_at(record, "cpu_ns", s, real),
                          "time_unit", "ns", "attnbench", "case", row->line, "name", row->name,
                          "id", row->id, "backend", view->backends[row->backend].name, "options",
                          row->options, "cache", row->cache, "round", (json_int_t)i));
        }
    }
    json_decref(name);
}

static json_t *gbench_json(const struct attn_run_data *run, const struct attn_view *view)
{
    json_t *list = json_array(), *index = rounds_by_key(run->records);
    char key[ATTN_VIEW_KEY_MAX];
    int family = 0;
    for (size_t r = 0; r < view->n_rows; r++) {
        if (!is_exported(view, &view->rows[r]))
            continue;
        const struct attn_view_row *row = &view->rows[r];
        attn_view_key(row->bench, row->cache, key, sizeof key);
        put_samples(list, view, row, family++, json_object_get(index, key));
    }
    json_decref(index);
    return json_pack("{s:o,s:o}", "context", context_json(run->machine), "benchmarks", list);
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    json_t *(*make)(const struct attn_run_data *, const struct attn_view *);
    void (*put)(FILE *, const struct attn_view *);
} formats[] = {
    {"google-benchmark", gbench_json, NULL},
    {"github-action-benchmark", github_json, NULL},
    {"bencher", bencher_json, NULL},
    {"junit", NULL, attn_junit_put},
    {"csv", NULL, attn_csv_put},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static bool has_any(const struct attn_view *view, size_t f)
{
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (formats[f].make ? is_exported(view, row)
                            : formats[f].put == attn_junit_put || row->bench)
            return true;
    }
    return false;
}

static int put(FILE *out, const struct attn_run_data *run, const struct attn_view *view, size_t f)
{
    if (formats[f].put) {
        formats[f].put(out, view);
        return ferror(out) ? -1 : 0;
    }
    json_t *value = formats[f].make(run, view);
    const int status = value ? json_dumpf(value, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : -1;
    json_decref(value);
    fputc('\n', out);
    return status != 0 || ferror(out) ? -1 : 0;
}

int attn_export_put(FILE *out, const struct attn_run_data *run, const char *format, bool *nothing,
                    char *why, size_t size)
{
    struct attn_view view = {0};
    size_t f = 0;
    *nothing = false;
    while (f < FORMATS && strcmp(formats[f].name, format) != 0)
        f++;
    if (f == FORMATS) {
        snprintf(why, size, "there is no format '%.64s'; there are " ATTN_EXPORT_FORMATS, format);
        return 1;
    }
    if (attn_view_create(run->records, run->machine, &view, why, size) != 0)
        return -1;
    int status = 1;
    *nothing = !has_any(&view, f);
    if (*nothing)
        snprintf(why, size, "%s has no result %s", run->path,
                 formats[f].put == attn_junit_put ? "at all" : "with a time");
    else if ((status = put(out, run, &view, f)) != 0)
        snprintf(why, size, "the export could not be written");
    attn_view_free(&view);
    return status;
}
