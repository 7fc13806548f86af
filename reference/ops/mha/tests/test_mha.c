/* SPDX-License-Identifier: Apache-2.0 */
/* test_mha.c - what only multi-head attention has: projections, rows of all heads, widths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "reference/tests/results.h"

static void identity_projections_are_attention(void **state)
{
    struct made_spec mha = {.op = ATTN_OP_MHA,
                            .hq = 2,
                            .sq = 5,
                            .dk = 3,
                            .features = MADE_NO_WO | MADE_CAUSAL,
                            .seed = 21};
    struct made_spec plain = {.hq = 2, .sq = 5, .dk = 3, .features = MADE_CAUSAL, .seed = 22};
    static const uint32_t weights[] = {ATTN_W_Q, ATTN_W_K, ATTN_W_V};
    static const uint32_t operands[] = {ATTN_Q, ATTN_K, ATTN_V};
    struct results r, s;
    struct made m, n;

    (void)state;
    made_create(&m, &mha);
    made_create(&n, &plain);
    for (int w = 0; w < 3; w++) {
        for (int64_t x = 0; x < 36; x++)
            made_set(made_tensor(&m, weights[w]), x, x / 6 == x % 6);
        for (int64_t x = 0; x < 30; x++) /* [h,i,c] from [i,h*3+c] */
            made_set(made_tensor(&n, operands[w]), x,
                     made_get(made_tensor(&m, ATTN_X_Q), x / 3 % 5 * 6 + x / 15 * 3 + x % 3));
    }
    results_compute(&m, NULL, &r);
    results_compute(&n, NULL, &s);
    for (int64_t x = 0; x < 30; x++)
        results_assert_near(r.out[x / 3 % 5 * 6 + x / 15 * 3 + x % 3], s.out[x]);
    made_free(&m);
    made_free(&n);
}

static void requested_rows_are_rows_of_the_whole(void **state)
{
    static const int64_t mha_index[] = {1, 4, 9};
    struct made_spec mha = {.op = ATTN_OP_MHA, .b = 2, .hq = 2, .sq = 5, .dk = 3, .seed = 5};
    struct results r, s;
    struct made m;

    (void)state;
    made_create(&m, &mha);
    results_compute(&m, &results_f32, &r);
    results_compute_rows(&m, &results_f32, &(struct ref_units){3, mha_index}, 2, &s);
    for (int x = 0; x < 3; x++) {
        assert_memory_equal(s.out + x * 9, r.out + mha_index[x] * 9, 9 * sizeof(double));
        assert_memory_equal(s.weights + x * 10, r.weights + mha_index[x] * 10, 10 * sizeof(double));
    }
    made_free(&m);
}

/* A projection that may overflow takes the elements with it that depend on it, and no others: v
 * of one column reaches one column where there is no W_o, a key those queries that see it. */
static void projections_may_overflow(void **state)
{
    static const struct {
        uint32_t role;
        int64_t row; /* of it, that is large */
        int features;
        bool known[4]; /* out[i][c] of two queries and two columns */
    } table[] = {
        {ATTN_W_V, 0, MADE_NO_WO, {false, true, false, true}},
        {ATTN_W_V, 0, 0, {false, false, false, false}},
        {ATTN_W_K, 0, MADE_NO_WO, {false, false, false, false}},
        {ATTN_X_K, 1, MADE_NO_WO | MADE_CAUSAL, {true, true, false, false}},
        {ATTN_X_Q, 1, MADE_NO_WO, {true, true, false, false}},
    };

    (void)state;
    for (size_t t = 0; t < 2 * sizeof(table) / sizeof(*table); t++) {
        const bool wide = t % 2; /* the same in projections that f32 holds */
        struct made m;
        double out[16], bound[16];
        char why[256];
        made_create(&m, &(struct made_spec){.op = ATTN_OP_MHA,
                                            .sq = 2,
                                            .dk = 2,
                                            .dtype = ATTN_F32,
                                            .features = table[t / 2].features | MADE_CROSS});
        for (uint32_t x = 0; x < m.problem.n_tensors; x++)
            for (int64_t c = 0; c < made_count(&m.tensors[x]); c++)
                made_set(&m.tensors[x], c, 1.0);
        struct attn_tensor *large = made_tensor(&m, table[t / 2].role);
        int64_t in = large->shape[large->rank - 1];
        for (int64_t c = 0; c < in; c++)
            made_set(large, table[t / 2].row * in + c, 5e4);
        assert_true(made_count(made_tensor(&m, ATTN_OUT)) <= 16);
        struct ref_result result = {.output = {{out, bound}}};
        struct ref_request request = {
            .numerics = &(struct attn_numerics){.acc_type = ATTN_F32,
                                                .proj_type = wide ? ATTN_F32 : ATTN_F16},
            .fill = REF_FILL_STRUCTURED};
        ref_request_all(&m.problem, &request);
        if (ref_compute(&m.problem, &request, &result, why, sizeof why) != ATTN_OK)
            fail_msg("%s", why);
        for (int64_t x = 0; x < 4; x++) {
            int64_t at = x / 2 * ref_output_width(&m.problem, 0) + x % 2;
            if (isfinite(bound[at]) != (wide || table[t / 2].known[x]))
                fail_msg("row %zu of the table, element %d: bound %g", t / 2, (int)x, bound[at]);
        }
        made_free(&m);
    }
}

/* One thing changed in a good problem. */
static void bias_without_w_o(struct made *m)
{
    made_tensor(m, ATTN_W_O)->role = ATTN_B_O;
}

static void flat_input(struct made *m)
{
    made_tensor(m, ATTN_X_Q)->rank = 2;
}

static void more_keys(struct made *m)
{
    m->problem.sk++;
}

static void other_width(struct made *m)
{
    m->problem.flags |= ATTN_FLAG_RESIDUAL;
    made_tensor(m, ATTN_OUT)->shape[2]++;
}

static void refuses_what_does_not_combine(void **state)
{
    static const struct {
        void (*apply)(struct made *m);
        const char *why;
    } changes[] = {
        {bias_without_w_o, "b_o is given without w_o"},
        {flat_input, "x_q, x_k, x_v and out of multi-head attention have rank 3"},
        {more_keys, "without x_k, sk must be sq"},
        {other_width, "a residual needs x_q and out of equal width"},
    };

    (void)state;
    for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
        const struct made_spec spec = {.op = ATTN_OP_MHA, .hq = 2, .sq = 3, .dk = 2};
        struct made m;
        char why[256] = "";
        made_create(&m, &spec);
        changes[c].apply(&m);
        assert_int_equal(ref_check_problem(&m.problem, why, sizeof why), ATTN_INVALID);
        assert_string_equal(why, changes[c].why);
        made_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_projections_are_attention),
        cmocka_unit_test(requested_rows_are_rows_of_the_whole),
        cmocka_unit_test(projections_may_overflow),
        cmocka_unit_test(refuses_what_does_not_combine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
