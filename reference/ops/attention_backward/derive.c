/* SPDX-License-Identifier: Apache-2.0 */
/* derive.c - the inputs that follow from others: OUT and LSE by the reference of the forward pass,
 * rounded to their types, so that every backend gets the same ones. Those of census need no
 * forward pass. */
#include <stdlib.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/attention_backward/attention_backward.h"

enum { TENSORS = 32 };

static void write(const struct attn_tensor *tensor, const int64_t *at, double value)
{
    int64_t offset = 0;

    for (uint32_t axis = 0; axis < tensor->rank; axis++)
        offset += at[axis] * tensor->stride[axis];
    attn_dtype_store(tensor->dtype, tensor->data, offset, value);
}

static void write_row(const struct attn_tensor *tensor, int64_t row, const struct attn_problem *p,
                      double (*value)(const void *context, int64_t c), const void *context)
{
    const int64_t width = tensor->rank == 4 ? tensor->shape[3] : 1;

    for (int64_t c = 0; c < width; c++)
        write(tensor, (const int64_t[]){row / p->sq / p->hq, row / p->sq % p->hq, row % p->sq, c},
              value(context, c));
}

static double of_array(const void *context, int64_t c)
{
    return ((const double *)context)[c];
}

static double nan_of(const void *context, int64_t c)
{
    (void)context, (void)c;
    return NAN;
}

/* The forward problem of the same operands. */
static void go_forward(const struct attn_problem *problem, struct attn_problem *forward,
                       struct attn_tensor tensors[TENSORS])
{
    *forward = *problem;
    forward->op = ATTN_OP_ATTENTION;
    forward->n_tensors = 0;
    forward->tensors = tensors;
    for (uint32_t t = 0; t < problem->n_tensors && forward->n_tensors < TENSORS; t++) {
        const uint32_t role = problem->tensors[t].role;
        if (role < ATTN_GRAD_OUT || role > ATTN_GRAD_LSE)
            tensors[forward->n_tensors++] = problem->tensors[t];
    }
}

static void write_all(const struct attn_problem *p, const char *fill,
                      const struct ref_result *result)
{
    const struct attn_tensor *out = attn_tensor_find(p, ATTN_OUT);
    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    const bool poison = strcmp(fill, "poison") == 0;

    for (int64_t row = 0; row < p->b * p->hq * p->sq; row++) {
        write_row(out, row, p, of_array, result->output[0].value + row * p->dv);
        write_row(lse, row, p, of_array, result->output[1].value + row);
        if (!poison || result->allowed[row] > 0)
            continue;
        write_row(attn_tensor_find(p, ATTN_Q), row, p, nan_of, NULL);
        write_row(attn_tensor_find(p, ATTN_GRAD_OUT), row, p, nan_of, NULL);
        write_row(out, row, p, nan_of, NULL);
    }
}

static int follow(const struct attn_problem *problem, const char *fill, int threads)
{
    const int64_t rows = problem->b * problem->hq * problem->sq;
    struct attn_problem forward;
    struct attn_tensor tensors[TENSORS];
    struct ref_request request = {.threads = threads};
    struct ref_result result = {.output = {{.value = ref_alloc_doubles(rows, problem->dv)},
                                           {.value = ref_alloc_doubles(rows, 1)}},
                                .allowed = calloc((size_t)rows + 1, sizeof(int64_t))};
    char why[128];
    int status = ATTN_OUT_OF_MEMORY;

    go_forward(problem, &forward, tensors);
    ref_request_all(&forward, &request);
    if (result.output[0].value && result.output[1].value && result.allowed)
        status = ref_compute(&forward, &request, &result, why, sizeof why);
    if (status == ATTN_OK)
        write_all(problem, fill, &result);
    free(result.output[0].value);
    free(result.output[1].value);
    free(result.allowed);
    return status;
}

/* ---- census ---- */

/* A row of census: each weight is 2^-exponent. */
struct row {
    int64_t head, i; /* head of all batches */
    double size;     /* of dO: 2^exponent; 0: the row has no keys */
};

static double code_of(const void *context, int64_t c)
{
    const struct row *row = context;

    return row->size * ref_backward_code(ATTN_GRAD_OUT, row->head, row->i, c);
}

static double zero_of(const void *context, int64_t c)
{
    (void)context, (void)c;
    return 0.0;
}

static void write_census(const struct attn_problem *p)
{
    struct ref_operands operands;
    const struct attn_tensor *sink;

    ref_operands_init(&operands, p);
    sink = operands.by_role[ATTN_SINK];
    for (int64_t n = 0; n < p->b * p->hq * p->sq; n++) {
        struct row row = {.head = n / p->sq, .i = n % p->sq};
        const int64_t h = row.head % p->hq;
        const int64_t keys = ref_count_row(&operands, row.head / p->hq, h, row.i);
        const double exponent = ceil(log2((double)(keys > 0 ? keys : 1)));
        double lse = exponent * M_LN2;
        if (keys > 0)
            row.size = exp2(exponent);
        else
            lse = sink ? ref_load(sink, &h) : -INFINITY;
        write_row(operands.by_role[ATTN_OUT], n, p, zero_of, NULL);
        write_row(operands.by_role[ATTN_LSE], n, p, of_array, &lse);
        write_row(operands.by_role[ATTN_GRAD_OUT], n, p, code_of, &row);
    }
}

int ref_attention_backward_derive(const struct attn_problem *problem, const char *fill, int threads)
{
    if (strcmp(fill, "census") != 0)
        return follow(problem, fill, threads);
    write_census(problem);
    return ATTN_OK;
}
