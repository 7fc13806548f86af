/* SPDX-License-Identifier: Apache-2.0 */
/* relu2.c - max(s, 0)^2. */
#include <math.h>

#include "reference/bound.h"
#include "reference/weights/weights.h"

static double value(double s)
{
    return s <= 0.0 ? 0.0 : s * s; /* NaN stays NaN */
}

/* The parabola is steeper on the right. */
static double spread(const struct ref_arithmetic *a, double s, double ds)
{
    const double most = fmax(s + ds, 0.0);

    (void)a;
    return s > 0.0 ? (2.0 * s + ds) * ds : most * most;
}

/* The square is rounded. */
static double relative(const struct ref_arithmetic *a, double s, double ds)
{
    (void)s, (void)ds;
    return a->u_op;
}

const struct ref_weight ref_weight_relu2 = {
    .weight_fn = ATTN_WEIGHT_RELU2,
    .name = "relu2",
    .value = value,
    .spread = spread,
    .relative = relative,
};
