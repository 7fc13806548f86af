/* SPDX-License-Identifier: Apache-2.0 */
/* stiefel.c - orthonormal vectors from random ones: modified Gram-Schmidt, run twice.
 *
 * The Q of a QR factorisation of a normal matrix, with a positive diagonal of R, is uniform on the
 * Stiefel manifold. One pass loses orthogonality in proportion to the condition number. After the
 * second pass the loss is of the order of the unit roundoff (Giraud, Langou, Rozloznik, "The loss
 * of orthogonality in the Gram-Schmidt orthogonalization process", 2005). */
#include <math.h>

#include "reference/parallel.h"
#include "tensor/operand.h"

struct basis {
    double *vectors;
    int64_t count, length;
    int64_t pivot; /* the vector that is projected out of the later ones */
};

/* Eight sums side by side: the order of additions is fixed, and a compiler can keep them in vector
 * registers. */
static double dot(const double *a, const double *b, int64_t length)
{
    double sum[8] = {0};
    int64_t k = 0;
    for (; k + 8 <= length; k += 8)
        for (int lane = 0; lane < 8; lane++)
            sum[lane] += a[k + lane] * b[k + lane];
    for (; k < length; k++)
        sum[k & 7] += a[k] * b[k];
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

static void free_of_pivot(void *context, int64_t begin, int64_t end)
{
    const struct basis *basis = context;
    const double *pivot = basis->vectors + basis->pivot * basis->length;
    for (int64_t later = begin; later < end; later++) {
        double *vector = basis->vectors + (basis->pivot + 1 + later) * basis->length;
        const double share = dot(pivot, vector, basis->length);
        for (int64_t k = 0; k < basis->length; k++)
            vector[k] -= share * pivot[k];
    }
}

void attn_stiefel(double *vectors, int64_t count, int64_t length, int threads)
{
    struct basis basis = {.vectors = vectors, .count = count, .length = length};
    /* A chunk below some hundred thousand multiplications costs less than waking a thread. */
    const int64_t grain = 131072 / length + 1;
    for (int pass = 0; pass < 2; pass++)
        for (basis.pivot = 0; basis.pivot < count; basis.pivot++) {
            double *pivot = vectors + basis.pivot * length;
            const double norm = sqrt(dot(pivot, pivot, length));
            for (int64_t k = 0; k < length; k++)
                pivot[k] /= norm;
            attn_parallel_for(threads, count - basis.pivot - 1, grain, free_of_pivot, &basis);
        }
}
