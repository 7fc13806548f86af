/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - performer in double, by its definition: the weight of each key, then a sum over keys.
 * No state is made of the keys, so the reference does not share the method of what it judges. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/dtype.h"
#include "reference/ops/performer/performer.h"
#include "reference/parallel.h"

/* A sum of products of features as small as this may have lost terms that matter. */
#define FAR_APART 1e-250

/* Rows that share an allocation of working memory. */
enum { GRAIN = 16 };

struct work {
    struct ref_performer *head;
    int64_t first; /* the first requested row of the head */
    atomic_bool no_memory;
};

/* The larger number; NaN takes no part. */
static double larger_number(double x, double y)
{
    return y > x ? y : x;
}

/* Eight sums side by side: the order of additions is fixed, and a compiler can keep them in vector
 * registers. */
ATTN_CLONES("avx2", "avx512f")
static double dot(const double *a, const double *b, int64_t n)
{
    double sum[8] = {0};
    int64_t c = 0;
    for (; c + 8 <= n; c += 8)
        for (int lane = 0; lane < 8; lane++)
            sum[lane] += a[c + lane] * b[c + lane];
    for (; c < n; c++)
        sum[c & 7] += a[c] * b[c];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Writes w_r x' to `product`, and |x'|^2 / 2 to *half. Returns the largest sum of |w_r||x'|. Leaves
 * |x'| in x. */
static double project(const struct ref_performer *s, double *x, double *product, double *half)
{
    double reach = 0;
    for (int64_t c = 0; c < s->dk; c++)
        x[c] *= s->root;
    *half = dot(x, x, s->dk) / 2;
    for (int64_t r = 0; r < s->m; r++)
        product[r] = dot(s->w + r * s->dk, x, s->dk);
    for (int64_t c = 0; c < s->dk; c++)
        x[c] = fabs(x[c]);
    for (int64_t r = 0; s->job->bounds && r < s->m; r++)
        reach = ref_larger(dot(s->w_size + r * s->dk, x, s->dk), reach);
    return reach;
}

/* From w x' to the logarithm of a feature; `most` is what is taken out with eps. */
static double log_feature(const struct ref_performer *s, double product, double half, double most)
{
    return s->eps > 0 ? log(exp(product - half - most) + s->eps) : product - half;
}

/* What is taken out of a feature before eps is added: the largest w x'. Without eps the largest
 * logarithm of a feature. */
static double stabiliser(const struct ref_performer *s, double most, double product, double half)
{
    return larger_number(most, s->eps > 0 ? product : product - half);
}

/* Takes the largest of m logarithms out of them, and writes their exponentials. Returns it. */
static double take_out(double *logs, double *phi, int64_t m)
{
    double top = -INFINITY;
    for (int64_t r = 0; r < m; r++)
        top = larger_number(top, logs[r]);
    top = isfinite(top) ? top : 0;
    for (int64_t r = 0; r < m; r++)
        phi[r] = exp(logs[r] - top);
    return top;
}

static void load_keys(struct ref_performer *s)
{
    const struct ref_operands *in = &s->job->operands;
    const struct attn_problem *p = in->problem;
    const int64_t g = s->h / (p->hq / p->hkv);
    s->most = -INFINITY;
    s->longest = 0;
    for (int64_t j = 0; j < s->keys; j++) {
        const int64_t at[] = {s->b, g, j, 0};
        double *x = s->v + j * s->dv, *log_k = s->log_k + j * s->m;
        ref_load_vector(in->by_role[ATTN_V], at, s->dv, x);
        ref_load_vector(in->by_role[ATTN_K], at, s->dk, s->key);
        s->reach[j] = project(s, s->key, log_k, &s->half[j]);
        s->longest = ref_larger(s->reach[j], s->longest);
        for (int64_t r = 0; r < s->m; r++)
            s->most = stabiliser(s, s->most, log_k[r], s->half[j]);
    }
    s->most = isfinite(s->most) ? s->most : 0;
    for (int64_t j = 0; j < s->keys; j++) {
        double *log_k = s->log_k + j * s->m;
        for (int64_t r = 0; r < s->m; r++)
            log_k[r] = log_feature(s, log_k[r], s->half[j], s->most);
        s->top[j] = take_out(log_k, s->phi + j * s->m, s->m);
    }
}

static void load_head(struct ref_performer *s)
{
    const struct ref_operands *in = &s->job->operands;
    const struct attn_tensor *len = in->by_role[ATTN_LEN];
    s->keys = len ? (int64_t)ref_load(len, &s->b) : in->problem->sk;
    for (int64_t r = 0; r < s->m; r++)
        ref_load_vector(in->by_role[ATTN_FEATURES], (const int64_t[]){s->h, r, 0}, s->dk,
                        s->w + r * s->dk);
    s->heaviest = 0;
    for (int64_t r = 0; r < s->m; r++) {
        double sum = 0;
        for (int64_t n = r * s->dk; n < (r + 1) * s->dk; n++)
            sum += s->w_size[n] = fabs(s->w[n]);
        s->heaviest = fmax(s->heaviest, sum);
    }
    load_keys(s);
    if (s->job->bounds)
        ref_performer_key_errors(s);
}

/* The log of phi(q) phi(k_j), less what was taken out of phi(q): from a sum of products, or where
 * these are too small from a sum of exponentials. */
static double log_product(const struct ref_performer *s, const struct ref_performer_row *row,
                          int64_t j)
{
    const double product = dot(row->phi, s->phi + j * s->m, s->m);
    const double *log_k = s->log_k + j * s->m;
    double top = -INFINITY, sum = 0;
    if (product > FAR_APART)
        return s->top[j] + log(product);
    for (int64_t r = 0; r < s->m; r++)
        top = ref_larger(row->log_q[r] + log_k[r], top);
    if (!isfinite(top))
        return top;
    for (int64_t r = 0; r < s->m; r++)
        sum += exp(row->log_q[r] + log_k[r] - top);
    return top + log(sum);
}

static void load_query(const struct ref_performer *s, struct ref_performer_row *row, int64_t i)
{
    double most = -INFINITY;
    ref_load_vector(s->job->operands.by_role[ATTN_Q], (const int64_t[]){s->b, s->h, i, 0}, s->dk,
                    row->x);
    row->reach = project(s, row->x, row->log_q, &row->half);
    for (int64_t r = 0; r < s->m; r++)
        most = stabiliser(s, most, row->log_q[r], row->half);
    for (int64_t r = 0; r < s->m; r++)
        row->log_q[r] = log_feature(s, row->log_q[r], row->half, most);
    row->top = take_out(row->log_q, row->phi, s->m);
    for (int64_t r = 0; r < s->m; r++)
        row->log_q[r] -= row->top;
}

static void weigh(const struct ref_performer *s, struct ref_performer_row *row)
{
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < row->n; j++) {
        row->log_p[j] = log_product(s, row, j);
        top = ref_larger(row->log_p[j], top);
    }
    for (int64_t j = 0; j < row->n; j++)
        sum += row->p[j] = exp(row->log_p[j] - top);
    for (int64_t j = 0; j < row->n; j++)
        row->p[j] /= sum;
    row->log_sum = top + log(sum);
}

/* A row without keys: out is exact by the rule that is declared. */
static double empty(const struct ref_job *job)
{
    return job->bounds && job->empty_row == ATTN_EMPTY_NAN ? NAN : 0;
}

static void compute_out(const struct ref_performer *s, const struct ref_performer_row *row)
{
    for (int64_t d = 0; d < s->dv; d++)
        row->out[d] = row->n > 0 ? 0 : empty(s->job);
    for (int64_t j = 0; j < row->n; j++)
        for (int64_t d = 0; d < s->dv; d++)
            row->out[d] += row->p[j] * s->v[j * s->dv + d];
}

static void compute_bound(const struct ref_performer *s, const struct ref_performer_row *row,
                          double *bound)
{
    const uint32_t type = s->job->operands.problem->dtype;
    if (row->n > 0)
        ref_performer_bound(s, row, bound);
    for (int64_t d = 0; d < s->dv; d++)
        bound[d] =
            row->n > 0 ? ref_bound_final(&s->job->arithmetic, type, row->out[d], bound[d]) : 0;
}

static void compute_row(const struct ref_performer *s, struct ref_performer_row *row, int64_t r)
{
    const struct ref_job *job = s->job;
    const struct attn_problem *p = job->operands.problem;
    const struct ref_values *values = &job->result->output[0];
    const int64_t i = ref_row_index(job, r) % p->sq;

    row->n = p->flags & ATTN_FLAG_CAUSAL && i + 1 < s->keys ? i + 1 : s->keys;
    load_query(s, row, i);
    weigh(s, row);
    compute_out(s, row);
    if (job->bounds && values->bound)
        compute_bound(s, row, values->bound + r * s->dv);
    if (values->value)
        memcpy(values->value + r * s->dv, row->out, (size_t)s->dv * sizeof *row->out);
    for (int64_t j = 0; job->result->implied && j < p->sk; j++)
        job->result->implied[r * p->sk + j] = j < row->n ? row->p[j] : 0;
}

static void compute_rows(void *context, int64_t begin, int64_t end)
{
    struct work *work = context;
    const struct ref_performer *s = work->head;
    double *room = ref_alloc_doubles(1, s->dk + 2 * s->m + 4 * s->keys + 6 * s->dv);
    struct ref_performer_row row = {.x = room};
    if (!room) {
        work->no_memory = true;
        return;
    }
    row.log_q = row.x + s->dk;
    row.phi = row.log_q + s->m;
    row.p = row.phi + s->m;
    row.log_p = row.p + s->keys;
    row.upper = row.log_p + s->keys;
    row.moved = row.upper + s->keys;
    row.out = row.moved + s->keys;
    row.columns = row.out + s->dv;
    for (int64_t r = begin; r < end; r++)
        compute_row(s, &row, work->first + r);
    free(room);
}

/* Lays the arrays of a head out in `memory`. */
static void lay_out(struct ref_performer *s, double *memory, int64_t sk)
{
    double **const per_key[] = {&s->top, &s->reach, &s->half, &s->spread};
    s->log_k = memory;
    s->phi = s->log_k + sk * s->m;
    s->v = s->phi + sk * s->m;
    memory = s->v + sk * s->dv;
    for (int n = 0; n < 4; n++, memory += sk)
        *per_key[n] = memory;
}

int ref_performer_compute(const struct ref_job *job)
{
    const struct attn_problem *p = job->operands.problem;
    const struct ref_units *rows = &job->request->units[0];
    struct ref_performer s = {
        .job = job, .dk = p->dk, .dv = p->dv, .root = sqrt(p->scale), .eps = p->eps};
    struct work work = {.head = &s};
    s.m = ref_extent(&job->shape, 'm');
    double *memory = ref_alloc_doubles(p->sk, 2 * s.m + s.dv + 4);
    s.w = ref_alloc_doubles(2 * s.m + 1, s.dk);
    int status = memory && s.w ? ATTN_OK : ATTN_OUT_OF_MEMORY;

    if (status == ATTN_OK) {
        lay_out(&s, memory, p->sk);
        s.w_size = s.w + s.m * s.dk;
        s.key = s.w_size + s.m * s.dk;
    }
    for (int64_t head = 0, row = 0; status == ATTN_OK && head < p->b * p->hq; head++) {
        s.b = head / p->hq;
        s.h = head % p->hq;
        work.first = row;
        const int64_t count = ref_units_take(rows, p->sq, head, &row);
        if (count == 0)
            continue;
        load_head(&s);
        attn_parallel_for(job->threads, count, GRAIN, compute_rows, &work);
        status = work.no_memory ? ATTN_OUT_OF_MEMORY : ATTN_OK;
    }
    free(memory);
    free(s.w);
    return status;
}
