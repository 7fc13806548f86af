/* SPDX-License-Identifier: Apache-2.0 */
/* sigmoid.c - 1 / (1 + exp(-s)). */
#include <math.h>

#include "reference/bound.h"
#include "reference/weights/weights.h"

/* exp of a number that is not positive: neither form overflows, and both keep small weights. */
static double value(double s)
{
    if (s >= 0.0)
        return 1.0 / (1.0 + exp(-s));
    return exp(s) / (1.0 + exp(s));
}

/* f(x) - f(y) = f(x) f(-y) (1 - exp(y - x)): nothing cancels. f rises, so the ends are worst. */
static double spread(const struct ref_arithmetic *a, double s, double ds)
{
    const double up = value(s + ds) * value(-s), down = value(s) * value(ds - s);

    (void)a;
    return fmax(up, down) * -expm1(-ds);
}

/* An exp of an argument s. */
static double relative(const struct ref_arithmetic *a, double s, double ds)
{
    return a->e_arg * (fabs(s) + ds);
}

const struct ref_weight ref_weight_sigmoid = {
    .weight_fn = ATTN_WEIGHT_SIGMOID,
    .name = "sigmoid",
    .value = value,
    .spread = spread,
    .relative = relative,
};
