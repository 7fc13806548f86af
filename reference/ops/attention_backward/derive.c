/* SPDX-License-Identifier: Apache-2.0 */
/* derive.c - the inputs that follow from others: OUT and LSE by the reference of the forward pass,
 * rounded to their types, so that every backend gets the same ones. */
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

/* census: as many as the row has keys, with signs by column, so that p dP is v. */
static double count_of(const void *context, int64_t c)
{
    const int64_t *keys = context;

    return (double)(c % 3 == 1 ? -*keys : *keys);
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
    const bool census = strcmp(fill, "census") == 0, poison = strcmp(fill, "poison") == 0;

    for (int64_t row = 0; row < p->b * p->hq * p->sq; row++) {
        write_row(out, row, p, of_array, result->output[0].value + row * p->dv);
        write_row(lse, row, p, of_array, result->output[1].value + row);
        if (census)
            write_row(attn_tensor_find(p, ATTN_GRAD_OUT), row, p, count_of, &result->allowed[row]);
        if (!poison || result->allowed[row] > 0)
            continue;
        write_row(attn_tensor_find(p, ATTN_Q), row, p, nan_of, NULL);
        write_row(attn_tensor_find(p, ATTN_GRAD_OUT), row, p, nan_of, NULL);
        write_row(out, row, p, nan_of, NULL);
    }
}

int ref_attention_backward_derive(const struct attn_problem *problem, const char *fill, int threads)
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
