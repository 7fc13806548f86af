/* SPDX-License-Identifier: Apache-2.0 */
/* roof.h - what this machine can do at most, measured in the run that is compared with it. */
#ifndef ATTN_ROOF_H
#define ATTN_ROOF_H

#include <jansson.h>

#include "host/worker.h"
#include "run/session.h"

struct attn_roof {
    struct attn_ceilings ceilings; /* n_rungs 0: not measured */
    json_t *gemm; /* list of {backend, case, dtype, gflops}: matrix products of libraries, the
                     practical roof. Owned */
};

/* Measures the ceilings and keeps the larger value of each: a ceiling is the most that was reached,
 * before the cases or after them. If they cannot be measured, they stay as they were. */
void attn_roof_raise(const struct attn_session *session, struct attn_roof *roof);

/* Takes over the `ceilings` of an earlier machine.json. False if there are none. */
bool attn_roof_restore(struct attn_roof *roof, const json_t *ceilings);

/* Measures the practical roof: the case lines of every NAME.roof in the plugin folder, each on the
 * backend NAME of the plugin beside it, in the types that the run's cases have. Such a line must be
 * little more than a matrix product; its rate counts the FLOPs of attn_case_flops. A line is left
 * out if something is missing or goes wrong. */
void attn_roof_products(const struct attn_session *session, struct attn_roof *roof);

#endif
