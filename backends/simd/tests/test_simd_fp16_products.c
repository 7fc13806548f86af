/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_fp16_products.c - the emulated instruction against integers of 128 bits, which hold
 * every sum exactly; and over it the two products of the AVX512-FP16 rung, bit by bit, against
 * loops that round where the rung declares it: operands flush against guard pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include TEST_INSTANCE /* its source: tests what is static */

#include <cmocka.h>

#include "guarded.h"

static uint64_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* A finite f16 in units of 2^-24. */
static int64_t units_of(uint16_t x)
{
    return (int64_t)((double)attn_f32_of_f16(x) * 0x1p24);
}

/* magnitude * 2^-48 as f16, to nearest even. */
static uint16_t round_once(unsigned __int128 magnitude)
{
    int shift = 24; /* of the last bit that f16 holds: of subnormals, or ten below the first */
    while (magnitude >> shift >> 11)
        shift++;
    unsigned __int128 kept = magnitude >> shift, rest = magnitude - (kept << shift);
    unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
    kept += rest > half || (rest == half && kept % 2);
    return attn_f16_of_f32((float)ldexp((double)kept, shift - 48)); /* exact, or infinity */
}

/* a*b + c in f16, rounded once. */
static uint16_t multiply_add(uint16_t a, uint16_t b, uint16_t c)
{
    float x = attn_f32_of_f16(a), y = attn_f32_of_f16(b), z = attn_f32_of_f16(c);
    if (!isfinite(x) || !isfinite(y) || !isfinite(z))
        return attn_f16_of_f32(x * y + z);
    __int128 sum = (__int128)units_of(a) * units_of(b) + (__int128)units_of(c) * (1 << 24);
    if (sum == 0)
        return x * y == 0.0f && signbit(x * y) && signbit(z) ? 0x8000 : 0;
    uint16_t rounded = round_once((unsigned __int128)(sum < 0 ? -sum : sum));
    return (uint16_t)(rounded | (sum < 0 ? 0x8000 : 0));
}

static bool same(uint16_t got, uint16_t want)
{
    return got == want || (isnan(attn_f32_of_f16(got)) && isnan(attn_f32_of_f16(want)));
}

/* The second addend of a product: anything, what nearly cancels it, or what it barely changes. */
static uint16_t draw_addend(uint16_t a, uint16_t b)
{
    float product = attn_f32_of_f16(a) * attn_f32_of_f16(b);
    switch (draw(4)) {
    case 0:
        return (uint16_t)(attn_f16_of_f32(-product) + draw(5) - 2);
    case 1:
        return (uint16_t)(attn_f16_of_f32(product * 2048.0f) + draw(9) - 4);
    default:
        return (uint16_t)draw(0x10000);
    }
}

static void check_instruction(const uint16_t *a, const uint16_t *b, const uint16_t *c)
{
    uint16_t got[32];
    vf sums = vf_join_pairs(vf_loadu((const float *)(const void *)a),
                            vf_loadu((const float *)(const void *)b),
                            vf_loadu((const float *)(const void *)c));
    vf_storeu((float *)(void *)got, sums);
    for (int n = 0; n < 32; n++)
        if (!same(got[n], multiply_add(a[n], b[n], c[n])))
            fail_msg("%04x * %04x + %04x: %04x", a[n], b[n], c[n], got[n]);
}

static void test_rounds_once(void **state)
{
    (void)state;
    uint16_t a[32], b[32], c[32];
    for (int trial = 0; trial < 40000; trial++) {
        for (int n = 0; n < 32; n++) {
            a[n] = (uint16_t)draw(0x10000);
            b[n] = (uint16_t)draw(0x10000);
            c[n] = draw_addend(a[n], b[n]);
        }
        check_instruction(a, b, c);
    }
    /* 32800 + 16 - 2^-16: rounded to f32 first it would be a tie, and go up. */
    assert_int_equal(multiply_add(attn_f16_of_f32(1.0f + 0x1p-10f),
                                  attn_f16_of_f32(16.0f - 0x1p-6f), attn_f16_of_f32(32800.0f)),
                     attn_f16_of_f32(32800.0f));
    for (int n = 0; n < 32; n++) {
        a[n] = attn_f16_of_f32((n & 1 ? -1.0f : 1.0f) * (1.0f + 0x1p-10f));
        b[n] =
            attn_f16_of_f32((n & 2 ? 16.0f : 8.0f) * (n & 4 ? 1.0f + 0x1p-10f : 1.0f - 0x1p-10f));
        c[n] = attn_f16_of_f32((n & 8 ? -1.0f : 1.0f) * (n & 16 ? 32800.0f : 16400.0f));
    }
    check_instruction(a, b, c);
}

/* A sum over pairs [lo, hi) as the rung declares it. Of a, pair n is at a[2 * n]; of b at
 * b[2 * n * step]. */
static float chained(const uint16_t *a, const uint16_t *b, int64_t step, int64_t lo, int64_t hi)
{
    float sums[2] = {0.0f, 0.0f};
    for (int half = 0; half < 2; half++) {
        uint16_t part = 0;
        for (int64_t c = lo; c < hi; c++) {
            part = multiply_add(a[2 * c + half], b[2 * c * step + half], part);
            if ((c + 1) % 16 && c + 1 < hi)
                continue;
            sums[half] += attn_f32_of_f16(part);
            part = 0;
        }
    }
    return sums[0] + sums[1];
}

/* What meets in products, NaN and infinity now and then. */
static struct region halves(int64_t count, bool odd_ones)
{
    struct region region = make_region((size_t)count * sizeof(uint16_t));
    uint16_t *data = region.data;
    for (int64_t n = 0; n < count; n++) {
        uint32_t kind = draw(odd_ones ? 400 : 398);
        data[n] = attn_f16_of_f32(kind == 399   ? NAN
                                  : kind == 398 ? INFINITY
                                  : kind > 380  ? ((float)draw(2001) - 1000.0f) * 0x1p-24f
                                                : ((float)draw(2001) - 1000.0f) / 250.0f);
    }
    return region;
}

static void assert_same(float got, float want)
{
    assert_true(attn_f32_bits(got) == attn_f32_bits(want) || (isnan(got) && isnan(want)));
}

static void check_scores(int count, int64_t from, int64_t to, int64_t dk)
{
    static float s[FLASH_MR * LD] __attribute__((aligned(64)));
    static float top[FLASH_MR * VF_LANES] __attribute__((aligned(64)));
    struct region k = halves(2 * dk * FLASH_NR, true), q[FLASH_MR];
    struct span span = {
        .k = k.data, .dk = dk, .from = from, .to = to, .s = s, .top = top, .clean_to = FLASH_NR};
    for (int r = 0; r < count; r++) {
        q[r] = halves(2 * dk, true);
        span.q[r] = q[r].data;
    }
    for (int n = 0; n < FLASH_MR * VF_LANES; n++)
        top[n] = -INFINITY;
    score_product(count, &span);
    for (int r = 0; r < count; r++) {
        float most = -INFINITY;
        for (int64_t j = from; j < to; j++) {
            float want = chained(q[r].data, (const uint16_t *)k.data + 2 * j, FLASH_NR, 0, dk);
            assert_same(s[r * LD + j], want);
            most = want > most ? want : most;
        }
        assert_true(vf_largest(vf_load(top + r * VF_LANES)) == most);
        free_region(&q[r]);
    }
    free_region(&k);
}

static void test_scores(void **state)
{
    (void)state;
    const int64_t widths[] = {1, 15, 16, 17, 40};
    for (int count = 1; count <= FLASH_MR; count++)
        for (int64_t from = 0; from < FLASH_NR; from += VF_LANES)
            for (int64_t to = from + VF_LANES; to <= FLASH_NR; to += VF_LANES)
                check_scores(count, from, to, widths[draw(5)]);
}

static void check_values(int count, int64_t width, int64_t lo, int64_t hi)
{
    static float p[FLASH_MR * LD] __attribute__((aligned(64)));
    const int64_t keys = hi; /* pairs that are packed */
    const float rescale[FLASH_MR] = {0.5f, 0.3f, 1.0f, 0.0f, 0.7f, 0.9f};
    struct region v = halves(attn_round_up(width, FLASH_NR) * keys * 2, false);
    struct region o = make_region((size_t)(count * width) * sizeof(float));
    float *before = malloc((size_t)(count * width) * sizeof *before), *after = o.data;
    struct product x = {.p = p,
                        .v = v.data,
                        .v_key = FLASH_NR,
                        .v_panel = keys * FLASH_NR,
                        .lo = lo,
                        .hi = hi,
                        .o = o.data,
                        .width = width,
                        .fresh = draw(2),
                        .rescale = rescale};
    assert_non_null(before);
    for (int r = 0; r < count; r++) {
        x.to[r] = after + r * width;
        x.by[r] = r % 2 ? 1.0f : 0.37f;
        for (int64_t n = 0; n < 2 * hi; n++)
            weights_of(p + r * LD)[n] = attn_f16_of_f32((float)draw(1001) / 1000.0f);
    }
    for (int64_t n = 0; n < count * width; n++)
        before[n] = after[n] = x.fresh ? NAN : (float)draw(1001) - 500.0f;
    value_product(count, &x);
    for (int r = 0; r < count; r++)
        for (int64_t c = 0; c < width; c++) {
            const uint16_t *panel =
                (const uint16_t *)v.data + 2 * (c / FLASH_NR * x.v_panel + c % FLASH_NR);
            float want = chained(weights_of(p + r * LD), panel, FLASH_NR, lo, hi);
            if (!x.fresh)
                want = fmaf(rescale[r], before[r * width + c], want);
            assert_same(after[r * width + c], x.by[r] * want);
        }
    free(before);
    free_region(&o);
    free_region(&v);
}

/* Chains begin where they do whatever the first key is. */
static void test_values(void **state)
{
    (void)state;
    for (int count = 1; count <= FLASH_MR; count++)
        for (int64_t width = VF_LANES; width <= 2 * FLASH_NR; width += VF_LANES) {
            int64_t lo = draw(40);
            check_values(count, width, lo, lo + 1 + draw(60));
        }
}

/* Sixteen products that just fit, 64 of them in all: chains of seventeen would overflow, and so
 * would the sum in f16. With 16 times 64 * 64 the first chain does. */
static void test_range(void **state)
{
    (void)state;
    uint16_t q[64], k[64 * FLASH_NR] __attribute__((aligned(64)));
    float s[VF_LANES] __attribute__((aligned(64)));
    for (int trial = 0; trial < 2; trial++) {
        const float x = trial ? 64.0f : 63.0f;
        struct span span = {.q = {(const float *)(const void *)q},
                            .k = (const float *)(const void *)k,
                            .dk = 32,
                            .to = VF_LANES,
                            .s = s};
        for (int n = 0; n < 64 * FLASH_NR; n++)
            q[n % 64] = k[n] = attn_f16_of_f32(x);
        score_product(1, &span);
        for (int n = 0; n < VF_LANES; n++)
            assert_true(trial ? s[n] == INFINITY : fabsf(s[n] - 64.0f * x * x) < 200.0f);
    }
}

int main(void)
{
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) {
        printf("this processor lacks what surrounds the emulation: nothing to test\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_once),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
