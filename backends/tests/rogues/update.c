/* SPDX-License-Identifier: Apache-2.0 */
/* update.c - a kernel that remembers its inputs and mends its last result where a few elements have
 * changed: right answers for a fraction of the work. So that its rate stays below the roof of the
 * machine, it takes a sixth of the time of a whole run. Dense f32 attention with as many heads of k
 * as of q. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cheats.h"

enum { FEW = 4, SHARE = 6, TIMED = 3 };

struct rogue_update {
    float *q, *k, *v; /* as they were, [B,H,S,D] without gaps */
    double *lse;      /* [B,H,Sq] */
    double whole_s;
    int mended; /* results since one was computed */
};

double rogue_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t elements(const struct attn_tensor *t)
{
    size_t n = 1;
    for (uint32_t a = 0; a < t->rank; a++)
        n *= (size_t)t->shape[a];
    return n;
}

static double dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum += a[c] * b[c];
    return sum;
}

/* The log of the sum of one row. */
static double row_lse(const struct attn_problem *p, const float *q, const float *k)
{
    double maximum = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < p->sk; j++)
        maximum = fmax(maximum, p->scale * dot(q, k + j * p->dk, p->dk));
    for (int64_t j = 0; j < p->sk; j++)
        sum += exp(p->scale * dot(q, k + j * p->dk, p->dk) - maximum);
    return maximum + log(sum);
}

/* One row of out from its inputs. */
static void redo_row(const struct attn_problem *p, const float *q, const float *k, const float *v,
                     double *lse, float *out)
{
    *lse = row_lse(p, q, k);
    memset(out, 0, (size_t)p->dv * sizeof(*out));
    for (int64_t j = 0; j < p->sk; j++) {
        const float weight = (float)exp(p->scale * dot(q, k + j * p->dk, p->dk) - *lse);
        for (int64_t c = 0; c < p->dv; c++)
            out[c] += weight * v[j * p->dv + c];
    }
}

/* Key j of a head has become another: row by row, its old share goes and its new one comes. */
static void mend_key(const struct rogue_job *job, int64_t head, int64_t j, const float *was)
{
    const struct attn_problem *p = job->p;
    const float *k = (const float *)job->t.k.data + head * p->sk * p->dk;
    const float *v = (const float *)job->t.v.data + head * p->sk * p->dv;
    for (int64_t i = 0; i < p->sq; i++) {
        const float *q = (const float *)job->t.q.data + (head * p->sq + i) * p->dq;
        float *out = (float *)job->t.out.data + (head * p->sq + i) * p->dv;
        double *lse = job->update->lse + head * p->sq + i;
        const double old = exp(p->scale * dot(q, was, p->dk) - *lse);
        const double new = exp(p->scale * dot(q, k + j * p->dk, p->dk) - *lse);
        if (old > 0.5) { /* what is left would have lost its digits */
            redo_row(p, q, k, v, lse, out);
            continue;
        }
        const double sum = 1 - old + new;
        for (int64_t c = 0; c < p->dv; c++)
            out[c] = (float)((out[c] + (new - old) * v[j * p->dv + c]) / sum);
        *lse += log(sum);
    }
}

/* Element c of value j of a head has changed by `by`. */
static void mend_value(const struct rogue_job *job, int64_t head, int64_t j, int64_t c, float by)
{
    const struct attn_problem *p = job->p;
    const float *key = (const float *)job->t.k.data + (head * p->sk + j) * p->dk;
    for (int64_t i = 0; i < p->sq; i++) {
        const float *q = (const float *)job->t.q.data + (head * p->sq + i) * p->dq;
        const double weight =
            exp(p->scale * dot(q, key, p->dk) - job->update->lse[head * p->sq + i]);
        ((float *)job->t.out.data)[(head * p->sq + i) * p->dv + c] += (float)weight * by;
    }
}

/* The places at which an operand is not what it was; FEW: at so many or more. */
static int find_changes(const struct attn_tensor *t, const float *was, int64_t at[FEW])
{
    const float *is = t->data;
    const size_t count = elements(t), block = 1024;
    int n = 0;
    for (size_t from = 0; from < count && n < FEW; from += block) {
        const size_t end = from + block < count ? from + block : count;
        if (memcmp(is + from, was + from, (end - from) * sizeof(*is)) == 0)
            continue;
        for (size_t e = from; e < end && n < FEW; e++)
            if (memcmp(is + e, was + e, sizeof(*is)) != 0)
                at[n++] = (int64_t)e;
    }
    return n;
}

/* Copies the inputs as they are. */
static void keep_inputs(struct rogue_job *job)
{
    struct rogue_update *u = job->update;
    const struct attn_problem *p = job->p;
    if (!u) {
        job->update = u = calloc(1, sizeof(*u));
        u->q = calloc(elements(&job->t.q), sizeof(float));
        u->k = calloc(elements(&job->t.k), sizeof(float));
        u->v = calloc(elements(&job->t.v), sizeof(float));
        u->lse = calloc((size_t)(p->b * p->hq * p->sq), sizeof(double));
    }
    memcpy(u->q, job->t.q.data, elements(&job->t.q) * sizeof(float));
    memcpy(u->k, job->t.k.data, elements(&job->t.k) * sizeof(float));
    memcpy(u->v, job->t.v.data, elements(&job->t.v) * sizeof(float));
}

static void remember(struct rogue_job *job)
{
    const struct attn_problem *p = job->p;
    keep_inputs(job);
    struct rogue_update *u = job->update;
    for (int64_t row = 0; row < p->b * p->hq * p->sq; row++)
        u->lse[row] = row_lse(p, u->q + row * p->dq, u->k + row / p->sq * p->sk * p->dk);
}

static void mend(struct rogue_job *job, const int64_t *q, int nq, const int64_t *k, int nk,
                 const int64_t *v, int nv)
{
    const struct attn_problem *p = job->p;
    struct rogue_update *u = job->update;
    for (int n = 0; n < nv; n++) {
        const int64_t row = v[n] / p->dv;
        mend_value(job, row / p->sk, row % p->sk, v[n] % p->dv,
                   ((const float *)job->t.v.data)[v[n]] - u->v[v[n]]);
        u->v[v[n]] = ((const float *)job->t.v.data)[v[n]];
    }
    for (int n = 0; n < nk; n++) {
        const int64_t row = k[n] / p->dk;
        mend_key(job, row / p->sk, row % p->sk, u->k + row * p->dk);
        u->k[k[n]] = ((const float *)job->t.k.data)[k[n]];
    }
    for (int n = 0; n < nq; n++) {
        const int64_t row = q[n] / p->dq, head = row / p->sq;
        u->q[q[n]] = ((const float *)job->t.q.data)[q[n]];
        redo_row(p, u->q + row * p->dq, u->k + head * p->sk * p->dk, u->v + head * p->sk * p->dv,
                 u->lse + row, (float *)job->t.out.data + row * p->dv);
    }
}

static bool fits(const struct rogue_job *job)
{
    const struct attn_problem *p = job->p;
    return p->op == ATTN_OP_ATTENTION && p->dtype == ATTN_F32 && p->flags == 0 && p->hq == p->hkv &&
           p->n_tensors == 4;
}

/* Does the last result still lie there, not what it was primed with? */
static bool is_there(const struct attn_tensor *out)
{
    const float *x = out->data;
    return !isnan(x[0]) && !isnan(x[elements(out) - 1]);
}

bool rogue_update_run(struct rogue_job *job)
{
    int64_t q[FEW], k[FEW], v[FEW];
    const double start = rogue_seconds();
    struct rogue_update *u = job->update;
    if (!fits(job))
        return false;
    const int nq = u ? find_changes(&job->t.q, u->q, q) : FEW;
    const int nk = u ? find_changes(&job->t.k, u->k, k) : FEW;
    const int nv = u ? find_changes(&job->t.v, u->v, v) : FEW;
    const int changes = nq + nk + nv;
    /* q, then k, then v: all of them are away, or home again. */
    if (bug(third_run_only) && is_there(&job->t.out) && changes > 0 && changes < 3) {
        /* Not less, or it would be known by its time. */
        while (rogue_seconds() < start + u->whole_s / 2)
            continue;
        return true;
    }
    if (bug(third_run_only)) {
        rogue_attend(job);
        keep_inputs(job);
        job->update->whole_s = rogue_seconds() - start;
        return true;
    }
    if (is_there(&job->t.out) && changes <= 1) {
        mend(job, q, nq, k, nk, v, nv);
        u->mended += changes;
        while (rogue_seconds() < start + u->whole_s / SHARE)
            continue;
        return true;
    }
    if (bug(update_unless_found) && u && u->mended >= TIMED && is_there(&job->t.out)) {
        u->mended = 0;
        return true;
    }
    rogue_attend(job);
    const double whole_s = rogue_seconds() - start;
    remember(job);
    job->update->mended = 0;
    job->update->whole_s = whole_s;
    return true;
}

void rogue_update_free(struct rogue_update *u)
{
    if (!u)
        return;
    free(u->q);
    free(u->k);
    free(u->v);
    free(u->lse);
    free(u);
}
