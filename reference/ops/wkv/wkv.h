/* SPDX-License-Identifier: Apache-2.0 */
/* wkv.h - what the two files of the operator share. */
#ifndef ATTN_REFERENCE_WKV_H
#define ATTN_REFERENCE_WKV_H

#include "reference/job.h"

enum { REF_WKV_OUT, REF_WKV_STATE }; /* numbers of the outputs */

int ref_wkv_compute(const struct ref_job *job);

/* Turns a, b, p of a state into what is compared: a/b, p + log b, 0. */
void ref_wkv_state(double *unit);

/* Relative error of what so many steps add to and multiply a state by; what underflows lose. */
double ref_wkv_growth(const struct ref_arithmetic *a, double steps);
double ref_wkv_lost(const struct ref_arithmetic *a, double steps);

/* allow.c: struct ref_stream. */
int ref_wkv_allow(const struct ref_operands *in, const struct ref_arithmetic *a,
                  const double *handed, double *const allowed[REF_OUTPUTS]);

#endif
