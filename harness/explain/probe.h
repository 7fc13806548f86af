/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - shared by the files that look into outputs of attention. Private to this folder. */
#ifndef ATTN_PROBE_H
#define ATTN_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "reference/reference.h"
#include "tensor/instance.h"

struct attn_probe {
    const struct attn_instance *instance;
    const struct ref_units *rows;
    const struct ref_result *ref;
    const double *want; /* [rows, Dv]: out of the reference */
    const struct attn_tensor *k, *v, *out;
    double *row;   /* [Dv], scratch */
    double beside; /* out was rounded with as much added to it (a residual) */
};

/* The indices of row r of the verdict, and the number of keys that it sees. */
struct attn_probe_row {
    int64_t b, h, g, i, n;
};
/* What query i of batch b reads as k and v: k_global and v_global if its token is global and there
 * are these. */
const struct attn_tensor *attn_probe_keys(const struct attn_problem *problem, int64_t b, int64_t i);
const struct attn_tensor *attn_probe_values(const struct attn_problem *problem, int64_t b,
                                            int64_t i);

struct attn_probe_row attn_probe_row(const struct attn_probe *probe, int64_t r);

/* Element [b, h, i, c] of a tensor of rank 4. */
double attn_probe_element(const struct attn_tensor *tensor, int64_t b, int64_t h, int64_t i,
                          int64_t c);

#endif
