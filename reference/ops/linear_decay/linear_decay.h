/* SPDX-License-Identifier: Apache-2.0 */
/* linear_decay.h - what the two files of the operator share. */
#ifndef ATTN_REFERENCE_LINEAR_DECAY_H
#define ATTN_REFERENCE_LINEAR_DECAY_H

#include "reference/job.h"

enum { REF_DECAY_OUT, REF_DECAY_STATE }; /* numbers of the outputs */

int ref_linear_decay_compute(const struct ref_job *job);

#endif
