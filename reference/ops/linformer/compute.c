/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - linformer in double: k and v of a head are projected, and the shared softmax of
 * row.c then takes the r projected rows for its keys. OP.md derives the errors of the projected
 * rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/linformer/linformer.h"
#include "reference/parallel.h"
#include "reference/sums.h"

struct work {
    const struct ref_job *job;
    struct ref_job inner;        /* attention over the projected rows */
    struct attn_problem problem; /* of `inner`: sk = r */
    struct ref_keys keys;        /* the projected rows, with their errors */
    double *k, *v;               /* [Sk,Dk], [Sk,Dv] of one key head */
    double *e, *f;               /* [r,Sk] of the same */
    double *column;              /* [max(Dk,Dv)] sums of |k| or |v| */
    double *q;                   /* [rows,Dq] of one head */
    double *weights;             /* [rows,r] of all heads; NULL: not wanted */
    int64_t length;              /* of the batch entry at work */
};

/* One of the two projections: `to` = `matrix` times the first rows of `from`. */
struct side {
    const struct work *work;
    const double *matrix, *from;
    double *to, *error; /* [r,width]; error NULL: no bound */
    int64_t width;
};

/* `e` holds the sum of the absolute products. It becomes the error of y. */
static double projected_error(const struct side *s, double growth, double lost, double y, double e)
{
    const struct ref_arithmetic *a = &s->work->job->arithmetic;
    const double size = e * (1.0 + growth);
    double error = growth * e + a->omega * lost;

    error += a->u_proj * (fabs(y) + error) + a->eta_proj;
    return size <= a->largest && fabs(y) + error <= a->proj_largest ? error : INFINITY;
}

static void bound_row(const struct side *s, const double *w, const double *y, double *e)
{
    const int64_t n = s->work->length;
    const double growth = ref_growth_rounded(&s->work->job->arithmetic, (double)(n + 2));
    double lost = 2.0 * (double)n;

    for (int64_t j = 0; j < n; j++)
        lost += fabs(w[j]);
    memset(e, 0, (size_t)s->width * sizeof *e);
    ref_add_magnitudes(w, s->from, s->width, NULL, n, s->width, e);
    for (int64_t c = 0; c < s->width; c++)
        e[c] = projected_error(s, growth, lost + s->work->column[c], y[c], e[c]);
}

static void project_rows(void *context, int64_t begin, int64_t end)
{
    const struct side *s = context;
    const int64_t sk = s->work->job->operands.problem->sk;

    for (int64_t l = begin; l < end; l++) {
        const double *w = s->matrix + l * sk;
        double *y = s->to + l * s->width;
        memset(y, 0, (size_t)s->width * sizeof *y);
        ref_add_rows(w, s->from, s->width, NULL, s->work->length, s->width, y);
        if (s->error)
            bound_row(s, w, y, s->error + l * s->width);
    }
}

static void project(const struct side *s)
{
    double *column = s->work->column;

    memset(column, 0, (size_t)s->width * sizeof *column);
    for (int64_t j = 0; s->error && j < s->work->length; j++)
        for (int64_t c = 0; c < s->width; c++)
            column[c] += fabs(s->from[j * s->width + c]);
    attn_parallel_for(s->work->job->threads, s->work->keys.sk, 4, project_rows, (void *)s);
}

/* Loads a key head of a batch entry, and projects it. Rows beyond its length are not read. */
static void load_keys(struct work *x, int64_t b, int64_t g)
{
    const struct ref_operands *in = &x->job->operands;
    const struct attn_tensor *const *t = in->by_role;
    struct ref_keys *keys = &x->keys;
    const struct side k = {x, x->e, x->k, keys->k, keys->k_error, keys->dk};
    const struct side v = {x, x->f, x->v, keys->v, keys->v_error, keys->dv};

    keys->b = b;
    keys->g = g;
    x->length = t[ATTN_LEN] ? (int64_t)ref_load(t[ATTN_LEN], &b) : in->problem->sk;
    for (int64_t j = 0; j < x->length; j++) {
        const int64_t at[] = {b, g, j, 0};
        ref_load_vector(t[ATTN_K], at, keys->dk, x->k + j * keys->dk);
        ref_load_vector(t[ATTN_V], at, keys->dv, x->v + j * keys->dv);
    }
    for (int64_t l = 0; l < keys->sk; l++) {
        const int64_t at[] = {g, l, 0};
        ref_load_vector(t[ATTN_PROJ_E], at, x->length, x->e + l * in->problem->sk);
        ref_load_vector(t[ATTN_PROJ_F], at, x->length, x->f + l * in->problem->sk);
    }
    project(&k);
    project(&v);
    ref_keys_turn(&x->inner, keys);
}

/* What each key's v is multiplied by: p F. */
static void store_implied(const struct work *x, int64_t r)
{
    const int64_t sk = x->job->operands.problem->sk;
    double *implied = x->job->result->implied + r * sk;

    memset(implied, 0, (size_t)sk * sizeof *implied);
    ref_add_rows(x->weights + r * x->keys.sk, x->f, sk, NULL, x->keys.sk, x->length, implied);
}

/* Rounding of the output type on top of E, in place. */
static void finish_bounds(const struct ref_job *job, int64_t first, int64_t count)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values *out = &job->result->output[0];

    for (int64_t n = first * p->dv; n < (first + count) * p->dv; n++)
        out->bound[n] = ref_bound_final(&job->arithmetic, p->dtype, out->value[n], out->bound[n]);
}

/* Requested rows [first, first + count), all of one head. */
static void compute_head(struct work *x, int64_t head, int64_t first, int64_t count)
{
    const struct ref_job *job = x->job;
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values *out = &job->result->output[0];
    const int64_t b = head / p->hq, h = head % p->hq, g = h / (p->hq / p->hkv);
    struct ref_block block = {.job = &x->inner,
                              .keys = &x->keys,
                              .b = b,
                              .h = h,
                              .first = first,
                              .count = count,
                              .q = x->q,
                              .out = out->value ? out->value + first * p->dv : NULL,
                              .error =
                                  job->bounds && out->bound ? out->bound + first * p->dv : NULL,
                              .out_stride = p->dv};

    if (x->keys.b != b || x->keys.g != g)
        load_keys(x, b, g);
    ref_keys_load_score(&x->inner, &x->keys, h);
    for (int64_t r = 0; r < count; r++)
        ref_load_vector(job->operands.by_role[ATTN_Q],
                        (const int64_t[]){b, h, ref_row_index(job, first + r) % p->sq, 0}, p->dq,
                        x->q + r * p->dq);
    ref_block_compute(&block);
    for (int64_t r = first; job->result->implied && r < first + count; r++)
        store_implied(x, r);
    if (block.error)
        finish_bounds(job, first, count);
}

/* Attention of the same queries over r keys, which this file fills in. */
static int prepare_inner(struct work *x)
{
    const struct ref_job *job = x->job;
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values lse = ref_values_of(p, job->result, ATTN_LSE);

    x->problem = *p;
    x->problem.sk = p->landmarks;
    x->inner = *job;
    x->inner.operands.problem = &x->problem;
    x->inner.operands.by_role[ATTN_LEN] = NULL;
    x->inner.rows = (struct ref_row_results){
        .lse = lse.value, .lse_bound = lse.bound, .weights = x->weights, .heads = 1};
    if (job->bounds)
        ref_arithmetic_init(&x->inner.arithmetic, &x->problem, job->request->numerics,
                            job->request->fill, ref_chains(p, job->request));
    x->inner.scratch = ref_scratch_create(&x->problem, job->threads);
    return x->inner.scratch ? ref_keys_create(&x->inner, &x->keys) : ATTN_OUT_OF_MEMORY;
}

struct array {
    double **at;
    int64_t rows, width;
    bool wanted;
};

static bool allocate(const struct array *arrays, size_t count)
{
    for (size_t a = 0; a < count; a++) {
        if (!arrays[a].wanted)
            continue;
        *arrays[a].at = ref_alloc_doubles(arrays[a].rows, arrays[a].width);
        if (!*arrays[a].at)
            return false;
    }
    return true;
}

static int create(struct work *x)
{
    const struct attn_problem *p = x->job->operands.problem;
    const int64_t count = x->job->request->units[0].count, r = p->landmarks;
    const bool bounds = x->job->bounds;
    struct ref_keys *keys = &x->keys;
    const struct array own[] = {{&x->k, p->sk, p->dk, true},
                                {&x->v, p->sk, p->dv, true},
                                {&x->e, r, p->sk, true},
                                {&x->f, r, p->sk, true},
                                {&x->column, p->dk > p->dv ? p->dk : p->dv, 1, true},
                                {&x->q, count < p->sq ? count : p->sq, p->dq, true},
                                {&x->weights, count, r, x->job->result->implied != NULL}};
    const struct array errors[] = {{&keys->k_error, r, p->dk, bounds},
                                   {&keys->kt_error, p->dk, r, bounds},
                                   {&keys->v_error, r, p->dv, bounds}};
    int status;

    if (!allocate(own, sizeof own / sizeof own[0]))
        return ATTN_OUT_OF_MEMORY;
    status = prepare_inner(x);
    if (status == ATTN_OK && !allocate(errors, sizeof errors / sizeof errors[0]))
        status = ATTN_OUT_OF_MEMORY;
    return status;
}

int ref_linformer_compute(const struct ref_job *job)
{
    const int64_t count = job->request->units[0].count, sq = job->operands.problem->sq;
    struct work x = {.job = job};
    int status = create(&x);

    for (int64_t first = 0, next; status == ATTN_OK && first < count; first = next) {
        const int64_t head = ref_row_index(job, first) / sq;
        for (next = first; next < count && ref_row_index(job, next) / sq == head;)
            next++;
        compute_head(&x, head, first, next - first);
    }
    ref_keys_free(&x.keys);
    ref_scratch_free(x.inner.scratch, job->threads);
    free(x.k);
    free(x.v);
    free(x.e);
    free(x.f);
    free(x.column);
    free(x.q);
    free(x.weights);
    return status;
}
