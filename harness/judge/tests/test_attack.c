/* SPDX-License-Identifier: Apache-2.0 */
/* test_attack.c - wrong answers with inflated declarations: no field alone, and no two together,
 * make a pass of them. */
#include "answered.h"

#include <math.h>
#include <stdlib.h>

#include "judge/grade.h"
#include "judge/limits.h"

static void no_change(struct attn_numerics *n, double x)
{
    (void)n, (void)x;
}

#define SET(name, field)                                                                           \
    static void name(struct attn_numerics *n, double x)                                            \
    {                                                                                              \
        n->field = x;                                                                              \
    }
SET(set_u_in, u_in)
SET(set_u_pv, u_pv)
SET(set_e_exp, e_exp)
SET(set_e_arg, e_arg)
SET(set_tau, tau)

static void set_chain(struct attn_numerics *n, double x)
{
    n->chain = (int64_t)x;
}

static void set_splits(struct attn_numerics *n, double x)
{
    n->splits = (int64_t)x;
}

static void set_key_tile(struct attn_numerics *n, double x)
{
    n->key_tile = (int64_t)x;
}

static void set_stores(struct attn_numerics *n, double x)
{
    n->score_stores = (uint32_t)x;
}

static void set_terms(struct attn_numerics *n, double x)
{
    n->partial_type = ATTN_BF16;
    n->partial_terms = (uint32_t)x;
}

static void set_acc(struct attn_numerics *n, double x)
{
    n->acc_type = (uint32_t)x;
}

static void set_score(struct attn_numerics *n, double x)
{
    n->score_type = (uint32_t)x;
}

static void set_p(struct attn_numerics *n, double x)
{
    n->p_type = (uint32_t)x;
}

static void set_truncates(struct attn_numerics *n, double x)
{
    n->acc_toward_zero = (uint32_t)x;
}

/* One field, inflated far, and as far as its limit allows in f32. */
static const struct inflation {
    const char *name;
    void (*set)(struct attn_numerics *, double);
    double far, limit;
} inflations[] = {
    {"nothing", no_change, 0, 0},
    {"u_in", set_u_in, 0.045, 0x1p-11},
    {"u_pv", set_u_pv, 0.3, 0x1p-11},
    {"e_exp", set_e_exp, 0.49, 0x1p-11},
    {"e_arg", set_e_arg, 0.1, 0x1p-14},
    {"tau", set_tau, 60, 11},
    {"chain", set_chain, 1 << 22, 320},
    {"splits", set_splits, 1 << 22, 64},
    {"key_tile", set_key_tile, 1, 1},
    {"score_stores", set_stores, 1 << 20, 8},
    {"partial_terms", set_terms, 512, 0},
    {"acc_type", set_acc, ATTN_BF16, ATTN_F32},
    {"score_type", set_score, ATTN_BF16, ATTN_F16},
    {"p_type", set_p, ATTN_BF16, ATTN_F16},
    {"acc_toward_zero", set_truncates, 1, 1},
};
#define INFLATIONS (sizeof inflations / sizeof *inflations)

/* The answers of kernels with a mistake: a scale 10 % off, the last key not read by one row, all
 * weights alike. */
static void answer_wrongly(struct attn_instance *in, int mistake)
{
    struct attn_problem wrong = in->problem;
    struct attn_tensor tensors[16];
    memcpy(tensors, wrong.tensors, wrong.n_tensors * sizeof *tensors);
    wrong.tensors = tensors;
    if (mistake == 0)
        wrong.scale *= 1.1;
    for (uint32_t t = 0; mistake == 1 && t < wrong.n_tensors; t++)
        if (tensors[t].role == ATTN_K || tensors[t].role == ATTN_V)
            tensors[t].shape[2]--;
    wrong.sk -= mistake == 1;
    if (mistake == 2)
        wrong.scale = 0;
    answer(in, &wrong, attn_dtype_store);
}

static void assert_no_pass(struct attn_judge *judge, const struct attn_numerics *n,
                           const char *first, const char *second, const char *how, int mistake)
{
    struct attn_judgement v;
    attn_judge_outputs(judge, n, false, &v);
    if (v.status != ATTN_FAIL && v.status != ATTN_MISTRUSTED)
        fail_msg("mistake %d passes with %s and %s %s: ratio %.3g", mistake, first, second, how,
                 v.max_ratio);
}

static void pairs_do_not_hide_mistakes(void **state)
{
    (void)state;
    for (int mistake = 0; mistake < 3; mistake++) {
        struct attn_instance *in = instance_of("s=64 d=16 out=lse");
        struct attn_judge *judge;
        char why[256];
        assert_int_equal(attn_judge_create(in, ATTN_JUDGE_BUDGET, 1, &judge, why, sizeof why), 0);
        answer_wrongly(in, mistake);
        for (size_t a = 0; a < INFLATIONS; a++)
            for (size_t b = a; b < INFLATIONS; b++) {
                const struct inflation *x = &inflations[a], *y = &inflations[b];
                struct attn_numerics far = attn_best_numerics(ATTN_F32), limit = far;
                x->set(&far, x->far);
                y->set(&far, y->far);
                assert_no_pass(judge, &far, x->name, y->name, "far", mistake);
                if (x->set != set_terms && y->set != set_terms) {
                    x->set(&limit, x->limit);
                    y->set(&limit, y->limit);
                    assert_no_pass(judge, &limit, x->name, y->name, "at their limits", mistake);
                }
            }
        attn_judge_free(judge);
        attn_instance_free(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_do_not_hide_mistakes),
    };
    return cmocka_run_group_tests_name("attack", tests, NULL, NULL);
}
