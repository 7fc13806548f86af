/* SPDX-License-Identifier: Apache-2.0 */
/* guesses_keys.c - which keys a row has lost. Prefix sums over the keys of one wrong row allow
 * every lost end, tile and single key to be tried. What fits that row is tried on the others. */
#include <math.h>
#include <stdlib.h>

#include "explain/guesses.h"
#include "explain/mistakes.h"
#include "explain/probe.h"
#include "reference/dtype.h"

/* Limits: sums over keys that are kept; lost ranges that are tried on all rows. */
static const double most_numbers = 0x1p22;
enum { MOST_RANGES = 8, LARGEST_TILE = 512 };

struct row_sums {
    struct attn_sample *sample;
    double *before;  /* [Sk+1, Dv+1]: sum of e_j v_j, and of e_j, over the keys before */
    double constant; /* of the sum: the sink */
    int tried;
};

/* Sums of the first wrong row; false: its scores are not finite, or no memory. */
static bool sum_up(struct row_sums *sums)
{
    const struct attn_sample *s = sums->sample;
    const struct attn_problem *p = &s->instance->problem;
    const int64_t row = s->wrong.index[0], h = row / p->sq % p->hq;
    const int64_t b = row / p->sq / p->hq, g = h / (p->hq / p->hkv), width = p->dv + 1;
    const struct attn_tensor *v = attn_probe_values(p, b, row % p->sq);
    double *weights = calloc((size_t)p->sk, sizeof *weights);
    sums->before = calloc((size_t)((p->sk + 1) * width), sizeof *sums->before);
    const int output = ref_output_of(ref_op_find(p->op), ATTN_WEIGHTS);
    struct ref_result r = {0};
    r.output[output].value = weights;
    const struct ref_request first = {
        .units = {{1, s->wrong.index}}, .fill = s->instance->kind, .threads = 1};
    char why[256];
    bool ok = weights && sums->before && ref_compute(p, &first, &r, why, sizeof why) == ATTN_OK;
    double total = 0;
    for (int64_t j = 0; j < p->sk && ok; j++) {
        double *to = sums->before + (j + 1) * width, *from = to - width;
        const double weight = weights[j];
        for (int64_t c = 0; c < p->dv; c++) {
            const double value = weight == 0
                                     ? 0
                                     : attn_dtype_load(v->dtype, v->data,
                                                       b * v->stride[0] + g * v->stride[1] +
                                                           j * v->stride[2] + c * v->stride[3]);
            to[c] = from[c] + weight * value;
            ok = ok && isfinite(to[c]);
        }
        to[p->dv] = from[p->dv] + weight;
        total += weight;
    }
    sums->constant = 1 - total;
    free(weights);
    return ok;
}

/* Does the first row match the answer without keys [begin, end)? */
static bool fits(const struct row_sums *sums, int64_t begin, int64_t end)
{
    const struct attn_sample *s = sums->sample;
    const struct attn_problem *p = &s->instance->problem;
    const int64_t width = p->dv + 1;
    const double *all = sums->before + p->sk * width;
    const double *from = sums->before + begin * width, *to = sums->before + end * width;
    const double left = sums->constant + all[p->dv] - (to[p->dv] - from[p->dv]);
    bool ok = left > 0 && to[p->dv] > from[p->dv];
    for (int64_t c = 0; c < p->dv && ok; c++) {
        const double value = (all[c] - (to[c] - from[c])) / left;
        /* Fewer keys, larger weights: the bound grows with them. */
        ok = fabs(s->wrong.got[c] - value) <= 2 * s->wrong.bound[c] * fmax(1, 1 / left);
    }
    return ok;
}

static void try_range(struct row_sums *sums, int64_t begin, int64_t end)
{
    const struct attn_problem *p = &sums->sample->instance->problem;
    struct attn_mutation *m;
    if (sums->tried == MOST_RANGES || begin >= end || end - begin == p->sk ||
        !fits(sums, begin, end) || !(m = malloc(sizeof *m)))
        return;
    if (attn_mistake_lose(p, begin, end, m)) {
        sums->tried++;
        attn_guess_mutation(sums->sample, m);
        attn_mutation_free(m);
    }
    free(m);
}

void attn_guess_lost_keys(struct attn_sample *s)
{
    const struct attn_problem *p = &s->instance->problem;
    struct row_sums sums = {.sample = s};
    if (s->role != ATTN_OUT || !ref_op_is(p->op, REF_QKV) || p->flags & ATTN_FLAG_DROPOUT ||
        (double)p->sk * (double)(p->dv + 1) > most_numbers)
        return;
    if (sum_up(&sums)) {
        for (int64_t j = 1; j < p->sk; j++) {
            try_range(&sums, j, p->sk);
            try_range(&sums, 0, j);
        }
        for (int64_t size = 1; size <= LARGEST_TILE && size < p->sk; size *= 2)
            for (int64_t j = 0; j < p->sk; j += size)
                try_range(&sums, j, j + size < p->sk ? j + size : p->sk);
    }
    free(sums.before);
}
