/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - keys, values and score parameters of one head, widened to double once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/job.h"
#include "reference/parallel.h"
#include "reference/sums.h"

/* Keys that a thread takes at a time. */
#define KEYS 256

int ref_keys_create(const struct ref_job *job, struct ref_keys *keys)
{
    const struct attn_problem *problem = job->operands.problem;
    bool projected = (job->op->traits & REF_PROJECTED) && job->bounds;
    bool bilinear = problem->score == ATTN_SCORE_BILINEAR;
    bool additive = problem->score == ATTN_SCORE_ADDITIVE;

    *keys = (struct ref_keys){.sk = problem->sk,
                              .dq = problem->dq,
                              .dk = problem->dk,
                              .dv = problem->dv,
                              .dh = problem->dh,
                              .b = -1,
                              .g = -1,
                              .h = -1};
    struct {
        double **array;
        int64_t rows, width;
        bool wanted;
    } arrays[] = {
        {&keys->k, keys->sk, keys->dk, true},
        {&keys->kt, keys->dk, keys->sk, true},
        {&keys->k_size, keys->sk, 1, job->bounds},
        {&keys->v, keys->sk, keys->dv, true},
        {&keys->k_error, keys->sk, keys->dk, projected},
        {&keys->kt_error, keys->dk, keys->sk, projected},
        {&keys->v_error, keys->sk, keys->dv, projected},
        {&keys->v_most, keys->dv, 1, job->bounds},
        {&keys->m, keys->dq, keys->dk, bilinear},
        {&keys->w_qt, keys->dq, keys->dh, additive},
        {&keys->w_k, keys->dh, keys->dk, additive},
        {&keys->w_v, keys->dh, 1, additive},
        {&keys->hidden, keys->dh, keys->sk, additive},
        {&keys->hidden_error, keys->dh, keys->sk, additive && job->bounds},
        {&keys->reach, keys->sk, 1, (additive || bilinear) && job->bounds},
    };
    for (size_t a = 0; a < sizeof(arrays) / sizeof(*arrays); a++) {
        if (!arrays[a].wanted)
            continue;
        *arrays[a].array = ref_alloc_doubles(arrays[a].rows, arrays[a].width);
        if (!*arrays[a].array) {
            ref_keys_free(keys);
            return ATTN_OUT_OF_MEMORY;
        }
    }
    return ATTN_OK;
}

void ref_keys_free(struct ref_keys *keys)
{
    free(keys->k);
    free(keys->kt);
    free(keys->k_size);
    free(keys->v);
    free(keys->k_error);
    free(keys->kt_error);
    free(keys->v_error);
    free(keys->v_most);
    free(keys->m);
    free(keys->w_qt);
    free(keys->w_k);
    free(keys->w_v);
    free(keys->hidden);
    free(keys->hidden_error);
    free(keys->reach);
    memset(keys, 0, sizeof(*keys));
}

struct load {
    const struct ref_job *job;
    struct ref_keys *keys;
};

static void load_rows(void *context, int64_t begin, int64_t end)
{
    const struct load *load = context;
    const struct ref_keys *keys = load->keys;
    const struct attn_tensor *k = load->job->operands.by_role[ATTN_K];
    const struct attn_tensor *v = load->job->operands.by_role[ATTN_V];

    for (int64_t j = begin; j < end; j++) {
        const int64_t at[] = {keys->b, keys->g, j, 0};
        ref_load_vector(k, at, keys->dk, keys->k + j * keys->dk);
        ref_load_vector(v, at, keys->dv, keys->v + j * keys->dv);
    }
}

static void turn_rows(void *context, int64_t begin, int64_t end)
{
    const struct ref_keys *keys = context;

    ref_transpose(keys->k, keys->sk, keys->dk, begin, end, keys->kt);
    if (keys->k_error)
        ref_transpose(keys->k_error, keys->sk, keys->dk, begin, end, keys->kt_error);
    for (int64_t j = begin; keys->k_size && j < end; j++) {
        double size = 0.0;
        for (int64_t x = j * keys->dk; x < (j + 1) * keys->dk; x++)
            size += fabs(keys->k[x]) + (keys->k_error ? keys->k_error[x] : 0.0);
        keys->k_size[j] = size;
    }
}

void ref_keys_turn(const struct ref_job *job, struct ref_keys *keys)
{
    attn_parallel_for(job->threads, keys->sk, KEYS, turn_rows, keys);
}

/* NaN counts as 0: its column has no bound. */
static void load_most(struct ref_keys *keys)
{
    double *restrict most = keys->v_most;

    memset(most, 0, (size_t)keys->dv * sizeof(*most));
    for (int64_t j = 0; j < keys->sk; j++) {
        const double *restrict v = keys->v + j * keys->dv;
        for (int64_t c = 0; c < keys->dv; c++)
            most[c] = fabs(v[c]) > most[c] ? fabs(v[c]) : most[c];
    }
}

void ref_keys_load(const struct ref_job *job, struct ref_keys *keys, int64_t b, int64_t h)
{
    const struct attn_problem *problem = job->operands.problem;
    int64_t g = h / (problem->hq / problem->hkv);
    struct load load = {job, keys};

    if (keys->b != b || keys->g != g) {
        keys->b = b;
        keys->g = g;
        attn_parallel_for(job->threads, keys->sk, KEYS, load_rows, &load);
        ref_keys_turn(job, keys);
        if (keys->v_most)
            load_most(keys);
    }
    ref_keys_load_score(job, keys, h);
}

/* Rows of |w| (|k| + e): the absolute terms of w k for keys [begin, end), in `size`, and what
 * e, the error of projected keys, alone does to it, in `off`. */
static void sum_sizes(const struct ref_keys *keys, const double *w, int64_t begin, int64_t end,
                      double *size, double *off)
{
    int64_t n = end - begin;

    memset(size, 0, (size_t)n * sizeof(*size));
    memset(off, 0, (size_t)n * sizeof(*off));
    ref_add_magnitudes(w, keys->kt + begin, keys->sk, NULL, keys->dk, n, size);
    if (!keys->kt_error)
        return;
    ref_add_magnitudes(w, keys->kt_error + begin, keys->sk, NULL, keys->dk, n, off);
    for (int64_t j = 0; j < n; j++)
        size[j] += off[j];
}

/* Raises most_j to x_j; NaN, which nothing is known to be above, stays. */
static void raise_to(double *most, const double *x, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        most[j] = x[j] > most[j] || isnan(x[j]) ? x[j] : most[j];
}

/* hidden = W_k k for keys [begin, end); with bounds how far a backend's own may be from it, and the
 * reach of these keys. */
static void load_hidden(void *context, int64_t begin, int64_t end)
{
    const struct load *load = context;
    const struct ref_keys *keys = load->keys;
    const struct ref_arithmetic *a = &load->job->arithmetic;
    double g = load->job->bounds ? ref_growth_rounded(a, (double)(keys->dq + keys->dk + 1)) : 0.0;
    double size[KEYS], off[KEYS];
    int64_t n = end - begin;

    if (load->job->bounds)
        memset(keys->reach + begin, 0, (size_t)n * sizeof(*keys->reach));
    for (int64_t x = 0; x < keys->dh; x++) {
        const double *w = keys->w_k + x * keys->dk;
        double *hidden = keys->hidden + x * keys->sk + begin, flush = 0.0;
        memset(hidden, 0, (size_t)n * sizeof(*hidden));
        ref_add_rows(w, keys->kt + begin, keys->sk, NULL, keys->dk, n, hidden);
        if (!load->job->bounds)
            continue;
        sum_sizes(keys, w, begin, end, size, off);
        raise_to(keys->reach + begin, size, n);
        for (int64_t c = 0; c < keys->dk; c++)
            flush += 2.0 + fabs(w[c]);
        for (int64_t j = 0; j < n; j++)
            keys->hidden_error[x * keys->sk + begin + j] =
                g * size[j] + off[j] + a->omega * (flush + keys->k_size[begin + j]);
    }
}

/* Bilinear: reach of keys [begin, end), the largest row of |M| |k|. */
static void load_reach(void *context, int64_t begin, int64_t end)
{
    const struct load *load = context;
    const struct ref_keys *keys = load->keys;
    double size[KEYS], off[KEYS];

    memset(keys->reach + begin, 0, (size_t)(end - begin) * sizeof(*keys->reach));
    for (int64_t c = 0; c < keys->dq; c++) {
        sum_sizes(keys, keys->m + c * keys->dk, begin, end, size, off);
        raise_to(keys->reach + begin, size, end - begin);
    }
}

void ref_keys_load_score(const struct ref_job *job, struct ref_keys *keys, int64_t h)
{
    const struct attn_tensor *const *t = job->operands.by_role;
    struct load load = {job, keys};

    keys->h = h;
    for (int64_t c = 0; keys->m && c < keys->dq; c++)
        ref_load_vector(t[ATTN_SCORE_M], (const int64_t[]){h, c, 0}, keys->dk,
                        keys->m + c * keys->dk);
    if (keys->m && keys->reach)
        attn_parallel_for(job->threads, keys->sk, KEYS, load_reach, &load);
    if (!keys->hidden)
        return;
    for (int64_t x = 0; x < keys->dh; x++) {
        const int64_t at[] = {h, x, 0};
        ref_load_vector(t[ATTN_SCORE_WK], at, keys->dk, keys->w_k + x * keys->dk);
    }
    for (int64_t c = 0; c < keys->dq; c++)
        for (int64_t x = 0; x < keys->dh; x++)
            keys->w_qt[c * keys->dh + x] = ref_load(t[ATTN_SCORE_WQ], (const int64_t[]){h, x, c});
    ref_load_vector(t[ATTN_SCORE_WV], (const int64_t[]){h, 0}, keys->dh, keys->w_v);
    attn_parallel_for(job->threads, keys->sk, KEYS, load_hidden, &load);
}
