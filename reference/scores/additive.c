/* SPDX-License-Identifier: Apache-2.0 */
/* additive.c - additive scores, w_v^T tanh(W_q q + W_k k), and how far a backend's may be from
 * them. One tanh a hidden unit and key serves both: nothing else costs as much. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/parallel.h"
#include "reference/scores/products.h"
#include "reference/sums.h"
#include "reference/tanh.h"

/* Keys whose sums stay in the first-level cache while all hidden units pass. */
#define KEYS 512

/* Parameters of a query head, and what of them depends on keys alone. */
struct own {
    double *w_qt;         /* [Dq, Dh], transposed */
    double *w_k;          /* [Dh, Dk] */
    double *w_v;          /* [Dh] */
    double *hidden;       /* [Dh, Sk], W_k k */
    double *hidden_error; /* the same, with bounds: how far a backend's own may be from it */
};

static void destroy(struct ref_keys *keys)
{
    struct own *own = keys->own;

    if (own) {
        free(own->w_qt);
        free(own->w_k);
        free(own->w_v);
        free(own->hidden);
        free(own->hidden_error);
    }
    free(own);
    keys->own = NULL;
}

static int create(const struct ref_job *job, struct ref_keys *keys)
{
    struct own *own = keys->own = calloc(1, sizeof(*own));

    if (!own)
        return -1;
    own->w_qt = ref_alloc_doubles(keys->dq, keys->dh);
    own->w_k = ref_alloc_doubles(keys->dh, keys->dk);
    own->w_v = ref_alloc_doubles(keys->dh, 1);
    own->hidden = ref_alloc_doubles(keys->dh, keys->sk);
    if (job->bounds) {
        own->hidden_error = ref_alloc_doubles(keys->dh, keys->sk);
        keys->reach = ref_alloc_doubles(keys->sk, 1);
    }
    return own->w_qt && own->w_k && own->w_v && own->hidden &&
                   (!job->bounds || (own->hidden_error && keys->reach))
               ? 0
               : -1;
}

struct loading {
    const struct ref_job *job;
    struct ref_keys *keys;
};

/* hidden = W_k k for keys [begin, end); with bounds how far a backend's own may be from it, and the
 * reach of these keys. */
static void load_hidden(void *context, int64_t begin, int64_t end)
{
    const struct loading *loading = context;
    const struct ref_keys *keys = loading->keys;
    const struct own *own = keys->own;
    const struct ref_arithmetic *a = &loading->job->arithmetic;
    double g =
        loading->job->bounds ? ref_growth_rounded(a, (double)(keys->dq + keys->dk + 1)) : 0.0;
    double size[REF_LOAD_KEYS], off[REF_LOAD_KEYS];
    int64_t n = end - begin;

    if (loading->job->bounds)
        memset(keys->reach + begin, 0, (size_t)n * sizeof(*keys->reach));
    for (int64_t x = 0; x < keys->dh; x++) {
        const double *w = own->w_k + x * keys->dk;
        double *hidden = own->hidden + x * keys->sk + begin, flush = 0.0;
        memset(hidden, 0, (size_t)n * sizeof(*hidden));
        ref_add_rows(w, keys->kt + begin, keys->sk, NULL, keys->dk, n, hidden);
        if (!loading->job->bounds)
            continue;
        ref_score_sizes(keys, w, begin, end, size, off);
        ref_score_raise(keys->reach + begin, size, n);
        for (int64_t c = 0; c < keys->dk; c++)
            flush += 2.0 + fabs(w[c]);
        for (int64_t j = 0; j < n; j++)
            own->hidden_error[x * keys->sk + begin + j] =
                g * size[j] + off[j] + a->omega * (flush + keys->k_size[begin + j]);
    }
}

static void load(const struct ref_job *job, struct ref_keys *keys, int64_t h)
{
    const struct attn_tensor *const *t = job->operands.by_role;
    struct own *own = keys->own;
    struct loading loading = {job, keys};

    for (int64_t x = 0; x < keys->dh; x++) {
        const int64_t at[] = {h, x, 0};
        ref_load_vector(t[ATTN_SCORE_WK], at, keys->dk, own->w_k + x * keys->dk);
    }
    for (int64_t c = 0; c < keys->dq; c++)
        for (int64_t x = 0; x < keys->dh; x++)
            own->w_qt[c * keys->dh + x] = ref_load(t[ATTN_SCORE_WQ], (const int64_t[]){h, x, c});
    ref_load_vector(t[ATTN_SCORE_WV], (const int64_t[]){h, 0}, keys->dh, own->w_v);
    attn_parallel_for(job->threads, keys->sk, REF_LOAD_KEYS, load_hidden, &loading);
}

/* What the hidden units have of the query: z = W_q q, and with bounds what a backend makes of it,
 * and the sum of its absolute terms. */
ATTN_CLONES("avx2", "avx512f")
static void load_units(const struct ref_block *block, const double *q, const double *q_error,
                       struct ref_scratch *scratch)
{
    const struct ref_keys *keys = block->keys;
    const struct own *own = keys->own;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const bool bounds = block->job->bounds;
    const double g = bounds ? ref_growth_rounded(a, (double)(keys->dq + keys->dk + 1)) : 0.0;
    double *z = scratch->hidden[0], *error = scratch->hidden[1], *size = scratch->hidden[2];

    for (int64_t x = 0; x < keys->dh; x++)
        z[x] = error[x] = size[x] = 0.0;
    ref_add_rows(q, own->w_qt, keys->dh, NULL, keys->dq, keys->dh, z);
    for (int64_t c = 0; bounds && c < keys->dq; c++) {
        const double *w = own->w_qt + c * keys->dh;
        const double e = q_error ? q_error[c] : 0.0, abs_q = fabs(q[c]) + e;
        for (int64_t x = 0; x < keys->dh; x++) {
            double abs_w = fabs(w[x]);
            size[x] += abs_w * abs_q;
            error[x] += g * abs_w * abs_q + abs_w * e + a->omega * (2.0 + abs_w + abs_q);
        }
    }
}

/* One hidden unit more in the scores of n keys, its part of the query being z; t: its tanh. */
ATTN_CLONES("avx2", "avx512f")
static void add_unit(double w, double z, const double *hidden, int64_t n, double *restrict s,
                     double *restrict t)
{
    for (int64_t j = 0; j < n; j++) {
        t[j] = ref_tanh_of(z + hidden[j]);
        s[j] += w * t[j];
    }
}

/* What the errors of one hidden unit are made of, beside its key's. */
struct unit {
    double e_tanh;
    double w;     /* |w_v| of it */
    double g;     /* growth of the sum over units */
    double error; /* of its part of the query */
};

/* The same for ds and magnitude, from the errors of the unit's two parts. */
ATTN_CLONES("avx2", "avx512f")
static void add_unit_error(const struct unit *unit, const double *t, const double *key_error,
                           int64_t n, double *restrict ds, double *restrict magnitude)
{
    const double e_tanh = unit->e_tanh, w = unit->w, g = unit->g, query_error = unit->error;

    for (int64_t j = 0; j < n; j++) {
        double e = ref_tanh_spread(t[j], query_error + key_error[j]);
        e += e_tanh * (fabs(t[j]) + e);
        ds[j] += w * e + g * w * (fabs(t[j]) + e);
        magnitude[j] += w * (fabs(t[j]) + e);
    }
}

static void scores(const struct ref_block *block, int64_t i, const double *q, const double *q_error,
                   int64_t begin, int64_t end, struct ref_scratch *scratch)
{
    const struct ref_keys *keys = block->keys;
    const struct own *own = keys->own;
    const struct ref_arithmetic *a = &block->job->arithmetic;
    const bool bounds = block->job->bounds;
    const double g = bounds ? ref_growth_rounded(a, (double)(keys->dh + 3)) : 0.0;
    const double *z = scratch->hidden[0], *error = scratch->hidden[1], *size = scratch->hidden[2];
    double *s = scratch->score[0], *ds = scratch->ds, *magnitude = scratch->magnitude, flush = 0.0;
    double t[KEYS];

    (void)i;
    load_units(block, q, q_error, scratch);
    for (int64_t j = begin; j < end; j++)
        s[j] = ds[j] = magnitude[j] = 0.0;
    for (int64_t from = begin; from < end; from += KEYS)
        for (int64_t x = 0; x < keys->dh; x++) {
            const int64_t n = end - from < KEYS ? end - from : KEYS, at = x * keys->sk + from;
            add_unit(own->w_v[x], z[x], own->hidden + at, n, s + from, t);
            if (bounds)
                add_unit_error(&(struct unit){a->e_tanh, fabs(own->w_v[x]), g, error[x]}, t,
                               own->hidden_error + at, n, ds + from, magnitude + from);
        }
    scratch->inner = 0.0;
    for (int64_t x = 0; x < keys->dh; x++) {
        flush += 3.0 + fabs(own->w_v[x]);
        if (!(size[x] <= scratch->inner)) /* NaN stays: what is not known to be small is not */
            scratch->inner = size[x];
    }
    for (int64_t j = begin; j < end; j++)
        scratch->flush[j] = flush;
}

/* Sums over hidden units of |w|, |w| |W_q| and |w| |W_k|. */
static void measure(const struct ref_operands *operands, int64_t h, double part[REF_SCORE_PARTS])
{
    const struct attn_problem *p = operands->problem;
    const struct attn_tensor *const *t = operands->by_role;

    for (int64_t unit = 0; unit < p->dh; unit++) {
        const int64_t at[ATTN_MAX_RANK] = {h, unit};
        const double w = fabs(ref_load(t[ATTN_SCORE_WV], at));
        part[0] += w;
        part[1] += w * ref_score_length(t[ATTN_SCORE_WQ], at, p->dq);
        part[2] += w * ref_score_length(t[ATTN_SCORE_WK], at, p->dk);
    }
}

static void norm(const struct attn_problem *p, const struct ref_arithmetic *x, const double *part,
                 double q, double k, struct ref_score_norm *s)
{
    const double dq = (double)p->dq, dk = (double)p->dk, dh = (double)p->dh;
    const double q1 = sqrt(dq) * q, k1 = sqrt(dk) * k; /* sums of magnitudes */
    const double inner = ref_growth_rounded(x, dq + dk + 1);
    const double lost =
        (2 * (dq + dk) + q1 + k1) * part[0] + sqrt(dq) * part[1] + sqrt(dk) * part[2];
    double e = inner * (part[1] * q + part[2] * k) + x->omega * lost;

    s->most = part[0];
    e += x->e_tanh * (s->most + e);
    s->ds = e + ref_growth_rounded(x, dh + 3) * (s->most + e);
    s->lost = 3 * dh + s->most;
    s->size = e + 2 * s->most;
}

/* A tanh, and what the bound makes of it, are some 30 multiply-adds. */
static double cost(const struct attn_problem *problem)
{
    return (double)problem->sk * (double)problem->dh * 30.0;
}

static const uint32_t params[] = {ATTN_SCORE_WQ, ATTN_SCORE_WK, ATTN_SCORE_WV, 0};

const struct ref_score ref_score_additive = {
    .score = ATTN_SCORE_ADDITIVE,
    .name = "additive",
    .meaning = "w_v^T tanh(W_q q + W_k k)",
    .free_widths = true,
    .hidden = true,
    .params = params,
    .rule = "W_q, W_k, w_v and the additive score go together",
    .cost = cost,
    .create = create,
    .load = load,
    .destroy = destroy,
    .scores = scores,
    .measure = measure,
    .norm = norm,
};
