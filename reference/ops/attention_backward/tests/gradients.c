/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.c - problems of the backward pass, and what the reference makes of them. */
#include "reference/ops/attention_backward/tests/gradients.h"

#include <math.h>
#include <stdlib.h>

#include "reference/dtype.h"

const uint32_t gradient_roles[GRADIENTS] = {ATTN_GRAD_Q,    ATTN_GRAD_K,    ATTN_GRAD_V,
                                            ATTN_GRAD_BIAS, ATTN_GRAD_SINK, ATTN_GRAD_ALIBI};
const uint32_t gradient_sources[GRADIENTS] = {ATTN_Q,    ATTN_K,    ATTN_V,
                                              ATTN_BIAS, ATTN_SINK, ATTN_ALIBI};

struct answers answers;
struct kernel_gradients kernel;

int gradients_derive(struct made *m, const char *fill)
{
    return ref_op_find(ATTN_OP_ATTENTION_BACKWARD)->derive(&m->problem, fill, 1);
}

/* A problem with every gradient that its operands have. */
void gradients_create(struct made *m, const struct made_spec *spec)
{
    struct made_spec own = *spec;
    own.op = ATTN_OP_ATTENTION_BACKWARD;
    made_create(m, &own);
    const struct attn_problem *p = &m->problem;
    const uint32_t wide = p->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    const int64_t out[] = {p->b, p->hq, p->sq, p->dv}, heads[] = {p->hq};
    struct attn_tensor *dout = made_add(m, ATTN_GRAD_OUT, p->dtype, 4, out);
    for (int64_t x = 0; x < made_count(dout); x++)
        made_set(dout, x, made_normal(&m->state));
    made_add(m, ATTN_LSE, wide, 3, out);
    if (own.seed % 3 == 2) {
        struct attn_tensor *dlse = made_add(m, ATTN_GRAD_LSE, wide, 3, out);
        for (int64_t x = 0; x < made_count(dlse); x++)
            made_set(dlse, x, made_normal(&m->state));
    }
    for (int o = 0; o < 3; o++)
        made_add(m, gradient_roles[o], p->dtype, 4, made_tensor(m, gradient_sources[o])->shape);
    if (own.features & MADE_BIAS) {
        const struct attn_tensor *bias = made_tensor(m, ATTN_BIAS);
        int64_t shape[4];
        for (int a = 0; a < 4; a++)
            shape[a] = bias->stride[a] == 0 ? 1 : bias->shape[a];
        made_add(m, ATTN_GRAD_BIAS, wide, 4, shape);
    }
    if (own.features & MADE_SINK)
        made_add(m, ATTN_GRAD_SINK, wide, 1, heads);
    if (own.features & MADE_ALIBI)
        made_add(m, ATTN_GRAD_ALIBI, wide, 1, heads);
    assert_int_equal(gradients_derive(m, "normal"), ATTN_OK);
}

struct ref_result gradients_result(struct answers *a)
{
    struct ref_result result = {0};
    for (int o = 0; o < GRADIENTS; o++)
        result.output[o] = (struct ref_values){a->value[o], a->bound[o]};
    return result;
}

void gradients_request(struct made *m, const struct attn_numerics *numerics,
                       enum ref_fill_kind fill, int threads, struct ref_request *r)
{
    *r = (struct ref_request){.numerics = numerics, .fill = fill, .threads = threads};
    ref_request_all(&m->problem, r);
}

void gradients_compute_as(struct made *m, const struct attn_numerics *numerics,
                          enum ref_fill_kind fill, bool given)
{
    struct ref_request all;
    struct ref_result result = gradients_result(&answers);
    char why[256] = "";
    for (int o = 0; o < GRADIENTS; o++)
        if (!attn_tensor_find(&m->problem, gradient_roles[o]))
            result.output[o] = (struct ref_values){NULL, NULL};
    gradients_request(m, numerics, fill, 1, &all);
    all.given = given;
    if (ref_compute(&m->problem, &all, &result, why, sizeof why) != ATTN_OK)
        fail_msg("%s", why);
}

void gradients_compute(struct made *m, const struct attn_numerics *numerics,
                       enum ref_fill_kind fill)
{
    gradients_compute_as(m, numerics, fill, false);
}

const int gradient_features[GRADIENT_FEATURES] = {
    0,
    MADE_CAUSAL,
    MADE_CAUSAL | MADE_BR | MADE_LEN,
    MADE_WINDOW | MADE_ALIBI,
    MADE_LEN2D | MADE_SINK,
    MADE_MASK | MADE_BIAS | MADE_BROADCAST,
    MADE_BIAS | MADE_SOFTCAP | MADE_ALIBI | MADE_SINK,
    MADE_KEEP | MADE_BIAS,
    MADE_PHILOX | MADE_SINK | MADE_CAUSAL,
    MADE_BIAS | MADE_BROADCAST | MADE_PHILOX | MADE_SOFTCAP,
};

void gradients_near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-12 * (1 + fabs(want))))
        fail_msg("expected %.15g, got %.15g", want, got);
}

double gradients_ratio(const struct made *m, int o, double *middle)
{
    const double *const got[] = {kernel.dq,    kernel.dk,    kernel.dv,
                                 kernel.dbias, kernel.dsink, kernel.dalibi};
    const struct attn_tensor *t = attn_tensor_find(&m->problem, gradient_roles[o]);
    double most = 0, sum = 0;
    for (int64_t x = 0; t && x < made_count(t); x++) {
        const double off = fabs(got[o][x] - answers.value[o][x]);
        const double ratio = off == 0 ? 0 : off / answers.bound[o][x];
        assert_true(isfinite(answers.bound[o][x]));
        most = fmax(most, ratio);
        sum += ratio;
    }
    if (middle && t)
        *middle = sum / (double)made_count(t);
    return most;
}
