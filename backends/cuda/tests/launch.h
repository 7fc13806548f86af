/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - between the parts of the emulation: fibers.cpp runs a block, memory.cpp checks what it
 * touches, warp.cpp does what a warp does together. */
#ifndef ATTN_CUDA_LAUNCH_H
#define ATTN_CUDA_LAUNCH_H

#include <stdint.h>
#include <stdlib.h>

#include "../device.h"

/* Ends the launch. */
[[noreturn]] void emulated_violation(const char *sentence);

/* Runs one block of `count` threads; emulated_current names it. NULL, or what is wrong. */
const char *emulated_run_block(emulated_kernel *function, const void *args, int count);

/* All 32 lanes of the warp whose first thread is `base` have brought their operands. */
void emulated_operate(warp_operation operation, int base, lane_operands *const *lanes);

/* To f32 as tensor cores do: what does not fit is cut off. */
float emulated_cut(double value);

/* Nothing has been written to global memory yet. */
void emulated_launch_begin();

/* Fresh shared memory of a block. */
void emulated_shared_reset(uint32_t bytes, int threads);

/* The lanes of the warp from thread `base` on have met. */
void emulated_warp_met(int base);

/* NULL, or what a block that has ended leaves under way. */
const char *emulated_block_left();

/* A row of ldmatrix, read on behalf of a thread. */
void emulated_shared_read_by(int thread, uint32_t at, void *to, size_t bytes);

/* All warps have come to the barrier: what was written before it can be read after it. */
void emulated_open_barrier();

#endif
