/* SPDX-License-Identifier: Apache-2.0 */
/* test_blas_layout.c - which operands a plan reads in place and which it copies: what `describe`
 * says, what the workspace grows by, and that the copy is made in `run`; and what it grows by with
 * the length, in each form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../tests/common.h"
#include "../blas.h"

/* How one operand is laid anew in its memory, which stays as large as it was. */
struct change {
    uint32_t role;     /* 0 ends the list */
    const char *order; /* axes from the outermost in memory to the innermost; NULL: as they are */
    int halved;        /* every second element of the last axis is left out */
    int broadcast;     /* 1 + the axis whose stride becomes 0 */
};

static const struct layout {
    const char *name, *says; /* what `describe` ends in; NULL: it copies nothing */
    uint32_t op, with;
    int self; /* x_q stands for x_k and x_v */
    struct change changes[5];
} layouts[] = {
    {.name = "bhsd"},
    {.name = "bshd", .with = WITH_BSHD},
    {.name = "bhds", .with = WITH_BHDS},
    {.name = "gaps", .with = WITH_GAPS},
    {.name = "bhds, gaps", .with = WITH_BHDS | WITH_GAPS},
    {.name = "permuted: s b h d",
     .changes = {{.role = ATTN_Q, .order = "2013"},
                 {.role = ATTN_K, .order = "2013"},
                 {.role = ATTN_V, .order = "2013"}}},
    {.name = "permuted: d b h s",
     .changes = {{.role = ATTN_Q, .order = "3012"},
                 {.role = ATTN_K, .order = "3012"},
                 {.role = ATTN_V, .order = "3012"}}},
    {.name = "batches share k and v",
     .changes = {{.role = ATTN_K, .broadcast = 1}, {.role = ATTN_V, .broadcast = 1}}},
    {.name = "heads share k and v",
     .changes = {{.role = ATTN_K, .broadcast = 2}, {.role = ATTN_V, .broadcast = 2}}},
    {.name = "one query for all", .says = "q", .changes = {{.role = ATTN_Q, .broadcast = 3}}},
    {.name = "one key for all",
     .says = "k, v",
     .changes = {{.role = ATTN_K, .broadcast = 3}, {.role = ATTN_V, .broadcast = 3}}},
    {.name = "permuted: s d b h",
     .says = "q, k, v",
     .changes = {{.role = ATTN_Q, .order = "2301"},
                 {.role = ATTN_K, .order = "2301"},
                 {.role = ATTN_V, .order = "2301"}}},
    {.name = "batches share a strided v",
     .says = "v",
     .changes = {{.role = ATTN_V, .order = "0231", .broadcast = 1}}},
    {.name = "every second of v", .says = "v", .changes = {{.role = ATTN_V, .halved = 1}}},

    {.name = "mha", .op = ATTN_OP_MHA},
    {.name = "mha, gaps", .op = ATTN_OP_MHA, .with = WITH_GAPS},
    {.name = "mha, column vectors",
     .op = ATTN_OP_MHA,
     .changes = {{.role = ATTN_X_Q, .order = "021"},
                 {.role = ATTN_X_K, .order = "021"},
                 {.role = ATTN_X_V, .order = "021"},
                 {.role = ATTN_OUT, .order = "021"}}},
    {.name = "mha, transposed weights",
     .op = ATTN_OP_MHA,
     .changes = {{.role = ATTN_W_Q, .order = "10"},
                 {.role = ATTN_W_K, .order = "10"},
                 {.role = ATTN_W_V, .order = "10"},
                 {.role = ATTN_W_O, .order = "10"}}},
    {.name = "mha, batches share x_k",
     .op = ATTN_OP_MHA,
     .changes = {{.role = ATTN_X_K, .broadcast = 1}}},
    {.name = "mha, one row of x_k for all",
     .op = ATTN_OP_MHA,
     .says = "x_k",
     .changes = {{.role = ATTN_X_K, .broadcast = 2}}},
    {.name = "mha, batches innermost",
     .op = ATTN_OP_MHA,
     .says = "x_q, x_v, out",
     .changes = {{.role = ATTN_X_Q, .order = "120"},
                 {.role = ATTN_X_V, .order = "120"},
                 {.role = ATTN_OUT, .order = "120"}}},
    {.name = "mha, self, batches innermost",
     .op = ATTN_OP_MHA,
     .self = 1,
     .says = "x_q",
     .changes = {{.role = ATTN_X_Q, .order = "120"}}},
    {.name = "mha, every row of w_o the same",
     .op = ATTN_OP_MHA,
     .says = "w_o",
     .changes = {{.role = ATTN_W_O, .broadcast = 1}}},
};

/* One thread; counts working memory. */
static struct test_memory memory;
static struct attn_services services;

static struct test_spec spec_of(const struct layout *layout)
{
    return (struct test_spec){.name = layout->name,
                              .op = layout->op,
                              .hq = 4,
                              .hkv = 2,
                              .sq = 5,
                              .sk = layout->self ? 5 : 7,
                              .dq = 6,
                              .dv = 8,
                              .e = 9,
                              .with = layout->with | WITH_LSE |
                                      (layout->op ? WITH_W_O | WITH_PROJ_BIAS : 0) |
                                      (layout->op && !layout->self ? WITH_X_K : 0)};
}

static struct attn_tensor *operand(struct test_problem *made, uint32_t role)
{
    for (uint32_t t = 0; t < made->problem.n_tensors; t++)
        if (made->tensors[t].role == role)
            return &made->tensors[t];
    fail_msg("role %u is missing", role);
    return NULL;
}

static void lay(struct attn_tensor *tensor, const char *order)
{
    int64_t run = 1;
    for (uint32_t n = tensor->rank; n-- > 0;) {
        uint32_t axis = order ? (uint32_t)(order[n] - '0') : n;
        tensor->stride[axis] = run;
        run *= tensor->shape[axis];
    }
}

static void apply(struct test_problem *made, const struct change *change)
{
    struct attn_tensor *tensor = operand(made, change->role);
    if (change->order)
        lay(tensor, change->order);
    if (change->halved) { /* of v alone: out follows */
        tensor->stride[3] = 2;
        made->problem.dv = tensor->shape[3] /= 2;
        operand(made, ATTN_OUT)->shape[3] = made->problem.dv;
    }
    if (change->broadcast)
        tensor->stride[change->broadcast - 1] = 0;
}

static void *plan_of(const struct attn_problem *problem)
{
    const struct attn_backend *blas = attn_plugin.backends[0];
    char why[256];
    void *plan = NULL;
    memory.bytes = 0;
    if (blas->supports(problem, &services, why, sizeof(why)) != ATTN_OK)
        fail_msg("supports refuses: %s", why);
    assert_int_equal(blas->create(problem, &services, &plan, why, sizeof(why)), ATTN_OK);
    return plan;
}

/* Working memory of the same problem with every operand dense. */
static size_t dense_bytes(const struct test_problem *made)
{
    struct test_problem dense = *made;
    dense.problem.tensors = dense.tensors;
    for (uint32_t t = 0; t < dense.problem.n_tensors; t++)
        lay(&dense.tensors[t], NULL);
    attn_plugin.backends[0]->destroy(plan_of(&dense.problem));
    return memory.bytes;
}

static void check_statement(const struct layout *layout, void *plan)
{
    char text[256], want[64];
    attn_plugin.backends[0]->describe(plan, text, sizeof(text));
    print_message("%s: %s\n", layout->name, text);
    const char *copies = strstr(text, "copies");
    if (!layout->says) {
        assert_null(copies);
        return;
    }
    snprintf(want, sizeof(want), ", copies %s", layout->says);
    assert_true(strlen(text) > strlen(want));
    assert_string_equal(text + strlen(text) - strlen(want), want);
}

/* Two runs of one binding, between them another number in what is copied last. */
static void check_runs(const struct test_spec *spec, struct test_problem *made, void *plan)
{
    const struct attn_backend *blas = attn_plugin.backends[0];
    char why[256];
    void *binding = NULL;
    assert_int_equal(
        blas->bind(plan, made->tensors, made->problem.n_tensors, &binding, why, sizeof(why)),
        ATTN_OK);
    for (int run = 0; run < 2; run++) {
        uint32_t changed = !spec->op ? ATTN_V : spec->with & WITH_X_K ? ATTN_X_V : ATTN_X_Q;
        test_set(operand(made, changed), (int64_t[]){0, 0, 0, 0}, run ? 3 : -3);
        assert_int_equal(blas->run(binding, why, sizeof(why)), ATTN_OK);
        test_check(spec, made);
    }
    blas->release(binding);
}

static void says_what_it_copies(void **state)
{
    (void)state;
    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        const struct test_spec spec = spec_of(&layouts[l]);
        struct test_problem made;
        test_problem_make(&spec, &made);
        for (const struct change *change = layouts[l].changes; change->role; change++)
            apply(&made, change);
        size_t dense = dense_bytes(&made);
        void *plan = plan_of(&made.problem);
        assert_true(layouts[l].says ? memory.bytes > dense : memory.bytes == dense);
        check_statement(&layouts[l], plan);
        check_runs(&spec, &made, plan);
        attn_plugin.backends[0]->destroy(plan);
        test_problem_free(&made);
    }
}

static void copies_parameters_of_another_type(void **state)
{
    (void)state;
    const struct layout layout = {.name = "f32 parameters in f64", .says = "score_w_q, score_w_k"};
    const uint32_t roles[] = {ATTN_SCORE_WQ, ATTN_SCORE_WK, ATTN_SCORE_WV};
    const struct test_spec spec = {.name = layout.name,
                                   .score = ATTN_SCORE_ADDITIVE,
                                   .dtype = ATTN_F64,
                                   .hq = 2,
                                   .sq = 3,
                                   .sk = 4,
                                   .dq = 5,
                                   .dh = 6,
                                   .with = WITH_HEAD_PARAMS};
    struct test_problem made;
    test_problem_make(&spec, &made);
    for (int n = 0; n < 3; n++) {
        struct attn_tensor *tensor = operand(&made, roles[n]);
        const int64_t count = tensor->shape[0] * tensor->stride[0];
        tensor->dtype = ATTN_F32;
        for (int64_t e = 0; e < count; e++)
            ((float *)tensor->data)[e] = (float)(e % 7) / 4 - 0.75f;
    }
    void *plan = plan_of(&made.problem);
    check_statement(&layout, plan);
    check_runs(&spec, &made, plan);
    attn_plugin.backends[0]->destroy(plan);
    test_problem_free(&made);
}

/* Working memory of the form at this length, or 0 where `create` refuses. */
static size_t form_bytes(const char *form, const char *rows, int64_t length)
{
    const struct attn_option options[] = {{"form", form}, {"rows", rows}};
    const struct attn_backend *blas = attn_plugin.backends[0];
    const struct test_spec spec = {.b = 1, .sq = length, .sk = length, .dq = 4};
    struct attn_services chosen = services;
    struct test_problem made;
    char why[256];
    void *plan;
    chosen.options = options;
    chosen.n_options = 2;
    memory.bytes = 0;
    test_problem_make(&spec, &made);
    const int status = blas->create(&made.problem, &chosen, &plan, why, sizeof(why));
    assert_true(status == ATTN_OK || status == ATTN_INVALID);
    if (status == ATTN_OK)
        blas->destroy(plan);
    test_problem_free(&made);
    return status == ATTN_OK ? memory.bytes : 0;
}

static void blocks_take_linear_memory(void **state)
{
    (void)state;
    /* from where the least number of rows is what bounds a block */
    const double blocked = (double)form_bytes("blocked", "0", 8192);
    assert_true((double)form_bytes("blocked", "0", 16384) <= 2.05 * blocked);
    const double plain = (double)form_bytes("plain", "0", 1024);
    assert_true((double)form_bytes("plain", "0", 2048) >= 3.9 * plain);
    assert_true(plain >= 1024 * 1024 * sizeof(float));
    /* rows are the blocked form's */
    assert_true(form_bytes("blocked", "5", 2048) < form_bytes("blocked", "0", 2048));
    assert_int_equal(form_bytes("plain", "5", 64), 0);
    assert_int_equal(form_bytes("blocked", "-1", 64), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_it_copies),
        cmocka_unit_test(copies_parameters_of_another_type),
        cmocka_unit_test(blocks_take_linear_memory),
    };
    services = test_services_make(1, &memory);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
