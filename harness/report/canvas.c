/* SPDX-License-Identifier: Apache-2.0 */
/* canvas.c - files, backends and footers of pictures. */
#include "report/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"

/* Okabe and Ito, "Color Universal Design", 2008, without the yellow, which nobody sees on white;
 * then of Paul Tol's muted scheme, 2021, those that are none of them again. */
static const char *const palette[] = {"#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9",
                                      "#D55E00", "#882255", "#000000", "#999933", "#332288",
                                      "#44AA99", "#AA4499", "#117733", "#CC6677", "#6699CC"};
#define PALETTE_SIZE (sizeof palette / sizeof palette[0])

/* The number of a backend among those that are counted and have results: it fixes colour, fill and
 * marker everywhere. */
static size_t number_of(const struct attn_view *view, size_t backend)
{
    size_t before = 0;
    for (size_t b = 0; b < backend; b++)
        before += view->backends[b].counted && view->backends[b].cases;
    return before;
}

void attn_define(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%s = ", name);
    attn_put_gnuplot(out, text);
    fputc('\n', out);
}

void attn_define_at(FILE *out, const char *array, size_t index, const char *text)
{
    fprintf(out, "%s[%zu] = ", array, index + 1);
    attn_put_gnuplot(out, text);
    fputc('\n', out);
}

/* Bytes of a line: more would run out of the picture, which is 900 units wide. */
#define NOTE_MAX 138
/* More lines than any text here has. */
#define NOTES_MAX 12

/* The bytes of `text` that fit a line: up to its last blank, or all of a word that is longer. */
static size_t line_of(const char *text)
{
    size_t length = strcspn(text, "\n");
    if (length <= NOTE_MAX)
        return length;
    size_t fits = NOTE_MAX;
    while (fits > 0 && text[fits] != ' ')
        fits--;
    return fits > 0 ? fits : strcspn(text, " \n");
}

static void define_notes(FILE *out, const char *text)
{
    char line[640];
    size_t n = 0;
    fprintf(out, "array notes[%d]\n", NOTES_MAX);
    while (*text && n < NOTES_MAX) {
        const size_t length = line_of(text);
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        attn_define_at(out, "notes", n++, line);
        text += length + (text[length] != '\0');
    }
    fprintf(out, "n_notes = %zu\n", n);
}

void attn_define_footer(FILE *out, const json_t *machine, const char *first)
{
    char machine_text[160], build[128], text[1280];
    attn_machine_text(machine, machine_text, sizeof machine_text);
    attn_build_text(machine, build, sizeof build);
    snprintf(text, sizeof text, "%s\n%s; %s", first, machine_text, build);
    define_notes(out, text);
}

void attn_canvas_caption(struct attn_plot *plot, const char *constants, const char *notes,
                         const char *more)
{
    const size_t size = sizeof plot->caption;
    size_t used = *constants ? (size_t)snprintf(plot->caption, size, "%s. ", constants) : 0;
    for (; *notes && used < size; notes += strcspn(notes, "\n"), notes += *notes == '\n')
        used += (size_t)snprintf(plot->caption + used, size - used, "%.*s. ",
                                 (int)strcspn(notes, "\n"), notes);
    /* A blank ends the notes. */
    used = used < size ? used - (used > 0) : size - 1;
    snprintf(plot->caption + used, size - used, "%s", more);
}

void attn_define_backends(FILE *out, const struct attn_view *view, const size_t *backends,
                          size_t count, const char *const *labels)
{
    fprintf(out, "n_backends = %zu\narray names[%zu]\narray colours[%zu]\narray numbers[%zu]\n",
            count, count, count, count);
    for (size_t b = 0; b < count; b++) {
        size_t number = number_of(view, backends[b]);
        fprintf(out, "names[%zu] = ", b + 1);
        attn_put_gnuplot(out, labels[b]);
        fprintf(out, "\ncolours[%zu] = '%s'\nnumbers[%zu] = %zu\n", b + 1,
                palette[number % PALETTE_SIZE], b + 1, number);
    }
}

void attn_define_labels(FILE *out, const struct attn_view *view, const size_t *backends,
                        size_t count)
{
    const char *labels[ATTN_SERIES_BACKENDS];
    for (size_t b = 0; b < count; b++)
        labels[b] = view->backends[backends[b]].label;
    attn_define_backends(out, view, backends, count, labels);
}

void attn_define_points(FILE *out, const struct attn_series *series)
{
    fprintf(out, "n_points = %zu\narray points[%zu]\n", series->n_points, series->n_points);
    for (size_t p = 0; p < series->n_points; p++)
        fprintf(out, "points[%zu] = %.0f\n", p + 1, series->x[p]);
    fprintf(out, "array ticks[%zu]\n", series->n_points);
    for (size_t p = 0; p < series->n_points; p++) {
        char size[32];
        snprintf(size, sizeof size, "%.0f", series->x[p]);
        fprintf(out, "ticks[%zu] = ", p + 1);
        attn_put_gnuplot(out, *series->names[p] ? series->names[p] : size);
        fputc('\n', out);
    }
    fprintf(out, "named = %d\n", *series->names[0] != '\0');
}

void attn_define_sizes(FILE *out, const char *array, size_t index, const struct attn_series *series)
{
    char sizes[ATTN_SERIES_POINTS * 12] = "";
    size_t used = 0;
    for (size_t x = 0; x < series->n_points; x++)
        used += (size_t)snprintf(sizes + used, sizeof sizes - used, "%s%.0f", x ? " " : "",
                                 series->x[x]);
    attn_define_at(out, array, index, sizes);
}

int attn_canvas_write(const struct attn_canvas *canvas, const char *file, const char *text,
                      size_t length)
{
    char path[4352];
    int n = snprintf(path, sizeof path, "%s/plots/%s", canvas->out_dir, file);
    if (n < 0 || (size_t)n >= sizeof path) {
        snprintf(canvas->why, canvas->size, "the path of %s is too long", file);
        return -1;
    }
    return attn_file_write(path, text, length, canvas->why, canvas->size);
}

FILE *attn_canvas_open(const struct attn_canvas *canvas, const char *name, char **text,
                       size_t *length)
{
    FILE *out = attn_text_open(text, length);
    if (!out)
        snprintf(canvas->why, canvas->size, "no memory for %s", name);
    return out;
}

int attn_canvas_finish(const struct attn_canvas *canvas, FILE *stream, const char *name,
                       const char *suffix, char **text, const size_t *length)
{
    char file[80];
    if (fclose(stream) != 0) {
        snprintf(canvas->why, canvas->size, "no memory for %s", name);
        return -1;
    }
    snprintf(file, sizeof file, "%s%s", name, suffix);
    int status = attn_canvas_write(canvas, file, *text, *length);
    free(*text);
    return status;
}

void attn_put_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, " %.6g", value);
    else
        fputs(" ?", out);
}

void attn_row_name(char name[ATTN_ROW_NAME_MAX], const char *text, size_t length)
{
    size_t kept = length <= 36 ? length : 34;
    while (kept < length && kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80)
        kept--;
    snprintf(name, ATTN_ROW_NAME_MAX, "%.*s%s", (int)kept, text,
             kept < length ? "\xe2\x80\xa6" : "");
}
