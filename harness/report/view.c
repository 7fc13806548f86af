/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - joins verify and bench records by their key. */
#include "report/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/limit.h"
#include "report/text.h"
#include "results/record.h"
#include "results/statistics.h"

/* Indices while the view is built: key text -> row, label -> backend, id -> sizes. */
struct index {
    json_t *rows, *backends, *sizes;
    size_t row_room, backend_room;
};

static const char *checked_kind(const json_t *record)
{
    const char *type = attn_field_text(record, "type");
    return strcmp(type, "verify") == 0 || strcmp(type, "bench") == 0 ? type : NULL;
}

static int check_record(const json_t *record, size_t number, char *why, size_t size)
{
    const char *missing = NULL;
    if (!json_is_object(record))
        missing = "is no object";
    else if (!checked_kind(record))
        return 0;
    else if (!*attn_field_text(record, "id"))
        missing = "has no id";
    else if (!*attn_field_text(record, "backend"))
        missing = "has no backend";
    else if (attn_status_parse(attn_field_text(record, "status")) < 0)
        missing = "has no known status";
    if (missing)
        snprintf(why, size, "record %zu %s", number, missing);
    return missing ? -1 : 0;
}

/* Makes room for one more item; NULL without memory. */
static void *grow(void **items, size_t count, size_t *room, size_t item)
{
    if (!*items || count == *room) {
        size_t more = *room ? *room * 2 : 64;
        void *moved = reallocarray(*items, more, item);
        if (!moved)
            return NULL;
        *items = moved;
        *room = more;
    }
    void *fresh = (char *)*items + count * item;
    memset(fresh, 0, item);
    return fresh;
}

static const json_t *machine_entry(const json_t *machine, const char *name)
{
    size_t i;
    json_t *entry;
    json_array_foreach(attn_field_at(machine, "backends"), i, entry)
    {
        if (strcmp(attn_field_text(entry, "name"), name) == 0)
            return entry;
    }
    return NULL;
}

/* The backend of this label, added when new; NULL without memory. */
static struct attn_view_backend *backend_of(struct attn_view *view, struct index *index,
                                            const json_t *machine, const char *name,
                                            const char *options)
{
    char label[sizeof view->backends->label];
    snprintf(label, sizeof label, "%s%s%s", name, *options ? ":" : "", options);
    const json_t *known = json_object_get(index->backends, label);
    if (known)
        return view->backends ? &view->backends[json_integer_value(known)] : NULL;

    void *items = view->backends;
    struct attn_view_backend *fresh =
        grow(&items, view->n_backends, &index->backend_room, sizeof *fresh);
    view->backends = items;
    if (!fresh || json_object_set_new(index->backends, label,
                                      json_integer((json_int_t)view->n_backends)) != 0)
        return NULL;
    memcpy(fresh->label, label, sizeof label);
    fresh->name = name;
    fresh->info = machine_entry(machine, name);
    fresh->counted = strcmp(attn_field_text(fresh->info, "exactness"), "none") != 0;
    view->n_backends++;
    return fresh;
}

void attn_view_key(const json_t *record, const char *cache, char *key, size_t size)
{
    snprintf(key, size, "%s|%s|%s|%g|%s", attn_field_text(record, "id"),
             attn_field_text(record, "backend"), attn_field_text(record, "options"),
             attn_field_number(record, "threads"), cache);
}

static struct attn_view_row *row_of_key(struct attn_view *view, struct index *index,
                                        const char *key)
{
    const json_t *known = json_object_get(index->rows, key);
    return known && view->rows ? &view->rows[json_integer_value(known)] : NULL;
}

/* A new row under `key`; NULL without memory. */
static struct attn_view_row *add_row(struct attn_view *view, struct index *index, const char *key)
{
    void *items = view->rows;
    struct attn_view_row *row = grow(&items, view->n_rows, &index->row_room, sizeof *row);
    view->rows = items;
    if (!row || json_object_set_new(index->rows, key, json_integer((json_int_t)view->n_rows)) != 0)
        return NULL;
    view->n_rows++;
    return row;
}

/* Files one record. A verification makes the row of its key; its first timing takes that row, a
 * timing in another cache state gets one of its own. */
static int file_record(struct attn_view *view, struct index *index, const json_t *machine,
                       const json_t *record)
{
    char base[768], key[800];
    bool timed = strcmp(checked_kind(record), "bench") == 0;
    const char *cache = timed ? attn_field_text(record, "cache") : "";
    struct attn_view_backend *backend =
        backend_of(view, index, machine, attn_field_text(record, "backend"),
                   attn_field_text(record, "options"));
    if (!backend)
        return -1;
    const char *exactness = attn_field_text(record, "exactness");
    if (strcmp(exactness, "none") == 0)
        backend->counted = false;
    if (json_is_object(attn_field_at(record, "sizes")) &&
        json_object_set(index->sizes, attn_field_text(record, "id"),
                        json_object_get(record, "sizes")) != 0)
        return -1;

    attn_view_key(record, "", base, sizeof base);
    attn_view_key(record, cache, key, sizeof key);
    struct attn_view_row *root = row_of_key(view, index, base);
    struct attn_view_row *row = timed ? row_of_key(view, index, key) : root;
    if (!row && timed && root && !root->bench) {
        row = root;
        if (json_object_set(index->rows, key, json_object_get(index->rows, base)) != 0)
            return -1;
    }
    if (!row) {
        const json_t *verify = root ? root->verify : NULL;
        row = add_row(view, index, root ? key : base);
        if (!row || (timed && json_object_set_new(index->rows, key,
                                                  json_integer((json_int_t)view->n_rows - 1)) != 0))
            return -1;
        row->verify = verify;
        row->first = !root;
    }
    row->backend = (size_t)(backend - view->backends);
    *(timed ? &row->bench : &row->verify) = record;
    return 0;
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static double positive(double value)
{
    return value > 0 && isfinite(value) ? value : (double)NAN;
}

/* Name and line, a pack by its file's name alone and by the first digits of its hash: where it lay
 * is no part of the case, and both would fill a table. NULL without memory. */
static char *label_of(const char *name, const char *line)
{
    char *label = malloc(strlen(name) + strlen(line) + 3);
    if (!label)
        return NULL;
    char *end = stpcpy(stpcpy(label, name), *name ? ": " : "");
    while (*line) {
        size_t length = strcspn(line, " "), keep = length, from = 0;
        if (starts_with(line, "sha256=") && length > strlen("sha256=") + 12)
            keep = strlen("sha256=") + 12;
        if (starts_with(line, "data=")) {
            end = stpcpy(end, "data=");
            for (size_t i = from = strlen("data="); i < length; i++)
                if (line[i] == '/')
                    from = i + 1;
        }
        end = mempcpy(end, line + from, keep - from);
        line += length;
        while (*line == ' ')
            *end++ = *line++;
    }
    *end = '\0';
    return label;
}

/* No interval ends below the best sample, nor below the time that the machine allows: an interval
 * from a few rounds can be wider than what is possible. */
static void bound_interval(struct attn_view_row *row)
{
    double least = attn_field_number(row->bench, "time_ns.min");
    least = least > 0 && least <= row->median ? least : 0;
    if (row->share > 0)
        least = fmax(least, row->median * fmin(row->share, 1));
    if (row->lo < least)
        row->lo = least;
}

/* One whose ends are this many times the median, or that part of it, says as little. */
#define INTERVAL_FACTOR 2

/* Reads the medians of rounds, and drops an interval that says nothing beside them. */
static void judge_interval(struct attn_view_row *row)
{
    double *medians = NULL;
    row->least = row->greatest = NAN;
    row->rounds = attn_view_round_medians(row->bench, &medians);
    for (size_t r = 0; r < row->rounds; r++) {
        row->least = fmin(row->least, medians[r]);
        row->greatest = fmax(row->greatest, medians[r]);
    }
    free(medians);
    if ((row->rounds > 0 && row->rounds < ATTN_INTERVAL_ROUNDS) ||
        !(row->hi <= row->median * INTERVAL_FACTOR) || !(row->lo >= row->median / INTERVAL_FACTOR))
        row->lo = row->hi = NAN;
}

/* Why a result has no timing, said of the first row of its key. */
static void file_untimed(struct attn_view *view, struct index *index, const json_t *record)
{
    char key[768];
    attn_view_key(record, "", key, sizeof key);
    struct attn_view_row *row = row_of_key(view, index, key);
    if (row)
        row->untimed = attn_field_text(record, "reason");
}

/* What the row says, once both of its records are known. Returns 0, or -1 without memory. */
static int finish_row(struct attn_view_row *row, const struct index *index, const json_t *machine,
                      const struct attn_view_backend *backend)
{
    const bool counted = backend->counted;
    enum attn_status verified = ATTN_PASS, timed = ATTN_PASS;
    if (row->verify)
        verified = (enum attn_status)attn_status_parse(attn_field_text(row->verify, "status"));
    if (row->bench)
        timed = (enum attn_status)attn_status_parse(attn_field_text(row->bench, "status"));
    /* A timing that went wrong is news; otherwise the verification is the verdict. */
    bool from_bench =
        row->bench &&
        (!row->verify || (timed != ATTN_PASS && timed != ATTN_APPROX && verified == ATTN_PASS));
    const json_t *source = from_bench ? row->bench : row->verify;
    row->status = from_bench ? timed : verified;
    row->reason = attn_field_text(source, "reason");
    row->repro = attn_field_text(source, "repro");
    row->id = attn_field_text(source, "id");
    row->line = attn_field_text(source, "case");
    row->held = attn_field_text(source, "pack");
    row->held = *row->held ? row->held : row->line;
    row->name = attn_field_text(source, "name");
    const char *text = *row->line ? row->line : row->id;
    row->label = label_of(row->name, text);
    if (!row->label)
        return -1;
    row->options = attn_field_text(source, "options");
    row->threads = attn_field_number(source, "threads");
    row->cache = attn_field_text(row->bench, "cache");
    row->untimed = row->untimed && !row->bench ? row->untimed : "";
    row->sizes = json_object_get(index->sizes, row->id);
    /* A time that cannot be that of the work is no figure. */
    if (row->status == ATTN_SUSPECT)
        row->bench = NULL;
    row->median = positive(attn_field_number(row->bench, "time_ns.median"));
    const json_t *ci = attn_field_at(row->bench, "time_ns.ci95");
    const json_t *lo = json_array_get(ci, 0), *hi = json_array_get(ci, 1);
    row->lo = json_is_number(lo) ? positive(json_number_value(lo)) : (double)NAN;
    row->hi = json_is_number(hi) ? positive(json_number_value(hi)) : (double)NAN;
    row->gflops = counted ? positive(attn_field_number(row->bench, "gflops")) : (double)NAN;
    row->gbs = counted ? positive(attn_field_number(row->bench, "gbs")) : (double)NAN;
    row->peak = attn_field_number(row->bench, "peak_bytes");
    if (row->peak != 0) /* of a run that touched no new page */
        row->peak = positive(row->peak);
    row->marked = attn_field_true(row->bench, "overhead_marked");
    attn_limit_set(machine, backend, row);
    bound_interval(row);
    judge_interval(row);
    return 0;
}

/* Sets the slack of each backend. Returns 0, or -1: no memory. */
static int set_slacks(struct attn_view *view)
{
    double *slacks = malloc((view->n_rows + 1) * sizeof *slacks);
    if (!slacks)
        return -1;
    for (size_t b = 0; b < view->n_backends; b++) {
        size_t n = 0;
        for (size_t r = 0; r < view->n_rows; r++) {
            const struct attn_view_row *row = &view->rows[r];
            const double slack = attn_field_number(row->verify, "slack");
            if (row->backend == b && row->first && isfinite(slack))
                slacks[n++] = slack;
        }
        attn_sort_doubles(slacks, n);
        view->backends[b].slack = n ? slacks[n / 2] : (double)NAN;
    }
    free(slacks);
    return 0;
}

int attn_view_create(const json_t *records, const json_t *machine, struct attn_view *view,
                     char *why, size_t size)
{
    struct attn_view fresh = {0};
    struct index index = {json_object(), json_object(), json_object(), 0, 0};
    int status = -1;
    size_t i;
    json_t *record;
    snprintf(why, size, "no memory for the results");
    if (!index.rows || !index.backends || !index.sizes)
        goto out;
    /* The machine's list first: colours then depend on what is installed, not on which backend the
     * random order of a round put first. */
    json_array_foreach(attn_field_at(machine, "backends"), i, record)
    {
        const char *name = attn_field_text(record, "name");
        if (*name && !backend_of(&fresh, &index, machine, name, ""))
            goto out;
    }
    json_array_foreach(records, i, record)
    {
        if (check_record(record, i + 1, why, size) != 0)
            goto out;
        if (checked_kind(record) && file_record(&fresh, &index, machine, record) != 0)
            goto out;
        if (strcmp(attn_field_text(record, "type"), "untimed") == 0)
            file_untimed(&fresh, &index, record);
    }
    for (size_t r = 0; r < fresh.n_rows; r++) {
        struct attn_view_row *row = &fresh.rows[r];
        if (finish_row(row, &index, machine, &fresh.backends[row->backend]) != 0)
            goto out;
        if (row->first) {
            fresh.backends[row->backend].counts[row->status]++;
            fresh.backends[row->backend].cases++;
        }
    }
    if (set_slacks(&fresh) != 0)
        goto out;
    *view = fresh;
    why[0] = '\0';
    status = 0;
out:
    if (status != 0)
        attn_view_free(&fresh);
    json_decref(index.rows);
    json_decref(index.backends);
    json_decref(index.sizes);
    return status;
}

void attn_view_free(struct attn_view *view)
{
    for (size_t r = 0; r < view->n_rows; r++)
        free(view->rows[r].label);
    free(view->backends);
    free(view->rows);
    *view = (struct attn_view){0};
}

bool attn_row_lacks_means(const struct attn_view_row *row)
{
    return row->status == ATTN_SKIP &&
           (starts_with(row->reason, "budget") || starts_with(row->reason, "needs"));
}

const char *attn_reason_text(const char *reason)
{
    static const char mark[] = "budget: ";
    return starts_with(reason, mark) ? reason + strlen(mark) : reason;
}

const char *attn_row_mark(const struct attn_view_row *row)
{
    if (!row)
        return "not run";
    if (attn_row_lacks_means(row))
        return row->reason[0] == 'b' ? "budget" : "memory";
    switch (row->status) {
    case ATTN_SKIP:
        return "n/a";
    case ATTN_PASS:
    case ATTN_MISTRUSTED:
    case ATTN_APPROX:
        return "untimed";
    case ATTN_FAIL:
        return "FAIL";
    default:
        return attn_status_name(row->status);
    }
}

/* The median of one round, which may be given in its place (lean.h); NAN where the round is empty
 * or holds anything but positive numbers. */
static double round_median(const json_t *round)
{
    if (json_is_number(round))
        return positive(json_number_value(round));
    size_t n = json_array_size(round);
    double *values = n ? malloc(n * sizeof *values) : NULL;
    if (n && !values)
        attn_note_refusal();
    if (!values)
        return NAN;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(round, i);
        values[i] = json_is_number(item) ? positive(json_number_value(item)) : (double)NAN;
    }
    struct attn_summary summary = {.median = NAN};
    bool clean = true;
    for (size_t i = 0; i < n; i++)
        clean = clean && isfinite(values[i]);
    if (clean && attn_summarise((const double *const *)&values, &n, 1, &summary) != 0)
        summary.median = NAN;
    free(values);
    return summary.median;
}

size_t attn_view_round_medians(const json_t *bench, double **medians)
{
    const json_t *rounds = attn_field_at(bench, "samples_ns");
    size_t n = json_array_size(rounds);
    double *out = n ? malloc(n * sizeof *out) : NULL;
    if (n && !out)
        attn_note_refusal(); /* no rounds, to the caller: it would leave the result out */
    if (!out)
        return 0;
    for (size_t r = 0; r < n; r++) {
        out[r] = round_median(json_array_get(rounds, r));
        if (!isfinite(out[r])) {
            free(out);
            return 0;
        }
    }
    *medians = out;
    return n;
}

const char *attn_row_range(const struct attn_view_row *row, const char *to,
                           char text[ATTN_ROUNDS_TEXT])
{
    char least[ATTN_FIGURE_MAX], greatest[ATTN_FIGURE_MAX];
    attn_figure_time(row->least, least);
    attn_figure_time(row->greatest, greatest);
    /* A unit of both is said once. */
    char *unit = strchr(least, ' '), *other = strchr(greatest, ' ');
    if (unit && other && strcmp(unit, other) == 0)
        *unit = '\0';
    snprintf(text, ATTN_ROUNDS_TEXT, "%s%s%s", least, to, greatest);
    return text;
}

const char *attn_row_rounds(const struct attn_view_row *row, char text[ATTN_ROUNDS_TEXT])
{
    char range[ATTN_ROUNDS_TEXT];
    text[0] = '\0';
    if (row->rounds == 1)
        snprintf(text, ATTN_ROUNDS_TEXT, "1 round");
    else if (row->rounds > 1)
        snprintf(text, ATTN_ROUNDS_TEXT, "%zu rounds: %s", row->rounds,
                 attn_row_range(row, " to ", range));
    return text;
}

bool attn_view_timed(const struct attn_view *view)
{
    for (size_t r = 0; r < view->n_rows; r++)
        if (view->rows[r].bench)
            return true;
    return false;
}

bool attn_row_timed(const struct attn_view_row *row)
{
    return row && isfinite(row->median) && attn_status_holds(row->status);
}

bool attn_row_exact(const struct attn_view_row *row)
{
    return row->status != ATTN_APPROX &&
           strcmp(attn_field_text(row->bench, "exactness"), "approximate") != 0;
}

bool attn_row_cold(const struct attn_view_row *row)
{
    return strcmp(row->cache, "cold") == 0;
}
