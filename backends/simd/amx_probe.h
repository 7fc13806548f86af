/* SPDX-License-Identifier: Apache-2.0 */
/* amx_probe.h - whether a machine runs the AMX rung. */
#ifndef ATTN_SIMD_AMX_PROBE_H
#define ATTN_SIMD_AMX_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct attn_amx_machine {
    bool avx512;     /* AVX-512 F, BW, VL and BF16, by the compiler's own test */
    bool tile, bf16; /* CPUID leaf 7.0, EDX bits 24 and 22 */
    uint64_t xcr0;   /* what the system saves; 0 if it does not say */
    bool permitted;  /* the system gives this process the tiles */
};

/* Asks the processor and the system. On Linux a process must ask for the tiles, once for all of its
 * threads. They make signal frames 8 KiB larger, and alternative signal stacks must have room. */
struct attn_amx_machine attn_amx_ask(void);

/* A sentence about the first thing that is missing, or NULL. */
const char *attn_amx_missing(const struct attn_amx_machine *machine);

#endif
