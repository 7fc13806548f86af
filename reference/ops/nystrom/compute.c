/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - nystrom in double: whole heads, and from the heads the requested rows. The bound
 * comes from computing each head again with random roundings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/nystrom/nystrom.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Computations with random roundings, and how much wider than what they show the bound is. */
enum { RUNS = 16 };
#define WIDER 16.0

/* What a request needs, for one head after the other. */
struct work {
    struct ref_nystrom_head head;
    int64_t groups;  /* each computes some of the runs, one after the other */
    double **memory; /* [groups] */
    double *tape;    /* NULL: no bounds */
    double *changed; /* [RUNS][rows,Dv] results with random roundings */
    struct ref_nystrom_run exact;
    double *row, *fz; /* [m] for implied weights; */
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Room of a run for `rows` rows of out. */
static int64_t run_doubles(const struct ref_nystrom_head *s, int64_t rows)
{
    const int64_t m = s->segments, widest = larger(larger(s->steps, s->dk), s->dv);
    return 2 * widest + 3 * m * s->dk + 5 * m * m + rows * m + m * s->steps + 2 * m * s->dv +
           rows * s->dv;
}

/* Cuts the arrays of a run out of its memory. */
static struct ref_nystrom_run prepare(const struct ref_nystrom_head *s, int number, double *memory)
{
    const int64_t m = s->segments, widest = larger(larger(s->steps, s->dk), s->dv);
    struct ref_nystrom_run r = {.head = s, .number = number};
    const struct {
        double **array;
        int64_t count;
    } arrays[] = {{&r.spread, widest},  {&r.partial, widest},
                  {&r.ql, m * s->dk},   {&r.kl, m * s->dk},
                  {&r.klt, m * s->dk},  {&r.a, m * m},
                  {&r.z, m * m},        {&r.x, m * m},
                  {&r.y, m * m},        {&r.t, m * m},
                  {&r.g, m * s->steps}, {&r.gv, m * s->dv},
                  {&r.zgv, m * s->dv},  {&r.out, s->rows * s->dv},
                  {&r.f, s->rows * m}};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        *arrays[a].array = memory;
        memory += arrays[a].count;
    }
    return r;
}

static void load_head(struct ref_nystrom_head *s, int64_t head)
{
    const struct attn_tensor *const *t = s->job->operands.by_role;
    const int64_t heads = s->job->operands.problem->hq;
    s->b = head / heads;
    s->h = head % heads;
    for (int64_t i = 0; i < s->steps; i++) {
        const int64_t at[] = {s->b, s->h, i, 0};
        ref_load_vector(t[ATTN_Q], at, s->dk, s->q + i * s->dk);
        ref_load_vector(t[ATTN_K], at, s->dk, s->k + i * s->dk);
        ref_load_vector(t[ATTN_V], at, s->dv, s->v + i * s->dv);
    }
    ref_transpose(s->k, s->steps, s->dk, 0, s->steps, s->kt);
}

static void run_group(void *context, int64_t begin, int64_t end)
{
    const struct work *w = context;
    const int64_t count = w->head.rows * w->head.dv;
    for (int64_t g = begin; g < end; g++)
        for (int64_t n = g; n < RUNS; n += w->groups) {
            struct ref_nystrom_run r = prepare(&w->head, (int)n + 1, w->memory[g]);
            r.tape = w->tape;
            ref_nystrom_run(&r);
            memcpy(w->changed + n * count, r.out, (size_t)count * sizeof(double));
        }
}

/* Mean square of the changes of an element over the runs. */
static double variance(const struct work *w, const double *out, int64_t n)
{
    const int64_t count = w->head.rows * w->head.dv;
    double sum = 0;
    for (int64_t r = 0; r < RUNS; r++) {
        const double change = w->changed[r * count + n] - out[n];
        sum += change * change;
    }
    return sum / RUNS;
}

/* E of each element: what the runs show of it, or of its row if that is more. */
static void bound_rows(const struct work *w, const double *out, double *bound)
{
    const struct ref_nystrom_head *s = &w->head;
    const struct ref_arithmetic *a = &s->job->arithmetic;
    const bool known = w->exact.most * (1.0 + WIDER * a->u_op) <= a->largest;
    const uint32_t dtype = s->job->operands.problem->dtype;
    for (int64_t i = 0; i < s->rows; i++, out += s->dv, bound += s->dv) {
        double row = 0;
        for (int64_t d = 0; d < s->dv; d++) {
            bound[d] = variance(w, w->exact.out, i * s->dv + d);
            row += bound[d] / (double)s->dv;
        }
        for (int64_t d = 0; d < s->dv; d++) {
            const double e = WIDER * sqrt(ref_larger(bound[d], row));
            bound[d] = ref_bound_final(a, dtype, out[d], known && isfinite(e) ? e : INFINITY);
        }
    }
}

/* F Z G: what the formula multiplies each v by. */
static void store_implied(const struct work *w)
{
    const struct ref_nystrom_head *s = &w->head;
    const struct ref_nystrom_run *r = &w->exact;
    const int64_t m = s->segments;
    for (int64_t i = 0; i < s->rows; i++) {
        double *implied = s->job->result->implied + (s->first + i) * s->steps;
        memset(w->fz, 0, (size_t)m * sizeof(double));
        memset(implied, 0, (size_t)s->steps * sizeof(double));
        ref_add_rows(r->f + i * m, r->z, m, NULL, m, m, w->fz);
        ref_add_rows(w->fz, r->g, s->steps, NULL, m, s->steps, implied);
    }
}

/* The requested rows of one head, which is loaded. */
static void compute_head(struct work *w)
{
    struct ref_nystrom_head *s = &w->head;
    const struct ref_values *out = &s->job->result->output[0];
    const int64_t at = s->first * s->dv, count = s->rows * s->dv;
    w->exact = prepare(s, 0, w->memory[w->groups]);
    w->exact.tape = w->tape;
    w->exact.tracks = w->tape != NULL;
    ref_nystrom_run(&w->exact);
    if (s->job->result->implied)
        store_implied(w);
    if (!out->value)
        return;
    memcpy(out->value + at, w->exact.out, (size_t)count * sizeof(double));
    if (!w->tape || !out->bound)
        return;
    attn_parallel_for((int)w->groups, w->groups, 1, run_group, w);
    bound_rows(w, out->value + at, out->bound + at);
}

/* The largest column sum of A over all heads, for variant=batch. */
static double norm_of_all(struct work *w)
{
    const struct attn_problem *p = w->head.job->operands.problem;
    double most = 0;
    w->head.rows = 0;
    for (int64_t head = 0; head < p->b * p->hq; head++) {
        load_head(&w->head, head);
        struct ref_nystrom_run r = prepare(&w->head, 0, w->memory[w->groups]);
        most = ref_larger(ref_nystrom_norm(&r), most);
    }
    return most;
}

/* The most rows that are requested of one head. */
static int64_t most_rows(const struct ref_job *job)
{
    const int64_t count = job->request->units[0].count, sq = job->operands.problem->sq;
    return count < sq ? count : sq;
}

static int create(struct work *w)
{
    struct ref_nystrom_head *s = &w->head;
    const struct ref_job *job = s->job;
    const int64_t rows = most_rows(job), room = run_doubles(s, rows);
    int64_t tape;
    s->rows = rows;
    tape = ref_nystrom_tape(s);
    w->groups = job->threads < RUNS ? job->threads : RUNS;
    w->memory = calloc((size_t)w->groups + 1, sizeof *w->memory);
    s->q = ref_alloc_doubles(s->steps, 3 * s->dk + s->dv);
    w->fz = ref_alloc_doubles(s->segments, 1);
    if (!w->memory || !s->q || !w->fz || tape < 0)
        return ATTN_OUT_OF_MEMORY;
    s->k = s->q + s->steps * s->dk;
    s->kt = s->k + s->steps * s->dk;
    s->v = s->kt + s->steps * s->dk;
    for (int64_t g = 0; g <= w->groups; g++) {
        w->memory[g] = job->bounds || g == w->groups ? ref_alloc_doubles(room, 1) : NULL;
        if (!w->memory[g] && (job->bounds || g == w->groups))
            return ATTN_OUT_OF_MEMORY;
    }
    if (!job->bounds)
        return ATTN_OK;
    w->tape = ref_alloc_doubles(tape, 1);
    w->changed = ref_alloc_doubles(RUNS * rows, s->dv);
    return w->tape && w->changed ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}

static void destroy(struct work *w)
{
    for (int64_t g = 0; w->memory && g <= w->groups; g++)
        free(w->memory[g]);
    free(w->memory);
    free(w->head.q);
    free(w->fz);
    free(w->tape);
    free(w->changed);
}

int ref_nystrom_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    struct work w = {.head = {.job = job,
                              .steps = p->sq,
                              .segments = ref_nystrom_segments(p->landmarks, p->sq),
                              .dk = p->dk,
                              .dv = p->dv}};
    const int status = create(&w);
    if (status == ATTN_OK && p->variant == ATTN_NYSTROM_BATCH)
        w.head.norm = norm_of_all(&w);
    for (int64_t head = 0, row = 0; status == ATTN_OK && head < p->b * p->hq; head++) {
        w.head.first = row;
        w.head.rows = ref_units_take(&job->request->units[0], p->sq, head, &row);
        if (w.head.rows == 0)
            continue;
        load_head(&w.head, head);
        compute_head(&w);
    }
    destroy(&w);
    return status;
}
