/* SPDX-License-Identifier: Apache-2.0 */
/* tanh.c - the loop over ref_tanh_of. */
#include "reference/tanh.h"

#include "reference/clones.h"

ATTN_CLONES("avx2", "avx512f")
void ref_tanh(const double *x, int64_t count, double *y)
{
    for (int64_t j = 0; j < count; j++)
        y[j] = ref_tanh_of(x[j]);
}
