/* SPDX-License-Identifier: Apache-2.0 */
/* heatmap_data.c - which tokens are drawn, differences, data and definitions. */
#include "report/heatmap_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/summary.h"
#include "report/text.h"

/* Characters of a token that the margins have room for. */
#define TOKEN_SHOWN 12
#define LABEL_SIZE  (4 * TOKEN_SHOWN + 4)
/* A scale of differences reaches this many powers of ten below the best backend's largest one. */
#define DECADES_BELOW 2

/* The keys of a batch up to the last that any query looks at: the rest is padding. */
static int64_t keys_used(const struct attn_weights *w, int64_t b)
{
    int64_t used = 0;
    for (int64_t h = 0; h < w->shape[1]; h++)
        for (int64_t i = 0; i < w->shape[2]; i++)
            for (int64_t j = w->shape[3] - 1; j >= used; j--)
                if (attn_weights_at(w, b, h, i, j) != 0)
                    used = j + 1;
    return used;
}

/* Where there are as many queries as keys, the queries are taken for the same tokens. */
static int64_t queries_used(const struct attn_weights *w, int64_t keys)
{
    return w->shape[2] == w->shape[3] ? keys : w->shape[2];
}

static int64_t at_most(int64_t value, int64_t limit)
{
    return value < limit ? value : limit;
}

void attn_heatmap_choose(struct attn_heatmap_data *data, struct attn_heatmap *map)
{
    const struct attn_weights *w = &data->reference;
    int64_t keys = keys_used(w, 0);
    data->batch = 0;
    for (int64_t b = 1; b < w->shape[0]; b++) {
        int64_t these = keys_used(w, b);
        /* The longest that fits whole. */
        bool fits = these <= ATTN_HEATMAP_TOKENS;
        if (fits && (these > keys || keys > ATTN_HEATMAP_TOKENS)) {
            data->batch = b;
            keys = these;
        }
    }
    if (keys == 0)
        keys = w->shape[3];
    int64_t queries = queries_used(w, keys);
    data->heads = at_most(w->shape[1], ATTN_HEATMAP_HEADS);
    data->queries = at_most(queries, ATTN_HEATMAP_TOKENS);
    data->keys = at_most(keys, ATTN_HEATMAP_TOKENS);
    map->labelled = w->tokens != NULL;
    int n = snprintf(map->shown, sizeof map->shown, "sequence %lld of %lld",
                     (long long)data->batch + 1, (long long)w->shape[0]);
    if (data->heads < w->shape[1])
        n += snprintf(map->shown + n, sizeof map->shown - (size_t)n, ", %lld of %lld heads",
                      (long long)data->heads, (long long)w->shape[1]);
    if (data->keys < keys || data->queries < queries)
        snprintf(map->shown + n, sizeof map->shown - (size_t)n,
                 "; queries down (%lld of %lld), keys across (%lld of %lld)",
                 (long long)data->queries, (long long)queries, (long long)data->keys,
                 (long long)keys);
    else
        snprintf(map->shown + n, sizeof map->shown - (size_t)n,
                 "; queries down (%lld), keys across (%lld)", (long long)data->queries,
                 (long long)data->keys);
}

/* A character that a picture can hold: no control, none that turns the direction of text, and
 * nothing that XML forbids. */
static bool is_plain(uint32_t c)
{
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    bool turns =
        c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    return !control && !turns && (c & 0xfffe) != 0xfffe;
}

/* The next character of UTF-8 that JSON has checked; moves *at. */
static uint32_t next_character(const unsigned char **at)
{
    uint32_t c = *(*at)++;
    int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
    c = more ? c & (0x3fu >> more) : c;
    for (; more > 0 && (**at & 0xc0) == 0x80; more--)
        c = c << 6 | (*(*at)++ & 0x3f);
    return c;
}

/* Token t as a label, or its number. */
static void label_of(const struct attn_heatmap_data *data, int64_t t, bool named,
                     char text[LABEL_SIZE])
{
    const json_t *list = json_array_get(data->reference.tokens, (size_t)data->batch);
    const char *token = named ? json_string_value(json_array_get(list, (size_t)t)) : NULL;
    if (!token) {
        snprintf(text, LABEL_SIZE, "%lld", (long long)t);
        return;
    }
    const unsigned char *at = (const unsigned char *)token;
    char *end = text;
    for (int shown = 0; *at; shown++) {
        const unsigned char *from = at;
        uint32_t c = next_character(&at);
        if (shown == TOKEN_SHOWN - 1 && *at) {
            end = stpcpy(end, "\xe2\x80\xa6");
            break;
        }
        if (is_plain(c))
            end = mempcpy(end, from, (size_t)(at - from));
        else
            end = stpcpy(end, "\xef\xbf\xbd");
    }
    *end = '\0';
}

static bool queries_named(const struct attn_heatmap_data *data)
{
    return data->reference.shape[2] == data->reference.shape[3];
}

/* |a - b|, 0 for the same infinity or two NaN; NAN where there is no such figure. */
static double difference(double a, double b)
{
    if ((isnan(a) && isnan(b)) || a == b)
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) : (double)NAN;
}

/* The largest difference of all, and of the part that is drawn the largest and its place. */
static void find_largest(const struct attn_heatmap_data *data, const struct attn_weights *got,
                         struct attn_heatmap_side *out, int64_t at[3])
{
    const struct attn_weights *want = &data->reference;
    const int64_t *n = want->shape;
    int64_t c = 0;
    for (int64_t b = 0; b < n[0]; b++)
        for (int64_t h = 0; h < n[1]; h++)
            for (int64_t i = 0; i < n[2]; i++)
                for (int64_t j = 0; j < n[3]; j++, c++) {
                    double d = difference(got->values[c], want->values[c]);
                    if (isnan(d))
                        out->wrong++;
                    out->largest = fmax(out->largest, d);
                    bool drawn =
                        b == data->batch && h < data->heads && i < data->queries && j < data->keys;
                    if (drawn && d > out->shown) {
                        out->shown = d;
                        at[0] = h;
                        at[1] = i;
                        at[2] = j;
                    }
                }
}

void attn_heatmap_compare(const struct attn_heatmap_data *data, size_t side,
                          struct attn_heatmap *map)
{
    struct attn_heatmap_side *out = &map->sides[side];
    char query[LABEL_SIZE], key[LABEL_SIZE];
    int64_t at[3] = {0};
    out->largest = out->shown = 0;
    out->wrong = 0;
    find_largest(data, &data->sides[side], out, at);
    int used = snprintf(out->note, sizeof out->note, "largest %.3g", out->shown);
    if (out->shown > 0) {
        label_of(data, at[1], queries_named(data), query);
        label_of(data, at[2], true, key);
        used += snprintf(out->note + used, sizeof out->note - (size_t)used,
                         " (head %lld, query %s, key %s)", (long long)at[0], query, key);
    }
    if (out->largest > out->shown)
        used += snprintf(out->note + used, sizeof out->note - (size_t)used, ", %.3g in all",
                         out->largest);
    if (out->wrong > 0)
        snprintf(out->note + used, sizeof out->note - (size_t)used,
                 "; %zu weights are not finite (crosses)", out->wrong);
}

/* What is drawn of a cell: NAN where it is not allowed. side < 0: the reference's own weight. A
 * weight where the reference has none is a difference like any other. */
static double cell_value(double want, double got, int side, bool *wrong)
{
    *wrong = false;
    if (side < 0) {
        *wrong = !isfinite(want);
        return want != 0 && isfinite(want) ? want : (double)NAN;
    }
    if (want == 0 && got == 0)
        return NAN;
    double d = difference(got, want);
    *wrong = isnan(d);
    return *wrong ? INFINITY : d;
}

/* Figures of what is drawn, for the scales. */
struct range {
    double top; /* of the weights */
    bool hatched, wrong[ATTN_HEATMAP_SIDES + 1];
};

static void put_grid(FILE *out, const struct attn_heatmap_data *data, int side, struct range *range)
{
    const struct attn_weights *got = side < 0 ? &data->reference : &data->sides[side];
    for (int64_t h = 0; h < data->heads; h++) {
        for (int64_t i = 0; i < data->queries; i++)
            for (int64_t j = 0; j < data->keys; j++) {
                bool wrong;
                double value = cell_value(attn_weights_at(&data->reference, data->batch, h, i, j),
                                          attn_weights_at(got, data->batch, h, i, j), side, &wrong);
                range->wrong[side + 1] |= wrong;
                range->hatched |= isnan(value);
                if (side < 0 && value > range->top)
                    range->top = value;
                fprintf(out, "%lld %lld %lld ", (long long)h, (long long)i, (long long)j);
                if (isnan(value))
                    fputs("NaN", out);
                else /* What is no number has the scale's last colour, and a cross. */
                    fprintf(out, "%.6g", isinf(value) ? 1e300 : value);
                fprintf(out, " %d\n", wrong);
            }
        fputc('\n', out);
    }
    fputc('\n', out);
}

static void define_list(FILE *out, const char *name, size_t count)
{
    fprintf(out, "array %s[%zu]\n", name, count);
}

static void define_tokens(FILE *out, const struct attn_heatmap_data *data, const char *name,
                          int64_t count, bool named)
{
    char text[LABEL_SIZE];
    define_list(out, name, (size_t)count);
    for (int64_t t = 0; t < count; t++) {
        label_of(data, t, named, text);
        fprintf(out, "%s[%lld] = ", name, (long long)t + 1);
        attn_put_gnuplot(out, text);
        fputc('\n', out);
    }
}

/* One scale of powers of ten for all backends of a pack, so that their pictures can be held against
 * each other. */
static void define_scale(FILE *out, const struct attn_heatmap *map)
{
    double most = 0, least = INFINITY;
    for (size_t s = 0; s < map->n_sides; s++) {
        if (!(map->sides[s].shown > 0))
            continue;
        most = fmax(most, map->sides[s].shown);
        least = fmin(least, map->sides[s].shown);
    }
    /* Where nothing differs any scale will do. */
    int high = most > 0 ? (int)ceil(log10(most)) : -15;
    int low = (int)floor(log10(most > 0 ? least : 1e-15)) - DECADES_BELOW;
    fprintf(out, "low = %d\nhigh = %d\n", low, high > low ? high : low + 1);
}

static void define_grids(FILE *out, const struct attn_canvas *canvas,
                         const struct attn_heatmap *map, const struct range *range)
{
    char title[256];
    size_t grids = map->n_sides + 1;
    fprintf(out, "n_grids = %zu\n", grids);
    define_list(out, "titles", grids);
    define_list(out, "notes", grids);
    define_list(out, "scales", grids);
    define_list(out, "wrong", grids);
    for (size_t g = 0; g < grids; g++) {
        const struct attn_heatmap_side *side = g ? &map->sides[g - 1] : NULL;
        fprintf(out, "wrong[%zu] = %d\ntitles[%zu] = ", g + 1, range->wrong[g], g + 1);
        if (side)
            snprintf(title, sizeof title, "|%s \xe2\x88\x92 reference|",
                     canvas->view->backends[side->row->backend].label);
        else
            snprintf(title, sizeof title, "Attention weights, %s",
                     *map->row->name ? map->row->name : map->row->id);
        attn_put_gnuplot(out, title);
        fprintf(out, "\nnotes[%zu] = ", g + 1);
        attn_put_gnuplot(out, side ? side->note : map->shown);
        fprintf(out, "\nscales[%zu] = ", g + 1);
        attn_put_gnuplot(out, side ? "difference, logarithmic colours"
                                   : "weight, computed by the reference; square-root colours");
        fputc('\n', out);
    }
}

static void define_all(FILE *out, const struct attn_canvas *canvas,
                       const struct attn_heatmap_data *data, const struct attn_heatmap *map,
                       const struct range *range)
{
    attn_define(out, "base", map->name);
    fprintf(out, "n_heads = %lld\nn_queries = %lld\nn_keys = %lld\n", (long long)data->heads,
            (long long)data->queries, (long long)data->keys);
    define_tokens(out, data, "queries", data->queries, queries_named(data));
    define_tokens(out, data, "keys", data->keys, true);
    fprintf(out, "hatched = %d\ntop = %.6g\n", range->hatched, range->top > 0 ? range->top : 1);
    define_scale(out, map);
    define_grids(out, canvas, map, range);
    char machine[160], build[128];
    attn_machine_text(canvas->machine, machine, sizeof machine);
    attn_build_text(canvas->machine, build, sizeof build);
    attn_define(out, "footer1", machine);
    attn_define(out, "footer2", build);
}

int attn_heatmap_write_data(const struct attn_canvas *canvas, const struct attn_heatmap_data *data,
                            const struct attn_heatmap *map)
{
    struct range range = {0};
    char *text = NULL;
    size_t length = 0;
    FILE *out = attn_canvas_open(canvas, map->name, &text, &length);
    if (!out)
        return -1;
    fprintf(out, "# head query key value wrong; NaN: not allowed\n");
    for (int side = -1; side < (int)map->n_sides; side++)
        put_grid(out, data, side, &range);
    if (attn_canvas_finish(canvas, out, map->name, ".dat", &text, &length) != 0)
        return -1;
    text = NULL;
    out = attn_canvas_open(canvas, map->name, &text, &length);
    if (!out)
        return -1;
    define_all(out, canvas, data, map, &range);
    return attn_canvas_finish(canvas, out, map->name, ".def.gp", &text, &length);
}
