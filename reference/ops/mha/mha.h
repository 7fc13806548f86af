/* SPDX-License-Identifier: Apache-2.0 */
/* mha.h - what the files of this operator share. */
#ifndef ATTN_REFERENCE_OPS_MHA_H
#define ATTN_REFERENCE_OPS_MHA_H

#include "reference/op.h"

extern const struct ref_op ref_op_mha;

int ref_mha_compute(const struct ref_job *job);

#endif
