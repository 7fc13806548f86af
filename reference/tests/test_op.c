/* SPDX-License-Identifier: Apache-2.0 */
/* test_op.c - the tables of operators and scores hold together, each operator is documented, and
 * shapes and units are what their letters say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference/op.h"
#include "reference/reference.h"
#include "reference/score.h"
#include "reference/tests/made.h"

static const char *root; /* of the reference */

static void names_and_numbers_are_found(void **state)
{
    (void)state;
    assert_non_null(ref_ops[0]);
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        assert_ptr_equal(ref_op_find((*op)->op), *op);
        assert_ptr_equal(ref_op_named((*op)->name), *op);
        if (op[1])
            assert_true(strcmp((*op)->name, op[1]->name) < 0);
    }
    assert_null(ref_op_find(0));
    assert_null(ref_op_named("attentio"));
    assert_true(ref_op_is(ATTN_OP_ATTENTION, REF_QKV | REF_SOFTMAX));
    assert_false(ref_op_is(ATTN_OP_MHA, REF_QKV));
    assert_false(ref_op_is(77, 0));
}

static bool is_known_letter(const struct ref_op *op, char letter)
{
    bool known = strcmp(ref_letter_name(letter), "?") != 0;
    for (const struct ref_param *p = op->params; p && p->key; p++)
        known = known || p->letter == letter;
    for (const struct ref_gradient *g = op->gradients; g && g->output; g++)
        known = known || (g->letters && strchr(g->letters, letter));
    return known;
}

static void assert_letters(const struct ref_op *op, const char *letters)
{
    assert_true(strlen(letters) <= ATTN_MAX_RANK);
    for (const char *letter = letters; *letter; letter++)
        assert_true(is_known_letter(op, *letter));
}

static void assert_none_twice(const char *letters)
{
    for (const char *letter = letters; *letter; letter++)
        assert_ptr_equal(strchr(letters, *letter), letter);
}

static void operands_hold_together(void **state)
{
    (void)state;
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        const struct ref_operand *row;
        for (size_t n = 0; (row = ref_operand_at(*op, n)); n++) {
            assert_in_range(row->role, 1, REF_ROLES - 1);
            assert_ptr_equal(ref_operand_of(*op, row->role), row);
            assert_ptr_equal(ref_operand_named(*op, row->name), row);
            assert_letters(*op, row->shape);
            for (const char *one = row->one; *one; one++)
                assert_non_null(strchr(row->shape, *one));
            if (row->fallback) /* what stands in has been resolved before */
                assert_true(ref_operand_of(*op, row->fallback) < row);
        }
        assert_non_null(ref_operand_named(*op, (*op)->main_operand));
    }
}

static void outputs_hold_together(void **state)
{
    (void)state;
    for (const struct ref_op *const *op = ref_ops; *op; op++) {
        const struct ref_output *out = (*op)->outputs;
        assert_true(out[0].flags & (REF_NEEDED | REF_DEFAULT));
        assert_in_range(ref_output_count(*op), 1, REF_OUTPUTS);
        for (int o = 0; out[o].role; o++) {
            const struct ref_output *leader = &out[out[o].leader];
            assert_int_equal(ref_output_of(*op, out[o].role), o);
            assert_null(ref_operand_of(*op, out[o].role));
            assert_letters(*op, out[o].shape);
            assert_none_twice(out[o].shape); /* units are found by their letters */
            for (const char *u = out[o].unit; *u; u++)
                assert_non_null(strchr(out[o].shape, *u));
            assert_true(out[o].leader <= o && leader->leader == out[o].leader);
            assert_memory_equal(out[o].unit, leader->unit, strlen(leader->unit));
        }
    }
}

static void scores_hold_together(void **state)
{
    (void)state;
    for (const struct ref_score *const *s = ref_scores_known; *s; s++) {
        assert_ptr_equal(ref_score_find((*s)->score), *s);
        assert_ptr_equal(ref_score_named((*s)->name), *s);
        assert_in_range((*s)->score, 1, 31); /* a bit of ref_op.scores */
        assert_true(!(*s)->params[0] || (*s)->rule);
        for (const uint32_t *role = (*s)->params; *role; role++) {
            assert_non_null(ref_operand_of(ref_op_find(ATTN_OP_ATTENTION), *role));
            assert_true(ref_score_has((*s)->score, *role));
        }
    }
    assert_false(ref_score_has(ATTN_SCORE_DOT, ATTN_SCORE_M));
    assert_true(ref_score_scale(ATTN_SCORE_SCALED_DOT, 64, 0) == 0.125);
    assert_true(ref_score_scale(ATTN_SCORE_DOT, 64, 0) == 1);
    assert_true(ref_score_scale(ATTN_SCORE_DISENTANGLED, 12, ATTN_PARTS_BOTH) == 1.0 / 6);
    assert_true(ref_score_scale(ATTN_SCORE_DISENTANGLED, 8, ATTN_PARTS_C2P) == 0.25);
}

/* ---- shapes and units ---- */

static void a_problem_has_its_extents(void **state)
{
    static const struct made_spec spec = {.op = ATTN_OP_MHA,
                                          .b = 2,
                                          .hq = 4,
                                          .hkv = 2,
                                          .sq = 3,
                                          .sk = 5,
                                          .dk = 6,
                                          .features = MADE_CROSS};
    static const char letters[] = "bhgijqkvQKVO";
    static const int64_t extents[] = {2, 4, 2, 3, 5, 6, 6, 6, 24, 12, 12, 24};
    struct ref_shape shape;
    struct made m;

    (void)state;
    made_create(&m, &spec);
    ref_shape_of_problem(ref_op_find(ATTN_OP_MHA), &m.problem, &shape);
    for (size_t n = 0; letters[n]; n++)
        assert_int_equal(ref_extent(&shape, letters[n]), extents[n]);
    assert_int_equal(ref_extent(&shape, 'e'), made_tensor(&m, ATTN_X_Q)->shape[2]);
    assert_int_equal(ref_extent(&shape, 'w'), made_tensor(&m, ATTN_X_V)->shape[2]);
    assert_int_equal(ref_extent(&shape, 'o'), made_tensor(&m, ATTN_OUT)->shape[2]);
    assert_int_equal(ref_extent(&shape, 'z'), -1);
    assert_true(shape.present[ATTN_X_K] && shape.present[ATTN_W_O]);
    assert_false(shape.present[ATTN_MASK]);
    assert_int_equal(ref_shape_elements(&shape, "bhij"), 2 * 4 * 3 * 5);
    assert_int_equal(ref_shape_elements(&shape, "bz"), -1);
    made_free(&m);
}

static void products_that_do_not_fit_are_refused(void **state)
{
    const struct ref_op *op = ref_op_find(ATTN_OP_ATTENTION);
    struct ref_shape shape;

    (void)state;
    ref_shape_init(&shape);
    assert_true(ref_shape_complete(op, &shape));
    assert_int_equal(ref_extent(&shape, 'Q'), -1);
    shape.extent['h'] = shape.extent['q'] = INT64_C(1) << 40;
    assert_false(ref_shape_complete(op, &shape));
    assert_int_equal(ref_shape_elements(&shape, "hq"), -1);
}

/* Of multi-head attention: out by rows, lse by rows and heads within them. */
static void units_have_their_places(void **state)
{
    const struct ref_op *op = ref_op_find(ATTN_OP_MHA);
    const struct ref_output *lse = &op->outputs[ref_output_of(op, ATTN_LSE)];
    struct ref_shape shape;
    int64_t at[ATTN_MAX_RANK];

    (void)state;
    ref_shape_init(&shape);
    shape.extent['b'] = 2, shape.extent['h'] = 4, shape.extent['i'] = 3, shape.extent['o'] = 7;
    assert_int_equal(ref_unit_count(&op->outputs[0], &shape), 6);
    assert_int_equal(ref_unit_width(&op->outputs[0], &shape), 7);
    assert_int_equal(ref_unit_count(lse, &shape), 24);
    assert_int_equal(ref_unit_width(lse, &shape), 1);
    assert_int_equal(ref_followers(op, ref_output_of(op, ATTN_LSE), &shape), 4);
    for (int64_t unit = 0; unit < 24; unit++) {
        assert_int_equal(ref_unit_place(lse, &shape, unit, at), 3);
        assert_int_equal(at[0], unit / 12); /* [B,Hq,Sq] from b, i, h */
        assert_int_equal(at[1], unit % 4);
        assert_int_equal(at[2], unit / 4 % 3);
        assert_int_equal(ref_unit_at(lse, &shape, at), unit);
        assert_int_equal(ref_unit_index(lse, &shape, unit, 'h'), at[1]);
        assert_int_equal(ref_unit_index(lse, &shape, unit, 'i'), at[2]);
        assert_int_equal(ref_unit_index(lse, &shape, unit, 'j'), -1);
    }
}

/* ---- documents ---- */

static bool file_has(const char *name, const char *word)
{
    static char text[1 << 16];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "r");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file)
        fclose(file);
    return file && strstr(text, word);
}

static void every_operator_is_documented(void **state)
{
    char path[512], op_md[300];
    int folders = 0;
    struct dirent *entry;

    (void)state;
    snprintf(path, sizeof path, "%s/ops", root);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.')) /* README.md, CMakeLists.txt */
            continue;
        folders++;
        snprintf(op_md, sizeof op_md, "ops/%s/OP.md", entry->d_name);
        if (!ref_op_named(entry->d_name))
            fail_msg("ops/%s holds no operator of that name", entry->d_name);
        if (!file_has(op_md, entry->d_name))
            fail_msg("%s is missing or does not name its operator", op_md);
        if (!file_has("README.md", op_md))
            fail_msg("README.md does not name %s", op_md);
    }
    closedir(folder);
    for (const struct ref_op *const *op = ref_ops; *op; op++)
        folders--;
    assert_int_equal(folders, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_are_found),
        cmocka_unit_test(operands_hold_together),
        cmocka_unit_test(outputs_hold_together),
        cmocka_unit_test(scores_hold_together),
        cmocka_unit_test(a_problem_has_its_extents),
        cmocka_unit_test(products_that_do_not_fit_are_refused),
        cmocka_unit_test(units_have_their_places),
        cmocka_unit_test(every_operator_is_documented),
    };
    if (argc != 2)
        return 2;
    root = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
