/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - the rows of the table of weight functions. Private to this folder. */
#ifndef ATTN_REFERENCE_WEIGHTS_H
#define ATTN_REFERENCE_WEIGHTS_H

#include "reference/weight.h"

extern const struct ref_weight ref_weight_sigmoid, ref_weight_relu2, ref_weight_laplace;

#endif
