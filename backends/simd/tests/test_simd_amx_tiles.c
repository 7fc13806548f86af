/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_amx_tiles.c - amx_tiles.h over the emulated instructions against three obvious
 * loops, operands flush against guard pages; and the emulation itself: its order of sums, its
 * rounding, and what it refuses. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../amx_tiles.h"
#include "guarded.h"

static uint16_t bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16); /* exact for what is used here */
}

/* Small integers, so that every sum is exact: the elements of A and B. */
static float a_at(int64_t r, int64_t c)
{
    return (float)((r * 7 + c * 5) % 17 - 8);
}

static float b_at(int64_t c, int64_t n)
{
    return (float)((c * 3 + n * 11) % 13 - 6);
}

static void count_step(void *steps)
{
    ++*(int64_t *)steps;
}

/* With `add` to what is there, and with rows of B further apart. */
static void check_block(int64_t rows, int64_t columns, int64_t first, int64_t inner, bool add)
{
    const int64_t whole = rows > 16 ? 32 : 16, across = columns > 16 ? 32 : 16;
    const int64_t b_row = add ? AMX_NR + 5 : AMX_NR;
    const float before = add ? 3.0f : 1e30f;
    const int64_t a_row = inner + 3, c_row = across + 5;
    struct region a = make_region((size_t)((whole - 1) * a_row + inner) * sizeof(uint16_t));
    struct region b = make_region((size_t)((inner - 2) * b_row + 2 * AMX_NR) * sizeof(uint16_t));
    struct region c = make_region((size_t)((whole - 1) * c_row + across) * sizeof(float));
    uint16_t *a_data = a.data, *b_data = b.data;
    float *c_data = c.data;
    for (int64_t r = 0; r < whole; r++)
        for (int64_t n = 0; n < (r + 1 < whole ? a_row : inner); n++)
            a_data[r * a_row + n] = n < inner ? bf16(a_at(r, n)) : bf16(NAN);
    for (int64_t n = 0; n < inner; n++)
        for (int64_t j = 0; j < AMX_NR; j++)
            b_data[n / 2 * 2 * b_row + j * 2 + n % 2] = bf16(b_at(n, j));
    for (int64_t n = 0; n < (whole - 1) * c_row + across; n++)
        c_data[n] = before;
    amx_begin();
    int64_t steps = 0;
    const struct meanwhile count = {count_step, &steps};
    amx_multiply(rows, columns,
                 (struct amx_product){.a = a_data,
                                      .a_bytes = 2 * a_row,
                                      .b = b_data + 2 * first,
                                      .b_bytes = add ? b_row * AMX_PAIR : 0,
                                      .steps = inner / AMX_INNER,
                                      .c = c_data,
                                      .c_row = c_row,
                                      .add = add,
                                      .meanwhile = &count});
    amx_end();
    assert_int_equal(steps, inner / AMX_INNER);
    for (int64_t r = 0; r < whole; r++)
        for (int64_t j = 0; j < (r + 1 < whole ? c_row : across); j++) {
            float sum = add ? before : 0.0f;
            for (int64_t n = 0; n < inner; n++)
                sum += a_at(r, n) * b_at(n, first + j);
            assert_true(c_data[r * c_row + j] == (j < across ? sum : before));
        }
    free_region(&a);
    free_region(&b);
    free_region(&c);
}

static void test_blocks(void **state)
{
    (void)state;
    const int64_t extents[] = {1, 16, 17, 32}, inners[] = {32, 64, 160};
    for (int r = 0; r < 4; r++)
        for (int n = 0; n < 4; n++)
            for (int i = 0; i < 3; i++)
                for (int64_t first = 0; first + (n < 2 ? 16 : 32) <= AMX_NR; first += 16)
                    for (int add = 0; add < 2; add++)
                        check_block(extents[r], extents[n], first, inners[i], add);
}

/* Rows that do not exist, and keys that no row may see, may hold anything. */
static void test_nan_stays_in_its_row_and_column(void **state)
{
    (void)state;
    uint16_t a[32 * 32], b[32 * AMX_NR];
    float c[32 * 32];
    for (int n = 0; n < 32 * 32; n++)
        a[n] = bf16(n / 32 == 19 ? NAN : 1.0f);
    for (int n = 0; n < 32 * AMX_NR; n++)
        b[n] = bf16(n / 2 % AMX_NR == 5 ? INFINITY : 1.0f);
    amx_begin();
    amx_multiply(
        32, 32,
        (struct amx_product){.a = a, .a_bytes = 64, .b = b, .steps = 1, .c = c, .c_row = 32});
    amx_end();
    for (int r = 0; r < 32; r++)
        for (int n = 0; n < 32; n++) {
            if (r == 19)
                assert_true(isnan(c[r * 32 + n]));
            else
                assert_true(c[r * 32 + n] == (n == 5 ? INFINITY : 32.0f));
        }
}

/* One row of A times a column of ones, on top of `start`. */
static float emulated_sum(const float *row, float start)
{
    float c[16 * 16];
    uint16_t a[16 * 32] = {0}, ones[16 * 32];
    for (int n = 0; n < 32; n++)
        a[n] = bf16(row[n]);
    for (int n = 0; n < 16 * 32; n++)
        ones[n] = bf16(1.0f);
    for (int n = 0; n < 16 * 16; n++)
        c[n] = start;
    amx_begin();
    _tile_loadd(0, c, 64);
    _tile_loadd(1, a, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, c, 64);
    amx_end();
    assert_memory_equal(&c[15], &c[0], sizeof *c);
    return c[0];
}

static void test_order_and_rounding(void **state)
{
    (void)state;
    /* even elements 2^24 and 1, which is lost; odd ones 1 and 1. One after the other all would be
     * lost, summed exactly the tie would go up to 2^24 + 4. */
    assert_true(emulated_sum((float[32]){0x1p24f, 1.0f, 1.0f, 1.0f}, 0.0f) == 0x1p24f + 2.0f);
    /* what was there comes last: 3 at once rounds up, 1 by 1 would be lost */
    assert_true(emulated_sum((float[32]){1.0f, 1.0f, 1.0f}, 0x1p24f) == 0x1p24f + 4.0f);
    /* subnormals in, in the sums, and on the way out */
    assert_true(emulated_sum((float[32]){0x1p-127f}, 0.0f) == 0.0f);
    assert_true(emulated_sum((float[32]){0x1p-126f}, 0.0f) == 0x1p-126f);
    assert_true(emulated_sum((float[32]){0x1p-126f}, -0x1p-127f) == 0x1p-126f);
    assert_true(emulated_sum((float[32]){0x1.8p-126f, -0x1p-126f}, 0.0f) == 0.0f);
    assert_true(isinf(emulated_sum((float[32]){0x1p127f, 0.0f, 0x1p127f}, 0.0f)));
    assert_true(isnan(emulated_sum((float[32]){INFINITY, -INFINITY}, 0.0f)));
}

static jmp_buf refused;
static const char *sentence;

static void note_and_return(const char *text)
{
    sentence = text;
    longjmp(refused, 1);
}

enum mistake {
    NOT_CONFIGURED,
    RELEASED,
    PALETTE,
    START_ROW,
    RESERVED,
    NINTH_TILE,
    ROWS,
    ROW_BYTES,
    HALF_EMPTY,
    NO_ROWS,
    SAME_TILE,
    SHAPES,
    MISTAKES
};

static void make_mistake(enum mistake mistake)
{
    struct amx_config config = amx_config;
    float memory[16 * 16] = {0};
    config.palette = mistake == PALETTE ? 2 : 1;
    config.start_row = mistake == START_ROW;
    config.reserved[13] = mistake == RESERVED;
    config.rows[8] = mistake == NINTH_TILE;
    config.rows[7] = mistake == ROWS ? 17 : mistake == HALF_EMPTY || mistake == NO_ROWS ? 0 : 16;
    config.row_bytes[7] = mistake == ROW_BYTES ? 65 : mistake == NO_ROWS ? 0 : 64;
    config.rows[6] = mistake == SHAPES ? 15 : 16;
    if (mistake != NOT_CONFIGURED)
        _tile_loadconfig(&config);
    if (mistake == RELEASED)
        _tile_release();
    _tile_loadd(7, memory, 64);
    _tile_zero(0);
    if (mistake == SAME_TILE)
        _tile_dpbf16ps(0, 4, 4);
    else
        _tile_dpbf16ps(0, 4, 6);
}

static void test_mistakes_are_refused(void **state)
{
    (void)state;
    const char *const words[] = {
        [NOT_CONFIGURED] = "before it is configured",
        [RELEASED] = "after it was released",
        [PALETTE] = "palette",
        [START_ROW] = "start",
        [RESERVED] = "reserved",
        [NINTH_TILE] = "0 to 7",
        [ROWS] = "16 rows",
        [ROW_BYTES] = "64 bytes",
        [HALF_EMPTY] = "rows without bytes",
        [NO_ROWS] = "no rows",
        [SAME_TILE] = "not three",
        [SHAPES] = "shapes",
    };
    void (*kept)(const char *) = emulated_tile_fault;
    emulated_tile_fault = note_and_return;
    for (volatile int mistake = 0; mistake < MISTAKES; mistake++) {
        sentence = NULL;
        emulated_tile_release();
        if (!setjmp(refused))
            make_mistake((enum mistake)mistake);
        assert_non_null(sentence);
        assert_non_null(strstr(sentence, words[mistake]));
    }
    emulated_tile_fault = kept;
    emulated_tile_release();
}

static void *ask_elsewhere(void *in_use)
{
    *(bool *)in_use = emulated_tiles_in_use();
    return NULL;
}

static void test_tiles_belong_to_a_thread(void **state)
{
    (void)state;
    bool elsewhere = true;
    pthread_t thread;
    assert_false(emulated_tiles_in_use());
    amx_begin();
    assert_true(emulated_tiles_in_use());
    assert_int_equal(pthread_create(&thread, NULL, ask_elsewhere, &elsewhere), 0);
    pthread_join(thread, NULL);
    assert_false(elsewhere);
    amx_end();
    assert_false(emulated_tiles_in_use());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_nan_stays_in_its_row_and_column),
        cmocka_unit_test(test_order_and_rounding),
        cmocka_unit_test(test_mistakes_are_refused),
        cmocka_unit_test(test_tiles_belong_to_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
