/* SPDX-License-Identifier: Apache-2.0 */
/* fma_avx512bf16.c - the peak loop of AVX512_BF16: two bf16 products a lane, added to f32.
 *
 * The products of a pair cancel, so that the sums stay as they are at any number of rounds. Twelve
 * sums: latency 6 x 2 units, more than any core known to us needs. */
#include <immintrin.h>

#include "worker/fma.h"

enum { SUMS = 12, LANES = 16 };

double attn_fma_bf16_avx512(int64_t rounds)
{
    /* bf16 is the upper half of f32: 0.5 is 0x3f00, 0.25 is 0x3e80 */
    __m512bh b = (__m512bh)_mm512_set1_epi32((int)0xbf003f00u);
    __m512bh c = (__m512bh)_mm512_set1_epi32(0x3e803e80);
    __asm__ volatile("" : "+v"(b), "+v"(c));
    __m512 a0 = _mm512_set1_ps(0.25f), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0;
    __m512 a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0, a11 = a0;
    for (int64_t r = 0; r < rounds; r++) {
        a0 = _mm512_dpbf16_ps(a0, b, c);
        a1 = _mm512_dpbf16_ps(a1, b, c);
        a2 = _mm512_dpbf16_ps(a2, b, c);
        a3 = _mm512_dpbf16_ps(a3, b, c);
        a4 = _mm512_dpbf16_ps(a4, b, c);
        a5 = _mm512_dpbf16_ps(a5, b, c);
        a6 = _mm512_dpbf16_ps(a6, b, c);
        a7 = _mm512_dpbf16_ps(a7, b, c);
        a8 = _mm512_dpbf16_ps(a8, b, c);
        a9 = _mm512_dpbf16_ps(a9, b, c);
        a10 = _mm512_dpbf16_ps(a10, b, c);
        a11 = _mm512_dpbf16_ps(a11, b, c);
        /* keeps every step of every sum alive */
        __asm__ volatile(""
                         : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5), "+v"(a6),
                           "+v"(a7), "+v"(a8), "+v"(a9), "+v"(a10), "+v"(a11));
    }
    return 2.0 * 2 * LANES * SUMS * (double)rounds;
}
