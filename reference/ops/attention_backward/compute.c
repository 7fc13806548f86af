/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - attention_backward over a request: group by group, the rows of a group in parallel,
 * then its keys. A row gives its dQ, and what it adds to each key that is asked for. No matrix of
 * Sq by Sk is kept: keys are taken in batches, and rows are computed anew for each batch. */
#include <stdlib.h>
#include <string.h>

#include "reference/ops/attention_backward/attention_backward.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Cells of a batch of keys: some 60 MB. */
#define CELLS (INT64_C(1) << 20)
/* Rows whose gradients of a bias are kept at a time. */
#define BLOCK 64

/* What a row has at a key. */
struct cell {
    double dz, e_dz, t_dz, kept, e_kept, t_kept;
    bool seen;
};

/* A sum of many terms: its value, the errors of the terms, their sizes, their number. */
struct total {
    double value, off, size, terms;
};

/* A thread's arrays. */
struct lane {
    struct ref_backward_row row;
    double *memory;
    double *list[6]; /* [rows]: the terms of a key */
    double *room;    /* [5, width] */
    int64_t *index, *order, *start;
};

struct work {
    struct ref_backward_group group;
    struct ref_job job;
    struct lane *lanes;
    /* Of the group: */
    int64_t *entry_of_row; /* [rows] entry of the request, or -1 */
    bool all_rows;
    /* Of the batch: */
    int64_t first, columns; /* entries of the request of keys */
    int64_t *column_of_key; /* [Sk] or -1 */
    struct cell *cells;     /* [columns, rows] */
    bool again;             /* rows have been computed before */
    /* Of the block: */
    int64_t begin;                                  /* its first row */
    double *bias;                                   /* [BLOCK, Sk, 2] dS and its error by key */
    struct total *sinks, *slopes;                   /* [BLOCK] */
    struct total *bias_totals;                      /* [requested units, Z] */
    struct total *sink_totals;                      /* [requested heads] */
    struct total *slope_totals;                     /* [requested heads] */
    int64_t *bias_entry, *sink_entry, *slope_entry; /* of each unit, or -1 */
};

static const struct attn_problem *problem_of(const struct work *work)
{
    return work->job.operands.problem;
}

static bool wants(const struct work *work, int output)
{
    return work->job.result->output[output].value != NULL;
}

static struct lane *lane_take(const struct work *work)
{
    for (int t = 0;; t = (t + 1) % work->job.threads)
        if (!atomic_flag_test_and_set(&work->job.scratch[t].busy))
            return &work->lanes[t];
}

static void lane_return(struct lane *lane)
{
    atomic_flag_clear(&lane->row.scratch->busy);
}

/* ---- rows ---- */

/* What the sums of dQ and of dK have in common. */
static struct ref_backward_sum sum_of(const struct work *work, struct lane *lane, double factor)
{
    return (struct ref_backward_sum){.factor = factor,
                                     .dtype = problem_of(work)->dtype,
                                     .room = lane->room,
                                     .order = lane->order,
                                     .start = lane->start};
}

static void store_dq(const struct work *work, struct lane *lane, int64_t entry)
{
    const struct attn_problem *p = problem_of(work);
    const struct ref_values *dq = &work->job.result->output[REF_GRAD_Q];
    const struct ref_backward_row *row = &lane->row;
    const struct ref_backward_declared *d = &work->group.declared;
    const struct ref_arithmetic *a = &work->group.arithmetic;
    struct ref_backward_sum sum = sum_of(work, lane, p->scale);

    sum.n = row->n;
    sum.width = p->dq;
    sum.weight = row->dz;
    sum.error = row->e_dz;
    sum.stored = row->t_dz;
    sum.rows = work->group.keys.k;
    sum.index = row->scratch->key;
    sum.bins = d->ds_bins;
    if (work->job.bounds) {
        sum.growth = ref_backward_growth(&work->group, (double)row->n + a->tiles + 3.0);
        if (d->u_dq > 0.0)
            sum.growth += (1.0 + sum.growth) * expm1(a->tiles * log1p(2.0 * d->u_dq));
    }
    ref_backward_add(a, &sum, dq->value + entry * p->dq,
                     work->job.bounds && dq->bound ? dq->bound + entry * p->dq : NULL);
}

static void store_cells(const struct work *work, const struct ref_backward_row *row, int64_t place)
{
    for (int64_t t = 0; t < row->n; t++) {
        const int64_t column = work->column_of_key[row->scratch->key[t]];
        if (column < 0)
            continue;
        struct cell *cell = &work->cells[column * work->group.rows + place];
        *cell = (struct cell){.dz = row->dz[t], .kept = row->kept[t], .seen = true};
        if (!work->job.bounds)
            continue;
        cell->e_dz = row->e_dz[t];
        cell->t_dz = row->t_dz[t];
        cell->e_kept = row->e_kept[t];
        cell->t_kept = row->t_kept[t];
    }
}

static double error_of_cell(const struct work *work, const struct ref_backward_row *row, int64_t t)
{
    if (!work->job.bounds)
        return 0.0;
    return row->e_ds[t] < REF_UNKNOWN ? row->e_ds[t] + row->t_ds[t] : INFINITY;
}

static void store_bias(const struct work *work, const struct ref_backward_row *row, double *bias)
{
    memset(bias, 0, 2 * (size_t)problem_of(work)->sk * sizeof(*bias));
    for (int64_t t = 0; t < row->n; t++) {
        bias[2 * row->scratch->key[t]] = row->ds[t];
        bias[2 * row->scratch->key[t] + 1] = error_of_cell(work, row, t);
    }
}

static struct total slope_of(const struct work *work, const struct ref_backward_row *row)
{
    const int64_t diagonal = row->i + ref_offset(&work->job.operands, work->group.b);
    struct total total = {.terms = (double)row->n};

    for (int64_t t = 0; t < row->n; t++) {
        const double far = fabs((double)(diagonal - row->scratch->key[t]));
        const double error = error_of_cell(work, row, t);
        const double off = error < INFINITY ? far * error : error;
        total.value -= far * row->ds[t];
        total.off += off;
        total.size += fabs(far * row->ds[t]) + off;
    }
    return total;
}

/* A row without keys has no delta, so none here. */
static struct total sink_of(const struct work *work, const struct ref_backward_row *row)
{
    const struct ref_arithmetic *a = &work->group.arithmetic;
    struct total total = {.terms = 1.0};

    if (row->n == 0 || !row->sink)
        return total;
    total.value = -row->sink_p * row->delta;
    if (work->job.bounds) {
        const double ds = ref_growth(a, 2.0) * fabs(row->sink_logit);
        const double w = ref_backward_weight_error(&work->group, row, row->sink_logit, ds);
        const double e_p = row->sink_p * w + a->omega;
        total.off = e_p * fabs(row->delta) + (row->sink_p + e_p) * row->e_delta + a->omega;
        if (!(w < REF_UNKNOWN && row->e_delta < REF_UNKNOWN))
            total.off = INFINITY;
    }
    total.size = fabs(total.value) + total.off;
    return total;
}

static void compute_rows(void *context, int64_t begin, int64_t end)
{
    const struct work *work = context;
    const int64_t sq = problem_of(work)->sq, heads = work->group.heads;
    struct lane *lane = lane_take(work);

    for (int64_t r = begin; r < end; r++) {
        const int64_t place = work->begin + r, entry = work->entry_of_row[place];
        if (!work->all_rows && (entry < 0 || work->again))
            continue;
        ref_backward_row(&work->group, work->group.g * heads + place / sq, place % sq, &lane->row);
        if (work->columns > 0)
            store_cells(work, &lane->row, place);
        if (work->again)
            continue;
        if (entry >= 0)
            store_dq(work, lane, entry);
        if (work->bias)
            store_bias(work, &lane->row, work->bias + 2 * r * problem_of(work)->sk);
        if (work->sinks)
            work->sinks[r] = sink_of(work, &lane->row);
        if (work->slopes)
            work->slopes[r] = slope_of(work, &lane->row);
    }
    lane_return(lane);
}

/* ---- sums over rows that not one key has ---- */

static void add(struct total *to, const struct total *from)
{
    to->value += from->value;
    to->off += from->off;
    to->size += from->size;
    to->terms += from->terms;
}

/* Adds the cells of a row to the unit of dBias that it belongs to, and within it to their key. */
static void add_bias(const struct work *work, const double *bias, int64_t h, int64_t i)
{
    const struct ref_shape *shape = &work->job.shape;
    const int64_t w = ref_extent(shape, 'W'), x = ref_extent(shape, 'X');
    const int64_t y = ref_extent(shape, 'Y'), z = ref_extent(shape, 'Z');
    const int64_t unit = ((w > 1 ? work->group.b : 0) * x + (x > 1 ? h : 0)) * y + (y > 1 ? i : 0);
    const int64_t entry = work->bias_entry[unit];

    for (int64_t j = 0; entry >= 0 && j < problem_of(work)->sk; j++) {
        const struct total cell = {bias[2 * j], bias[2 * j + 1],
                                   fabs(bias[2 * j]) + bias[2 * j + 1], 1.0};
        add(&work->bias_totals[entry * z + (z > 1 ? j : 0)], &cell);
    }
}

static void add_block(const struct work *work, int64_t count)
{
    const int64_t sq = problem_of(work)->sq;

    for (int64_t r = 0; r < count; r++) {
        const int64_t place = work->begin + r;
        const int64_t h = work->group.g * work->group.heads + place / sq;
        if (work->bias)
            add_bias(work, work->bias + 2 * r * problem_of(work)->sk, h, place % sq);
        if (work->sinks && work->sink_entry[h] >= 0)
            add(&work->sink_totals[work->sink_entry[h]], &work->sinks[r]);
        if (work->slopes && work->slope_entry[h] >= 0)
            add(&work->slope_totals[work->slope_entry[h]], &work->slopes[r]);
    }
}

/* The results of an output that is one sum each. */
static void finish_totals(const struct work *work, int output, uint32_t role,
                          const struct total *totals, int64_t count)
{
    const struct ref_values *values = &work->job.result->output[output];
    const struct ref_arithmetic *a = &work->group.arithmetic;

    for (int64_t n = 0; values->value && n < count; n++) {
        const struct total *t = &totals[n];
        values->value[n] = t->value;
        if (!work->job.bounds || !values->bound)
            continue;
        const double growth = ref_growth(a, t->terms + 3.0);
        const double e = t->off + growth * t->size + (t->terms + 1.0) * 2.0 * a->omega;
        const bool fits = t->size * (1.0 + growth) <= a->largest && isfinite(t->value);
        values->bound[n] = ref_bound_final(a, ref_wide_type(&work->job, role), t->value,
                                           fits || isnan(t->value) ? e : INFINITY);
    }
}

/* ---- keys ---- */

/* The rows that see key `column` of the batch, without gaps. Returns how many. */
static int64_t gather(const struct work *work, const struct lane *lane, int64_t column)
{
    const struct cell *cells = work->cells + column * work->group.rows;
    int64_t n = 0;

    for (int64_t r = 0; r < work->group.rows; r++) {
        if (!cells[r].seen)
            continue;
        lane->list[0][n] = cells[r].dz;
        lane->list[1][n] = cells[r].e_dz;
        lane->list[2][n] = cells[r].t_dz;
        lane->list[3][n] = cells[r].kept;
        lane->list[4][n] = cells[r].e_kept;
        lane->list[5][n] = cells[r].t_kept;
        lane->index[n++] = r;
    }
    return n;
}

/* G of the sum over queries, with `more` operations besides. */
static double query_growth(const struct work *work, int64_t n, double more)
{
    const struct ref_backward_declared *d = &work->group.declared;
    const double heads = (double)work->group.heads;
    const double chain = d->chain > 0.0 ? d->chain : (double)n;

    return work->job.bounds
               ? ref_backward_growth(&work->group, chain + heads * d->query_tiles + more)
               : 0.0;
}

static void store_key(const struct work *work, struct lane *lane, int64_t column)
{
    const struct attn_problem *p = problem_of(work);
    const struct ref_values *dk = &work->job.result->output[REF_GRAD_K];
    const struct ref_values *dv = &work->job.result->output[REF_GRAD_V];
    const struct ref_backward_declared *d = &work->group.declared;
    const int64_t entry = work->first + column;
    struct ref_backward_sum sum = sum_of(work, lane, p->scale);

    sum.n = gather(work, lane, column);
    sum.index = lane->index;
    sum.part = p->sq;
    sum.u_part = d->u_partial;
    sum.eta_part = d->eta_partial;
    sum.width = p->dk;
    sum.weight = lane->list[0];
    sum.error = lane->list[1];
    sum.stored = lane->list[2];
    sum.rows = work->group.q;
    sum.bins = d->ds_bins;
    sum.growth = query_growth(work, sum.n, 3.0);
    if (dk->value)
        ref_backward_add(&work->group.arithmetic, &sum, dk->value + entry * p->dk,
                         work->job.bounds && dk->bound ? dk->bound + entry * p->dk : NULL);
    sum.factor = 1.0;
    sum.width = p->dv;
    sum.weight = lane->list[3];
    sum.error = lane->list[4];
    sum.stored = lane->list[5];
    sum.rows = work->group.dout;
    sum.bins = work->group.arithmetic.bins;
    sum.growth = query_growth(work, sum.n, 2.0);
    if (dv->value)
        ref_backward_add(&work->group.arithmetic, &sum, dv->value + entry * p->dv,
                         work->job.bounds && dv->bound ? dv->bound + entry * p->dv : NULL);
}

static void compute_keys(void *context, int64_t begin, int64_t end)
{
    const struct work *work = context;
    struct lane *lane = lane_take(work);

    for (int64_t column = begin; column < end; column++)
        store_key(work, lane, column);
    lane_return(lane);
}

/* ---- a group ---- */

static void load_group(struct work *work)
{
    const struct attn_problem *p = problem_of(work);
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
}

/* Rows of the group in blocks, for one batch of keys. */
static void sweep(struct work *work)
{
    for (work->begin = 0; work->begin < work->group.rows; work->begin += BLOCK) {
        const int64_t left = work->group.rows - work->begin, count = left < BLOCK ? left : BLOCK;
        attn_parallel_for(work->job.threads, count, 1, compute_rows, work);
        if (!work->again)
            add_block(work, count);
    }
}

static void compute_group(struct work *work, int64_t first_key, int64_t keys)
{
    const struct ref_units *units = &work->job.request->units[REF_GRAD_K];
    const struct attn_problem *p = problem_of(work);
    const int64_t most = work->group.rows < CELLS ? CELLS / work->group.rows : 1;

    load_group(work);
    work->again = false;
    for (int64_t done = 0; done < keys || done == 0; done += work->columns) {
        work->first = first_key + done;
        work->columns = keys - done < most ? keys - done : most;
        for (int64_t j = 0; j < p->sk; j++)
            work->column_of_key[j] = -1;
        for (int64_t column = 0; column < work->columns; column++)
            work->column_of_key[ref_unit_number(units, work->first + column) % p->sk] = column;
        memset(work->cells, 0, (size_t)(work->columns * work->group.rows) * sizeof(*work->cells));
        sweep(work);
        attn_parallel_for(work->job.threads, work->columns, 1, compute_keys, work);
        work->again = true;
        if (keys == 0)
            break;
    }
}

/* ---- memory ---- */

static bool make_lane(const struct work *work, struct lane *lane, struct ref_scratch *scratch)
{
    const struct attn_problem *p = problem_of(work);
    const int64_t keys = p->sk + 1, rows = work->group.rows, width = p->dk > p->dv ? p->dk : p->dv;
    const int64_t most = rows > keys ? rows : keys;
    struct ref_backward_row *row = &lane->row;
    double **const per_key[] = {&row->dp,   &row->ds,     &row->dz,    &row->kept,
                                &row->e_ds, &row->e_dz,   &row->t_ds,  &row->e_kept,
                                &row->t_dz, &row->t_kept, &row->along, &row->sizes};
    const size_t count = sizeof(per_key) / sizeof(*per_key);
    double *next = ref_alloc_doubles((int64_t)count * keys + 6 * rows + 5 * width, 1);

    lane->memory = next;
    lane->index = calloc((size_t)most, sizeof(*lane->index));
    lane->order = calloc((size_t)most, sizeof(*lane->order));
    lane->start = calloc(REF_BINS + 2, sizeof(*lane->start));
    row->scratch = scratch;
    if (!next || !lane->index || !lane->order || !lane->start)
        return false;
    for (size_t n = 0; n < count; n++, next += keys)
        *per_key[n] = next;
    for (size_t n = 0; n < 6; n++, next += rows)
        lane->list[n] = next;
    lane->room = next;
    return true;
}

/* For each unit of an output its entry in the request, or -1; NULL: no memory. */
static int64_t *entries_of(const struct work *work, int output)
{
    const struct ref_units *units = &work->job.request->units[output];
    const int64_t count = ref_output_units(problem_of(work), output);
    int64_t *entry = calloc((size_t)count + 1, sizeof(*entry));

    for (int64_t n = 0; entry && n < count; n++)
        entry[n] = -1;
    for (int64_t r = 0; entry && r < units->count; r++)
        entry[ref_unit_number(units, r)] = r;
    return entry;
}

static struct total *totals_of(const struct work *work, int output)
{
    return calloc((size_t)(work->job.request->units[output].count *
                           ref_output_width(problem_of(work), output)) +
                      1,
                  sizeof(struct total));
}

/* What the sums over many rows need. */
static bool make_totals(struct work *work)
{
    bool made = true;

    if (wants(work, REF_GRAD_BIAS)) {
        work->bias = ref_alloc_doubles(BLOCK, 2 * problem_of(work)->sk);
        work->bias_entry = entries_of(work, REF_GRAD_BIAS);
        work->bias_totals = totals_of(work, REF_GRAD_BIAS);
        made = work->bias && work->bias_entry && work->bias_totals;
    }
    if (wants(work, REF_GRAD_SINK)) {
        work->sinks = calloc(BLOCK, sizeof(*work->sinks));
        work->sink_entry = entries_of(work, REF_GRAD_SINK);
        work->sink_totals = totals_of(work, REF_GRAD_SINK);
        made = made && work->sinks && work->sink_entry && work->sink_totals;
    }
    if (wants(work, REF_GRAD_ALIBI)) {
        work->slopes = calloc(BLOCK, sizeof(*work->slopes));
        work->slope_entry = entries_of(work, REF_GRAD_ALIBI);
        work->slope_totals = totals_of(work, REF_GRAD_ALIBI);
        made = made && work->slopes && work->slope_entry && work->slope_totals;
    }
    return made;
}

static int begin(const struct ref_job *job, struct work *work)
{
    const struct attn_problem *p = job->operands.problem;
    struct ref_backward_group *group = &work->group;
    bool made;

    *work = (struct work){.job = *job};
    group->job = &work->job;
    group->heads = p->hq / p->hkv;
    group->rows = group->heads * p->sq;
    ref_backward_declare(job, group);
    work->job.arithmetic = group->arithmetic;
    work->job.scratch = ref_scratch_create(p, job->threads);
    work->lanes = calloc((size_t)job->threads, sizeof(*work->lanes));
    if (!work->job.scratch || !work->lanes || ref_keys_create(&work->job, &group->keys) != ATTN_OK)
        return ATTN_OUT_OF_MEMORY;
    group->q = ref_alloc_doubles(group->rows, p->dq);
    group->dout = ref_alloc_doubles(group->rows, p->dv);
    group->vt = ref_alloc_doubles(p->sk, p->dv);
    group->v_size = ref_alloc_doubles(p->sk, 1);
    work->entry_of_row = calloc((size_t)group->rows, sizeof(int64_t));
    work->column_of_key = calloc((size_t)p->sk + 1, sizeof(int64_t));
    work->cells = calloc((size_t)(group->rows > CELLS ? group->rows : CELLS), sizeof(struct cell));
    made = group->q && group->dout && group->vt && group->v_size && work->entry_of_row &&
           work->column_of_key && work->cells && make_totals(work);
    for (int t = 0; made && t < job->threads; t++)
        made = make_lane(work, &work->lanes[t], &work->job.scratch[t]);
    return made ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}

static void end(struct work *work)
{
    void *const memory[] = {
        work->group.q,      work->group.dout, work->group.vt,      work->group.v_size,
        work->entry_of_row, work->cells,      work->column_of_key, work->bias,
        work->sinks,        work->slopes,     work->bias_totals,   work->sink_totals,
        work->slope_totals, work->bias_entry, work->sink_entry,    work->slope_entry};

    for (size_t m = 0; m < sizeof(memory) / sizeof(*memory); m++)
        free(memory[m]);
    for (int t = 0; work->lanes && t < work->job.threads; t++) {
        free(work->lanes[t].memory);
        free(work->lanes[t].index);
        free(work->lanes[t].order);
        free(work->lanes[t].start);
    }
    free(work->lanes);
    ref_keys_free(&work->group.keys);
    ref_scratch_free(work->job.scratch, work->job.threads);
}

/* Notes which rows of group n are asked for. Returns how many. */
static int64_t note_rows(struct work *work, int64_t n, int64_t *next)
{
    const struct ref_units *units = &work->job.request->units[REF_GRAD_Q];
    const int64_t rows = work->group.rows, first = *next;
    const int64_t count = ref_units_take(units, rows, n, next);

    for (int64_t place = 0; place < rows; place++)
        work->entry_of_row[place] = -1;
    for (int64_t r = first; wants(work, REF_GRAD_Q) && r < first + count; r++)
        work->entry_of_row[ref_unit_number(units, r) % rows] = r;
    return count;
}

int ref_attention_backward_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *units = job->request->units;
    struct work work;
    const int status = begin(job, &work);
    const bool sums = work.bias || work.sinks || work.slopes;

    for (int64_t n = 0, row = 0, key = 0; status == ATTN_OK && n < p->b * p->hkv; n++) {
        const int64_t first = key, keys = ref_units_take(&units[REF_GRAD_K], p->sk, n, &key);
        const bool wanted = keys > 0 && (wants(&work, REF_GRAD_K) || wants(&work, REF_GRAD_V));
        const int64_t rows = note_rows(&work, n, &row);
        work.group.b = n / p->hkv;
        work.group.g = n % p->hkv;
        work.all_rows = wanted || sums;
        if (rows > 0 || work.all_rows)
            compute_group(&work, first, wanted ? keys : 0);
    }
    if (status == ATTN_OK) {
        finish_totals(&work, REF_GRAD_BIAS, ATTN_GRAD_BIAS, work.bias_totals,
                      units[REF_GRAD_BIAS].count *
                          (work.bias ? ref_output_width(p, REF_GRAD_BIAS) : 0));
        finish_totals(&work, REF_GRAD_SINK, ATTN_GRAD_SINK, work.sink_totals,
                      units[REF_GRAD_SINK].count);
        finish_totals(&work, REF_GRAD_ALIBI, ATTN_GRAD_ALIBI, work.slope_totals,
                      units[REF_GRAD_ALIBI].count);
    }
    end(&work);
    return status;
}
