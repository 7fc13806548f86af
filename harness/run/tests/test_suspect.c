/* SPDX-License-Identifier: Apache-2.0 */
/* test_suspect.c - the least time that made-up ceilings allow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "run/suspect.h"

/* 100 GFLOP/s in f32, 200 in bf16; 64 kB at 200 GB/s, 1 MB at 50 GB/s, memory at 10 GB/s. */
static const struct attn_ceilings ceilings = {
    .n_rungs = 2,
    .n_reads = 3,
    .rungs = {{.isa = "avx2", .f32 = 50, .f64 = 25},
              {.isa = "avx512", .f32 = 100, .f64 = 50, .bf16 = 200}},
    .reads = {{.bytes = 64000, .gbs = 200}, {.bytes = 1000000, .gbs = 50}, {.gbs = 10}},
};

/* The same while other work took half of each loop: 1.6 GHz, of 64 and 32 operations a cycle. */
static const struct attn_ceilings shared = {
    .n_rungs = 3,
    .clock_ghz = 1.6,
    .rungs = {{.isa = "avx2", .f32 = 25, .f64 = 12},
              {.isa = "avx512", .f32 = 50, .f64 = 25},
              {.isa = "amx", .bf16 = 800}},
};

static void test_clock(void **state)
{
    (void)state;
    char why[256];
    struct attn_work work = {.dtype = ATTN_F32, .flops = 1e6};
    assert_false(attn_work_is_suspect(&shared, &work, 0.9e4, why, sizeof why)); /* 1.02e5 a us */
    assert_true(attn_work_is_suspect(&shared, &work, 0.8e4, why, sizeof why));
    work.dtype = ATTN_F16; /* no loop: as f32 */
    assert_true(attn_work_is_suspect(&shared, &work, 0.8e4, why, sizeof why));
    work.dtype = ATTN_F64;
    assert_false(attn_work_is_suspect(&shared, &work, 1.8e4, why, sizeof why));
    assert_true(attn_work_is_suspect(&shared, &work, 1.6e4, why, sizeof why));
    work.dtype = ATTN_BF16; /* 1024 a cycle: 1638 GFLOP/s */
    assert_false(attn_work_is_suspect(&shared, &work, 600, why, sizeof why));
    assert_true(attn_work_is_suspect(&shared, &work, 500, why, sizeof why));
}

static bool suspect(uint32_t dtype, double flops, double bytes, double ns)
{
    char why[256] = "";
    const struct attn_work work = {.dtype = dtype, .flops = flops, .bytes = bytes};
    const bool is = attn_work_is_suspect(&ceilings, &work, ns, why, sizeof why);
    assert_int_equal(is, why[0] != 0);
    return is;
}

static void test_flops(void **state)
{
    (void)state;
    assert_false(suspect(ATTN_F32, 1e6, 0, 1e4)); /* at the roof */
    assert_false(suspect(ATTN_F32, 1e6, 0, 0.9e4));
    assert_true(suspect(ATTN_F32, 1e6, 0, 0.8e4));
    assert_false(suspect(ATTN_BF16, 1e6, 0, 0.5e4));
    assert_true(suspect(ATTN_BF16, 1e6, 0, 0.4e4));
    assert_false(suspect(ATTN_F16, 1e6, 0, 1e4)); /* no f16: as f32 */
    assert_true(suspect(ATTN_F16, 1e6, 0, 0.5e4));
    assert_true(suspect(ATTN_F64, 1e6, 0, 1e4));
}

static void test_bytes(void **state)
{
    (void)state;
    /* 60 kB fit in the first cache: 300 ns; half of that is the margin. */
    assert_false(suspect(ATTN_F32, 1, 60e3, 200));
    assert_true(suspect(ATTN_F32, 1, 60e3, 140));
    /* 11.064 MB: 10 MB come from memory, in 1 ms. */
    assert_false(suspect(ATTN_F32, 1, 11.064e6, 0.6e6));
    assert_true(suspect(ATTN_F32, 1, 11.064e6, 0.4e6));
    assert_false(suspect(ATTN_F32, 1, 0, 1)); /* not known */
}

/* Cold: what cannot have come from memory in that time has not. No margin, as nothing is refused.
 */
static void test_warm(void **state)
{
    (void)state;
    const struct attn_ceilings none = {.n_rungs = 0};
    struct attn_work work = {.dtype = ATTN_F32, .flops = 1, .bytes = 1e6};
    assert_false(attn_work_was_warm(&ceilings, &work, 1.01e5)); /* 10 GB/s: 0.1 ms */
    assert_true(attn_work_was_warm(&ceilings, &work, 0.99e5));
    assert_false(attn_work_was_warm(&none, &work, 1));
    work.bytes = 0; /* not known */
    assert_false(attn_work_was_warm(&ceilings, &work, 1));
}

static void test_unknown(void **state)
{
    (void)state;
    const struct attn_ceilings none = {.n_rungs = 0};
    const struct attn_work work = {.dtype = ATTN_F32, .flops = 1e9, .bytes = 1e9};
    char why[64];
    assert_false(attn_work_is_suspect(&none, &work, 1, why, sizeof why));
    assert_false(suspect(ATTN_F32, 0, 1e9, 1)); /* work that may be left out */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flops), cmocka_unit_test(test_clock),   cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_warm),  cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
