/* SPDX-License-Identifier: Apache-2.0 */
/* html_heatmap.c - the heat-maps on the page and in report.md. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/text.h"
#include "report/writers.h"

/* Bytes of pictures that the page carries, before they are written as addresses; beyond it they are
 * links. */
#define EMBEDDED_MAX (860 << 10)

static const char explained[] =
    "Each square is a head: queries down, keys across, padding left out. The first picture shows "
    "the "
    "reference's weights. The others show the distance of each backend from them, on one scale for "
    "all backends of a pack. Hatched: not allowed. A cross: not finite.";

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

/* Which pictures the page carries: the weights of every pack first, then one backend of each after
 * the other, so that what has no room is not a whole pack. */
struct choice {
    bool embedded[ATTN_HEATMAPS_MAX][ATTN_HEATMAP_SIDES + 1];
};

static void picture_path(const char *out_dir, const struct attn_heatmap *map, size_t grid,
                         char path[4352])
{
    snprintf(path, 4352, "%s/plots/%s_%zu.svg", out_dir, map->name, grid);
}

static void choose(const char *out_dir, const struct attn_heatmaps *maps, struct choice *choice)
{
    off_t room = EMBEDDED_MAX;
    for (size_t g = 0; g <= ATTN_HEATMAP_SIDES; g++)
        for (size_t m = 0; m < maps->count; m++) {
            char path[4352];
            struct stat info;
            const struct attn_heatmap *map = &maps->items[m];
            picture_path(out_dir, map, g, path);
            choice->embedded[m][g] =
                map->drawn && g <= map->n_sides && stat(path, &info) == 0 && info.st_size <= room;
            room -= choice->embedded[m][g] ? info.st_size : 0;
        }
}

static int put_picture(FILE *out, const char *out_dir, const struct attn_view *view,
                       const struct attn_heatmap *map, size_t grid, char *why, size_t size)
{
    char path[4352];
    size_t length;
    picture_path(out_dir, map, grid, path);
    char *svg = attn_file_read(path, &length, why, size);
    if (!svg)
        return -1;
    fputs("<div class=\"picture\"><img loading=\"lazy\" alt=\"", out);
    put_alt(out, view, map, grid);
    fputs("\" src=\"data:image/svg+xml,", out);
    attn_html_put_url(out, svg);
    fputs("\"></div>\n", out);
    free(svg);
    return 0;
}

static void put_link(FILE *out, const struct attn_view *view, const struct attn_heatmap *map,
                     size_t grid)
{
    fprintf(out, "<p><a href=\"plots/%s_%zu.svg\">", map->name, grid);
    put_alt(out, view, map, grid);
    fputs("</a></p>\n", out);
}

/* Are there pictures that the page does not hold itself? */
static bool any_beside(const struct attn_heatmaps *maps, const struct choice *choice)
{
    for (size_t m = 0; m < maps->count; m++)
        for (size_t g = 0; maps->items[m].drawn && g <= maps->items[m].n_sides; g++)
            if (!choice->embedded[m][g])
                return true;
    return false;
}

static int put_map(FILE *out, const char *out_dir, const struct attn_view *view,
                   const struct attn_heatmap *map, const bool *embedded, char *why, size_t size)
{
    attn_put_html(out, map->row->label);
    fputs("</summary>\n<p class=\"soft\">", out);
    attn_put_html(out, map->source);
    fputs("</p>\n<div class=\"beside\">\n", out);
    for (size_t g = 0; g <= map->n_sides; g++) {
        fputs("<figure>", out);
        if (!embedded[g])
            put_link(out, view, map, g);
        else if (put_picture(out, out_dir, view, map, g, why, size) != 0)
            return -1;
        fputs("<figcaption>", out);
        put_caption(out, view, map, g);
        char name[80];
        snprintf(name, sizeof name, "%s_%zu", map->name, g);
        attn_html_put_picture_files(out, out_dir, name);
        fputs("</figcaption></figure>\n", out);
    }
    fputs("</div></details>\n", out);
    return 0;
}

int attn_html_put_heatmaps(FILE *out, const char *out_dir, const struct attn_view *view,
                           const struct attn_heatmaps *maps, char *why, size_t size)
{
    struct choice choice;
    bool open = true;
    if (!any_drawn(maps) && !*maps->note)
        return 0;
    fprintf(out, "<h2>Attention weights</h2>\n<p class=\"soft\">%s</p>\n", explained);
    if (*maps->note) {
        fputs("<p class=\"soft\">", out);
        attn_html_put_linked(out, out_dir, maps->note);
        fputs("</p>\n", out);
    }
    choose(out_dir, maps, &choice);
    if (any_beside(maps, &choice))
        fputs("<p class=\"soft\">Pictures that are links here lie beside this page, in <a "
              "href=\"plots/\">plots/</a>.</p>\n",
              out);
    for (size_t m = 0; m < maps->count; m++) {
        if (!maps->items[m].drawn)
            continue;
        fputs(open ? "<details open><summary>" : "<details><summary>", out);
        if (put_map(out, out_dir, view, &maps->items[m], choice.embedded[m], why, size) != 0)
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
        fputs("\n| pack | pictures, with the largest difference |\n|---|---|\n", out);
    for (size_t m = 0; m < maps->count; m++) {
        const struct attn_heatmap *map = &maps->items[m];
        if (!map->drawn)
            continue;
        fputs("| ", out);
        attn_put_markdown(out, map->row->label);
        fprintf(out, " | [weights](plots/%s_0.png)", map->name);
        for (size_t g = 1; g <= map->n_sides; g++) {
            const struct attn_heatmap_side *side = &map->sides[g - 1];
            fputs(", [", out);
            attn_put_markdown(out, view->backends[side->row->backend].label);
            fprintf(out, "](plots/%s_%zu.png) %s", map->name, g,
                    attn_figure(side->largest, figure));
        }
        fputs(" |\n", out);
    }
}
