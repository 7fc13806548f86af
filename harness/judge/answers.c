/* SPDX-License-Identifier: Apache-2.0 */
/* answers.c - memory for the reference's answers. */
#include "judge/answers.h"

#include <stdlib.h>
#include <string.h>

double *attn_answers_doubles(int64_t a, int64_t b)
{
    size_t n;
    if (__builtin_mul_overflow((size_t)a, (size_t)b, &n) || n > SIZE_MAX / sizeof(double))
        return NULL;
    return calloc(n ? n : 1, sizeof(double));
}

int attn_answers_allocate(const struct attn_problem *p, const struct ref_request *request,
                          uint32_t outputs, struct ref_result *r)
{
    r->allowed = calloc((size_t)ref_requested_rows(p, request) + 1, sizeof(int64_t));
    bool ok = r->allowed != NULL;
    for (int o = 0; o < REF_OUTPUTS && ok; o++) {
        if (!(outputs >> o & 1))
            continue;
        const int64_t n = ref_requested_units(p, request, o), width = ref_output_width(p, o);
        ok = (r->output[o].value = attn_answers_doubles(n, width)) &&
             (!request->numerics || (r->output[o].bound = attn_answers_doubles(n, width)));
    }
    return ok ? 0 : -1;
}

void attn_answers_free(struct ref_result *r)
{
    for (int o = 0; o < REF_OUTPUTS; o++) {
        free(r->output[o].value);
        free(r->output[o].bound);
    }
    for (int stage = 0; stage < 3; stage++)
        free(r->scores[stage]);
    free(r->allowed);
    memset(r, 0, sizeof *r);
}
