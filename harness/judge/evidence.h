/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.h - what a verdict rests on. */
#ifndef ATTN_EVIDENCE_H
#define ATTN_EVIDENCE_H

#include "reference/reference.h"
#include "tensor/instance.h"

/* The evidence of a verdict on outputs, for explanations and grades. */
struct attn_evidence {
    const struct attn_instance *instance;
    struct ref_request request;   /* what was checked; without the numerics */
    const struct ref_result *ref; /* right answers and bounds of it */
};

#endif
