/* SPDX-License-Identifier: Apache-2.0 */
/* smaller.c - takes off batches and heads first, then tiles of queries and keys. */
#include "run/smaller.h"

#include <stdbool.h>
#include <string.h>

#include "case/operator.h"

/* How small a case may become. */
struct least {
    int64_t tile, tiles, batches, heads;
};

/* Faults at the edges of tiles repeat with the usual tile sizes, which divide 64 or are half of it;
 * a sum over fewer than three tiles has no tile that is neither the first nor the last. */
static const struct least small = {64, 3, 2, 2};
/* Hardly more than one tile of a register, for runs by the hundred. */
static const struct least tiny = {8, 1, 1, 1};

static int64_t smaller_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Half the tiles of a size, with its remainder. */
static int64_t halved(int64_t size, const struct least *least)
{
    const int64_t tiles = size / least->tile;
    const int64_t half = tiles / 2 > least->tiles ? tiles / 2 : least->tiles;
    return smaller_of(tiles, half) * least->tile + size % least->tile;
}

/* A position along a size that has become smaller: no position keeps all of its distances to both
 * ends, so it keeps its remainder, and moves to the middle if it would be outside. None becomes 0.
 */
static int64_t moved(int64_t position, int64_t was, int64_t is, int64_t tile)
{
    if (position >= was)
        return is + (position > was);
    if (position < is)
        return position;
    const int64_t middle = is / tile / 2 * tile + position % tile;
    return middle == 0 ? (is + 1) / 2 : middle < is ? middle : is - 1;
}

/* Makes lists, windows and offsets fit sizes that have become smaller. 0, or -1: no memory. */
static int mend(const struct attn_case *from, int64_t tile, struct attn_case *c)
{
    int64_t lengths[ATTN_CASE_LIST_MAX], heads[ATTN_CASE_LIST_MAX];
    int kept = 0;
    for (int i = 0; c->len == ATTN_LEN_LIST && i < c->n_len; i++)
        lengths[i] = moved(from->len_list->at[i], from->sk, c->sk, tile);
    if (c->len == ATTN_LEN_LIST && attn_case_numbers_set(&c->len_list, lengths, c->n_len))
        return -1;
    for (int i = 0; i < from->n_prune; i++)
        if (from->prune->at[i] < c->hq)
            heads[kept++] = from->prune->at[i];
    c->n_prune = kept;
    if (attn_case_numbers_set(&c->prune, heads, kept))
        return -1;
    if (c->n_global > 0)
        c->n_global = c->n_global > c->sk ? c->sk : c->n_global;
    if (c->n_dilation > c->hq)
        c->n_dilation = (int)c->hq;
    if (c->window_left > 0)
        c->window_left = moved(from->window_left, from->sk, c->sk, tile);
    if (c->window_right > 0)
        c->window_right = moved(from->window_right, from->sk, c->sk, tile);
    if (c->off > 0)
        c->off = from->sk == from->sq + from->off ? c->sk - c->sq
                                                  : moved(from->off, from->sk, c->sk, tile);
    if (c->residual && !c->wo)
        c->e = c->hq * c->dv;
    return 0;
}

static double cells_of(const struct attn_case *c)
{
    return (double)c->b * (double)c->hq * (double)c->sq * (double)c->sk;
}

static int order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* One step. False: nothing can become smaller. */
static bool step(const struct least *least, struct attn_case *c)
{
    const int64_t sq = halved(c->sq, least), sk = halved(c->sk, least);
    if (c->b > least->batches) {
        c->b = least->batches;
        if (c->len == ATTN_LEN_LIST && c->n_len > c->b)
            c->n_len = (int)c->b;
        return true;
    }
    if (c->hkv > least->heads) {
        c->hq = c->hq / c->hkv * least->heads;
        c->hkv = least->heads;
        return true;
    }
    const struct {
        int64_t sq, sk;
    } ways[] = {{c->sq > c->sk ? sq : c->sq, c->sk > c->sq ? sk : c->sk}, /* the longer one */
                {sq, sk},
                {c->sq < c->sk ? sq : c->sq, c->sk < c->sq ? sk : c->sk}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        if (order(ways[w].sq, ways[w].sk) == order(c->sq, c->sk) &&
            (ways[w].sq < c->sq || ways[w].sk < c->sk)) {
            c->sq = ways[w].sq;
            c->sk = ways[w].sk;
            return true;
        }
    return false;
}

/* The case as its own line says it: every default follows the smaller sizes. */
static int reread(struct attn_case *c)
{
    char line[ATTN_CASE_LINE_MAX + 1], why[512];
    struct attn_case_list list = {0};
    attn_case_canonical(c, line, sizeof line);
    attn_case_free(c);
    if (attn_case_parse_line(line, strlen(line), NULL, 0, &list, why, sizeof why) ||
        list.count != 1) {
        attn_case_list_free(&list);
        return -1;
    }
    *c = list.items[0];
    list.count = 0;
    attn_case_list_free(&list);
    return 0;
}

/* What a run may cost. */
struct cost {
    double flops, cells, bytes;
};

static int make(const struct attn_case *c, const struct least *least, const struct cost *cost,
                struct attn_case *smaller)
{
    struct attn_case made;
    if (c->data || attn_case_copy(&made, c))
        return -1;
    bool any = made.view & ATTN_VIEW_HUGE;
    made.view &= ~(unsigned)ATTN_VIEW_HUGE;
    while (cells_of(&made) > cost->cells || (double)attn_case_bytes(&made) > cost->bytes ||
           attn_case_flops(&made, attn_case_cells(&made)) > cost->flops) {
        if (!step(least, &made))
            break;
        any = true;
    }
    if (!any || mend(c, least->tile, &made)) {
        attn_case_free(&made);
        return -1;
    }
    if (reread(&made))
        return -1;
    *smaller = made;
    return 0;
}

int attn_smaller_case(const struct attn_case *c, double share, double cells, double bytes,
                      struct attn_case *smaller)
{
    const struct cost cost = {share * attn_case_flops(c, attn_case_cells(c)), cells, bytes};
    return make(c, &small, &cost, smaller);
}

int attn_smaller_tiny(const struct attn_case *c, struct attn_case *smaller)
{
    return make(c, &tiny, &(struct cost){0, 0, 0}, smaller);
}
