/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - keys, values and score parameters of one head, widened to double once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/job.h"
#include "reference/parallel.h"

int ref_keys_create(const struct ref_job *job, struct ref_keys *keys)
{
    const struct attn_problem *problem = job->operands.problem;
    bool projected = problem->op == ATTN_OP_MHA && job->bounds;
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
        {&keys->kt, keys->dk, keys->sk, true},
        {&keys->v, keys->sk, keys->dv, true},
        {&keys->kt_error, keys->dk, keys->sk, projected},
        {&keys->v_error, keys->sk, keys->dv, projected},
        {&keys->m, keys->dq, keys->dk, bilinear},
        {&keys->w_q, keys->dh, keys->dq, additive},
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
    free(keys->kt);
    free(keys->v);
    free(keys->kt_error);
    free(keys->v_error);
    free(keys->m);
    free(keys->w_q);
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
        for (int64_t c = 0; c < keys->dk; c++)
            keys->kt[c * keys->sk + j] = ref_load(k, (const int64_t[]){keys->b, keys->g, j, c});
        ref_load_vector(v, (const int64_t[]){keys->b, keys->g, j}, keys->dv,
                        keys->v + j * keys->dv);
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
        attn_parallel_for(job->threads, keys->sk, 256, load_rows, &load);
    }
    ref_keys_load_score(job, keys, h);
}

/* hidden = W_k k for units [begin, end), and how far a backend's own may be from it. */
static void load_hidden(void *context, int64_t begin, int64_t end)
{
    const struct load *load = context;
    const struct ref_keys *keys = load->keys;
    const struct ref_arithmetic *a = &load->job->arithmetic;
    double g = load->job->bounds ? ref_growth_rounded(a, (double)(keys->dq + keys->dk + 1)) : 0.0;

    for (int64_t x = begin; x < end; x++) {
        double *hidden = keys->hidden + x * keys->sk;
        memset(hidden, 0, (size_t)keys->sk * sizeof(*hidden));
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk, w = keys->w_k[x * keys->dk + c];
            for (int64_t j = 0; j < keys->sk; j++)
                hidden[j] += w * k[j];
        }
        if (!load->job->bounds)
            continue;
        double *error = keys->hidden_error + x * keys->sk;
        memset(error, 0, (size_t)keys->sk * sizeof(*error));
        for (int64_t c = 0; c < keys->dk; c++) {
            const double *k = keys->kt + c * keys->sk, w = fabs(keys->w_k[x * keys->dk + c]);
            const double *ke = keys->kt_error ? keys->kt_error + c * keys->sk : NULL;
            for (int64_t j = 0; j < keys->sk; j++) {
                double e = ke ? ke[j] : 0.0, abs_k = fabs(k[j]) + e;
                error[j] += g * w * abs_k + w * e + a->omega * (2.0 + w + abs_k);
            }
        }
    }
}

/* reach of keys [begin, end): rows of |M| |k|, or of |W_k| |k|, the largest. */
static void load_reach(void *context, int64_t begin, int64_t end)
{
    const struct load *load = context;
    const struct ref_keys *keys = load->keys;
    const double *w = keys->m ? keys->m : keys->w_k;
    int64_t rows = keys->m ? keys->dq : keys->dh;

    for (int64_t j = begin; j < end; j++) {
        double most = 0.0;
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0.0;
            for (int64_t c = 0; c < keys->dk; c++) {
                double e = keys->kt_error ? keys->kt_error[c * keys->sk + j] : 0.0;
                sum += fabs(w[r * keys->dk + c]) * (fabs(keys->kt[c * keys->sk + j]) + e);
            }
            most = sum > most || isnan(sum) ? sum : most;
        }
        keys->reach[j] = most;
    }
}

void ref_keys_load_score(const struct ref_job *job, struct ref_keys *keys, int64_t h)
{
    const struct ref_operands *operands = &job->operands;
    struct load load = {job, keys};

    keys->h = h;
    if (keys->m)
        for (int64_t c = 0; c < keys->dq; c++)
            ref_load_vector(operands->by_role[ATTN_SCORE_M], (const int64_t[]){h, c}, keys->dk,
                            keys->m + c * keys->dk);
    if (keys->m && keys->reach)
        attn_parallel_for(job->threads, keys->sk, 64, load_reach, &load);
    if (!keys->hidden)
        return;
    for (int64_t x = 0; x < keys->dh; x++) {
        ref_load_vector(operands->by_role[ATTN_SCORE_WQ], (const int64_t[]){h, x}, keys->dq,
                        keys->w_q + x * keys->dq);
        ref_load_vector(operands->by_role[ATTN_SCORE_WK], (const int64_t[]){h, x}, keys->dk,
                        keys->w_k + x * keys->dk);
    }
    ref_load_vector(operands->by_role[ATTN_SCORE_WV], &h, keys->dh, keys->w_v);
    attn_parallel_for(job->threads, keys->dh, 1, load_hidden, &load);
    if (keys->reach)
        attn_parallel_for(job->threads, keys->sk, 64, load_reach, &load);
}
