/* SPDX-License-Identifier: Apache-2.0 */
/* backward.c - see backward.h */
#include "backward.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"

/* Keys of a tile: the more, the less often dq is read and written. Queries of a tile: the more, the
 * less often dk and dv are. All of it, with the scores, has to stay in the second-level cache. AMX
 * tiles multiply so fast that their sums are to come and go more rarely. */
#define MOST_KEYS        192
#define MOST_KEYS_AMX    384
#define LEAST_KEYS       48
#define MOST_QUERIES     96
#define MOST_QUERIES_AMX 128
#define FEW_HEADS        8
#define LEAST_UNITS      16
/* Heads under way at a time, for each of several threads. One that is late seldom holds others up.
 */
#define SLOTS 2

static int64_t tiles_of(int64_t extent, int64_t tile)
{
    return (extent + tile - 1) / tile;
}

/* An extent in tiles of about equal size, at most `most` rounded up to `unit`. */
static int64_t even_tile(int64_t extent, int64_t most, int64_t unit)
{
    const int64_t tiles = extent > 0 ? tiles_of(extent, most) : 1;
    return attn_round_up(extent > 0 ? tiles_of(extent, tiles) : 1, unit);
}

/* An integer option that the harness has checked. 0: not given. */
static int64_t option(const struct attn_services *services, const char *key)
{
    return strtoll(attn_option_get(services, key, "0"), NULL, 10);
}

static bool has_amx(const struct attn_plan *plan)
{
    return plan->isa->step > 16;
}

/* Keys of a tile: k, k^T, v^T, dk and dv take half of the second-level cache. Few heads have
 * smaller tiles, so that threads have units to share; how many threads there are does not count,
 * because it must not change results. */
static int64_t fit_keys(const struct attn_plan *plan, const struct attn_backward *x)
{
    const struct attn_problem *p = x->problem;
    const int64_t heads = p->b * p->hkv, floats = plan->caches.l2 / 2 / (int64_t)sizeof(float);
    int64_t keys = floats / (2 * x->dk_row + 2 * x->dv_row + p->dk);
    if (heads < FEW_HEADS && heads * p->sk / LEAST_UNITS < keys)
        keys = heads * p->sk / LEAST_UNITS;
    return attn_clamp(keys, LEAST_KEYS, has_amx(plan) ? MOST_KEYS_AMX : MOST_KEYS);
}

static void choose_tiles(const struct attn_plan *plan, struct attn_backward *x)
{
    const struct attn_problem *p = x->problem;
    int64_t keys = option(plan->services, "key_block"), rows = option(plan->services, "item_rows");
    keys = attn_clamp(keys > 0 ? keys : fit_keys(plan, x), 1, ATTN_FLASH_MOST_KEYS);
    rows = rows > 0 ? rows : has_amx(plan) ? MOST_QUERIES_AMX : MOST_QUERIES;
    rows = attn_clamp(rows, 1, ATTN_BACKWARD_GROUPS * plan->isa->mr);
    x->key_tile = even_tile(p->sk, keys, has_amx(plan) ? plan->isa->step : 16);
    x->query_tile = even_tile(p->sq, rows, plan->isa->mr);
    x->key_tiles = p->sk > 0 ? tiles_of(p->sk, x->key_tile) : 0;
    x->query_tiles = tiles_of(p->sq, x->query_tile);
    x->score_row = attn_round_up(x->key_tile, 64) + 16;
    x->rows_row = attn_round_up(x->query_tile, 32) / 2 + 16;
}

/* The job of the scores. Raw scores take their factor in the exponential if nothing else comes
 * before. */
static void prepare_scores(struct attn_backward *x)
{
    const struct attn_problem *p = x->problem;
    const double log2_e = 1.4426950408889634;
    struct attn_flash *f = &x->flash;
    const bool capped = p->flags & ATTN_FLAG_SOFTCAP;
    const bool adds = attn_tensor_find(p, ATTN_BIAS) || attn_tensor_find(p, ATTN_ALIBI);
    *f = (struct attn_flash){.problem = p,
                             .dtype = p->dtype,
                             .b = p->b,
                             .groups = p->hkv,
                             .group = p->hq / p->hkv,
                             .sq = p->sq,
                             .sk = p->sk,
                             .dq = p->dq,
                             .dk = p->dk,
                             .dv = p->dv,
                             .score = p->score,
                             .flags = p->flags & ~(uint64_t)ATTN_FLAG_SOFTCAP};
    f->factor = (float)(capped ? p->scale / p->softcap * ATTN_FLASH_TANH : p->scale * log2_e);
    f->cap2 = (float)(p->softcap * log2_e);
    /* A factor that is not positive would change the -inf of forbidden cells. */
    f->late = !capped && (adds || !(f->factor > 0.0f) || !isfinite(f->factor));
    x->factor = capped || f->late ? 1.0f : f->factor;
    x->finish = f->late || adds || capped || attn_tensor_find(p, ATTN_MASK) ||
                (p->flags & ATTN_FLAG_DROPOUT) || attn_tensor_find(p, ATTN_GRAD_BIAS) ||
                attn_tensor_find(p, ATTN_GRAD_ALIBI);
    if (p->flags & ATTN_FLAG_DROPOUT) {
        f->keep_by = (float)(1.0 / (1.0 - p->dropout_p));
        f->keep_from = attn_dropout_threshold(p->dropout_p);
    }
}

/* Whether cells that share an element of dbias are of one unit, or of one place in the batches. */
static bool owns_bias(const struct attn_backward *x)
{
    const struct attn_problem *p = x->problem;
    return !attn_tensor_find(p, ATTN_GRAD_BIAS) ||
           ((attn_problem_bias_extent(p, 1) == p->hq || p->hkv == 1) &&
            (attn_problem_bias_extent(p, 3) == p->sk || x->key_tiles <= 1));
}

/* What backward_pairs.h has beside, or in another order. */
static void lay_out_pairs(const struct attn_backward *x, void *base, int64_t *used,
                          struct attn_backward_scratch *w)
{
    const int64_t dk = attn_round_up(x->problem->dk, 32), dv = attn_round_up(x->problem->dv, 32);
    const int64_t rows = attn_round_up(x->query_tile, 32);
    w->dk = attn_array_place(base, used, dk, x->score_row, sizeof(float));
    w->dv = attn_array_place(base, used, dv, x->score_row, sizeof(float));
    w->q_t = attn_array_place(base, used, dk, x->rows_row, sizeof(float));
    w->dout_t = attn_array_place(base, used, dv, x->rows_row, sizeof(float));
    w->p = attn_array_place(base, used, rows / 2, x->score_row, sizeof(float));
    w->dst = attn_array_place(base, used, rows / 2, x->score_row, sizeof(float));
    w->dsr = attn_array_place(base, used, rows / 2, x->score_row, sizeof(float));
}

/* The scratch memory of a thread. */
static void lay_out_scratch(const struct attn_plan *plan, void *base, int64_t *used,
                            struct attn_backward_scratch *w)
{
    const struct attn_backward *x = plan->backward;
    const struct attn_problem *p = x->problem;
    const int64_t keys = attn_round_up(x->key_tile, plan->isa->nr);
    const int64_t rows = plan->isa->pairs ? attn_round_up(x->query_tile, 32) : x->query_tile;
    const int64_t wide = x->dk_row > x->dv_row ? x->dk_row : x->dv_row;
    w->kt = attn_array_place(base, used, keys, attn_round_up(p->dk, 16), sizeof(float));
    w->vt = attn_array_place(base, used, keys, attn_round_up(p->dv, 16), sizeof(float));
    w->k = attn_array_place(base, used, x->key_tile, x->dk_row, sizeof(float));
    if (plan->isa->pairs)
        lay_out_pairs(x, base, used, w);
    else {
        w->dk = attn_array_place(base, used, x->key_tile, x->dk_row, sizeof(float));
        w->dv = attn_array_place(base, used, x->key_tile, x->dv_row, sizeof(float));
    }
    w->q = attn_array_place(base, used, rows, x->dk_row, sizeof(float));
    w->dout = attn_array_place(base, used, rows, x->dv_row, sizeof(float));
    w->s = attn_array_place(base, used, rows, x->score_row, sizeof(float));
    w->ds = attn_array_place(base, used, rows, x->score_row, sizeof(float));
    w->kept = attn_array_place(base, used, 1, x->score_row, sizeof(float));
    w->capped = attn_array_place(base, used, 1, x->score_row, sizeof(float));
    w->held = attn_array_place(base, used, 16, wide, sizeof(float));
}

/* Lays out all memory. Called once to learn its bytes, and once to set the pointers. Returns -1 on
 * overflow. */
static int64_t lay_out(struct attn_plan *plan, void *base)
{
    struct attn_backward *x = plan->backward;
    const struct attn_problem *p = x->problem;
    const int64_t group = p->hq / p->hkv, heads = p->b * p->hkv, rows = p->b * p->hq;
    int64_t used = 0, slopes = 0;
    if (attn_tensor_find(p, ATTN_GRAD_ALIBI) && __builtin_mul_overflow(x->key_tiles, rows, &slopes))
        return -1;
    x->keys = attn_array_place(base, &used, p->b, p->sq, sizeof *x->keys);
    x->seen = attn_array_place(base, &used, p->b, x->query_tiles, sizeof *x->seen);
    x->lse = attn_array_place(base, &used, rows, p->sq, sizeof(float));
    x->delta = attn_array_place(base, &used, rows, p->sq, sizeof(float));
    x->slopes = attn_array_place(base, &used, 1, slopes, sizeof(float));
    x->slots = attn_clamp(plan->threads > 1 ? SLOTS * plan->threads : 1, 0, heads);
    const int64_t dq_rows = x->query_tiles * x->query_tile;
    x->dq = attn_array_place(base, &used, x->slots * group,
                             dq_rows < INT64_MAX / x->dk_row ? dq_rows * x->dk_row : INT64_MAX,
                             sizeof(float));
    x->turn = attn_array_place(base, &used, x->slots * group, x->query_tiles, sizeof *x->turn);
    x->visits =
        attn_array_place(base, &used, x->follows ? heads : 0, x->key_tiles, sizeof *x->visits);
    x->done = attn_array_place(base, &used, 1, x->slots, sizeof *x->done);
    for (int t = 0; t < plan->threads; t++) {
        struct attn_backward_scratch unused;
        lay_out_scratch(plan, base, &used, base ? &x->scratch[t] : &unused);
    }
    return used;
}

/* Units of all heads; INT64_MAX if they are too many to count. */
static int64_t units_of(const struct attn_backward *x)
{
    int64_t units;
    return __builtin_mul_overflow(x->problem->b * x->problem->hkv, x->key_tiles, &units) ? INT64_MAX
                                                                                         : units;
}

static void prepare(struct attn_plan *plan)
{
    struct attn_backward *x = plan->backward;
    const struct attn_problem *p = x->problem;
    x->dk_row = attn_round_up(p->dk, 16) + 16;
    x->dv_row = attn_round_up(p->dv, 16) + 16;
    choose_tiles(plan, x);
    prepare_scores(x);
    if (attn_tensor_find(p, ATTN_GRAD_BIAS)) {
        x->follows = attn_problem_bias_extent(p, 0) < p->b;
        x->follows_all =
            attn_problem_bias_extent(p, 1) < p->hq || attn_problem_bias_extent(p, 2) < p->sq;
    }
    plan->items = units_of(x);
    plan->job.dtype = p->dtype;
    plan->job.key_block = x->key_tile;
    plan->job.item_rows = x->query_tile;
    plan->threads = (int)attn_clamp(plan->services->threads, 1,
                                    owns_bias(x) && plan->items > 1 ? plan->items : 1);
}

int attn_backward_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                         const struct attn_services *services, struct attn_plan **plan, char *why,
                         size_t size)
{
    const size_t most = services->threads > 1 ? services->threads : 1;
    int status = ATTN_OUT_OF_MEMORY;
    struct attn_plan *made = attn_take_memory(services, sizeof *made, "the plan", why, size);
    if (!made)
        return status;
    if (isa->other && !(isa->run_backward && problem->dtype == isa->pairs))
        isa = isa->other;
    *made = (struct attn_plan){
        .services = services, .isa = isa, .caches = attn_caches_read("/sys/devices/system/cpu")};
    made->backward = attn_take_memory(
        services, sizeof *made->backward + most * sizeof(struct attn_backward_scratch), "the plan",
        why, size);
    if (!made->backward)
        goto out;
    *made->backward = (struct attn_backward){.problem = problem};
    prepare(made);
    const int64_t bytes = lay_out(made, NULL);
    if (bytes < 0) {
        snprintf(why, size, "the sums of all rows are too large");
        goto out;
    }
    made->memory = attn_take_memory(services, (size_t)bytes, "sums of dq and scratch", why, size);
    if (!made->memory)
        goto out;
    lay_out(made, made->memory);
    status = attn_pool_create(services, made->threads, &made->pool, why, size);
    if (status == ATTN_OK) {
        *plan = made;
        return status;
    }
out:
    attn_backward_destroy(made);
    return status;
}

void attn_backward_destroy(struct attn_plan *plan)
{
    if (!plan)
        return;
    if (plan->backward)
        plan->services->free(plan->services->context, plan->backward);
    attn_plan_destroy(plan);
}

/* The intervals of the rows of a query tile, and what they have in common. */
static void find_keys(const struct attn_backward *x, int64_t b, int64_t tile)
{
    const struct attn_problem *p = x->problem;
    const int64_t first = tile * x->query_tile, end = attn_clamp(first + x->query_tile, 0, p->sq);
    struct attn_backward_seen seen = {.any = {p->sk, 0}, .all = {0, p->sk}};
    for (int64_t i = first; i < end; i++) {
        const struct attn_keys keys = attn_keys_seen(p, &x->operands.len, b, i);
        x->keys[b * p->sq + i] = keys;
        seen.all.first = keys.first > seen.all.first ? keys.first : seen.all.first;
        seen.all.end = keys.end < seen.all.end ? keys.end : seen.all.end;
        if (keys.first == keys.end)
            continue;
        seen.any.first = keys.first < seen.any.first ? keys.first : seen.any.first;
        seen.any.end = keys.end > seen.any.end ? keys.end : seen.any.end;
    }
    x->seen[b * x->query_tiles + tile] = seen;
}

/* dbias of the rows of a query tile becomes 0, in the first of those that share an element. */
static void clear_bias(const struct attn_backward *x, int64_t b, int64_t h, int64_t tile)
{
    const struct attn_tensor *to = &x->operands.grad_bias;
    const struct attn_problem *p = x->problem;
    const int64_t first = tile * x->query_tile;
    const int64_t end = attn_clamp(first + x->query_tile, 0, p->sq);
    if (!to->dtype || b >= to->shape[0] || h >= to->shape[1])
        return;
    for (int64_t i = first; i < end && i < to->shape[2]; i++)
        for (int64_t j = 0; j < to->shape[3]; j++)
            ((float *)to->data)[attn_row_start(to, b, h, i) + j * to->stride[3]] = 0.0f;
}

/* What is needed of the rows before the units. */
static void prepare_rows(void *context, int thread)
{
    const struct attn_plan *plan = context;
    struct attn_backward *x = plan->backward;
    const int64_t tiles = x->query_tiles, items = x->problem->b * tiles;
    const int64_t end = items * (thread + 1) / plan->threads;
    for (int64_t n = items * thread / plan->threads; n < end; n++) {
        const int64_t tile = n % tiles, b = n / tiles;
        find_keys(x, b, tile);
        for (int64_t h = 0; h < x->problem->hq; h++) {
            clear_bias(x, b, h, tile);
            plan->isa->prepare_backward(x, &x->scratch[thread], b, h, tile);
        }
    }
}

/* The unit that is the n-th to be taken: the heads that have slots at a time, tile by tile. So
 * threads seldom meet in a head. */
static int64_t unit_of(const struct attn_backward *x, int64_t n)
{
    const int64_t heads = x->problem->b * x->problem->hkv, round = x->slots * x->key_tiles;
    const int64_t first = n / round * x->slots, at = n % round;
    const int64_t width = attn_clamp(heads - first, 1, x->slots);
    return (first + at % width) * x->key_tiles + at / width;
}

static void compute_units(void *context, int thread)
{
    const struct attn_plan *plan = context;
    struct attn_backward *x = plan->backward;
    for (;;) {
        const int64_t n = atomic_fetch_add(&x->next, 1);
        if (n >= plan->items)
            return;
        const int64_t unit = unit_of(x, n), head = unit / x->key_tiles, slot = head % x->slots;
        attn_backward_await_slot(x, slot, head);
        plan->isa->run_backward(x, &x->scratch[thread], unit);
        atomic_fetch_add(&x->done[slot], 1);
    }
}

/* dsink of a head, from the sums of its rows. */
static float sink_gradient(const struct attn_backward *x, int64_t h)
{
    const struct attn_problem *p = x->problem;
    const struct attn_tensor *sink = &x->operands.sink;
    const double own = 1.4426950408889634 *
                       (double)attn_element_read(sink->dtype, sink->data, h * sink->stride[0]);
    double sum = 0.0;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            const int64_t at = (b * p->hq + h) * p->sq + i;
            if (x->lse[at] != INFINITY)
                sum -= exp2(own - (double)x->lse[at]) * (double)x->delta[at];
        }
    return (float)sum;
}

/* dalibi of a head, from the sums of its units. */
static float slope_gradient(const struct attn_backward *x, int64_t h)
{
    const struct attn_problem *p = x->problem;
    const int64_t group = x->flash.group;
    double sum = 0.0;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t t = 0; t < x->key_tiles; t++) {
            const int64_t unit = (b * p->hkv + h / group) * x->key_tiles + t;
            sum -= (double)x->slopes[unit * group + h % group];
        }
    return (float)sum;
}

static void store_sums(const struct attn_backward *x)
{
    const struct attn_tensor *sink = &x->operands.grad_sink, *alibi = &x->operands.grad_alibi;
    for (int64_t h = 0; sink->dtype && h < x->problem->hq; h++)
        ((float *)sink->data)[h * sink->stride[0]] = sink_gradient(x, h);
    for (int64_t h = 0; alibi->dtype && h < x->problem->hq; h++)
        ((float *)alibi->data)[h * alibi->stride[0]] = slope_gradient(x, h);
}

void attn_backward_run(struct attn_plan *plan, const struct attn_operands *given)
{
    struct attn_backward *x = plan->backward;
    x->operands = x->flash.operands = *given;
    atomic_store(&x->next, 0);
    for (int64_t s = 0; s < x->slots; s++)
        atomic_store_explicit(&x->done[s], 0, memory_order_relaxed);
    for (int64_t n = 0; n < x->slots * x->flash.group * x->query_tiles; n++)
        atomic_store_explicit(&x->turn[n], 0, memory_order_relaxed);
    for (int64_t n = 0; x->follows && n < plan->items; n++)
        atomic_store_explicit(&x->visits[n], 0, memory_order_relaxed);
    attn_pool_run(plan->pool, prepare_rows, plan);
    attn_pool_run(plan->pool, compute_units, plan);
    store_sums(x);
}
