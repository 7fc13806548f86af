/* SPDX-License-Identifier: Apache-2.0 */
/* amx_probe.h - whether a machine runs the AMX rung. */
#ifndef ATTN_SIMD_AMX_PROBE_H
#define ATTN_SIMD_AMX_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct attn_amx_machine {
    bool avx512;     /* AVX-512 F, BW, VL and BF16, as the compiler's own test has it */
    bool tile, bf16; /* CPUID leaf 7.0, EDX bits 24 and 22 */
    uint64_t xcr0;   /* what the system saves; 0 where it does not say */
    bool permitted;  /* the system gives this process the tile registers */
};

/* Asks the processor and the system. Linux wants to be asked for the tiles by each process, once
 * for all of its threads, because they make signal frames 8 KiB larger: alternative stacks must
 * have room for those by then. */
struct attn_amx_machine attn_amx_ask(void);

/* The first thing that is missing, as a sentence, or NULL. */
const char *attn_amx_missing(const struct attn_amx_machine *machine);

#endif
