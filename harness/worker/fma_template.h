/* SPDX-License-Identifier: Apache-2.0 */
/* fma_template.h - a loop that does nothing but multiply and add in registers.
 *
 * An instance sets, before it includes this file, once for each element type:
 *   FMA_NAME      name of the function
 *   FMA_TYPE      float or double
 *   FMA_BYTES     width of a vector register
 *   FMA_CHAINS    independent accumulators: at least latency x units (4 or 5 x 2), and at most the
 *                 registers there are less two
 *   FMA_REGISTER  constraint of that register class
 * and is compiled with the flags of its ISA; acc * b + c contracts to one instruction where there
 * is one. The empty assembler statement keeps each accumulator in a register and each step alive.
 */
double FMA_NAME(int64_t rounds)
{
    typedef FMA_TYPE vector __attribute__((vector_size(FMA_BYTES)));
    /* acc converges to c / (1 - b): neither overflow nor subnormals, at any number of rounds. */
    vector acc[FMA_CHAINS], b = (vector){0} + (FMA_TYPE)0.5, c = (vector){0} + (FMA_TYPE)0.25;
    __asm__ volatile("" : "+" FMA_REGISTER(b), "+" FMA_REGISTER(c));
    for (int i = 0; i < FMA_CHAINS; i++)
        acc[i] = c;
    for (int64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 32
        for (int i = 0; i < FMA_CHAINS; i++) {
            acc[i] = acc[i] * b + c;
            __asm__ volatile("" : "+" FMA_REGISTER(acc[i]));
        }
    }
    return 2.0 * (double)rounds * FMA_CHAINS * (FMA_BYTES / sizeof(FMA_TYPE));
}

#undef FMA_NAME
#undef FMA_TYPE
