/* SPDX-License-Identifier: Apache-2.0 */
/* error.c - how wrong a term of linear_decay may be. OP.md derives it. */
#include <math.h>

#include "reference/ops/linear_decay/linear_decay.h"

/* Step by step the state decays and is stored at each step. In chunks it does so at the end of
 * each, and once more when it is read. */
static double crossings(const struct ref_arithmetic *a, double since)
{
    return a->decay_chunk > 0 ? floor(since / a->decay_chunk) + 1 : since + 1;
}

struct ref_decay_term ref_decay_term_of(const struct ref_arithmetic *a, int64_t dk, int64_t since,
                                        bool given)
{
    const double crossed = crossings(a, (double)since) + given, width = (double)dk;
    const bool chunked = a->decay_chunk > 0;
    const double chain =
        chunked ? a->decay_chunk + 2.0 * crossed + width + 8.0 : 2.0 * (double)since + width + 4.0;
    double growth = chunked ? ref_growth_rounded(a, chain) : ref_growth(a, chain);
    if (chunked)
        growth += a->u_p * (1.0 + growth);
    growth += ref_growth_state(a, crossed) * (1.0 + growth);
    return (struct ref_decay_term){growth, crossed};
}

double ref_decay_error(const struct ref_arithmetic *a, const struct ref_decay_term *term,
                       double steps, double way, double around)
{
    double exponent = steps * a->e_exp + way * a->e_arg;
    if (a->decay_chunk > 0)
        exponent = 2.0 * ref_growth(a, a->decay_chunk + 1.0) * around +
                   (term->crossed + 1.0) * a->e_exp + 2.0 * around * a->e_arg;
    return term->growth + (1.0 + term->growth) * expm1(exponent);
}

double ref_decay_lost(const struct ref_arithmetic *a, int64_t dk, int64_t last, double reach)
{
    return (2.0 * (double)(last + 1) + (double)dk + 4.0) * a->omega * reach +
           (crossings(a, (double)(last + 1)) + 1) * a->eta_state * reach;
}
