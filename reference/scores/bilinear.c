/* SPDX-License-Identifier: Apache-2.0 */
/* bilinear.c - q^T M k. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/parallel.h"
#include "reference/scores/products.h"
#include "reference/sums.h"

/* The matrix of a query head. */
struct own {
    double *m; /* [Dq, Dk] */
};

static const double *matrix_of(const struct ref_keys *keys)
{
    return ((const struct own *)keys->own)->m;
}

static void destroy(struct ref_keys *keys)
{
    struct own *own = keys->own;

    if (own)
        free(own->m);
    free(own);
    keys->own = NULL;
}

static int create(const struct ref_job *job, struct ref_keys *keys)
{
    struct own *own = keys->own = calloc(1, sizeof(*own));

    if (own)
        own->m = ref_alloc_doubles(keys->dq, keys->dk);
    if (own && job->bounds)
        keys->reach = ref_alloc_doubles(keys->sk, 1);
    return own && own->m && (!job->bounds || keys->reach) ? 0 : -1;
}

/* The reach of keys [begin, end): the largest row of |M| |k|. */
static void load_reach(void *context, int64_t begin, int64_t end)
{
    const struct ref_keys *keys = context;
    double size[REF_LOAD_KEYS], off[REF_LOAD_KEYS];

    memset(keys->reach + begin, 0, (size_t)(end - begin) * sizeof(*keys->reach));
    for (int64_t c = 0; c < keys->dq; c++) {
        ref_score_sizes(keys, matrix_of(keys) + c * keys->dk, begin, end, size, off);
        ref_score_raise(keys->reach + begin, size, end - begin);
    }
}

static void load(const struct ref_job *job, struct ref_keys *keys, int64_t h)
{
    const struct attn_tensor *m = job->operands.by_role[ATTN_SCORE_M];

    for (int64_t c = 0; c < keys->dq; c++)
        ref_load_vector(m, (const int64_t[]){h, c, 0}, keys->dk,
                        ((struct own *)keys->own)->m + c * keys->dk);
    if (keys->reach)
        attn_parallel_for(job->threads, keys->sk, REF_LOAD_KEYS, load_reach, keys);
}

/* t = q^T M, then a dot product */
static void scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    const struct ref_keys *keys = block->keys;
    double *t = scratch->query[0];

    (void)i, (void)q_error;
    memset(t, 0, (size_t)keys->dk * sizeof(*t));
    ref_add_rows(q, matrix_of(keys), keys->dk, NULL, keys->dq, keys->dk, t);
    ref_score_dot(keys, t, begin, end, scratch->score[0]);
}

/* As a dot product of |q|^T |M| and k, with dq more operations a term. */
static void errors(const struct ref_score_span *x)
{
    const struct ref_keys *keys = x->keys;
    const double *matrix = matrix_of(keys);
    struct ref_scratch *s = x->scratch;
    double *abs_t = s->query[0], *t_error = s->query[1], *flush = s->query[2];

    for (int64_t d = 0; d < keys->dk; d++) {
        abs_t[d] = t_error[d] = 0.0;
        flush[d] = 1.0;
    }
    for (int64_t c = 0; c < keys->dq; c++) {
        double qe = ref_score_error_of(x->q_error, c), q = fabs(x->q[c]);
        for (int64_t d = 0; d < keys->dk; d++) {
            double m = fabs(matrix[c * keys->dk + d]);
            abs_t[d] += q * m;
            t_error[d] += qe * m;
            flush[d] += 2.0 + q + qe + m;
        }
    }
    s->inner = 0.0;
    for (int64_t d = 0; d < keys->dk; d++)
        s->inner = ref_larger(s->inner, abs_t[d] + t_error[d]);
    memset(s->flush + x->begin, 0, (size_t)(x->end - x->begin) * sizeof(double));
    ref_score_columns(x, flush, keys->kt, s->flush);
    if (keys->kt_error)
        ref_score_columns(x, flush, keys->kt_error, s->flush);
    ref_score_dot_errors(x, abs_t, t_error, (double)(keys->dq + keys->dk + 3));
}

/* part[0]: |M| (Frobenius). */
static void measure(const struct ref_operands *operands, int64_t h, double part[REF_SCORE_PARTS])
{
    const struct attn_problem *p = operands->problem;

    for (int64_t c = 0; c < p->dq; c++)
        part[0] = hypot(part[0], ref_score_length(operands->by_role[ATTN_SCORE_M],
                                                  (int64_t[ATTN_MAX_RANK]){h, c}, p->dk));
}

static void norm(const struct attn_problem *p, const struct ref_arithmetic *x, const double *part,
                 double q, double k, struct ref_score_norm *s)
{
    const double dq = (double)p->dq, dk = (double)p->dk;
    const double q1 = sqrt(dq) * q, k1 = sqrt(dk) * k; /* sums of magnitudes */

    s->most = q * part[0] * k;
    s->lost = 2 * dk + sqrt(dk) * q * part[0] + (1 + 2 * dq + q1) * k1 + sqrt(dq) * part[0] * k;
    ref_score_norm_partial(x, ref_growth_rounded(x, dq + dk + 3), fmax(dq, dk), s);
    s->size = 2 * s->most;
}

static double cost(const struct attn_problem *problem)
{
    return 2.0 * (double)problem->dq * (double)problem->dk;
}

static const uint32_t params[] = {ATTN_SCORE_M, 0};

const struct ref_score ref_score_bilinear = {
    .score = ATTN_SCORE_BILINEAR,
    .name = "bilinear",
    .meaning = "q^T M k",
    .traits = REF_SCORE_PRODUCT | REF_SCORE_PARTIAL,
    .free_widths = true,
    .params = params,
    .rule = "a matrix M and the bilinear score go together",
    .cost = cost,
    .create = create,
    .load = load,
    .destroy = destroy,
    .scores = scores,
    .errors = errors,
    .measure = measure,
    .norm = norm,
};
