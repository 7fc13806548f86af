/* SPDX-License-Identifier: Apache-2.0 */
/* print.c - tables of a history. */
#include "history/print.h"

#include <math.h>
#include <string.h>

#include "case/text.h"
#include "report/text.h"
#include "results/changes.h"

/* A text of a record or of an index, at most `most` bytes of it. */
static void put_text(FILE *out, const char *text, size_t most)
{
    char clean[4096 + 1];
    attn_text_take(clean, most < sizeof clean ? most + 1 : sizeof clean, text, most);
    fputs(clean, out);
}

static void put_field(FILE *out, const json_t *object, const char *key, size_t most)
{
    put_text(out, attn_field_text(object, key), most);
}

/* A field in a column. */
static void put_column(FILE *out, const json_t *object, const char *key, int width)
{
    const int length = (int)strnlen(attn_field_text(object, key), (size_t)width);
    put_field(out, object, key, (size_t)width);
    fprintf(out, "%*s", width - length + 2, "");
}

static const char *machine_text(const json_t *machines, const char *name)
{
    size_t i;
    json_t *machine;
    json_array_foreach(machines, i, machine)
    {
        if (strcmp(attn_field_text(machine, "name"), name) == 0)
            return attn_field_text(machine, "text");
    }
    return "";
}

enum { COMMIT_MOST = 64 };

/* The width of the column of commits, none of which is cut off: a part of "-dirty" behind a hash
 * is nothing that git reads. */
static int commit_width(const json_t *series)
{
    size_t width = strlen("commit"), i;
    json_t *point;
    json_array_foreach(json_object_get(series, "points"), i, point)
    {
        const size_t length = strnlen(attn_field_text(point, "commit"), COMMIT_MOST);
        width = length > width ? length : width;
    }
    return (int)width;
}

static void put_head(FILE *out, const json_t *series, const char *anchor, const json_t *machines)
{
    const double threads = attn_field_number(series, "threads");
    fputc('\n', out);
    put_field(out, series, "backend", 128);
    fputs(" over ", out);
    put_text(out, anchor, 128);
    fputs(", ", out);
    put_field(out, series, "cache", 16);
    if (isfinite(threads))
        fprintf(out, ", %.0f thread%s", threads, threads == 1 ? "" : "s");
    fputs(", machine ", out);
    put_field(out, series, "machine", 16);
    fputs(": ", out);
    put_text(out, machine_text(machines, attn_field_text(series, "machine")), 128);
    fprintf(out, "\n%-16s  %-*s  %-8s  %8s  %-15s  run\n", "date", commit_width(series), "commit",
            "plugin", "ratio", "95 % interval");
}

static void put_point(FILE *out, const json_t *point, int commit)
{
    const double ratio = attn_field_number(point, "ratio"), lo = attn_field_number(point, "low"),
                 hi = attn_field_number(point, "high");
    char date[17] = "unknown", interval[32] = "-", value[16] = "-";
    if (*attn_field_text(point, "date")) {
        snprintf(date, sizeof date, "%s", attn_field_text(point, "date"));
        if (strlen(date) > 10)
            date[10] = ' ';
    }
    if (isfinite(lo) && isfinite(hi))
        snprintf(interval, sizeof interval, "%.4f..%.4f", lo, hi);
    if (isfinite(ratio))
        snprintf(value, sizeof value, "%.4f", ratio);
    put_text(out, date, sizeof date);
    fprintf(out, "%*s", 18 - (int)strlen(date), "");
    put_column(out, point, "commit", commit);
    put_column(out, point, "plugin", 8);
    fprintf(out, "%8s  %-15s  ", value, interval);
    put_field(out, point, "run", 512);
    if (strcmp(attn_field_text(point, "source"), "paired") == 0)
        fputs("  (paired)", out);
    if (attn_field_true(point, "anchor_changed"))
        fputs("  (the anchor has changed)", out);
    if (!isfinite(ratio)) {
        const char *status = attn_field_text(point, "status");
        const int timed = strcmp(status, "pass") == 0 || strcmp(status, "approx") == 0 ||
                          strcmp(status, "mistrusted") == 0;
        fputs("  (", out);
        put_text(out, timed ? "no anchor in the same rounds" : status, 32);
        fputc(')', out);
    }
    fputc('\n', out);
}

static void put_change(FILE *out, const json_t *change)
{
    const double size = attn_field_number(change, "change");
    fprintf(out, "  >> %.1f %% %s from here on: mean ratio %.4f before, %.4f after, p = %.1g\n",
            100 * fabs(size), size > 0 ? "slower" : "faster", attn_field_number(change, "before"),
            attn_field_number(change, "after"), attn_field_number(change, "p"));
}

static void put_series(FILE *out, const json_t *series)
{
    const json_t *changes = json_object_get(series, "changes");
    const int commit = commit_width(series);
    size_t i, next = 0;
    json_t *point;
    json_array_foreach(json_object_get(series, "points"), i, point)
    {
        const json_t *change = json_array_get(changes, next);
        if (change && attn_field_number(change, "at") == (double)i) {
            put_change(out, change);
            next++;
        }
        put_point(out, point, commit);
    }
    if (next == 0)
        fputs("no change\n", out);
}

/* A machine beside machine 1. */
static void put_machine(FILE *out, const json_t *machine)
{
    size_t i;
    json_t *difference;
    json_array_foreach(json_object_get(machine, "differences"), i, difference)
    {
        if (!attn_field_true(difference, "stops"))
            continue;
        fputs("machine ", out);
        put_field(out, machine, "name", 16);
        fputs(" is another: ", out);
        put_field(out, difference, "what", 96);
        fputc(' ', out);
        put_field(out, difference, "new", 128);
        fputs(", on machine 1 ", out);
        put_field(out, difference, "base", 128);
        fputc('\n', out);
    }
}

void attn_history_put(FILE *out, const json_t *history)
{
    const json_t *machines = json_object_get(history, "machines");
    size_t i;
    json_t *item;
    put_field(out, history, "id", 64);
    fputs("  ", out);
    put_field(out, history, "name", 256);
    fputs(*attn_field_text(history, "name") ? ": " : "", out);
    put_field(out, history, "case", 4096);
    fputc('\n', out);
    json_array_foreach(json_object_get(history, "series"), i, item)
    {
        put_head(out, item, attn_field_text(history, "anchor"), machines);
        put_series(out, item);
    }
    json_array_foreach(machines, i, item)
    {
        put_machine(out, item);
    }
    if (attn_field_true(history, "chosen")) {
        fputs("\nanchor ", out);
        put_field(out, history, "anchor", 128);
        fputs(": chosen; --anchor names another", out);
    }
    fputs("\n\n", out);
}

void attn_history_put_legend(FILE *out, double margin)
{
    fprintf(
        out,
        "ratio: time over the anchor's in the same run, of alternating batches where paired, "
        "else round by\nround; above 1 is slower. A change has p < %g, is above %g %% and beyond "
        "the intervals.\n",
        ATTN_CHANGE_P, 100 * margin);
}

void attn_history_put_cases(FILE *out, const json_t *cases)
{
    size_t i;
    json_t *item;
    fprintf(out, "%-16s  %5s  case\n", "id", "runs");
    json_array_foreach(cases, i, item)
    {
        put_column(out, item, "id", 16);
        fprintf(out, "%5.0f  ", attn_field_number(item, "runs"));
        put_field(out, item, "name", 256);
        fputs(*attn_field_text(item, "name") ? ": " : "", out);
        put_field(out, item, "case", 4096);
        fputc('\n', out);
    }
}
