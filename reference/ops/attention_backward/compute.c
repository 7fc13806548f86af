/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - attention_backward over a request: group by group, the rows of a group in parallel,
 * then its keys. A row gives its dQ, and what it adds to each key that is asked for. No matrix of
 * Sq by Sk is kept: keys are taken in batches, and rows are computed anew for each batch. A row
 * whose dO is 0 adds exactly 0. */
#include <string.h>

#include "reference/ops/attention_backward/work.h"
#include "reference/parallel.h"
#include "reference/sums.h"

struct ref_backward_lane *ref_backward_take(const struct ref_backward_work *work)
{
    for (int t = 0;; t = (t + 1) % work->job.threads)
        if (!atomic_flag_test_and_set(&work->job.scratch[t].busy))
            return &work->lanes[t];
}

void ref_backward_return(struct ref_backward_lane *lane)
{
    atomic_flag_clear(&lane->row.scratch->busy);
}

/* ---- rows ---- */

/* What the sums of dQ and of dK have in common. */
static struct ref_backward_sum sum_of(const struct ref_backward_work *work,
                                      struct ref_backward_lane *lane, double factor)
{
    return (struct ref_backward_sum){.factor = factor,
                                     .dtype = ref_backward_problem(work)->dtype,
                                     .room = lane->room,
                                     .order = lane->order,
                                     .start = lane->start};
}

static void store_dq(const struct ref_backward_work *work, struct ref_backward_lane *lane,
                     int64_t entry)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_values *dq = &work->job.result->output[REF_GRAD_Q];
    const struct ref_backward_row *row = &lane->row;
    struct ref_backward_sum sum = sum_of(work, lane, p->scale);

    sum.n = row->n;
    sum.width = p->dq;
    sum.weight = row->dz;
    sum.error = row->e_dz;
    sum.stored = row->t_dz;
    sum.rows = work->group.keys.k;
    sum.index = row->scratch->key;
    sum.bins = work->group.declared.ds_bins;
    if (work->job.bounds)
        ref_backward_over_keys(&work->group, row->n + row->more, &sum);
    ref_backward_add(&work->group.arithmetic, &sum, dq->value + entry * p->dq,
                     work->job.bounds && dq->bound ? dq->bound + entry * p->dq : NULL);
}

static void store_cells(const struct ref_backward_work *work, const struct ref_backward_row *row,
                        int64_t slot)
{
    for (int64_t t = 0; t < row->n; t++) {
        const int64_t column = work->column_of_key[row->scratch->key[t]];
        if (column < 0)
            continue;
        struct ref_backward_cell *cell = &work->cells[column * work->slots + slot];
        *cell = (struct ref_backward_cell){.dz = row->dz[t], .kept = row->kept[t], .seen = true};
        if (!work->job.bounds)
            continue;
        cell->e_dz = row->e_dz[t];
        cell->t_dz = row->t_dz[t];
        cell->e_kept = row->e_kept[t];
        cell->t_kept = row->t_kept[t];
    }
}

static void compute_rows(void *context, int64_t begin, int64_t end)
{
    const struct ref_backward_work *work = context;
    const int64_t sq = ref_backward_problem(work)->sq, heads = work->group.heads;
    struct ref_backward_lane *lane = ref_backward_take(work);

    for (int64_t r = begin; r < end; r++) {
        const int64_t place = work->begin + r, entry = work->entry_of_row[place];
        const int64_t slot = work->slot_of_row[place];
        if ((!work->all_rows || slot < 0) && (entry < 0 || work->again))
            continue;
        ref_backward_row(&work->group, work->group.g * heads + place / sq, place % sq, &lane->row);
        if (work->columns > 0 && slot >= 0)
            store_cells(work, &lane->row, slot);
        if (work->again)
            continue;
        if (entry >= 0)
            store_dq(work, lane, entry);
        ref_backward_note(work, &lane->row, r);
    }
    ref_backward_return(lane);
}

/* ---- keys ---- */

/* The rows that see key `column` of the batch, without gaps. Returns how many. */
static int64_t gather(const struct ref_backward_work *work, const struct ref_backward_lane *lane,
                      int64_t column)
{
    const struct ref_backward_cell *cells = work->cells + column * work->slots;
    int64_t n = 0;

    for (int64_t r = 0; r < work->slots; r++) {
        if (!cells[r].seen)
            continue;
        lane->list[0][n] = cells[r].dz;
        lane->list[1][n] = cells[r].e_dz;
        lane->list[2][n] = cells[r].t_dz;
        lane->list[3][n] = cells[r].kept;
        lane->list[4][n] = cells[r].e_kept;
        lane->list[5][n] = cells[r].t_kept;
        lane->index[n++] = work->row_of_slot[r];
    }
    return n;
}

static void store_key(const struct ref_backward_work *work, struct ref_backward_lane *lane,
                      int64_t column)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_values *dk = &work->job.result->output[REF_GRAD_K];
    const struct ref_values *dv = &work->job.result->output[REF_GRAD_V];
    const struct ref_backward_declared *d = &work->group.declared;
    const int64_t entry = work->first + column;
    struct ref_backward_sum sum = sum_of(work, lane, p->scale);

    sum.n = gather(work, lane, column);
    sum.index = lane->index;
    sum.part = p->sq;
    sum.u_part = d->u_partial;
    sum.eta_part = d->eta_partial_k;
    sum.width = p->dk;
    sum.weight = lane->list[0];
    sum.error = lane->list[1];
    sum.stored = lane->list[2];
    sum.rows = work->group.q;
    sum.bins = d->ds_bins;
    if (work->job.bounds)
        ref_backward_over_queries(&work->group, 3.0, &sum);
    if (dk->value)
        ref_backward_add(&work->group.arithmetic, &sum, dk->value + entry * p->dk,
                         work->job.bounds && dk->bound ? dk->bound + entry * p->dk : NULL);
    sum.factor = 1.0;
    sum.eta_part = d->eta_partial;
    sum.width = p->dv;
    sum.weight = lane->list[3];
    sum.error = lane->list[4];
    sum.stored = lane->list[5];
    sum.rows = work->group.dout;
    sum.bins = work->group.arithmetic.bins;
    if (work->job.bounds)
        ref_backward_over_queries(&work->group, 2.0, &sum);
    if (dv->value)
        ref_backward_add(&work->group.arithmetic, &sum, dv->value + entry * p->dv,
                         work->job.bounds && dv->bound ? dv->bound + entry * p->dv : NULL);
}

static void compute_keys(void *context, int64_t begin, int64_t end)
{
    const struct ref_backward_work *work = context;
    struct ref_backward_lane *lane = ref_backward_take(work);

    for (int64_t column = begin; column < end; column++)
        store_key(work, lane, column);
    ref_backward_return(lane);
}

/* ---- a group ---- */

static bool is_zero(const double *x, int64_t n)
{
    int64_t c = 0;

    while (c < n && x[c] == 0.0)
        c++;
    return c == n;
}

/* Notes the keys that are not 0. May the others be taken together? Their scores are alike without a
 * bias or slopes, so are their errors without dropout, and nothing is asked of each of them. */
static void note_others(struct ref_backward_work *work)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_operands *in = &work->job.operands;
    const struct ref_backward_declared *d = &work->group.declared;
    struct ref_backward_group *group = &work->group;

    group->n_others = 0;
    for (int64_t j = 0; j < p->sk; j++)
        if (group->v_size[j] != 0.0 || !is_zero(group->keys.k + j * p->dk, p->dk))
            group->others[group->n_others++] = j;
    group->few = 2 * group->n_others < p->sk && !work->all_rows && !d->own_lse &&
                 !(d->own_delta && p->flags & ATTN_FLAG_DROPOUT) && !in->by_role[ATTN_BIAS] &&
                 !in->by_role[ATTN_ALIBI] && !in->by_role[ATTN_MASK];
}

/* Numbers the rows that add something to keys. */
static void note_slots(struct ref_backward_work *work)
{
    const struct attn_problem *p = ref_backward_problem(work);
    const struct ref_backward_group *group = &work->group;
    const bool sums =
        work->bias || work->sinks || work->slopes || work->job.operands.by_role[ATTN_GRAD_LSE];
    bool finite = true; /* or 0 times it is NaN */

    for (int64_t j = 0; j < p->sk; j++)
        finite = finite && isfinite(group->v_size[j]);
    work->slots = 0;
    for (int64_t place = 0; place < group->rows; place++) {
        const int64_t at[] = {group->b, group->g * group->heads + place / p->sq, place % p->sq};
        const bool idle = !sums && finite && is_zero(group->dout + place * p->dv, p->dv) &&
                          isfinite(ref_load(work->job.operands.by_role[ATTN_LSE], at));
        work->slot_of_row[place] = idle ? -1 : work->slots;
        if (!idle)
            work->row_of_slot[work->slots++] = place;
    }
}

static void load_group(struct ref_backward_work *work)
{
    const struct attn_problem *p = ref_backward_problem(work);
    struct ref_backward_group *group = &work->group;
    const struct attn_tensor *q = work->job.operands.by_role[ATTN_Q];
    const struct attn_tensor *dout = work->job.operands.by_role[ATTN_GRAD_OUT];

    ref_keys_load(&work->job, &group->keys, group->b, group->g * group->heads);
    ref_transpose(group->keys.v, p->sk, p->dv, 0, p->sk, group->vt);
    for (int64_t j = 0; j < p->sk; j++) {
        group->v_size[j] = 0.0;
        for (int64_t c = 0; c < p->dv; c++)
            group->v_size[j] += fabs(group->keys.v[j * p->dv + c]);
    }
    for (int64_t place = 0; place < group->rows; place++) {
        const int64_t at[] = {group->b, group->g * group->heads + place / p->sq, place % p->sq, 0};
        ref_load_vector(q, at, p->dq, group->q + place * p->dq);
        ref_load_vector(dout, at, p->dv, group->dout + place * p->dv);
    }
    note_others(work);
    note_slots(work);
}

/* Rows of the group in blocks, for one batch of keys. */
static void sweep(struct ref_backward_work *work)
{
    for (work->begin = 0; work->begin < work->group.rows; work->begin += REF_BACKWARD_BLOCK) {
        const int64_t left = work->group.rows - work->begin,
                      count = left < REF_BACKWARD_BLOCK ? left : REF_BACKWARD_BLOCK;
        attn_parallel_for(work->job.threads, count, 1, compute_rows, work);
        if (!work->again)
            ref_backward_gather(work, count);
    }
}

static int compute_group(struct ref_backward_work *work, int64_t first_key, int64_t keys)
{
    const struct ref_units *units = &work->job.request->units[REF_GRAD_K];
    const struct attn_problem *p = ref_backward_problem(work);
    bool counted;
    int64_t most;

    load_group(work);
    if (ref_backward_count(work, first_key, keys, &counted) != ATTN_OK)
        return ATTN_OUT_OF_MEMORY;
    if (counted)
        return ATTN_OK;
    most = work->slots < REF_BACKWARD_CELLS ? REF_BACKWARD_CELLS / (work->slots + 1) : 1;
    work->again = false;
    for (int64_t done = 0; done < keys || done == 0; done += work->columns) {
        work->first = first_key + done;
        work->columns = keys - done < most ? keys - done : most;
        for (int64_t j = 0; j < p->sk; j++)
            work->column_of_key[j] = -1;
        for (int64_t column = 0; column < work->columns; column++)
            work->column_of_key[ref_unit_number(units, work->first + column) % p->sk] = column;
        memset(work->cells, 0, (size_t)(work->columns * work->slots) * sizeof(*work->cells));
        sweep(work);
        attn_parallel_for(work->job.threads, work->columns, 1, compute_keys, work);
        work->again = true;
        if (keys == 0)
            break;
    }
    return ATTN_OK;
}

/* Notes which rows of group n are asked for. Returns how many. */
static int64_t note_rows(struct ref_backward_work *work, int64_t n, int64_t *next)
{
    const struct ref_units *units = &work->job.request->units[REF_GRAD_Q];
    const int64_t rows = work->group.rows, first = *next;
    const int64_t count = ref_units_take(units, rows, n, next);

    for (int64_t place = 0; place < rows; place++)
        work->entry_of_row[place] = -1;
    for (int64_t r = first; ref_backward_wants(work, REF_GRAD_Q) && r < first + count; r++)
        work->entry_of_row[ref_unit_number(units, r) % rows] = r;
    return count;
}

int ref_attention_backward_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *units = job->request->units;
    struct ref_backward_work work;
    int status = ref_backward_begin(job, &work);
    const bool sums = work.bias || work.sinks || work.slopes;

    for (int64_t n = 0, row = 0, key = 0; status == ATTN_OK && n < p->b * p->hkv; n++) {
        const int64_t first = key, keys = ref_units_take(&units[REF_GRAD_K], p->sk, n, &key);
        const bool wanted = keys > 0 && (ref_backward_wants(&work, REF_GRAD_K) ||
                                         ref_backward_wants(&work, REF_GRAD_V));
        const int64_t rows = note_rows(&work, n, &row);
        work.group.b = n / p->hkv;
        work.group.g = n % p->hkv;
        work.all_rows = wanted || sums;
        if (rows > 0 || work.all_rows)
            status = compute_group(&work, first, wanted ? keys : 0);
    }
    if (status == ATTN_OK)
        ref_backward_finish(&work);
    ref_backward_end(&work);
    return status;
}
