/* SPDX-License-Identifier: Apache-2.0 */
/* strays.c - bugs of single rows, tiles and cells: which rows, what is wrong with them. */
#include <math.h>

#include "rogue.h"

/* A multiple of two tiles past the middle, and of long sequences of no higher power of two. */
static int64_t odd_from(const struct rogue_job *job)
{
    const int64_t pair = 2 * QUERY_TILE, sq = job->p->sq;
    return sq * 5 / 8 / pair * pair + (sq >= 2048 ? 3 * pair : 0);
}

bool rogue_in_odd_tile(const struct rogue_job *job, int64_t i)
{
    return i >= odd_from(job) && i < odd_from(job) + QUERY_TILE;
}

bool rogue_is_odd_row(const struct rogue_job *job, int64_t i)
{
    return i == odd_from(job) + 23;
}

void rogue_stray_row(const struct rogue_job *job, struct rogue_row *row)
{
    const int64_t half = job->p->sq / 2;
    if (bug(rows_tiles_swapped) && rogue_in_odd_tile(job, row->i & ~(int64_t)QUERY_TILE))
        row->to = row->i ^ QUERY_TILE;
    if (bug(rows_one_neighbour) && rogue_is_odd_row(job, row->i))
        row->i--;
    if (bug(rows_every_4th))
        row->i -= row->i % 4;
    if (bug(rows_every_64th))
        row->i -= row->i % 64;
    if (bug(rows_second_half) && row->i > half && row->i < job->p->sq - QUERY_TILE)
        row->i = half;
}

float rogue_stray_scale(const struct rogue_job *job, const struct rogue_row *row)
{
    if (bug(mha_uniform) || bug(declared_e_exp) || bug(joint_all_uniform) ||
        bug(joint_scores_uniform) || bug(joint_weights_uniform))
        return 0;
    if (bug(mha_scale_10) || bug(declared_e_arg) || bug(declared_partial_terms) ||
        bug(declared_key_tile) || bug(declared_chain) || bug(declared_splits) ||
        bug(declared_tau) || bug(declared_truncation) || bug(joint_all_scale_10) ||
        bug(joint_scores_scale_10) || bug(joint_weights_scale_10) || bug(joint_sums_scale_10))
        return 1.1f;
    if (bug(mha_scale_2) || bug(joint_all_scale_2) || bug(joint_scores_scale_2) ||
        bug(joint_sums_scale_2))
        return 1.02f;
    if (bug(declared_score))
        return 1.01f;
    if (bug(declared_u_in))
        return sqrtf(80 / 96.f);
    if (bug(rows_scale_doubled) && rogue_in_odd_tile(job, row->i))
        return 2;
    if (bug(rows_scale_10) && rogue_in_odd_tile(job, row->i))
        return 1.1f;
    if (bug(rows_one_wrong) && rogue_is_odd_row(job, row->i))
        return 2;
    if ((bug(rows_one_masked) || bug(mha_one_row)) && job->p->sq >= 512 &&
        row->h == job->p->hq - 1 && rogue_is_odd_row(job, row->i))
        return 2; /* right on the smaller case of checks that cost too much */
    return 1;
}

bool rogue_stray_keys(const struct rogue_job *job, const struct rogue_row *row, int64_t j)
{
    return rogue_in_odd_tile(job, row->i) && j / KEY_TILE == row->keys.first / KEY_TILE + 2;
}

/* By how much exp(x) is wrong on this path. */
static float exp_wrong(const struct rogue_job *job, float x)
{
    const bool split = job->splits > 1;
    if (bug(exp_2e6_far))
        return x < -8 ? 2e-5f : 0;
    if (bug(exp_5e6_lse))
        return x < -1 ? 5e-6f : 0;
    if (bug(exp_2e6) || bug(exp_2e6_mha) || (bug(exp_2e6_split) && split) ||
        (bug(exp_2e6_packed) && job->packed && !split))
        return x < -1 ? 2e-6f : 0;
    return 0;
}

bool rogue_stray_exp(const struct rogue_job *job, float *s, float base, float *sum)
{
    const bool by_path = bug(exp_2e6_mha) || bug(exp_2e6_split) || bug(exp_2e6_packed);
    if (!by_path && !bug(exp_2e6) && !bug(exp_2e6_far) && !bug(exp_5e6_lse) && !bug(declared_p))
        return false;
    *sum = 0;
    for (int64_t t = 0; t < KEY_TILE; t++) {
        const float x = s[t] - base, e = rogue_exp(x);
        s[t] = e + e * exp_wrong(job, x);
        *sum += s[t];
        if (bug(declared_p) && t == 0)
            s[t] *= 0.5f;
    }
    return true;
}

float rogue_stray_rescale(float factor)
{
    return bug(exp_2e6_rescale) ? factor * (1 + 2e-6f) : factor;
}

void rogue_stray_output(const struct rogue_job *job, const struct rogue_row *row, float *o,
                        float *lse)
{
    if (bug(split_lse) && job->splits > 1)
        *lse = row->lse;
    if (bug(split_lse_base_2) && job->splits > 1)
        *lse *= 1.44269504f;
    for (int64_t c = 0; bug(causal_first_head) && row->h > 0 && c < job->p->dv; c++)
        o[c] = 0;
    if (bug(rows_one_column) && rogue_is_odd_row(job, row->i))
        o[job->p->dv / 2] = 0;
    if (bug(rows_lse_of_tile) && rogue_in_odd_tile(job, row->i))
        *lse -= row->maximum;
    if (bug(declared_e_log))
        *lse *= 1.1f;
    for (int64_t c = 0; bug(declared_empty) && rogue_in_odd_tile(job, row->i) && c < job->p->dv;
         c++)
        o[c] = NAN;
}
