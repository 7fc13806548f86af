/* SPDX-License-Identifier: Apache-2.0 */
/* grade.c - the bounds of the best arithmetic on a few rows, and what they say of an answer. */
#include "judge/grade.h"

#include <math.h>
#include <stdlib.h>

#include "judge/answers.h"
#include "judge/element.h"
#include "reference/dtype.h"
#include "tensor/units.h"

enum {
    LEAST_ROWS = 8,      /* as many rows are graded, if there are so many */
    ROW_SHARE = 16,      /* one row of so many */
    MAX_SLACKS = 1 << 12 /* quotients kept for the median */
};

struct attn_best {
    struct ref_request request;  /* the sample */
    int64_t *place[REF_OUTPUTS]; /* of a leader: where its units are in the judged rows */
    struct ref_result result;
    bool usable;
};

struct attn_numerics attn_best_numerics(uint32_t dtype)
{
    const uint32_t type = dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const double u = attn_dtype_roundoff(type);
    return (struct attn_numerics){.struct_size = sizeof(struct attn_numerics),
                                  .acc_type = type,
                                  .score_type = type,
                                  .p_type = type,
                                  .proj_type = type,
                                  .denominator = 1,
                                  .e_exp = u,
                                  .e_tanh = u,
                                  .e_log = u};
}

void attn_best_free(struct attn_best *best)
{
    if (!best)
        return;
    attn_answers_free(&best->result);
    for (int o = 0; o < REF_OUTPUTS; o++) {
        free((void *)(uintptr_t)best->request.units[o].index);
        free(best->place[o]);
    }
    free(best);
}

/* An even sample of the judged units of a leader. */
static bool choose(const struct ref_units *judged, struct ref_units *units, int64_t **place)
{
    const int64_t least = judged->count < LEAST_ROWS ? judged->count : LEAST_ROWS;
    const int64_t share = judged->count / ROW_SHARE, count = share > least ? share : least;
    int64_t *index = calloc((size_t)count + 1, sizeof *index);
    *place = calloc((size_t)count + 1, sizeof **place);
    *units = (struct ref_units){.count = count, .index = index};
    if (!index || !*place)
        return false;
    for (int64_t n = 0; n < count; n++) {
        /* The middle of each share, so that not only first rows of heads are taken. */
        (*place)[n] = (2 * n + 1) * judged->count / (2 * count);
        index[n] = ref_unit_number(judged, (*place)[n]);
    }
    return true;
}

static bool compute(const struct attn_evidence *evidence, const struct attn_numerics *numerics,
                    struct attn_best *best)
{
    const struct attn_problem *p = &evidence->instance->problem;
    const struct ref_op *op = ref_op_find(p->op);
    uint32_t outputs = 0;
    char why[256];
    best->request = (struct ref_request){.numerics = numerics,
                                         .fill = evidence->request.fill,
                                         .threads = evidence->request.threads,
                                         .stored = evidence->request.stored,
                                         .given = evidence->request.given};
    for (int o = 0; op->outputs[o].role; o++) {
        outputs |= attn_tensor_find(p, op->outputs[o].role) ? 1u << o : 0;
        if (op->outputs[o].leader == o &&
            !choose(&evidence->request.units[o], &best->request.units[o], &best->place[o]))
            return false;
    }
    return attn_answers_allocate(p, &best->request, outputs, &best->result) == 0 &&
           ref_compute(p, &best->request, &best->result, why, sizeof why) == ATTN_OK;
}

/* What the elements add up to. */
struct tally {
    double grade, *slacks;
    int64_t seen, kept, stride;
};

static void tally_element(struct tally *t, double got, double want, double declared, double best)
{
    if (!isfinite(got) || !isfinite(want) || !isfinite(declared) || !isfinite(best) || best <= 0)
        return;
    t->grade = fmax(t->grade, fabs(got - want) / best);
    if (t->seen++ % t->stride == 0 && t->kept < MAX_SLACKS)
        t->slacks[t->kept++] = declared / best;
}

static void tally_output(const struct attn_best *best, const struct attn_evidence *evidence, int o,
                         struct tally *t)
{
    struct attn_units units;
    attn_units_of(&evidence->instance->problem, o, &units);
    const int leader = units.output->leader;
    const struct ref_units *graded = &best->request.units[leader];
    const struct ref_values *declared = &evidence->ref->output[o], *ref = &best->result.output[o];
    for (int64_t r = 0; r < graded->count * units.followers; r++) {
        const int64_t n = r / units.followers, follower = r % units.followers;
        const int64_t at = best->place[leader][n] * units.followers + follower;
        const int64_t base = attn_unit_base(&units, graded->index[n] * units.followers + follower);
        for (int64_t c = 0; c < units.width; c++)
            tally_element(t, attn_unit_read(&units, base, c), declared->value[at * units.width + c],
                          declared->bound[at * units.width + c], ref->bound[r * units.width + c]);
    }
}

void attn_grade(struct attn_best **kept, const struct attn_evidence *evidence,
                struct attn_judgement *v)
{
    const struct attn_problem *p = &evidence->instance->problem;
    const struct attn_numerics numerics = attn_best_numerics(p->dtype);
    if (!*kept && (*kept = calloc(1, sizeof **kept)))
        (*kept)->usable = compute(evidence, &numerics, *kept);
    if (*kept)
        (*kept)->request.numerics = NULL; /* they end with this call */
    const struct attn_best *best = *kept;
    if (!best || !best->usable)
        return;
    struct tally t = {.slacks = malloc(MAX_SLACKS * sizeof(double)), .stride = 1};
    for (int o = 0; o < REF_OUTPUTS; o++)
        if (best->result.output[o].bound)
            t.stride +=
                ref_requested_units(p, &best->request, o) * ref_output_width(p, o) / MAX_SLACKS;
    for (int o = 0; t.slacks && o < REF_OUTPUTS; o++)
        if (best->result.output[o].bound && evidence->ref->output[o].bound)
            tally_output(best, evidence, o, &t);
    if (t.kept > 0) {
        v->slack = attn_median_of(t.slacks, t.kept);
        v->grade = t.grade;
    }
    free(t.slacks);
}
