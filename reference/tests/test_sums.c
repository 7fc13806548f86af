/* SPDX-License-Identifier: Apache-2.0 */
/* test_sums.c - sums of rows are those of plain loops, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "reference/sums.h"

#define ROWS  11
#define WIDTH 1037 /* more than one block, and a tail */

static double a[ROWS][WIDTH], x[ROWS];

static void make(void)
{
    for (int i = 0; i < ROWS; i++) {
        x[i] = sin(1.0 + 3.0 * i);
        for (int c = 0; c < WIDTH; c++)
            a[i][c] = cos(1.0 + i * WIDTH + c);
    }
}

static void assert_plain(int rows, int width, const int64_t *index, int magnitudes)
{
    double y[WIDTH], plain[WIDTH];

    for (int c = 0; c < WIDTH; c++) {
        y[c] = plain[c] = 0.1 * c;
        for (int i = 0; c < width && i < rows; i++) {
            double term = x[i] * a[index ? index[i] : i][c];
            plain[c] += magnitudes ? fabs(term) : term;
        }
    }
    (magnitudes ? ref_add_magnitudes : ref_add_rows)(x, a[0], WIDTH, index, rows, width, y);
    assert_memory_equal(y, plain, sizeof(y));
}

static void sums_are_plain(void **state)
{
    static const int64_t index[ROWS] = {7, 1, 1, 10, 0, 3, 9, 8, 2, 6, 4};

    (void)state;
    make();
    for (int magnitudes = 0; magnitudes < 2; magnitudes++)
        for (int rows = 0; rows <= ROWS; rows++) {
            assert_plain(rows, WIDTH, NULL, magnitudes);
            assert_plain(rows, WIDTH, index, magnitudes);
            assert_plain(rows, rows, index, magnitudes);
        }
}

static void transposed_in_parts(void **state)
{
    static double turned[WIDTH][ROWS];

    (void)state;
    make();
    ref_transpose(a[0], ROWS, WIDTH, 0, 3, turned[0]);
    ref_transpose(a[0], ROWS, WIDTH, 3, ROWS, turned[0]);
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < WIDTH; c++)
            assert_true(turned[c][i] == a[i][c]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_plain),
        cmocka_unit_test(transposed_in_parts),
    };

    return cmocka_run_group_tests_name("sums", tests, NULL, NULL);
}
