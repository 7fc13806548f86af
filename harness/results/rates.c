/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c - binomial limits, and simulated series of pairs. */
#include "results/rates.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "results/paired.h"

#define CONFIDENCE_TAIL 0.05

double attn_binomial_at_most(size_t k, size_t n, double p)
{
    if (k >= n || p <= 0)
        return 1;
    if (p >= 1)
        return 0;
    double sum = 0;
    for (size_t i = 0; i <= k; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) +
                   (double)i * log(p) + (double)(n - i) * log1p(-p));
    return sum < 1 ? sum : 1;
}

double attn_binomial_at_least(size_t k, size_t n, double p)
{
    return k == 0 ? 1 : k > n ? 0 : attn_binomial_at_most(n - k, n, 1 - p);
}

double attn_rate_most(size_t k, size_t n)
{
    double lo = 0, hi = 1;
    if (k >= n)
        return 1;
    for (int i = 0; i < 60; i++) {
        const double p = (lo + hi) / 2;
        *(attn_binomial_at_most(k, n, p) > CONFIDENCE_TAIL ? &lo : &hi) = p;
    }
    return hi;
}

double attn_rate_least(size_t k, size_t n)
{
    return k == 0 ? 0 : 1 - attn_rate_most(n - k, n);
}

/* ---- resolution ---- */

enum { SERIES = 200, HALVINGS = 10 };
#define FOUND 0.95

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* The same draws for every effect, so that a larger one is found more often. */
static bool is_found(const double *off, size_t n, double margin, double effect)
{
    uint64_t random = 1;
    int found = 0;
    for (int s = 0; s < SERIES; s++) {
        struct attn_paired paired;
        uint64_t draws = next_random(&random);
        attn_paired_begin(&paired, margin);
        while (paired.verdict == ATTN_PAIRED_GO_ON)
            attn_paired_add(&paired, effect + off[next_random(&draws) % n]);
        found += paired.verdict == ATTN_PAIRED_SLOWER;
    }
    return found >= FOUND * SERIES;
}

double attn_paired_resolves(const double *off, size_t n, double margin)
{
    double lo = margin, step = 0.01;
    if (n < ATTN_PAIRS_LEAST)
        return NAN;
    for (; !is_found(off, n, margin, lo + step); step *= 2)
        if (step > 100)
            return INFINITY;
    double hi = lo + step;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (lo + hi) / 2;
        *(is_found(off, n, margin, middle) ? &hi : &lo) = middle;
    }
    return hi;
}
