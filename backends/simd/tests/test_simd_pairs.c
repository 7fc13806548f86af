/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_pairs.c - operands packed as pairs of bf16 or f16, the two products of them and the
 * rounding of weights, of an instance that has pairs, against a scalar model. What a layout leaves
 * out is NaN: it must not be read. Products are of small integers, exact in any order, in f16 for
 * as many as are summed in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include TEST_INSTANCE /* its source: tests what is static */

#include <cmocka.h>

#define KEY_BLOCK 256
#define MOST_WIDE 130
#define QUIET_NAN 0x7fc0 /* in either type */
#define MINUS_INF (FLASH_TYPE == ATTN_F16 ? 0xfc00 : 0xff80)

static struct attn_flash job;
static struct attn_flash_scratch w;
static struct block block;
static uint64_t seed = 1;

static int64_t draw(int64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(seed >> 33) % below;
}

static uint16_t narrowed(float x)
{
    uint16_t to;
    attn_element_write(FLASH_TYPE, &to, 0, x);
    return to;
}

static float widened(uint16_t x)
{
    return attn_element_read(FLASH_TYPE, &x, 0);
}

static uint16_t small_integer(void)
{
    return narrowed((float)(draw(17) - 8));
}

static void *take(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(memory);
    memset(memory, 0xff, bytes); /* NaN in either type */
    return memory;
}

static int make(void **state)
{
    (void)state;
    w.k = take(sizeof(float) * KEY_BLOCK * (MOST_WIDE + FLASH_STEP));
    w.v = take(sizeof(float) * KEY_BLOCK * (MOST_WIDE + FLASH_NR));
    w.s = take(sizeof(float) * FLASH_MR * LD);
    w.o = take(sizeof(float) * FLASH_MR * (MOST_WIDE + FLASH_NR));
#if FLASH_TILES
    amx_begin();
#endif
    return 0;
}

static int unmake(void **state)
{
    (void)state;
    free(w.k);
    free(w.v);
    free(w.s);
    free(w.o);
    return 0;
}

/* An operand of KEY_BLOCK keys, NaN but for small integers in keys [lo, hi). */
static uint16_t *operand(struct attn_tensor *view, int64_t width, bool apart, int64_t lo,
                         int64_t hi)
{
    int64_t gap = draw(3);
    *view = (struct attn_tensor){.dtype = FLASH_TYPE};
    view->stride[2] = apart ? 1 : width + gap;
    view->stride[3] = apart ? KEY_BLOCK + gap : 1;
    size_t count = (size_t)(view->stride[2] * (KEY_BLOCK - 1) + view->stride[3] * (width - 1) + 1);
    uint16_t *data = malloc(count * sizeof *data); /* exactly: a sanitizer sees what is beyond */
    assert_non_null(data);
    for (size_t n = 0; n < count; n++)
        data[n] = QUIET_NAN;
    for (int64_t j = lo; j < hi; j++)
        for (int64_t c = 0; c < width; c++)
            data[j * view->stride[2] + c * view->stride[3]] = small_integer();
    view->data = data;
    return data;
}

static uint16_t at(const struct attn_tensor *view, int64_t j, int64_t c)
{
    return ((const uint16_t *)view->data)[j * view->stride[2] + c * view->stride[3]];
}

/* Half `n` of the pair at `pair`. */
static uint16_t half(const float *pair, int64_t n)
{
    uint16_t halves[2];
    memcpy(halves, pair, sizeof halves);
    return halves[n];
}

static struct tile draw_tile(void)
{
    struct tile tile = {.lo = draw(KEY_BLOCK - 1)};
    tile.hi = tile.lo + 1 + draw(KEY_BLOCK - tile.lo);
    if (draw(4) == 0)
        tile.lo = 0;
    if (draw(4) == 0)
        tile.hi = KEY_BLOCK;
    return tile;
}

static void test_pack_k(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        const struct tile tile = draw_tile();
        job = (struct attn_flash){.dk = 1 + draw(MOST_WIDE), .key_block = KEY_BLOCK};
        uint16_t *data = operand(&job.operands.k, job.dk, trial % 3 == 0, tile.lo, tile.hi);
        pack_k(&job, &w, &block, &tile);
        for (int64_t j = tile.lo / VF_LANES * VF_LANES; j < attn_round_up(tile.hi, VF_LANES); j++)
            for (int64_t c = 0; c < 2 * pairs(job.dk); c++) {
                bool there = j >= tile.lo && j < tile.hi && c < job.dk;
                const float *panel = w.k + j / FLASH_NR * pairs(job.dk) * FLASH_NR;
                assert_int_equal(half(panel + c / 2 * FLASH_NR + j % FLASH_NR, c % 2),
                                 there ? at(&job.operands.k, j, c) : 0);
            }
        free(data);
    }
}

static void test_pack_v(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        struct tile tile = draw_tile();
        job = (struct attn_flash){.dv = 1 + draw(MOST_WIDE), .key_block = KEY_BLOCK};
        uint16_t *data = operand(&job.operands.v, job.dv, trial % 3 == 0, tile.lo, tile.hi);
        int64_t bad = trial % 2 ? tile.lo + draw(tile.hi - tile.lo) : -1;
        if (bad >= 0)
            data[bad * job.operands.v.stride[2] + draw(job.dv) * job.operands.v.stride[3]] =
                trial % 4 == 1 ? QUIET_NAN : MINUS_INF;
        pack_v(&job, &w, &block, &tile);
        if (bad < 0)
            assert_true(tile.bad_lo >= tile.bad_hi);
        else
            assert_true(tile.bad_lo <= bad && bad < tile.bad_hi);
        int64_t first = tile.lo / FLASH_STEP * FLASH_STEP;
        for (int64_t j = first; j < attn_round_up(tile.hi, FLASH_STEP); j++)
            for (int64_t c = 0; c < attn_round_up(job.dv, VF_LANES); c++) {
                bool there = j >= tile.lo && j < tile.hi && c < job.dv;
                const float *panel = tile.v + c / FLASH_NR * tile.v_panel;
                assert_int_equal(half(panel + j / 2 * tile.v_key + c % FLASH_NR, j % 2),
                                 there ? at(&job.operands.v, j, c) : 0);
            }
        free(data);
    }
}

/* Rows of q, in place where that is allowed, against packed keys. */
static void test_scores(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        const struct tile tile = draw_tile();
        const int count = 1 + (int)draw(FLASH_MR);
        float copies[FLASH_MR * MOST_WIDE] __attribute__((aligned(64)));
        const float *rows[FLASH_MR];
        struct attn_flash_scratch own = w;
        job = (struct attn_flash){.dk = 1 + draw(MOST_WIDE), .key_block = KEY_BLOCK, .group = 1};
        block = (struct block){.rows = count};
        uint16_t *k = operand(&job.operands.k, job.dk, false, tile.lo, tile.hi);
        uint16_t *q = operand(&job.operands.q, job.dk, trial % 5 == 0, 0, count);
        own.q = copies;
        if (!queries_in_place(&job))
            copy_queries(&job, &own, &block);
        queries(&job, &own, &block, 0, count, rows);
        pack_k(&job, &w, &block, &tile);
        struct span span = {.k = w.k,
                            .dk = pairs(job.dk),
                            .from = tile.lo / VF_LANES * VF_LANES,
                            .to = attn_round_up(tile.hi, VF_LANES),
                            .s = w.s};
        memcpy(span.q, rows, sizeof rows);
        score_product(count, &span);
        for (int r = 0; r < count; r++)
            for (int64_t j = tile.lo; j < tile.hi; j++) {
                float want = 0.0f;
                for (int64_t c = 0; c < job.dk; c++)
                    want += widened(at(&job.operands.q, r, c)) * widened(at(&job.operands.k, j, c));
                assert_true(w.s[r * LD + j] == want);
            }
        free(k);
        free(q);
    }
}

/* A group's part of a tile: weights in [lo, hi), 0 outside; with V that is not finite where the
 * mark -0.0 stands. */
static void test_values(void **state)
{
    (void)state;
    for (int trial = 0; trial < 300; trial++) {
        struct tile tile = draw_tile();
        const int count = 1 + (int)draw(FLASH_MR);
        const bool careful = trial % 3 == 0, fresh = draw(2);
        int64_t lo = tile.lo + draw(tile.hi - tile.lo), hi = lo + 1 + draw(tile.hi - lo);
        float rescale[FLASH_MR];
        job = (struct attn_flash){.dv = 1 + draw(MOST_WIDE), .key_block = KEY_BLOCK};
        uint16_t *v = operand(&job.operands.v, job.dv, false, tile.lo, tile.hi);
        struct product x = {.p = w.s, .o = w.o, .rescale = rescale, .fresh = fresh};
        float *want = calloc((size_t)(count * job.dv), sizeof *want);
        assert_non_null(want);
        if (careful)
            v[lo * job.operands.v.stride[2] + draw(job.dv)] = QUIET_NAN;
        pack_v(&job, &w, &block, &tile);
        x.width = attn_round_up(job.dv, VF_LANES);
        x.v = tile.v;
        x.v_key = tile.v_key;
        x.v_panel = tile.v_panel;
        x.lo = careful ? lo : lo / FLASH_STEP * pairs(FLASH_STEP);
        x.hi = careful ? hi : pairs(hi);
        for (int r = 0; r < count; r++) {
            float p[KEY_BLOCK];
            rescale[r] = 0.5f;
            x.by[r] = 2.0f;
            x.to[r] = w.o + r * x.width;
            for (int64_t c = 0; c < x.width; c++)
                x.to[r][c] = (float)(2 * draw(9));
            for (int64_t j = 0; j < KEY_BLOCK; j++)
                p[j] = j < lo || j >= hi || (careful && j == lo) ? -0.0f : (float)(draw(17) - 8);
            for (int64_t j = 0; j < KEY_BLOCK && careful; j++)
                w.s[r * LD + j] = p[j];
            for (int64_t j = 0; j < KEY_BLOCK && !careful; j++)
                weights_of(w.s + r * LD)[j] = narrowed(p[j]);
            for (int64_t c = 0; c < job.dv; c++) {
                float *sum = &want[r * job.dv + c];
                *sum = fresh ? 0.0f : 0.5f * x.to[r][c];
                for (int64_t j = lo + careful; j < hi; j++)
                    *sum += p[j] * widened(at(&job.operands.v, j, c));
                *sum *= 2.0f;
            }
        }
        if (careful)
            value_product_careful(count, &x);
        else
            value_product(count, &x);
        for (int r = 0; r < count; r++)
            for (int64_t c = 0; c < job.dv; c++)
                assert_true(w.o[r * x.width + c] == want[r * job.dv + c]);
        free(want);
        free(v);
    }
}

/* Weights of [from, to) in the place of their scores, whatever `from` and `to`. */
static void test_weights(void **state)
{
    (void)state;
    const bool f16 = FLASH_TYPE == ATTN_F16;
    const double u = f16 ? 0x1p-11 : 0x1p-8; /* and below the least normal: */
    const double least = f16 ? 0x1p-14 : 0x1p-125, eta = f16 ? 0x1.5p-25 : 0x1p-124;
    const float by = 0.18f;
    for (int trial = 0; trial < 200; trial++) {
        int64_t from = draw(16) * VF_LANES, to = from + (1 + draw(16)) * VF_LANES;
        float shift[2] = {0.0f, 4.0f}, sum[2], s[2][ATTN_FLASH_MOST_KEYS];
        for (int r = 0; r < 2; r++)
            for (int64_t j = from; j < to; j++)
                w.s[r * LD + j] = s[r][j] =
                    draw(9) == 0 ? -INFINITY : shift[r] / by - (float)draw(100000) * 0x1p-9f;
        for (int r = 0; r < 2; r++)
            sum[r] = weigh_pairs(w.s + r * LD, from, to, shift[r], by);
        for (int r = 0; r < 2; r++) {
            double want_sum = 0.0;
            for (int64_t j = from; j < to; j++) {
                double want = exp2((double)s[r][j] * (double)by - (double)shift[r]);
                double got = (double)widened(weights_of(w.s + r * LD)[j]);
                want_sum += want;
                if (want < least)
                    assert_true(fabs(got - want) <= eta && (want > 0.0 || got == 0.0));
                else
                    assert_true(fabs(got / want - 1.0) <= u + 2 * ATTN_PAIRS_E_EXP);
            }
            assert_true(fabs((double)sum[r] / want_sum - 1.0) <= 2 * ATTN_PAIRS_E_EXP);
        }
    }
}

/* However large the scores, the largest weighs exactly 1: its product with the unit is rounded as
 * that of the maximum is. */
static void test_largest_weight(void **state)
{
    (void)state;
    for (float top = 1.3f; top < 1e30f; top *= 7.7f) {
        const float unit = 0.1803369f, shift = top * unit;
        for (int64_t j = 0; j < 3 * VF_LANES; j++)
            w.s[j] = j == 21 || j == 40 ? top : -top;
        assert_true(weigh_pairs(w.s, 0, 3 * VF_LANES, shift, unit) >= 2.0f);
        assert_int_equal(weights_of(w.s)[21], narrowed(1.0f));
        assert_int_equal(weights_of(w.s)[40], narrowed(1.0f));
    }
}

static void test_narrow(void **state)
{
    (void)state;
    const float special[] = {0.0f, -0.0f, 1.0f, 0x1.01p0f, 0x1.03p0f, 0x1.02fp0f, 0.3f, INFINITY};
    uint16_t want[2][64];
    for (int r = 0; r < 2; r++)
        for (int64_t j = 0; j < 64; j++) {
            w.s[r * LD + j] = special[(j * 3 + r) % 8];
            want[r][j] = narrowed(w.s[r * LD + j]);
        }
    w.s[40] = NAN;
    narrow_weights(2, w.s, 16, 64);
    for (int r = 0; r < 2; r++)
        for (int64_t j = 16; j < 64; j++)
            if (r == 0 && j == 40)
                assert_true(isnan(widened(weights_of(w.s)[j])));
            else
                assert_int_equal(weights_of(w.s + r * LD)[j], want[r][j]);
}

int main(void)
{
    bool able = FLASH_TYPE == ATTN_F16 /* emulated, between real operations on pairs */
                    ? __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
                    : __builtin_cpu_supports("avx512bf16");
    if (!able) {
        printf("this processor lacks the instructions: nothing to test\n");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack_k),         cmocka_unit_test(test_pack_v),
        cmocka_unit_test(test_scores),         cmocka_unit_test(test_values),
        cmocka_unit_test(test_weights),        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_largest_weight),
    };
    return cmocka_run_group_tests_name("simd_pairs", tests, make, unmake);
}
