/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - results.csv: one line a bench record. */
#include <math.h>

#include "report/text.h"
#include "report/writers.h"

/* Columns are a stable interface: append, never reorder. */
static const char *const texts[] = {"case",  "name",   "id",     "backend", "options",
                                    "cache", "status", "reason", "path"};
static const char *const numbers[][2] = {
    {"threads", "threads"},
    {"b", "sizes.b"},
    {"hq", "sizes.hq"},
    {"hkv", "sizes.hkv"},
    {"sq", "sizes.sq"},
    {"sk", "sizes.sk"},
    {"dq", "sizes.dq"},
    {"dk", "sizes.dk"},
    {"dv", "sizes.dv"},
    {"median_ns", "time_ns.median"},
    {"min_ns", "time_ns.min"},
    {"p10_ns", "time_ns.p10"},
    {"p90_ns", "time_ns.p90"},
    {"samples", "time_ns.n"},
    {"flops", "flops"},
    {"bytes", "bytes"},
    {"gflops", "gflops"},
    {"gbs", "gbs"},
    {"workspace_bytes", "workspace_bytes"},
    {"peak_bytes", "peak_bytes"},
    {"threads_seen", "threads_seen"},
};
static const char *const sizes_texts[] = {"op", "score", "dtype"};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static void put_number(FILE *out, double value)
{
    fputc(',', out);
    if (isfinite(value))
        fprintf(out, "%.17g", value);
}

/* An end of the interval as the record has it. */
static double end_of(const json_t *bench, size_t end)
{
    const json_t *value = json_array_get(attn_field_at(bench, "time_ns.ci95"), end);
    const double time = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return time > 0 ? time : (double)NAN;
}

static void put_line(FILE *out, const struct attn_view_row *row)
{
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (i)
            fputc(',', out);
        attn_put_csv(out, attn_field_text(row->bench, texts[i]));
    }
    for (size_t i = 0; i < COUNT(numbers); i++)
        put_number(out, attn_field_number(row->bench, numbers[i][1]));
    put_number(out, end_of(row->bench, 0));
    put_number(out, end_of(row->bench, 1));
    put_number(out, (double)json_array_size(attn_field_at(row->bench, "samples_ns")));
    for (size_t i = 0; i < COUNT(sizes_texts); i++) {
        fputc(',', out);
        attn_put_csv(out, attn_field_text(attn_field_at(row->bench, "sizes"), sizes_texts[i]));
    }
    fputs(attn_field_true(row->bench, "sizes.causal") ? ",1" : ",0", out);
    fputs(row->marked ? ",1," : ",0,", out);
    attn_put_csv(out, attn_field_text(row->bench, "peak_reason"));
    fputc(',', out);
    attn_put_csv(out, row->repro);
    put_number(out, row->share);
    fputc(',', out);
    attn_put_csv(out, row->limit);
    fputs("\r\n", out);
}

void attn_csv_put(FILE *out, const struct attn_view *view)
{
    for (size_t i = 0; i < COUNT(texts); i++)
        fprintf(out, "%s%s", i ? "," : "", texts[i]);
    for (size_t i = 0; i < COUNT(numbers); i++)
        fprintf(out, ",%s", numbers[i][0]);
    fputs(",ci95_lo_ns,ci95_hi_ns,rounds,op,score,dtype,causal,overhead_marked,peak_reason,repro"
          ",roof_share,roof\r\n",
          out);
    for (size_t r = 0; r < view->n_rows; r++)
        if (view->rows[r].bench)
            put_line(out, &view->rows[r]);
}
