/* SPDX-License-Identifier: Apache-2.0 */
/* every.c - every row of out and lse against the reference, as the reference computes them. */
#include "judge/every.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

int attn_every_judge(const struct attn_instance *instance, const struct attn_numerics *numerics,
                     int threads, struct attn_every *every, char *why, size_t size)
{
    const struct attn_problem *p = &instance->problem;
    const struct ref_request request = {
        .numerics = numerics, .fill = REF_FILL_STRUCTURED, .threads = threads};
    struct comparing comparing = {.every = every};
    *every = (struct attn_every){0};
    prepare(p, ATTN_OUT, &comparing.out);
    prepare(p, ATTN_LSE, &comparing.lse);
    const int status = ref_every_row(p, &request, visit, &comparing, why, size);
    qsort(every->kept, (size_t)every->n_kept, sizeof *every->kept, ascending);
    return status;
}
