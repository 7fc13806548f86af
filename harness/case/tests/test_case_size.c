/* SPDX-License-Identifier: Apache-2.0 */
/* test_case_size.c - bytes, FLOPs, and what a copy owns. */
#include "case_test.h"

static void expect_bytes(const char *line, uint64_t bytes)
{
    struct attn_case c = parse_one(line);
    uint64_t counted = attn_case_bytes(&c);
    if (counted != bytes)
        fail_msg("%s: %llu bytes, not %llu", line, (unsigned long long)counted,
                 (unsigned long long)bytes);
    attn_case_free(&c);
}

static void test_bytes(void **state)
{
    (void)state;
    /* q 2*4*3*8, k 2*2*5*8, v 2*2*5*6, out 2*4*3*6 */
    expect_bytes("b=2 hq=4 hkv=2 sq=3 sk=5 dk=8 dv=6", 4 * (192 + 160 + 120 + 144));
    expect_bytes("b=2 hq=4 hkv=2 sq=3 sk=5 dk=8 dv=6 dtype=bf16", 2 * (192 + 160 + 120 + 144));
    expect_bytes("b=2 hq=4 hkv=2 sq=3 sk=0 dk=8 dv=6", 4 * (192 + 144));
    expect_bytes("s=1 d=1 out=lse+weights mask=bool:0.5+len:rand bias=alibi+normal sink=1",
                 4 * 4 + 4 + 4 + 1 + 4 + 4 + 4 + 4);
    expect_bytes("s=1 d=1 out=lse+weights sink=1 dtype=f16", 4 * 2 + 4 + 2 + 4);
    expect_bytes("s=1 d=1 out=lse sink=1 dtype=f64", 4 * 8 + 8 + 8);
    expect_bytes("b=2 h=3 sq=4 sk=5 d=1 mask=bool:0.5:hk bias=normal:q",
                 4 * (24 + 30 + 30 + 24) + 15 + 16);
    expect_bytes("h=3 s=1 dk=4 dq=2 dv=1 score=bilinear", 4 * (6 + 12 + 3 + 3 + 8));
    expect_bytes("h=3 s=1 dk=4 dq=2 dv=1 score=bilinear params=head", 4 * (6 + 12 + 3 + 3 + 24));
    expect_bytes("h=3 s=1 dk=4 dq=2 dv=1 dh=5 score=additive", 4 * (6 + 12 + 3 + 3 + 35));
    /* x_q 2*3*5, w_q 8*5, w_k 4*5, w_v 4*5, w_o 5*8, out 2*3*5 */
    expect_bytes("op=mha b=2 hq=4 hkv=2 s=3 d=2 e=5", 4 * (30 + 40 + 20 + 20 + 40 + 30));
    /* without w_o: out 2*3*8; biases 8 + 4 + 4; head mask 4 */
    expect_bytes("op=mha b=2 hq=4 hkv=2 s=3 d=2 e=5 wo=0 proj_bias=1 prune=1",
                 4 * (30 + 40 + 20 + 20 + 48 + 16) + 4);
    expect_bytes("op=mha b=2 hq=4 hkv=2 sq=3 sk=4 d=2 e=5 kv=cross proj_bias=1",
                 4 * (30 + 40 + 40 + 20 + 20 + 40 + 30 + 21));
    /* q 2 k 2 v 3 out 3 lse 1 dout 3, dq 2 dk 2 dv 3 */
    expect_bytes("op=attention_backward s=1 dk=2 dv=3", 4 * (14 + 7));
    expect_bytes("op=attention_backward s=1 dk=2 dv=3 out=dv", 4 * (14 + 3));
    expect_bytes("data=x.safetensors", 0);
}

static void test_overflow(void **state)
{
    (void)state;
    struct attn_case c = parse_one("s=4 d=8");
    c.b = c.hq = c.hkv = INT32_MAX;
    c.sq = 4;
    assert_true(attn_case_bytes(&c) == UINT64_MAX);
    char why[256];
    assert_int_equal(attn_case_check(&c, why, sizeof why), -1);
    assert_string_equal(why, "smoke.cases:12: the operands are larger than any address space");
    attn_case_free(&c);
    /* no single product overflows, their sum does */
    c = parse_one("s=4 d=8");
    c.b = 1, c.hq = c.hkv = 1 << 30;
    c.sq = c.sk = 1 << 30;
    c.dq = c.dk = c.dv = 2;
    assert_true(attn_case_bytes(&c) == UINT64_MAX);
    attn_case_free(&c);
}

static void test_flops(void **state)
{
    (void)state;
    struct attn_case c = parse_one("b=2 h=3 s=4 dk=8 dv=5");
    assert_true(attn_case_flops(&c, 2 * 3 * 16) == 2.0 * 13 * 96);
    assert_true(attn_case_flops(&c, 0) == 0);
    attn_case_free(&c);
    c = parse_one("op=mha b=2 hq=4 hkv=2 sq=3 sk=7 dk=2 dv=6 e=5 kv=cross");
    double attention = 2.0 * 8 * 10;
    double projections = 2.0 * 2 * (3 * 5 * 8 + 7 * 5 * 4 + 7 * 5 * 12);
    assert_true(attn_case_flops(&c, 10) == attention + projections + 2.0 * 2 * (3 * 24 * 5));
    c.wo = false;
    assert_true(attn_case_flops(&c, 10) == attention + projections);
    attn_case_free(&c);
    const struct {
        const char *line;
        double products;
    } gradients[] = {{"op=attention_backward s=4 dk=8 dv=5", 3 * 8 + 2 * 5},
                     {"op=attention_backward s=4 dk=8 dv=5 bias=normal out=dbias", 3 * 8 + 2 * 5},
                     {"op=attention_backward s=4 dk=8 dv=5 out=dk", 2 * 8 + 5},
                     {"op=attention_backward s=4 dk=8 dv=5 out=dv", 8 + 5}};
    for (size_t n = 0; n < sizeof gradients / sizeof *gradients; n++) {
        c = parse_one(gradients[n].line);
        assert_true(attn_case_flops(&c, 10) == 2.0 * 10 * gradients[n].products);
        attn_case_free(&c);
    }
}

static void test_copy(void **state)
{
    (void)state;
    struct attn_case c = parse_one("x: data=p.safetensors"), copy;
    assert_int_equal(attn_case_copy(&copy, &c), 0);
    assert_true(copy.data != c.data && copy.file != c.file);
    assert_true(same_case(&copy, &c));
    attn_case_free(&c);
    assert_string_equal(copy.data, "p.safetensors");
    attn_case_free(&copy);
    attn_case_free(&copy); /* nothing is left to free */
    c = parse_one("op=mha b=2 h=4 s=8 d=8 mask=len:7/5 prune=3/1");
    assert_int_equal(attn_case_copy(&copy, &c), 0);
    assert_true(same_case(&copy, &c));
    attn_case_free(&c);
    assert_int_equal(copy.len_list->at[1], 5);
    assert_int_equal(copy.prune->at[1], 3);
    attn_case_free(&copy);
    attn_case_free(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes),
                                       cmocka_unit_test(test_overflow),
                                       cmocka_unit_test(test_flops), cmocka_unit_test(test_copy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
