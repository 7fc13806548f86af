/* SPDX-License-Identifier: Apache-2.0 */
/* micro.c - the inner loops, for gcc to vectorise on the processor that is found. */
#include <math.h>

#include "rogue.h"

/* As in reference/clones.h. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "fma", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));

FOR_EACH_PROCESSOR
void rogue_product(int64_t rows, int64_t inner, int64_t columns, const float *a, int64_t a_step,
                   const float *b, int64_t b_step, float *c, int64_t c_step)
{
    for (int64_t n = 0; n < columns; n += COLUMNS)
        for (int64_t r = 0; r < rows; r += 4) {
            float *const to = c + r * c_step + n;
            const float *const from = a + r * a_step;
            lanes c00 = *(const lanes *)(to), c01 = *(const lanes *)(to + 8);
            lanes c10 = *(const lanes *)(to + c_step), c11 = *(const lanes *)(to + c_step + 8);
            lanes c20 = *(const lanes *)(to + 2 * c_step),
                  c21 = *(const lanes *)(to + 2 * c_step + 8);
            lanes c30 = *(const lanes *)(to + 3 * c_step),
                  c31 = *(const lanes *)(to + 3 * c_step + 8);
            for (int64_t i = 0; i < inner; i++) {
                const lanes b0 = *(const lanes *)(b + i * b_step + n);
                const lanes b1 = *(const lanes *)(b + i * b_step + n + 8);
                const float a0 = from[i], a1 = from[a_step + i];
                const float a2 = from[2 * a_step + i], a3 = from[3 * a_step + i];
                c00 += a0 * b0, c01 += a0 * b1;
                c10 += a1 * b0, c11 += a1 * b1;
                c20 += a2 * b0, c21 += a2 * b1;
                c30 += a3 * b0, c31 += a3 * b1;
            }
            *(lanes *)(to) = c00, *(lanes *)(to + 8) = c01;
            *(lanes *)(to + c_step) = c10, *(lanes *)(to + c_step + 8) = c11;
            *(lanes *)(to + 2 * c_step) = c20, *(lanes *)(to + 2 * c_step + 8) = c21;
            *(lanes *)(to + 3 * c_step) = c30, *(lanes *)(to + 3 * c_step + 8) = c31;
        }
}

FOR_EACH_PROCESSOR
float rogue_largest_of(const float *s, int64_t n)
{
    float lane[COLUMNS], largest;
    for (int l = 0; l < COLUMNS; l++)
        lane[l] = -INFINITY;
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int l = 0; l < COLUMNS; l++)
            lane[l] = s[j + l] > lane[l] ? s[j + l] : lane[l];
    largest = lane[0];
    for (int l = 1; l < COLUMNS; l++)
        largest = lane[l] > largest ? lane[l] : largest;
    return largest;
}

/* exp by x = n ln 2 + r, |r| <= ln 2 / 2, and the Taylor polynomial of degree 7 in r, whose
 * remainder is below 6e-9. 2^n is applied in two factors, so results that are subnormal are
 * rounded once. Below -110 exp is 0 in f32. */
static inline __attribute__((always_inline)) float exp_inline(float x)
{
    const float least = -110, most = 90;
    const float clamped = x < least ? least : x > most ? most : x;
    const float shifted = clamped * 1.44269504f + 0x1.8p23f;
    const int32_t n = (int32_t)(attn_f32_bits(shifted) - 0x4b400000u);
    const float whole = shifted - 0x1.8p23f;
    const float r = (clamped - whole * 0x1.62ep-1f) - whole * 0x1.0bfbe8p-15f;
    float y = 1 / 5040.f;
    y = y * r + 1 / 720.f;
    y = y * r + 1 / 120.f;
    y = y * r + 1 / 24.f;
    y = y * r + 1 / 6.f;
    y = y * r + 0.5f;
    y = (y * r) * r + r + 1;
    const int32_t half = n >> 1, rest = n - half;
    y = y * attn_f32_of_bits((uint32_t)(half + 127) << 23) *
        attn_f32_of_bits((uint32_t)(rest + 127) << 23);
    return x != x ? x : y;
}

FOR_EACH_PROCESSOR
float rogue_exp(float x)
{
    return exp_inline(x);
}

FOR_EACH_PROCESSOR
float rogue_exp_row(float *s, float maximum, int64_t n)
{
    float lane[COLUMNS] = {0}, sum = 0;
    for (int64_t j = 0; j < n; j += COLUMNS)
        for (int l = 0; l < COLUMNS; l++) {
            s[j + l] = exp_inline(s[j + l] - maximum);
            lane[l] += s[j + l];
        }
    for (int l = 0; l < COLUMNS; l++)
        sum += lane[l];
    return sum;
}

FOR_EACH_PROCESSOR
void rogue_scale_row(float *row, float factor, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        row[c] *= factor;
}

FOR_EACH_PROCESSOR
bool rogue_finite(const float *x, int64_t n)
{
    uint32_t largest = 0;
    for (int64_t c = 0; c < n; c++) {
        const uint32_t bits = attn_f32_bits(x[c]) & 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest < 0x7f800000u;
}
