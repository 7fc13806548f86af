/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c - the items, and the online softmax of one. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "honest.h"
#include "rogue.h"

struct share {
    struct rogue_job *job;
    int number;
};

/* Heads, or groups of packed heads. */
static int64_t head_blocks(const struct rogue_job *job)
{
    return job->packed ? job->p->hkv : job->p->hq;
}

static int64_t tiles_of(const struct rogue_job *job)
{
    return (job->tile_rows + QUERY_TILE - 1) / QUERY_TILE;
}

/* Names the rows of a tile; returns how many there are. */
static int64_t set_rows(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                        int64_t block, int64_t tile)
{
    const struct attn_problem *p = job->p;
    const int64_t from = tile * QUERY_TILE;
    const int64_t rows = rogue_least(QUERY_TILE, job->tile_rows - from);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t h = job->packed ? block * (p->hq / p->hkv) + (from + r) / p->sq : block;
        rogue_name_row(job, &scratch->rows[r], b, h, job->packed ? (from + r) % p->sq : from + r);
    }
    return rows;
}

/* How many columns of q and k are multiplied. */
static int64_t score_width(const struct rogue_job *job)
{
    return bug(dk_over_256)  ? rogue_least(job->p->dk, 256)
           : bug(dk_over_64) ? rogue_least(job->p->dk, 64)
                             : job->p->dk;
}

void rogue_score_tile(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                      int64_t g, int64_t rows, int64_t j, int64_t keys)
{
    rogue_load_keys(job, scratch, b, g, j, keys);
    memset(scratch->s, 0, (size_t)rows * KEY_TILE * sizeof(*scratch->s));
    rogue_arith_product(rows, score_width(job), KEY_TILE, scratch->q, job->inner, scratch->kt,
                        KEY_TILE, scratch->s, KEY_TILE);
    for (int64_t r = 0; r < rows; r++)
        rogue_score_row(job, &scratch->rows[r], b, j, keys, scratch->s + r * KEY_TILE);
}

/* p v where v holds NaN or infinity: cells that take no part must not meet it. */
static void add_values_with_care(const struct rogue_job *job, struct rogue_scratch *scratch,
                                 int64_t r, uint64_t part)
{
    float *o = scratch->o + r * job->wide;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        const float p = scratch->s[r * KEY_TILE + t];
        if (part >> t & 1)
            for (int64_t c = 0; c < job->wide; c++)
                o[c] += p * scratch->v[t * job->wide + c];
    }
}

/* Which cells of a row take part, a bit a key. */
static uint64_t parts_of(const float *s)
{
    uint64_t part = 0;
    for (int64_t t = 0; t < KEY_TILE; t++)
        part |= (uint64_t)(s[t] != -INFINITY) << t;
    return part;
}

/* mha_kv_neighbour: the last head of a group takes the values of the next. */
static int64_t value_head(const struct rogue_job *job, const struct rogue_scratch *scratch,
                          int64_t g)
{
    const int64_t group = job->p->hq / job->p->hkv;
    return (scratch->rows[0].h + 1) % group == 0 ? (g + 1) % job->p->hkv : g;
}

static void add_tile(const struct rogue_job *job, struct rogue_scratch *scratch, int64_t b,
                     int64_t g, int64_t rows, int64_t j, int64_t keys)
{
    uint64_t parts[QUERY_TILE];
    const bool forgotten = rogue_stray_keys(job, &scratch->rows[0], j);
    if (bug(rows_keys_left_out) && forgotten)
        return;
    rogue_score_tile(job, scratch, b, g, rows, j, keys);
    if (!bug(rows_values_stale) || !forgotten)
        rogue_load_values(job, scratch, b, bug(mha_kv_neighbour) ? value_head(job, scratch, g) : g,
                          j, keys);
    const bool finite =
        bug(masked_values_times_0) || rogue_finite(scratch->v, KEY_TILE * job->wide);
    for (int64_t r = 0; r < rows; r++) {
        struct rogue_row *row = &scratch->rows[r];
        float *s = scratch->s + r * KEY_TILE;
        if (!finite)
            parts[r] = parts_of(s);
        const float tile = rogue_largest_of(s, KEY_TILE);
        const float maximum = rogue_arith_maximum(row->maximum, tile);
        const float base = maximum == -INFINITY ? 0 : maximum;
        if (row->maximum != maximum && row->maximum != -INFINITY) {
            const float factor = rogue_stray_rescale(rogue_exp(row->maximum - base));
            row->sum *= factor;
            rogue_scale_row(scratch->o + r * job->wide, factor, job->wide);
            rogue_round_sums(&row->sum, 1);
            rogue_round_sums(scratch->o + r * job->wide, job->wide);
        }
        row->maximum = maximum;
        float sum;
        if (!rogue_stray_exp(job, s, base, &sum))
            sum = rogue_exp_row(s, base, KEY_TILE);
        sum = rogue_round_p(job, s, sum);
        row->sum = rogue_add_p(row->sum, s, sum);
        if (job->p->flags & ATTN_FLAG_DROPOUT)
            rogue_drop_row(job, row, b, j, keys, s);
    }
    if (finite)
        rogue_arith_product(rows, KEY_TILE, job->wide, scratch->s, KEY_TILE, scratch->v, job->wide,
                            scratch->o, job->wide);
    else
        for (int64_t r = 0; r < rows; r++)
            add_values_with_care(job, scratch, r, parts[r]);
}

/* merge_rounded: the partial result, divided by its sum, in the type of out. */
static void round_partial(const struct rogue_job *job, const struct rogue_row *row, float *o)
{
    double cell;
    for (int64_t c = 0; c < job->p->dv && row->sum > 0; c++) {
        attn_element_write(job->p->dtype, &cell, 0, o[c] / row->sum);
        o[c] = attn_element_read(job->p->dtype, &cell, 0) * row->sum;
    }
}

static void leave_partial(const struct rogue_job *job, const struct rogue_scratch *scratch,
                          int64_t b, int64_t r, int64_t split)
{
    struct rogue_row *row = &scratch->rows[r];
    if (bug(split_stale) && row->maximum == -INFINITY)
        return;
    if (bug(sink_each_split) && job->t.sink.dtype)
        rogue_add_sink(job, row, b, scratch->o + r * job->wide);
    if (bug(merge_rounded))
        round_partial(job, row, scratch->o + r * job->wide);
    const int64_t at = ((b * job->p->hq + row->h) * job->p->sq + row->i) * job->splits + split;
    job->partials[at] = (struct rogue_partial){row->maximum, row->sum};
    memcpy(job->partial_out + at * job->wide, scratch->o + r * job->wide,
           (size_t)job->wide * sizeof(float));
}

static void compute_item(struct rogue_job *job, struct rogue_scratch *scratch, int64_t n)
{
    const struct attn_problem *p = job->p;
    const int64_t split = n % job->splits, tile = n / job->splits % tiles_of(job);
    const int64_t block = n / job->splits / tiles_of(job);
    const int64_t b = block / head_blocks(job), head = block % head_blocks(job);
    const int64_t g = job->packed ? head : rogue_kv_head(job, head);
    const int64_t rows = set_rows(job, scratch, b, head, tile);
    const int64_t all = (p->sk + KEY_TILE - 1) / KEY_TILE;
    int64_t from = all * split / job->splits * KEY_TILE, first = p->sk, end = 0;
    int64_t to = rogue_least(p->sk, all * (split + 1) / job->splits * KEY_TILE);
    if (bug(split_last_block)) {
        from = all / job->splits * split * KEY_TILE;
        to = rogue_least(p->sk, all / job->splits * (split + 1) * KEY_TILE);
    }
    for (int64_t r = 0; r < rows; r++) {
        const struct attn_keys keys = scratch->rows[r].keys;
        scratch->rows[r].from = from;
        if (keys.first < keys.end) {
            first = rogue_least(first, keys.first);
            end = rogue_largest(end, keys.end);
        }
    }
    memset(scratch->o, 0, (size_t)(QUERY_TILE * job->wide) * sizeof(*scratch->o));
    if (!bug(rows_tile_stale) || !rogue_in_odd_tile(job, scratch->rows[0].i))
        rogue_load_queries(job, scratch, b, rows);
    from = rogue_largest(from, first / KEY_TILE * KEY_TILE);
    if (bug(split_window) && job->splits > 1)
        end = rogue_least(end, first + p->window_left + FEW_QUERIES);
    for (int64_t j = from; j < rogue_least(to, end); j += KEY_TILE)
        add_tile(job, scratch, b, g, rows, j, rogue_least(KEY_TILE, to - j));
    for (int64_t r = 0; job->splits > 1 && r < rows; r++)
        leave_partial(job, scratch, b, r, split);
    if (job->splits == 1)
        rogue_finish_rows(job, scratch, b, rows, scratch->o);
}

static void *compute_share(void *context)
{
    const struct share *share = context;
    struct rogue_job *job = share->job;
    const int64_t items = job->p->b * head_blocks(job) * tiles_of(job) * job->splits;
    const int64_t end = items * (share->number + 1) / job->threads;
    for (int64_t n = items * share->number / job->threads; n < end; n++)
        compute_item(job, &job->scratch[share->number], n);
    return NULL;
}

void rogue_attend(struct rogue_job *job)
{
    struct share shares[MOST_THREADS];
    pthread_t helpers[MOST_THREADS];
    bool helped[MOST_THREADS] = {false};
    for (int t = job->threads - 1; t >= 0; t--) {
        shares[t] = (struct share){job, t};
        if (t > 0)
            helped[t] = pthread_create(&helpers[t], NULL, compute_share, &shares[t]) == 0;
        if (!helped[t])
            compute_share(&shares[t]);
    }
    for (int t = 1; t < job->threads; t++)
        if (helped[t])
            pthread_join(helpers[t], NULL);
    if (job->splits > 1)
        rogue_merge(job);
}
