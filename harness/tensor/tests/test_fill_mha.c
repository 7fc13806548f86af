/* SPDX-License-Identifier: Apache-2.0 */
/* test_fill_mha.c - crafted inputs of multi-head attention: projections are exact in bf16, and q, k
 * and v are what the fill says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "case/case.h"
#include "pack/make.h"
#include "reference/operands.h"
#include "tensor/inner.h"
#include "tensor/instance.h"

/* Widths, groups, cross-attention, pruned heads, a residual, no W_o, narrow and wide models. */
static const char *const shapes[] = {
    "op=mha b=2 hq=4 s=33 d=16 proj_bias=1 mask=causal",
    "op=mha b=2 hq=6 hkv=2 sq=9 sk=21 d=8 kv=cross mask=len:rand prune=0/3",
    "op=mha hq=2 s=12 d=4 e=5 proj_bias=1 mask=causal",
    "op=mha hq=3 s=20 dk=16 dv=24 e=96 mask=causal residual=1",
    "op=mha hq=2 s=16 d=8 wo=0 mask=window:3:2",
    "op=mha hq=2 s=16 dq=8 dk=12 dv=8 e=40 score=bilinear mask=causal",
    "op=mha b=2 hq=4 s=17 d=16 dtype=f16 view=broadcast kv=cross mask=causal",
};

static struct attn_instance *make(const char *shape, enum attn_fill fill)
{
    struct attn_case_list list = {0};
    struct attn_instance *instance;
    char why[512];

    if (attn_case_parse_line(shape, strlen(shape), NULL, 0, &list, why, sizeof why) != 0)
        fail_msg("%s", why);
    struct attn_case c = list.items[0];
    c.fill = fill;
    if (!attn_fill_fits(&c, fill, why, sizeof why)) {
        attn_case_list_free(&list);
        return NULL;
    }
    if (attn_instance_create(&c, 1, &instance, why, sizeof why) != 0)
        fail_msg("%s", why);
    attn_case_list_free(&list);
    return instance;
}

static const struct attn_tensor *x_of(const struct attn_problem *p, uint32_t weight)
{
    const struct attn_tensor *x = weight == ATTN_W_Q ? NULL : attn_tensor_find(p, ATTN_X_K);

    return x ? x : attn_tensor_find(p, ATTN_X_Q);
}

/* The largest power of two that divides x. */
static double unit_of(double x)
{
    double unit = exp2(floor(log2(fabs(x))));

    while (fmod(x, unit) != 0)
        unit /= 2;
    return unit;
}

/* Every sum of a projection is at most 256 units of its terms: 8 bits hold each of its parts. */
static void assert_exact(const struct attn_problem *p, uint32_t weight, uint32_t bias)
{
    const struct attn_tensor *x = x_of(p, weight), *w = attn_tensor_find(p, weight);
    const struct attn_tensor *add = attn_tensor_find(p, bias);

    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < x->shape[1]; i++)
            for (int64_t row = 0; row < w->shape[0]; row++) {
                const double extra = add ? ref_load(add, &row) : 0;
                double size = fabs(extra), unit = extra != 0 ? unit_of(extra) : INFINITY;
                for (int64_t e = 0; e < w->shape[1]; e++) {
                    const double weighs = ref_load(w, (int64_t[]){row, e});
                    const double term =
                        weighs != 0 ? weighs * ref_load(x, (int64_t[]){b, i, e}) : 0;
                    size += fabs(term);
                    unit = term != 0 ? fmin(unit, unit_of(term)) : unit;
                }
                if (size > 0 && size > 256 * unit)
                    fail_msg("role %u, row %d: %g of units %g", weight, (int)row, size, unit);
            }
}

static void projections_are_exact(void **state)
{
    int made = 0;

    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (enum attn_fill fill = ATTN_FILL_CENSUS; fill < ATTN_FILL_COUNT; fill++) {
            struct attn_instance *instance =
                fill == ATTN_FILL_POISON ? NULL : make(shapes[s], fill);
            if (!instance)
                continue;
            made++;
            assert_exact(&instance->problem, ATTN_W_Q, ATTN_B_Q);
            assert_exact(&instance->problem, ATTN_W_K, ATTN_B_K);
            if (fill != ATTN_FILL_ONE_HOT) /* its values are dense */
                assert_exact(&instance->problem, ATTN_W_V, ATTN_B_V);
            attn_instance_free(instance);
        }
    assert_true(made > 60);
}

/* q.k of a row and a key. */
static double product(const struct attn_inner *inner, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const struct attn_problem *p = &inner->instance.problem;
    const int64_t width = p->dq < p->dk ? p->dq : p->dk;
    const double *q = inner->q + ((b * p->hq + h) * p->sq + i) * p->dq;
    const double *k = inner->k + ((b * p->hkv + h / (p->hq / p->hkv)) * p->sk + j) * p->dk;
    double sum = 0;

    for (int64_t c = 0; c < width; c++)
        sum += q[c] * k[c];
    return sum * p->scale;
}

/* What fill=census, exact and one_hot promise about scores and values. */
static void scores_are_as_chosen(void **state)
{
    static const enum attn_fill fills[] = {ATTN_FILL_CENSUS, ATTN_FILL_EXACT, ATTN_FILL_ONE_HOT};

    (void)state;
    for (size_t n = 0; n < 3 * sizeof shapes / sizeof *shapes; n++) {
        struct attn_instance *instance = make(shapes[n / 3], fills[n % 3]);
        struct attn_inner inner;
        if (!instance)
            continue;
        assert_int_equal(attn_inner_create(instance, &inner), 0);
        const struct attn_problem *p = &instance->problem;
        for (int64_t row = 0; row < p->b * p->hq * p->sq; row++) {
            const int64_t b = row / p->sq / p->hq, h = row / p->sq % p->hq, i = row % p->sq;
            double most = -INFINITY, next = -INFINITY;
            for (int64_t j = 0; j < p->sk; j++) {
                const double s = product(&inner, b, h, i, j);
                if (fills[n % 3] == ATTN_FILL_CENSUS)
                    assert_true(s == 0);
                else if (fills[n % 3] == ATTN_FILL_EXACT)
                    assert_true(s == 0 || s <= -200);
                next = fmax(next, fmin(s, most));
                most = fmax(most, s);
            }
            if (fills[n % 3] == ATTN_FILL_ONE_HOT)
                assert_true(most - next >= 40);
        }
        for (int64_t v = 0; fills[n % 3] == ATTN_FILL_CENSUS && v < p->b * p->hkv * p->sk * p->dv;
             v++)
            assert_true(fabs(inner.v[v]) == 1);
        attn_inner_free(&inner);
        attn_instance_free(instance);
    }
}

/* Rows of W_o show the columns of the heads, one each; all of them if there are rows enough. */
static void heads_are_visible(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        struct attn_instance *instance = make(shapes[s], ATTN_FILL_CENSUS);
        struct attn_inner inner;
        assert_non_null(instance);
        assert_int_equal(attn_inner_create(instance, &inner), 0);
        const struct attn_problem *p = &instance->problem;
        const int64_t width = attn_tensor_find(p, ATTN_OUT)->shape[2];
        for (int64_t o = 0; o < width; o++)
            assert_true(inner.sources[o].column >= 0 && fabs(inner.sources[o].weight) == 1);
        assert_true(inner.visible || width < p->hq * p->dv);
        attn_inner_free(&inner);
        attn_instance_free(instance);
    }
}

static void narrow_models_are_refused(void **state)
{
    static const struct {
        const char *shape;
        enum attn_fill fill;
        const char *why;
    } table[] = {
        {"op=mha hq=1 s=9 d=4 e=8", ATTN_FILL_ONE_HOT, "fill=one_hot needs e of at least 9"},
        {"op=mha hq=1 s=9 d=4 e=2", ATTN_FILL_TINY, "fill=tiny needs e of at least 3"},
        {"op=mha hq=2 s=9 d=4 score=gaussian", ATTN_FILL_STAIR_UP,
         "fill=stair_up needs a score that is a product"},
        {"s=9 d=4", ATTN_FILL_WHOLE, "fill=whole needs projections"},
    };

    (void)state;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) {
        struct attn_case_list list = {0};
        char why[512];
        if (attn_case_parse_line(table[t].shape, strlen(table[t].shape), NULL, 0, &list, why,
                                 sizeof why) != 0)
            fail_msg("%s", why);
        assert_false(attn_fill_fits(list.items, table[t].fill, why, sizeof why));
        assert_string_equal(why, table[t].why);
        attn_case_list_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(projections_are_exact),
        cmocka_unit_test(scores_are_as_chosen),
        cmocka_unit_test(heads_are_visible),
        cmocka_unit_test(narrow_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
