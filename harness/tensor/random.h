/* SPDX-License-Identifier: Apache-2.0 */
/* random.h - elementary functions whose bits do not depend on the machine's math library.
 *
 * Only additions, multiplications, divisions and square roots of IEEE doubles are used, each
 * rounded once (the file is compiled without contraction), so every machine gives the same bits. */
#ifndef ATTN_RANDOM_H
#define ATTN_RANDOM_H

#include <stdint.h>

/* Natural logarithm of a normal x > 0, within 2 ulp. */
double attn_random_log(double x);

/* cos(2 pi turns) for 0 <= turns < 1, within 3 ulp (also relative to small values near its zeros).
 */
double attn_random_cos_turns(double turns);

/* 2^-(numerator / 2^log2_denominator), numerator >= 0, within 16 ulp; exact if it is a power of
 * two. */
double attn_random_exp2_neg(unsigned numerator, unsigned log2_denominator);

/* One N(0,1) number of the stream {seed, role} at `index`: Philox4x32-10, Box-Muller in double with
 * our own log and sincos. */
double attn_random_normal(uint64_t seed, uint32_t role, uint64_t index);
double attn_random_uniform(uint64_t seed, uint32_t role, uint64_t index); /* [0,1) */

/* Makes rows of `width` N(0,1) numbers, one after the other, alike: each is `like` times the one
 * before and sqrt(1 - like^2) times itself, so that it stays N(0,1). 0 <= like < 1. */
void attn_random_smooth(double *rows, int64_t count, int64_t width, double like);

/* attn_random_uniform and attn_random_normal for a run of indices, with the same bits, but several
 * at a time. */
enum { ATTN_RANDOM_RUN = 64 };
void attn_random_uniforms(uint64_t seed, uint32_t role, uint64_t first,
                          double values[ATTN_RANDOM_RUN]);
void attn_random_normals(uint64_t seed, uint32_t role, uint64_t first,
                         double values[ATTN_RANDOM_RUN]);

#endif
