/* SPDX-License-Identifier: Apache-2.0 */
/* test_stores.c - the stores in a narrow type that a plan should have declared are suggested. */
#include "examined.h"

#include <math.h>

/* The answer of a kernel that stores p in `narrow`, as many do, and does not say so. */
static struct attn_judgement judge_stored(const char *line, uint32_t narrow,
                                          struct attn_numerics numerics)
{
    struct attn_instance *in = instance_of(line);
    const uint32_t dtype = in->problem.dtype;
    const int64_t sq = in->problem.sq, sk = in->problem.sk, d = in->problem.dk;
    const struct attn_tensor *q = tensor(in, ATTN_Q), *k = tensor(in, ATTN_K),
                             *v = tensor(in, ATTN_V), *out = tensor(in, ATTN_OUT);
    double p[16];
    assert_in_range(sk, 1, 16);
    for (int64_t c = 0; c < d && sk == 2; c++) /* where two weights are alike, out is near 0 */
        attn_dtype_store(dtype, v->data, d + c, -attn_dtype_load(dtype, v->data, c));
    for (int64_t i = 0; i < sq; i++) {
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < sk; j++) {
            p[j] = 0;
            for (int64_t c = 0; c < d; c++)
                p[j] += in->problem.scale * attn_dtype_load(dtype, q->data, i * d + c) *
                        attn_dtype_load(dtype, k->data, j * d + c);
            largest = fmax(largest, p[j]);
        }
        for (int64_t j = 0; j < sk; j++) {
            uint16_t stored;
            p[j] = exp(p[j] - largest);
            sum += p[j];
            attn_dtype_store(narrow, &stored, 0, p[j]);
            p[j] = attn_dtype_load(narrow, &stored, 0);
        }
        for (int64_t c = 0; c < d; c++) {
            double value = 0;
            for (int64_t j = 0; j < sk; j++)
                value += p[j] * attn_dtype_load(dtype, v->data, j * d + c);
            attn_dtype_store(dtype, out->data, i * d + c, value / sum);
        }
    }
    return judge_declared(in, numerics);
}

static void narrow_weights_are_suggested(void **state)
{
    (void)state;
    struct attn_numerics numerics = {
        .struct_size = sizeof numerics, .acc_type = ATTN_F32, .e_exp = 0x1p-22};
    expect_within(judge_stored("sq=64 sk=2 d=32 dtype=bf16", ATTN_BF16, numerics),
                  "within the bound if p were stored in bf16: if so, declare p_type");
    expect_within(judge_stored("sq=64 sk=16 d=32", ATTN_BF16, numerics),
                  "within the bound if p were stored in bf16: if so, declare p_type; it is then "
                  "mistrusted");
    numerics.acc_type = 0; /* that of q */
    const struct attn_judgement v = judge_stored("sq=64 sk=16 d=32", ATTN_F16, numerics);
    expect_within(v, "within the bound if p were stored in f16: if so, declare p_type");
    assert_null(strstr(v.reason, "mistrusted"));
    numerics.p_type = ATTN_F16; /* declared, and not kept */
    assert_null(
        strstr(judge_stored("sq=64 sk=16 d=32", ATTN_BF16, numerics).reason, "declare p_type"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(narrow_weights_are_suggested)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
