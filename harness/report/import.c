/* SPDX-License-Identifier: Apache-2.0 */
/* import.c - the JSON of Google Benchmark as the records of a run. The format is described at
 * https://github.com/google/benchmark/blob/main/docs/user_guide.md (JSON output, custom context,
 * reporting aggregates, skipping with an error). */
#include <ctype.h>
#include <math.h>
#include <sha2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "case/text.h"
#include "report/export.h"
#include "results/field.h"
#include "results/record.h"
#include "results/statistics.h"

#define UNJUDGED "imported from Google Benchmark: nobody has judged the numbers here"
enum { NAME_MOST = 8192, THREADS_MOST = 4096 };

struct import {
    const char *text;
    size_t length;
    const char *backend; /* of benchmarks that are not ours */
    json_t *results;     /* key -> {first fields of its record, samples_ns}, in order */
    size_t entry;        /* in the making, from 0 */
    const char *name;    /* of that entry, or NULL */
    int threads;         /* the most of any entry */
    char *why;
    size_t size;
};

/* The line on which entry n of the list "benchmarks" begins; 0: not found. The text is valid JSON
 * without duplicate keys. */
static int line_of(const struct import *im, size_t n)
{
    int line = 1, depth = 0, list = 0; /* list: the depth of the elements of "benchmarks" */
    for (size_t i = 0; i < im->length; i++) {
        const char c = im->text[i];
        line += c == '\n';
        if (c == '"') {
            const size_t from = i + 1;
            for (i = from; i < im->length && im->text[i] != '"'; i++)
                i += im->text[i] == '\\';
            size_t next = i + 1;
            while (next < im->length && isspace((unsigned char)im->text[next]))
                next++;
            if (depth == 1 && next < im->length && im->text[next] == ':' && i - from == 10 &&
                memcmp(im->text + from, "benchmarks", 10) == 0)
                list = 2;
        } else if (c == '{' || c == '[') {
            if (depth == list && list && n-- == 0)
                return line;
            depth++;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return 0;
}

/* "line 12, benchmark 3 ('BM_x'): has no real_time" */
__attribute__((format(printf, 2, 3))) static int refuse(const struct import *im, const char *format,
                                                        ...)
{
    char what[192];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    attn_text_clean(what);
    const int line = line_of(im, im->entry);
    int n = 0;
    if (line > 0)
        n = snprintf(im->why, im->size, "line %d, ", line);
    if (n >= 0 && (size_t)n < im->size)
        snprintf(im->why + n, im->size - (size_t)n, "benchmark %zu%s%.64s%s %s", im->entry + 1,
                 im->name ? " ('" : "", im->name ? im->name : "", im->name ? "')" : "", what);
    return -1;
}

/* Text without control characters, and not too long. */
static bool is_clean(const char *text)
{
    return strlen(text) <= NAME_MOST && attn_text_is_clean(text);
}

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), s = strlen(suffix);
    return n > s && strcmp(text + n - s, suffix) == 0;
}

/* Versions before 1.5 have no run_type. */
static bool is_aggregate(const json_t *entry)
{
    static const char *const suffixes[] = {"_mean", "_median", "_stddev", "_cv", "_BigO", "_RMS"};
    const char *type = attn_field_text(entry, "run_type");
    if (*type)
        return strcmp(type, "aggregate") == 0;
    for (size_t s = 0; s < sizeof suffixes / sizeof suffixes[0]; s++)
        if (ends_with(attn_field_text(entry, "name"), suffixes[s]))
            return true;
    return false;
}

/* Nanoseconds of a time in an entry. Returns 0, or -1 with the reason. */
static int take_time(const struct import *im, const json_t *entry, double *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const json_t *unit = json_object_get(entry, "time_unit");
    const char *name = unit ? json_string_value(unit) : "ns";
    const double time = attn_field_number(entry, "real_time");
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        if (name && strcmp(units[u].name, name) == 0) {
            *ns = time * units[u].ns;
            return *ns > 0 && isfinite(*ns) ? 0 : refuse(im, "has no real_time above 0");
        }
    return refuse(im, "has a time_unit that is none of ns, us, ms and s");
}

static int take_threads(struct import *im, const json_t *entry, int *threads)
{
    const json_t *value = json_object_get(entry, "threads");
    const json_int_t n = value ? json_integer_value(value) : 1;
    if (n < 1 || n > THREADS_MOST)
        return refuse(im, "has no threads from 1 to %d", (int)THREADS_MOST);
    *threads = (int)n;
    im->threads = im->threads > *threads ? im->threads : *threads;
    return 0;
}

static json_t *id_of(const char *name)
{
    uint8_t digest[SHA256_DIGEST_LENGTH];
    char id[17];
    SHA2_CTX hash;
    SHA256Init(&hash);
    SHA256Update(&hash, (const uint8_t *)name, strlen(name));
    SHA256Final(digest, &hash);
    for (size_t i = 0; i < 8; i++)
        snprintf(id + 2 * i, 3, "%02x", digest[i]);
    return json_string(id);
}

/* The first fields of a result's record: what attnbench has exported says them, else the name of
 * the benchmark is the case. NULL with the reason. */
static json_t *begin_record(const struct import *im, const json_t *entry, int threads)
{
    static const char *const fields[] = {"case", "name", "id", "backend", "options", "cache"};
    const json_t *own = json_object_get(entry, "attnbench");
    json_t *r = json_pack("{s:s}", "type", "bench");
    for (size_t f = 0; own && f < sizeof fields / sizeof fields[0]; f++) {
        const json_t *value = json_object_get(own, fields[f]);
        const char *text = json_string_value(value);
        if (!text || !is_clean(text) ||
            (!*text && strcmp(fields[f], "name") != 0 && strcmp(fields[f], "options") != 0)) {
            refuse(im, "has no usable attnbench.%s", fields[f]);
            json_decref(r);
            return NULL;
        }
        json_object_set_new(r, fields[f], json_string(text));
    }
    if (!own)
        json_object_update_new(r, json_pack("{s:s,s:s,s:o,s:s,s:s,s:s}", "case", im->name, "name",
                                            "", "id", id_of(im->name), "backend", im->backend,
                                            "options", "", "cache", "hot"));
    json_object_update_new(r, json_pack("{s:i,s:s,s:s,s:s,s:s,s:[]}", "threads", threads, "status",
                                        "mistrusted", "reason", UNJUDGED, "repro", "", "path", "",
                                        "samples_ns"));
    return r;
}

/* The round of a sample: what attnbench has exported names it; else each repetition is one. */
static int round_of(const struct import *im, const json_t *entry, json_t *rounds, json_t **round)
{
    const json_t *own = json_object_get(entry, "attnbench"), *number;
    const size_t have = json_array_size(rounds);
    json_int_t n = (json_int_t)have;
    if (own) {
        number = json_object_get(own, "round");
        n = json_is_integer(number) ? json_integer_value(number) : -1;
    }
    if (n < 0 || n > (json_int_t)have)
        return refuse(im, "has no attnbench.round that follows the round before");
    if (n == (json_int_t)have)
        json_array_append_new(rounds, json_array());
    *round = json_array_get(rounds, (size_t)n);
    return *round ? 0 : refuse(im, "found no memory");
}

static int take_sample(struct import *im, const json_t *entry)
{
    double ns = 0;
    int threads = 1;
    json_t *round;
    if (take_time(im, entry, &ns) != 0 || take_threads(im, entry, &threads) != 0)
        return -1;
    json_t *fresh = begin_record(im, entry, threads);
    if (!fresh)
        return -1;
    json_t *key = json_sprintf("%s|%s|%s|%d|%s", attn_field_text(fresh, "id"),
                               attn_field_text(fresh, "backend"), attn_field_text(fresh, "options"),
                               threads, attn_field_text(fresh, "cache"));
    json_t *known = json_object_get(im->results, json_string_value(key));
    int status = 0;
    if (known)
        json_decref(fresh);
    else if (!key || json_object_set_new(im->results, json_string_value(key), known = fresh) != 0)
        status = refuse(im, "found no memory");
    json_decref(key);
    if (status == 0)
        status = round_of(im, entry, json_object_get(known, "samples_ns"), &round);
    if (status == 0 && json_array_append_new(round, json_real(ns)) != 0)
        status = refuse(im, "found no memory");
    return status;
}

/* A benchmark that ended itself with an error: a result without a time. */
static int take_error(struct import *im, const json_t *entry)
{
    const char *message = attn_field_text(entry, "error_message");
    int threads = 1;
    if (take_threads(im, entry, &threads) != 0)
        return -1;
    json_t *r = begin_record(im, entry, threads);
    if (!r)
        return -1;
    json_object_set_new(r, "type", json_string("verify"));
    json_object_set_new(r, "status", json_string("error"));
    json_object_set_new(r, "reason",
                        json_string(*message && is_clean(message) ? message : "error_occurred"));
    json_object_del(r, "samples_ns");
    json_t *key = json_sprintf("error %zu", im->entry);
    const int status = json_object_set_new(im->results, json_string_value(key), r);
    json_decref(key);
    return status == 0 ? 0 : refuse(im, "found no memory");
}

static int take_entry(struct import *im, const json_t *entry)
{
    const char *run_name = attn_field_text(entry, "run_name");
    const char *name = *run_name ? run_name : attn_field_text(entry, "name");
    const char *type = attn_field_text(entry, "run_type");
    const json_t *own = json_object_get(entry, "attnbench");
    im->name = NULL;
    if (!json_is_object(entry))
        return refuse(im, "is no object");
    if (!*name)
        return refuse(im, "has no name");
    if (!is_clean(name))
        return refuse(im, "has a name with control characters or over %d bytes", (int)NAME_MOST);
    im->name = name;
    if (is_aggregate(entry))
        return 0;
    if (*type && strcmp(type, "iteration") != 0)
        return refuse(im, "has a run_type that is neither iteration nor aggregate");
    if (own && !json_is_object(own))
        return refuse(im, "has an attnbench that is no object");
    return attn_field_true(entry, "error_occurred") ? take_error(im, entry)
                                                    : take_sample(im, entry);
}

/* Ends a record with the summary of its samples. */
static int summarise(json_t *record)
{
    json_t *rounds = json_object_get(record, "samples_ns"), *round, *sample;
    const size_t n = json_array_size(rounds);
    struct attn_summary t;
    size_t i, s, total = 0, at = 0;
    int status = -1;
    json_array_foreach(rounds, i, round) total += json_array_size(round);
    const double **samples = calloc(n + 1, sizeof *samples);
    size_t *counts = calloc(n + 1, sizeof *counts);
    double *values = calloc(total + 1, sizeof *values);
    if (samples && counts && values) {
        json_array_foreach(rounds, i, round)
        {
            samples[i] = values + at;
            counts[i] = json_array_size(round);
            json_array_foreach(round, s, sample) values[at++] = json_number_value(sample);
        }
        status = attn_summarise(samples, counts, n, &t);
    }
    free(samples);
    free(counts);
    free(values);
    if (status != 0)
        return -1;
    return json_object_set_new(
        record, "time_ns",
        json_pack("{s:f,s:f,s:f,s:f,s:o,s:I}", "median", t.median, "min", t.min, "p10", t.p10,
                  "p90", t.p90, "ci95", t.rounds > 1 ? json_pack("[f,f]", t.lo, t.hi) : json_null(),
                  "n", (json_int_t)t.n));
}

/* The results as records, in the order of the file. NULL with the reason. */
static json_t *records_of(const struct import *im)
{
    json_t *records = json_array(), *record;
    const char *key;
    json_object_foreach(im->results, key, record)
    {
        if ((json_object_get(record, "samples_ns") && summarise(record) != 0) ||
            json_array_append(records, record) != 0) {
            snprintf(im->why, im->size, "no memory for the results");
            json_decref(records);
            return NULL;
        }
    }
    if (records && json_array_size(records) > 0)
        return records;
    snprintf(im->why, im->size,
             "no benchmark has a time of its own: aggregates alone do not say how sure they are "
             "(leave --benchmark_report_aggregates_only out)");
    json_decref(records);
    return NULL;
}

/* What the file says of the machine; of a file of ours, its machine.json. */
static json_t *machine_of(const struct import *im, const json_t *context)
{
    json_t *own = json_loads(attn_field_text(context, "attnbench"), JSON_REJECT_DUPLICATES, NULL);
    const char *host = attn_field_text(context, "host_name");
    const double processors = attn_field_number(context, "num_cpus");
    if (json_is_object(own))
        return own;
    json_decref(own);
    json_t *cpu = json_object();
    if (*host && is_clean(host) && processors > 0)
        json_object_set_new(cpu, "model",
                            json_sprintf("host %s with %.0f processors", host, processors));
    return json_pack("{s:{s:s},s:s,s:o,s:i,s:{s:s},s:[{s:s,s:s,s:s,s:s,s:b,s:b}]}", "attnbench",
                     "build", attn_field_text(context, "library_build_type"), "date",
                     attn_field_text(context, "date"), "cpu", cpu, "threads", im->threads,
                     "protocol", "imported", "Google Benchmark", "backends", "name", im->backend,
                     "options", "", "plugin", "", "version", "", "available", 1, "device", 0);
}

/* "./build/my-bench" -> "my_bench": a name as backends have them. */
static void backend_of(const json_t *context, char name[32])
{
    const char *path = attn_field_text(context, "executable"), *slash = strrchr(path, '/');
    const char *stem = slash ? slash + 1 : path;
    size_t n = 0;
    while (*stem && !isalpha((unsigned char)*stem))
        stem++;
    for (; *stem && n < 31; stem++)
        name[n++] = (char)(isalnum((unsigned char)*stem) ? tolower((unsigned char)*stem) : '_');
    name[n] = '\0';
    if (n == 0)
        snprintf(name, 32, "google_benchmark");
}

int attn_import_parse(const char *text, size_t length, const char *backend, json_t **records,
                      json_t **machine, char *why, size_t size)
{
    struct import im = {.text = text, .length = length, .threads = 1, .why = why, .size = size};
    json_error_t error;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error), *entry;
    const json_t *context = json_object_get(root, "context");
    const json_t *list = json_object_get(root, "benchmarks");
    char name[32];
    int status = -1;
    attn_text_clean(error.text);
    if (!root) {
        snprintf(why, size, "line %d: %s", error.line < 1 ? 1 : error.line, error.text);
        return -1;
    }
    if (!json_is_object(context) || !json_is_array(list)) {
        snprintf(why, size,
                 "line 1: not the JSON of Google Benchmark, which has an object 'context' and a "
                 "list 'benchmarks'");
        json_decref(root);
        return -1;
    }
    backend_of(context, name);
    im.backend = backend ? backend : name;
    im.results = json_object();
    json_array_foreach(list, im.entry, entry)
    {
        if (take_entry(&im, entry) != 0)
            goto out;
    }
    *records = records_of(&im);
    *machine = *records ? machine_of(&im, context) : NULL;
    if (*machine)
        status = 0;
    else if (*records) {
        snprintf(why, size, "no memory for the machine");
        json_decref(*records);
    }
out:
    json_decref(im.results);
    json_decref(root);
    return status;
}
