/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c - which operands BLAS can take where they lie, and which a plan has to copy. */
#include <limits.h>
#include <stdio.h>

#include "blas.h"

const struct attn_blas_factor attn_blas_factors[ATTN_BLAS_FACTORS] = {
    {ATTN_Q, 2, "q"},
    {ATTN_K, 2, "k"},
    {ATTN_V, 2, "v"},
    {ATTN_GRAD_OUT, 2, "dout"},
    {ATTN_X_Q, 1, "x_q"},
    {ATTN_X_K, 1, "x_k"},
    {ATTN_X_V, 1, "x_v"},
    {ATTN_W_Q, 0, "w_q"},
    {ATTN_W_K, 0, "w_k"},
    {ATTN_W_V, 0, "w_v"},
    {ATTN_W_O, 0, "w_o"},
    {ATTN_SCORE_M, 1, "m"},
    {ATTN_SCORE_WQ, 1, "score_w_q"},
    {ATTN_SCORE_WK, 1, "score_w_k"},
};

int attn_blas_matrix(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                     struct attn_blas_matrix *matrix)
{
    struct attn_blas_matrix found = {0, 0};
    int64_t ld;
    if ((column_stride == 1 || columns <= 1) && (row_stride >= columns || rows <= 1)) {
        ld = row_stride > columns ? row_stride : columns;
    } else if ((row_stride == 1 || rows <= 1) && (column_stride >= rows || columns <= 1)) {
        found.transposed = 1;
        ld = column_stride > rows ? column_stride : rows;
    } else {
        return -1;
    }
    if (rows > INT_MAX || columns > INT_MAX || ld > INT_MAX)
        return -1;
    found.ld = ld > 1 ? (int)ld : 1;
    *matrix = found;
    return 0;
}

/* Is an operand, seen from axis `row` on, a matrix that BLAS can take. */
static int takes(const struct attn_tensor *tensor, uint32_t row)
{
    struct attn_blas_matrix unused;
    uint32_t column = tensor->rank - 1;
    return attn_blas_matrix(tensor->shape[row], tensor->shape[column], tensor->stride[row],
                            tensor->stride[column], &unused) == 0;
}

int attn_blas_copied(const struct attn_problem *problem, const struct attn_blas_factor *factor)
{
    const struct attn_tensor *tensor = attn_tensor_find(problem, factor->role);
    return tensor && (tensor->dtype != problem->dtype || !takes(tensor, factor->row));
}

int attn_blas_copies_out(const struct attn_problem *problem)
{
    return attn_tensor_find(problem, ATTN_W_O) && !takes(attn_tensor_find(problem, ATTN_OUT), 1);
}

void attn_blas_describe_copies(const struct attn_problem *problem, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t f = 0; f <= ATTN_BLAS_FACTORS && used < size; f++) {
        int copied = f < ATTN_BLAS_FACTORS ? attn_blas_copied(problem, &attn_blas_factors[f])
                                           : attn_blas_copies_out(problem);
        if (copied)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : ", copies ",
                                     f < ATTN_BLAS_FACTORS ? attn_blas_factors[f].name : "out");
    }
}
