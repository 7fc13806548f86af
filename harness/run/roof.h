/* SPDX-License-Identifier: Apache-2.0 */
/* roof.h - what this machine can do at most, measured in the run that it is held against. */
#ifndef ATTN_ROOF_H
#define ATTN_ROOF_H

#include <jansson.h>

#include "host/worker.h"
#include "run/session.h"

struct attn_roof {
    struct attn_ceilings ceilings; /* n_rungs 0: not measured */
    json_t *gemm; /* list of {backend, case, dtype, gflops}: products of matrices as libraries do
                     them, the practical roof. Owned */
};

/* Raises the ceilings to what is measured now: a ceiling is the most that was reached, before the
 * cases or after them. Where they cannot be measured they stay as they were. */
void attn_roof_raise(const struct attn_session *session, struct attn_roof *roof);

/* Measures the practical roof: the case lines of every NAME.roof in the plugin folder, each on the
 * backend NAME of the plugin beside it, in the types that the run's cases have. Such a line must be
 * little else than a product of matrices; its rate is by the FLOPs of attn_case_flops. Whatever is
 * missing or goes wrong leaves a line out. */
void attn_roof_products(const struct attn_session *session, struct attn_roof *roof);

#endif
