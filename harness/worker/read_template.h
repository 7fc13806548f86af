/* SPDX-License-Identifier: Apache-2.0 */
/* read_template.h - a plain read, with the widest loads of an ISA.
 *
 * An instance sets READ_NAME, the name of the function, and FMA_BYTES, the width of a vector
 * register. Eight sums do not wait for each other. The additions do not displace loads. */
uint64_t READ_NAME(const void *from, size_t bytes)
{
    typedef uint64_t vector __attribute__((vector_size(FMA_BYTES)));
    const vector *at = from;
    vector s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, s4 = {0}, s5 = {0}, s6 = {0}, s7 = {0};
    for (size_t i = 0; i < bytes / sizeof(vector); i += 8) {
        s0 += at[i];
        s1 += at[i + 1];
        s2 += at[i + 2];
        s3 += at[i + 3];
        s4 += at[i + 4];
        s5 += at[i + 5];
        s6 += at[i + 6];
        s7 += at[i + 7];
    }
    s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
    uint64_t sum = 0;
    for (size_t l = 0; l < FMA_BYTES / sizeof(sum); l++)
        sum += s0[l];
    return sum;
}

#undef READ_NAME
