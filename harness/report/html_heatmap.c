/* SPDX-License-Identifier: Apache-2.0 */
/* html_heatmap.c - the heat-maps on the page and in report.md. */
#include <stdlib.h>
#include <string.h>

#include "report/text.h"
#include "report/writers.h"

/* Bytes of pictures that the page carries, before they are written as addresses; beyond it they are
 * links. */
#define EMBEDDED_MAX (860 << 10)

static const char explained[] =
    "Each square is a head: queries down, keys across, padding left out. Beside the reference's "
    "weights stands how far each backend's lie from them, for all backends of a pack on one scale. "
    "Hatched: not allowed. A cross: not finite.";

static bool any_drawn(const struct attn_heatmaps *maps)
{
    for (size_t m = 0; m < maps->count; m++)
        if (maps->items[m].drawn)
            return true;
    return false;
}

/* "pass: NAME, largest 2.1e-08: sequence ..." */
static void put_caption(FILE *out, const struct attn_view *view, const struct attn_heatmap *map,
                        size_t grid)
{
    if (grid == 0) {
        attn_put_html(out, map->shown);
        return;
    }
    const struct attn_heatmap_side *side = &map->sides[grid - 1];
    fprintf(out, "<span class=\"%s\">%s</span>: ", attn_status_name(side->row->status),
            attn_status_name(side->row->status));
    attn_put_html(out, view->backends[side->row->backend].label);
    fputs(", ", out);
    attn_put_html(out, side->note);
}

static void put_alt(FILE *out, const struct attn_view *view, const struct attn_heatmap *map,
                    size_t grid)
{
    fputs(grid ? "Heat-map of |" : "Heat-map of attention weights by head: ", out);
    if (grid) {
        attn_put_html(out, view->backends[map->sides[grid - 1].row->backend].label);
        fputs(" - reference| by head: ", out);
    }
    attn_put_html(out, map->row->label);
    fputs(", ", out);
    attn_put_html(out, grid ? map->sides[grid - 1].note : map->shown);
}

/* The picture's text; "" for one that the page has no room for; NULL with the reason. */
static char *picture_text(const char *out_dir, const struct attn_heatmap *map, size_t grid,
                          size_t *room, char *why, size_t size)
{
    char path[4352];
    size_t length;
    snprintf(path, sizeof path, "%s/plots/%s_%zu.svg", out_dir, map->name, grid);
    char *svg = attn_file_read(path, &length, why, size);
    if (!svg)
        return NULL;
    if (length > *room)
        svg[0] = '\0';
    else
        *room -= length;
    return svg;
}

static int put_figure(FILE *out, const char *out_dir, const struct attn_view *view,
                      const struct attn_heatmap *map, size_t grid, size_t *room, char *why,
                      size_t size)
{
    char *svg = picture_text(out_dir, map, grid, room, why, size);
    if (!svg)
        return -1;
    fputs("<figure>", out);
    if (*svg) {
        fputs("<div class=\"picture\"><img loading=\"lazy\" alt=\"", out);
        put_alt(out, view, map, grid);
        fputs("\" src=\"data:image/svg+xml,", out);
        attn_html_put_url(out, svg);
        fputs("\"></div>\n", out);
    } else {
        fprintf(out, "<p><a href=\"plots/%s_%zu.svg\">", map->name, grid);
        put_alt(out, view, map, grid);
        fputs("</a></p>\n", out);
    }
    fputs("<figcaption>", out);
    put_caption(out, view, map, grid);
    fputs("</figcaption></figure>\n", out);
    free(svg);
    return 0;
}

static int put_map(FILE *out, const char *out_dir, const struct attn_view *view,
                   const struct attn_heatmap *map, bool open, size_t *room, char *why, size_t size)
{
    fputs(open ? "<details open><summary>" : "<details><summary>", out);
    attn_put_html(out, map->row->label);
    fputs("</summary>\n<p class=\"soft\">", out);
    attn_put_html(out, map->source);
    fputs("</p>\n<div class=\"beside\">\n", out);
    for (size_t g = 0; g <= map->n_sides; g++)
        if (put_figure(out, out_dir, view, map, g, room, why, size) != 0)
            return -1;
    fputs("</div></details>\n", out);
    return 0;
}

int attn_html_put_heatmaps(FILE *out, const char *out_dir, const struct attn_view *view,
                           const struct attn_heatmaps *maps, char *why, size_t size)
{
    size_t room = EMBEDDED_MAX;
    bool open = true;
    if (!any_drawn(maps) && !*maps->note)
        return 0;
    fprintf(out, "<h2>Attention weights</h2>\n<p class=\"soft\">%s</p>\n", explained);
    if (*maps->note) {
        fputs("<p class=\"soft\">", out);
        attn_put_html(out, maps->note);
        fputs("</p>\n", out);
    }
    for (size_t m = 0; m < maps->count; m++) {
        if (!maps->items[m].drawn)
            continue;
        if (put_map(out, out_dir, view, &maps->items[m], open, &room, why, size) != 0)
            return -1;
        open = false;
    }
    return 0;
}

void attn_markdown_put_heatmaps(FILE *out, const struct attn_view *view,
                                const struct attn_heatmaps *maps)
{
    char figure[ATTN_FIGURE_MAX];
    if (!any_drawn(maps) && !*maps->note)
        return;
    fprintf(out, "\n## Attention weights\n\n%s\n", explained);
    if (*maps->note) {
        fputc('\n', out);
        attn_put_markdown(out, maps->note);
        fputs(".\n", out);
    }
    if (any_drawn(maps))
        fputs("\n| pack | picture | largest difference |\n|---|---|---:|\n", out);
    for (size_t m = 0; m < maps->count; m++) {
        const struct attn_heatmap *map = &maps->items[m];
        for (size_t g = 0; map->drawn && g <= map->n_sides; g++) {
            const struct attn_heatmap_side *side = g ? &map->sides[g - 1] : NULL;
            fputs("| ", out);
            attn_put_markdown(out, map->row->label);
            fputs(" | [", out);
            attn_put_markdown(out, side ? view->backends[side->row->backend].label
                                        : "reference: the weights");
            fprintf(out, "](plots/%s_%zu.png) | %s |\n", map->name, g,
                    side ? attn_figure(side->largest, figure) : ATTN_DASH);
        }
    }
}
