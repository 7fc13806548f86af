/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h */
#include "plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The more rows an item has, the less packing K and V costs. MOST_ROWS hide it. */
#define MOST_ROWS  768
#define LEAST_ROWS 48
/* With up to SPLIT_ROWS rows per key/value head the keys are split into parts. K and V of a part
 * take at least PART_BYTES: 5 us at 25 GB/s, a few times what it takes to wake a thread. MOST_PARTS
 * per batch entry keep the threads busy. More parts would cost more, and memory for them would grow
 * with the keys. */
#define SPLIT_ROWS 64
#define PART_BYTES (128 * 1024)
#define MOST_PARTS 64

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* An integer option that the harness has checked. 0: not given. */
static int64_t option(const struct attn_services *services, const char *key)
{
    return strtoll(attn_option_get(services, key, "0"), NULL, 10);
}

/* Keys per part before they are rounded up to whole tiles, at least 1. */
static int64_t part_keys(const struct attn_flash *job)
{
    int64_t splits = (MOST_PARTS + job->groups - 1) / job->groups;
    int64_t even = (job->sk + splits - 1) / splits, width = job->dk + job->dv;
    int64_t fit = (PART_BYTES / attn_element_bytes(job->dtype) + width - 1) / width;
    return fit > even ? fit : even;
}

/* Tiles of about equal size for a part. Nothing is packed, so no cache limits them. Large ones are
 * better, because each has a cost of its own. */
static int64_t direct_key_block(const struct attn_flash *job, int64_t nr)
{
    bool alone = job->sq * job->group == 1;
    int64_t most = alone ? ATTN_FLASH_ROW_KEYS : ATTN_FLASH_MOST_KEYS, keys = part_keys(job);
    int64_t tiles = (keys + most - 1) / most;
    int64_t even = attn_clamp((keys + tiles - 1) / tiles, ATTN_FLASH_MOST_KEYS, most);
    return attn_round_up(attn_clamp(even, 1, job->sk > 0 ? job->sk : 1), nr);
}

static int64_t choose_key_block(const struct attn_plan *plan)
{
    const struct attn_flash *job = &plan->job;
    const int64_t most =
        job->score == ATTN_SCORE_DISENTANGLED ? ATTN_FLASH_MOST_PLACED : ATTN_FLASH_MOST_KEYS;
    int64_t nr = plan->isa->nr, given = option(plan->services, "key_block");
    if (given > 0)
        return attn_round_up(least(given, most), nr);
    if (job->direct)
        return least(direct_key_block(job, nr), most);
    int64_t width = job->dk + job->dh + attn_round_up(job->dv, nr);
    int64_t fit = least(attn_blocking_tile(&plan->caches) * (plan->isa->step > 1 ? 2 : 1) / width,
                        attn_blocking_scores(&plan->caches) / plan->isa->mr) /
                  nr * nr;
    return attn_clamp(least(fit, attn_round_up(job->sk, nr)), nr, most);
}

/* As many rows as fit in the cache, in items of about equal size. */
static int64_t choose_item_rows(const struct attn_plan *plan)
{
    const struct attn_flash *job = &plan->job;
    int64_t mr = plan->isa->mr, given = option(plan->services, "item_rows");
    int64_t total = job->sq * job->group;
    if (job->splits > 1)
        return attn_round_up(total, mr);
    if (given > 0)
        return attn_round_up(least(given, 8192), mr);
    int64_t width = job->dp + attn_round_up(job->dv, plan->isa->nr);
    int64_t rows = attn_clamp(attn_blocking_item(&plan->caches) / width, LEAST_ROWS, MOST_ROWS);
    int64_t items = total ? (total + rows - 1) / rows : 1;
    return attn_round_up(total ? (total + items - 1) / items : 1, mr);
}

/* With few rows keys are split. The number of threads does not count, so that it does not change
 * results. Keys are not split if weights are asked for: one item stores the weights of a row. */
static void choose_splits(struct attn_flash *job, const struct attn_problem *problem)
{
    job->splits = 1;
    if (job->sparse || job->sq * job->group > SPLIT_ROWS || attn_tensor_find(problem, ATTN_WEIGHTS))
        return;
    job->part_keys = attn_round_up(part_keys(job), job->key_block);
    job->splits = (job->sk + job->part_keys - 1) / job->part_keys;
    job->splits = job->splits > 1 ? job->splits : 1;
}

/* The factors of scores (flash.h). */
static void choose_factors(const struct attn_flash_isa *isa, struct attn_flash *job,
                           const struct attn_problem *problem)
{
    const double log2_e = 1.4426950408889634;
    double scale = problem->score == ATTN_SCORE_GAUSSIAN ? -0.5 * problem->scale : problem->scale;
    job->factor = (float)(scale * log2_e);
    if (problem->flags & ATTN_FLAG_SOFTCAP) {
        job->factor = (float)(scale / problem->softcap * ATTN_FLASH_TANH);
        job->cap2 = (float)(problem->softcap * log2_e);
    }
    /* Gaussian scores have a factor of their own place: after the sum of squares. */
    bool taken = isa->step == 1 && problem->score != ATTN_SCORE_GAUSSIAN &&
                 !(fabsf(job->factor) > ATTN_FLASH_MOST_PACKED);
    job->packed = taken ? job->factor : 1.0f;
    /* `unit` must leave 0 and -inf as they are. */
    bool last = isa->step > 1 && job->factor > 0.0f && isfinite(job->factor) &&
                !(problem->flags & ATTN_FLAG_SOFTCAP) && !attn_tensor_find(problem, ATTN_BIAS) &&
                !attn_tensor_find(problem, ATTN_ALIBI);
    job->unit = last ? job->factor : 1.0f;
    job->late = !taken && !last;
}

/* Query heads that share packed keys: those of one key/value head, unless they have score
 * parameters of their own. */
static int64_t choose_group(const struct attn_problem *problem)
{
    if (problem->score == ATTN_SCORE_DISENTANGLED)
        return 1; /* neighbouring rows are neighbouring queries */
    for (uint32_t role = ATTN_SCORE_M; role <= ATTN_SCORE_WV; role++) {
        const struct attn_tensor *params = attn_tensor_find(problem, role);
        if (params && params->stride[0] != 0)
            return 1;
    }
    return problem->hq / problem->hkv;
}

/* Whether weights fit their type. Dropout magnifies the weights that it keeps. */
static bool weights_fit(const struct attn_flash_isa *isa, const struct attn_problem *problem)
{
    return isa->pairs != ATTN_F16 || !(problem->flags & ATTN_FLAG_DROPOUT) ||
           1.0 - problem->dropout_p >= 0x1p-15;
}

/* The instance that serves a problem: this one, or the one that serves the rest. */
static const struct attn_flash_isa *choose_isa(const struct attn_flash_isa *isa,
                                               const struct attn_problem *problem)
{
    bool dot = (problem->score == ATTN_SCORE_SCALED_DOT || problem->score == ATTN_SCORE_DOT) &&
               !(problem->flags & ATTN_FLAG_WEIGHT);
    if (!isa->other || (problem->dtype == isa->pairs && dot && weights_fit(isa, problem) &&
                        problem->sq * choose_group(problem) > isa->direct_rows))
        return isa;
    return isa->other;
}

/* Sets everything of the job that needs no data. */
static void prepare_job(struct attn_plan *plan, const struct attn_problem *problem)
{
    struct attn_flash *job = &plan->job;
    int64_t group = choose_group(problem);
    *job = (struct attn_flash){.dtype = problem->dtype,
                               .b = problem->b,
                               .groups = problem->hq / group,
                               .group = group,
                               .share = problem->hq / group / problem->hkv,
                               .sq = problem->sq,
                               .sk = problem->sk,
                               .dq = problem->dq,
                               .dk = problem->dk,
                               .dv = problem->dv,
                               .score = problem->score,
                               .flags = problem->flags,
                               .problem = problem};
    job->dh = problem->score == ATTN_SCORE_ADDITIVE ? problem->dh : 0;
    job->dp = problem->score == ATTN_SCORE_ADDITIVE ? problem->dh : problem->dk;
    choose_factors(plan->isa, job, problem);
    if (problem->flags & ATTN_FLAG_DROPOUT) {
        job->keep_by = (float)(1.0 / (1.0 - problem->dropout_p));
        job->keep_from = attn_dropout_threshold(problem->dropout_p);
    }
    attn_operands_set(&job->operands, problem->tensors, problem->n_tensors);
    job->sparse = job->operands.global.dtype || job->operands.dilation.dtype;
    job->direct = !job->sparse && job->sq * job->group <= plan->isa->direct_rows &&
                  job->score != ATTN_SCORE_ADDITIVE && job->operands.k.stride[3] == 1 &&
                  job->operands.v.stride[3] == 1;
    job->key_block = choose_key_block(plan);
    choose_splits(job, problem);
    job->item_rows = choose_item_rows(plan);
    int64_t total = job->sq * job->group, rows = job->item_rows;
    plan->items =
        job->b * job->groups * (job->splits > 1 ? job->splits : (total + rows - 1) / rows);
}

/* The next piece of a region that starts at `base`: `count` elements of `unit` bytes, aligned to 64
 * bytes. With base NULL it only counts. */
static void *cut(void *base, size_t *used, int64_t count, size_t unit)
{
    void *piece = base ? (char *)base + *used : NULL;
    *used += ((size_t)count * unit + 63) / 64 * 64;
    return piece;
}

/* Products with positions. An item and a tile meet at as many distances as both are long, and those
 * that whole vectors add. There is at most a column for each distance. Without a table of buckets
 * there is one for each row of KR; variant=paper may change the row of QR alone once. */
static void lay_out_places(const struct attn_plan *plan, void *base, size_t *used,
                           struct attn_flash_scratch *w)
{
    const struct attn_flash *job = &plan->job;
    const bool placed = job->score == ATTN_SCORE_DISENTANGLED;
    const int64_t distances = placed ? job->item_rows + job->key_block + 2 * 16 : 0;
    const int64_t rows = placed ? job->operands.score_kr.shape[1] + 1 : 0;
    const int64_t columns = job->operands.rel_buckets.dtype ? distances : least(rows, distances);
    const int64_t nr = plan->isa->nr;
    w->column = cut(base, used, distances, sizeof *w->column);
    w->kr_row = cut(base, used, columns, sizeof *w->kr_row);
    w->qr_row = cut(base, used, columns, sizeof *w->qr_row);
    w->starts = cut(base, used, columns + 1, sizeof *w->starts);
    w->kr = cut(base, used, attn_round_up(columns, nr) * job->dk, sizeof *w->kr);
    w->p2c = cut(base, used, job->direct ? 0 : columns * ATTN_FLASH_SCORE_STRIDE, sizeof *w->p2c);
    w->c2p = cut(base, used, placed ? plan->isa->mr * ATTN_FLASH_SCORE_STRIDE : 0, sizeof *w->c2p);
}

/* The scratch memory of a thread. */
static struct attn_flash_scratch lay_out_scratch(const struct attn_plan *plan, void *base,
                                                 size_t *used)
{
    const struct attn_flash *job = &plan->job;
    const struct attn_flash_isa *isa = plan->isa;
    const int64_t mr = isa->mr, nr = isa->nr, rows = job->item_rows;
    const int64_t dv16 = attn_round_up(job->dv, nr), packed = job->direct ? 0 : job->key_block;
    const bool placed = job->score == ATTN_SCORE_DISENTANGLED;
    const int64_t wide = job->dk > job->dv ? job->dk : job->dv;
    const int64_t held = job->dtype == ATTN_F32 && !placed ? 0 : wide;
    bool projects = job->score == ATTN_SCORE_BILINEAR || job->score == ATTN_SCORE_ADDITIVE;
    const int64_t projected = projects ? attn_round_up(job->dp, nr) : 0;
    struct attn_flash_scratch w;
    w.k = cut(base, used, packed * attn_flash_inner(isa, job->dk), sizeof *w.k);
    w.held = cut(base, used, 16 * attn_round_up(held, 16), sizeof *w.held);
    w.v = cut(base, used, attn_flash_inner(isa, packed) * dv16, sizeof *w.v);
    w.s = cut(base, used, (1 + isa->beside) * mr * ATTN_FLASH_SCORE_STRIDE, sizeof *w.s);
    w.q = cut(base, used, (rows + 1) * attn_round_up(attn_flash_inner(isa, job->dp), nr),
              sizeof *w.q);
    w.o = cut(base, used, rows * dv16, sizeof *w.o);
    w.max = cut(base, used, rows, sizeof *w.max);
    w.sum = cut(base, used, rows, sizeof *w.sum);
    w.lo = cut(base, used, rows, sizeof *w.lo);
    w.hi = cut(base, used, rows, sizeof *w.hi);
    w.p_q = cut(base, used, projected * job->dq, sizeof *w.p_q);
    w.stage = cut(base, used, rows / mr, sizeof *w.stage);
    w.x = cut(base, used, projected ? attn_round_up(job->dq, nr) * mr : 0, sizeof *w.x);
    w.p_k = cut(base, used, job->dh * job->dk, sizeof *w.p_k);
    w.w_v = cut(base, used, job->dh, sizeof *w.w_v);
    w.hidden = cut(base, used, job->dh * ATTN_FLASH_SCORE_STRIDE, sizeof *w.hidden);
    lay_out_places(plan, base, used, &w);
    return w;
}

/* Lays out all memory of the plan. Called once to learn its size, and once to set the pointers. */
static size_t lay_out(struct attn_plan *plan, void *base)
{
    struct attn_flash *job = &plan->job;
    int64_t heads = job->b * job->groups, split_heads = job->splits > 1 ? heads : 0;
    size_t used = 0;
    plan->share = cut(base, &used, plan->threads + 1, sizeof *plan->share);
    plan->left = cut(base, &used, split_heads, sizeof *plan->left);
    job->parts =
        cut(base, &used, split_heads * job->splits * attn_flash_part(job), sizeof *job->parts);
    const int64_t batches = job->operands.global.dtype ? job->b : 0;
    job->tokens = cut(base, &used, batches * job->sk, sizeof *job->tokens);
    job->tokens_before =
        cut(base, &used, batches * (attn_flash_tiles(job) + 1), sizeof *job->tokens_before);
    plan->scratch = cut(base, &used, plan->threads, sizeof *plan->scratch);
    for (int t = 0; t < plan->threads; t++) {
        const struct attn_flash_scratch scratch = lay_out_scratch(plan, base, &used);
        if (base)
            plan->scratch[t] = scratch;
    }
    for (int64_t h = 0; base && h < split_heads; h++)
        atomic_init(&plan->left[h], (int)job->splits);
    return used;
}

/* Units of all heads that threads can share, at least 1. */
static int64_t count_units(const struct attn_plan *plan)
{
    int64_t units;
    if (__builtin_mul_overflow(plan->job.b * plan->job.groups,
                               attn_share_units(&plan->job, plan->isa->mr), &units))
        return INT64_MAX;
    return units > 1 ? units : 1;
}

int attn_plan_create(const struct attn_flash_isa *isa, const struct attn_problem *problem,
                     const struct attn_services *services, struct attn_plan **plan, char *why,
                     size_t size)
{
    struct attn_plan *made = services->alloc(services->context, sizeof *made, 64);
    if (!made) {
        snprintf(why, size, "no memory for the plan");
        return ATTN_OUT_OF_MEMORY;
    }
    *made = (struct attn_plan){.services = services,
                               .isa = choose_isa(isa, problem),
                               .caches = attn_caches_read("/sys/devices/system/cpu"),
                               .threads = services->threads > 1 ? (int)services->threads : 1};
    prepare_job(made, problem);
    made->threads = (int)attn_clamp(made->threads, 1, count_units(made));

    int status = ATTN_OUT_OF_MEMORY;
    size_t bytes = lay_out(made, NULL);
    made->memory = services->alloc(services->context, bytes, 64);
    if (!made->memory) {
        snprintf(why, size, "no memory for %zu bytes of scratch", bytes);
        goto out;
    }
    lay_out(made, made->memory);
    status = attn_pool_create(services, made->threads, &made->pool, why, size);
    if (status != ATTN_OK)
        goto out;
    *plan = made;
    made = NULL;
out:
    attn_plan_destroy(made);
    return status;
}

void attn_plan_destroy(struct attn_plan *plan)
{
    if (!plan)
        return;
    const struct attn_services *services = plan->services;
    attn_pool_destroy(plan->pool);
    if (plan->memory)
        services->free(services->context, plan->memory);
    services->free(services->context, plan);
}

struct errand {
    struct attn_plan *plan;
    const struct attn_flash *job;
};

/* The thread that completes the last part of a head merges its parts and resets the count. */
static void complete_part(const struct attn_plan *plan, const struct attn_flash *job, int64_t head,
                          const struct attn_flash_scratch *scratch)
{
    if (atomic_fetch_sub(&plan->left[head], 1) > 1)
        return;
    plan->isa->merge_parts(job, scratch, head);
    atomic_store(&plan->left[head], (int)job->splits);
}

static void compute_share(void *context, int thread)
{
    const struct errand *errand = context;
    const struct attn_plan *plan = errand->plan;
    const struct attn_flash_scratch *scratch = &plan->scratch[thread];
    const struct attn_share *end = &plan->share[thread + 1];
    struct attn_share at = plan->share[thread];
    struct attn_flash_item item, next;
    bool more = attn_share_next(errand->job, plan->isa->mr, end, &at, &next);
    while (more) {
        item = next;
        more = attn_share_next(errand->job, plan->isa->mr, end, &at, &next);
        plan->isa->run_item(errand->job, scratch, &item, more ? &next : NULL);
        if (errand->job->splits > 1)
            complete_part(plan, errand->job, item.head, scratch);
    }
}

/* Lists the global tokens of each batch, and counts them before each tile. */
static void list_tokens(const struct attn_flash *job)
{
    const int64_t tiles = attn_flash_tiles(job);
    for (int64_t b = 0; job->operands.global.dtype && b < job->b; b++) {
        int32_t *to = job->tokens + b * job->sk, *before = job->tokens_before + b * (tiles + 1);
        int32_t count = 0;
        for (int64_t j = 0; j < job->sk; j++) {
            if (j % job->key_block == 0)
                before[j / job->key_block] = count;
            if (attn_token_is_global(&job->operands.global, b, j))
                to[count++] = (int32_t)j;
        }
        before[tiles] = count;
    }
}

/* One pass over the rows of a job. */
static void run_pass(struct attn_plan *plan, const struct attn_flash *job)
{
    struct errand errand = {plan, job};
    attn_share_cut(job, plan->isa->mr, plan->threads, plan->share);
    attn_pool_run(plan->pool, compute_share, &errand);
}

void attn_plan_run(struct attn_plan *plan, const struct attn_flash *job)
{
    const struct attn_operands *given = &job->operands;
    struct attn_flash pass = *job;
    list_tokens(job);
    if (!given->q_global.dtype) {
        run_pass(plan, job);
        return;
    }
    pass.rows = ATTN_ROWS_LOCAL;
    run_pass(plan, &pass);
    pass.rows = ATTN_ROWS_GLOBAL;
    pass.operands.q = given->q_global;
    pass.operands.k = given->k_global;
    pass.operands.v = given->v_global;
    run_pass(plan, &pass);
}
