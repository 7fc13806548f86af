/* SPDX-License-Identifier: Apache-2.0 */
/* emulated_cublas.cpp - the part of libcublas that cublas.c calls, for tests. Products are plain
 * loops. For 16-bit types, sums are rounded to f32 toward zero, as tensor cores do. Operands must
 * lie in memory of the emulated device. It refuses what the library would refuse. */
#include <math.h>

#include "launch.h"

namespace
{

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13 };
enum { REAL_32F = 0, REAL_16F = 2, REAL_16BF = 14, COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69 };
enum { NO_REDUCED_PRECISION_REDUCTION = 16, ANY_ALGORITHM = -1 };

struct library {
    void *stream, *workspace;
    size_t workspace_bytes;
    int math;
};

/* One matrix of a batch, column-major: `rows` elements per column, `ld` from column to column. */
struct matrix {
    char *data;
    int type;
    int64_t rows, columns, ld;

    size_t element() const
    {
        return type == REAL_32F ? 4 : 2;
    }
    char *at(int64_t row, int64_t column) const
    {
        return data + (size_t)(column * ld + row) * element();
    }
    bool lies_on_device() const
    {
        return emulated_holds(data, (size_t)((columns - 1) * ld + rows) * element());
    }
    float get(int64_t row, int64_t column) const
    {
        const char *from = at(row, column);
        return type == REAL_32F   ? *(const float *)from
               : type == REAL_16F ? to_float(*(const f16 *)from)
                                  : to_float(*(const bf16 *)from);
    }
    void set(int64_t row, int64_t column, float value) const
    {
        char *to = at(row, column);
        if (type == REAL_32F)
            *(float *)to = value;
        else if (type == REAL_16F)
            narrow(value, *(f16 *)to);
        else
            narrow(value, *(bf16 *)to);
    }
};

bool makes_sense(const matrix &m)
{
    return m.ld >= (m.rows > 1 ? m.rows : 1) && (uintptr_t)m.data % m.element() == 0;
}

/* op(a)[i,k] op(b)[k,j], in f32 */
float cell(const matrix &a, bool a_turned, const matrix &b, bool b_turned, int64_t i, int64_t j,
           int64_t inner)
{
    double sum = 0;
    float sequential = 0;
    for (int64_t k = 0; k < inner; k++) {
        const float x = a_turned ? a.get(k, i) : a.get(i, k);
        const float y = b_turned ? b.get(j, k) : b.get(k, j);
        sum += (double)x * y;
        sequential = fmaf(x, y, sequential);
    }
    return a.type == REAL_32F ? sequential : emulated_cut(sum);
}

} /* namespace */

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cublasGetProperty(int type, int *value)
{
    *value = type == 0 ? 13 : 0;
    return type >= 0 && type <= 2 ? SUCCESS : INVALID_VALUE;
}

EXPORT const char *cublasGetStatusString(int status)
{
    return status == EXECUTION_FAILED ? "a matrix outside every allocation of the device"
           : status == INVALID_VALUE  ? "invalid value"
                                      : "not initialized";
}

EXPORT int cublasCreate_v2(void **handle)
{
    *handle = new library();
    return SUCCESS;
}

EXPORT int cublasDestroy_v2(void *handle)
{
    delete (library *)handle;
    return SUCCESS;
}

EXPORT int cublasSetStream_v2(void *handle, void *stream)
{
    *(library *)handle = library{stream, nullptr, 0, 0};
    return SUCCESS;
}

EXPORT int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes)
{
    ((library *)handle)->workspace = workspace;
    return emulated_holds(workspace, bytes) ? SUCCESS : INVALID_VALUE;
}

EXPORT int cublasSetMathMode(void *handle, int mode)
{
    ((library *)handle)->math = mode;
    return SUCCESS;
}

EXPORT int cublasGemmStridedBatchedEx_64(void *handle, int turn_a, int turn_b, int64_t m, int64_t n,
                                         int64_t k, const void *alpha, const void *a_data,
                                         int a_type, int64_t lda, long long a_stride,
                                         const void *b_data, int b_type, int64_t ldb,
                                         long long b_stride, const void *beta, void *c_data,
                                         int c_type, int64_t ldc, long long c_stride, int64_t batch,
                                         int compute, int algorithm)
{
    const library *self = (const library *)handle;
    const int wanted = a_type == REAL_32F ? COMPUTE_32F_PEDANTIC : COMPUTE_32F;
    matrix a = {(char *)a_data, a_type, turn_a ? k : m, turn_a ? m : k, lda};
    matrix b = {(char *)b_data, b_type, turn_b ? n : k, turn_b ? k : n, ldb};
    matrix c = {(char *)c_data, c_type, m, n, ldc};
    if (!self->stream || !self->workspace || self->math != NO_REDUCED_PRECISION_REDUCTION)
        return NOT_INITIALIZED;
    if (m < 1 || n < 1 || k < 1 || batch < 1 || turn_a > 1 || turn_b > 1 || !makes_sense(a) ||
        !makes_sense(b) || !makes_sense(c) || a_type != b_type ||
        (c_type != a_type && c_type != REAL_32F) || compute != wanted ||
        algorithm != ANY_ALGORITHM || *(const float *)alpha != 1 || (batch > 1 && c_stride == 0))
        return INVALID_VALUE;
    if (PLANTED(transposed) && k == m && lda >= m)
        turn_a = !turn_a;
    for (int64_t one = 0; one < batch; one++) {
        if (!a.lies_on_device() || !b.lies_on_device() || !c.lies_on_device())
            return EXECUTION_FAILED;
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                const float product = cell(a, turn_a != 0, b, turn_b != 0, i, j, k);
                const float old = *(const float *)beta;
                c.set(i, j, old == 0 ? product : fmaf(old, c.get(i, j), product));
            }
        a.data += (size_t)a_stride * a.element();
        b.data += (size_t)b_stride * b.element();
        c.data += (size_t)c_stride * c.element();
    }
    return SUCCESS;
}
