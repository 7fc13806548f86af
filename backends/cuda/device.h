/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - the built-ins of a GPU that the kernels use, and nothing else. Each is PTX here (sm_80
 * and later). tests/emulation.h has the same functions for the host and checks every access. A
 * shared address is a byte offset into the block's dynamic shared memory. */
#ifndef ATTN_CUDA_DEVICE_H
#define ATTN_CUDA_DEVICE_H

#include <stdint.h>

struct f16 {
    uint16_t bits;
};
struct bf16 {
    uint16_t bits;
};
struct chunk { /* 16 bytes, the unit of copies to shared memory */
    uint32_t word[4];
};

#ifdef ATTN_CUDA_EMULATION
#include "tests/emulation.h"
#else

#define DEVICE __device__ __forceinline__
#define DEVICE_CALL                                                                                \
    __device__ __noinline__ /* rarely called: keeps its registers out of the caller */
/* A bug that the emulation can switch on, to show that tests see it. Never here. */
#define PLANTED(name) false

DEVICE int thread_index()
{
    return (int)threadIdx.x;
}
DEVICE int block_x()
{
    return (int)blockIdx.x;
}
DEVICE int block_z()
{
    return (int)blockIdx.z;
}
DEVICE void barrier()
{
    __syncthreads();
}
/* The lanes of a warp meet. What a lane stored before lies before what another lane stores after.
 * Votes and shuffles alone do not order memory. */
DEVICE void warp_barrier()
{
    __syncwarp();
}
DEVICE uint32_t lanes_where(bool predicate)
{
    return __ballot_sync(0xffffffffu, predicate);
}
DEVICE int lowest_bit(uint32_t bits)
{
    return __ffs((int)bits) - 1;
}
DEVICE float shuffle(float value, int lane)
{
    return __shfl_sync(0xffffffffu, value, lane);
}
DEVICE float shuffle_xor(float value, int mask)
{
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

DEVICE uint32_t bits_of(float value)
{
    return __float_as_uint(value);
}
DEVICE float value_of(uint32_t bits)
{
    return __uint_as_float(bits);
}

/* ---- global memory ---- */

template <class T> DEVICE T load(const T *from)
{
    return *from;
}
template <class T> DEVICE void store(T *to, T value)
{
    *to = value;
}

/* ---- shared memory ---- */

/* The dynamic shared memory of a block starts here. Nothing else is in it. */
DEVICE uint32_t shared_base()
{
    extern __shared__ __align__(16) chunk attn_shared[];
    return (uint32_t)__cvta_generic_to_shared(attn_shared);
}
DEVICE chunk load_shared(uint32_t at)
{
    chunk c;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(c.word[0]), "=r"(c.word[1]), "=r"(c.word[2]), "=r"(c.word[3])
                 : "r"(shared_base() + at)
                 : "memory");
    return c;
}
DEVICE void store_shared(uint32_t at, chunk c)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "r"(shared_base() + at), "r"(c.word[0]), "r"(c.word[1]), "r"(c.word[2]),
                   "r"(c.word[3])
                 : "memory");
}

/* Copies 16 bytes from global to shared memory, asynchronously. If `wanted` is false, it writes
 * zeros and reads nothing. */
DEVICE void copy_async(uint32_t to, const void *from, bool wanted)
{
    const int bytes = wanted ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_base() + to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}
DEVICE void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits for this thread's own copies, except the latest `pending` groups. */
template <int pending> DEVICE void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

/* Four 8x8 matrices of 16-bit elements. Lane l gives row l%8 of matrix l/8. */
DEVICE void load_matrices(uint32_t (&r)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_base() + row)
                 : "memory");
}
DEVICE void load_matrices_transposed(uint32_t (&r)[4], uint32_t row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_base() + row)
                 : "memory");
}

/* ---- arithmetic ---- */

/* c[16x8] += a[16x16] b[16x8] in f32 */
DEVICE void multiply_add(f16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void multiply_add(bf16, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE float to_float(float value)
{
    return value;
}
DEVICE float to_float(f16 value)
{
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
    return wide;
}
DEVICE float to_float(bf16 value)
{
    return value_of((uint32_t)value.bits << 16);
}
/* Two elements in one register, the first in the low half, rounded to nearest even. */
DEVICE uint32_t pack(f16, float first, float second)
{
    uint32_t both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}
DEVICE uint32_t pack(bf16, float first, float second)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
}
/* 2^x with a relative error of 2^-22 (PTX manual). Subnormal results are kept. */
DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

DEVICE void narrow(float value, float &to)
{
    to = value;
}
template <class T> DEVICE void narrow(float value, T &to)
{
    to.bits = (uint16_t)pack(T(), value, 0.0f);
}

#endif
