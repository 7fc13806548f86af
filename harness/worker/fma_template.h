/* SPDX-License-Identifier: Apache-2.0 */
/* fma_template.h - a loop that only multiplies and adds in registers.
 *
 * An instance sets, before it includes this file, once for each element type:
 *   FMA_NAME      name of the function
 *   FMA_TYPE      float or double
 *   FMA_BYTES     width of a vector register
 *   FMA_REGISTER  constraint of that register class
 * It is compiled with the flags of its ISA; acc * b + c contracts to one instruction if there is
 * one. Twelve accumulators do not wait for each other: they cover a latency of 4 or 5 with 2 units,
 * and use 14 of the 16 registers of the smallest ISA. They are separate variables, because an array
 * would stay in memory. The empty assembler statement keeps every step of each of them. */
double FMA_NAME(int64_t rounds)
{
    typedef FMA_TYPE vector __attribute__((vector_size(FMA_BYTES)));
    /* acc converges to c / (1 - b): neither overflow nor subnormals, at any number of rounds. */
    vector b = (vector){0} + (FMA_TYPE)0.5, c = (vector){0} + (FMA_TYPE)0.25;
    __asm__ volatile("" : "+" FMA_REGISTER(b), "+" FMA_REGISTER(c));
    vector a0 = c, a1 = c, a2 = c, a3 = c, a4 = c, a5 = c;
    vector a6 = c, a7 = c, a8 = c, a9 = c, a10 = c, a11 = c;
    for (int64_t r = 0; r < rounds; r++) {
        a0 = a0 * b + c;
        a1 = a1 * b + c;
        a2 = a2 * b + c;
        a3 = a3 * b + c;
        a4 = a4 * b + c;
        a5 = a5 * b + c;
        a6 = a6 * b + c;
        a7 = a7 * b + c;
        a8 = a8 * b + c;
        a9 = a9 * b + c;
        a10 = a10 * b + c;
        a11 = a11 * b + c;
        __asm__ volatile(""
                         : "+" FMA_REGISTER(a0), "+" FMA_REGISTER(a1), "+" FMA_REGISTER(a2),
                           "+" FMA_REGISTER(a3), "+" FMA_REGISTER(a4), "+" FMA_REGISTER(a5),
                           "+" FMA_REGISTER(a6), "+" FMA_REGISTER(a7), "+" FMA_REGISTER(a8),
                           "+" FMA_REGISTER(a9), "+" FMA_REGISTER(a10), "+" FMA_REGISTER(a11));
    }
    const int lanes = FMA_BYTES / sizeof(FMA_TYPE);
    return 2.0 * 12 * (double)rounds * lanes;
}

#undef FMA_NAME
#undef FMA_TYPE
