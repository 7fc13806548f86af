/* SPDX-License-Identifier: Apache-2.0 */
/* core.c - the kernels that OpenBLAS chose for this processor, where it chose the oldest. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"

void attn_blas_choose_core(void)
{
#if defined(__x86_64__)
    /* Before 0.3.25 it does not know every processor of its own time or later (its issue 4267), and
     * takes kernels for SSE3. */
    static const char fallback[] = "Prescott", name[] = "OPENBLAS_CORETYPE";
    __builtin_cpu_init();
    if (!openblas_get_corename || !gotoblas_dynamic_init || !gotoblas_dynamic_quit ||
        getenv(name) || strcmp(openblas_get_corename(), fallback) != 0 ||
        !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    const int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    /* A build may lack one of them, and then it takes the oldest again. */
    for (int narrow = !wide; narrow < 2 && strcmp(openblas_get_corename(), fallback) == 0;
         narrow++) {
        setenv(name, narrow ? "Haswell" : "SkylakeX", 1);
        gotoblas_dynamic_quit();
        gotoblas_dynamic_init();
    }
    unsetenv(name);
#endif
}

/* Before anything is asked of it. */
__attribute__((constructor)) static void on_load(void)
{
    attn_blas_choose_core();
}
