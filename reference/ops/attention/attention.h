/* SPDX-License-Identifier: Apache-2.0 */
/* attention.h - what the files of this operator share. */
#ifndef ATTN_REFERENCE_OPS_ATTENTION_H
#define ATTN_REFERENCE_OPS_ATTENTION_H

#include "reference/op.h"

extern const struct ref_op ref_op_attention;

int ref_attention_compute(const struct ref_job *job);

#endif
