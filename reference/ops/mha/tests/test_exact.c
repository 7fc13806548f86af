/* SPDX-License-Identifier: Apache-2.0 */
/* test_exact.c - projections that no order of summation rounds: what is called exact is exact, in
 * every order and type, and nothing beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "reference/dtype.h"
#include "reference/ops/mha/mha.h"
#include "reference/tests/results.h"

enum { HEADS = 2, ROWS = 6, WIDTH = 4, MODEL = HEADS * WIDTH };

static const struct attn_numerics narrow = {
    .acc_type = ATTN_F32, .proj_type = ATTN_BF16, .denominator = 1, .e_exp = 0x1p-22};

static double rounded(uint32_t dtype, double x)
{
    double memory;

    attn_dtype_store(dtype, &memory, 0, x);
    return attn_dtype_load(dtype, &memory, 0);
}

/* Values and bounds of out. On generic fills errors are taken in squares: these are not. */
static void compute(struct made *m, const struct attn_numerics *numerics, struct results *r)
{
    struct ref_result result = {.output[0].value = r->out, .output[0].bound = r->out_bound};
    struct ref_request request = {.numerics = numerics, .fill = REF_FILL_STRUCTURED, .threads = 1};
    char why[256];

    ref_request_all(&m->problem, &request);
    if (ref_compute(&m->problem, &request, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

/* Sums of products in random order, every operation rounded to one of the types of a projection,
 * equal the exact sum wherever that is claimed. */
static void what_is_called_exact_is_exact(void **state)
{
    static const uint32_t types[] = {ATTN_BF16, ATTN_F16, ATTN_F32};
    uint64_t random = 7;
    int claimed = 0, refused = 0;

    (void)state;
    for (int trial = 0; trial < 20000; trial++) {
        const uint32_t type = types[trial % 3];
        const int terms = 1 + (int)(made_uniform(&random) * 12);
        const double reach = ldexp(1.0, (int)(made_uniform(&random) * 14));
        struct ref_exactness x = {.u = attn_dtype_roundoff(type),
                                  .least = attn_dtype_min_subnormal(type),
                                  .most = attn_dtype_max(type)};
        double product[12], size = 0, sum = 0, got = 0;
        for (int t = 0; t < terms; t++) {
            product[t] = ldexp(nearbyint((2 * made_uniform(&random) - 1) * reach), -5);
            size += fabs(product[t]);
            sum += product[t];
        }
        double unit = INFINITY;
        for (int t = 0; t < terms; t++)
            unit = fmin(unit, ref_exact_unit(&x, &product[t], 1, 1));
        if (!ref_exact_sum(&x, size, unit)) {
            refused++;
            continue;
        }
        claimed++;
        for (int left = terms; left > 0; left--) {
            const int next = (int)(made_uniform(&random) * left);
            got = rounded(type, got + rounded(type, product[next]));
            product[next] = product[left - 1];
        }
        assert_true(got == sum);
    }
    assert_true(claimed > 2000 && refused > 2000);
}

/* One key, one column, no W_o: the bound of out is little more than that of v. */
static double bound_of_one(const struct attn_numerics *numerics, const double *x, const double *w,
                           double bias, int64_t e)
{
    const struct made_spec spec = {.op = ATTN_OP_MHA,
                                   .hq = e,
                                   .sq = 1,
                                   .dk = 1,
                                   .dtype = ATTN_F32,
                                   .features = MADE_NO_WO | MADE_PROJ_BIAS};
    struct results r;
    struct made m;

    made_create(&m, &spec);
    for (uint32_t t = 0; t < m.problem.n_tensors; t++) /* scores are 0 */
        for (int64_t c = 0; c < made_count(&m.tensors[t]); c++)
            made_set(&m.tensors[t], c, 0);
    for (int64_t i = 0; i < e; i++) {
        made_set(made_tensor(&m, ATTN_X_Q), i, x[i]);
        made_set(made_tensor(&m, ATTN_W_V), i, w[i]);
    }
    made_set(made_tensor(&m, ATTN_B_V), 0, bias);
    compute(&m, numerics, &r);
    made_free(&m);
    return r.out_bound[0];
}

/* Every row: what there is to sum up, and whether the sum is known to the bit. */
static void exactness_ends_where_a_rounding_may_begin(void **state)
{
    static const struct {
        const char *what;
        uint32_t type;
        double x[3], w[3], bias;
        double u_in;
        uint32_t ftz;
        bool exact;
    } table[] = {
        {"256 units in bf16", ATTN_BF16, {100, 100, 50}, {1, -1, 1}, 6, 0, 0, true},
        {"257 units in bf16", ATTN_BF16, {100, 100, 50}, {1, -1, 1}, 7, 0, 0, false},
        {"2048 units in f16", ATTN_F16, {1000, 1000, 40}, {1, 1, 1}, 8, 0, 0, true},
        {"2049 units in f16", ATTN_F16, {1000, 1000, 40}, {1, 1, 1}, 9, 0, 0, false},
        {"one of 9 bits, taken once", ATTN_BF16, {257, 0, 0}, {1, 0, 0}, 0, 0, 0, false},
        {"one of 8 bits, far from the others",
         ATTN_BF16,
         {255, 1e30, 1e-30},
         {4, 0, 0},
         0,
         0,
         0,
         true},
        {"a bias of another unit", ATTN_BF16, {255, 0, 0}, {1, 0, 0}, 0.5, 0, 0, false},
        {"x that tf32 rounds", ATTN_F32, {1 + 0x1p-12, 0, 0}, {1, 0, 0}, 0, 0x1p-11, 0, false},
        {"x that tf32 holds", ATTN_F32, {1 + 0x1p-10, 0, 0}, {1, 0, 0}, 0, 0x1p-11, 0, true},
        {"w that tf32 rounds", ATTN_F32, {1, 0, 0}, {1 + 0x1p-12, 0, 0}, 0, 0x1p-11, 0, false},
        {"a rounding that is not to bits", ATTN_F32, {1, 0, 0}, {1, 0, 0}, 0, 0.0005, 0, false},
        {"a subnormal", ATTN_F16, {0x1p-18, 0, 0}, {1, 0, 0}, 0, 0, 0, true},
        {"a subnormal that is flushed", ATTN_F16, {0x1p-18, 0, 0}, {1, 0, 0}, 0, 0, 1, false},
        {"below all subnormals", ATTN_F16, {0x1p-25, 0, 0}, {1, 0, 0}, 0, 0, 0, false},
    };

    (void)state;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++)
        for (int many = 0; many < 2; many++) {
            /* The same terms among so many zeros that they are few, or repeated by none. */
            const int64_t e = many ? 64 : 3;
            double x[64] = {0}, w[64] = {0};
            struct attn_numerics numerics = narrow;
            numerics.proj_type = table[t].type;
            numerics.u_in = table[t].u_in;
            numerics.ftz = table[t].ftz;
            memcpy(x, table[t].x, sizeof table[t].x);
            memcpy(w, table[t].w, sizeof table[t].w);
            const double bound = bound_of_one(&numerics, x, w, table[t].bias, e);
            double v = table[t].bias;
            for (int i = 0; i < 3; i++)
                v += x[i] * w[i];
            /* What attention of one key adds, and the rounding of out, both in f32. */
            const double least = 0x1p-18 * fabs(v) + 0x1p-120;
            if ((bound <= least) != table[t].exact)
                fail_msg("%s, width %d: bound %g of %g", table[t].what, (int)e, bound, v);
        }
}

/* Rows of w with one weight +-1 and rows of whole numbers: the bound is that of attention over the
 * projected q, k and v. */
static void the_bound_is_that_of_attention(void **state)
{
    static const uint32_t weights[] = {ATTN_W_Q, ATTN_W_K, ATTN_W_V};
    static const uint32_t operands[] = {ATTN_Q, ATTN_K, ATTN_V};
    struct made_spec mha = {.op = ATTN_OP_MHA,
                            .hq = HEADS,
                            .sq = ROWS,
                            .dk = WIDTH,
                            .dtype = ATTN_F32,
                            .features = MADE_NO_WO | MADE_CAUSAL};
    struct made_spec plain = mha;
    struct results r, s;
    struct made m, n;

    (void)state;
    plain.op = ATTN_OP_ATTENTION;
    plain.features = MADE_CAUSAL;
    for (int whole = 0; whole < 2; whole++) {
        made_create(&m, &mha);
        made_create(&n, &plain);
        for (int64_t x = 0; x < ROWS * MODEL; x++)
            made_set(made_tensor(&m, ATTN_X_Q), x, (double)(x * 7 % 13 - 6) / 4);
        for (int w = 0; w < 3; w++)
            for (int64_t row = 0; row < MODEL; row++)
                for (int64_t c = 0; c < MODEL; c++)
                    made_set(made_tensor(&m, weights[w]), row * MODEL + c,
                             whole ? (double)((row * 5 + c * 3 + w) % 3 - 1)
                                   : (c == (row * 3 + w) % MODEL) * (row % 2 ? -1.0 : 1.0));
        for (int w = 0; w < 3; w++)
            for (int64_t i = 0; i < ROWS; i++)
                for (int64_t row = 0; row < MODEL; row++) {
                    double sum = 0;
                    for (int64_t c = 0; c < MODEL; c++)
                        sum += made_get(made_tensor(&m, ATTN_X_Q), i * MODEL + c) *
                               made_get(made_tensor(&m, weights[w]), row * MODEL + c);
                    made_set(made_tensor(&n, operands[w]),
                             (row / WIDTH * ROWS + i) * WIDTH + row % WIDTH, sum);
                }
        compute(&m, &narrow, &r);
        compute(&n, &narrow, &s);
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t c = 0; c < MODEL; c++) {
                const double own = r.out_bound[i * MODEL + c];
                const double other = s.out_bound[(c / WIDTH * ROWS + i) * WIDTH + c % WIDTH];
                /* A scale that is folded into w_q costs two roundings of the accumulation. */
                assert_true(own >= other && own <= 1.5 * other + 0x1p-20);
            }
        made_free(&m);
        made_free(&n);
    }
}

/* W_o of one +-1 a row passes the error of its column on, and adds none. */
static void a_permutation_adds_no_error(void **state)
{
    struct made_spec with = {
        .op = ATTN_OP_MHA, .hq = HEADS, .sq = ROWS, .dk = WIDTH, .dtype = ATTN_F32, .seed = 3};
    struct made_spec without = with;
    struct results r, s;
    struct made m, n;

    (void)state;
    without.features = MADE_NO_WO;
    made_create(&m, &with);
    made_create(&n, &without);
    for (uint32_t t = 0; t < n.problem.n_tensors; t++)
        for (int64_t x = 0; n.tensors[t].role != ATTN_OUT && x < made_count(&n.tensors[t]); x++)
            made_set(&n.tensors[t], x, made_get(made_tensor(&m, n.tensors[t].role), x));
    struct attn_tensor *w_o = made_tensor(&m, ATTN_W_O);
    const int64_t out = w_o->shape[0];
    for (int64_t x = 0; x < out * MODEL; x++)
        made_set(w_o, x, x % MODEL == (x / MODEL * 3 + 1) % MODEL ? -1.0 : 0.0);
    compute(&m, &results_f32, &r);
    compute(&n, &results_f32, &s);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t c = 0; c < out; c++) {
            const double own = r.out_bound[i * out + c];
            const double other = s.out_bound[i * MODEL + (c * 3 + 1) % MODEL];
            /* W_o makes more chains, so lambda is a little larger. */
            assert_true(own >= other * 0.999 && own <= other * 1.005);
        }
    made_free(&m);
    made_free(&n);
}

/* 0 times NaN is NaN: a weight of 0 does not hide what x holds. */
static void nan_passes_a_weight_of_zero(void **state)
{
    const double w[64] = {1};
    double x[64] = {1};

    (void)state;
    assert_true(bound_of_one(&narrow, x, w, 0, 64) > 0);
    x[5] = NAN; /* the bound is 0 where the reference is NaN */
    assert_true(bound_of_one(&narrow, x, w, 0, 64) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_called_exact_is_exact),
        cmocka_unit_test(exactness_ends_where_a_rounding_may_begin),
        cmocka_unit_test(the_bound_is_that_of_attention),
        cmocka_unit_test(a_permutation_adds_no_error),
        cmocka_unit_test(nan_passes_a_weight_of_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
