/* SPDX-License-Identifier: Apache-2.0 */
/* amx_probe.c - see amx_probe.h
 *
 * CPUID is asked directly: __builtin_cpu_supports does not know AMX in every compiler. */
#include "amx_probe.h"

#include <cpuid.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OSXSAVE              (1u << 27) /* leaf 1, ECX: XGETBV may be used */
#define AMX_BF16             (1u << 22) /* leaf 7.0, EDX */
#define AMX_TILE             (1u << 24)
#define XTILE                (UINT64_C(3) << 17) /* XCR0: tile configuration and tile data */
#define XTILE_DATA           18
#define REQUEST_XCOMP_PERMIT 0x1023 /* ARCH_REQ_XCOMP_PERM of asm/prctl.h, since Linux 5.16 */

static uint64_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

struct attn_amx_machine attn_amx_ask(void)
{
    unsigned a, b, c, d;
    struct attn_amx_machine machine = {0};
    machine.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
    if (__get_cpuid(1, &a, &b, &c, &d) && c & OSXSAVE)
        machine.xcr0 = read_xcr0();
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        machine.tile = d & AMX_TILE;
        machine.bf16 = d & AMX_BF16;
    }
    if (machine.tile && (machine.xcr0 & XTILE) == XTILE)
        machine.permitted = syscall(SYS_arch_prctl, REQUEST_XCOMP_PERMIT, XTILE_DATA) == 0;
    return machine;
}

const char *attn_amx_missing(const struct attn_amx_machine *machine)
{
    if (!machine->avx512)
        return "this processor, or the system on it, offers no AVX-512 with BF16";
    if (!machine->tile)
        return "this processor has no AMX tiles";
    if (!machine->bf16)
        return "the AMX of this processor has no products of bf16";
    if ((machine->xcr0 & XTILE) != XTILE)
        return "the system does not save the AMX tiles of this processor";
    if (!machine->permitted)
        return "the system does not give this process the AMX tiles (Linux 5.16 or later does)";
    return NULL;
}
