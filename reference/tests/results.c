/* SPDX-License-Identifier: Apache-2.0 */
/* results.c - everything that the reference gives for a small problem. */
#include "reference/tests/results.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

const struct attn_numerics results_f32 = {
    .struct_size = sizeof(struct attn_numerics), .acc_type = ATTN_F32, .e_exp = 0x1p-23};

void results_compute_rows(struct made *m, const struct attn_numerics *numerics,
                          const struct ref_units *rows, int threads, struct results *r)
{
    struct ref_result result = {.output[0].value = r->out,
                                .output[0].bound = r->out_bound,
                                .output[1].value = r->lse,
                                .output[1].bound = r->lse_bound,
                                .output[2].value = r->weights,
                                .output[2].bound = r->weights_bound,
                                .scores = {r->scores[0], r->scores[1], r->scores[2]},
                                .allowed = r->allowed};
    char why[256];

    if (ref_compute(&m->problem,
                    &(struct ref_request){.units = {*rows},
                                          .numerics = numerics,
                                          .fill = REF_FILL_GENERIC,
                                          .threads = threads},
                    &result, why, sizeof(why)) != ATTN_OK)
        fail_msg("%s", why);
}

void results_compute(struct made *m, const struct attn_numerics *numerics, struct results *r)
{
    struct ref_units rows = {ref_output_units(&m->problem, 0), NULL};
    results_compute_rows(m, numerics, &rows, 1, r);
}

void results_set_all(struct attn_tensor *t, const double *values)
{
    for (int64_t x = 0; x < made_count(t); x++)
        made_set(t, x, values[x]);
}

void results_assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-14 * (1.0 + fabs(b))))
        fail_msg("%.17g is not %.17g", a, b);
}
