/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - reads back one pack of kept weights. The run folder is not trusted. */
#ifndef ATTN_REPORT_WEIGHTS_H
#define ATTN_REPORT_WEIGHTS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct attn_weights {
    int64_t shape[4]; /* [B,Hq,Sq,Sk], none of them 0 */
    double *values;   /* dense */
    json_t *tokens;   /* B lists of Sk strings, or NULL */
    char source[256];
};

/* Reads RUN/NAME. Returns 0, or -1 with one sentence that begins with NAME; on failure there is
 * nothing to free. */
int attn_weights_read(const char *run, const char *name, struct attn_weights *weights, char *why,
                      size_t size);
void attn_weights_free(struct attn_weights *weights);

/* One cell. Indices are not checked. */
double attn_weights_at(const struct attn_weights *weights, int64_t b, int64_t h, int64_t i,
                       int64_t j);

#endif
