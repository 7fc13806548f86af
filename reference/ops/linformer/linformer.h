/* SPDX-License-Identifier: Apache-2.0 */
/* linformer.h - what the two files of the operator share. */
#ifndef ATTN_REFERENCE_LINFORMER_H
#define ATTN_REFERENCE_LINFORMER_H

#include "reference/job.h"

int ref_linformer_compute(const struct ref_job *job);

#endif
