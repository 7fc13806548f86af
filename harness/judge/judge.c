/* SPDX-License-Identifier: Apache-2.0 */
/* judge.c - class first, then error against bound; nothing that is NaN can pass. */
#include "judge/judge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/rows.h"
#include "reference/dtype.h"

enum {
    MAX_REFERENCES = 8,  /* numerics kept at a time; more than backends that usually run */
    MAX_RATIOS = 1 << 16 /* ratios kept for the median; an even sample of all */
};

/* A pass below this proves that nothing was computed independently: rounding alone shows more. */
static const double least_ratio = 1e-6;
static const int64_t least_keys = 8;
/* ... unless every true value is a number of the output type, but for this part of an ulp: the
 * value of a key that takes all the weight, the residual that pruned heads leave, an underflow. */
static const double exact_ulp = 1e-3;

struct answer {
    bool used;
    struct attn_numerics numerics;
    struct ref_result result;
};

struct attn_judge {
    const struct attn_instance *instance;
    int threads;
    struct ref_rows rows;
    int64_t heads; /* H of ref_result: 1, or Hq for mha */
    struct answer answers[MAX_REFERENCES];
    int next;
    const struct ref_result *last; /* from which the last verdict was reached; NULL: none was */
};

int attn_judge_create(const struct attn_instance *instance, double budget, int threads,
                      struct attn_judge **out, char *why, size_t size)
{
    struct attn_judge *judge = calloc(1, sizeof *judge);
    if (!judge || attn_rows_choose(&instance->problem, budget, &judge->rows)) {
        free(judge);
        snprintf(why, size, "no memory to choose rows");
        return -1;
    }
    judge->instance = instance;
    judge->threads = threads;
    judge->heads = instance->problem.op == ATTN_OP_MHA ? instance->problem.hq : 1;
    *out = judge;
    return 0;
}

static void result_free(struct ref_result *r)
{
    double *all[] = {r->out,           r->out_bound, r->lse,       r->lse_bound, r->weights,
                     r->weights_bound, r->scores[0], r->scores[1], r->scores[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(r->allowed);
    memset(r, 0, sizeof *r);
}

void attn_judge_free(struct attn_judge *judge)
{
    if (!judge)
        return;
    for (int a = 0; a < MAX_REFERENCES; a++)
        result_free(&judge->answers[a].result);
    free((void *)(uintptr_t)judge->rows.index);
    free(judge);
}

static double *doubles(int64_t a, int64_t b)
{
    size_t n;
    if (__builtin_mul_overflow((size_t)a, (size_t)b, &n) || n > SIZE_MAX / sizeof(double))
        return NULL;
    return calloc(n ? n : 1, sizeof(double));
}

/* Room for what is asked of one reference; bounds only where there are numerics. */
static int result_allocate(const struct attn_judge *judge, bool lse, bool weights, bool bounds,
                           struct ref_result *r)
{
    const struct attn_problem *p = &judge->instance->problem;
    int64_t n = judge->rows.count, width = ref_row_width(p), cells = judge->heads * p->sk;
    r->out = doubles(n, width);
    r->allowed = calloc((size_t)(n * judge->heads) + 1, sizeof(int64_t));
    bool ok = r->out && r->allowed;
    ok = ok && (!bounds || (r->out_bound = doubles(n, width)));
    ok = ok && (!lse || (r->lse = doubles(n, judge->heads)));
    ok = ok && (!lse || !bounds || (r->lse_bound = doubles(n, judge->heads)));
    ok = ok && (!weights || (r->weights = doubles(n, cells)));
    ok = ok && (!weights || !bounds || (r->weights_bound = doubles(n, cells)));
    return ok ? 0 : -1;
}

/* The reference for these numerics, computed at most once. */
static const struct ref_result *reference_for(struct attn_judge *judge,
                                              const struct attn_numerics *numerics, char *why,
                                              size_t size)
{
    struct attn_numerics key = *numerics;
    key.source = NULL;
    for (int a = 0; a < MAX_REFERENCES; a++)
        /* Equal numerics in other bits (-0) cost a second computation, no more.
         * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
        if (judge->answers[a].used && !memcmp(&judge->answers[a].numerics, &key, sizeof key))
            return &judge->answers[a].result;

    struct answer *slot = &judge->answers[judge->next];
    judge->next = (judge->next + 1) % MAX_REFERENCES;
    result_free(&slot->result);
    slot->used = false;
    const struct attn_problem *p = &judge->instance->problem;
    bool lse = attn_tensor_find(p, ATTN_LSE), weights = attn_tensor_find(p, ATTN_WEIGHTS);
    if (result_allocate(judge, lse, weights, true, &slot->result)) {
        snprintf(why, size, "no memory for the reference of %lld rows",
                 (long long)judge->rows.count);
        result_free(&slot->result);
        return NULL;
    }
    if (ref_compute(p, &judge->rows, &key, judge->instance->kind, judge->threads, &slot->result,
                    why, size) != ATTN_OK) {
        result_free(&slot->result);
        return NULL;
    }
    slot->numerics = key;
    slot->used = true;
    return &slot->result;
}

/* Running figures over the elements of a verdict. */
struct tally {
    struct attn_judgement *verdict;
    double *ratios;
    int64_t seen, kept, stride;
    double sum_squares;
    int64_t out_elements;
    int64_t zeros;   /* elements of out that are 0 where the reference is not */
    int64_t inexact; /* elements of its reference that must be rounded to be stored */
    double least, most, ref_least, ref_most; /* ranges of out and of its reference */
    int64_t failures;
    int64_t unknown; /* elements of which nothing is known; not among those seen */
};

/* What is wrong with one element, as a ratio: > 1 or infinite fails. `threshold` is where the type
 * overflows. */
static double element_ratio(double got, double want, double bound, double threshold)
{
    if (isnan(want))
        return isnan(got) ? 0 : INFINITY;
    if (isinf(want)) /* an infinite bound: its key's weight may underflow, and 0 * Inf is NaN */
        return got == want || (isnan(got) && isinf(bound)) ? 0 : INFINITY;
    if (isnan(got))
        return INFINITY;
    if (isinf(got))
        return fabs(want) + bound >= threshold && signbit(got) == signbit(want) ? 0 : INFINITY;
    if (fabs(want) - bound >= threshold)
        return INFINITY;
    double error = fabs(got - want);
    if (error == 0)
        return 0;
    return bound > 0 ? error / bound : INFINITY;
}

static void describe_failure(struct tally *t, const char *where, double got, double want,
                             double bound)
{
    struct attn_judgement *v = t->verdict;
    snprintf(v->reason, sizeof v->reason,
             "%s is %.9g, the reference says %.9g, allowed error %.3g%s", where, got, want, bound,
             isnan(got) && !isnan(want) ? " (NaN: wrong, or never written)" : "");
}

/* Takes one element into account; `where` is only made when the element is the worst so far. */
static bool tally_element(struct tally *t, double got, double want, double bound, double threshold,
                          const char *name, const int64_t at[4], const char *axes)
{
    struct attn_judgement *v = t->verdict;
    if (isinf(bound) && !isinf(want)) {
        t->unknown++;
        return true;
    }
    double ratio = element_ratio(got, want, bound, threshold);
    if (t->seen++ % t->stride == 0 && t->kept < MAX_RATIOS)
        t->ratios[t->kept++] = ratio;
    bool bad = !(ratio <= 1);
    if (ratio > v->max_ratio || (t->seen == 1)) {
        char *w = v->worst;
        size_t left = sizeof v->worst, n = (size_t)snprintf(w, left, "%s[", name);
        for (int a = 0; axes[a] && n < left; a++)
            n += (size_t)snprintf(w + n, left - n, "%s%c%lld", a ? " " : "", axes[a],
                                  (long long)at[a]);
        if (n < left)
            snprintf(w + n, left - n, "]");
        if (bad && (t->failures == 0 || ratio > v->max_ratio))
            describe_failure(t, w, got, want, bound);
        v->max_ratio = ratio;
    }
    t->failures += bad;
    return !bad;
}

static double overflow_threshold(uint32_t dtype)
{
    double largest = attn_dtype_max(dtype);
    return dtype == ATTN_F64 ? INFINITY : largest + attn_dtype_ulp(dtype, largest) / 2;
}

/* Splits a row index of the problem into b, h, i; h is -1 for mha. */
static void row_position(const struct attn_problem *p, int64_t row, int64_t at[3])
{
    int64_t i = row % p->sq, g = row / p->sq;
    bool mha = p->op == ATTN_OP_MHA;
    at[0] = mha ? g : g / p->hq;
    at[1] = mha ? -1 : g % p->hq;
    at[2] = i;
}

/* A value as the type can hold it. */
static double rounded(uint32_t dtype, double value)
{
    double stored;
    attn_dtype_store(dtype, &stored, 0, value);
    return attn_dtype_load(dtype, &stored, 0);
}

static int64_t row_number(const struct ref_rows *rows, int64_t r)
{
    return rows->index ? rows->index[r] : r;
}

static bool tally_out(const struct attn_judge *judge, const struct ref_result *ref, struct tally *t)
{
    const struct attn_problem *p = &judge->instance->problem;
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    int64_t width = ref_row_width(p);
    double threshold = overflow_threshold(out->dtype);
    bool mha = p->op == ATTN_OP_MHA, ok = true;
    for (int64_t r = 0; r < judge->rows.count; r++) {
        int64_t at[3];
        row_position(p, row_number(&judge->rows, r), at);
        int64_t base =
            mha ? at[0] * out->stride[0] + at[2] * out->stride[1]
                : at[0] * out->stride[0] + at[1] * out->stride[1] + at[2] * out->stride[2];
        int64_t step = out->stride[mha ? 2 : 3];
        for (int64_t c = 0; c < width; c++) {
            double got = attn_dtype_load(out->dtype, out->data, base + c * step);
            double want = ref->out[r * width + c];
            int64_t where[4] = {at[0], mha ? at[2] : at[1], mha ? c : at[2], c};
            ok &= tally_element(t, got, want, ref->out_bound[r * width + c], threshold, "out",
                                where, mha ? "bic" : "bhic");
            if (isfinite(got) && isfinite(want) && isfinite(ref->out_bound[r * width + c])) {
                double error = fabs(got - want);
                t->sum_squares += error * error;
                t->verdict->max_abs = fmax(t->verdict->max_abs, error);
                double best = rounded(out->dtype, want);
                t->inexact +=
                    fabs(best - want) > exact_ulp * attn_dtype_ulp(out->dtype, fabs(want));
                t->zeros += got == 0 && best != 0;
                t->least = fmin(t->least, got), t->most = fmax(t->most, got);
                t->ref_least = fmin(t->ref_least, best), t->ref_most = fmax(t->ref_most, best);
                if (want != 0)
                    t->verdict->max_rel = fmax(t->verdict->max_rel, error / fabs(want));
            }
            t->out_elements++;
        }
    }
    return ok;
}

/* lse [B,Hq,Sq] and weights [B,Hq,Sq,Sk]: `inner` elements a row and head. */
static bool tally_side(const struct attn_judge *judge, const struct attn_tensor *tensor,
                       const double *want, const double *bound, int64_t inner, const char *name,
                       struct tally *t)
{
    const struct attn_problem *p = &judge->instance->problem;
    double threshold = overflow_threshold(tensor->dtype);
    bool ok = true;
    for (int64_t r = 0; r < judge->rows.count; r++) {
        int64_t at[3];
        row_position(p, row_number(&judge->rows, r), at);
        for (int64_t h = 0; h < judge->heads; h++) {
            int64_t head = at[1] < 0 ? h : at[1];
            int64_t base =
                at[0] * tensor->stride[0] + head * tensor->stride[1] + at[2] * tensor->stride[2];
            for (int64_t j = 0; j < inner; j++) {
                int64_t k = (r * judge->heads + h) * inner + j;
                int64_t step = tensor->rank == 4 ? tensor->stride[3] : 0;
                double got = attn_dtype_load(tensor->dtype, tensor->data, base + j * step);
                int64_t where[4] = {at[0], head, at[2], j};
                ok &= tally_element(t, got, want[k], bound[k], threshold, name, where,
                                    tensor->rank == 4 ? "bhij" : "bhi");
            }
        }
    }
    return ok;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Is a pass of these rows worth its name: rounding must show, and where the reference varies the
 * output must vary. */
static bool is_trivial(const struct attn_judge *judge, const struct ref_result *ref,
                       const struct attn_judgement *v, const struct tally *t, char *reason,
                       size_t size)
{
    const struct attn_instance *in = judge->instance;
    if (in->kind != REF_FILL_GENERIC || in->problem.dtype == ATTN_F64)
        return false;
    int64_t rich = 0;
    for (int64_t r = 0; r < judge->rows.count * judge->heads; r++)
        rich += ref->allowed[r] >= least_keys;
    if (rich == 0)
        return false;
    if (t->zeros > t->out_elements / 2) {
        snprintf(reason, size, "%lld of %lld elements of out are 0 where the reference is not",
                 (long long)t->zeros, (long long)t->out_elements);
        return true;
    }
    if (t->least == t->most && t->ref_least < t->ref_most) {
        snprintf(reason, size, "out is constant where the reference is not");
        return true;
    }
    if (v->max_ratio >= least_ratio || t->inexact == 0)
        return false;
    snprintf(reason, size,
             "largest error is %.1e of its bound: closer than rounding allows an independent "
             "computation to be",
             v->max_ratio);
    return true;
}

void attn_judge_outputs(struct attn_judge *judge, const struct attn_numerics *numerics,
                        bool approximate, struct attn_judgement *v)
{
    const struct attn_problem *p = &judge->instance->problem;
    memset(v, 0, sizeof *v);
    judge->last = NULL;
    v->status = ATTN_ERROR;
    v->rows_checked = judge->rows.count;
    v->rows_total = ref_row_count(p);
    v->out_ok = v->lse_ok = v->weights_ok = true;
    const struct ref_result *ref = reference_for(judge, numerics, v->reason, sizeof v->reason);
    if (!ref)
        return;

    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    const struct attn_tensor *weights = attn_tensor_find(p, ATTN_WEIGHTS);
    v->has_lse = lse != NULL;
    v->has_weights = weights != NULL;
    int64_t elements = judge->rows.count * (ref_row_width(p) + (lse ? judge->heads : 0) +
                                            (weights ? judge->heads * p->sk : 0));
    struct tally t = {.verdict = v,
                      .stride = elements / MAX_RATIOS + 1,
                      .least = INFINITY,
                      .most = -INFINITY,
                      .ref_least = INFINITY,
                      .ref_most = -INFINITY};
    t.ratios = malloc(MAX_RATIOS * sizeof *t.ratios);
    if (!t.ratios) {
        snprintf(v->reason, sizeof v->reason, "no memory to judge");
        return;
    }
    v->out_ok = tally_out(judge, ref, &t);
    if (lse)
        v->lse_ok = tally_side(judge, lse, ref->lse, ref->lse_bound, 1, "lse", &t);
    if (weights)
        v->weights_ok =
            tally_side(judge, weights, ref->weights, ref->weights_bound, p->sk, "weights", &t);
    qsort(t.ratios, (size_t)t.kept, sizeof *t.ratios, by_value);
    v->median_ratio = t.kept ? t.ratios[t.kept / 2] : 0;
    v->rms = t.out_elements ? sqrt(t.sum_squares / (double)t.out_elements) : 0;
    free(t.ratios);

    if (approximate) {
        v->status = ATTN_APPROX;
        snprintf(v->reason, sizeof v->reason, "approximate: measured, not judged");
    } else if (t.failures) {
        v->status = ATTN_FAIL;
        size_t n = strlen(v->reason);
        snprintf(v->reason + n, sizeof v->reason - n, "; %lld of %lld elements wrong",
                 (long long)t.failures, (long long)t.seen);
    } else if (t.unknown) {
        v->status = ATTN_MISTRUSTED;
        snprintf(v->reason, sizeof v->reason,
                 "%lld of %lld elements may be beyond the range of the types that are declared, "
                 "where nothing is known",
                 (long long)t.unknown, (long long)(t.unknown + t.seen));
    } else {
        v->status = is_trivial(judge, ref, v, &t, v->reason, sizeof v->reason) ? ATTN_MISTRUSTED
                                                                               : ATTN_PASS;
    }
    v->unknown = t.unknown;
    judge->last = ref;
}

bool attn_judge_evidence(const struct attn_judge *judge, struct attn_evidence *evidence)
{
    *evidence = (struct attn_evidence){.instance = judge->instance,
                                       .rows = &judge->rows,
                                       .ref = judge->last,
                                       .threads = judge->threads};
    return judge->last != NULL;
}

/* Agreement of computed a and expected b, as packs define it. NaN agrees with NaN alone: a score of
 * NaN makes its row NaN, in a third party's answer as well. */
static bool agrees(double a, double b, double rtol, double atol)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= atol + rtol * fabs(b);
}

static bool agree_all(const struct attn_expected *e, const double *got, const double *want,
                      int64_t n, const char *name, struct attn_judgement *v)
{
    bool ok = true;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs(got[i] - want[i]);
        if (isfinite(error)) {
            v->max_abs = fmax(v->max_abs, error);
            if (error > 0)
                v->max_ratio = fmax(v->max_ratio, error / (e->atol + e->rtol * fabs(want[i])));
        }
        if (ok && !agrees(got[i], want[i], e->rtol, e->atol)) {
            ok = false;
            snprintf(v->worst, sizeof v->worst, "%s[%lld]", name, (long long)i);
            snprintf(v->reason, sizeof v->reason,
                     "the reference gives %.12g for %s[%lld], the pack expects %.12g (rtol %g, "
                     "atol %g)",
                     got[i], name, (long long)i, want[i], e->rtol, e->atol);
        }
    }
    return ok;
}

/* Expected weights, lse and scores are [B,Hq,Sq,...]; the reference's rows of mha are
 * [B,Sq,Hq,...]. Copies them into the pack's order. */
static double *head_major(const struct attn_problem *p, const double *rows, int64_t inner)
{
    double *out = doubles(p->b * p->hq * p->sq, inner);
    if (!out)
        return NULL;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t h = 0; h < p->hq; h++)
            for (int64_t i = 0; i < p->sq; i++)
                memcpy(out + ((b * p->hq + h) * p->sq + i) * inner,
                       rows + ((b * p->sq + i) * p->hq + h) * inner, (size_t)inner * sizeof *out);
    return out;
}

static bool agree_heads(const struct attn_judge *judge, const double *got, const double *want,
                        int64_t inner, const char *name, struct attn_judgement *v)
{
    const struct attn_problem *p = &judge->instance->problem;
    double *ordered = p->op == ATTN_OP_MHA ? head_major(p, got, inner) : NULL;
    if (p->op == ATTN_OP_MHA && !ordered) {
        snprintf(v->reason, sizeof v->reason, "no memory to hold %s against the pack", name);
        return false;
    }
    bool ok = agree_all(&judge->instance->expected, ordered ? ordered : got, want,
                        p->b * p->hq * p->sq * inner, name, v);
    free(ordered);
    return ok;
}

void attn_judge_reference(struct attn_judge *judge, struct attn_judgement *v)
{
    const struct attn_instance *in = judge->instance;
    const struct attn_problem *p = &in->problem;
    const struct attn_expected *e = &in->expected;
    memset(v, 0, sizeof *v);
    v->status = ATTN_SKIP;
    if (!e->out && !e->lse && !e->weights && !e->scores) {
        snprintf(v->reason, sizeof v->reason, "the pack carries no expected answers");
        return;
    }
    struct ref_rows kept = judge->rows;
    judge->rows = (struct ref_rows){.count = ref_row_count(p)};
    v->rows_checked = v->rows_total = judge->rows.count;
    v->out_ok = v->lse_ok = v->weights_ok = true;
    v->has_lse = e->lse != NULL;
    v->has_weights = e->weights != NULL;

    struct ref_result r = {0};
    v->status = ATTN_ERROR;
    double *scores = e->scores ? doubles(judge->rows.count * judge->heads, p->sk) : NULL;
    r.scores[e->scores_stage] = scores;
    if (result_allocate(judge, e->lse, e->weights, false, &r) || (e->scores && !scores)) {
        snprintf(v->reason, sizeof v->reason, "no memory for the reference of a whole pack");
        goto out;
    }
    if (ref_compute(p, &judge->rows, NULL, in->kind, judge->threads, &r, v->reason,
                    sizeof v->reason) != ATTN_OK)
        goto out;
    v->out_ok =
        !e->out || agree_all(e, r.out, e->out, judge->rows.count * ref_row_width(p), "out", v);
    v->lse_ok = !e->lse || agree_heads(judge, r.lse, e->lse, 1, "lse", v);
    v->weights_ok = !e->weights || agree_heads(judge, r.weights, e->weights, p->sk, "weights", v);
    bool scores_ok = !e->scores || agree_heads(judge, scores, e->scores, p->sk, "scores", v);
    v->status = v->out_ok && v->lse_ok && v->weights_ok && scores_ok ? ATTN_PASS : ATTN_FAIL;
out:
    result_free(&r);
    judge->rows = kept;
}
