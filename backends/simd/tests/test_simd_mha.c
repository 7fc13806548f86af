/* SPDX-License-Identifier: Apache-2.0 */
/* test_simd_mha.c - multi-head attention of each backend, in each of its types, against a double
 * loop: projections larger than their blocks, every layout of their operands, optional operands,
 * and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "../gemm.h"

/* What is under test. */
static const struct attn_backend *rung;
static const struct attn_flash_isa *isa;
static uint32_t type;
static bool narrow; /* a rung for one 16-bit type, in which it stores projections */

#define CROSS (WITH_X_K | WITH_W_O | WITH_PROJ_BIAS)

static const struct test_spec own[] = {
    {.name = "more rows, columns and depth than a block",
     .op = ATTN_OP_MHA,
     .b = 2,
     .hq = 1,
     .sq = 197,
     .sk = 3,
     .dq = 5,
     .e = 515,
     .with = CROSS},
    {.name = "as many rows as fit no unit, grouped heads, wide values, pruned heads, residual",
     .op = ATTN_OP_MHA,
     .flags = ATTN_FLAG_RESIDUAL | ATTN_FLAG_CAUSAL,
     .b = 3,
     .hq = 4,
     .hkv = 2,
     .sq = 25,
     .sk = 25,
     .dq = 16,
     .dv = 24,
     .e = 64,
     .with = ALL_OUT | WITH_W_O | WITH_PROJ_BIAS | WITH_HEAD_MASK | WITH_GAPS},
    {.name = "all extras, no output projection, residual",
     .op = ATTN_OP_MHA,
     .flags = ATTN_FLAG_RESIDUAL | ATTN_FLAG_SOFTCAP | ATTN_FLAG_DROPOUT | ATTN_FLAG_WINDOW,
     .softcap = 2,
     .dropout_p = 0.25,
     .left = 4,
     .right = 2,
     .b = 2,
     .hq = 3,
     .sq = 9,
     .sk = 9,
     .dq = 8,
     .e = 24,
     .with = ALL_OUT | WITH_PROJ_BIAS | WITH_HEAD_MASK | WITH_MASK | WITH_BIAS | WITH_LEN |
             WITH_ALIBI | WITH_SINK | WITH_KEEP},
    {.name = "no keys",
     .op = ATTN_OP_MHA,
     .hq = 2,
     .sq = 3,
     .sk = 0,
     .dq = 4,
     .e = 8,
     .with = ALL_OUT | CROSS},
    {.name = "one query of one head",
     .op = ATTN_OP_MHA,
     .b = 1,
     .sq = 1,
     .sk = 1,
     .dq = 1,
     .e = 1,
     .with = WITH_W_O | WITH_GAPS},
};

/* As test_problem_make, in the type under test and with small weights, as models have them: the
 * tolerance of test_check is for results about 1 in size. */
static void make(const struct test_spec *spec, struct test_problem *made)
{
    struct test_spec typed = *spec;
    typed.dtype = type;
    test_problem_make(&typed, made);
    for (uint32_t t = 0; t < made->problem.n_tensors; t++) {
        const struct attn_tensor *w = &made->tensors[t];
        int64_t at[2];
        if (w->role < ATTN_W_Q || w->role > ATTN_W_O)
            continue;
        for (at[0] = 0; at[0] < w->shape[0]; at[0]++)
            for (at[1] = 0; at[1] < w->shape[1]; at[1]++)
                test_set(w, at, test_at(w, at) / 16);
    }
}

static struct attn_tensor *tensor_of(struct test_problem *made, uint32_t role)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        if (made->tensors[t].role == role)
            return &made->tensors[t];
    fail_msg("the problem has no tensor of role %u", role);
    return NULL;
}

static void drop(struct test_problem *made, uint32_t role)
{
    uint32_t t = (uint32_t)(tensor_of(made, role) - made->tensors);
    free(made->tensors[t].data);
    uint32_t left = --made->problem.n_tensors - t;
    memmove(&made->tensors[t], &made->tensors[t + 1], left * sizeof made->tensors[t]);
    memmove(&made->bytes[t], &made->bytes[t + 1], left * sizeof made->bytes[t]);
}

/* lse of heads whose projections were stored in 16 bits is as far off as if it were bf16 itself. */
static void check_lse(const struct test_spec *spec, const struct test_problem *made)
{
    const struct attn_problem *p = &made->problem;
    const struct attn_tensor *lse = attn_tensor_find(p, ATTN_LSE);
    double *row = calloc((size_t)(p->dv + p->sk), sizeof *row);
    assert_non_null(row);
    for (int64_t r = 0; r < p->b * p->hq * p->sq; r++) {
        const int64_t at[] = {r / p->sq / p->hq, r / p->sq % p->hq, r % p->sq};
        double want = test_oracle_row(p, at[0], at[1], at[2], row, row + p->dv);
        double got = test_at(lse, at), limit = 1.6e-2 * (1 + fabs(want));
        if (isnan(want) ? !isnan(got) : isinf(want) ? got != want : !(fabs(got - want) <= limit))
            fail_msg("%s: lse of row %d is %g, expected %g", spec->name, (int)r, got, want);
    }
    free(row);
}

static void check(const struct test_spec *spec, struct test_problem *made)
{
    if (narrow && attn_tensor_find(&made->problem, ATTN_LSE)) {
        check_lse(spec, made);
        drop(made, ATTN_LSE);
    }
    test_check(spec, made);
}

static void run_altered(const struct test_spec *spec, struct test_problem *made)
{
    test_run(rung, made);
    check(spec, made);
    test_problem_free(made);
}

static void matches_the_oracle(void **state)
{
    (void)state;
    for (size_t s = 0; s < test_cases_n; s++) {
        struct test_spec spec = test_cases[s];
        struct test_problem made;
        if (spec.op != ATTN_OP_MHA)
            continue;
        spec.dtype = type;
        if (narrow) /* large projections are far off */
            make(&spec, &made);
        else
            test_problem_make(&spec, &made);
        run_altered(&spec, &made);
    }
    for (size_t s = 0; s < sizeof own / sizeof *own; s++) {
        struct test_problem made;
        make(&own[s], &made);
        run_altered(&own[s], &made);
    }
}

/* Moves a tensor of rank 2 or 3 into memory whose last two axes are swapped, with a gap. */
static void transpose(struct test_problem *made, uint32_t role)
{
    struct attn_tensor *x = tensor_of(made, role), old = *x;
    uint32_t last = x->rank - 1;
    int64_t blocks = x->rank == 3 ? x->shape[0] : 1, column = x->shape[last - 1] + 1;
    size_t bytes = (size_t)(blocks * x->shape[last] * column * attn_element_bytes(x->dtype));
    x->stride[0] = x->shape[last] * column;
    x->stride[last - 1] = 1;
    x->stride[last] = column;
    x->data = malloc(bytes);
    assert_non_null(x->data);
    made->bytes[x - made->tensors] = bytes;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t s = 0; s < x->shape[last - 1]; s++)
            for (int64_t c = 0; c < x->shape[last]; c++) {
                const int64_t three[] = {b, s, c}, *idx = x->rank == 3 ? three : three + 1;
                test_set(x, idx, test_at(&old, idx));
            }
    free(old.data);
}

static const struct test_spec whole = {.name = "altered",
                                       .op = ATTN_OP_MHA,
                                       .flags = ATTN_FLAG_RESIDUAL,
                                       .b = 2,
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 7,
                                       .sk = 13,
                                       .dq = 8,
                                       .dv = 4,
                                       .e = 20,
                                       .with = ALL_OUT | CROSS};

static void takes_operands_of_any_strides(void **state)
{
    (void)state;
    const uint32_t roles[] = {ATTN_X_Q, ATTN_X_K, ATTN_X_V, ATTN_W_Q,
                              ATTN_W_K, ATTN_W_V, ATTN_W_O, ATTN_OUT};
    struct test_problem made;
    for (uint32_t set = 1; set < 256; set = set * 2 + 1) { /* ever more of them */
        make(&whole, &made);
        for (int r = 0; r < 8; r++)
            if (set >> r & 1)
                transpose(&made, roles[r]);
        run_altered(&whole, &made);
    }
    struct test_spec heads = whole; /* whose outputs are heads side by side, transposed */
    heads.with &= ~(uint32_t)WITH_W_O;
    heads.e = heads.hq * heads.dv;
    heads.with |= WITH_HEAD_MASK;
    make(&heads, &made);
    transpose(&made, ATTN_OUT);
    run_altered(&heads, &made);

    make(&whole, &made);
    tensor_of(&made, ATTN_X_K)->stride[0] = 0; /* the same keys in both batches */
    tensor_of(&made, ATTN_X_V)->stride[1] = 0; /* the same value at all keys */
    tensor_of(&made, ATTN_W_Q)->stride[0] = 0;
    tensor_of(&made, ATTN_B_V)->stride[0] = 0;
    run_altered(&whole, &made);
}

static void operands_are_optional(void **state)
{
    (void)state;
    struct test_problem made;
    for (uint32_t set = 0; set < 16; set++) {
        make(&whole, &made);
        for (uint32_t n = 0; n < 4; n++)
            if (set >> n & 1)
                drop(&made, ATTN_B_Q + n);
        run_altered(&whole, &made);
    }
    make(&whole, &made); /* x_v is x_k */
    drop(&made, ATTN_X_V);
    tensor_of(&made, ATTN_W_V)->shape[1] = whole.e + 1;
    test_run(rung, &made);
    struct attn_tensor *x_v =
        &made.tensors[made.problem.n_tensors++]; /* spelt out for the oracle */
    *x_v = *tensor_of(&made, ATTN_X_K);
    x_v->role = ATTN_X_V;
    check(&whole, &made);
    made.problem.n_tensors--;
    test_problem_free(&made);
}

/* What is not finite in keys beyond the lengths stays there. */
static void padding_does_not_leak(void **state)
{
    (void)state;
    struct test_spec spec = whole;
    struct test_problem made;
    spec.with |= WITH_LEN;
    make(&spec, &made);
    const int64_t lengths[] = {5, 12};
    for (int64_t b = 0; b < 2; b++) {
        test_set(tensor_of(&made, ATTN_LEN), &b, (double)lengths[b]);
        for (int64_t j = lengths[b]; j < spec.sk; j++) {
            test_set(tensor_of(&made, ATTN_X_K), (int64_t[]){b, j, j % 3}, NAN);
            test_set(tensor_of(&made, ATTN_X_V), (int64_t[]){b, j, j % 5}, INFINITY);
        }
    }
    const struct attn_tensor *out = tensor_of(&made, ATTN_OUT);
    test_run(rung, &made);
    for (int64_t o = 0; o < out->shape[2]; o++)
        assert_true(isfinite(test_at(out, (int64_t[]){1, 6, o})));
    check(&spec, &made);
    test_problem_free(&made);
}

/* A pruned head is zero even where it is NaN; its lse and weights stay. */
static void pruned_heads_are_zero(void **state)
{
    (void)state;
    struct test_spec spec = whole;
    struct test_problem made;
    spec.with |= WITH_HEAD_MASK;
    make(&spec, &made);
    for (int64_t h = 0; h < 4; h++)
        test_set(tensor_of(&made, ATTN_HEAD_MASK), &h, h == 1 || h == 2);
    test_set(tensor_of(&made, ATTN_B_Q), (int64_t[]){3}, NAN); /* a query of head 0 */
    test_run(rung, &made);
    assert_true(isfinite(test_at(tensor_of(&made, ATTN_OUT), (int64_t[]){0, 0, 0})));
    assert_true(isnan(test_at(tensor_of(&made, ATTN_LSE), (int64_t[]){0, 0, 0})));
    check(&spec, &made);
    test_problem_free(&made);
}

/* Whatever attention takes alone, it takes in the heads. */
static void scores_work_in_heads_as_alone(void **state)
{
    (void)state;
    struct test_spec specs[] = {
        {.name = "bilinear", .score = ATTN_SCORE_BILINEAR, .dq = 3, .dk = 6, .dv = 5},
        {.name = "additive", .score = ATTN_SCORE_ADDITIVE, .dq = 3, .dk = 6, .dv = 5, .dh = 7},
        {.name = "gaussian", .score = ATTN_SCORE_GAUSSIAN, .dq = 4},
        {.name = "dot", .score = ATTN_SCORE_DOT, .dq = 4},
    };
    char why[256] = "";
    const struct attn_services services = {.struct_size = sizeof services, .threads = 1};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        struct test_problem alone, heads;
        struct test_spec spec = specs[s];
        spec.hq = 2, spec.sq = 7, spec.sk = 9;
        make(&spec, &alone);
        spec.op = ATTN_OP_MHA, spec.e = 10, spec.with = ALL_OUT | CROSS | WITH_HEAD_PARAMS;
        make(&spec, &heads);
        int taken = rung->supports(&alone.problem, &services, why, sizeof why);
        assert_int_equal(rung->supports(&heads.problem, &services, why, sizeof why), taken);
        if (taken == ATTN_OK) {
            test_run(rung, &heads);
            check(&spec, &heads);
        }
        test_problem_free(&alone);
        test_problem_free(&heads);
    }
}

/* Memory for `count` elements of the type under test; element n is f(n). */
static void *elements(int64_t count, float (*f)(float))
{
    void *made = aligned_alloc(64, ((size_t)(count * attn_element_bytes(type)) + 63) / 64 * 64);
    assert_non_null(made);
    for (int64_t n = 0; n < count; n++)
        attn_element_write(type, made, n, f((float)n));
    return made;
}

/* Bytes of an array rounded up to whole cache lines. */
static void *lines(int64_t bytes)
{
    void *made = aligned_alloc(64, (size_t)attn_round_up(bytes, 64));
    assert_non_null(made);
    return made;
}

/* Any share of the work gives the same bits, and all shares cover all of it. */
static void shares_agree_bitwise(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{1, 300, 50}, {40, 521, 33}, {200, 17, 290}}; /* rows, e, columns */
    const struct attn_gemm_layout layout = attn_gemm_layout(isa, type);
    struct attn_gemm_scratch *scratch = lines(sizeof *scratch);
    for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        const int64_t rows = sizes[n][0], inner = sizes[n][1], columns = sizes[n][2];
        const int64_t bytes = rows * columns * attn_element_bytes(type);
        void *w = elements(columns * inner, sinf), *x = elements(rows * inner, cosf);
        void *y[2] = {lines(bytes), lines(bytes)};
        void *packed = lines(attn_gemm_packed(&layout, columns, inner));
        float *bias = lines(attn_gemm_biases(&layout, columns));
        const struct attn_tensor weights = {
            .dtype = type, .rank = 2, .shape = {columns, inner}, .stride = {inner, 1}, .data = w};
        attn_gemm_pack(&layout, &weights, packed);
        attn_gemm_pack_bias(&layout, &(struct attn_tensor){.dtype = 0}, columns, bias);
        struct attn_gemm job = {.rows = rows,
                                .batch_rows = rows,
                                .inner = inner,
                                .columns = columns,
                                .x = {.data = x, .stride = {0, inner, 1}, .dtype = type},
                                .y = {.data = y[0], .stride = {0, columns, 1}, .dtype = type},
                                .layout = layout,
                                .packed = packed,
                                .bias = bias};
        isa->run_gemm(&job, &(struct attn_gemm_part){0, rows, 0, columns}, scratch);
        for (int threads = 2; threads < 70; threads += 3) {
            memset(y[1], 0xff, (size_t)bytes);
            job.y.data = y[1];
            for (int t = 0; t < threads; t++) {
                struct attn_gemm_part part = attn_gemm_share(&job, isa, t, threads);
                isa->run_gemm(&job, &part, scratch);
            }
            assert_memory_equal(y[0], y[1], (size_t)bytes);
        }
        free(w), free(x), free(packed), free(bias), free(y[0]), free(y[1]);
    }
    free(scratch);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    const uint32_t misfits[] = {ATTN_X_K, ATTN_W_K, ATTN_W_O, ATTN_B_V, ATTN_OUT};
    struct test_problem made;
    for (size_t n = 0; n < sizeof misfits / sizeof *misfits; n++) {
        make(&whole, &made);
        struct attn_tensor *x = tensor_of(&made, misfits[n]);
        x->shape[x->rank - 1]++;
        test_problem_refused(rung, &made.problem);
        x->shape[x->rank - 1]--;
        x->dtype = ATTN_F64;
        test_problem_refused(rung, &made.problem);
        x->dtype = type;
        x->space = ATTN_CUDA;
        test_problem_refused(rung, &made.problem);
        test_problem_free(&made);
    }
}

static void refuses_what_is_too_much_or_missing(void **state)
{
    (void)state;
    struct test_problem made;
    make(&whole, &made);
    made.problem.b = made.problem.sk = INT64_C(1) << 40; /* their product overflows */
    test_problem_refused(rung, &made.problem);
    test_problem_free(&made);
    const uint32_t others[] = {ATTN_Q, ATTN_PAST_K, ATTN_ROLE_USER};
    for (size_t n = 0; n < sizeof others / sizeof *others; n++) {
        make(&whole, &made);
        tensor_of(&made, ATTN_LSE)->role = others[n];
        test_problem_refused(rung, &made.problem);
        test_problem_free(&made);
    }
    const uint32_t needed[] = {ATTN_X_Q, ATTN_W_Q, ATTN_W_K, ATTN_W_V, ATTN_OUT, ATTN_W_O};
    for (size_t n = 0; n < sizeof needed / sizeof *needed; n++) { /* w_o: b_o hangs in the air */
        make(&whole, &made);
        drop(&made, needed[n]);
        test_problem_refused(rung, &made.problem);
        test_problem_free(&made);
    }
}

static void refuses_what_does_not_go_together(void **state)
{
    (void)state;
    struct test_problem made;
    const struct test_spec refused[] = {
        {.name = "fewer keys than rows of x_q",
         .op = ATTN_OP_MHA,
         .sq = 3,
         .sk = 2,
         .dq = 2,
         .e = 2},
        {.name = "residual of another width",
         .op = ATTN_OP_MHA,
         .flags = ATTN_FLAG_RESIDUAL,
         .sq = 2,
         .sk = 2,
         .dq = 2,
         .e = 3},
    };
    for (size_t n = 0; n < sizeof refused / sizeof *refused; n++) {
        make(&refused[n], &made);
        test_problem_refused(rung, &made.problem);
        test_problem_free(&made);
    }
    test_spec_refused(rung, &(struct test_spec){.name = "f64",
                                                .op = ATTN_OP_MHA,
                                                .dtype = ATTN_F64,
                                                .sq = 2,
                                                .sk = 2,
                                                .dq = 2,
                                                .e = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_oracle),
        cmocka_unit_test(takes_operands_of_any_strides),
        cmocka_unit_test(operands_are_optional),
        cmocka_unit_test(padding_does_not_leak),
        cmocka_unit_test(pruned_heads_are_zero),
        cmocka_unit_test(scores_work_in_heads_as_alone),
        cmocka_unit_test(shares_agree_bitwise),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_what_is_too_much_or_missing),
        cmocka_unit_test(refuses_what_does_not_go_together),
    };
    const struct {
        const char *name;
        const struct attn_flash_isa *isa; /* of the projections */
        uint32_t types[4];                /* 0 ends the list */
    } instances[] = {
        {"avx2", &attn_flash_avx2, {ATTN_F32, ATTN_F16, ATTN_BF16}},
        {"avx512", &attn_flash_avx512, {ATTN_F32, ATTN_F16, ATTN_BF16}},
        {"avx512_bf16", &attn_flash_avx512_bf16, {ATTN_BF16}},
        {"avx512_fp16", &attn_flash_avx512, {ATTN_F16}},
        {"amx_bf16", &attn_flash_amx_bf16, {ATTN_BF16}},
    };
    char text[256];
    int failed = 0;
    for (uint32_t n = 0; n < attn_plugin.n_backends; n++) {
        rung = attn_plugin.backends[n];
        isa = instances[n].isa;
        narrow = instances[n].types[0] != ATTN_F32;
        if (strcmp(rung->name, instances[n].name) != 0) {
            print_message("%s is not %s\n", rung->name, instances[n].name);
            failed++;
        } else if (rung->probe(NULL, text, sizeof text) != ATTN_OK) {
            print_message("%s: %s: nothing to test\n", rung->name, text);
            continue;
        }
        for (const uint32_t *t = instances[n].types; *t; t++) {
            type = *t;
            snprintf(text, sizeof text, "%s %s", rung->name,
                     type == ATTN_F32   ? "f32"
                     : type == ATTN_F16 ? "f16"
                                        : "bf16");
            failed += cmocka_run_group_tests_name(text, tests, NULL, NULL);
        }
    }
    return failed;
}
