/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - keys, values and what the score has of one head, widened to double once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/job.h"
#include "reference/parallel.h"
#include "reference/score.h"
#include "reference/sums.h"

/* Keys that a thread takes at a time. */
#define KEYS 256

/* Are no two rows of x or of a weight the same by their strides? Equal numbers round alike. */
static bool rows_differ(const struct ref_operands *operands)
{
    static const uint32_t roles[] = {ATTN_X_Q, ATTN_X_K, ATTN_X_V, ATTN_W_Q,
                                     ATTN_W_K, ATTN_W_V, ATTN_W_O};

    for (size_t r = 0; r < sizeof(roles) / sizeof(*roles); r++) {
        const struct attn_tensor *t = operands->by_role[roles[r]];
        for (uint32_t axis = t && t->rank == 3 ? 1 : 0; t && axis < t->rank; axis++)
            if (t->stride[axis] == 0 && t->shape[axis] > 1)
                return false;
    }
    return true;
}

int ref_keys_create(const struct ref_job *job, struct ref_keys *keys)
{
    const struct attn_problem *problem = job->operands.problem;
    bool projected = (job->op->traits & REF_PROJECTED) && job->bounds;
    const struct ref_score *score = ref_score_find(problem->score);
    const bool squares = projected && job->arithmetic.squares && rows_differ(&job->operands);
    const bool columns = squares && (score->traits & REF_SCORE_COLUMNS);

    *keys = (struct ref_keys){.score = score,
                              .k_role = ATTN_K,
                              .v_role = ATTN_V,
                              .sk = problem->sk,
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
        {&keys->k_spread_t, keys->dk, keys->sk, columns},
        {&keys->k_most_t, keys->dk, keys->sk, columns},
        {&keys->v_spread, keys->sk, keys->dv, squares},
        {&keys->v_most, keys->dv, 1, job->bounds},
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
    if (score->create && score->create(job, keys) != 0) {
        ref_keys_free(keys);
        return ATTN_OUT_OF_MEMORY;
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
    free(keys->k_spread_t);
    free(keys->k_most_t);
    free(keys->v_spread);
    free(keys->v_most);
    free(keys->reach);
    if (keys->score && keys->score->destroy)
        keys->score->destroy(keys);
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
    const struct attn_tensor *k = load->job->operands.by_role[keys->k_role];
    const struct attn_tensor *v = load->job->operands.by_role[keys->v_role];

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

void ref_keys_load_score(const struct ref_job *job, struct ref_keys *keys, int64_t h)
{
    keys->h = h;
    if (keys->score->load)
        keys->score->load(job, keys, h);
}
