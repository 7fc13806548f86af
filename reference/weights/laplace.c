/* SPDX-License-Identifier: Apache-2.0 */
/* laplace.c - (1 + erf((s - mu) / (sd sqrt 2))) / 2, mu = sqrt(1/2), sd = sqrt(1 / (4 pi)). */
#include <math.h>

#include "reference/bound.h"
#include "reference/weights/weights.h"

/* 1 / (sd sqrt 2) = sqrt(2 pi), and its square. */
#define STEEP   2.50662827463100050242
#define STEEP_2 6.28318530717958647693

/* 1 + erf(x) = erfc(-x), which keeps small weights. */
static double value(double s)
{
    return 0.5 * erfc((M_SQRT1_2 - s) * STEEP);
}

/* The density is sqrt(2) exp(-2 pi (s - mu)^2), largest next to mu. The argument of erf is a
 * difference from a rounded mu and a product with a rounded number. */
static double spread(const struct ref_arithmetic *a, double s, double ds)
{
    const double off = ds + a->three * (fabs(s) + ds + M_SQRT1_2);
    const double near = fmax(fabs(s - M_SQRT1_2) - off, 0.0);

    return fmin(off * M_SQRT2 * exp(-STEEP_2 * near * near), 1.0);
}

static double relative(const struct ref_arithmetic *a, double s, double ds)
{
    (void)a, (void)s, (void)ds;
    return 0.0;
}

const struct ref_weight ref_weight_laplace = {
    .weight_fn = ATTN_WEIGHT_LAPLACE,
    .name = "laplace",
    .value = value,
    .spread = spread,
    .relative = relative,
};
