/* SPDX-License-Identifier: Apache-2.0 */
/* heatmap.c - finds the packs whose weights a run kept, and has them drawn. */
#include "report/heatmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/gnuplot.h"
#include "report/heatmap_data.h"
#include "report/text.h"
#include "results/kept.h"

#define SCRIPT "heatmap.gp"

struct gallery {
    const struct attn_canvas *canvas;
    const char *run; /* folder */
    struct attn_heatmaps *maps;
    size_t labelled;
    bool stuck;
};

static void add_note(struct attn_heatmaps *maps, const char *sentence)
{
    size_t used = strlen(maps->note);
    snprintf(maps->note + used, sizeof maps->note - used, "%s%s", used ? "; " : "", sentence);
}

/* A case of a pack, on a backend whose weights the run says it kept. */
static bool is_wanted(const struct attn_view *view, const struct attn_view_row *row)
{
    return row->first && view->backends[row->backend].counted && *row->id &&
           *attn_field_text(row->verify, "weights_file") &&
           (strncmp(row->line, "data=", 5) == 0 || strstr(row->line, " data="));
}

static bool is_first_of_case(const struct attn_view *view, size_t at)
{
    for (size_t r = 0; r < at; r++)
        if (is_wanted(view, &view->rows[r]) && strcmp(view->rows[r].id, view->rows[at].id) == 0)
            return false;
    return true;
}

/* "heatmap_NAME", or the id in place of a name that is none for a file, or that is taken. */
static void name_map(const struct attn_heatmaps *maps, struct attn_heatmap *map)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *name = map->row->name;
    size_t length = strlen(name);
    bool good = length > 0 && length <= 32 && strspn(name, plain) == length;
    snprintf(map->name, sizeof map->name, "heatmap_%.32s", good ? name : map->row->id);
    for (size_t m = 0; m < maps->count; m++)
        if (strcmp(maps->items[m].name, map->name) == 0)
            snprintf(map->name, sizeof map->name, "heatmap_%.32s", map->row->id);
}

/* Reads the kept weights of a row's case on a backend. */
static int read_kept(const struct gallery *gallery, const char *id, const char *backend,
                     const char *options, struct attn_weights *weights)
{
    char name[ATTN_KEPT_NAME_MAX], why[512] = "a record whose id or backend names no file";
    if (attn_kept_name(id, backend, options, name) == 0 &&
        attn_weights_read(gallery->run, name, weights, why, sizeof why) == 0)
        return 0;
    add_note(gallery->maps, why);
    return -1;
}

static void read_side(struct gallery *gallery, const struct attn_view_row *row,
                      struct attn_heatmap_data *data, struct attn_heatmap *map)
{
    const char *backend = gallery->canvas->view->backends[row->backend].name;
    struct attn_weights *weights = &data->sides[map->n_sides];
    char sentence[256];
    if (map->n_sides == ATTN_HEATMAP_SIDES ||
        read_kept(gallery, row->id, backend, row->options, weights) != 0)
        return;
    if (memcmp(weights->shape, data->reference.shape, sizeof weights->shape) != 0) {
        snprintf(sentence, sizeof sentence,
                 "the weights of %.64s for %.64s have another shape than those of the reference",
                 backend, row->id);
        add_note(gallery->maps, sentence);
        attn_weights_free(weights);
        return;
    }
    map->sides[map->n_sides].row = row;
    attn_heatmap_compare(data, map->n_sides++, map);
}

/* What gnuplot repeats for every label is said once or left out, which halves what the page
 * carries; and cells keep their edges however the picture is scaled: browsers would blur an image
 * of a few pixels. */
static const struct {
    const char *from, *to;
} tidy[] = {
    {"<g id=\"gnuplot_canvas\">",
     "<style>image{image-rendering:pixelated}text{stroke:none;font-family:'DejaVu "
     "Sans',Arial,sans-serif}</style>\n<g>"},
    {" font-family=\"DejaVu Sans,Arial,sans-serif\"", ""},
    {" stroke=\"none\"", ""},
    {" text-anchor=\"start\"", ""},
    {" stroke-linecap=\"butt\" stroke-linejoin=\"miter\"", ""},
    {"\t", ""},
};

static void put_tidy(FILE *out, const char *svg)
{
    const size_t count = sizeof tidy / sizeof tidy[0];
    bool tag = false;
    for (const char *at = svg; *at;) {
        size_t t = 0;
        while (t < count && strncmp(at, tidy[t].from, strlen(tidy[t].from)) != 0)
            t++;
        if (t < count) {
            fputs(tidy[t].to, out);
            tag = tag && t > 0;
            at += strlen(tidy[t].from);
            continue;
        }
        tag = *at == '<' || (tag && *at != '>');
        /* gnuplot puts no quote into a quoted attribute; a single one costs an address less. */
        fputc(tag && *at == '"' ? '\'' : *at, out);
        at++;
    }
}

static int tidy_picture(const struct attn_canvas *canvas, const char *name, size_t grid)
{
    char path[4352], *text = NULL;
    size_t length, tidied = 0;
    snprintf(path, sizeof path, "%s/plots/%s_%zu.svg", canvas->out_dir, name, grid);
    char *svg = attn_file_read(path, &length, canvas->why, canvas->size);
    if (!svg)
        return -1;
    int status = -1;
    FILE *out = attn_text_open(&text, &tidied);
    if (out)
        put_tidy(out, svg);
    if (!out || fclose(out) != 0)
        snprintf(canvas->why, canvas->size, "no memory for %s", path);
    else
        status = attn_file_write(path, text, tidied, canvas->why, canvas->size);
    free(text);
    free(svg);
    return status;
}

static int draw(struct gallery *gallery, struct attn_heatmap *map)
{
    char folder[4352], sentence[256] = "";
    if (gallery->stuck)
        return 0;
    snprintf(folder, sizeof folder, "%s/plots", gallery->canvas->out_dir);
    int status = attn_gnuplot_run(folder, map->name, SCRIPT, ATTN_GNUPLOT_LIMIT_S);
    map->drawn = status == 0;
    gallery->stuck = status < 0;
    if (status < 0)
        snprintf(sentence, sizeof sentence, "gnuplot did not draw %s: %s; no further heat-maps",
                 map->name, strerror(errno));
    else if (status > 0)
        snprintf(sentence, sizeof sentence, "gnuplot could not draw %s: see plots/%s.log",
                 map->name, map->name);
    if (*sentence)
        add_note(gallery->maps, sentence);
    for (size_t g = 0; map->drawn && g <= map->n_sides; g++)
        if (tidy_picture(gallery->canvas, map->name, g) != 0)
            return -1;
    return 0;
}

/* Everything of one case: rows from `at` on are looked at. */
static int add_map(struct gallery *gallery, size_t at)
{
    const struct attn_view *view = gallery->canvas->view;
    struct attn_heatmaps *maps = gallery->maps;
    struct attn_heatmap map = {.row = &view->rows[at]};
    struct attn_heatmap_data *data = calloc(1, sizeof *data);
    int status = -1;
    if (!data) {
        snprintf(gallery->canvas->why, gallery->canvas->size, "no memory for a heat-map");
        return -1;
    }
    if (read_kept(gallery, map.row->id, ATTN_KEPT_REFERENCE, "", &data->reference) != 0) {
        status = 0;
        goto out;
    }
    name_map(maps, &map);
    memcpy(map.source, data->reference.source, sizeof map.source);
    attn_heatmap_choose(data, &map);
    for (size_t r = at; r < view->n_rows; r++)
        if (is_wanted(view, &view->rows[r]) && strcmp(view->rows[r].id, map.row->id) == 0)
            read_side(gallery, &view->rows[r], data, &map);
    if (attn_heatmap_write_data(gallery->canvas, data, &map) != 0 || draw(gallery, &map) != 0)
        goto out;
    size_t place = map.labelled ? gallery->labelled++ : maps->count;
    memmove(&maps->items[place + 1], &maps->items[place],
            (maps->count - place) * sizeof *maps->items);
    maps->items[place] = map;
    maps->count++;
    status = 0;
out:
    attn_weights_free(&data->reference);
    for (size_t s = 0; s < ATTN_HEATMAP_SIDES; s++)
        attn_weights_free(&data->sides[s]);
    free(data);
    return status;
}

static int copy_script(const struct attn_canvas *canvas, const char *script_dir)
{
    char path[4352];
    size_t length;
    snprintf(path, sizeof path, "%s/" SCRIPT, script_dir);
    char *text = attn_file_read(path, &length, canvas->why, canvas->size);
    int status = text ? attn_canvas_write(canvas, SCRIPT, text, length) : -1;
    free(text);
    return status;
}

int attn_heatmaps_write(const struct attn_canvas *canvas, const char *run, const char *script_dir,
                        bool stuck, struct attn_heatmaps *maps)
{
    const struct attn_view *view = canvas->view;
    struct gallery gallery = {.canvas = canvas, .run = run, .maps = maps, .stuck = stuck};
    memset(maps, 0, sizeof *maps);
    maps->items = calloc(ATTN_HEATMAPS_MAX, sizeof *maps->items);
    if (!maps->items) {
        snprintf(canvas->why, canvas->size, "no memory for heat-maps");
        return -1;
    }
    size_t left_out = 0;
    bool copied = false;
    for (size_t r = 0; r < view->n_rows; r++) {
        if (!is_wanted(view, &view->rows[r]) || !is_first_of_case(view, r))
            continue;
        if (maps->count == ATTN_HEATMAPS_MAX) {
            left_out++;
            continue;
        }
        if ((!copied && copy_script(canvas, script_dir) != 0) || add_map(&gallery, r) != 0) {
            attn_heatmaps_free(maps);
            return -1;
        }
        copied = true;
    }
    if (left_out) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "%zu further packs are not drawn", left_out);
        add_note(maps, sentence);
    }
    return 0;
}

void attn_heatmaps_free(struct attn_heatmaps *maps)
{
    free(maps->items);
    memset(maps, 0, sizeof *maps);
}
