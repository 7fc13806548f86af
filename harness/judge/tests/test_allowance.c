/* SPDX-License-Identifier: Apache-2.0 */
/* test_allowance.c - the bound from norms is never below the bound next to the reference, but small
 * compared with the values. */
#include "answered.h"

#include <math.h>

#include "judge/allowance.h"

static const char *const lines[] = {
    "b=2 hq=4 hkv=2 s=37 d=16 out=lse",
    "b=2 h=2 s=40 d=8 mask=causal+len:rand bias=normal sink=1 out=lse",
    "h=3 s=33 d=8 score=dot softcap=5 out=lse",
    "h=3 s=30 d=16 bias=alibi mask=causal out=lse",
    "h=2 s=21 dq=6 dk=9 dv=5 score=bilinear params=head out=lse",
    "h=2 s=24 d=8 score=gaussian out=lse",
    "h=2 s=19 dq=7 dk=5 dv=4 dh=9 score=additive params=head out=lse",
    "h=2 s=32 d=16 dropout=0.3 out=lse",
    "h=2 s=32 d=16 dtype=f64 out=lse",
    "h=2 s=32 d=16 dtype=bf16 out=lse",
    "h=2 s=32 d=16 dtype=f16 out=lse",
    "sq=3 sk=1 d=8 out=lse",
    "b=2 hq=4 hkv=2 s=37 d=16 weight_fn=sigmoid bias=const:-log(sk) gate=1",
    "h=2 s=33 d=8 weight_fn=relu2 scale=0.2 mask=causal bias=normal",
    "h=2 s=33 d=8 weight_fn=laplace gate=1 dropout=0.3 dtype=bf16",
    "h=2 s=21 dq=6 dk=9 dv=5 score=bilinear weight_fn=sigmoid dtype=f64 gate=1",
    "h=2 s=33 d=8 gate=1 sink=1",
};

static const struct attn_numerics styles[] = {
    {.e_exp = 0x1p-23, .e_tanh = 0x1p-22, .e_log = 0x1p-23},
    {.acc_type = ATTN_F32, .p_type = ATTN_BF16, .e_exp = 0x1p-23, .key_tile = 8, .tau = 8},
    {.acc_type = ATTN_F32,
     .p_type = ATTN_F16,
     .p_normalised = 1,
     .denominator = 2,
     .u_in = 0x1p-11},
    {.acc_type = ATTN_F32, .score_type = ATTN_BF16, .e_arg = 0x1p-24, .splits = 3},
    {.acc_type = ATTN_F16, .acc_toward_zero = 1, .gaussian_by_norms = 1, .ftz = 1},
    {.acc_type = ATTN_F64, .denominator = 1, .out_toward_zero = 1},
    {.acc_type = ATTN_F32, .p_type = ATTN_F16, .partial_type = ATTN_F16, .partial_terms = 16},
    {.acc_type = ATTN_F32, .ftz = 1, .partial_type = ATTN_F16, .partial_terms = 64},
};

static double final(const struct attn_allowance *a, uint32_t dtype, double value, double error)
{
    const double size = fabs(value);
    return error + ref_store_error(&a->arithmetic, dtype, size - error, size + error);
}

/* Holds the rows of one case and one style; returns how much of the largest |v| is allowed. */
static double hold(const struct attn_instance *instance, const struct attn_numerics *numerics,
                   enum ref_fill_kind kind, const char *line)
{
    const struct attn_problem *p = &instance->problem;
    const int64_t rows = ref_output_units(p, 0);
    const struct ref_units all = {.count = rows};
    struct ref_result r = {.output[0].value = test_calloc((size_t)(rows * p->dv), sizeof(double)),
                           .output[0].bound = test_calloc((size_t)(rows * p->dv), sizeof(double)),
                           .output[1].value = test_calloc((size_t)rows, sizeof(double)),
                           .output[1].bound = test_calloc((size_t)rows, sizeof(double))};
    struct attn_allowance a;
    char why[256];
    double share = 0;
    assert_int_equal(
        ref_compute(
            p,
            &(struct ref_request){.units = {all}, .numerics = numerics, .fill = kind, .threads = 2},
            &r, why, sizeof why),
        ATTN_OK);
    assert_int_equal(attn_allowance_create(instance, numerics, kind, false, &a), 0);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t h = row / p->sq % p->hq, b = row / p->sq / p->hq;
        double out, lse;
        attn_allowance_row(&a, b, h, row % p->sq, &out, &lse);
        for (int64_t n = row * p->dv; n < (row + 1) * p->dv; n++)
            if (!(r.output[0].bound[n] <= final(&a, p->dtype, r.output[0].value[n], out)))
                fail_msg("%s: row %lld: %g is allowed next to the reference, %g by norms", line,
                         (long long)row, r.output[0].bound[n], out);
        if (attn_tensor_find(p, ATTN_LSE) && isfinite(r.output[1].value[row]) &&
            !(r.output[1].bound[row] <=
              final(&a, attn_tensor_find(p, ATTN_LSE)->dtype, r.output[1].value[row], lse)))
            fail_msg("%s: row %lld: %g is allowed for lse next to the reference, %g by norms", line,
                     (long long)row, r.output[1].bound[row], lse);
        share = fmax(share, out / a.values[b * p->hkv + h / (p->hq / p->hkv)]);
    }
    attn_allowance_free(&a);
    test_free(r.output[0].value);
    test_free(r.output[0].bound);
    test_free(r.output[1].value);
    test_free(r.output[1].bound);
    return share;
}

static void test_never_below_the_bound(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof lines / sizeof *lines; l++) {
        struct attn_instance *instance = instance_of(lines[l]);
        for (size_t s = 0; s < sizeof styles / sizeof *styles; s++) {
            hold(instance, &styles[s], REF_FILL_GENERIC, lines[l]);
            hold(instance, &styles[s], REF_FILL_STRUCTURED, lines[l]);
        }
        attn_instance_free(instance);
    }
}

/* A relation that is wrong by a hundredth shows in f32, one that is wrong by a tenth in bf16. */
static void test_small_beside_values(void **state)
{
    (void)state;
    struct attn_instance *single = instance_of(lines[0]), *half = instance_of(lines[9]);
    assert_true(hold(single, &styles[0], REF_FILL_GENERIC, lines[0]) < 1e-3);
    assert_true(hold(half, &styles[1], REF_FILL_GENERIC, lines[9]) < 0.05);
    attn_instance_free(single);
    attn_instance_free(half);
}

/* A declaration that says nothing of exp allows anything, and is a number that compares. */
static void test_too_much_declared(void **state)
{
    static const struct attn_numerics wide[] = {
        {.e_exp = 0.5}, {.e_exp = 0x1p-22, .e_arg = 0.5}, {.e_exp = 0.5, .denominator = 1}};

    (void)state;
    struct attn_instance *instance = instance_of(lines[0]);
    for (size_t w = 0; w < sizeof wide / sizeof *wide; w++) {
        struct attn_allowance a;
        double out, lse;
        assert_int_equal(attn_allowance_create(instance, &wide[w], REF_FILL_GENERIC, false, &a), 0);
        attn_allowance_row(&a, 0, 0, 0, &out, &lse);
        assert_true(out == INFINITY && lse == INFINITY);
        attn_allowance_free(&a);
    }
    attn_instance_free(instance);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_below_the_bound),
        cmocka_unit_test(test_small_beside_values),
        cmocka_unit_test(test_too_much_declared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
