/* SPDX-License-Identifier: Apache-2.0 */
/* averaged.h - numbers of an operator of the tests: the mean of v, as an approximation of softmax
 * attention. */
#ifndef ATTN_REFERENCE_TESTS_AVERAGED_H
#define ATTN_REFERENCE_TESTS_AVERAGED_H

#include "reference/op.h"

enum { AVERAGED_OP = 1001 };

extern const struct ref_op ref_op_averaged;

#endif
