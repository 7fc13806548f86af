/* SPDX-License-Identifier: Apache-2.0 */
/* vector_avx512_bf16.h - the operations on pairs of bf16 that flash_pack_pairs.h asks for, beside
 * those that move bits alone. Needs AVX512-BF16, BW and VL.
 *
 * vdpbf16ps takes subnormal operands for 0, gives 0 for subnormal results, rounds to nearest and
 * neither reads nor writes MXCSR (Intel's manual); vcvtneps2bf16 likewise. */
#ifndef ATTN_SIMD_VECTOR_AVX512_BF16_H
#define ATTN_SIMD_VECTOR_AVX512_BF16_H

#include "vector_avx512_pairs.h"

static inline vf vf_join_pairs(vf a, vf b, vf sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

static inline void vf_store_pairs(uint16_t *p, vf low, vf high)
{
    _mm512_storeu_si512(p, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

#endif
