/* SPDX-License-Identifier: Apache-2.0 */
/* junit.c - JUnit XML: verdicts in the form that CI servers read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"

static double seconds_of(const struct attn_view_row *row)
{
    double seconds = attn_field_number(row->verify, "seconds");
    return isfinite(seconds) && seconds >= 0 ? seconds : 0;
}

static void put_message(FILE *out, const char *element, const struct attn_view_row *row)
{
    fprintf(out, "      <%s", element);
    if (strcmp(element, "skipped") != 0)
        fprintf(out, " type=\"%s\"", attn_status_name(row->status));
    fputs(" message=\"", out);
    attn_put_html(out, row->reason);
    fputs("\">", out);
    attn_put_html(out, row->reason);
    fputs("\nrerun: ", out);
    attn_put_html(out, row->repro);
    const char *smallest = attn_field_text(row->verify, "smallest");
    if (*smallest) {
        fputs("\nsmallest: ", out);
        attn_put_html(out, smallest);
    }
    fprintf(out, "</%s>\n", element);
}

/* fail is a failure; what kept the harness from a verdict is an error; a mistrusted or approximate
 * result stands as passed, with its reason as output, as in the exit code without --strict. */
static void put_case(FILE *out, const struct attn_view *view, const struct attn_view_row *row)
{
    fputs("    <testcase classname=\"", out);
    attn_put_html(out, view->backends[row->backend].label);
    fputs("\" name=\"", out);
    attn_put_html(out, row->label);
    fprintf(out, "\" time=\"%.6f\">\n", seconds_of(row));
    switch (row->status) {
    case ATTN_FAIL:
    case ATTN_SUSPECT:
        put_message(out, "failure", row);
        break;
    case ATTN_SKIP:
        put_message(out, "skipped", row);
        break;
    case ATTN_CRASH:
    case ATTN_TIMEOUT:
    case ATTN_OOM:
    case ATTN_ERROR:
        put_message(out, "error", row);
        break;
    case ATTN_MISTRUSTED:
    case ATTN_APPROX:
        fprintf(out, "      <system-out>%s: ", attn_status_name(row->status));
        attn_put_html(out, row->reason);
        fputs("</system-out>\n", out);
        break;
    default:
        break;
    }
    fputs("    </testcase>\n", out);
}

struct tally {
    size_t tests, failures, errors, skipped;
    double seconds;
};

static struct tally count(const struct attn_view *view, size_t backend)
{
    struct tally tally = {0};
    for (size_t r = 0; r < view->n_rows; r++) {
        const struct attn_view_row *row = &view->rows[r];
        if (!row->first || row->backend != backend || !view->backends[backend].counted)
            continue;
        tally.tests++;
        tally.failures += row->status == ATTN_FAIL || row->status == ATTN_SUSPECT;
        tally.skipped += row->status == ATTN_SKIP;
        tally.errors += row->status >= ATTN_CRASH && row->status <= ATTN_ERROR;
        tally.seconds += seconds_of(row);
    }
    return tally;
}

static void put_tally(FILE *out, struct tally tally)
{
    fprintf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.6f\">\n",
            tally.tests, tally.failures, tally.errors, tally.skipped, tally.seconds);
}

void attn_junit_put(FILE *out, const struct attn_view *view)
{
    struct tally all = {0};
    for (size_t b = 0; b < view->n_backends; b++) {
        struct tally tally = count(view, b);
        all.tests += tally.tests;
        all.failures += tally.failures;
        all.errors += tally.errors;
        all.skipped += tally.skipped;
        all.seconds += tally.seconds;
    }
    fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"attnbench\"", out);
    put_tally(out, all);
    for (size_t b = 0; b < view->n_backends; b++) {
        if (!view->backends[b].cases || !view->backends[b].counted)
            continue;
        fputs("  <testsuite name=\"", out);
        attn_put_html(out, view->backends[b].label);
        fputc('"', out);
        put_tally(out, count(view, b));
        for (size_t r = 0; r < view->n_rows; r++)
            if (view->rows[r].first && view->rows[r].backend == b)
                put_case(out, view, &view->rows[r]);
        fputs("  </testsuite>\n", out);
    }
    fputs("</testsuites>\n", out);
}

/* The verify records among all of them, borrowed into a new array. */
static json_t *verifications(const json_t *records)
{
    json_t *chosen = json_array();
    size_t i;
    json_t *record;
    json_array_foreach(records, i, record)
    {
        bool wanted = strcmp(attn_field_text(record, "type"), "verify") == 0;
        if (chosen && wanted && json_array_append(chosen, record) != 0) {
            json_decref(chosen);
            return NULL;
        }
    }
    return chosen;
}

int attn_junit_write(const json_t *records, const char *path, char *why, size_t size)
{
    struct attn_view view = {0};
    char *text = NULL;
    size_t length = 0;
    int status = -1;
    json_t *chosen = verifications(records);
    if (!chosen) {
        snprintf(why, size, "no memory for %s", path);
        return -1;
    }
    if (attn_view_create(chosen, NULL, &view, why, size) != 0)
        goto out;
    FILE *out = attn_text_open(&text, &length);
    if (out)
        attn_junit_put(out, &view);
    if (!out || fclose(out) != 0) {
        snprintf(why, size, "no memory for %s", path);
        goto out;
    }
    status = attn_file_write(path, text, length, why, size);
out:
    free(text);
    attn_view_free(&view);
    json_decref(chosen);
    return status;
}
