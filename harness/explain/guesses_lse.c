/* SPDX-License-Identifier: Apache-2.0 */
/* guesses_lse.c - an lse moved by a constant, without one of its parts, or in the wrong place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "explain/guesses.h"
#include "reference/philox.h"

/* Proposes the trial, whose bound is that of the right answer. */
static void propose(struct attn_sample *s, const char *what)
{
    attn_sample_propose(s, attn_sample_share(s, s->wrong.count), false,
                        "are, within the bound, the right answer%s", what);
}

static void guess_shift(struct attn_sample *s)
{
    const struct attn_sample_rows *w = &s->wrong;
    const int64_t n = w->count * s->width;
    double shift = 0;
    for (int64_t k = 0; k < n; k++)
        shift += (w->got[k] - w->want[k]) / (double)n;
    if (!isfinite(shift))
        return;
    for (int64_t k = 0; k < n; k++)
        w->trial[k] = w->want[k] + shift;
    attn_sample_propose(s, attn_sample_share(s, w->count), false,
                        "are, within the bound, the right answer %+.6g%s", shift,
                        fabs(fabs(shift) - 0.69314718056) < 1e-3 ? " (ln 2)" : "");
}

/* The place of element k of the sample. */
struct cell {
    int64_t b, h, i;
};

static struct cell cell_of(const struct attn_sample *s, int64_t k)
{
    const struct attn_units *u = &s->units;
    const int64_t unit = s->wrong.index[k / s->width] * u->followers + k % s->width;
    return (struct cell){.b = ref_unit_index(u->output, &u->shape, unit, 'b'),
                         .h = ref_unit_index(u->output, &u->shape, unit, 'h'),
                         .i = ref_unit_index(u->output, &u->shape, unit, 'i')};
}

static bool kept(const struct attn_problem *p, const struct attn_tensor *keep, struct cell at,
                 int64_t j)
{
    const uint64_t index = (uint64_t)(((at.b * p->hq + at.h) * p->sq + at.i) * p->sk + j);
    if (!keep)
        return attn_dropout_keep(p->dropout_seed, index, p->dropout_p);
    return ((const uint8_t *)keep->data)[at.b * keep->stride[0] + at.h * keep->stride[1] +
                                         at.i * keep->stride[2] + j * keep->stride[3]] != 0;
}

/* The parts of a row's lse, from its final scores. */
struct parts {
    double most;     /* the largest score */
    double kept_lse; /* of the keys that dropout keeps; of all keys without dropout */
};

static struct parts parts_of(const struct attn_sample *s, const double *scores, int64_t k)
{
    const struct attn_problem *p = &s->instance->problem;
    const struct attn_tensor *keep = attn_tensor_find(p, ATTN_KEEP);
    const struct cell at = cell_of(s, k);
    struct parts parts = {.most = -INFINITY};
    double sum = 0;
    for (int64_t j = 0; j < p->sk; j++)
        if (ref_allowed(p, at.b, at.h, at.i, j))
            parts.most = fmax(parts.most, scores[j]);
    for (int64_t j = 0; j < p->sk; j++)
        if (ref_allowed(p, at.b, at.h, at.i, j) &&
            (!(p->flags & ATTN_FLAG_DROPOUT) || kept(p, keep, at, j)))
            sum += exp(scores[j] - parts.most);
    parts.kept_lse = parts.most + log(sum);
    return parts;
}

/* Needs the final scores of the sample's rows, [elements, Sk]. */
static void guess_parts(struct attn_sample *s, const double *scores)
{
    const struct attn_problem *p = &s->instance->problem;
    static const char *const what[] = {
        " without the maximum of the scores", " with the maximum of scores before the scale",
        " of the keys that dropout keeps", " of the keys that dropout keeps, over 1 - dropout"};
    for (int kind = 0; kind < 4; kind++) {
        if (kind >= 2 && !(p->flags & ATTN_FLAG_DROPOUT))
            break;
        for (int64_t k = 0; k < s->wrong.count * s->width; k++) {
            const struct parts parts = parts_of(s, scores + k * p->sk, k);
            s->wrong.trial[k] = kind == 0 ? s->wrong.want[k] - parts.most
                                : kind == 1
                                    ? s->wrong.want[k] + parts.most * (1 / p->scale - 1)
                                    : parts.kept_lse - (kind == 3 ? log(1 - p->dropout_p) : 0);
        }
        propose(s, what[kind]);
    }
}

/* Row [b,h,i] holds what a kernel writes there that takes lse for [B,Sq,Hq]. */
static void guess_slots(struct attn_sample *s)
{
    const struct attn_problem *p = &s->instance->problem;
    if (s->rows->index || !ref_op_is(p->op, REF_QKV))
        return;
    for (int64_t k = 0; k < s->wrong.count; k++) {
        const int64_t row = s->wrong.index[k], b = row / (p->hq * p->sq);
        const int64_t slot = row % (p->hq * p->sq), i = slot / p->hq, h = slot % p->hq;
        s->wrong.trial[k] = s->ref->output[s->output].value[(b * p->hq + h) * p->sq + i];
    }
    propose(s, " of other rows: lse taken as [B,Sq,Hq]");
}

void attn_guess_lse(struct attn_sample *s)
{
    const struct attn_problem *p = &s->instance->problem;
    const struct attn_sample_rows *w = &s->wrong;
    if (s->role != ATTN_LSE)
        return;
    memcpy(w->trial_bound, w->bound, (size_t)(w->count * s->width) * sizeof *w->bound);
    guess_shift(s);
    guess_slots(s);
    double *scores =
        p->sk > 0 ? calloc((size_t)(w->count * s->width * p->sk), sizeof *scores) : NULL;
    struct ref_result r = {.scores = {[2] = scores}};
    const struct ref_request request = {
        .units = {{w->count, w->index}}, .fill = s->instance->kind, .threads = s->request->threads};
    char why[256];
    if (scores && ref_compute(p, &request, &r, why, sizeof why) == ATTN_OK)
        guess_parts(s, scores);
    free(scores);
}
