/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - what the parts of the emulation share. fibers.cpp runs a block, memory.cpp checks its
 * accesses, warp.cpp computes the operations of a warp. */
#ifndef ATTN_CUDA_LAUNCH_H
#define ATTN_CUDA_LAUNCH_H

#include <stdint.h>
#include <stdlib.h>

#include "../device.h"

/* Ends the launch. */
[[noreturn]] void emulated_violation(const char *sentence);

/* Runs one block of `count` threads. emulated_current names the block. Returns NULL, or a sentence
 * that says what is wrong. */
const char *emulated_run_block(emulated_kernel *function, const void *args, int count);

/* All 32 lanes of the warp whose first thread is `base` have brought their operands. */
void emulated_operate(warp_operation operation, int base, lane_operands *const *lanes);

/* Rounds to f32 toward zero, as tensor cores do. */
float emulated_cut(double value);

/* Forgets who has written to global memory: a launch begins. */
void emulated_launch_begin();

/* Gives a block new shared memory. */
void emulated_shared_reset(uint32_t bytes, int threads);

/* The lanes of the warp from thread `base` on have met. */
void emulated_warp_met(int base);

/* Lets other warps run, for a lane that waits for them. */
void emulated_yield();

/* Two bytes or more of shared memory, without checks but that they are there. */
unsigned char *emulated_shared_at(uint32_t at);

/* hopper.cpp: as above, for the built-ins of sm_90a. */
void emulated_hopper_reset(uint32_t bytes, int threads);
void emulated_hopper_barrier();
const char *emulated_hopper_left();
void emulated_hopper_operate(warp_operation operation, int base, lane_operands *const *lanes);

/* For a block that has ended: NULL, or a sentence about copies that nobody has waited for. */
const char *emulated_block_left();

/* Reads a row of ldmatrix for a thread. */
void emulated_shared_read_by(int thread, uint32_t at, void *to, size_t bytes);

/* All warps have reached the barrier. What was written before it can be read after it. */
void emulated_open_barrier();

#endif
