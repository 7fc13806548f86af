/* SPDX-License-Identifier: Apache-2.0 */
/* ranking.c - ranks the backends of every case, and of every family of cases. */
#include "report/ranking.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/text.h"

static const struct attn_ratio no_ratio = {NAN, NAN, NAN, -1, 1};

bool attn_row_ranked(const struct attn_view_row *row)
{
    return row && attn_row_timed(row) && attn_row_exact(row) &&
           isfinite(attn_row_ratio(row, row).ratio);
}

size_t attn_fastest(const struct attn_view_row *const *rows, size_t n, size_t except)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (i != except && attn_row_ranked(rows[i]) &&
            (best == n || attn_row_ratio(rows[best], rows[i]).ratio > 1))
            best = i;
    return best;
}

bool attn_row_ties(const struct attn_view_row *row, const struct attn_view_row *fastest)
{
    if (!fastest || row == fastest || !attn_row_ranked(row))
        return fastest && row == fastest;
    const struct attn_ratio ratio = attn_row_ratio(row, fastest);
    return isfinite(ratio.hi) && ratio.lo <= 1;
}

/* The processor time of one round over what the fastest takes undisturbed, by the same clock; 0:
 * not known. */
static double processor_ratio(const struct attn_view_row *row, const struct attn_view_row *fastest)
{
    const char *clock = attn_field_text(fastest->bench, "live.clock");
    const double low = attn_field_number(fastest->bench, "live.low_ns.value");
    const bool known = strcmp(clock, "thread") == 0 || strcmp(clock, "process") == 0;
    return known && low > 0 ? attn_field_number(row->bench, "least_cpu_ns") / low : 0;
}

/* Did it have no turns because it is so many times as slow (bench/paired.c)? Then it is slower,
 * though nobody knows by how much: one round is off by less. (Beside other work a round was 3.8
 * times as long as its processor time, and that was 1.9 times as long as alone on its core.) */
static bool is_far_slower(const struct attn_view_row *row, const struct attn_view_row *fastest,
                          const struct attn_ratio *ratio)
{
    static const double far = 10, far_by_processor = 3;
    return isinf(ratio->hi) && *attn_field_text(row->bench, "live.reason") &&
           (ratio->ratio > far || processor_ratio(row, fastest) > far_by_processor);
}

static struct attn_rank rank_line(const struct attn_grid *grid, size_t line)
{
    const struct attn_view_row **cells = grid->lines[line].cells;
    const size_t none = grid->n_columns;
    struct attn_rank rank = {attn_fastest(cells, none, none), none, 0, no_ratio, false};
    if (rank.first == none)
        return rank;
    rank.second = attn_fastest(cells, none, rank.first);
    rank.ranked = 1;
    rank.clear = rank.second != none;
    for (size_t c = 0; c < none; c++) {
        if (c == rank.first || !attn_row_ranked(cells[c]))
            continue;
        struct attn_ratio ratio = attn_row_ratio(cells[c], cells[rank.first]);
        rank.ranked++;
        rank.clear =
            rank.clear && (ratio.lo > 1 || is_far_slower(cells[c], cells[rank.first], &ratio));
        if (c == rank.second)
            rank.ratio = ratio;
    }
    return rank;
}

struct attn_ratio attn_ratio_mean(const struct attn_ratio *ratios, size_t count)
{
    struct attn_ratio mean = no_ratio;
    double logs = 0, squares = 0, fourths = 0, n = (double)count;
    bool known = true;
    if (!count)
        return mean;
    for (size_t i = 0; i < count; i++) {
        const double square = ratios[i].error * ratios[i].error / (n * n);
        logs += log(ratios[i].ratio);
        known = known && ratios[i].error >= 0;
        squares += square;
        fourths += square * square / ratios[i].df;
    }
    mean = (struct attn_ratio){exp(logs / n), 0, INFINITY, -1, 1};
    if (!known)
        return mean;
    double half = 0;
    mean.error = sqrt(squares);
    if (squares > 0) {
        mean.df = squares * squares / fourths;
        half = attn_student_t975(mean.df) * mean.error;
    }
    mean.lo = mean.ratio * exp(-half);
    mean.hi = mean.ratio * exp(half);
    return mean;
}

/* "sweep_heads/" of a case's name, or the name of its group. */
static size_t family_length(const struct attn_grid_line *line)
{
    size_t length = strcspn(line->group, "/");
    return line->group[length] ? length + 1 : line->group_length;
}

bool attn_family_has(const struct attn_family *family, const struct attn_grid_line *line)
{
    return family_length(line) == family->length &&
           memcmp(line->group, family->name, family->length) == 0;
}

bool attn_family_no_one(const struct attn_family *family, size_t columns)
{
    return family->second < columns && family->ratio.ratio < 1 &&
           !(isfinite(family->ratio.hi) && family->ties[family->second]);
}

void attn_family_label(const struct attn_family *family, char *label, size_t size)
{
    const bool sweep = family->length && family->name[family->length - 1] == '/';
    const size_t length = family->length - sweep;
    if (strcmp(family->name, ATTN_GROUP_UNNAMED) == 0)
        snprintf(label, size, "unnamed cases");
    else
        snprintf(label, size, "%.*s%s", length < 80 ? (int)length : 80, family->name,
                 sweep ? "" : " (single cases)");
}

/* Is the fastest of a case so fast that calls and not kernels are timed? */
static bool is_toy(const struct attn_ranking *ranking, size_t line)
{
    static const double toy_ns = 1e4;
    const size_t first = ranking->lines[line].first;
    return first < ranking->grid->n_columns &&
           ranking->grid->lines[line].cells[first]->median < toy_ns;
}

/* Has a family cases of two backends or more that are no toys? */
static bool has_real_cases(const struct attn_ranking *ranking, const struct attn_family *family)
{
    bool real = false;
    for (size_t i = 0; i < ranking->grid->n_lines; i++)
        real = real || (attn_family_has(family, &ranking->grid->lines[i]) &&
                        ranking->lines[i].ranked > 1 && !is_toy(ranking, i));
    return real;
}

/* Leaves those with an interval, if there are any: ratios of one round say nothing of its width. */
static size_t keep_known(struct attn_ratio *ratios, size_t n)
{
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(ratios[i].hi))
            ratios[known++] = ratios[i];
    return known ? known : n;
}

/* The geometric mean over the cases of a family in which both columns were ranked, without toys
 * where others are shared. `room` holds a ratio for every line. */
static struct attn_ratio mean_over(const struct attn_ranking *ranking,
                                   const struct attn_family *family, size_t first, size_t second,
                                   struct attn_ratio *room, size_t *shared)
{
    size_t n = 0;
    for (int toys = !has_real_cases(ranking, family); n == 0 && toys < 2; toys++)
        for (size_t i = 0; i < ranking->grid->n_lines; i++) {
            const struct attn_grid_line *line = &ranking->grid->lines[i];
            if (attn_family_has(family, line) && (toys || !is_toy(ranking, i)) &&
                attn_row_ranked(line->cells[first]) && attn_row_ranked(line->cells[second]))
                room[n++] = attn_row_ratio(line->cells[second], line->cells[first]);
        }
    *shared = keep_known(room, n);
    return attn_ratio_mean(room, *shared);
}

/* In how many cases of the family is column `c` first, or behind `except` alone? Without toys where
 * others were timed. */
static size_t wins_beside(const struct attn_ranking *ranking, const struct attn_family *family,
                          size_t except, size_t c)
{
    const bool toys = !has_real_cases(ranking, family);
    size_t wins = 0;
    for (size_t i = 0; i < ranking->grid->n_lines; i++) {
        const struct attn_rank *rank = &ranking->lines[i];
        wins += rank->ranked > 1 &&
                (rank->first == c || (rank->first == except && rank->second == c)) &&
                attn_family_has(family, &ranking->grid->lines[i]) && (toys || !is_toy(ranking, i));
    }
    return wins;
}

/* The column with most wins but `except`; of equals, the one that is itself first more often, or
 * else faster in the mean. */
static size_t leader(const struct attn_ranking *ranking, const struct attn_family *family,
                     size_t except, struct attn_ratio *room)
{
    const size_t none = ranking->grid->n_columns;
    size_t best = none, most = 0;
    for (size_t c = 0; c < none; c++) {
        size_t shared;
        const size_t wins = c == except ? 0 : wins_beside(ranking, family, except, c);
        if (wins == 0 || wins < most)
            continue;
        const size_t own = family->wins[c], others = best == none ? 0 : family->wins[best];
        if (wins > most || own > others ||
            (own == others && mean_over(ranking, family, best, c, room, &shared).ratio < 1)) {
            most = wins;
            best = c;
        }
    }
    return best;
}

static void judge_family(const struct attn_ranking *ranking, struct attn_family *family,
                         struct attn_ratio *room)
{
    const size_t none = ranking->grid->n_columns;
    family->first = leader(ranking, family, none, room);
    family->second = leader(ranking, family, family->first, room);
    family->ratio = no_ratio;
    if (family->first != none && family->second != none)
        family->ratio =
            mean_over(ranking, family, family->first, family->second, room, &family->shared);
    for (size_t c = 0, shared; c < none && family->first != none; c++) {
        const struct attn_ratio ratio = mean_over(ranking, family, family->first, c, room, &shared);
        family->ties[c] = c != family->first && shared > 0 && isfinite(ratio.hi) && ratio.lo <= 1 &&
                          ratio.hi >= 1;
    }
}

static struct attn_family *family_of(struct attn_ranking *ranking,
                                     const struct attn_grid_line *line)
{
    for (size_t f = 0; f < ranking->n_families; f++)
        if (attn_family_has(&ranking->families[f], line))
            return &ranking->families[f];
    struct attn_family *fresh = &ranking->families[ranking->n_families++];
    fresh->name = line->group;
    fresh->length = family_length(line);
    fresh->wins = ranking->wins + ranking->n_families * ranking->grid->n_columns;
    fresh->ties = ranking->tie_storage + ranking->n_families * ranking->grid->n_columns;
    return fresh;
}

static void file_line(struct attn_ranking *ranking, size_t at)
{
    const struct attn_grid_line *line = &ranking->grid->lines[at];
    const struct attn_rank *rank = &ranking->lines[at];
    if (!rank->ranked)
        return;
    struct attn_family *family = family_of(ranking, line);
    const double flops = attn_field_number(line->cells[rank->first]->bench, "flops");
    if (flops > 0 && isfinite(flops))
        family->work += flops;
    if (rank->ranked < 2) {
        family->alone++;
        return;
    }
    family->cases++;
    family->clear += rank->clear;
    family->wins[rank->first]++;
    ranking->cases++;
    ranking->clear += rank->clear;
    ranking->wins[rank->first]++;
}

static int by_work(const void *a, const void *b)
{
    const struct attn_family *x = a, *y = b;
    if (x->work != y->work)
        return x->work < y->work ? 1 : -1;
    return x->wins < y->wins ? -1 : 1; /* as they were filed */
}

int attn_ranking_create(const struct attn_grid *grid, struct attn_ranking *ranking)
{
    struct attn_ranking fresh = {.grid = grid};
    struct attn_ratio *room = calloc(grid->n_lines + 1, sizeof *room);
    size_t kept = 0;
    fresh.lines = calloc(grid->n_lines + 1, sizeof *fresh.lines);
    fresh.families = calloc(grid->n_lines + 1, sizeof *fresh.families);
    fresh.wins = fresh.storage =
        calloc((grid->n_lines + 1) * (grid->n_columns + 1), sizeof *fresh.storage);
    fresh.tie_storage =
        calloc((grid->n_lines + 1) * (grid->n_columns + 1), sizeof *fresh.tie_storage);
    if (!room || !fresh.lines || !fresh.families || !fresh.storage || !fresh.tie_storage) {
        free(room);
        attn_ranking_free(&fresh);
        return -1;
    }
    for (size_t i = 0; i < grid->n_lines; i++) {
        fresh.lines[i] = rank_line(grid, i);
        file_line(&fresh, i);
    }
    for (size_t f = 0; f < fresh.n_families; f++) {
        if (!fresh.families[f].cases)
            continue;
        fresh.families[kept] = fresh.families[f];
        judge_family(&fresh, &fresh.families[kept++], room);
    }
    fresh.n_families = kept;
    qsort(fresh.families, kept, sizeof *fresh.families, by_work);
    free(room);
    *ranking = fresh;
    return 0;
}

void attn_ranking_free(struct attn_ranking *ranking)
{
    free(ranking->lines);
    free(ranking->families);
    free(ranking->storage);
    free(ranking->tie_storage);
    *ranking = (struct attn_ranking){0};
}
