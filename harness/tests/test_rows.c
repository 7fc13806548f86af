/* SPDX-License-Identifier: Apache-2.0 */
/* test_rows.c - compares rows.h with definitions written out: the keys that a query sees, dropout,
 * and all 16-bit numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "attnbench/rows.h"
#include "reference/dtype.h"
#include "reference/philox.h"

enum { MOST = 4 };

/* One mask, by backend.h. */
static int sees(const struct attn_problem *p, const struct attn_tensor *len, int64_t b, int64_t i,
                int64_t j)
{
    const int32_t *lengths = len->data;
    int64_t off = p->off, valid = p->sk;
    if (len->rank == 1)
        valid = lengths[b * len->stride[0]];
    if (len->rank == 2)
        valid = lengths[b * len->stride[0] + i * len->stride[1]];
    if (p->flags & ATTN_FLAG_OFF_BR)
        off = (len->rank == 1 ? valid : p->sk) - p->sq;
    if (j >= valid || ((p->flags & ATTN_FLAG_CAUSAL) && j > i + off))
        return 0;
    if (!(p->flags & ATTN_FLAG_WINDOW))
        return 1;
    return (p->window_left == -1 || j >= i + off - p->window_left) &&
           (p->window_right == -1 || j <= i + off + p->window_right);
}

static int64_t check_rows(const struct attn_problem *p, const struct attn_tensor *len)
{
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < p->sq; i++) {
            const struct attn_keys keys = attn_keys_seen(p, len, b, i);
            int64_t count = 0;
            assert_true(keys.first >= 0 && keys.first <= keys.end && keys.end <= p->sk);
            for (int64_t j = 0; j < p->sk; j++) {
                const int seen = sees(p, len, b, i, j);
                assert_int_equal(seen, j >= keys.first && j < keys.end);
                count += seen;
            }
            assert_true(count > 0 || (keys.first == 0 && keys.end == 0));
        }
    return p->b * p->sq;
}

/* All lengths of a small problem: none, one a batch, one a query. */
static int64_t check_lengths(const struct attn_problem *p)
{
    int32_t lengths[2 * MOST];
    int64_t rows = 0, kinds = 1;
    for (int64_t n = 0; n < p->b * p->sq; n++)
        kinds *= p->sk + 1;
    struct attn_tensor len = {.data = lengths};
    rows += check_rows(p, &len);
    for (int rank = 1; rank <= (p->flags & ATTN_FLAG_OFF_BR ? 1 : 2); rank++) {
        const int64_t n_len = rank == 1 ? p->b : p->b * p->sq;
        len = (struct attn_tensor){.dtype = ATTN_I32,
                                   .rank = (uint32_t)rank,
                                   .shape = {p->b, p->sq},
                                   .stride = {rank == 1 ? 1 : p->sq, 1},
                                   .data = lengths};
        for (int64_t kind = 0; kind < kinds; kind++) {
            int64_t rest = kind;
            for (int64_t n = 0; n < n_len; n++, rest /= p->sk + 1)
                lengths[n] = (int32_t)(rest % (p->sk + 1));
            if (rest > 0)
                break;
            rows += check_rows(p, &len);
        }
    }
    return rows;
}

/* Every offset, window, causal or not, from the corners or not, of every small shape. */
static void test_keys(void **state)
{
    (void)state;
    int64_t rows = 0;
    for (int flags = 0; flags < 8; flags++)
        for (int shape = 0; shape < 4 * (MOST + 1); shape++)
            for (int64_t off = -5; off <= 5; off++)
                for (int window = 0; window < (flags & 2 ? 36 : 1); window++) {
                    const struct attn_problem p = {
                        .flags = (flags & 1 ? ATTN_FLAG_CAUSAL : 0) |
                                 (flags & 2 ? ATTN_FLAG_WINDOW : 0) |
                                 (flags & 4 ? ATTN_FLAG_OFF_BR : 0),
                        .b = 1 + shape % 2,
                        .sq = 1 + shape / 2 % 2,
                        .sk = shape / 4,
                        .off = off,
                        .window_left = window % 6 - 1,
                        .window_right = window / 6 - 1,
                    };
                    rows += check_lengths(&p);
                }
    assert_true(rows > 1000000);
}

/* Global tokens and steps of windows, cell by cell. */
static void test_sight(void **state)
{
    (void)state;
    enum { TOKENS = 7 };
    uint8_t bytes[2 * TOKENS];
    int32_t steps[2], lengths[] = {TOKENS, 4};
    const struct attn_tensor none = {.dtype = 0};
    const struct attn_tensor dilation = {
        .dtype = ATTN_I32, .rank = 1, .shape = {2}, .stride = {1}, .data = steps};
    const struct attn_tensor len = {
        .dtype = ATTN_I32, .rank = 1, .shape = {2}, .stride = {1}, .data = lengths};
    for (int n = 0; n < 1 << TOKENS; n++)
        for (int kind = 0; kind < 6 * 6 * 8; kind++) {
            const struct attn_tensor global = {.dtype = ATTN_BOOL,
                                               .rank = 2,
                                               .shape = {2, TOKENS},
                                               .stride = {n % 2 ? 0 : TOKENS, 1},
                                               .data = bytes};
            struct attn_problem p = {.flags =
                                         ATTN_FLAG_WINDOW | (kind / 36 & 1 ? ATTN_FLAG_CAUSAL : 0),
                                     .b = 2,
                                     .hq = 2,
                                     .sq = TOKENS,
                                     .sk = TOKENS,
                                     .off = n % 3 - 1,
                                     .window_left = kind % 6 - 1,
                                     .window_right = kind / 6 % 6 - 1};
            const struct attn_tensor *lens = kind / 72 & 1 ? &len : &none;
            const int64_t b = n / 2 % 2, h = n / 4 % 2, i = (n + kind) % TOKENS;
            steps[0] = 1 + kind % 3;
            steps[1] = 1 + kind % 4;
            for (int64_t j = 0; j < 2 * TOKENS; j++)
                bytes[j] = (uint8_t)((n >> j % TOKENS & 1) * (j / TOKENS ? 1 : 0x80));
            const struct attn_sight sight = attn_sight_of(&p, lens, &dilation, &global, b, h, i);
            int64_t next = attn_sight_next(&sight, 0);
            for (int64_t j = 0; j < TOKENS; j++) {
                const int64_t far = i + p.off - j, step = steps[h];
                const int near = far % step == 0 &&
                                 (p.window_left < 0 || far <= p.window_left * step) &&
                                 (p.window_right < 0 || -far <= p.window_right * step);
                const int own = n >> i & 1, key = n >> j & 1;
                const int valid =
                    (lens == &none || j < lengths[b]) && !(p.flags & ATTN_FLAG_CAUSAL && far < 0);
                assert_int_equal(valid && (near || own || key), j == next && j < sight.all.end);
                if (j == next && j < sight.all.end)
                    next = attn_sight_next(&sight, j + 1);
            }
            assert_int_equal(next, sight.all.end);
            assert_int_equal(attn_token_is_global(&global, b, i), n >> i & 1);
        }
    const struct attn_problem far = {.flags = ATTN_FLAG_WINDOW,
                                     .b = 1,
                                     .hq = 1,
                                     .sq = 5,
                                     .sk = 5,
                                     .window_left = INT64_MAX,
                                     .window_right = INT64_MAX};
    steps[0] = INT32_MAX;
    const struct attn_sight sight = attn_sight_of(&far, &none, &dilation, &none, 0, 0, 3);
    assert_int_equal(attn_sight_next(&sight, 0), 3);
    assert_int_equal(attn_sight_next(&sight, 4), 5);
    assert_int_equal(attn_token_is_global(&none, 0, 3), 0);
}

/* Beyond every key, and beyond what sums of int64 hold. */
static void test_keys_far_away(void **state)
{
    (void)state;
    const struct attn_tensor none = {.dtype = 0};
    const int64_t far[] = {INT64_MIN, -((int64_t)1 << 61), (int64_t)1 << 61, INT64_MAX};
    for (int n = 0; n < 4; n++) {
        const struct attn_problem causal = {
            .flags = ATTN_FLAG_CAUSAL, .sq = 3, .sk = 5, .off = far[n]};
        assert_int_equal(attn_keys_seen(&causal, &none, 0, 2).end, n < 2 ? 0 : 5);
        for (int m = 2; m < 4; m++) {
            const struct attn_problem window = {.flags = ATTN_FLAG_WINDOW,
                                                .sq = 3,
                                                .sk = 5,
                                                .window_left = far[m],
                                                .window_right = far[m]};
            const struct attn_keys keys = attn_keys_seen(&window, &none, 0, 2);
            assert_true(keys.first == 0 && keys.end == 5);
        }
    }
}

/* All boolean rows of six keys, dense and strided, within all intervals. */
static void test_trim(void **state)
{
    (void)state;
    enum { KEYS = 6, ROW = 100 + 20 - 3 };
    static unsigned char memory[ROW + 2 * KEYS];
    unsigned char *bytes = memory + ROW;
    for (int bits = 0; bits < 1 << KEYS; bits++)
        for (int64_t step = 0; step <= 2; step++)
            for (int64_t first = 0; first <= KEYS; first++)
                for (int64_t end = first; end <= KEYS; end++) {
                    int64_t least = KEYS, most = 0;
                    memset(bytes, 0, 2 * KEYS);
                    for (int64_t j = 0; j < KEYS; j++)
                        if (bits >> j & 1)
                            bytes[j * (step ? step : 1)] = (unsigned char)(j % 2 ? 0x80 : 1);
                    const struct attn_tensor mask = {.dtype = ATTN_BOOL,
                                                     .rank = 4,
                                                     .stride = {100, 10, -1, step},
                                                     .data = memory};
                    for (int64_t j = first; j < end; j++)
                        if (bytes[j * step]) {
                            least = j < least ? j : least;
                            most = j + 1;
                        }
                    const struct attn_keys keys =
                        attn_keys_trim((struct attn_keys){first, end}, &mask, 1, 2, 3);
                    assert_int_equal(keys.first, most ? least : 0);
                    assert_int_equal(keys.end, most);
                }
    const struct attn_tensor none = {.dtype = 0};
    assert_null(attn_mask_row(&none, 0, 0, 0));
    assert_int_equal(attn_keys_trim((struct attn_keys){2, 4}, &none, 0, 0, 0).first, 2);
}

/* Known answers of the paper's library (kat_vectors) where the counter's upper words are 0; then
 * the reference's generator. */
static void test_philox(void **state)
{
    (void)state;
    assert_int_equal(attn_dropout_word(0, 0), 0x6627e8d5u);
    for (uint64_t n = 0; n < 20000; n++) {
        const uint64_t seed = n * 0x9e3779b97f4a7c15ull, index = (n + 7) * 0xd1b54a32d192ed03ull;
        const uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
        const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
        uint32_t words[4];
        attn_philox4x32(counter, key, words);
        assert_int_equal(attn_dropout_word(seed, index), words[0]);
    }
}

static void test_threshold(void **state)
{
    (void)state;
    const double fraction = 0x6627e8 * 0x1p-24;
    const double p[] = {0,
                        0x1p-24,
                        0x1p-25,
                        0x1p-60,
                        0.1,
                        nextafter(fraction, 0),
                        fraction,
                        0.5,
                        0.9,
                        1.0 / 3,
                        0.97,
                        5e-324,
                        nextafter(fraction, 1),
                        0.25,
                        nextafter(1, 0)};
    for (size_t n = 0; n < sizeof(p) / sizeof(p[0]); n++) {
        const int64_t least = attn_dropout_threshold(p[n]);
        for (int64_t word = least - 2; word <= least + 2; word++)
            if (word >= 0)
                assert_int_equal((double)word * 0x1p-24 >= p[n], word >= least);
    }
}

/* By keep where it is given, else by the rule of backend.h. */
static void test_dropout(void **state)
{
    (void)state;
    const struct attn_problem p = {
        .b = 2, .hq = 3, .sq = 4, .sk = 5, .dropout_p = 0.4, .dropout_seed = 0x123456789abcdefull};
    unsigned char bytes[2 * 3 * 4 * 5];
    for (size_t n = 0; n < sizeof(bytes); n++)
        bytes[n] = (unsigned char)(n % 3 ? 0 : n + 1);
    const struct attn_tensor none = {.dtype = 0}, keep = {.dtype = ATTN_BOOL,
                                                          .rank = 4,
                                                          .stride = {60, 20, 5, 1},
                                                          .data = bytes};
    uint64_t index = 0;
    for (int64_t b = 0; b < p.b; b++)
        for (int64_t h = 0; h < p.hq; h++)
            for (int64_t i = 0; i < p.sq; i++)
                for (int64_t j = 0; j < p.sk; j++, index++) {
                    assert_int_equal(attn_dropout_keeps(&p, &none, b, h, i, j),
                                     attn_dropout_keep(p.dropout_seed, index, p.dropout_p));
                    assert_int_equal(attn_dropout_keeps(&p, &keep, b, h, i, j), index % 3 == 0);
                    assert_int_equal(attn_dropout_index(&p, b, h, i) + (uint64_t)j, index);
                }
}

static void same_f32(float got, double want)
{
    if (isnan(want))
        assert_true(isnan(got));
    else
        assert_true((double)got == want && !signbit(got) == !signbit(want));
}

static void narrows(float value)
{
    uint16_t got[2], want[2];
    attn_element_write(ATTN_F16, got, 0, value);
    attn_element_write(ATTN_BF16, got, 1, value);
    attn_dtype_store(ATTN_F16, want, 0, (double)value);
    attn_dtype_store(ATTN_BF16, want, 1, (double)value);
    if (isnan(value)) { /* quiet, whatever its payload */
        assert_int_equal(got[0] & 0x7e00, 0x7e00);
        assert_int_equal(got[1] & 0x7fc0, 0x7fc0);
        return;
    }
    assert_int_equal(got[0], want[0]);
    assert_int_equal(got[1], want[1]);
}

/* Every 16-bit number there and back, and what lies between two of them. */
static void test_every_half(void **state)
{
    (void)state;
    static const uint32_t dtypes[] = {ATTN_F16, ATTN_BF16};
    static uint16_t halves[0x10000];
    for (uint32_t bits = 0; bits < 0x10000u; bits++)
        halves[bits] = (uint16_t)bits;
    for (uint32_t bits = 0; bits < 0x10000u; bits++)
        for (int t = 0; t < 2; t++) {
            const float value = attn_element_read(dtypes[t], halves, bits);
            same_f32(value, attn_dtype_load(dtypes[t], halves, bits));
            narrows(value);
            if (isnan(value) || isinf(value))
                continue;
            const float next = attn_element_read(dtypes[t], halves, bits + 1);
            const float middle = isinf(next) ? value * 1.0004f : value + (next - value) / 2;
            narrows(middle);
            narrows(nextafterf(middle, -INFINITY));
            narrows(nextafterf(middle, INFINITY));
        }
    narrows(65519.0f);
    narrows(-65520.0f);
    narrows(3.4e38f);
    for (uint32_t n = 0; n < 1000000; n++) /* and anywhere */
        narrows(attn_f32_of_bits(n * 2654435761u));
}

static void test_other_elements(void **state)
{
    (void)state;
    const double wide[] = {0, 1.0 / 3, 1e300};
    double f64[2] = {0};
    float f32[2] = {0};
    assert_true(attn_element_read(ATTN_F64, wide, 1) == (float)(1.0 / 3));
    assert_true(isinf(attn_element_read(ATTN_F64, wide, 2)));
    attn_element_write(ATTN_F64, f64, 1, 0.1f);
    attn_element_write(ATTN_F32, f32, 1, 0.1f);
    assert_true(f64[1] == (double)0.1f && f32[1] == 0.1f);
    assert_true(attn_element_read(ATTN_F32, f32, 1) == 0.1f);
    for (uint32_t dtype = 0; dtype < 40; dtype++)
        assert_int_equal(attn_element_bytes(dtype), attn_dtype_size(dtype));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),           cmocka_unit_test(test_keys_far_away),
        cmocka_unit_test(test_sight),          cmocka_unit_test(test_trim),
        cmocka_unit_test(test_philox),         cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_dropout),        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_other_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
