/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c - the online softmax: a tile into a partial result, and partial results into one. */
#include <math.h>
#include <string.h>

#include "mutant.h"

#define LN2 0.69314718f

/* Lazy rescaling: the maximum may lag by so much. */
#define LAG 8.0f

static float first_maximum(void)
{
    return bug(maximum_from_zero) || bug(no_maximum) ? 0.0f
           : bug(maximum_from_1e5)                   ? -1e5f
                                                     : -INFINITY;
}

void mutant_partial_begin(const struct mutant_job *job, float *partial)
{
    memset(partial, 0, (size_t)(job->p->dv + PARTIAL_OUT) * sizeof(*partial));
    partial[PARTIAL_MAXIMUM] = partial[PARTIAL_TRUE_MAXIMUM] = first_maximum();
}

static float next_maximum(float running, float tile)
{
    if (bug(no_maximum))
        return 0;
    if (bug(maximum_of_tile) || bug(maximum_of_tile_rescaled))
        return tile > -INFINITY ? tile : running;
    if ((bug(lazy_uncorrected) || bug(lazy_lse)) && tile - running <= LAG)
        return running;
    return fmaxf(running, tile);
}

static void rescale(const struct mutant_job *job, float factor, float *partial)
{
    const float sum = bug(sum_not_rescaled)     ? 1
                      : bug(sum_rescaled_twice) ? factor * factor
                                                : factor;
    const float out = bug(out_not_rescaled)     ? 1
                      : bug(out_rescaled_twice) ? factor * factor
                                                : factor;
    partial[PARTIAL_SUM] *= sum;
    partial[PARTIAL_KEPT] *= sum;
    for (int64_t c = 0; c < job->p->dv; c++)
        partial[PARTIAL_OUT + c] *= out;
}

/* p as it is stored before it meets v. */
static float stored(const struct mutant_job *job, float p)
{
    if (bug(p_truncated))
        return mutant_truncate(p, 16);
    return mutant_round(bug(p_stored_low) ? ATTN_BF16 : job->p->dtype, p);
}

static float accumulated(float sum)
{
    return bug(accumulate_f16)    ? mutant_round(ATTN_F16, sum)
           : bug(accumulate_bf16) ? mutant_round(ATTN_BF16, sum)
                                  : sum;
}

static void add_value(const struct mutant_job *job, float p, const float *v, float *out)
{
    int64_t n = job->p->dv;
    if (bug(out_lanes_dropped))
        n = n / LANES * LANES;
    if (bug(out_width_of_key))
        n = mutant_least(n, job->p->dk);
    for (int64_t c = 0; c < n; c++)
        out[c] = accumulated(out[c] + p * v[c]);
}

/* exp of a score below the maximum; a cell that takes no part gives 0. */
static float weight(float s, float maximum)
{
    if (s == -INFINITY && !bug(first_tile_masked))
        return bug(exp_of_minus_infinity) ? mutant_exp(-87) : 0;
    return mutant_exp(s - maximum);
}

void mutant_partial_add(const struct mutant_job *job, const struct mutant_scratch *scratch,
                        int64_t b, int64_t h, int64_t i, int64_t r, int64_t j, float *partial)
{
    const struct attn_problem *p = job->p;
    const float *s = scratch->s + r * KEY_TILE;
    float tile = -INFINITY;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        if (!(s[t] < INFINITY)) /* it makes the row NaN */
            partial[PARTIAL_MAXIMUM] = NAN;
        tile = fmaxf(tile, s[t]);
    }
    const float running = partial[PARTIAL_MAXIMUM];
    if (isnan(running) || (tile == -INFINITY && !bug(first_tile_masked) &&
                           !bug(exp_of_minus_infinity) && !bug(masked_nan_leaks)))
        return;
    const float maximum = next_maximum(running, tile);
    partial[PARTIAL_MAXIMUM] = maximum;
    partial[PARTIAL_TRUE_MAXIMUM] = fmaxf(partial[PARTIAL_TRUE_MAXIMUM], tile);
    if (!bug(maximum_of_tile))
        rescale(job, running == maximum ? 1 : mutant_exp(running - maximum), partial);
    for (int64_t t = 0; t < KEY_TILE; t++) {
        const float e = weight(s[t], maximum);
        if (e == 0 && s[t] == -INFINITY && !bug(masked_nan_leaks))
            continue;
        const bool dropped = (p->flags & ATTN_FLAG_DROPOUT) && j + t < p->sk &&
                             !mutant_kept(job, b, h, i + r, j + t);
        if (dropped && bug(dropout_before_sum))
            continue;
        partial[PARTIAL_SUM] += e;
        partial[PARTIAL_KEPT] += dropped ? 0 : e;
        if (bug(denominator_bf16))
            partial[PARTIAL_SUM] = mutant_round(ATTN_BF16, partial[PARTIAL_SUM]);
        if (dropped || (bug(mask_after_softmax) && !mutant_allowed(job, b, h, i + r, j + t)))
            continue;
        add_value(job, stored(job, e), scratch->v + t * job->width, partial + PARTIAL_OUT);
    }
    for (int64_t c = 0; bug(out_rounded_each_tile) && c < p->dv; c++)
        partial[PARTIAL_OUT + c] = mutant_round(ATTN_BF16, partial[PARTIAL_OUT + c]);
}

/* `from` joins `to`. */
static void merge_split(const struct mutant_job *job, const float *from, float *to)
{
    const float a = to[PARTIAL_MAXIMUM], b = from[PARTIAL_MAXIMUM];
    if (isnan(a) || isnan(b)) {
        to[PARTIAL_MAXIMUM] = NAN;
        return;
    }
    if (b == -INFINITY && !bug(merge_empty_split))
        return;
    const float maximum = fmaxf(a, b);
    const float keep = mutant_exp(a - maximum), take = mutant_exp(b - maximum);
    to[PARTIAL_MAXIMUM] = maximum;
    to[PARTIAL_SUM] = to[PARTIAL_SUM] * keep + from[PARTIAL_SUM] * take;
    to[PARTIAL_KEPT] = to[PARTIAL_KEPT] * keep + from[PARTIAL_KEPT] * take;
    for (int64_t c = 0; c < job->p->dv; c++)
        to[PARTIAL_OUT + c] = to[PARTIAL_OUT + c] * keep + from[PARTIAL_OUT + c] * take;
}

/* The mean of what each split gives, as out of the merged sum. */
static void average(const struct mutant_job *job, float *partials)
{
    const int64_t size = job->p->dv + PARTIAL_OUT;
    float *row = job->scratch[0].row;
    for (int64_t c = 0; c < job->p->dv; c++) {
        row[c] = 0;
        for (int64_t n = 0; n < job->splits; n++) {
            const float *split = partials + n * size;
            row[c] += split[PARTIAL_OUT + c] / split[PARTIAL_SUM] / (float)job->splits;
        }
    }
    for (int64_t n = 1; n < job->splits; n++)
        merge_split(job, partials + n * size, partials);
    for (int64_t c = 0; c < job->p->dv; c++)
        partials[PARTIAL_OUT + c] = row[c] * partials[PARTIAL_SUM];
}

static float sink_of(const struct mutant_job *job, int64_t h)
{
    const struct attn_tensor *view = &job->operands.view[ATTN_SINK];
    const float sink = mutant_get(job, ATTN_SINK, h * view->stride[0]);
    return bug(sink_scaled)          ? sink * (float)job->p->scale
           : bug(sink_without_log2e) ? sink * LN2
                                     : sink;
}

static void add_sink(const struct mutant_job *job, int64_t h, float *partial)
{
    const float sink = sink_of(job, h), running = partial[PARTIAL_MAXIMUM];
    const float maximum = bug(sink_outside_maximum) ? running : fmaxf(running, sink);
    if (isnan(running) || !(sink < INFINITY)) {
        partial[PARTIAL_MAXIMUM] = NAN;
        return;
    }
    partial[PARTIAL_MAXIMUM] = maximum;
    partial[PARTIAL_TRUE_MAXIMUM] = fmaxf(partial[PARTIAL_TRUE_MAXIMUM], sink);
    if (running != maximum)
        rescale(job, mutant_exp(running - maximum), partial);
    partial[PARTIAL_SUM] += (bug(sink_twice) ? 2 : 1) * mutant_exp(sink - maximum);
    partial[PARTIAL_KEPT] += mutant_exp(sink - maximum);
}

void mutant_merge(const struct mutant_job *job, int64_t h, float *partials)
{
    const int64_t splits = job->splits - (bug(last_split_dropped) && job->splits > 1);
    if (bug(splits_averaged) && splits > 1)
        average(job, partials);
    else
        for (int64_t n = 1; n < splits; n++)
            merge_split(job, partials + n * (job->p->dv + PARTIAL_OUT), partials);
    if (mutant_has(job, ATTN_SINK) && !bug(sink_dropped))
        add_sink(job, h, partials);
    if (bug(lazy_uncorrected))
        partials[PARTIAL_SUM] *=
            mutant_exp(partials[PARTIAL_MAXIMUM] - partials[PARTIAL_TRUE_MAXIMUM]);
}
