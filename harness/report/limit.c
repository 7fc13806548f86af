/* SPDX-License-Identifier: Apache-2.0 */
/* limit.c - the roofline of one result, from the ceilings in machine.json. */
#include "report/limit.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/text.h"

static const char peak_name[] = "FMA";

static double positive_at(const json_t *object, const char *path)
{
    double value = attn_field_number(object, path);
    return value > 0 && isfinite(value) ? value : (double)NAN;
}

/* GFLOP/s of a type's multiply-adds, of the last rung that has them: rungs are listed widest last.
 */
static double peak_of(const json_t *machine, const char *dtype)
{
    const json_t *rungs = attn_field_at(machine, "ceilings.rungs");
    for (size_t r = json_array_size(rungs); r-- > 0;) {
        double peak = positive_at(json_array_get(rungs, r), dtype);
        if (isfinite(peak))
            return peak;
    }
    return positive_at(machine, strcmp(dtype, "f64") == 0 ? "ceilings.fma_gflops_f64"
                                                          : "ceilings.fma_gflops_f32");
}

/* GB/s of the nearest level that holds `bytes`; its name into *level. */
static double read_of(const json_t *machine, double bytes, bool cold, const char **level)
{
    size_t i;
    json_t *item;
    *level = "memory";
    json_array_foreach(attn_field_at(machine, "ceilings.reads"), i, item)
    {
        double gbs = positive_at(item, "gbs");
        const char *name = attn_field_text(item, "level");
        if (cold || !*name || !isfinite(gbs) || !(attn_field_number(item, "bytes") >= bytes))
            continue;
        *level = name;
        return gbs;
    }
    return positive_at(machine, "ceilings.read_gbs");
}

void attn_limit_set(const json_t *machine, const struct attn_view_backend *backend,
                    struct attn_view_row *row)
{
    const char *score = attn_field_text(row->sizes, "score"), *level;
    double flops = positive_at(row->bench, "flops"), bytes = positive_at(row->bench, "bytes");
    double peak = peak_of(machine, attn_field_text(row->sizes, "dtype"));
    double read = read_of(machine, bytes, strcmp(row->cache, "cold") == 0, &level);
    double allowed = read * flops / bytes;
    bool whole = strcmp(score, "scaled_dot") == 0 || strcmp(score, "dot") == 0;
    row->limit = "";
    row->share = NAN;
    if (!backend->counted || attn_field_true(backend->info, "device") || !whole ||
        !isfinite(row->gflops) || !isfinite(peak) || !isfinite(allowed) ||
        row->threads != attn_field_number(machine, "threads"))
        return;
    row->limit = allowed < peak ? level : peak_name;
    row->share = row->gflops / fmin(allowed, peak);
}

const char *attn_limit_text(const struct attn_view_row *row, char *text, size_t size)
{
    bool names = strcmp(row->limit, peak_name) != 0;
    text[0] = '\0';
    if (isfinite(row->share))
        snprintf(text, size, "%.0f %%%s%.16s", 100 * row->share, names ? " " : "",
                 names ? row->limit : "");
    return text;
}

/* Appends to a text that is cut at its size. */
__attribute__((format(printf, 4, 5))) static void add(char *text, size_t size, size_t *used,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text + *used, size - *used, format, arguments);
    va_end(arguments);
    if (n > 0)
        *used = *used + (size_t)n < size ? *used + (size_t)n : size - 1;
}

void attn_ceilings_text(const json_t *machine, char *text, size_t size)
{
    static const char *const types[] = {"f32", "f64", "f16", "bf16"};
    char figure[ATTN_FIGURE_MAX];
    size_t used = 0, i;
    json_t *item;
    text[0] = '\0';
    json_array_foreach(attn_field_at(machine, "ceilings.rungs"), i, item)
    {
        add(text, size, &used, "%s%.16s multiply-add", used ? "; " : "",
            attn_field_text(item, "isa"));
        const char *comma = "";
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            if (positive_at(item, types[t]) > 0) {
                add(text, size, &used, "%s %s %s", comma, types[t],
                    attn_figure(positive_at(item, types[t]), figure));
                comma = ",";
            }
        add(text, size, &used, " GFLOP/s");
    }
    json_array_foreach(attn_field_at(machine, "ceilings.gemm"), i, item)
    {
        add(text, size, &used, "%s%.32s product of matrices %.8s %s GFLOP/s", used ? "; " : "",
            attn_field_text(item, "backend"), attn_field_text(item, "dtype"),
            attn_figure(positive_at(item, "gflops"), figure));
    }
    json_array_foreach(attn_field_at(machine, "ceilings.reads"), i, item)
    {
        add(text, size, &used, "%s %.16s %s",
            i      ? ","
            : used ? "; read"
                   : "read",
            attn_field_text(item, "level"), attn_figure(positive_at(item, "gbs"), figure));
    }
    if (json_array_size(attn_field_at(machine, "ceilings.reads")))
        add(text, size, &used, " GB/s");
    if (!used)
        add(text, size, &used, ATTN_DASH);
}
