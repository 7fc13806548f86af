/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - the bucket of each token in each round, and how certain it is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/lsh/lsh.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Products of one token in one round: [x; -x]. */
struct products {
    const double *x; /* [half] */
    int64_t half;
    double wrong; /* how far a backend's product may be off */
};

static double product(const struct products *p, int64_t t)
{
    return t < p->half ? p->x[t] : -p->x[t - p->half];
}

/* The bucket: the lowest of the largest. */
static int64_t largest(const struct products *p)
{
    int64_t best = 0;

    for (int64_t t = 1; t < 2 * p->half; t++)
        if (product(p, t) > product(p, best))
            best = t;
    return best;
}

/* May a backend have taken bucket t? */
static bool is_right(const struct products *p, int64_t best, double t)
{
    if (t == (double)best)
        return true;
    return p->wrong > 0 && t >= 0 && t < (double)(2 * p->half) && t == floor(t) &&
           product(p, (int64_t)t) >= product(p, best) - 2 * p->wrong;
}

int ref_lsh_hash_create(struct ref_lsh_hash *hash, const struct ref_operands *operands,
                        const struct ref_arithmetic *arithmetic, int threads)
{
    const struct attn_problem *p = operands->problem;

    *hash = (struct ref_lsh_hash){.operands = operands,
                                  .arithmetic = arithmetic,
                                  .steps = p->sq,
                                  .width = p->dq,
                                  .rounds = p->rounds,
                                  .half = p->buckets / 2,
                                  .chunk = p->chunk > 0 ? p->chunk : p->sq,
                                  .threads = threads};
    hash->q = ref_alloc_doubles(hash->steps, hash->width);
    hash->rotations = ref_alloc_doubles(hash->width, hash->rounds * hash->half);
    hash->x = ref_alloc_doubles(hash->steps, 2 * hash->rounds * hash->half);
    hash->bucket = calloc((size_t)hash->rounds, (size_t)hash->steps * sizeof(*hash->bucket));
    return hash->q && hash->rotations && hash->x && hash->bucket ? ATTN_OK : ATTN_OUT_OF_MEMORY;
}

void ref_lsh_hash_free(struct ref_lsh_hash *hash)
{
    free(hash->q);
    free(hash->rotations);
    free(hash->x);
    free(hash->bucket);
    memset(hash, 0, sizeof(*hash));
}

static void load(struct ref_lsh_hash *hash)
{
    const struct attn_tensor *rotations = hash->operands->by_role[ATTN_ROTATIONS];
    const int64_t row = hash->rounds * hash->half;

    for (int64_t i = 0; i < hash->steps; i++)
        ref_load_vector(hash->operands->by_role[ATTN_Q], (const int64_t[]){hash->b, hash->h, i, 0},
                        hash->width, hash->q + i * hash->width);
    for (int64_t c = 0; c < hash->width; c++)
        for (int64_t r = 0; r < hash->rounds; r++)
            ref_load_vector(rotations, (const int64_t[]){hash->h, c, r, 0}, hash->half,
                            hash->rotations + c * row + r * hash->half);
}

/* What a backend's products of one token and round may be wrong at most. Products of zeros are
 * exact. */
static double wrong_of(const struct ref_lsh_hash *hash, const double *x, const double *size)
{
    const struct ref_arithmetic *a = hash->arithmetic;
    const double terms = (double)hash->width;
    double most = 0, high = 0;

    for (int64_t t = 0; t < hash->half; t++) {
        most = ref_larger(most, size[t]);
        high = ref_larger(high, fabs(x[t]));
    }
    if (!a || most == 0)
        return 0;
    const double e = ref_growth_partial(a, ref_growth_rounded(a, terms + 1)) * most +
                     (2 * terms + 1) * a->omega + terms * a->partial_omega;
    return a->copies * (e + a->u_proj * (high + e) + a->eta_proj);
}

static struct products products_of(const struct ref_lsh_hash *hash, int64_t i, int64_t r)
{
    const int64_t row = hash->rounds * hash->half;
    const double *x = hash->x + i * 2 * row + r * hash->half;

    return (struct products){x, hash->half, wrong_of(hash, x, x + row)};
}

static void hash_tokens(void *context, int64_t begin, int64_t end)
{
    const struct ref_lsh_hash *hash = context;
    const struct attn_tensor *out = hash->operands->by_role[ATTN_BUCKETS_OUT];
    const int64_t row = hash->rounds * hash->half;

    for (int64_t i = begin; i < end; i++) {
        double *x = hash->x + i * 2 * row;
        memset(x, 0, (size_t)(2 * row) * sizeof(*x));
        ref_add_rows(hash->q + i * hash->width, hash->rotations, row, NULL, hash->width, row, x);
        ref_add_magnitudes(hash->q + i * hash->width, hash->rotations, row, NULL, hash->width, row,
                           x + row);
        for (int64_t r = 0; r < hash->rounds; r++) {
            const struct products p = products_of(hash, i, r);
            const int64_t best = largest(&p), at[] = {hash->b, hash->h, r, i};
            const bool stored = hash->stored && out && out->data;
            const double theirs = stored ? ref_load(out, at) : (double)best;
            hash->bucket[r * hash->steps + i] =
                (int32_t)(is_right(&p, best, theirs) ? theirs : (double)best);
        }
    }
}

void ref_lsh_hash_head(struct ref_lsh_hash *hash, int64_t b, int64_t h)
{
    const struct attn_tensor *given = hash->operands->by_role[ATTN_BUCKETS];

    hash->b = b;
    hash->h = h;
    load(hash);
    if (!given) {
        attn_parallel_for(hash->threads, hash->steps, 16, hash_tokens, hash);
        return;
    }
    for (int64_t r = 0; r < hash->rounds; r++)
        for (int64_t i = 0; i < hash->steps; i++)
            hash->bucket[r * hash->steps + i] =
                (int32_t)ref_load(given, (const int64_t[]){b, h, r, i});
}

double ref_lsh_least_margin(const struct ref_lsh_hash *hash)
{
    double least = INFINITY;

    for (int64_t i = 0; i < hash->steps; i++)
        for (int64_t r = 0; r < hash->rounds; r++) {
            const struct products p = products_of(hash, i, r);
            const int64_t best = largest(&p);
            for (int64_t t = 0; p.wrong > 0 && t < 2 * p.half; t++)
                if (t != best)
                    least = fmin(least, (product(&p, best) - product(&p, t)) / (2 * p.wrong));
        }
    return least;
}

int ref_lsh_derive(const struct attn_problem *problem, const char *fill, int threads)
{
    (void)fill;
    const struct attn_tensor *given = attn_tensor_find(problem, ATTN_BUCKETS);
    struct ref_lsh_hash hash;
    struct ref_operands operands;

    if (!given)
        return ATTN_OK;
    ref_operands_init(&operands, problem);
    operands.by_role[ATTN_BUCKETS] = NULL; /* they are what is computed */
    const int status = ref_lsh_hash_create(&hash, &operands, NULL, threads);
    for (int64_t head = 0; status == ATTN_OK && head < problem->b * problem->hq; head++) {
        const int64_t b = head / problem->hq, h = head % problem->hq;
        ref_lsh_hash_head(&hash, b, h);
        for (int64_t n = 0; n < hash.rounds * hash.steps; n++) {
            const int64_t at[] = {b, h, n / hash.steps, n % hash.steps};
            int64_t offset = 0;
            for (uint32_t axis = 0; axis < given->rank; axis++)
                offset += at[axis] * given->stride[axis];
            attn_dtype_store(given->dtype, given->data, offset, hash.bucket[n]);
        }
    }
    ref_lsh_hash_free(&hash);
    return status;
}

bool ref_lsh_ambiguous(const struct attn_problem *problem, char *why, size_t size)
{
    static const struct attn_numerics f32 = {
        .struct_size = sizeof(struct attn_numerics), .acc_type = ATTN_F32, .proj_type = ATTN_F32};
    struct ref_arithmetic arithmetic;
    struct ref_lsh_hash hash;
    struct ref_operands operands;
    double least = INFINITY;

    if (attn_tensor_find(problem, ATTN_BUCKETS) || attn_tensor_find(problem, ATTN_BUCKETS_OUT))
        return false;
    ref_operands_init(&operands, problem);
    ref_arithmetic_init(&arithmetic, problem, &f32, REF_FILL_STRUCTURED, 1);
    if (ref_lsh_hash_create(&hash, &operands, &arithmetic, 1) != ATTN_OK)
        least = 0;
    for (int64_t head = 0; least > 1 && head < problem->b * problem->hq; head++) {
        ref_lsh_hash_head(&hash, head / problem->hq, head % problem->hq);
        least = fmin(least, ref_lsh_least_margin(&hash));
    }
    ref_lsh_hash_free(&hash);
    if (!(least > 1))
        snprintf(why, size,
                 "ambiguous hash: f32 may put a token of these inputs into another bucket, and "
                 "hashes=none does not show which");
    return !(least > 1);
}
