/* SPDX-License-Identifier: Apache-2.0 */
/* random.c - random numbers with the same bits on every machine (see random.h, instance.h). */
#include "tensor/random.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "reference/clones.h"
#include "reference/philox.h"

/* ln 2 in two parts: the first has 32 bits, so that its product with an exponent is exact. */
static const double ln2_high = 0x1.62e42feep-1;
static const double ln2_low = 0x1.a39ef35793c76p-33;
static const double two_pi = 0x1.921fb54442d18p+2;

/* atanh(s) = s (1 + z (1/3 + z/5 + ...)), z = s^2 */
static const double atanh_terms[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                                     1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};

/* Taylor terms after the first, in z = x^2, for |x| <= pi/4. The rest is below 2^-58. */
static const double sin_terms[] = {
    -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double cos_terms[] = {-1.0 / 2,
                                   1.0 / 24,
                                   -1.0 / 720,
                                   1.0 / 40320,
                                   -1.0 / 3628800,
                                   1.0 / 479001600,
                                   -1.0 / 87178291200,
                                   1.0 / 20922789888000,
                                   -1.0 / 6402373705728000};

/* The functions that draw runs are also built for wider vectors. Lanes are independent and nothing
 * is contracted, so the bits are the same. */
#define WIDER  ATTN_CLONES("avx512f", "avx2")
#define INLINE static inline __attribute__((always_inline))

INLINE double horner(double z, const double *terms, size_t count)
{
    double sum = terms[count - 1];
    for (size_t k = count - 1; k-- > 0;)
        sum = sum * z + terms[k];
    return sum;
}

INLINE double log_of(double x)
{
    /* x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1) */
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & ((1ull << 52) - 1)) | 1023ull << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    const int above = m >= 0x1.6a09e667f3bcdp+0;
    m = above ? m * 0.5 : m;
    exponent += above;
    /* |s| <= 0.1716: the first term left out, z^12 / 25, is below 2^-63 of the first. */
    const double f = m - 1.0; /* exact */
    const double s = f / (m + 1.0);
    const double z = s * s;
    const double sum = horner(z, atanh_terms, sizeof atanh_terms / sizeof atanh_terms[0]);
    /* 2 s = f - s f exactly, and f is exact: the leading term carries no rounding of s. */
    const double tail = 2.0 * s * (z * sum) - s * f;
    return exponent * ln2_high + (f + (tail + exponent * ln2_low));
}

double attn_random_log(double x)
{
    return log_of(x);
}

INLINE double cos_of_turns(double turns)
{
    const int quarter = (int)(4.0 * turns + 0.5);
    const double x = (turns - 0.25 * quarter) * two_pi; /* the difference is exact */
    const double z = x * x;
    const double sine =
        -(x + x * (z * horner(z, sin_terms, sizeof sin_terms / sizeof sin_terms[0])));
    const double cosine = 1.0 + z * horner(z, cos_terms, sizeof cos_terms / sizeof cos_terms[0]);
    const double value = quarter & 1 ? sine : cosine;
    return quarter & 2 ? -value : value;
}

double attn_random_cos_turns(double turns)
{
    return cos_of_turns(turns);
}

double attn_random_exp2_neg(unsigned numerator, unsigned log2_denominator)
{
    double result = 1.0, root = 0.5; /* root is 2^-(1/2^k) */
    const unsigned whole = numerator >> log2_denominator;
    for (unsigned k = 1; k <= log2_denominator; k++) {
        root = sqrt(root);
        if (numerator >> (log2_denominator - k) & 1)
            result *= root;
    }
    return ldexp(result, -(int)whole);
}

/* Two words as a fraction of 53 bits in [0, 1). */
INLINE double fraction(uint32_t low, uint32_t high)
{
    return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53;
}

static void draw(uint64_t seed, uint32_t role, uint64_t index, uint32_t words[4])
{
    const uint32_t key[2] = {(uint32_t)seed, role};
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)(seed >> 32),
                                 0};
    attn_philox4x32(counter, key, words);
}

/* Box-Muller; 1 - fraction lies in (0, 1]: the logarithm is finite. */
INLINE double normal_of(double radius_fraction, double turns)
{
    return sqrt(-2.0 * log_of(1.0 - radius_fraction)) * cos_of_turns(turns);
}

double attn_random_uniform(uint64_t seed, uint32_t role, uint64_t index)
{
    uint32_t words[4];
    draw(seed, role, index, words);
    return fraction(words[0], words[1]);
}

double attn_random_normal(uint64_t seed, uint32_t role, uint64_t index)
{
    uint32_t words[4];
    draw(seed, role, index, words);
    return normal_of(fraction(words[0], words[1]), fraction(words[2], words[3]));
}

/* The same words for a run of indices, by word. */
INLINE void draw_run(uint64_t seed, uint32_t role, uint64_t first,
                     uint32_t words[4][ATTN_RANDOM_RUN])
{
    const uint32_t key[2] = {(uint32_t)seed, role};
    for (int l = 0; l < ATTN_RANDOM_RUN; l++) {
        const uint64_t index = first + (uint64_t)l;
        const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32),
                                     (uint32_t)(seed >> 32), 0};
        uint32_t drawn[4];
        attn_philox4x32_inline(counter, key, drawn);
        for (int w = 0; w < 4; w++)
            words[w][l] = drawn[w];
    }
}

WIDER void attn_random_uniforms(uint64_t seed, uint32_t role, uint64_t first,
                                double values[ATTN_RANDOM_RUN])
{
    uint32_t words[4][ATTN_RANDOM_RUN];
    draw_run(seed, role, first, words);
    for (int l = 0; l < ATTN_RANDOM_RUN; l++)
        values[l] = fraction(words[0][l], words[1][l]);
}

WIDER void attn_random_normals(uint64_t seed, uint32_t role, uint64_t first,
                               double values[ATTN_RANDOM_RUN])
{
    uint32_t words[4][ATTN_RANDOM_RUN];
    draw_run(seed, role, first, words);
    for (int l = 0; l < ATTN_RANDOM_RUN; l++)
        values[l] =
            normal_of(fraction(words[0][l], words[1][l]), fraction(words[2][l], words[3][l]));
}

void attn_random_smooth(double *rows, int64_t count, int64_t width, double like)
{
    const double own = sqrt(1.0 - like * like);
    for (int64_t at = width; at < count * width; at++)
        rows[at] = like * rows[at - width] + own * rows[at];
}
