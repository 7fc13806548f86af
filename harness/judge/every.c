/* SPDX-License-Identifier: Apache-2.0 */
/* every.c - every row of out and lse, or of gradients, against the reference, as it computes them.
 */
#include "judge/every.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge/answers.h"
#include "judge/element.h"
#include "reference/dtype.h"
#include "reference/every.h"
#include "tensor/units.h"

/* An output at work. */
struct output {
    struct attn_units units;
    double threshold;
};

struct comparing {
    struct attn_every *every;
    struct output out, lse;
};

/* Compares one unit. Returns whether it is right. */
static bool compare_unit(struct attn_every *every, const struct output *o, int64_t unit,
                         const double *want, const double *bound)
{
    const struct attn_tensor *tensor = o->units.tensor;
    const int64_t base = attn_unit_base(&o->units, unit);
    bool ok = true;
    for (int64_t c = 0; c < o->units.width; c++) {
        if (isinf(bound[c]) && !isinf(want[c])) {
            every->unknown++;
            continue;
        }
        const double got =
            attn_dtype_load(tensor->dtype, tensor->data, attn_unit_element(&o->units, base, c));
        const double ratio = attn_element_ratio(got, want[c], bound[c], o->threshold);
        ok = ok && ratio <= 1;
        if (ratio > every->max_ratio) {
            int64_t at[ATTN_MAX_RANK];
            every->max_ratio = ratio;
            attn_unit_indices(&o->units, unit, c, at);
            attn_unit_name(&o->units, at, every->worst, sizeof every->worst);
        }
    }
    return ok;
}

/* Keeps wrong rows spread over all: when there is no more room, each takes a place by chance. */
static void keep(struct attn_every *every, int64_t unit)
{
    int64_t place = every->wrong++;
    if (place >= ATTN_EVERY_KEPT)
        place = (int64_t)((uint64_t)unit * UINT64_C(0x9e3779b97f4a7c15) >> 33) % every->wrong;
    if (place >= ATTN_EVERY_KEPT)
        return;
    every->kept[place] = unit;
    every->n_kept = every->wrong < ATTN_EVERY_KEPT ? every->wrong : ATTN_EVERY_KEPT;
}

static void visit(void *context, const struct ref_every_row *row)
{
    const struct comparing *c = context;
    bool ok = compare_unit(c->every, &c->out, row->unit, row->out, row->bound);
    if (c->lse.units.tensor)
        ok = compare_unit(c->every, &c->lse, row->unit, &row->lse, &row->lse_bound) && ok;
    c->every->rows++;
    if (!ok)
        keep(c->every, row->unit);
}

static void prepare(const struct attn_problem *p, uint32_t role, struct output *o)
{
    const int output = ref_output_of(ref_op_find(p->op), role);
    if (output >= 0)
        attn_units_of(p, output, &o->units);
    if (o->units.tensor)
        o->threshold = attn_overflow_threshold(o->units.tensor->dtype);
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- few distinct queries ---- */

static int judge_queries(const struct attn_instance *instance, const struct ref_request *like,
                         const struct attn_numerics *numerics, struct attn_every *every, char *why,
                         size_t size)
{
    const struct attn_problem *p = &instance->problem;
    const struct ref_request request = {
        .numerics = numerics, .fill = REF_FILL_STRUCTURED, .threads = like->threads};
    struct comparing comparing = {.every = every};
    prepare(p, ATTN_OUT, &comparing.out);
    prepare(p, ATTN_LSE, &comparing.lse);
    return ref_every_row(p, &request, visit, &comparing, why, size);
}

/* ---- operands that are mostly 0 ---- */

/* Multiply-adds of all of it: two minutes of one core. */
#define COST 1e11
/* Units of one computation. */
enum { CHUNK = 1 << 15 };

/* The outputs of a leader that the problem has, one bit each. */
static uint32_t led_by(const struct attn_problem *p, int leader)
{
    const struct ref_output *outputs = ref_op_find(p->op)->outputs;
    uint32_t led = 0;
    for (int o = 0; outputs[o].role; o++)
        if (outputs[o].leader == leader && attn_tensor_find(p, outputs[o].role))
            led |= 1u << o;
    return led;
}

static void compare_chunk(const struct attn_problem *p, const struct ref_result *result,
                          uint32_t led, int64_t first, int64_t count, struct attn_every *every)
{
    struct output outputs[REF_OUTPUTS];
    for (int o = 0; o < REF_OUTPUTS; o++)
        if (led >> o & 1)
            prepare(p, ref_op_find(p->op)->outputs[o].role, &outputs[o]);
    for (int64_t n = 0; n < count; n++) {
        bool ok = true;
        for (int o = 0; o < REF_OUTPUTS; o++) {
            if (!(led >> o & 1))
                continue;
            const struct ref_values *want = &result->output[o];
            const int64_t at = n * outputs[o].units.width;
            ok = compare_unit(every, &outputs[o], first + n, want->value + at, want->bound + at) &&
                 ok;
        }
        every->rows++;
        if (!ok)
            keep(every, first + n);
    }
}

static int judge_chunk(const struct attn_problem *p, struct ref_request *request, uint32_t led,
                       int64_t first, int64_t count, struct attn_every *every, char *why,
                       size_t size)
{
    int64_t *index = calloc((size_t)count, sizeof *index);
    struct ref_result result = {0};
    int status = ATTN_OUT_OF_MEMORY;
    for (int64_t n = 0; index && n < count; n++)
        index[n] = first + n;
    request->units[every->leader] = (struct ref_units){count, index};
    if (index && attn_answers_allocate(p, request, led, &result) == 0)
        status = ref_compute(p, request, &result, why, size);
    if (status == ATTN_OK)
        compare_chunk(p, &result, led, first, count, every);
    attn_answers_free(&result);
    free(index);
    return status;
}

/* Key heads one by one: all, or some in even steps. */
static int judge_heads(const struct attn_instance *instance, const struct ref_request *like,
                       const struct attn_numerics *numerics, double cost, struct attn_every *every,
                       char *why, size_t size)
{
    const struct attn_problem *p = &instance->problem;
    const int64_t heads = p->b * p->hkv, units = ref_output_units(p, every->leader) / heads;
    const int64_t most = (int64_t)fmin(COST / cost, (double)heads), used = most > 0 ? most : 1;
    const int64_t begin = (int64_t)(instance->c.sample_seed % (uint64_t)heads);
    struct ref_request request = *like;
    int status = ATTN_OK;
    request.numerics = numerics;
    memset(request.units, 0, sizeof request.units);
    for (int64_t n = 0; n < used && status == ATTN_OK; n++) {
        const int64_t first = (begin + n * heads / used) % heads * units;
        for (int64_t done = 0; done < units && status == ATTN_OK; done += CHUNK)
            status = judge_chunk(p, &request, led_by(p, every->leader), first + done,
                                 units - done < CHUNK ? units - done : CHUNK, every, why, size);
    }
    return status;
}

/* Multiply-adds for a key head, or 1: all is cheap. 0: the rows cannot be judged so under this
 * fill, with these numerics (NULL: with any). */
static double cost_of(const struct attn_instance *instance, const struct attn_numerics *numerics,
                      enum attn_fill fill, int leader)
{
    const struct attn_problem *p = &instance->problem;
    const struct ref_op *op = ref_op_find(p->op);
    if (op->whole)
        return op->whole(p, numerics, attn_fill_name(fill), leader);
    return leader == 0 && fill == ATTN_FILL_FEW_QUERIES && ref_every_fits(p, NULL, 0);
}

bool attn_every_fits(const struct attn_instance *instance, int leader)
{
    return cost_of(instance, NULL, instance->c.fill, leader) > 0;
}

/* Is there a fill of the case under which every unit of this output is judged? */
static bool is_reached(const struct attn_instance *instance, int leader)
{
    for (enum attn_fill fill = 0; fill < ATTN_FILL_COUNT; fill++)
        if (attn_fill_is_whole(fill) && attn_fill_fits(&instance->c, fill, NULL, 0) &&
            cost_of(instance, NULL, fill, leader) > 0)
            return true;
    return false;
}

bool attn_every_reaches(const struct attn_instance *instance)
{
    const struct ref_output *outputs = ref_op_find(instance->problem.op)->outputs;
    if (instance->c.fill != ATTN_FILL_NORMAL || instance->c.data) /* not tried there */
        return false;
    for (int o = 0; outputs[o].role; o++)
        if (led_by(&instance->problem, o) && !is_reached(instance, o))
            return false;
    return true;
}

int attn_every_judge(const struct attn_instance *instance, const struct ref_request *request,
                     const struct attn_numerics *numerics, struct attn_every *every, char *why,
                     size_t size)
{
    const double cost = cost_of(instance, numerics, instance->c.fill, every->leader);
    *every = (struct attn_every){.leader = every->leader};
    if (!(cost > 0))
        return ATTN_UNSUPPORTED;
    const int status = ref_op_find(instance->problem.op)->whole
                           ? judge_heads(instance, request, numerics, cost, every, why, size)
                           : judge_queries(instance, request, numerics, every, why, size);
    qsort(every->kept, (size_t)every->n_kept, sizeof *every->kept, ascending);
    return status;
}
