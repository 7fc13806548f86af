/* SPDX-License-Identifier: Apache-2.0 */
/* room.c - working memory of attention_backward, allocated once before threads start. */
#include <stdlib.h>

#include "reference/ops/attention_backward/work.h"

static bool make_lane(const struct ref_backward_work *work, struct ref_backward_lane *lane,
                      struct ref_scratch *scratch)
{
    const struct attn_problem *p = ref_backward_problem(work);
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
    row->spans = calloc((size_t)keys, sizeof(*row->spans));
    row->scratch = scratch;
    if (!next || !lane->index || !lane->order || !lane->start || !row->spans)
        return false;
    for (size_t n = 0; n < count; n++, next += keys)
        *per_key[n] = next;
    for (size_t n = 0; n < 6; n++, next += rows)
        lane->list[n] = next;
    lane->room = next;
    return true;
}

/* For each unit of an output its entry in the request, or -1; NULL: no memory. */
static int64_t *entries_of(const struct ref_backward_work *work, int output)
{
    const struct ref_units *units = &work->job.request->units[output];
    const int64_t count = ref_output_units(ref_backward_problem(work), output);
    int64_t *entry = calloc((size_t)count + 1, sizeof(*entry));

    for (int64_t n = 0; entry && n < count; n++)
        entry[n] = -1;
    for (int64_t r = 0; entry && r < units->count; r++)
        entry[ref_unit_number(units, r)] = r;
    return entry;
}

static struct ref_backward_total *totals_of(const struct ref_backward_work *work, int output)
{
    return calloc((size_t)(work->job.request->units[output].count *
                           ref_output_width(ref_backward_problem(work), output)) +
                      1,
                  sizeof(struct ref_backward_total));
}

/* What the sums over many rows need. */
static bool make_totals(struct ref_backward_work *work)
{
    bool made = true;

    if (ref_backward_wants(work, REF_GRAD_BIAS)) {
        work->bias = ref_alloc_doubles(REF_BACKWARD_BLOCK, 2 * ref_backward_problem(work)->sk);
        work->bias_entry = entries_of(work, REF_GRAD_BIAS);
        work->bias_totals = totals_of(work, REF_GRAD_BIAS);
        made = work->bias && work->bias_entry && work->bias_totals;
    }
    if (ref_backward_wants(work, REF_GRAD_SINK)) {
        work->sinks = calloc(REF_BACKWARD_BLOCK, sizeof(*work->sinks));
        work->sink_entry = entries_of(work, REF_GRAD_SINK);
        work->sink_totals = totals_of(work, REF_GRAD_SINK);
        made = made && work->sinks && work->sink_entry && work->sink_totals;
    }
    if (ref_backward_wants(work, REF_GRAD_ALIBI)) {
        work->slopes = calloc(REF_BACKWARD_BLOCK, sizeof(*work->slopes));
        work->slope_entry = entries_of(work, REF_GRAD_ALIBI);
        work->slope_totals = totals_of(work, REF_GRAD_ALIBI);
        made = made && work->slopes && work->slope_entry && work->slope_totals;
    }
    return made;
}

int ref_backward_begin(const struct ref_job *job, struct ref_backward_work *work)
{
    const struct attn_problem *p = job->operands.problem;
    struct ref_backward_group *group = &work->group;
    bool made;

    *work = (struct ref_backward_work){.job = *job};
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
    work->slot_of_row = calloc((size_t)group->rows, sizeof(int64_t));
    work->row_of_slot = calloc((size_t)group->rows, sizeof(int64_t));
    work->column_of_key = calloc((size_t)p->sk + 1, sizeof(int64_t));
    group->others = calloc((size_t)p->sk + 1, sizeof(int64_t));
    work->cells =
        calloc((size_t)(group->rows > REF_BACKWARD_CELLS ? group->rows : REF_BACKWARD_CELLS),
               sizeof(struct ref_backward_cell));
    made = group->q && group->dout && group->vt && group->v_size && work->entry_of_row &&
           work->slot_of_row && work->row_of_slot && group->others && work->column_of_key &&
           work->cells && make_totals(work);
    for (int t = 0; made && t < job->threads; t++)
        made = make_lane(work, &work->lanes[t], &work->job.scratch[t]);
    return made ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}

void ref_backward_end(struct ref_backward_work *work)
{
    void *const memory[] = {
        work->group.q,      work->group.dout,  work->group.vt,      work->group.v_size,
        work->entry_of_row, work->cells,       work->column_of_key, work->bias,
        work->slot_of_row,  work->row_of_slot, work->group.others,  work->sinks,
        work->slopes,       work->bias_totals, work->sink_totals,   work->slope_totals,
        work->bias_entry,   work->sink_entry,  work->slope_entry};

    for (size_t m = 0; m < sizeof(memory) / sizeof(*memory); m++)
        free(memory[m]);
    for (int t = 0; work->lanes && t < work->job.threads; t++) {
        free(work->lanes[t].memory);
        free(work->lanes[t].index);
        free(work->lanes[t].order);
        free(work->lanes[t].start);
        free(work->lanes[t].row.spans);
    }
    free(work->lanes);
    ref_keys_free(&work->group.keys);
    ref_scratch_free(work->job.scratch, work->job.threads);
}
