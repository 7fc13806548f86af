/* SPDX-License-Identifier: Apache-2.0 */
/* shifted.h - numbers of the tests' own operator, for plugins that compute it. */
#ifndef ATTN_REFERENCE_TESTS_SHIFTED_H
#define ATTN_REFERENCE_TESTS_SHIFTED_H

#include "reference/job.h"
#include "reference/op.h"

enum { SHIFTED_OP = 1000, SHIFTED_A = 120, SHIFTED_SUMS = 121 };

extern const struct ref_op ref_op_shifted;

#endif
