/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - multi-head attention: projections, the heads, concatenation, W_o, residual. Nothing
 * is rounded in between. With bounds, the error of every projection goes along with its values. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/ops/mha/mha.h"

/* Working arrays of a request. */
struct mha {
    const struct ref_job *job;
    struct ref_keys keys;
    double *x_q, *x_k, *x_v;         /* [rows, E*] of one batch */
    double *q, *q_error;             /* [rows, Dq] of one head */
    double *q_spread;                /* the same; NULL unless keys.k_spread_t */
    struct ref_mha_joining *joining; /* NULL: errors of heads are added up as they are */
    struct ref_mha_joining joining_of;
    double *room;                  /* for spreads: [Sk, Dk] or [rows, Eo] */
    double *heads, *heads_error;   /* [rows, Hq*Dv] */
    double *w, *wt;                /* of the projection at work: [out, in], [in, out] */
    double *bias, *sum_w, *unit_w; /* of it, too */
};

static void project(struct mha *m, uint32_t weight, uint32_t bias, int64_t first,
                    struct ref_projection *p)
{
    p->w = m->w;
    p->wt = m->wt;
    p->bias = m->bias;
    p->sum_w = m->sum_w;
    p->unit_w = m->unit_w;
    ref_mha_project(m->job, weight, bias, first, p);
}

static void load_matrix(const struct attn_tensor *tensor, int64_t b, double *out)
{
    for (int64_t r = 0; r < tensor->shape[1]; r++)
        ref_load_vector(tensor, (const int64_t[]){b, r, 0}, tensor->shape[2],
                        out + r * tensor->shape[2]);
}

static void project_keys(struct mha *m, int64_t g)
{
    const struct attn_tensor *const *t = m->job->operands.by_role;
    struct ref_keys *keys = &m->keys;
    struct ref_projection k = {.rows = keys->sk,
                               .in = t[ATTN_X_K]->shape[2],
                               .out = keys->dk,
                               .x = m->x_k,
                               .y = keys->k,
                               .y_error = keys->k_error,
                               .stored = true};
    struct ref_projection v = {.rows = keys->sk,
                               .in = t[ATTN_X_V]->shape[2],
                               .out = keys->dv,
                               .x = m->x_v,
                               .y = keys->v,
                               .y_error = keys->v_error,
                               .stored = true};

    project(m, ATTN_W_K, ATTN_B_K, g * keys->dk, &k);
    ref_keys_turn(m->job, keys);
    if (keys->k_spread_t)
        ref_mha_spread_keys(&m->job->arithmetic, &k, keys, m->room);
    project(m, ATTN_W_V, ATTN_B_V, g * keys->dv, &v);
    if (keys->v_spread)
        ref_mha_spread(&m->job->arithmetic, &v, keys->v_spread);
}

/* The parts of the error of one column; a row that was not joined has all in one. */
static void settle_joined(struct mha *m, int64_t r, int64_t at, double error, double store)
{
    const struct ref_joined *x = &m->joining->joined;
    const double stored = m->job->arithmetic.lambda * store;

    if (x->stays[r] < 0.0) {
        x->rest[at] = error;
        x->own[at] = 0.0;
    }
    x->own[at] += stored * stored;
}

/* A pruned head is zero from here on; the others may be stored rounded before W_o. */
static void settle_head(struct mha *m, int64_t h, int64_t rows)
{
    const struct ref_job *job = m->job;
    const struct attn_tensor *head_mask = job->operands.by_role[ATTN_HEAD_MASK];
    bool pruned = head_mask && ref_load(head_mask, &h) == 0.0;
    bool stored = job->operands.by_role[ATTN_W_O] != NULL;
    int64_t dv = m->keys.dv, width = job->operands.problem->hq * dv;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = h * dv; c < (h + 1) * dv; c++) {
            double *o = m->heads + r * width + c;
            double *e = m->heads_error ? m->heads_error + r * width + c : NULL;
            if (pruned)
                *o = 0.0;
            if (e && pruned && m->joining)
                m->joining->joined.rest[r * width + c] = m->joining->joined.own[r * width + c] =
                    0.0;
            if (e && pruned)
                *e = 0.0;
            else if (e && stored) {
                const double store =
                    job->arithmetic.u_proj * (fabs(*o) + *e) + job->arithmetic.eta_proj;
                if (m->joining)
                    settle_joined(m, r, r * width + c, *e, store);
                *e += store;
                *e = ref_mha_error_within(*e, fabs(*o) + *e, job->arithmetic.proj_largest);
            }
        }
    for (int64_t r = 0; m->joining && !pruned && r < rows; r++)
        ref_mha_joining_add(m->joining, r);
}

static void compute_head(struct mha *m, int64_t b, int64_t h, int64_t first, int64_t count)
{
    const struct ref_job *job = m->job;
    const struct attn_problem *problem = job->operands.problem;
    struct ref_projection q = {.rows = count,
                               .in = job->operands.by_role[ATTN_X_Q]->shape[2],
                               .out = problem->dq,
                               .x = m->x_q,
                               .y = m->q,
                               .y_error = m->q_error,
                               .stored = true,
                               .folded = true};
    struct ref_block block = {.job = job,
                              .keys = &m->keys,
                              .b = b,
                              .h = h,
                              .first = first,
                              .count = count,
                              .q = m->q,
                              .q_error = m->q_error,
                              .q_spread = m->q_spread,
                              .out = m->heads + h * problem->dv,
                              .error = m->heads_error ? m->heads_error + h * problem->dv : NULL,
                              .out_stride = problem->hq * problem->dv,
                              .result_head = h};
    struct ref_joined joined;

    project(m, ATTN_W_Q, ATTN_B_Q, h * problem->dq, &q);
    if (m->q_spread)
        ref_mha_spread(&job->arithmetic, &q, m->q_spread);
    ref_keys_load_score(job, &m->keys, h);
    if (m->joining) {
        joined = m->joining->joined;
        joined.rest += h * problem->dv;
        joined.own += h * problem->dv;
        ref_mha_joining_load(job, &m->keys, h, count, m->joining);
        block.joined = &joined;
    }
    ref_block_compute(&block);
    settle_head(m, h, count);
}

/* x_q on top, and what a store before it may round; then the rounding of the output type. */
static void finish_row(const struct mha *m, int64_t r, int64_t width, const double *x_q, double *y,
                       double *bound)
{
    const struct ref_job *job = m->job;
    const struct ref_arithmetic *a = &job->arithmetic;
    bool residual = job->operands.problem->flags & ATTN_FLAG_RESIDUAL;

    for (int64_t c = 0; c < width; c++) {
        double *e = bound ? &bound[r * width + c] : NULL, *o = &y[r * width + c];
        if (residual && e)
            *e += a->u_proj * (fabs(*o) + *e) + a->eta_proj;
        if (residual)
            *o += x_q[r * width + c];
        if (residual && e) {
            *e += a->u_op * (fabs(*o) + *e) + a->omega;
            *e = ref_mha_error_within(*e, fabs(*o) + *e, a->largest);
        }
        if (e) /* an infinity may come from the inputs: its class is certain */
            *e = isinf(*o) ? 0.0 : ref_bound_final(a, job->operands.problem->dtype, *o, *e);
    }
}

static void compute_output(struct mha *m, int64_t first, int64_t count)
{
    const struct ref_job *job = m->job;
    const struct attn_problem *problem = job->operands.problem;
    const struct ref_values *out = &job->result->output[0];
    int64_t in = problem->hq * problem->dv, width = ref_extent(&job->shape, 'o');
    double *y = out->value ? out->value + first * width : NULL;
    double *bound = out->bound ? out->bound + first * width : NULL;
    struct ref_projection o = {.rows = count,
                               .in = in,
                               .out = width,
                               .x = m->heads,
                               .x_error = m->joining ? NULL : m->heads_error,
                               .inexact = m->joining != NULL,
                               .y = y,
                               .y_error = bound};

    if (!y)
        return;
    if (job->operands.by_role[ATTN_W_O]) {
        project(m, ATTN_W_O, ATTN_B_O, 0, &o);
        if (m->joining && bound)
            ref_mha_join(job, &o, m->joining, m->heads_error, m->room);
    } else {
        memcpy(y, m->heads, (size_t)(count * in) * sizeof(*y));
        if (bound)
            memcpy(bound, m->heads_error, (size_t)(count * in) * sizeof(*bound));
    }
    for (int64_t r = 0; r < count; r++)
        finish_row(m, r, width, m->x_q, y, bound);
}

static void compute_batch(struct mha *m, int64_t b, int64_t first, int64_t count)
{
    const struct ref_job *job = m->job;
    const struct attn_problem *problem = job->operands.problem;
    const struct attn_tensor *const *t = job->operands.by_role;
    int64_t shared = problem->hq / problem->hkv;

    load_matrix(t[ATTN_X_K], b, m->x_k);
    load_matrix(t[ATTN_X_V], b, m->x_v);
    for (int64_t r = 0; r < count; r++)
        ref_load_vector(t[ATTN_X_Q],
                        (const int64_t[]){b, ref_row_index(job, first + r) % problem->sq, 0},
                        t[ATTN_X_Q]->shape[2], m->x_q + r * t[ATTN_X_Q]->shape[2]);
    for (int64_t h = 0; h < problem->hq; h++) {
        if (h % shared == 0)
            project_keys(m, h / shared);
        compute_head(m, b, h, first, count);
    }
    compute_output(m, first, count);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int mha_create(struct mha *m, const struct ref_job *job)
{
    const struct attn_problem *problem = job->operands.problem;
    const struct attn_tensor *const *t = job->operands.by_role;
    int64_t rows =
        job->request->units[0].count < problem->sq ? job->request->units[0].count : problem->sq;
    int64_t sk = problem->sk, eq = t[ATTN_X_Q]->shape[2], ek = t[ATTN_X_K]->shape[2];
    int64_t ev = t[ATTN_X_V]->shape[2], heads = problem->hq * problem->dv;
    int64_t out = larger(larger(problem->dq, problem->dk), problem->dv);
    int64_t in = larger(eq, larger(ek, ev));
    /* The widest projection: one head, or W_o. */
    int64_t width = larger(out, ref_extent(&job->shape, 'o'));
    bool bounds = job->bounds;
    int status = ref_keys_create(job, &m->keys);
    bool joins = status == ATTN_OK && bounds && ref_mha_joins(job, &m->keys);
    bool columns = m->keys.k_spread_t != NULL, squares = m->keys.v_spread != NULL;
    struct {
        double **array;
        int64_t rows, width;
        bool wanted;
    } arrays[] = {{&m->x_q, rows, eq, true},
                  {&m->x_k, sk, ek, true},
                  {&m->x_v, sk, ev, true},
                  {&m->q, rows, problem->dq, true},
                  {&m->q_error, rows, problem->dq, bounds},
                  {&m->q_spread, rows, problem->dq, columns},
                  {&m->room, larger(sk, rows), width, squares},
                  {&m->heads, rows, heads, true},
                  {&m->heads_error, rows, heads, bounds},
                  {&m->w, larger(in, heads), width, true},
                  {&m->wt, larger(in, heads), width, true},
                  {&m->bias, width, 1, true},
                  {&m->sum_w, width, 1, true},
                  {&m->unit_w, width, 1, bounds}};

    for (size_t a = 0; status == ATTN_OK && a < sizeof(arrays) / sizeof(*arrays); a++) {
        if (!arrays[a].wanted)
            continue;
        *arrays[a].array = ref_alloc_doubles(arrays[a].rows, arrays[a].width);
        if (!*arrays[a].array)
            return ATTN_OUT_OF_MEMORY;
    }
    m->keys.q_squares = joins || (columns && ref_squares_stored(&job->arithmetic, problem->dk));
    m->joining = joins ? &m->joining_of : NULL;
    if (joins && status == ATTN_OK)
        status = ref_mha_joining_create(job, rows, m->joining);
    return status;
}

static void mha_free(struct mha *m)
{
    ref_keys_free(&m->keys);
    free(m->x_q);
    free(m->x_k);
    free(m->x_v);
    free(m->q);
    free(m->q_error);
    free(m->q_spread);
    free(m->room);
    if (m->joining)
        ref_mha_joining_free(m->joining);
    free(m->heads);
    free(m->heads_error);
    free(m->w);
    free(m->wt);
    free(m->bias);
    free(m->sum_w);
    free(m->unit_w);
}

int ref_mha_compute(const struct ref_job *job)
{
    const struct attn_problem *problem = job->operands.problem;
    int64_t count = job->request->units[0].count;
    struct mha m = {.job = job};
    int status = mha_create(&m, job);

    if (status != ATTN_OK)
        goto out;
    for (int64_t first = 0, next; first < count; first = next) {
        int64_t b = ref_row_index(job, first) / problem->sq;
        for (next = first; next < count && ref_row_index(job, next) / problem->sq == b;)
            next++;
        compute_batch(&m, b, first, next - first);
    }
out:
    mha_free(&m);
    return status;
}
