/* SPDX-License-Identifier: Apache-2.0 */
/* device_hopper.h - the built-ins of sm_90a beside those of device.h: copies of boxes by the tensor
 * memory accelerator, barriers that count bytes, products of warpgroups (wgmma). Shared addresses
 * are byte offsets, as there. */
#ifndef ATTN_CUDA_DEVICE_HOPPER_H
#define ATTN_CUDA_DEVICE_HOPPER_H

#include "args.h"
#include "device.h"

#ifdef ATTN_CUDA_EMULATION
#include "tests/emulation_hopper.h"
#else

/* ---- barriers in shared memory: a phase ends when all arrivals and all bytes have come ---- */

DEVICE void phase_init(uint32_t at, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :
                 : "r"(shared_base() + at), "r"(arrivals)
                 : "memory");
}
/* Copies and other threads see the barriers that this thread has made, after the next barrier(). */
DEVICE void phase_init_done()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
DEVICE void phase_arrive(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_base() + at) : "memory");
}
/* Arrives, and announces bytes that copies will bring. */
DEVICE void phase_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_base() + at), "r"(bytes)
                 : "memory");
}
/* Waits until the phase of this parity has ended. The phase before the first counts as ended. */
DEVICE void phase_wait(uint32_t at, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "WAIT:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@ended bra ENDED;\n"
                 "bra WAIT;\n"
                 "ENDED:\n"
                 "}"
                 :
                 : "r"(shared_base() + at), "r"(parity)
                 : "memory");
}

/* ---- barriers of some warps, by number; 0 is barrier() ---- */

DEVICE void meet(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" : : "r"(number), "r"(threads) : "memory");
}
DEVICE void announce(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" : : "r"(number), "r"(threads) : "memory");
}

/* ---- copies ---- */

/* Copies the box of a map whose first element is (column, row, head, batch). What lies outside the
 * tensor becomes zero. One thread issues it. `phase` counts its bytes. */
DEVICE void copy_box(uint32_t to, const attn_cuda_map &map, int column, int row, int head,
                     int batch, uint32_t phase)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];"
                 :
                 : "r"(shared_base() + to), "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch),
                   "r"(shared_base() + phase)
                 : "memory");
}

/* ---- registers of the threads of a warpgroup ---- */

template <int registers> DEVICE void registers_down()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(registers));
}
template <int registers> DEVICE void registers_up()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(registers));
}

/* ---- products of a warpgroup ---- */

/* Registers written before are read by products after. */
DEVICE void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* All but the latest `pending` groups have ended. */
template <int pending> DEVICE void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}
/* The compiler may not move what uses these across this point. */
template <int count> DEVICE void pin(float (&values)[count])
{
#pragma unroll
    for (int n = 0; n < count; n++)
        asm volatile("" : "+f"(values[n])::"memory");
}
template <int count> DEVICE void pin(uint32_t (&values)[count])
{
#pragma unroll
    for (int n = 0; n < count; n++)
        asm volatile("" : "+r"(values[n])::"memory");
}

#define REGISTERS_0_31                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "        \
    "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REGISTERS_32_63                                                                            \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, "        \
    "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_64_87                                                                            \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, "        \
    "%81, %82, %83, %84, %85, %86, %87"
#define REGISTERS_32 REGISTERS_0_31
#define REGISTERS_64 REGISTERS_0_31 ", " REGISTERS_32_63
#define REGISTERS_88 REGISTERS_64 ", " REGISTERS_64_87
#define IN_OUT_8(c, n)                                                                             \
    "+f"(c[n]), "+f"(c[n + 1]), "+f"(c[n + 2]), "+f"(c[n + 3]), "+f"(c[n + 4]), "+f"(c[n + 5]),    \
        "+f"(c[n + 6]), "+f"(c[n + 7])
#define IN_OUT_24(c, n) IN_OUT_8(c, n), IN_OUT_8(c, n + 8), IN_OUT_8(c, n + 16)
#define IN_OUT_32(c)    IN_OUT_24(c, 0), IN_OUT_8(c, 24)
#define IN_OUT_64(c)    IN_OUT_32(c), IN_OUT_24(c, 32), IN_OUT_8(c, 56)
#define IN_OUT_88(c)    IN_OUT_64(c), IN_OUT_24(c, 64)

/* c[64 x 2 COUNT] (+)= a b^T: a and b in shared memory, rows of both have the summed axis. A, B and
 * ADDS are the operands that follow those of c. */
#define MULTIPLY_SHARED(TYPE, N, COUNT, A, B, ADDS)                                                \
    DEVICE void multiply_shared(TYPE, float(&c)[COUNT], uint64_t a, uint64_t b, bool adds)         \
    {                                                                                              \
        asm volatile("{\n"                                                                         \
                     ".reg .pred adds;\n"                                                          \
                     "setp.ne.b32 adds, " ADDS ", 0;\n"                                            \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE             \
                     " {" REGISTERS_##COUNT "}, " A ", " B ", adds, 1, 1, 0, 0;\n"                 \
                                            "}"                                                    \
                     : IN_OUT_##COUNT(c)                                                           \
                     : "l"(a), "l"(b), "r"((int)adds)                                              \
                     : "memory");                                                                  \
    }
MULTIPLY_SHARED(f16, 128, 64, "%64", "%65", "%66")
MULTIPLY_SHARED(bf16, 128, 64, "%64", "%65", "%66")
MULTIPLY_SHARED(f16, 176, 88, "%88", "%89", "%90")
MULTIPLY_SHARED(bf16, 176, 88, "%88", "%89", "%90")
#undef MULTIPLY_SHARED

/* c[64 x 2 COUNT] += a b: a in registers, rows of b are the summed axis. A and B are the operands
 * that follow those of c. */
#define MULTIPLY_REGISTERS(TYPE, N, COUNT, A, B)                                                   \
    DEVICE void multiply_registers(TYPE, float(&c)[COUNT], const uint32_t *a, uint64_t b)          \
    {                                                                                              \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE             \
                     " {" REGISTERS_##COUNT "}, {" A "}, " B ", 1, 1, 1, 1;\n"                     \
                     : IN_OUT_##COUNT(c)                                                           \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)                          \
                     : "memory");                                                                  \
    }
MULTIPLY_REGISTERS(f16, 64, 32, "%32, %33, %34, %35", "%36")
MULTIPLY_REGISTERS(bf16, 64, 32, "%32, %33, %34, %35", "%36")
MULTIPLY_REGISTERS(f16, 128, 64, "%64, %65, %66, %67", "%68")
MULTIPLY_REGISTERS(bf16, 128, 64, "%64, %65, %66, %67", "%68")
#undef MULTIPLY_REGISTERS

/* 2^x as exp2_fast; subnormal results become 0, which saves three instructions. */
DEVICE float exp2_flushed(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

/* Where a product finds an operand in shared memory, in the layout with swizzle of 128 bytes. Rows
 * have 128 bytes; eight of them, at a multiple of 1024 bytes, are a unit. Without transposition
 * the rows are those of the operand, with 64 elements of the summed axis each. With it they are the
 * summed axis, with 64 elements of the other; the next 64 lie `leading` bytes further. */
DEVICE uint64_t operand_at(uint32_t at, uint32_t leading)
{
    return (uint64_t)((shared_base() + at) >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}

#endif
