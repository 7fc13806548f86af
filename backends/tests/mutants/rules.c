/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - the published rules; where they stand is in README.md. */
#include "rules.h"

#include <math.h>

#include "reference/dtype.h"

const char *const rule_names[RULES] = {"allclose", "nmse", "flashinfer", "flash2x", "onednn"};

static double rounded(uint32_t dtype, double value)
{
    double stored;
    attn_dtype_store(dtype, &stored, 0, value);
    return attn_dtype_load(dtype, &stored, 0);
}

/* Not finite, but agreed on. */
static bool same_class(const struct rule_element *e)
{
    return e->got == e->want || (isnan(e->got) && isnan(e->want));
}

void rules_apply(const struct rule_element *elements, int64_t count, uint32_t dtype, int64_t keys,
                 bool accepted[RULES])
{
    const double eps = 2 * attn_dtype_roundoff(dtype);
    double squares = 0, power = 0, worst = 0, worst_peer = 0, small = 0;
    for (int64_t n = 0; n < count; n++) {
        const struct rule_element *e = &elements[n];
        if (same_class(e) && !isfinite(e->want))
            continue;
        const double error = fabs(e->got - e->want), size = fabs(e->want);
        if (!isfinite(error)) {
            for (int r = 0; r < RULES; r++)
                accepted[r] = false;
            return;
        }
        accepted[RULE_ALLCLOSE] &= error <= 1e-2 + 1e-2 * size;
        accepted[RULE_FLASHINFER] &= error <= 1e-2 || error <= 1e-2 * size;
        accepted[RULE_ONEDNN] &=
            error <= 8 * (1 + (double)keys) * eps * size || error <= eps * e->magnitude;
        squares += error * error;
        power += size * size;
        worst = fmax(worst, error);
        worst_peer = fmax(worst_peer, fabs(e->peer - e->want));
        const double exact = rounded(dtype, e->want);
        small = fmax(small, fabs(rounded(dtype, rounded(dtype, exact + 0.3) - 0.3) - exact));
    }
    accepted[RULE_NMSE] &= squares <= 5e-4 * power;
    accepted[RULE_FLASH_2X] &= worst <= 2 * worst_peer + 2 * small;
}
