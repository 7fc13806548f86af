/* SPDX-License-Identifier: Apache-2.0 */
/* every_alike.c - every row where rows of a head with the same query have the same answer: one row
 * of each query is computed as any other, and stands for all. */
#include "reference/every_alike.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/job.h"

struct alike {
    const struct attn_problem *problem;
    int64_t *unit;  /* [count] the first row of each query of each head, ascending */
    int64_t *place; /* [rows] where in `unit` a row's query is */
    int64_t count, rows;
    struct ref_result result;
};

/* The rows of a head by query. False: there are too many queries. */
static bool group_head(struct alike *a, int64_t head, double *seen)
{
    const struct attn_problem *p = a->problem;
    const struct attn_tensor *q = attn_tensor_find(p, ATTN_Q);
    int64_t queries = 0;

    for (int64_t i = 0, n; i < p->sq; i++) {
        double *row = seen + queries * p->dq;
        ref_load_vector(q, (const int64_t[]){head / p->hq, head % p->hq, i, 0}, p->dq, row);
        for (n = 0; n < queries; n++)
            if (!memcmp(seen + n * p->dq, row, (size_t)p->dq * sizeof *row))
                break;
        if (n == REF_EVERY_QUERIES)
            return false;
        if (n == queries)
            a->unit[a->count + queries++] = head * p->sq + i;
        a->place[head * p->sq + i] = a->count + n;
    }
    a->count += queries;
    return true;
}

/* Room for the answers of the outputs that a visit has. */
static bool make_room(struct alike *a)
{
    const struct ref_op *op = ref_op_find(a->problem->op);
    bool ok = true;

    for (int o = 0; op->outputs[o].role; o++) {
        const uint32_t role = op->outputs[o].role;
        if (role != ATTN_OUT && (role != ATTN_LSE || !attn_tensor_find(a->problem, role)))
            continue;
        struct ref_values *values = &a->result.output[o];
        values->value = ref_alloc_doubles(a->count, ref_output_width(a->problem, o));
        values->bound = ref_alloc_doubles(a->count, ref_output_width(a->problem, o));
        ok = ok && values->value && values->bound;
    }
    return ok;
}

static void visit_all(const struct alike *a,
                      void (*visit)(void *context, const struct ref_every_row *row), void *context)
{
    const struct ref_values out = ref_values_of(a->problem, &a->result, ATTN_OUT);
    const struct ref_values lse = ref_values_of(a->problem, &a->result, ATTN_LSE);
    const int64_t width = a->problem->dv;

    for (int64_t row = 0; row < a->rows; row++) {
        const int64_t at = a->place[row];
        visit(context, &(const struct ref_every_row){.unit = row,
                                                     .out = out.value + at * width,
                                                     .bound = out.bound + at * width,
                                                     .lse = lse.value ? lse.value[at] : 0.0,
                                                     .lse_bound = lse.bound ? lse.bound[at] : 0.0});
    }
}

static int compute(struct alike *a, const struct ref_request *request, char *why, size_t size)
{
    const struct attn_problem *p = a->problem;
    struct ref_request all = *request;
    double *seen = ref_alloc_doubles(REF_EVERY_QUERIES + 1, p->dq);

    if (!a->unit || !a->place || !seen) {
        free(seen);
        return ATTN_OUT_OF_MEMORY;
    }
    for (int64_t head = 0; head < p->b * p->hq; head++)
        if (!group_head(a, head, seen)) {
            snprintf(why, size,
                     "not every row can be computed: a head has too many distinct queries");
            free(seen);
            return ATTN_UNSUPPORTED;
        }
    free(seen);
    all.fill = REF_FILL_STRUCTURED;
    all.units[0] = (struct ref_units){a->count, a->unit};
    return make_room(a) ? ref_compute(p, &all, &a->result, why, size) : ATTN_OUT_OF_MEMORY;
}

int ref_every_alike(const struct attn_problem *problem, const struct ref_request *request,
                    void (*visit)(void *context, const struct ref_every_row *row), void *context,
                    char *why, size_t size)
{
    const int64_t heads = problem->b * problem->hq;
    struct alike a = {.problem = problem,
                      .unit = calloc((size_t)(heads * REF_EVERY_QUERIES) + 1, sizeof *a.unit),
                      .place = calloc((size_t)(heads * problem->sq) + 1, sizeof *a.place),
                      .rows = heads * problem->sq};
    const int status = compute(&a, request, why, size);

    if (status == ATTN_OK)
        visit_all(&a, visit, context);
    else if (status == ATTN_OUT_OF_MEMORY)
        snprintf(why, size, "the reference has no memory for its working arrays");
    for (int o = 0; o < REF_OUTPUTS; o++) {
        free(a.result.output[o].value);
        free(a.result.output[o].bound);
    }
    free(a.unit);
    free(a.place);
    return status;
}
