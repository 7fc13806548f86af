/* SPDX-License-Identifier: Apache-2.0 */
/* test_check.c - what ref_check_problem refuses, and how allowed cells are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/tests/results.h"

static const struct made_spec usual = {.b = 2,
                                       .hq = 4,
                                       .hkv = 2,
                                       .sq = 3,
                                       .sk = 5,
                                       .dk = 4,
                                       .features = MADE_LEN | MADE_MASK,
                                       .seed = 1};
static const struct made_spec usual_mha = {.op = ATTN_OP_MHA, .hq = 2, .sq = 3, .dk = 2};

/* One thing changed in a good problem. */
struct change {
    const char *word; /* in the refusal's sentence */
    void (*apply)(struct made *m);
};

static void no_op(struct made *m)
{
    m->problem.op = 9;
}

static void no_score(struct made *m)
{
    m->problem.score = 77;
}

static void no_type(struct made *m)
{
    m->problem.dtype = ATTN_F8_E4M3;
}

static void strange_flag(struct made *m)
{
    m->problem.flags |= 1ull << 40;
}

static void reserved_flag(struct made *m)
{
    m->problem.flags |= ATTN_FLAG_APPROXIMATE;
}

static void odd_groups(struct made *m)
{
    m->problem.hkv = 3;
}

static void infinite_scale(struct made *m)
{
    m->problem.scale = INFINITY;
}

static void no_softcap(struct made *m)
{
    m->problem.flags |= ATTN_FLAG_SOFTCAP;
}

static void bad_window(struct made *m)
{
    m->problem.flags |= ATTN_FLAG_WINDOW;
    m->problem.window_left = -2;
}

static void all_dropped(struct made *m)
{
    m->problem.flags |= ATTN_FLAG_DROPOUT;
    m->problem.dropout_p = 1.0;
}

static void huge(struct made *m)
{
    m->problem.sq = INT64_C(1) << 40;
    m->problem.sk = INT64_C(1) << 40;
}

static void other_shape(struct made *m)
{
    made_tensor(m, ATTN_V)->shape[2] = 6;
}

static void other_rank(struct made *m)
{
    made_tensor(m, ATTN_Q)->rank = 3;
}

static void other_type(struct made *m)
{
    made_tensor(m, ATTN_K)->dtype = ATTN_F32;
}

static void negative_stride(struct made *m)
{
    made_tensor(m, ATTN_K)->stride[2] = -4;
}

static void broadcast_output(struct made *m)
{
    made_tensor(m, ATTN_OUT)->stride[1] = 0;
}

static void twice(struct made *m)
{
    made_tensor(m, ATTN_MASK)->role = ATTN_Q;
}

static void unknown_role(struct made *m)
{
    made_tensor(m, ATTN_MASK)->role = ATTN_BLOCK_TABLE;
}

static void missing(struct made *m)
{
    made_tensor(m, ATTN_V)->role = ATTN_BIAS;
}

static void elsewhere(struct made *m)
{
    made_tensor(m, ATTN_V)->space = ATTN_CUDA;
}

static void long_row(struct made *m)
{
    made_set(made_tensor(m, ATTN_LEN), 1, 6);
}

static void negative_length(struct made *m)
{
    made_set(made_tensor(m, ATTN_LEN), 0, -1);
}

static void residual(struct made *m)
{
    m->problem.flags |= ATTN_FLAG_RESIDUAL;
}

static void keep_alone(struct made *m)
{
    made_tensor(m, ATTN_MASK)->role = ATTN_KEEP;
}

static void longer_keys(struct made *m)
{
    m->problem.sk = 4;
}

static void assert_refused(const struct made_spec *spec, const struct change *change)
{
    struct made m;
    char why[256] = "";
    int status;

    made_create(&m, spec);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof(why)), ATTN_OK);
    change->apply(&m);
    status = ref_check_problem(&m.problem, why, sizeof(why));
    if (status != ATTN_INVALID || !strstr(why, change->word))
        fail_msg("expected a refusal with '%s', got %d '%s'", change->word, status, why);
    made_free(&m);
}

static void bad_problems_are_refused(void **state)
{
    static const struct change changes[] = {
        {"operation", no_op},
        {"score", no_score},
        {"element type", no_type},
        {"flags", strange_flag},
        {"flags", reserved_flag},
        {"divide", odd_groups},
        {"scale", infinite_scale},
        {"softcap", no_softcap},
        {"window", bad_window},
        {"dropout", all_dropped},
        {"64 bits", huge},
        {"axis 2", other_shape},
        {"rank 3", other_rank},
        {"element type f32", other_type},
        {"stride", negative_stride},
        {"stride", broadcast_output},
        {"twice", twice},
        {"no place", unknown_role},
        {"needed", missing},
        {"host memory", elsewhere},
        {"length 6", long_row},
        {"length -1", negative_length},
        {"go with op=attention", residual},
        {"keep", keep_alone},
    };
    static const struct change mha_changes[] = {{"sk must be sq", longer_keys},
                                                {"equal width", residual}};

    (void)state;
    for (size_t c = 0; c < sizeof(changes) / sizeof(*changes); c++)
        assert_refused(&usual, &changes[c]);
    for (size_t c = 0; c < 2; c++)
        assert_refused(&usual_mha, &mha_changes[c]);
}

static void bottom_right_needs_one_length_a_batch(void **state)
{
    struct made_spec spec = usual;
    struct made m;
    char why[256] = "";

    (void)state;
    spec.features = MADE_LEN2D | MADE_BR | MADE_CAUSAL;
    made_create(&m, &spec);
    assert_int_equal(ref_check_problem(&m.problem, why, sizeof(why)), ATTN_INVALID);
    assert_non_null(strstr(why, "bottom-right"));
    made_free(&m);
}

static void bad_requests_are_refused(void **state)
{
    static const int64_t beyond[] = {0, 24}, unsorted[] = {3, 2};
    static const struct ref_units requests[] = {{2, beyond}, {2, unsorted}, {3, NULL}};
    struct ref_result nothing = {.output[0].value = NULL};
    struct made m;
    char why[256] = "";

    (void)state;
    made_create(&m, &usual);
    for (int x = 0; x < 3; x++)
        assert_int_equal(ref_compute(&m.problem,
                                     &(struct ref_request){.units = {requests[x]},
                                                           .fill = REF_FILL_GENERIC,
                                                           .threads = 1},
                                     &nothing, why, sizeof(why)),
                         ATTN_UNSUPPORTED);
    made_free(&m);
}

/* The count in closed form, cell by cell, and summed over the rows' own counts. */
static void allowed_cells_are_counted(void **state)
{
    static const int features[] = {0,
                                   MADE_CAUSAL,
                                   MADE_CAUSAL | MADE_BR,
                                   MADE_WINDOW,
                                   MADE_WINDOW | MADE_CAUSAL | MADE_BR | MADE_LEN,
                                   MADE_LEN,
                                   MADE_LEN2D | MADE_WINDOW,
                                   MADE_MASK,
                                   MADE_MASK | MADE_CAUSAL | MADE_LEN};

    (void)state;
    for (size_t f = 0; f < sizeof(features) / sizeof(*features); f++)
        for (int64_t off = -2; off <= 2; off++) {
            struct made_spec spec = usual;
            static struct results r;
            int64_t cells = 0, sum = 0;
            struct made m;
            spec.features = features[f];
            spec.off = off;
            made_create(&m, &spec);
            for (int64_t b = 0; b < 2; b++)
                for (int64_t h = 0; h < 4; h++)
                    for (int64_t i = 0; i < 3; i++)
                        for (int64_t j = 0; j < 5; j++)
                            cells += ref_allowed(&m.problem, b, h, i, j);
            results_compute(&m, NULL, &r);
            for (int64_t x = 0; x < 24; x++)
                sum += r.allowed[x];
            assert_int_equal(ref_count_allowed(&m.problem), cells);
            assert_int_equal(sum, cells);
            made_free(&m);
        }
}

/* Counts on paper: causal 1+2+3+4; bottom-right 3+4+5+6, and with more queries than keys
 * 0+0+1+2+3+4; a window of 2 left and 1 right over 5 x 5. */
static void known_counts(void **state)
{
    static const struct {
        struct made_spec spec;
        int64_t count;
    } known[] = {
        {{.sq = 4, .sk = 4, .dk = 1, .features = MADE_CAUSAL}, 10},
        {{.sq = 4, .sk = 6, .dk = 1, .features = MADE_CAUSAL | MADE_BR}, 18},
        {{.sq = 6, .sk = 4, .dk = 1, .features = MADE_CAUSAL | MADE_BR}, 10},
        {{.sq = 5, .sk = 5, .dk = 1, .features = MADE_WINDOW}, 2 + 3 + 4 + 4 + 3},
        {{.b = 2, .hq = 3, .sq = 2, .sk = 7, .dk = 1}, 84},
    };

    (void)state;
    for (size_t k = 0; k < sizeof(known) / sizeof(*known); k++) {
        struct made m;
        made_create(&m, &known[k].spec);
        assert_int_equal(ref_count_allowed(&m.problem), known[k].count);
        made_free(&m);
    }
}

static void rows_have_counts_widths_and_costs(void **state)
{
    struct made m;

    (void)state;
    made_create(&m, &usual);
    assert_int_equal(ref_output_units(&m.problem, 0), 24);
    assert_int_equal(ref_output_width(&m.problem, 0), 4);
    assert_true(ref_output_cost(&m.problem, 0) > 5 * 8);
    made_free(&m);
    made_create(&m, &usual_mha);
    assert_int_equal(ref_output_units(&m.problem, 0), 3);
    assert_int_equal(ref_output_width(&m.problem, 0), 7);
    assert_true(ref_output_cost(&m.problem, 0) > 2 * 3 * 4);
    made_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_problems_are_refused),
        cmocka_unit_test(bottom_right_needs_one_length_a_batch),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(allowed_cells_are_counted),
        cmocka_unit_test(known_counts),
        cmocka_unit_test(rows_have_counts_widths_and_costs),
    };

    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
